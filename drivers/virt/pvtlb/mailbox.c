// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mailbox: flush other CPUs by interrupt, without waiting for those that
 * a hypervisor will flush before they run again.
 *
 * smp_call_function_many() waits for every CPU that it has interrupted, however
 * long a hypervisor keeps one of them from running. Here a request can be taken
 * back, each initiator and target meet in two words of their own, and the
 * initiators that need the same target at the same time share one interrupt.
 *
 * WHO OWNS WHAT
 *
 *  outbox of a CPU	its one request. Written by the CPU itself, read by targets.
 *			seq, a seqcount, names the request while it is even
 *  inbox of a CPU	in_flight: an interrupt is under way to it. pending: a bit for
 *			each initiator that wants something of it
 *  acks of a CPU	for each initiator the seq of its request that was carried
 *			out last. Written by the CPU itself, read by that initiator
 *
 * ONE PAIR, initiator i and target t. The state is t.pending[i], and whether i
 * still waits:
 *
 *		mailbox_post()		  mailbox_interrupt() took the bit
 *	idle ------------------> posted ------------------------------> taken
 *	 ^ ^			    |				       |
 *	 | |  mailbox_withdraw(),   |			   t.acks[i] = seq, and
 *	 | +-- t left to the host --+			   i goes on
 *	 |							       |
 *	 +-------------------------------------------------------------+
 *
 * t may be taken off by the host at any point of "taken", and i may then leave
 * it to the host and go on. When t runs again it finishes: it reads an outbox
 * that may hold another request by now, or one that is just being written, for
 * an mm that may be gone. Hence:
 *
 *  - t reads the request as a seqcount reader. If the request changed under it,
 *    it flushes everything: its own translations it must not keep, and what the
 *    new request says it cannot know.
 *  - it acknowledges the seq that it read before the request, so it never
 *    answers for a request whose bit it has not taken.
 *  - it compares the mm's ctx_id, which is never used twice, because the address
 *    of a struct mm_struct is.
 *  - it looks at nothing that the request points to, except where that is
 *    the mm loaded here.
 *
 * BARRIERS
 *
 *  (A) mailbox_publish()			mailbox_answer()
 *	[S]  page table, by the caller		[RmW] t.pending[i] -> 0
 *	[S]  request, seq			[L]   seq, request, seq
 *	[RmW] t.pending[i] -> 1			[L]   page tables, after the flush
 *
 *	A target that takes the bit sees the request and the tables that the
 *	flush is about.
 *
 *  (B) mailbox_post()			mailbox_interrupt()
 *	[RmW] t.pending[i] -> 1			[RmW] t.in_flight -> 0
 *	[RmW] t.in_flight -> 1, was 1		[L]   t.pending[]
 *
 *	An initiator that relies on somebody else's interrupt has its bit seen
 *	by it. Clearing in_flight after the scan would lose the bit.
 *
 *  (C) mailbox_answer()			mailbox_wait()
 *	flush					[L]  t.acks[i] == seq (acquire)
 *	[RmW] t.acks[i] = seq			return: the page is free
 *
 *  (D) mailbox_answer()			mailbox_halt()
 *	[RmW] t.acks[i] = seq			[S]  i.awaited = t; full barrier
 *	[L]   i.awaited				[L]  t.acks[i], then halt
 *
 *	Either the target sees that it is awaited and wakes the initiator, or
 *	the initiator sees that it need not halt.
 *
 *  (E) the handshake with the host is described where it is done, in
 *	backends/kvm/kvm.c.
 *
 * WHY NOBODY WAITS FOR EVER
 *
 *  - Two initiators that wait for each other: both do so with interrupts on,
 *    and answer from within. pvtlb_flush_multi() and its siblings decline when
 *    interrupts are off.
 *  - A target that goes offline: initiators keep preemption off from the copy of
 *    cpu_online_mask to the end of the wait, which holds off stop_machine().
 *  - A CPU that comes back online has lost interrupts that were under way when it
 *    went, and in_flight would stay set: mailbox_prepare_cpu().
 *  - An interrupt that was lost on the way: it is sent again after a second,
 *    mailbox_ask_again().
 *  - A CPU that panic, kexec or sleep stopped for good: the CPU that did so has its
 *    interrupts off and does not come here.
 *
 * MEMORY: 4 bytes and a bit for each pair, and 256 bytes or so a CPU. With 8, 64 and
 * 1024 CPUs that is 2 KiB, 32 KiB and 4.4 MiB in all.
 *
 * The same protocol, with the host's steps in between, is in tests/model/mailbox.pml
 * under the same names.
 */
#define pr_fmt(fmt) "pvtlb: " fmt

#include <linux/bitmap.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/seqlock.h>
#include <linux/timex.h>

#include <asm/irq.h>
#include <asm/irq_vectors.h>

#include <xen/xen.h>

#include "internal.h"
#include "mailbox.h"

/**
 * struct outbox - the request of one initiator
 * @seq:      see above; even while the rest is valid
 * @awaited:  1 + the target that this CPU halts for, 0 while it does not
 * @host:     whom to ask for waking it
 * @func:     &pvtlb_request.func
 * @ctx_id:   of the mm, when there is one
 * @info:     a copy, because the original goes as soon as the flush returns
 * @interrupt: scratch of mailbox_send(): those whom nobody else interrupts
 */
struct outbox {
	seqcount_t				seq;
	unsigned int				awaited;
	const struct pvtlb_mailbox_host		*host;
	void					(*func)(void *info);
	u64					ctx_id;
	struct flush_tlb_info			info;
	unsigned long				interrupt[];
};

/**
 * struct inbox - what one target is asked for
 * @in_flight: an interrupt is on its way, which everybody may rely on
 * @pending:   a bit for each initiator
 */
struct inbox {
	unsigned int	in_flight;
	unsigned long	pending[];
};

static struct outbox __percpu *outboxes;
static struct inbox __percpu *inboxes;
static u32 __percpu *acks;	/* nr_cpu_ids of them for each target */
static bool ready __ro_after_init;

static u32 *ack_of(unsigned int target, unsigned int initiator)
{
	return per_cpu_ptr(acks, target) + initiator;
}

/*
 * Flush this CPU as the request in @out says, or of everything if it cannot be
 * read. Return: the number of the request.
 */
static u32 mailbox_carry_out(const struct outbox *out)
{
	struct mm_struct *mm = this_cpu_read(cpu_tlbstate.loaded_mm);
	u32 seq = raw_read_seqcount(&out->seq);
	/* Torn when the initiator writes meanwhile, which seq tells: not used then */
	struct flush_tlb_info info = data_race(out->info);
	void (*func)(void *info) = READ_ONCE(out->func);
	u64 ctx_id = READ_ONCE(out->ctx_id);
	bool torn = seq & 1 || read_seqcount_retry(&out->seq, seq);
	bool replaced = info.mm && info.mm == mm && mm->context.ctx_id != ctx_id;

	if (pvtlb_mutant(ack_only))
		return seq;
	if (pvtlb_mutant(torn_read))
		torn = false;
	if (pvtlb_mutant(mm_unchecked))
		replaced = false;
	if (unlikely(torn))
		do_flush_tlb_all(NULL);
	else if (likely(!replaced))
		func(&info);
	if (pvtlb_mutant(late_seq))
		return READ_ONCE(out->seq.sequence);
	return seq;
}

static void mailbox_answer(unsigned int initiator, unsigned int this)
{
	struct outbox *out = per_cpu_ptr(outboxes, initiator);
	u32 seq = mailbox_carry_out(out);

	xchg(ack_of(this, initiator), seq);	/* barriers (C) and (D) */
	if (unlikely(READ_ONCE(out->awaited) == this + 1) &&
	    cmpxchg(&out->awaited, this + 1, 0) == this + 1)
		READ_ONCE(out->host)->wake(initiator);
}

/*
 * The handler of X86_PLATFORM_IPI_VECTOR, which others may send for reasons of
 * their own. Interrupts are off.
 */
static void mailbox_interrupt(void)
{
	unsigned int this = smp_processor_id(), initiator;
	struct inbox *in = this_cpu_ptr(inboxes);

	if (!pvtlb_mutant(in_flight_late))
		xchg(&in->in_flight, 0);	/* barrier (B) */
	for_each_set_bit(initiator, in->pending, nr_cpu_ids)
		if (test_and_clear_bit(initiator, in->pending))
			mailbox_answer(initiator, this);
	if (pvtlb_mutant(in_flight_late))
		xchg(&in->in_flight, 0);
}

static void mailbox_publish(struct outbox *out, const struct pvtlb_request *req,
			    const struct pvtlb_mailbox_host *host)
{
	raw_write_seqcount_begin(&out->seq);
	WRITE_ONCE(out->host, host);
	WRITE_ONCE(out->func, req->func);
	WRITE_ONCE(out->ctx_id, req->info->mm ? req->info->mm->context.ctx_id : 0);
	/* Who reads it now finds seq odd, or changed. */
	data_race(out->info = *req->info);
	if (pvtlb_mutant(published_short) && out->info.end != TLB_FLUSH_ALL)
		out->info.end -= PAGE_SIZE;
	raw_write_seqcount_end(&out->seq);
}

/* Return: the target needs an interrupt of ours. */
static bool mailbox_post(unsigned int target, unsigned int this)
{
	struct inbox *in = per_cpu_ptr(inboxes, target);

	set_bit(this, in->pending);
	smp_mb__after_atomic();	/* barrier (B): the bit before in_flight */
	return !READ_ONCE(in->in_flight) && !xchg(&in->in_flight, 1);
}

/* A target that runs again later finds nothing, or is in the middle of it already. */
static void mailbox_withdraw(unsigned int target, unsigned int this)
{
	clear_bit(this, per_cpu_ptr(inboxes, target)->pending);
}

/* One is cheaper by a write to the APIC, several by a hypercall where there is one. */
static void mailbox_send_ipis(struct pvtlb_request *req, const struct cpumask *interrupt)
{
	unsigned int nr = cpumask_weight(interrupt);

	if (nr == 1)
		pvtlb_send_ipi(cpumask_first(interrupt), X86_PLATFORM_IPI_VECTOR);
	else if (nr)
		pvtlb_send_ipi_mask(interrupt, X86_PLATFORM_IPI_VECTOR);
	req->sent += nr;
}

/* Leave to the host whom it has taken off, and interrupt the others. */
static void mailbox_send(struct pvtlb_request *req, const struct pvtlb_mailbox_host *host,
			 unsigned int this)
{
	struct cpumask *interrupt = to_cpumask(this_cpu_ptr(outboxes)->interrupt);
	unsigned int target;

	cpumask_clear(interrupt);
	for_each_cpu(target, req->targets) {
		if (host && host->leave(target)) {
			__cpumask_clear_cpu(target, req->targets);
			req->deferred++;
			continue;
		}
		req->ipi++;
		if (mailbox_post(target, this))
			__cpumask_set_cpu(target, interrupt);
	}
	mailbox_send_ipis(req, interrupt);
}

/*
 * A target has said nothing for a second. It may be off its CPU, busy with
 * interrupts off or stopped by a debugger, and answer yet. But interrupts have
 * been lost before, in hypervisors and in their emulation, and one too many does
 * no harm. It is counted, so that it does not go unnoticed either.
 */
static void mailbox_ask_again(struct pvtlb_request *req, unsigned int target)
{
	WRITE_ONCE(per_cpu_ptr(inboxes, target)->in_flight, 1);
	pvtlb_send_ipi(target, X86_PLATFORM_IPI_VECTOR);
	req->sent++;
	pvtlb_count(PVTLB_STAT_resent, 1);
}

/* Until the target wakes us, or any interrupt does, such as the next tick. */
static void mailbox_halt(struct outbox *out, unsigned int target, const u32 *ack, u32 seq)
{
	WRITE_ONCE(out->awaited, target + 1);
	local_irq_disable();
	smp_mb();	/* barrier (D) */
	if (READ_ONCE(*ack) != seq)
		safe_halt();
	else
		local_irq_enable();
	WRITE_ONCE(out->awaited, 0);
}

/*
 * Wait for one target: watching for its acknowledgement and for its being taken
 * off; after a while asking the host to run it, once a jiffy; and then giving
 * up our own CPU to it, until the next tick at the latest.
 */
static void mailbox_wait(struct pvtlb_request *req, unsigned int target,
			 const struct pvtlb_mailbox_host *host, unsigned int this)
{
	struct outbox *out = this_cpu_ptr(outboxes);
	u32 *ack = ack_of(target, this), seq = out->seq.sequence;
	unsigned long again = jiffies + HZ;
	cycles_t start = 0, waited;

	while (smp_load_acquire(ack) != seq) {	/* barrier (C) */
		cpu_relax();
		if (unlikely(time_after_eq(jiffies, again))) {
			mailbox_ask_again(req, target);
			again = jiffies + HZ;
		}
		if (pvtlb_mutant(unawaited))
			return;
		if (pvtlb_mutant(withdrawn)) {
			mailbox_withdraw(target, this);
			return;
		}
		if (!host)
			continue;
		if (host->leave(target)) {
			mailbox_withdraw(target, this);
			req->ipi--;
			req->deferred++;
			req->late++;
			return;
		}
		if (!start)
			start = get_cycles();
		waited = get_cycles() - start;
		if (waited >= READ_ONCE(host->yield_after) && host->yield(target))
			req->yields++;
		if (waited >= READ_ONCE(host->halt_after)) {
			mailbox_halt(out, target, ack, seq);
			req->halts++;
		}
	}
}

static void flush_without_mailbox(struct pvtlb_request *req, const struct pvtlb_mailbox_host *host)
{
	unsigned int target;

	for_each_cpu(target, req->targets)
		if (host && host->leave(target)) {
			__cpumask_clear_cpu(target, req->targets);
			req->deferred++;
		}
	pvtlb_flush_by_ipi(req);
}

/**
 * pvtlb_mailbox_flush() - serve a request by mailbox
 * @req:  the request. All its targets are done when this returns
 * @host: what the hypervisor can do for it; NULL for nothing
 *
 * Where the mailbox cannot work, see pvtlb_init_mailbox(), whom the host has not
 * taken off is interrupted by pvtlb_flush_by_ipi().
 *
 * Context: as &pvtlb_backend.flush.
 */
void pvtlb_mailbox_flush(struct pvtlb_request *req, const struct pvtlb_mailbox_host *host)
{
	unsigned int this = smp_processor_id(), target;

	if (unlikely(!ready)) {
		flush_without_mailbox(req, host);
		return;
	}

	/* Two that wait for each other answer each other by interrupt. */
	lockdep_assert_irqs_enabled();

	mailbox_publish(this_cpu_ptr(outboxes), req, host);
	mailbox_send(req, host, this);
	if (req->local)
		pvtlb_flush_this_cpu(req);
	for_each_cpu(target, req->targets)
		mailbox_wait(req, target, host, this);
	cpumask_clear(req->targets);
}

/*
 * A CPU is about to come up: interrupts that were under way when it went, or
 * when the one before it did, are lost. Nobody asks it for anything yet.
 */
static int mailbox_prepare_cpu(unsigned int cpu)
{
	struct inbox *in = per_cpu_ptr(inboxes, cpu);

	if (pvtlb_mutant(cpu_unprepared))
		return 0;
	bitmap_zero(in->pending, nr_cpu_ids);
	WRITE_ONCE(in->in_flight, 0);
	return 0;
}

static void free_boxes(void)
{
	free_percpu(acks);
	free_percpu(inboxes);
	free_percpu(outboxes);
}

static int allocate_boxes(void)
{
	if (pvtlb_fail_alloc())
		return -ENOMEM;

	outboxes = __alloc_percpu(sizeof(struct outbox) + cpumask_size(), SMP_CACHE_BYTES);
	inboxes = __alloc_percpu(sizeof(struct inbox) + BITS_TO_LONGS(nr_cpu_ids) * sizeof(long),
				 SMP_CACHE_BYTES);
	acks = __alloc_percpu(nr_cpu_ids * sizeof(*acks), SMP_CACHE_BYTES);
	if (outboxes && inboxes && acks)
		return 0;
	free_boxes();
	return -ENOMEM;
}

/**
 * pvtlb_init_mailbox() - make ready for pvtlb_mailbox_flush()
 *
 * The mailbox's vector is one that Linux has for platforms. UV machines use it,
 * and Xen PV guests cannot send it: there, flushes go on by function call
 * interrupts.
 *
 * Without memory for it the same: slower, and nothing is lost.
 */
void __init pvtlb_init_mailbox(void)
{
	int err;

	if (x86_platform_ipi_callback || xen_pv_domain())
		return;

	err = allocate_boxes();
	if (err)
		goto fail;
	err = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "virt/pvtlb:prepare",
					mailbox_prepare_cpu, NULL);
	if (err < 0) {
		free_boxes();
		goto fail;
	}
	x86_platform_ipi_callback = mailbox_interrupt;
	ready = true;
	return;

fail:
	pr_warn("no mailboxes (%d): flushes wait for every CPU that they interrupt\n", err);
}

#ifdef CONFIG_PVTLB_KUNIT_TEST
#include "tests/pvtlb_mailbox_kunit.c"
#endif
