# shellcheck shell=sh disable=SC2154,SC2013
# SPDX-License-Identifier: GPL-2.0-only
#
# The tests that a guest can be asked for, see init. Each one records facts and
# fails only when it could not do its work; whether the facts are those wanted
# is decided on the host (tests/boot/run).

pvtlb=/sys/kernel/pvtlb
tracing=/sys/kernel/tracing
names="upstream native kvm hyperv xen xen-hvm"

# A word of the kernel command line, or of $words
word()
{
	echo "${words:-$(cat /proc/cmdline)}" | tr ' ' '\n' | sed -n "s/^lab\.$1=//p" | tail -n 1
}

fact()
{
	echo "$*" >>/run/facts
}

# To file descriptor 3, which init reads: why the test could not be done.
fail()
{
	echo "$*" >&3
	exit 1
}

need_pvtlb()
{
	[ -d $pvtlb ] || fail "there is no $pvtlb"
}

vmstat()
{
	sed -n "s/^$1 //p" /proc/vmstat
}

log_lines()
{
	dmesg -r | sed -n 's/^<\([0-9]*\)>\(\[[^]]*\] *\)\{0,1\}pvtlb: /\1 pvtlb: /p'
}

# Warnings are level 4.
facts_of_boot()
{
	log_lines | sed 's/^[0-9]* //' | grep -E '^pvtlb: (off, because|[a-z-]+: .*\(.*also available:)' >/run/boot_lines
	fact "boot_line $(head -n 1 /run/boot_lines)"
	fact "boot_lines $(grep -c . /run/boot_lines)"
	fact "warnings $(log_lines | grep -c '^4 ')"
	log_lines | sed -n 's/^4 /warning /p' >>/run/facts
	fact "backend $(cat $pvtlb/backend)"
	fact "reason $(cat $pvtlb/reason)"
	fact "available $(cat $pvtlb/available)"
	fact "cpus $(nproc)"
}

# By one process, because starting one flushes too.
snapshot_stats()
{
	(cd $pvtlb/stats && grep . ./*) | sed 's/^\.\///; s/:/ /' >"/run/$1"
}

flushes()
{
	awk '/^flush_/ { n += $2 } END { print n + 0 }' "/run/$1"
}

facts_of_stats()
{
	sed 's/^/stat./' "/run/$1" >>/run/facts
	fact "stat.flushes $(flushes "$1")"
	fact "stat.unaccounted $(awk '{ s[$1] = $2 } END { print s["asked"] - s["lazy"] - s["deferred"] - s["ipi"] }' "/run/$1")"
}

# Counts events in the kernel, so that none is lost however many there are.
hist_on()
{
	echo "$2" >>"$tracing/events/$1/trigger" || fail "trigger $2 on $1 is refused"
}

# Sum of a value over the entries of a histogram that match a pattern
hist_sum()
{
	grep -E "$2" "$tracing/events/$1/hist" |
		sed -n "s/.*[ }]$3: *\([0-9]*\).*/\1/p" | awk '{ n += $1 } END { print n + 0 }'
}

events_on()
{
	echo 16384 >$tracing/buffer_size_kb
	hist_on pvtlb/pvtlb_flush 'hist:keys=kind,backend:vals=asked,deferred'
	hist_on pvtlb/pvtlb_flush 'hist:keys=hypercalls'
	hist_on pvtlb/pvtlb_hypercall 'hist:keys=op,input,text'
	hist_on tlb/tlb_flush 'hist:keys=reason'
	echo 1 >$tracing/events/pvtlb/enable
}

facts_of_events()
{
	fact "event.flushes $(hist_sum pvtlb/pvtlb_flush 'kind: ' hitcount)"
	fact "event.one_call $(hist_sum pvtlb/pvtlb_flush 'hypercalls: *1 ' hitcount)"
	fact "event.more_calls $(hist_sum pvtlb/pvtlb_flush 'hypercalls: *([2-9]|1[0-9]+) ' hitcount)"
	for kind in user batch kernel all; do
		fact "event.$kind $(hist_sum pvtlb/pvtlb_flush "kind: $kind " hitcount)"
	done
	fact "event.tlb_flush $(hist_sum tlb/tlb_flush . hitcount)"
}

# event.call.<last word of its name>.<input> how many, and event.failed.<the same>
facts_of_hypercalls()
{
	sed -n 's/^{ op: *\([^ ,]*\) *, input: *\([^ ,]*\) *, text: *\([^ ,]*\) *} hitcount: *\([0-9]*\).*/\1 \2 \3 \4/p' \
		$tracing/events/pvtlb/pvtlb_hypercall/hist | awk '
		{
			sub(/^HvCallFlushVirtualAddress/, "", $1)
			name = $1 "." $2
			n[name] += $4
			if ($3 != "HV_STATUS_SUCCESS" && $3 != "success")
				failed[name] += $4
		}
		END {
			for (name in n) {
				print "event.call." name, n[name]
				all += n[name]
			}
			print "event.calls", all + 0
			for (name in failed)
				print "event.failed." name, failed[name]
		}' >>/run/facts
}

show_events()
{
	for pattern in 'kind=user' 'kind=batch' 'kind=kernel' 'kind=all' pvtlb_hypercall: pvtlb_backend:; do
		grep "$pattern" $tracing/trace | head -n 2
	done
}

# lab.cpus=MASK keeps the load off some CPUs, so that flushes are not for all of them.
load()
{
	if [ -n "$(word cpus)" ]; then
		taskset "$(word cpus)" tlb-load "$@"
	else
		tlb-load "$@"
	fi
}

run_load()
{
	load -t "$@" >/run/load 2>&1
	rc=$?
	cat /run/load
	fact "load $rc"
	fact "load_line $(tail -n 1 /run/load)"
	[ $rc -eq 0 ] || fail "load: $(head -n 1 /run/load)"
}

# The usual one: a short load whose events are shown, then one for the figures
test_load()
{
	need_pvtlb
	events_on
	remote=$(vmstat nr_tlb_remote_flush)
	snapshot_stats before
	load -t 1 || fail "the short load ended with status $?"
	show_events
	echo 0 >$tracing/events/pvtlb/enable
	run_load "$seconds"
	fact "remote_flushes $(($(vmstat nr_tlb_remote_flush) - remote))"
	facts_of_events
	facts_of_hypercalls
	facts_of_boot
	snapshot_stats after
	facts_of_stats after
}

# A kernel without pvtlb: nothing of it is there, and flushes work as ever.
test_disabled()
{
	[ ! -d $pvtlb ] || fail "$pvtlb is there"
	fact "log_lines $(log_lines | wc -l)"
	fact "events $(find $tracing/events -maxdepth 1 -name pvtlb | wc -l)"
	remote=$(vmstat nr_tlb_remote_flush)
	run_load "$seconds"
	fact "remote_flushes $(($(vmstat nr_tlb_remote_flush) - remote))"
}

# lab.bench=WORD+WORD...: the arguments of flush-bench
test_bench()
{
	need_pvtlb
	# shellcheck disable=SC2046 # words are wanted
	flush-bench $(word bench | tr + ' ') || fail "flush-bench ended with status $?"
}

# Nothing but the facts of a boot; for KUnit also what it printed
test_boot()
{
	need_pvtlb
	facts_of_boot
	dmesg | sed -n 's/^\[[^]]*\] //; /^KTAP version 1/,$s/^/ktap /p' >>/run/facts
	sed -n 's/^ktap     \(not ok\|ok\) [0-9]* \([a-z_]*\)\( # .*\)\{0,1\}$/kunit.\2 \1\3/p' /run/facts >/run/cases
	cat /run/cases >>/run/facts
}

# $1 must be refused with the words $2 and change nothing.
refused()
{
	before=$(cat $pvtlb/backend)
	# shellcheck disable=SC2116 # not its output is wanted but its complaint
	answer=$(echo "$1" 2>&1 >$pvtlb/backend) && fail "writing '$1' to backend is accepted"
	case $answer in
	*"$2"*) ;;
	*) fail "writing '$1' to backend gives '$answer', not $2" ;;
	esac
	[ "$(cat $pvtlb/backend)" = "$before" ] || fail "a refused '$1' changed the backend"
}

test_sysfs()
{
	need_pvtlb
	for bad in banana native,kvm 'native kvm' nativ natively ' native' "$(seq -s x 1 300)"; do
		refused "$bad" "Invalid argument"
	done
	away=0
	for name in $names; do
		case " $(cat $pvtlb/available) " in
		*" $name "*) continue ;;
		esac
		refused "$name" "No such device"
		away=$((away + 1))
	done
	fact "unavailable $away"
	for name in $(cat $pvtlb/available) off auto; do
		echo "$name" >$pvtlb/backend || fail "switching to $name is refused"
		now=$(cat $pvtlb/backend)
		[ "$name" = auto ] || [ "$now" = "$name" ] || fail "wrote $name, reads $now"
	done
	facts_of_boot
}

facts_of_locks()
{
	cat /run/locks
	sed 's/.*rounds=\([0-9]*\) slowest=\([0-9]*\).*/lock_rounds \1\nlock_slowest \2/' /run/locks >>/run/facts
}

# Through all backends, off and auto, again and again, while the load runs, with
# lab.locks=1 beside one that contends for spinlocks
test_switch()
{
	need_pvtlb
	snapshot_stats before
	hist_on pvtlb/pvtlb_backend 'hist:keys=backend,action'
	tlb-load -t "$seconds" >/run/load 2>&1 &
	load=$!
	[ -z "$(word locks)" ] || lock-load -t "$seconds" >/run/locks 2>&1 &
	locks=$!
	switches=0
	pause=$(word pause)
	while kill -0 $load 2>/dev/null; do
		for name in $(cat $pvtlb/available) off auto; do
			echo "$name" >$pvtlb/backend || fail "switching to $name is refused under load"
			now=$(cat $pvtlb/backend)
			[ "$name" = auto ] || [ "$now" = "$name" ] || fail "wrote $name, reads $now"
			switches=$((switches + 1))
			usleep "${pause:-20000}"
		done
	done
	wait "$load"
	rc=$?
	cat /run/load
	fact "load $rc"
	fact "load_line $(tail -n 1 /run/load)"
	[ $rc -eq 0 ] || fail "load: $(head -n 1 /run/load)"
	if [ -n "$(word locks)" ]; then
		wait $locks || fail "lock-load: $(cat /run/locks)"
		facts_of_locks
	fi
	fact "switches $switches"
	fact "event.backend $(hist_sum pvtlb/pvtlb_backend . hitcount)"
	for name in $(cat $pvtlb/available); do
		fact "event.backend.$name $(hist_sum pvtlb/pvtlb_backend "backend: $name " hitcount)"
	done
	facts_of_boot
	snapshot_stats after
	facts_of_stats after
}

test_both()
{
	test_load
	test_switch
}

# What an interrupted load and those after it say of a backend that was disturbed
load_in_background()
{
	tlb-load -t "$seconds" >/run/load 2>&1 &
	load=$!
}

load_ended()
{
	wait "$load"
	rc=$?
	cat /run/load
	fact "load $rc"
	fact "load_line $(tail -n 1 /run/load)"
	[ $rc -eq 0 ] || fail "load: $(head -n 1 /run/load)"
}

# After the disturbance: what the statistics say of a load that was not disturbed
facts_of_another_load()
{
	snapshot_stats before
	tlb-load -t 2 || fail "the load after it all ended with status $?"
	facts_of_boot
	snapshot_stats after
	facts_of_stats after
	fact "flushes_after $(($(flushes after) - $(flushes before)))"
}

# CPUs go and come back, all but the first, while the load runs
test_hotplug()
{
	need_pvtlb
	load_in_background
	away=0
	while kill -0 $load 2>/dev/null; do
		for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
			echo 0 >"$cpu/online" || fail "$cpu does not go offline"
			away=$((away + 1))
			usleep 50000
			echo 1 >"$cpu/online" || fail "$cpu does not come back"
		done
	done
	load_ended
	fact "went_offline $away"
	facts_of_another_load
}

# The host takes vCPUs away and gives them back while the load runs. The kernel takes them
# offline by itself, and leaves it to user space to take them online.
test_resized()
{
	need_pvtlb
	load_in_background
	fewest=$(nproc) all=$fewest
	while kill -0 $load 2>/dev/null; do
		now=$(nproc)
		[ "$now" -ge "$fewest" ] || fewest=$now
		for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
			[ "$(cat "$cpu/online")" = 1 ] || echo 1 >"$cpu/online"
		done 2>/dev/null
		usleep 100000
	done
	load_ended
	fact "cpus_before $all"
	fact "cpus_fewest $fewest"
	facts_of_another_load
}

# The host saves and restores this guest while the load runs.
test_restored()
{
	need_pvtlb
	load_in_background
	load_ended
	fact "suspends $(dmesg | grep -c 'suspending xenstore')"
	facts_of_another_load
}

# $1 to /sys/power/pm_test, so that nothing but time has to wake it, and to sleep by $2
sleep_up_to()
{
	{ echo "$1" >/sys/power/pm_test && echo "$2" >/sys/power/state; } ||
		fail "sleep ($2) up to its step '$1' failed"
}

# To sleep under load, twice: up to the loop of suspend to idle, and up to the last step
# of suspend to RAM, with all CPUs but one offline and what the host shares torn down
test_sleep()
{
	need_pvtlb
	hist_on pvtlb/pvtlb_backend 'hist:keys=backend,action'
	load_in_background
	sleep 1
	sleep_up_to platform freeze
	sleep 1
	sleep_up_to core mem
	load_ended
	fact "slept $(cat /sys/power/suspend_stats/success)"
	fact "event.off $(hist_sum pvtlb/pvtlb_backend 'backend: off ' hitcount)"
	facts_of_another_load
}

# By the first CPU, because the kernel after the crash starts the others.
crash_into()
{
	kexec -p /kexec-kernel /kexec-initrd "$1" || fail "kexec -p ended with status $?"
	tlb-load -t 60 >/dev/null &
	sleep 1
	echo "<4>lab: panic comes now" >/dev/kmsg
	taskset 1 sh -c 'echo c >/proc/sysrq-trigger'
}

# Into the same kernel while the load runs, with lab.crash=1 by a crash; the load there gives the verdict.
test_kexec()
{
	need_pvtlb
	[ -z "$(word kexeced)" ] || {
		fact "kexeced 1"
		test_load
		return
	}
	fact "backend_before $(cat $pvtlb/backend)"
	snapshot_stats before
	[ -z "$(word crash)" ] || crash_into "$(cat /proc/cmdline) lab.kexeced=1"
	tlb-load -t 60 >/dev/null &
	sleep 1
	kexec /kexec-kernel /kexec-initrd "$(cat /proc/cmdline) lab.kexeced=1" ||
		fail "kexec ended with status $?"
}

# The panic itself comes after the verdict, see init.
test_panic()
{
	need_pvtlb
	run_load 1
	facts_of_boot
	snapshot_stats after
	facts_of_stats after
}

# Filters and histograms as a user would write them
test_trace()
{
	need_pvtlb
	backend=$(cat $pvtlb/backend)
	hist_on pvtlb/pvtlb_flush 'hist:keys=backend,kind:vals=asked'
	echo "backend==\"$backend\" && asked>0" >$tracing/events/pvtlb/pvtlb_flush/filter ||
		fail "the filter on backend and asked is refused"
	echo 1 >$tracing/events/pvtlb/pvtlb_flush/enable
	tlb-load -t 1 || fail "the load ended with status $?"
	fact "filter.match $(grep -c "pvtlb_flush: .*$backend" $tracing/trace)"
	echo 0 >$tracing/events/pvtlb/pvtlb_flush/enable
	echo 'backend=="banana"' >$tracing/events/pvtlb/pvtlb_flush/filter
	: >$tracing/trace
	echo 1 >$tracing/events/pvtlb/pvtlb_flush/enable
	run_load 1
	fact "filter.other $(grep -c 'pvtlb_flush:' $tracing/trace)"
	cat $tracing/events/pvtlb/pvtlb_flush/hist
	fact "hist.asked $(hist_sum pvtlb/pvtlb_flush "backend: $backend " asked)"
	facts_of_boot
}

# Hypercalls fail, first now and then and in each way that they can, then all of them, so
# that the backend is left in the end. Set here and not on the command line, where the
# probe's trial call would fail already. lab.statuses are what those of
# Hyper-V return.
test_fault()
{
	need_pvtlb
	control=/sys/kernel/debug/fail_pvtlb_hypercall
	[ -d $control ] || fail "there is no $control: CONFIG_PVTLB_FAULT_INJECTION is needed"
	before=$(cat $pvtlb/backend)
	fact "backend_before $before"
	hist_on pvtlb/pvtlb_hypercall 'hist:keys=op,input,text'
	echo -1 >$control/times
	echo 10 >$control/probability
	for status in $(word statuses | tr , ' ') 5; do
		echo "$status" >$control/status
		load -t 1 || fail "the load with few failures ($status) ended with status $?"
		[ "$(cat $pvtlb/backend)" = "$before" ] || fail "few failures ($status) made it leave $before"
	done
	echo 100 >$control/probability
	run_load "$seconds"
	echo 0 >$control/probability
	facts_of_hypercalls
	snapshot_stats demoted
	tlb-load -t 1 || fail "the load after the demotion ended with status $?"
	facts_of_boot
	snapshot_stats after
	facts_of_stats after
	fact "flushes_after $(($(flushes after) - $(flushes demoted)))"
	fact "demotion_lines $(log_lines | grep -c "$before kept failing: left for ")"
	log_lines | sed 's/^/log /' >>/run/facts
}

# Figures KIND=CHANGES/WATCHED/JUDGED of the oracle as facts
facts_of_oracle()
{
	fact "oracle_line $(grep " seconds=" /run/oracle)"
	grep ': too little of\|: stale: ' /run/oracle | head -n 1 | sed 's/^tlb-oracle: /oracle_complaint /' >>/run/facts
	sed -n 's/^tlb-oracle: \(.* seconds=.*\)/\1/p' /run/oracle | tr ' ' '\n' | sed -n '
		s/^\([a-z]*\)=\([0-9]*\)\/\([0-9]*\)\/\([0-9]*\)$/oracle.\1 \2\noracle.\1.watched \3\noracle.\1.judged \4/p
		s/^\([a-z]*\)=\([0-9.]*\)$/oracle.\1 \2/p' >>/run/facts
}

# lab.kinds=KIND,...: only these changes; lab.pingers=N: with so many threads that only
# flush; lab.watched=N: how many changes of each kind must have been watched
oracle_in_background()
{
	snapshot_stats before
	set -- -t "$seconds" -w "$(word watched | grep . || echo 1)" -p "$(word pingers | grep . || echo 0)"
	[ -z "$(word kinds)" ] || set -- "$@" -k "$(word kinds)"
	tlb-oracle "$@" >/run/oracle 2>&1 &
	oracle=$!
}

oracle_ended()
{
	wait "$oracle"
	rc=$?
	cat /run/oracle
	fact "oracle $rc"
	facts_of_oracle
	facts_of_boot
	snapshot_stats after
	facts_of_stats after
	fact "oracle_flushes $(($(flushes after) - $(flushes before)))"
	[ $rc -eq 0 ] || fail "oracle: $(grep -v ' seconds=' /run/oracle | head -n 1)"
}

# Changes of every kind, and each access judged
test_oracle()
{
	need_pvtlb
	oracle_in_background
	oracle_ended
}

# The same while everything changes that a backend stands on, in turns: a CPU goes and comes
# back, the next backend is taken, events are switched, and with lab.sleeps=1 the
# system goes to sleep as far as suspend to idle
test_storm()
{
	need_pvtlb
	turns=0 away=0 switches=0 traced=0 slept=0
	oracle_in_background
	while kill -0 "$oracle" 2>/dev/null; do
		cpu=/sys/devices/system/cpu/cpu$((turns % ($(nproc) - 1) + 1))
		echo 0 >"$cpu/online" || fail "$cpu does not go offline"
		away=$((away + 1))
		usleep 50000
		# shellcheck disable=SC2046 # words are wanted
		set -- $(cat $pvtlb/available) off auto
		shift $((turns % $#))
		echo "$1" >$pvtlb/backend || fail "switching to $1 is refused"
		switches=$((switches + 1))
		echo 1 >"$cpu/online" || fail "$cpu does not come back"
		echo $((turns % 2)) >$tracing/events/pvtlb/enable
		traced=$((traced + turns % 2))
		usleep 50000
		if [ -n "$(word sleeps)" ] && [ $((turns % 8)) -eq 7 ]; then
			sleep_up_to platform freeze
			slept=$((slept + 1))
		fi
		turns=$((turns + 1))
	done
	echo auto >$pvtlb/backend || fail "switching to auto is refused"
	fact "went_offline $away"
	fact "switches $switches"
	fact "traced $traced"
	fact "slept $slept"
	fact "events $(grep -c pvtlb_flush: $tracing/trace)"
	oracle_ended
}

# Registers of a program that flushes, while another one does too
test_fpu()
{
	need_pvtlb
	load_in_background
	fpu-load -t "$seconds" >/run/fpu 2>&1
	rc=$?
	cat /run/fpu
	fact "fpu $rc"
	fact "fpu_line $(tail -n 1 /run/fpu)"
	[ $rc -le 1 ] || fail "fpu-load: $(head -n 1 /run/fpu)"
	sed -n 's/.*width=\([0-9]*\) checks=\([0-9]*\).*/fpu_width \1\nfpu_checks \2/p' /run/fpu >>/run/facts
	load_ended
	facts_of_boot
	snapshot_stats after
	facts_of_stats after
}

# Spinlocks and interrupts under the backend that is active
test_locks()
{
	need_pvtlb
	lock-load -t "$seconds" >/run/locks 2>&1 || fail "lock-load: $(cat /run/locks)"
	facts_of_locks
	facts_of_boot
}

# How many CPUs a flush asks for that frees page tables beside sleeping threads
test_idle()
{
	need_pvtlb
	snapshot_stats before
	idle-load -t "$seconds" >/run/load || fail "idle-load ended with status $?"
	snapshot_stats after
	facts_of_boot
	facts_of_stats after
	fact "idle_loops $(sed -n 's/.*loops=//p' /run/load)"
	fact "idle_asked $(awk '$1 == "asked" { n = $2 - n } END { print n }' /run/before /run/after)"
}

# What the tests of the mutants ask for: each is called with $mutant put in by put_in and
# taken out again, and says whether it has found something: sets $found to yes, no or
# broken, and $what to what that was.
put_in()
{
	echo "$1" >"$mutant_is"
}

# Not before the load runs and not after, because other programs may break as well
find_by_load()
{
	(usleep 400000; put_in "$mutant") &
	load -t 4 -s 2 -k "$1" >/run/load 2>&1
	rc=$?
	put_in none
	wait
	what=$(head -n 1 /run/load)
	case $rc in
	0) found=no ;;
	1) found=yes ;;
	*) found=broken ;;
	esac
}

find_by_fault()
{
	control=/sys/kernel/debug/fail_pvtlb_hypercall
	echo -1 >$control/times
	echo 30 >$control/probability
	find_by_load "$1"
	echo 0 >$control/probability
}

# Suites that ran at boot can be run again. What one says without a mutant is true of all its cases.
find_by_kunit()
{
	suite=/sys/kernel/debug/kunit/$1
	if [ "$mutant" != none ] || ! [ -f "/run/ktap-$1" ]; then
		put_in "$mutant"
		echo 1 >"$suite/run"
		put_in none
		cp "$suite/results" /run/ktap
	else
		cp "/run/ktap-$1" /run/ktap
	fi
	[ "$mutant" != none ] || cp /run/ktap "/run/ktap-$1"
	result=$(sed -n "s/^    \\(not ok\\|ok\\) [0-9]* \\($2\\( # SKIP.*\\)\\{0,1\\}\\)\$/\\1 \\2/p" /run/ktap)
	what=$(grep -A 3 -E "# $2: (EXPECTATION|ASSERTION) FAILED" /run/ktap | sed -n '2,4s/^ *//p' | tr '\n' ' ')
	case $result in
	"not ok $2") found=yes ;;
	"ok $2") found=no ;;
	*) found=broken what="the case gave '$result'" ;;
	esac
}

# The lines of lab.mutants=NAME in the file "mutants", which tests/mutants/run has put into the
# initramfs: each mutant put in for the time of one test
test_mutants()
{
	need_pvtlb
	mutant_is=/sys/module/pvtlb/parameters/mutant
	[ -f $mutant_is ] || fail "there is no $mutant_is: CONFIG_PVTLB_MUTANTS is needed"
	if put_in banana 2>/dev/null; then
		fail "a mutant banana is accepted"
	fi
	log_lines | grep -q 'no mutant banana; there are: none snapshot_short ' || fail "it is not said which mutants there are"
	backend=$(cat $pvtlb/backend)
	for line in $(grep "^$(word mutants)|" /mutants | cut -d'|' -f5,6); do
		mutant=${line%|*} test=${line#*|}
		echo "<4>lab: mutant $mutant" >/dev/kmsg
		start=$(cut -d' ' -f1 /proc/uptime | tr -d .)
		# shellcheck disable=SC2046 # words are wanted
		set -- $(echo "$test" | tr : ' ')
		finder=$1
		shift
		"find_by_$finder" "$@"
		# A backend that was left for its failures is in use again only when it is asked for by name.
		echo "$backend" >$pvtlb/backend || fail "there is no way back to $backend"
		fact "mutant.$mutant.$test $found $(($(cut -d' ' -f1 /proc/uptime | tr -d .) - start))0 $what"
	done
}

# What somebody piped into "make shell"
test_commands()
{
	sh /commands </dev/null || :
}

# Reclaim needs somewhere to put anonymous pages.
swap_on()
{
	[ -b /dev/ram0 ] || mknod /dev/ram0 b 1 0
	mkswap /dev/ram0 >/dev/null && swapon /dev/ram0
}

# Leaves the facts of test $1 in /run/facts, the verdict last.
run_test()
{
	: >/run/facts
	seconds=$(word seconds)
	seconds=${seconds:-3}
	swap_on
	echo "<4>lab: test $1" >/dev/kmsg
	why=$("test_$1" 3>&1 >/run/output 2>&1) && verdict=ok || verdict="failed ${why:-test_$1 ended with an error}"
	head -n 2000 /run/output | sed 's/^/out /' >>/run/facts
	echo "<4>lab: verdict $verdict" >/dev/kmsg
	echo "verdict $(word nonce) $verdict" >>/run/facts
}
