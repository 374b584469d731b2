# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: GPL-2.0-only
#
# The dom0's part of host-init: domUs of the types pv and pvh, dom0 itself as a guest,
# and Xen's own trace as the evidence of their hypercalls.

# The hypercalls that flush, of Xen's public/xen.h: for PV guests, and for the others
mmuext_op=26 hvm_op=34

host_up()
{
	mount -t tmpfs xen /var/lib/xen
	mkdir -p /var/lib/xen/dump /run/xen /run/xenstored /run/lock /var/log/xen
	mount -t xenfs xen /proc/xen
	xenstored --pid-file /run/xenstored.pid
	tries=0
	until timeout 5 xenstore-read -s / >/dev/null 2>&1; do
		tries=$((tries + 1))
		if [ $tries -eq 20 ]; then
			echo "lab: xenstored does not answer"
			/bin/busybox poweroff -f
		fi
		sleep .3
	done
	xen-init-dom0
	xenconsoled --log=guest --log-dir="$scratch" --pid-file=/run/xenconsoled.pid
}

configuration()
{
	cat <<-EOF
	name = "$name"
	type = "${hv#xen-}"
	kernel = "$kernel"
	ramdisk = "$initrd"
	extra = "console=hvc0 $cmdline"
	memory = 256
	vcpus = $vcpus
	on_poweroff = "destroy"
	on_reboot = "destroy"
	on_crash = "destroy"
	EOF
}

# Hypercalls, direct, in multicalls and by VMMCALL, and what runs on each CPU. Xen can
# not leave out the other exits of guests that are not PV, hence the large buffers.
start_counting()
{
	rm -f "$scratch/fifo"
	mkfifo "$scratch/fifo"
	"$lab/../../build/guest/xentrace-count" <"$scratch/fifo" >"$scratch/counts" &
	counter=$!
	xentrace -D -S 2048 -s 50 -e 0x2a3000 "$scratch/fifo" 2>"$scratch/xentrace-errors" &
	tracer=$!
}

stop_counting()
{
	kill -INT "$tracer"
	wait "$tracer"
	wait "$counter"
}

show_counts()
{
	op=$hvm_op
	[ "$hv" = xen-pvh ] || op=$mmuext_op
	awk -v ids=" $ids " -v op=$op '
		$1 == "domain" && index(ids, " " $2 " ") { calls[$4] += $5 }
		$1 != "domain" { print "host.trace_" $1, $2 }
		END {
			for (nr in calls)
				print "host.hypercall." nr, calls[nr]
			print "host.flushes", calls[op] + 0
		}' "$scratch/counts"
}

# The report is in xenstore for as long as the domain lives. Watched and not polled, so
# that dom0 leaves the CPUs to the guest.
wait_for_report()
{
	rm -f "$scratch/watch"
	mkfifo "$scratch/watch"
	timeout "$limit" xenstore-watch "$data/end" @releaseDomain >"$scratch/watch" &
	watcher=$!
	why="limit $limit"
	while read -r _; do
		if lines=$(timeout 20 xenstore-read "$data/end" 2>/dev/null); then
			fetch_report
			why=''
			break
		elif ! timeout 20 xl domid "$name" >/dev/null 2>&1; then
			why=''
			break
		fi
	done <"$scratch/watch"
	[ -z "$why" ] || echo "$why"
	kill "$watcher" 2>/dev/null
	wait "$watcher"
}

fetch_report()
{
	n=0
	set --
	while [ $n -lt "$lines" ]; do
		set -- "$@" "$data/$(printf %04d $n)"
		n=$((n + 1))
	done
	timeout 60 xenstore-read "$@" >"$out/$name/report"
}

guest_word()
{
	echo "$cmdline" | tr ' ' '\n' | sed -n "s/^lab\.$1=//p"
}

# What lab.dom0=WORD on the guest's command line asks for, once its test has begun. A
# restored domain has another number.
disturb()
{
	tries=0
	until grep -q 'lab: test' "$scratch/guest-$name.log" || [ $((tries += 1)) -gt 200 ]; do
		sleep .5
	done
	sleep 2
	"disturb_$1" >&2 && echo "host.disturbed $1"
	id=$(timeout 20 xl domid "$name") || id=none
	ids="$ids $id" data=/local/domain/$id/data/lab
}

disturb_vcpus()
{
	for n in 2 "$vcpus" 1 "$vcpus"; do
		timeout 20 xl vcpu-set --ignore-host "$name" "$n" || return 1
		sleep 2
	done
}

disturb_save()
{
	timeout 120 xl save "$name" "$scratch/saved" && timeout 120 xl restore "$scratch/saved"
	status=$?
	rm -f "$scratch/saved"
	return $status
}

guest_run()
{
	if [ "$hv" = xen-dom0 ]; then
		dom0_run
	else
		domu_run
	fi
}

# dom0 was booted with pvtlb=off. It changes over for the test, which runs in the
# guests' file system.
dom0_run()
{
	root=$lab/../../build/guest/root ids=0
	for dir in proc sys dev run; do
		mount --rbind "/$dir" "$root/$dir"
	done
	mount -t tmpfs tmp "$root/tmp"
	dmesg -C
	start_counting
	echo auto >/sys/kernel/pvtlb/backend
	export words="$cmdline"
	timeout "$limit" chroot "$root" /bin/sh -c '. /tests.sh; run_test load; swapoff /dev/ram0' ||
		echo "limit $limit"
	cp /run/facts "$out/$name/report"
	echo off >/sys/kernel/pvtlb/backend
	stop_counting
	dmesg >"$out/$name/console"
	show_counts
}

# Benchmarks are not counted: Xen's trace has every exit of a guest that is not PV.
domu_run()
{
	configuration >"$scratch/config"
	: >"$scratch/counts"
	counted=1
	[ "$(guest_word test)" != bench ] || counted=0
	[ $counted -eq 0 ] || start_counting
	timeout 60 xl create "$scratch/config" >&2
	id=$(timeout 20 xl domid "$name") || id=none
	ids=$id data=/local/domain/$id/data/lab
	how=$(guest_word dom0)
	if [ "$id" != none ]; then
		[ -z "$how" ] || disturb "$how"
		wait_for_report
	fi
	[ $counted -eq 0 ] || stop_counting
	timeout 30 xl destroy "$name" >&2
	cp "$scratch/guest-$name.log" "$out/$name/console"
	cat "/var/log/xen/xl-$name.log" >&2
	[ $counted -eq 0 ] || cat "$scratch/xentrace-errors" >&2
	show_counts
}

guest_shell()
{
	configuration >"$scratch/config"
	xl create -c "$scratch/config"
}
