/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The mailbox protocol of drivers/virt/pvtlb/mailbox.c, with the handshake of
 * backends/kvm/kvm.c and the host under it. What has a name there has it here.
 *
 * WHAT IS MODELLED
 *
 *  - Three vCPUs. 0 and 1 flush; each has the other and vCPU 2 as targets. A
 *    vCPU is two processes: its task, and its interrupt handler, which may come
 *    between any two steps of the task unless interrupts are off.
 *  - vCPU 0 flushes an mm, as flush_tlb_func() does it, with generations. After
 *    flush number RENEW that mm is gone, and another one is at its address.
 *    vCPU 1 flushes the kernel's range, as do_kernel_range_flush() does it.
 *  - The host takes any vCPU off at any step, in a handler too, and puts it back
 *    at any later one. Or it does not share steal time, and the mailbox has to
 *    work without, as it does for the native backend.
 *  - HALT: initiators halt at any time while they wait, and no tick wakes them.
 *    HOTPLUG: vCPU 2 goes offline, and comes back or does not. PANIC: vCPU 0 stops
 *    the others at any step of theirs. NESTED: vCPU 2 enters and leaves VMX
 *    operation at any time that it runs.
 *
 * Bounds: USER_FLUSHES of vCPU 0, KERNEL_FLUSHES of vCPU 1, and TARGETS. How often
 * the host and the others act is not bounded. Numbers of requests do not wrap.
 *
 * WHAT IS CHECKED
 *
 *  (1) A running vCPU never uses a translation older than a flush that has
 *      returned: assertions in finish() and record_steal_time().
 *  (2) Nobody waits for ever: no invalid end state. A wait is a blocking step here,
 *      so nobody goes round in circles either: "pan -l" finds no cycle but those
 *      of HOTPLUG, PANIC and NESTED. The host may quit taking vCPUs off once nobody has
 *      anything to do but wait, or it would end every wait.
 *  (3) A request is carried out on no mm but its own: assertions in
 *      mailbox_carry_out() and flush_tlb_func().
 *
 * HOW IT IS KEPT SMALL
 *
 * An atomic step has one access to what others write. It has more only where that
 * makes no difference, which is then explained, and where it is one locked
 * instruction with the store buffer that it drains.
 *
 *  - A vCPU that was taken off unmarked, or marked and not looked at since, is one
 *    that makes no steps, like one that is slow. So the host takes a vCPU off when
 *    somebody looks whether it has: leave_to_host().
 *  - Nothing that a vCPU does depends on what its TLB holds. So what is flushed is
 *    cached again at once, from the table of that moment: caching it later is
 *    never more dangerous. What is cached is FRESH; STALE once the table has changed;
 *    FORBIDDEN once the flush for that change has returned.
 *  - For the same reason a store to a page table leaves the store buffer as late
 *    as x86-TSO allows: at the next locked instruction, or with the next store of
 *    that vCPU that is seen. The stores of mailbox_publish() are seen in their
 *    order, and no load of their vCPU is ordered against them before the locked
 *    instruction that tells of them: no buffer for them. awaited has one, because
 *    mailbox_halt() goes on to load the acknowledgement.
 *
 * TWINS: -DTWIN_x breaks one rule, and that must be found. See tests/model/run.
 */
#ifndef USER_FLUSHES
#define USER_FLUSHES	1
#endif
#ifndef KERNEL_FLUSHES
#define KERNEL_FLUSHES	1
#endif
#ifndef RENEW
#define RENEW		9	/* never */
#endif
#ifndef TARGETS
#define TARGETS		BOTH
#endif
#define BOTH		(OTHER | THIRD)
#define OTHER		BIT(1 - this)
#define THIRD		BIT(2)

#define NR_CPUS		3
#define NR_INITIATORS	2
#define NR_PAGES	4
#define BIT(n)		(1 << (n))
#define FLUSHES(cpu)	(cpu == 0 -> USER_FLUSHES : KERNEL_FLUSHES)
#define IF(condition, statements) if :: condition -> statements :: else fi

/* The vCPUs, as the hardware and the host see them */
bit running[NR_CPUS] = 1;		/* not taken off, not offline */
bit irr[NR_CPUS];			/* an interrupt has been sent to it */
bit in_handler[NR_CPUS], irqs_off[NR_CPUS];
bit halted[NR_CPUS];
bit kicked[NR_CPUS];			/* its next halt ends at once */
bit stopped[NR_CPUS], over;		/* by panic; and the flush after it is done */
bit online = 1, preemption_off[NR_INITIATORS];	/* vCPU 2 goes offline if none is set */

/* The host */
#define PREEMPTED	1
#define FLUSH_TLB	2
byte preempted[NR_CPUS];		/* steal time: the byte of the handshake */
bit shared;				/* it maintains that byte */
bit quit;				/* it takes nobody off any more */
bit vmx;				/* vCPU 2 is in VMX operation */
bit put_back[NR_INITIATORS];		/* vCPU 2 was, since the initiator read its version */

/*
 * Page tables and TLBs. Pages 0 and 1 are of the mm of vCPU 0, 2 and 3 of the kernel;
 * flushes take them in turns.
 */
#define FRESH		0
#define STALE		1
#define FORBIDDEN	2
#define TLB(cpu, page)	tlb[(cpu) * NR_PAGES + (page)]
byte tlb[NR_CPUS * NR_PAGES];
byte ctx_id, mm_gen, local_gen[NR_CPUS];

/*
 * The mailbox. An outbox is its seq and two halves, each held as the number of the
 * flush that it was written for, from which all else follows. front: the mm with its
 * ctx_id, and the start of the range; back: the generation, and the end of the range.
 */
byte seq[NR_INITIATORS], front[NR_INITIATORS], back[NR_INITIATORS];
byte awaited[NR_INITIATORS];
byte interrupt[NR_INITIATORS];		/* the scratch mask of mailbox_send() */
byte pending[NR_CPUS];
bit in_flight[NR_CPUS];
byte acks[NR_CPUS * NR_INITIATORS];
#define ACK(target, initiator)	acks[(target) * NR_INITIATORS + (initiator)]
#define PAGE(initiator, n)	(2 * (initiator) + ((n) & 1))
#define CTX_ID(n)		((n) > RENEW)
#define GEN(n)			((n) - RENEW * CTX_ID(n))

/* Store buffers: 1 + the page whose table changes, and 1 + the new value of awaited */
byte table_store[NR_INITIATORS], awaited_store[NR_INITIATORS];

inline outdate(target, page)
{
	IF(TLB(target, page) == FRESH, TLB(target, page) = STALE)
}

inline drain_table_store(cpu)
{
	if
	:: table_store[cpu] ->
		outdate(1 - cpu, table_store[cpu] - 1);
		outdate(2, table_store[cpu] - 1);
		table_store[cpu] = 0
	:: else
	fi
}

inline drain_awaited_store(cpu)
{
	IF(awaited_store[cpu], awaited[cpu] = awaited_store[cpu] - 1; awaited_store[cpu] = 0)
}

/* A locked instruction of the vCPU, or its exit to the host */
inline locked(cpu)
{
	IF(cpu < NR_INITIATORS, drain_table_store(cpu); drain_awaited_store(cpu))
}

inline flush_user(cpu)
{
	TLB(cpu, 0) = FRESH;
	TLB(cpu, 1) = FRESH
}

inline flush_all(cpu)
{
	flush_user(cpu);
	TLB(cpu, 2) = FRESH;
	TLB(cpu, 3) = FRESH
}

/*
 * arch/x86/mm/tlb.c, for one page of the loaded mm. Reading the generation of the mm
 * and flushing are one step, since flushing early is the danger.
 */
inline flush_tlb_func(cpu, page, gen)
{
	if
	:: gen <= local_gen[cpu] || local_gen[cpu] == mm_gen
	:: else ->
		assert(gen <= mm_gen);
		if
		:: gen == local_gen[cpu] + 1 && gen == mm_gen -> TLB(cpu, page) = FRESH
		:: else -> flush_user(cpu)
		fi;
		local_gen[cpu] = mm_gen
	fi
}

/*
 * The back half is read in one step with the comparison: if seq has not changed by
 * then, the back half had not when it was read.
 */
inline mailbox_carry_out()
{
	number = seq[from];
	if
	:: atomic { number & 1 -> flush_all(this) }
	:: atomic { !(number & 1) -> front_read = front[from] }
		atomic {
			back_read = back[from];
			if
#ifndef TWIN_TORN_READ
			:: seq[from] != number -> flush_all(this)
#endif
			:: else ->
				if
				:: from == 1 ->
					/* A start and an end of two ranges are none. */
					IF(front_read == back_read,
					   TLB(this, PAGE(1, front_read)) = FRESH)
#ifndef TWIN_STALE_MM
				:: from == 0 && CTX_ID(front_read) != ctx_id
#endif
				:: else ->
					assert(CTX_ID(front_read) == ctx_id);
					assert(CTX_ID(back_read) == ctx_id);
					flush_tlb_func(this, PAGE(0, front_read), GEN(back_read))
				fi
			fi;
			front_read = 0;
			back_read = 0
		}
	fi
}

/* KVM_HC_KICK_CPU: not lost on a vCPU that is about to halt */
inline wake(initiator)
{
	if
	:: halted[initiator] -> halted[initiator] = 0
	:: else -> kicked[initiator] = 1
	fi
}

inline acknowledge(value)
{
	locked(this);
	ACK(this, from) = value;
	number = 0
}

inline mailbox_answer()
{
#if defined(TWIN_ACK_FIRST)
	atomic { acknowledge(seq[from]) };
	mailbox_carry_out()
#elif defined(TWIN_LATE_SEQ)
	mailbox_carry_out();
	atomic { acknowledge(seq[from]) }
#else
	mailbox_carry_out();
	atomic { acknowledge(number) }
#endif
#ifdef HALT
	/* An exchange that fails is like a load that came later. */
	if
	:: atomic { awaited[from] == this + 1 -> locked(this); awaited[from] = 0 };
		atomic { wake(from) }
	:: awaited[from] != this + 1
	fi
#endif
}

/*
 * The bits are loaded as one word. That a bit is found and taken is one step: one that
 * is withdrawn in between is like one that was withdrawn before.
 */
inline mailbox_interrupt()
{
	do
	:: atomic {
		pending[this] >> next ->
		IF(!(pending[this] & BIT(next)), next++);
		locked(this);
		pending[this] = pending[this] & ~BIT(next);
		from = next;
		next++
	   };
		mailbox_answer()
	:: atomic {
		!(pending[this] >> next) ->
		next = 0;
		from = 0;
#ifndef TWIN_IN_FLIGHT_LATE
		in_handler[this] = 0;
#endif
		break
	   }
	od
#ifdef TWIN_IN_FLIGHT_LATE
	;atomic { locked(this); in_flight[this] = 0; in_handler[this] = 0 }
#endif
}

#ifdef PANIC
#define RUNS(cpu)	(running[cpu] && !stopped[cpu])
#else
#define RUNS(cpu)	running[cpu]
#endif

/* in_flight is cleared as the interrupt arrives: nobody can tell the two apart. */
proctype interrupts(byte this) provided (RUNS(this))
{
	byte number, front_read, back_read, from, next;

end:	do
	:: atomic {
		irr[this] && !irqs_off[this] && !in_handler[this] ->
		irr[this] = 0;
		in_handler[this] = 1;
		halted[this] = 0;
#ifdef TWIN_SHARED_MASK
		IF(this < NR_INITIATORS, interrupt[this] = 0);
#endif
#ifndef TWIN_IN_FLIGHT_LATE
		locked(this);
		in_flight[this] = 0
#endif
	   };
		mailbox_interrupt()
	od
}

/* The host takes a vCPU off; a halt is no instruction boundary in its sense. */
#define MAY_TAKE_OFF(cpu)	(shared && !quit && running[cpu] && !halted[cpu])

inline kvm_steal_time_set_preempted(cpu)
{
	locked(cpu);
	running[cpu] = 0;
	preempted[cpu] = PREEMPTED
}

/* ... and puts it back. In VMX operation, it flushes what is not ours. */
inline record_steal_time(cpu)
{
	IF((preempted[cpu] & FLUSH_TLB) && !(cpu == 2 && vmx), flush_all(cpu));
	preempted[cpu] = 0;
#ifdef NESTED
	IF(cpu == 2, put_back[0] = 1; put_back[1] = 1);
#endif
	assert(TLB(cpu, 0) != FORBIDDEN && TLB(cpu, 1) != FORBIDDEN);
	assert(TLB(cpu, 2) != FORBIDDEN && TLB(cpu, 3) != FORBIDDEN);
	running[cpu] = 1
}

/* kvm_probe() declines where steal time is not shared. */
#ifdef TWIN_STALE_BYTE
#define HOST	1
#else
#define HOST	shared
#endif
#define MARKED(cpu)	(HOST && ((preempted[cpu] & PREEMPTED) || MAY_TAKE_OFF(cpu)))

/*
 * A target that is left to the host is a target no more. Loading the byte and
 * exchanging it are one step, as in mailbox_answer(). With NESTED, so is loading the
 * version: if it was loaded earlier, fewer targets are left to the host.
 */
inline leave_to_host(cpu)
{
	atomic {
		(targets & BIT(cpu)) && MARKED(cpu) ->
		IF(!(preempted[cpu] & PREEMPTED), kvm_steal_time_set_preempted(cpu));
#ifdef TWIN_BYTE_ORED
	};
	atomic {
#endif
		locked(this);
		preempted[cpu] = preempted[cpu] | FLUSH_TLB;
#ifdef NESTED
		put_back[this] = 0
	};
#ifndef TWIN_NESTED_IGNORED
	nested = (cpu == 2 && vmx);
#endif
	atomic {
#ifndef TWIN_NESTED_LEFT
		IF(cpu == 2 && put_back[this], nested = 1);
#endif
		IF(!nested, targets = targets & ~BIT(cpu));
		nested = 0
#else
		targets = targets & ~BIT(cpu)
#endif
	}
}

/*
 * Who loads between the two stores of either step finds seq odd, or found it even
 * before and finds it changed.
 */
inline mailbox_publish()
{
	atomic {
#ifndef TWIN_TABLE_LATE
		drain_table_store(this);
#endif
		seq[this]++;
		front[this] = n
	};
	atomic { back[this] = n; seq[this]++ }
}

inline mailbox_post(target)
{
	atomic {
		targets & BIT(target) ->
		locked(this);
		pending[target] = pending[target] | BIT(this)
	};
	atomic {
		if
		:: !in_flight[target] ->
			locked(this);
			in_flight[target] = 1;
			interrupt[this] = interrupt[this] | BIT(target)
		:: else
		fi
	}
}

inline leave_or_post(target)
{
	if
	:: leave_to_host(target)
#ifdef NESTED
		;if
		:: mailbox_post(target)
		:: !(targets & BIT(target))
		fi
#endif
	:: mailbox_post(target)
	:: !(targets & BIT(target))
	fi
}

inline mailbox_send_ipis()
{
	do
	:: atomic {
		interrupt[this] ->
		locked(this);
		if
		:: interrupt[this] & BIT(2) ->
			irr[2] = 1;
			interrupt[this] = interrupt[this] & ~BIT(2)
		:: else ->
			irr[1 - this] = 1;
			interrupt[this] = 0
		fi
	   }
	:: atomic { !interrupt[this] -> break }
	od
}

inline mailbox_send()
{
	leave_or_post(1 - this);
	leave_or_post(2);
	mailbox_send_ipis()
}

inline mailbox_withdraw(target)
{
	locked(this);
	pending[target] = pending[target] & ~BIT(this)
}

#define WAITING_FOR(target)	((targets & BIT(target)) && ACK(target, this) != seq[this])

inline store_awaited(value)
{
	drain_awaited_store(this);
	awaited_store[this] = value + 1
}

/* An interrupt that is pending ends the halt at once, like one that comes later. */
inline safe_halt()
{
	irqs_off[this] = 0;
	if
	:: kicked[this] -> kicked[this] = 0
	:: else -> halted[this] = 1
	fi
}

inline mailbox_halt(target)
{
	atomic { WAITING_FOR(target) && HOST -> store_awaited(target + 1); irqs_off[this] = 1 };
#ifndef TWIN_HALT_UNORDERED
	atomic { locked(this) };	/* smp_mb() */
#endif
#ifdef TWIN_HALT_UNCHECKED
	atomic { safe_halt() };
#else
	if
	:: WAITING_FOR(target); atomic { safe_halt() }
	:: atomic { !WAITING_FOR(target) -> irqs_off[this] = 0 }
	fi;
#endif
	atomic { store_awaited(0) }
}

/* Looking in vain changes nothing, and is no step. */
inline mailbox_wait(target)
{
	do
	:: atomic { !WAITING_FOR(target) -> break }
	:: leave_to_host(target);
		if
		:: atomic { !(targets & BIT(target)) -> mailbox_withdraw(target); break }
#ifdef NESTED
		:: targets & BIT(target)
#endif
		fi
#ifdef HALT
	:: mailbox_halt(target)
#endif
	od
}

/*
 * From the store to the page table to the copy of cpu_online_mask. The generation of
 * an mm is advanced by a locked instruction. flush_kernel() has a barrier; only with
 * HOTPLUG is it needed, and left out otherwise.
 */
inline begin()
{
	n++;
#ifndef TWIN_TARGET_OFFLINE
	preemption_off[this] = 1;
#endif
#ifdef TWIN_IRQS_OFF
	irqs_off[this] = 1;
#endif
	table_store[this] = PAGE(this, n) + 1;
	IF(this == 0, drain_table_store(this); mm_gen++);
#if defined(HOTPLUG) && !defined(TWIN_KERNEL_UNORDERED)
	drain_table_store(this);
#endif
	targets = TARGETS;
	IF(!online, targets = targets & ~BIT(2))
}

inline forbid(cpu, page)
{
	if
	:: (TARGETS & BIT(cpu)) && TLB(cpu, page) != FRESH ->
		assert(!running[cpu]);
		TLB(cpu, page) = FORBIDDEN
	:: else
	fi
}

inline finish()
{
	forbid(1 - this, PAGE(this, n));
	forbid(2, PAGE(this, n));
	targets = 0;
#ifdef TWIN_IRQS_OFF
	irqs_off[this] = 0;
#endif
	preemption_off[this] = 0
}

/* The others have loaded the new mm, with another ASID; not in a handler. */
inline renew_mm()
{
	ctx_id = CTX_ID(n + 1);
	mm_gen = 0;
	local_gen[1] = 0;
	local_gen[2] = 0;
	flush_user(1);
	flush_user(2)
}

/* begin() in core.c declines when interrupts are off. */
#ifdef TWIN_STOPPED_CPUS
#define MAY_FLUSH(cpu)	1
#else
#define MAY_FLUSH(cpu)	(!irqs_off[cpu])
#endif
#define MM_IS_GONE	(this == 0 && ctx_id != CTX_ID(n + 1))

proctype task(byte this) provided (RUNS(this) && !in_handler[this] && !halted[this])
{
	byte n, targets;
#ifdef NESTED
	bit nested;
#endif

	do
	:: atomic { n < FLUSHES(this) && MAY_FLUSH(this) && !MM_IS_GONE -> begin() };
		mailbox_publish();
		mailbox_send();
		mailbox_wait(1 - this);
		mailbox_wait(2);
		atomic { finish() }
	:: atomic { MM_IS_GONE && !in_handler[1] && !in_handler[2] -> renew_mm() }
#ifdef PANIC
	:: atomic { this == 0 && !stopped[1] -> stopped[1] = 1; stopped[2] = 1; irqs_off[this] = 1 }
#endif
	:: atomic { n == FLUSHES(this) || !MAY_FLUSH(this) -> over = stopped[1]; break }
	od
}

#define BUSY(cpu)	(!running[cpu] || in_handler[cpu] || (irr[cpu] && !irqs_off[cpu]))
#define IDLE(cpu)	(stopped[cpu] || !BUSY(cpu))

/* The host, store buffers, and what else acts on its own */
proctype environment()
{
end:	do
	:: atomic { !running[0] -> record_steal_time(0) }
	:: atomic { !running[1] -> record_steal_time(1) }
	:: atomic { !running[2] && online -> record_steal_time(2) }
	:: atomic { !quit && IDLE(0) && IDLE(1) && (IDLE(2) || !online) -> quit = 1 }
#ifdef HALT
	:: atomic { awaited_store[0] -> drain_awaited_store(0) }
	:: atomic { awaited_store[1] -> drain_awaited_store(1) }
#endif
#ifdef NESTED
	:: atomic { running[2] && !quit -> vmx = 1 - vmx }
#endif
#ifdef PANIC
	:: over		/* no end state is invalid then */
#endif
	od
}

inline mailbox_prepare_cpu(cpu)
{
	pending[cpu] = 0;
#ifndef TWIN_IN_FLIGHT_KEPT
	in_flight[cpu] = 0
#endif
}

/*
 * vCPU 2 goes offline in stop_machine(), which waits for all who have preemption off.
 * An interrupt that is under way then is lost. It starts again without translations.
 */
#ifdef HOTPLUG
proctype hotplug()
{
end:	do
	:: atomic {
		running[2] && !in_handler[2] && !preemption_off[0] && !preemption_off[1] ->
		online = 0;
		running[2] = 0;
		irr[2] = 0
	   };
		if
		:: atomic { mailbox_prepare_cpu(2) }
		:: break	/* it stays offline */
		fi;
		atomic {
			flush_all(2);
			local_gen[2] = mm_gen;
			running[2] = 1;
			online = 1
		}
	od
}
#endif

init
{
	atomic {
		if
		:: preempted[2] = PREEMPTED	/* which nobody will ever clear */
		:: shared = 1
		fi;
		run interrupts(0);
		run interrupts(1);
		run interrupts(2);
		run task(0);
		run task(1);
#ifdef HOTPLUG
		run hotplug();
#endif
		run environment()
	}
}
