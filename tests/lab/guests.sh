# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: GPL-2.0-only
#
# Running guests on the lab's hypervisors, to be sourced. The caller sets $top
# (the repository), defines guest_done NAME, which is called as soon as a
# guest has ended, and then:
#
#	lab_setup OUT		OUT, a directory below build/, gets all logs
#	run_guests TABLE	a line a guest: name|hv|kernel|vcpus|limit|cmdline
#	problem NAME		prints why a guest did not do what it should, or nothing
#	fact NAME KEY		prints a fact of a guest
#
# hv is native (QEMU's emulation without any hypervisor interface), kvm, hyperv,
# kvm+hyperv (KVM that shows both interfaces), hyperv64 and kvm+hyperv64 (VP indexes
# above 63), xen-pv, xen-pvh or xen-dom0. limit is in seconds. All guests on one
# host follow each other in one boot of the host. Directory OUT/<name>/ holds
# console, report, host (see host-init) and facts, which is all of it as lines
# "key value".

lab=$top/tests/lab
lab_started='' lab_poker=''

# Anything here in a console fails the guest.
splats='BUG:|WARNING:|Oops|Call Trace|general protection|RIP:|lockup|rcu.*stall|INFO: (rcu|task)|blocked for more|Kernel panic|KASAN|UBSAN|KCSAN|Bad page|Bad rss|unable to handle|double fault|triple fault|Segmentation fault|segfault|stack-protector|refcount_t'

# The part of it that is not the lab's doing, see lost()
blame='BUG:|WARNING:|Oops|general protection|Kernel panic|KASAN|UBSAN|KCSAN|Bad page|Bad rss|unable to handle|double fault|Segmentation fault|segfault|stack-protector|refcount_t'

# Before any guest has run, what it left behind says so: silence is a failure.
unrun="did not run"

lab_setup()
{
	out=$1
	rm -rf "$out"
	mkdir -p "$out"
	trap 'lab_end' EXIT
	trap 'exit 130' INT TERM HUP
}

lab_end()
{
	[ -z "$lab_started" ] || kill -KILL "$lab_started" 2>/dev/null || :
	[ -z "$lab_poker" ] || kill "$lab_poker" 2>/dev/null || :
	lab_started='' lab_poker=''
}

# A character a second for the host's serial port $1, a fifo. QEMU changes a CPU's word
# of pending interrupts without a lock on each entry and exit of a nested guest, and
# now and then loses one, which may be the timer's. Any other interrupt makes
# the CPU look again.
poke()
{
	rm -f "$1"
	mkfifo "$1"
	(exec >/dev/null 2>&1 3<>"$1"; while sleep 1; do echo >&3; done) &
	lab_poker=$!
}

# $KERNEL_IMAGE runs another kernel than the one built, for trying out.
kernel_image()
{
	echo "${KERNEL_IMAGE:-$top/build/kernel-$1/arch/x86/boot/bzImage}"
}

nonce()
{
	od -An -N8 -tx1 /dev/urandom | tr -d ' \n'
}

# The hypervisor has to be known from the machine's package, unpacked.
xen_image()
{
	[ -s "$top/build/xen-4.17" ] || gzip -dc /boot/xen-4.17-amd64.gz >"$top/build/xen-4.17"
	echo "$top/build/xen-4.17"
}

prepare_guest()
{
	mkdir -p "$out/$1"
	for f in console report host facts host-errors; do
		echo "$unrun" >"$out/$1/$f"
	done
	nonce >"$out/$1/nonce"
}

# Appends an archive with the contents of directory $2 to the initramfs $1. The kernel
# wants each archive on a 4-byte boundary.
append_to_initramfs()
{
	while [ $(($(wc -c <"$1") % 4)) -ne 0 ]; do
		printf '\0' >>"$1"
	done
	(cd "$2" && find . -type f | sed 's/^\.\///' | cpio -o -H newc -R 0:0 --quiet) >>"$1"
}

# What a guest that is to start another kernel needs: the kernel, and the usual initramfs
kexec_initramfs()
{
	[ -s "$out/kexec-initramfs-$1" ] || {
		mkdir -p "$out/kexec-root-$1"
		cp "$(kernel_image "$1")" "$out/kexec-root-$1/kexec-kernel"
		cp "$top/build/guest/initramfs.gz" "$out/kexec-root-$1/kexec-initrd"
		cp "$top/build/guest/initramfs.gz" "$out/kexec-initramfs-$1"
		append_to_initramfs "$out/kexec-initramfs-$1" "$out/kexec-root-$1"
	}
	echo "$out/kexec-initramfs-$1"
}

# Selects the guests of one host and adds what host-init wants to know. loglevel=5
# so that what WARN() says reaches the console.
host_table()
{
	while IFS='|' read -r name hv kernel vcpus limit cmdline; do
		echo "$hv" | grep -qxE "$2" || continue
		n=$(cat "$out/$name/nonce")
		initrd=${INITRD:-$top/build/guest/initramfs.gz}
		case $cmdline in
		*lab.test=kexec*) initrd=$(kexec_initramfs "$kernel") ;;
		esac
		echo "$name|$hv|$vcpus|$limit|$n|$(kernel_image "$kernel")|$initrd|loglevel=5 panic=-1 log_buf_len=1M lab.nonce=$n $cmdline"
	done <"$1"
}

# QEMU's part that is the same for both hosts: the root, and the share for results
shares()
{
	printf '%s\n' -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=root \
		-fsdev "local,id=out,path=$1,security_model=none,multidevs=remap" \
		-device virtio-9p-pci,fsdev=out,mount_tag=out \
		-display none -monitor none -no-reboot -net none
}

root_options="root=root rootfstype=9p rootflags=trans=virtio,version=9p2000.L,msize=262144,cache=loose ro"

# kvm_host and xen_host become QEMU: call them in a subshell. $1: directory for
# results, $2: further kernel options, the rest: options for QEMU's serial port.
#
# -xsave: QEMU's SVM lets a guest change XCR0 behind its hypervisor's back.
#
# tsc_tolerance_ppm: KVM knows the TSC's frequency from early in the boot, and Linux
# corrects its own later. Beyond 250 ppm of difference (emulation easily gets
# there) KVM lets the guest's TSC catch up with its clock again and again, which
# costs such a guest its timer interrupts.
kvm_host()
{
	dir=$1 options=$2
	shift 2
	# shellcheck disable=SC2046 # one word a line
	exec qemu-system-x86_64 -accel tcg,thread=multi -cpu max,+svm,-xsave -smp "${PCPUS:-2}" -m 3072 -M q35 \
		-kernel "$(kernel_image 6.12)" \
		-append "console=ttyS0 quiet panic=-1 tsc=reliable kvm.tsc_tolerance_ppm=100000 pvtlb=off $root_options init=$lab/host-init lab.host=kvm $options" \
		$(shares "$dir") "$@"
}

# -smap: QEMU 7.2 faults on the IRETQ of a PV kernel otherwise. -xsave: as above. +invtsc: Xen kills a PVH guest at its
# first RDTSCP otherwise. A comma in -initrd is doubled.
xen_host()
{
	dir=$1 options=$2
	shift 2
	# shellcheck disable=SC2046 # one word a line
	exec qemu-system-x86_64 -accel tcg,thread=multi -cpu max,x-force-features=on,+svm,+invtsc,-smap,-smep,-xsave -smp "${PCPUS:-2}" -m 3072 -M q35 \
		-kernel "$(xen_image)" \
		-append "console=com1 com1=115200,8n1 dom0_mem=1024M,max:1024M dom0_max_vcpus=2 loglvl=error guest_loglvl=error noreboot clocksource=tsc tsc=stable:socket" \
		-initrd "$(echo "$(kernel_image 6.12) console=hvc0 quiet panic=-1 pvtlb=off $root_options init=$lab/host-init lab.host=xen $options" | sed 's/,/,,/g')" \
		$(shares "$dir") "$@"
}

# Tells what runs while it runs, and calls guest_done for each guest that has ended. A
# host in which a guest outlives its limit by a minute is ended.
watch_host()
{
	begin=$(date +%s) last='' told=$begin since=$begin
	pending=$(cut -d'|' -f1 "$1/guests")
	while :; do
		alive=1
		kill -0 "$lab_started" 2>/dev/null || alive=0
		still=''
		for name in $pending; do
			if grep -qx "host.done $(cat "$out/$name/nonce")" "$out/$name/host"; then
				finish_guest "$name"
			else
				still="$still $name"
			fi
		done
		pending=$still
		[ $alive -eq 1 ] || break
		now=$(date +%s) running=$(cat "$1/running" 2>/dev/null) || running="the $2 host"
		[ "$running" = "$last" ] || since=$now
		if [ "$running" != "$last" ] || [ $((now - told)) -ge 20 ]; then
			echo "lab: $2: booting $running, $((now - begin)) s"
			last=$running told=$now
		fi
		limit=$(awk -F'|' -v name="$running" '$1 == name { print $4 }' "$1/guests")
		if [ $((now - since)) -gt $((${limit:-60} + 60)) ]; then
			echo "lab: $2 host: no progress for $((now - since)) s"
			lab_end
			break
		fi
		sleep 1
	done
	wait "$lab_started" 2>/dev/null || :
	lab_started=''
	lab_end
	for name in $pending; do
		finish_guest "$name"
	done
}

# Results are seen by the host through $out, so its own files lie there too.
run_host()
{
	table=$1 host=$2 which=$3
	host_table "$table" "$which" >"$out/guests.new"
	[ -s "$out/guests.new" ] || return 0
	rm -f "$out/running"
	mv "$out/guests.new" "$out/guests"
	poke "$out/poke"
	("${host}_host" "$out" '' -serial stdio <"$out/poke" >>"$out/$host-host-console" 2>&1) &
	lab_started=$!
	watch_host "$out" "$host"
}

native_qemu()
{
	exec qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp "$vcpus" -m 512 -M q35 -nodefaults \
		-kernel "$kernel" -initrd "$initrd" -append "console=ttyS0 tsc=reliable $cmdline" \
		-display none -monitor none -no-reboot -net none "$@"
}

run_native()
{
	host_table "$1" native >"$out/native-guests"
	while IFS='|' read -r name hv vcpus limit n kernel initrd cmdline; do
		begin=$(date +%s)
		echo "lab: native: booting $name"
		(native_qemu -serial stdio -device virtio-serial-pci \
			-chardev "file,id=report,path=$out/$name/report" \
			-device virtserialport,chardev=report,name=lab </dev/null >"$out/$name/console" 2>&1) &
		lab_started=$!
		while kill -0 "$lab_started" 2>/dev/null; do
			if [ $(($(date +%s) - begin)) -gt "$limit" ]; then
				lab_end
				break
			fi
			sleep .5
		done
		wait "$lab_started" 2>/dev/null || :
		lab_started=''
		# There is no host mechanism below a native guest, hence nothing to count.
		printf 'host.flushes 0\nseconds %d\nhost.done %s\n' $(($(date +%s) - begin)) "$n" >"$out/$name/host"
		finish_guest "$name" </dev/null
	done <"$out/native-guests"
}

# Lost by the lab (see README.md): no word from the guest, and no complaint of its
# kernel but that a CPU stalls. Never tried: its host was gone by then.
lost()
{
	! grep -q '^verdict ' "$out/$1/report" && ! grep -qE "$blame" "$out/$1/console"
}

never_tried()
{
	grep -qx "$unrun" "$out/$1/console" && grep -qx "$unrun" "$out/$1/host"
}

# A guest's console without the panic that its test asks for
console()
{
	sed '/lab: panic comes now/,/lab: test/d' "$out/$1/console"
}

finish_guest()
{
	{
		cat "$out/$1/report" "$out/$1/host"
		echo "splats $(console "$1" | grep -cE "$splats")"
		echo "splat $(console "$1" | grep -m1 -E "$splats" | tr -d '\r')"
		echo "panics $(grep -c 'Kernel panic - not syncing: sysrq triggered crash' "$out/$1/console")"
		echo "killed $(grep -c 'terminating on signal' "$out/$1/console")"
	} >"$out/$1/facts"
	if [ "$tries_left" -gt 0 ] && lost "$1"; then
		again="$again $1"
		never_tried "$1" || max_lost=$((max_lost - 1))
		echo "again $1: $(problem "$1")"
	else
		guest_done "$1"
	fi
}

fact()
{
	sed -n "s/^$2 //p" "$out/$1/facts" | tail -n 1
}

# What is wrong with a guest whatever was expected of it
problem()
{
	dir=$out/$1 n=$(cat "$out/$1/nonce")
	verdict=$(sed -n "s/^verdict $n //p" "$dir/report")
	if grep -qx "$unrun" "$dir/host" "$dir/console"; then
		echo "the host ended before this guest did, see $out/*-host-console"
	elif [ "$(fact "$1" splats)" != 0 ]; then
		echo "console: $(fact "$1" splat)"
	elif [ -z "$verdict" ]; then
		echo "no verdict from the guest within its time, last line: $(tail -n 1 "$dir/console" | tr -d '\r' | cut -c1-120)"
	elif [ "$verdict" != ok ]; then
		echo "${verdict#failed }"
	elif ! grep -qx "host.done $n" "$dir/host"; then
		echo "the host did not report"
	fi
}

run_table()
{
	while IFS='|' read -r name rest; do
		prepare_guest "$name"
	done <"$1"
	run_native "$1"
	run_host "$1" kvm '(kvm|hyperv|kvm[+]hyperv)(64)?'
	run_host "$1" xen 'xen-.*'
}

# Guests that the lab lost are run again, at most four times each and $max_lost in all.
run_guests()
{
	max_lost=20
	cp "$1" "$out/table-now"
	for tries_left in 4 3 2 1 0; do
		again=''
		run_table "$out/table-now"
		[ -n "$again" ] || break
		if [ $max_lost -lt 0 ]; then
			for name in $again; do
				guest_done "$name"
			done
			break
		fi
		for name in $again; do
			mv "$out/$name" "$out/$name.lost-$tries_left"
			grep "^$name|" "$1"
		done >"$out/table-now"
	done
}
