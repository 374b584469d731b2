# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: GPL-2.0-only
#
# The KVM host's part of host-init: guests with KVM's interface, with Hyper-V's, and
# with both, and KVM's own events as the evidence of what they asked for.

events=/sys/kernel/tracing/events/kvm
hyperv_cpu=hv-vpindex,hv-tlbflush,hv-synic,hv-stimer,hv-time,hv-relaxed,hv-vapic,hv-runtime,hv-reset,hv-ipi,hv-xmm-input,hv-tlbflush-ext

# Histograms count in the kernel; a trace buffer would overflow.
counted="kvm_pv_tlb_flush:need_flush_tlb kvm_hypercall:nr kvm_hv_hypercall:code,fast kvm_hv_hypercall_done:result
	kvm_hv_flush_tlb:flags kvm_hv_flush_tlb_ex:flags"

host_up()
{
	[ -e /dev/kvm ] || echo "lab: this host has no /dev/kvm"
}

start_counting()
{
	for c in $counted; do
		trigger=$events/${c%:*}/trigger
		echo "!hist:keys=${c#*:}" >"$trigger" 2>/dev/null
		echo "hist:keys=${c#*:}" >"$trigger" || echo "lab: cannot count $c" >&2
	done
}

# Lines "<value>... <count>" of an event's histogram
counts()
{
	sed -n 's/^{ \(.*\) *} hitcount: *\([0-9]*\).*/\1 \2/p' "$events/$1/hist" | sed 's/[a-z_]*: *//g; s/,/ /g'
}

# need_flush_tlb is a truth value: any but 0 is a flush that the guest left to the host.
# Nr. 1 to 12 are KVM's hypercalls; codes 2, 3, 0x13 and 0x14 are flushes, 8 is a notice
# of spinning, 0xb and 0x15 are IPIs. Everything else, and any status but success, is
# a call that meant something else than the host took it for.
show_counts()
{
	counts kvm_pv_tlb_flush | awk '
		{ n[$1 != 0] += $2 }
		END { print "host.pv_flush", n[1] + 0; print "host.pv_noflush", n[0] + 0 }'
	counts kvm_hypercall | awk '
		{ print "host.hypercall." $1, $2; if ($1 < 1 || $1 > 12) odd += $2 }
		END { print "host.hypercall_odd", odd + 0 }'
	counts kvm_hv_hypercall | awk '
		{
			printf "host.hv_hypercall.0x%x.%s %d\n", $1, $2 ? "fast" : "memory", $3
			n[$1] += $3
			if ($1 == 2 || $1 == 3 || $1 == 19 || $1 == 20)
				form[$2 != 0] += $3
			else if ($1 != 8 && $1 != 11 && $1 != 21)
				odd += $3
		}
		END {
			print "host.hv_flush", n[2] + n[3] + n[19] + n[20]
			print "host.hv_flush_ex", n[19] + n[20]
			print "host.hv_flush_list", n[3] + n[20]
			print "host.hv_flush_fast", form[1] + 0
			print "host.hv_flush_memory", form[0] + 0
			print "host.hv_spin", n[8] + 0
			print "host.hv_ipi", n[11] + n[21]
			print "host.hv_odd", odd + 0
		}'
	# Bits 15:0 are the status, and bit 1 of the flags means all address spaces.
	counts kvm_hv_hypercall_done | awk '
		$1 % 65536 { n += $2 }
		END { print "host.hv_failed", n + 0 }'
	{ counts kvm_hv_flush_tlb; counts kvm_hv_flush_tlb_ex; } | awk '
		{ n[int($1 / 2) % 2] += $2 }
		END { print "host.hv_one_space", n[0] + 0; print "host.hv_all_spaces", n[1] + 0 }'
}

# A guest with both interfaces may use either.
flushes()
{
	case $hv in
	kvm) sed -n 's/^host.pv_flush/host.flushes/p' ;;
	kvm+hyperv*) awk '/^host.(pv|hv)_flush / { n += $2 } END { print "host.flushes", n }' ;;
	*) sed -n 's/^host.hv_flush /host.flushes /p' ;;
	esac
}

# lab.cpu=FEATURE,...: what QEMU is to change in the CPU that it shows
cpu_features()
{
	echo "$cmdline" | tr ' ' '\n' | sed -n 's/^lab\.cpu=/,/p'
}

# hyperv64 has VP indexes beyond 63, so that only the Ex hypercalls can name them.
qemu()
{
	case $hv in
	kvm) cpu=host ;;
	hyperv*) cpu=host,kvm=off,$hyperv_cpu ;;
	kvm+hyperv*) cpu=host,$hyperv_cpu ;;
	esac
	smp=$vcpus
	case $hv in
	*64)
		smp=2,sockets=128,maxcpus=128
		set -- "$@" -device "host-x86_64-cpu,socket-id=100,core-id=0,thread-id=0" \
			-device "host-x86_64-cpu,socket-id=127,core-id=0,thread-id=0"
		;;
	esac
	timeout -k 5 "$limit" qemu-system-x86_64 -D "$out/$name/qemu.log" -d cpu_reset,guest_errors -accel kvm -cpu "$cpu$(cpu_features)" -smp "$smp" -m 512 -M q35,hpet=off \
		-nodefaults -kernel "$kernel" -initrd "$initrd" -append "console=ttyS0 $cmdline" \
		-display none -no-reboot -net none "$@"
}

guest_run()
{
	start_counting
	qemu -serial stdio -device virtio-serial-pci -chardev "file,id=report,path=$out/$name/report" \
		-device virtserialport,chardev=report,name=lab 2>&1 | cat >"$out/$name/console"
	show_counts >"$scratch/counts"
	cat "$scratch/counts"
	flushes <"$scratch/counts"
}

guest_shell()
{
	qemu -chardev stdio,id=console,signal=off -serial chardev:console
}
