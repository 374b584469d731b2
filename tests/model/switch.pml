/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A change of backend with flushes under way, as in drivers/virt/pvtlb/core.c and
 * change() in select.c. What has a name there has it here.
 *
 * WHAT IS MODELLED
 *
 *  - Two CPUs that flush, by the hook in include/linux/pvtlb.h. Between the hook and
 *    begin() preemption is on, and anything may come.
 *  - One that changes, among off and two backends, at any time and any pace. A backend
 *    may fail to be entered, the old one too when it is to come back. The lock in
 *    select.c makes it one.
 *  - One that calls pvtlb_stop_for_good() at any time, without that lock.
 *  - A static branch has two places, in the hook and in begin(). They are patched
 *    one by one, in any order. The CPUs see one patched at any time between the
 *    start and the end of it, which is one step here: a CPU that still runs the old
 *    code is one that has looked already. The same for the static call, which has one
 *    place. Patching is serialised, but who finds that there is nothing to do does
 *    not wait for another who is still doing it, as in static_key_disable().
 *  - A grace period waits for whoever had preemption off when it began.
 *
 * Bounds: FLUSHES of each CPU, CHANGES. Flushes that find no backend are counted too.
 *
 * WHAT IS CHECKED, by assertions
 *
 *  (1) A flush runs with a backend that has been entered and not left, from its start to
 *      its end, and that is the same one by the static call and by the pointer.
 *  (2) No flush is dropped: a backend serves it, or interrupts of the core, or the
 *      in-tree code.
 *  (3) A flush that begins after pvtlb_stop_for_good() goes to no backend.
 *  (4) Nobody waits for ever: no invalid end state.
 *
 * TWINS: -DTWIN_x breaks one rule, and that must be found. See tests/model/run.
 */
#ifndef FLUSHES
#define FLUSHES		3
#endif
#ifndef CHANGES
#define CHANGES		3
#endif

#define NR_CPUS		2
#define NR_SLOTS	3
#define SLOT_OFF	0	/* of the pointer, NULL; of the static call, flush_without_backend() */

byte backend, backend_flush;		/* the pointer, and where the static call goes */
bit entered[NR_SLOTS];			/* what the backend's flush stands on is there */

byte count;				/* "enabled" of the key pvtlb_active */
#define ENABLING	2		/* -1 there */
bit in_hook, in_begin;			/* the branch at either place */
bit patching;				/* jump_label_lock() */
bit stopped_for_good, is_stopped;	/* the flag; pvtlb_stop_for_good() has returned */

bit preemption_off[NR_CPUS], awaited[NR_CPUS];
bit stale[NR_CPUS];			/* a flush was asked for, and has not been done */

inline preempt_disable()
{
	preemption_off[this] = 1
}

inline preempt_enable()
{
	atomic { preemption_off[this] = 0; awaited[this] = 0 }
}

inline synchronize_rcu()
{
	atomic { awaited[0] = preemption_off[0]; awaited[1] = preemption_off[1] };
	!awaited[0] && !awaited[1]
}

inline jump_label_update(value)
{
	if
	:: in_hook = value; in_begin = value
	:: in_begin = value; in_hook = value
	fi
}

inline static_branch_enable()
{
	atomic { !patching -> patching = 1 };
	count = ENABLING;
	jump_label_update(1);
	count = 1;
	patching = 0
}

inline static_branch_disable()
{
	if
	:: count == 1 ->
		atomic { !patching -> patching = 1 };
		if
		:: atomic { count == 1 -> count = 0 };
			jump_label_update(0)
		:: else
		fi;
		patching = 0
	:: else		/* with a warning, if it is ENABLING */
	fi
}

inline pvtlb_stop()
{
	static_branch_disable();
#ifdef TWIN_POINTER_EARLY
	backend = SLOT_OFF;
#endif
#ifndef TWIN_NO_STOP_GRACE
	synchronize_rcu();
#endif
	backend_flush = SLOT_OFF;
	backend = SLOT_OFF
}

inline pvtlb_start(new)
{
#ifdef TWIN_START_EARLY
	static_branch_enable();
#endif
	backend = new;
	backend_flush = new;
#ifndef TWIN_START_EARLY
	static_branch_enable();
#endif
#ifdef TWIN_STOPPED_BY_KEY
	if
	:: stopped_for_good -> static_branch_disable()
	:: else
	fi
#endif
}

inline pvtlb_stop_for_good()
{
	stopped_for_good = 1;
#ifdef TWIN_STOPPED_BY_KEY
	static_branch_disable();
#endif
	is_stopped = 1
}

inline leave(slot)
{
	if
	:: slot == SLOT_OFF
	:: else ->
#ifdef TWIN_LEFT_EARLY
		entered[slot] = 0;
#endif
		pvtlb_stop();
		entered[slot] = 0
	fi
}

inline enter(slot)
{
	err = 0;
	if
	:: slot == SLOT_OFF
	:: slot != SLOT_OFF -> err = 1
	:: slot != SLOT_OFF ->
#ifdef TWIN_ENTERED_LATE
		pvtlb_start(slot);
		entered[slot] = 1
#else
		entered[slot] = 1;
		pvtlb_start(slot)
#endif
	fi
}

/* To another slot, or the same once more */
inline change()
{
	leave(now_active);
	select(now : 0 .. 2);
	enter(now);
	if
	:: err ->
		now = now_active;
		enter(now);
		if
		:: err -> now = SLOT_OFF
		:: else
		fi
	:: else
	fi;
	atomic { now_active = now; now = 0; err = 0 }
}

active proctype changer()
{
	byte n, now_active, now;		/* what select.c calls "active", and the next one */
	bit err;

	do
	:: n < CHANGES -> n++; change()
	:: break
	od
}

active proctype reboot_notify()
{
	if
	:: pvtlb_stop_for_good()
	:: true
	fi
}

/* The call may fail, and the core interrupts then. The backend was at work all the same. */
inline flush_remote()
{
	atomic { call = backend_flush; assert(call == used) };
	atomic {
		assert(entered[call]);
		if
		:: stale[this] = 0
		:: true
		fi
	};
	atomic {
		assert(entered[call]);
		if
		:: stale[this] -> stale[this] = 0	/* pvtlb_flush_by_ipi() */
		:: else
		fi
	}
}

/* The pointer is followed at the start, and for the trace event at the end. */
inline flush()
{
	atomic { used = backend; assert(used != SLOT_OFF); assert(!late) };
	flush_remote();
	atomic { assert(backend == used); used = 0; call = 0 }
}

inline begin()
{
#ifdef TWIN_BEGIN_PREEMPTIBLE
	may = in_begin;
	preempt_disable();
#else
	preempt_disable();
#ifdef TWIN_HOOK_ALONE
	may = 1;
#else
	may = in_begin;
#endif
#endif
#if !defined(TWIN_STOPPED_BY_KEY) && !defined(TWIN_STOP_UNSEEN)
	may = may && !stopped_for_good;
#endif
	if
	:: may
	:: else -> preempt_enable()
	fi
}

inline pvtlb_flush_multi()
{
	if
	:: in_hook ->
		begin();
		if
		:: may -> flush(); preempt_enable(); done = 1
		:: else ->
#ifdef TWIN_DECLINED_AS_DONE
			done = 1;
#endif
			skip
		fi;
		may = 0
	:: !in_hook
	fi
}

active [NR_CPUS] proctype flush_tlb_multi()
{
	byte n, used, call, this = _pid - 2;
	bit may, late, done;

	do
	:: atomic { n < FLUSHES -> n++; stale[this] = 1; late = is_stopped };
		pvtlb_flush_multi();
		atomic {
			if
			:: !done -> stale[this] = 0	/* the in-tree code */
			:: else
			fi;
			assert(!stale[this]);
			done = 0;
			late = 0
		}
	:: atomic { n == FLUSHES -> break }
	od
}
