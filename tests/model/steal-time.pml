/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * KVM's side of leave_to_host() (backends/kvm/kvm.c), with a vCPU that moves among
 * pCPUs. mailbox.pml has one TLB a vCPU; here it leaves one behind on each pCPU,
 * with the same tag, and finds it again when it comes back. What has a name in
 * arch/x86/kvm/x86.c has it here.
 *
 * WHAT IS MODELLED
 *
 *  - One initiator, FLUSHES times: it changes the table, posts a request, and waits
 *    for the acknowledgement, or leaves the vCPU to the host.
 *  - One vCPU: guest code that answers requests, exits at an instruction boundary
 *    or in the middle of an instruction, which KVM then emulates with a translation
 *    that it looked up before. Its thread in the host may be taken off at any step
 *    outside the guest, any number of times, and put back on either of two pCPUs.
 *  - What is flushed is cached again at once, from the table of that moment, as in
 *    mailbox.pml.
 *
 * Bounds: FLUSHES. What KVM and the host's scheduler do is not bounded.
 *
 * WHAT IS CHECKED
 *
 *  (1) The guest never runs on a TLB, and KVM never emulates by a translation, that
 *      is older than a flush that has returned: assertions.
 *  (2) Nobody waits for ever: no invalid end state.
 *
 * TWINS: -DTWIN_x breaks one rule, and that must be found. See tests/model/run.
 */
#ifndef FLUSHES
#define FLUSHES		3
#endif

#define FRESH		0
#define STALE		1	/* the table has changed since */
#define FORBIDDEN	2	/* ... and the flush for that has returned */
#define NOTHING		3	/* KVM holds no translation */

#define PREEMPTED	1
#define FLUSH_TLB	2

byte tlb[2];			/* what each pCPU has cached under the vCPU's tag */
byte held = NOTHING;		/* KVM's translation, of an instruction it emulates */
byte preempted;			/* steal time: the byte of the handshake */
bit st_preempted;		/* KVM's own note that it has set it */
byte seq, ack;			/* the request posted, 0 for none, and the last answered */
bit loaded = 1, pcpu, last_pcpu;
bit at_instruction_boundary, in_guest;
bit steal_update, tlb_flush;	/* KVM_REQ_STEAL_UPDATE, KVM_REQ_TLB_FLUSH */
bit finished;

inline outdate(what)
{
	if
	:: what == FRESH -> what = STALE
	:: else
	fi
}

inline forbid(what)
{
	if
	:: what == STALE -> what = FORBIDDEN
	:: else
	fi
}

active proctype initiator()
{
	byte n;

	do
	:: atomic {
		n < FLUSHES ->
		n++;
		outdate(tlb[0]);
		outdate(tlb[1]);
		outdate(held)
	   };
		seq = n;
		if
		:: ack == n
		:: atomic {		/* leave_to_host(), one exchange */
			ack != n && (preempted & PREEMPTED) ->
			preempted = preempted | FLUSH_TLB
		   }
		fi;
		seq = 0;
		atomic {
			assert(!in_guest || tlb[pcpu] == FRESH);
			forbid(tlb[0]);
			forbid(tlb[1]);
			forbid(held)
		}
	:: atomic { n == FLUSHES -> finished = 1; break }
	od
}

/* kvm_arch_vcpu_put(), which any step outside the guest may be followed by */
inline kvm_steal_time_set_preempted()
{
	if
#ifndef TWIN_MARKED_MIDWAY
	:: !at_instruction_boundary
#endif
#ifndef TWIN_MARKED_TWICE
	:: st_preempted
#endif
	:: else -> preempted = PREEMPTED; st_preempted = 1
	fi
}

inline kvm_arch_vcpu_load()
{
	if
	:: pcpu = 0
	:: pcpu = 1
	fi;
	if
#ifndef TWIN_MOVED_UNFLUSHED
	:: pcpu != last_pcpu -> tlb_flush = 1; last_pcpu = pcpu
#endif
	:: else
	fi;
	steal_update = 1;
	loaded = 1
}

active proctype scheduler()
{
end:	do
	:: atomic { loaded && !in_guest && !finished -> kvm_steal_time_set_preempted(); loaded = 0 }
	:: atomic { !loaded -> kvm_arch_vcpu_load() }
	od
}

inline record_steal_time()
{
#ifdef TWIN_CLEARED_APART
	atomic { steal_update -> steal_update = 0; state = preempted };
	atomic { preempted = 0; st_preempted = 0 };
#else
	atomic { steal_update -> steal_update = 0; state = preempted; preempted = 0; st_preempted = 0 };
#endif
	atomic {
		if
		:: state & FLUSH_TLB -> tlb[pcpu] = FRESH
		:: else
		fi;
		state = 0
	}
}

/* Its steps are made by the thread, while that has a pCPU. */
active proctype vcpu() provided (loaded)
{
	byte state, number;

end:	do
	:: atomic {			/* vcpu_run(), once more; first, what is half done */
		!in_guest ->
		assert(held != FORBIDDEN);
		held = NOTHING;
		at_instruction_boundary = 0
	   };
		do
		:: record_steal_time()
		:: atomic { tlb_flush -> tlb_flush = 0; tlb[pcpu] = FRESH }
		:: atomic {
			!steal_update && !tlb_flush ->
			in_guest = 1;
			assert(tlb[pcpu] != FORBIDDEN);
			break
		   }
		od;
		if
		:: atomic { seq -> number = seq; tlb[pcpu] = FRESH };
			atomic { ack = number; number = 0 }
		:: true
		fi;
		if
		:: atomic { in_guest = 0; at_instruction_boundary = 1 }
		:: atomic { in_guest = 0; held = tlb[pcpu] }
		fi
	od
}
