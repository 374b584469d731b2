# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: GPL-2.0-only
#
# The dom0's part of host-init: PV domUs, and Xen's own trace as the evidence of
# their hypercalls.

mmuext_op=26

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
	type = "pv"
	kernel = "$kernel"
	ramdisk = "$initrd"
	extra = "console=hvc0 $cmdline"
	memory = 384
	vcpus = $vcpus
	on_poweroff = "destroy"
	on_reboot = "destroy"
	on_crash = "destroy"
	EOF
}

# PV hypercalls, direct and in multicalls, and what runs on each CPU
start_counting()
{
	rm -f "$scratch/fifo"
	mkfifo "$scratch/fifo"
	"$lab/../../build/guest/xentrace-count" <"$scratch/fifo" >"$scratch/counts" &
	counter=$!
	xentrace -D -S 512 -s 50 -e 0x223000 "$scratch/fifo" 2>"$scratch/xentrace-errors" &
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
	awk -v id="$id" -v op=$mmuext_op '
		$1 == "domain" && $2 == id { print "host.hypercall." $4, $5; if ($4 == op) n = $5 }
		$1 != "domain" { print "host.trace_" $1, $2 }
		END { print "host.flushes", n + 0 }' "$scratch/counts"
}

# The report is in xenstore for as long as the domain lives.
wait_for_report()
{
	end=$(($(uptime) + limit)) polls=0
	while [ "$(uptime)" -lt $end ]; do
		if lines=$(timeout 20 xenstore-read "$data/end" 2>/dev/null); then
			fetch_report
			return
		fi
		polls=$((polls + 1))
		[ $((polls % 5)) -ne 0 ] || timeout 20 xl domid "$name" >/dev/null 2>&1 || return 0
		sleep .5
	done
	echo "limit $limit"
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

guest_run()
{
	configuration >"$scratch/config"
	start_counting
	timeout 60 xl create "$scratch/config" >&2
	id=$(timeout 20 xl domid "$name") || id=none
	data=/local/domain/$id/data/lab
	[ "$id" = none ] || wait_for_report
	stop_counting
	timeout 30 xl destroy "$name" >&2
	cp "$scratch/guest-$name.log" "$out/$name/console"
	cat "$scratch/xentrace-errors" >&2
	show_counts
}

guest_shell()
{
	configuration >"$scratch/config"
	xl create -c "$scratch/config"
}
