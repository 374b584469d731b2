# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: GPL-2.0-only
#
# The KVM host's part of host-init: guests with KVM's interface and guests with
# Hyper-V's, and KVM's own events as the evidence of what they asked for.

events=/sys/kernel/tracing/events/kvm
hyperv_cpu=host,kvm=off,hv-vpindex,hv-tlbflush,hv-synic,hv-stimer,hv-time,hv-relaxed,hv-vapic,hv-runtime,hv-reset,hv-ipi,hv-xmm-input,hv-tlbflush-ext

# Histograms count in the kernel; a trace buffer would overflow.
counted="kvm_pv_tlb_flush:need_flush_tlb kvm_hypercall:nr kvm_hv_hypercall:code"

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

# Lines "<value> <count>" of an event's histogram
counts()
{
	sed -n 's/^{ [a-z_]*: *\([0-9]*\) *} hitcount: *\([0-9]*\).*/\1 \2/p' "$events/$1/hist"
}

# need_flush_tlb is a truth value: any but 0 is a flush that the guest left to the host.
show_counts()
{
	counts kvm_pv_tlb_flush | awk '
		{ n[$1 != 0] += $2 }
		END { print "host.pv_flush", n[1] + 0; print "host.pv_noflush", n[0] + 0 }'
	counts kvm_hypercall | awk '{ print "host.hypercall." $1, $2 }'
	counts kvm_hv_hypercall | awk '
		{ printf "host.hv_hypercall.0x%x %d\n", $1, $2; n[$1] = $2 }
		END {
			print "host.hv_flush", n[2] + n[3] + n[19] + n[20]
			print "host.hv_flush_ex", n[19] + n[20]
		}'
}

flushes()
{
	case $hv in
	kvm) sed -n 's/^host.pv_flush/host.flushes/p' ;;
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
	kvm) cpu=host smp=$vcpus ;;
	hyperv) cpu=$hyperv_cpu smp=$vcpus ;;
	hyperv64) cpu=$hyperv_cpu smp=2,sockets=128,maxcpus=128 ;;
	esac
	[ "$hv" != hyperv64 ] ||
		set -- "$@" -device "host-x86_64-cpu,socket-id=100,core-id=0,thread-id=0" \
			-device "host-x86_64-cpu,socket-id=127,core-id=0,thread-id=0"
	timeout -k 5 "$limit" qemu-system-x86_64 -accel kvm -cpu "$cpu$(cpu_features)" -smp "$smp" -m 512 -M q35,hpet=off \
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
