/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a guest of KVM changes over to Hyper-V's hypercalls and back, as in
 * backends/hyperv/no-kvm-calls.c and guest.c. What has a name there has it here.
 *
 * WHAT IS MODELLED
 *
 *  - A spinlock whose waiter halts, with interrupts on or off as it likes each time
 *    (kvm_wait()), and whose owner kicks it (kvm_kick_cpu()), again and again.
 *  - A third vCPU that makes another hypercall of KVM now and then
 *    (__send_ipi_mask()).
 *  - The switcher bars KVM's calls, reports the guest OS id, takes it back, allows
 *    KVM's calls, once each, at any pace.
 *  - Each of the first three does so with preemption off: a grace period waits for
 *    whoever was in that when it began. Patched branches are seen by each vCPU at any
 *    time between the start and the end of the patching, which is one step here: a
 *    vCPU that still runs the old code is one that has looked already.
 *
 * WHAT IS CHECKED
 *
 *  (1) No hypercall of KVM is made while a guest OS id is reported, and none of
 *      Hyper-V while there is none: assertions.
 *  (2) A waiter that halts is woken: no invalid end state.
 *
 * TWINS: -DTWIN_x breaks one rule, and that must be found. See tests/model/run.
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define WAITER	0
#define OWNER	1
#define SENDER	2

bit key, barred, hv_calls;	/* pvtlb_no_kvm_calls, and what no-kvm-calls.c has */
bit os_id;			/* the guest OS id is reported */

byte begun, ended;		/* the waiter waits for round "begun" to end */
bit unhalted;			/* KVM: a kick for the waiter that it has not used up */
bit irr;			/* an interrupt for the waiter is pending */

/* A region is numbered, so that a grace period can tell the next one from this. */
bit preemption_off[3];
byte region[3], seen[3];

inline preempt_disable(cpu)
{
#ifdef TWIN_PREEMPTIBLE
	if
	:: cpu != SENDER -> d_step { preemption_off[cpu] = 1; region[cpu]++ }
	:: else
	fi
#else
	d_step { preemption_off[cpu] = 1; region[cpu]++ }
#endif
}

inline preempt_enable(cpu)
{
	preemption_off[cpu] = 0
}

/* Whoever was in such a region has left it. */
inline synchronize_rcu()
{
	d_step { seen[0] = region[0]; seen[1] = region[1]; seen[2] = region[2] };
	!preemption_off[0] || region[0] != seen[0];
	!preemption_off[1] || region[1] != seen[1];
	!preemption_off[2] || region[2] != seen[2]
}

inline kvm_hypercall()
{
	assert(!os_id)
}

inline hv_call()
{
	assert(os_id)
}

/* After it, with interrupts off: halt, or look again? */
inline pvtlb_kvm_wait_irqs_off(again)
{
	again = key;
#ifdef TWIN_HALT_IRQS_OFF
	again = 0;
#endif
	if
	:: again && hv_calls -> hv_call()
	:: else
	fi
}

inline kvm_wait(again)
{
	if
	:: ended < begun ->		/* interrupts on */
		atomic { unhalted || irr -> unhalted = 0; irr = 0 }
	:: ended < begun ->		/* interrupts off */
		pvtlb_kvm_wait_irqs_off(again);
		if
		:: !again -> atomic { unhalted -> unhalted = 0 }
		:: else
		fi
	:: ended >= begun
	fi
}

active proctype waiter()
{
	bit again;

	do
	:: begun < ROUNDS ->
		preempt_disable(WAITER);
		begun++;
		do
		:: ended < begun -> kvm_wait(again)
		:: irr -> irr = 0	/* it comes while nobody halts for it */
		:: ended >= begun -> break
		od;
		preempt_enable(WAITER)
	:: else -> break
	od
}

inline kvm_kick_cpu()
{
	if
	:: !key -> kvm_hypercall(); unhalted = 1
	:: key ->
		if
		:: !barred -> kvm_hypercall(); unhalted = 1
		:: barred -> irr = 1
		fi
	fi
}

active proctype owner()
{
	do
	:: ended < ROUNDS ->
		begun > ended;
		preempt_disable(OWNER);
		ended++;
		kvm_kick_cpu();
		preempt_enable(OWNER)
	:: else -> break
	od
}

/* By Hyper-V's call, by the APIC, or by KVM's call */
inline send_ipi_mask()
{
	if
	:: !key -> kvm_hypercall()
	:: key ->
		if
		:: !barred -> kvm_hypercall()
		:: barred ->
			if
			:: hv_calls -> hv_call()
			:: !hv_calls
			fi
		fi
	fi
}

active proctype sender()
{
	byte n;

	do
	:: n < ROUNDS ->
		preempt_disable(SENDER);
		send_ipi_mask();
		preempt_enable(SENDER);
		n++
	:: break
	od
}

inline pvtlb_bar_kvm_calls()
{
	key = 1;
#ifndef TWIN_NO_FIRST_GRACE
	synchronize_rcu();
#endif
	barred = 1;
#ifndef TWIN_NO_SECOND_GRACE
	synchronize_rcu()
#endif
}

inline pvtlb_allow_kvm_calls()
{
#ifdef TWIN_KEY_FIRST
	key = 0;
#endif
	barred = 0;
#ifndef TWIN_NO_LAST_GRACE
	synchronize_rcu();
#endif
	key = 0
}

active proctype switcher()
{
	pvtlb_bar_kvm_calls();
	os_id = 1;
	hv_calls = 1;

	hv_calls = 0;
#ifndef TWIN_NO_HV_GRACE
	synchronize_rcu();
#endif
	os_id = 0;
	pvtlb_allow_kvm_calls()
}
