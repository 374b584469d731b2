// SPDX-License-Identifier: GPL-2.0-only
/*
 * One flush, from the hook in arch/x86/mm/tlb.c to its completion.
 *
 * What every backend needs is done here, once: the copy of the live cpumask and
 * its filtering, this CPU's own part, the kernel's accounting, statistics,
 * tracing, and the one place where a flush that a backend could not do falls
 * back to interrupts.
 */
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/static_call.h>
#include <linux/vmstat.h>

#include <trace/events/pvtlb.h>
#include <trace/events/tlb.h>

#include "internal.h"

static const char * const kind_names[PVTLB_NR_KINDS] = {
	[PVTLB_USER]	= "user",
	[PVTLB_BATCH]	= "batch",
	[PVTLB_KERNEL]	= "kernel",
	[PVTLB_ALL]	= "all",
};

/* Stands in while no backend is active: an error makes the core interrupt. */
static int flush_without_backend(struct pvtlb_request *req)
{
	return -ENODEV;
}

/*
 * The active backend. Both change only between pvtlb_stop() and pvtlb_start(),
 * so a flush has one backend from its start to its end.
 */
static const struct pvtlb_backend *backend;
DEFINE_STATIC_CALL(pvtlb_backend_flush, flush_without_backend);
DEFINE_STATIC_KEY_FALSE(pvtlb_active);

struct pvtlb_cpu __percpu *pvtlb_cpus;

/**
 * pvtlb_stop() - let the in-tree code do every flush from now on
 *
 * When it returns, no backend is in use: flushes run with preemption off and
 * check pvtlb_active there, so an RCU grace period waits for the last of them.
 *
 * Context: process context, may sleep; the caller serialises against
 *          pvtlb_start().
 */
void pvtlb_stop(void)
{
	static_branch_disable(&pvtlb_active);
	synchronize_rcu();
	static_call_update(pvtlb_backend_flush, flush_without_backend);
	backend = NULL;
}

static bool stopped_for_good;

/**
 * pvtlb_stop_for_good() - the same, as the system goes down
 *
 * Waits for nobody: a CPU that is stuck must not keep the system from rebooting,
 * and a flush that is under way may go on, since nothing that it uses is freed.
 *
 * A flag that begin() looks at, not the key: patching waits for every CPU, and a
 * pvtlb_stop() at the same time would find the key off and go on while the branches
 * are still being patched, to leave a backend that is in use.
 *
 * Context: any; no lock needed.
 */
void pvtlb_stop_for_good(void)
{
	WRITE_ONCE(stopped_for_good, true);
}

/**
 * pvtlb_start() - give every flush to a backend from now on
 * @new: one whose probe said yes
 *
 * Context: process context, may sleep; after pvtlb_stop() or at boot.
 */
void pvtlb_start(const struct pvtlb_backend *new)
{
	backend = new;
	static_call_update(pvtlb_backend_flush, new->flush);
	static_branch_enable(&pvtlb_active);
}

/**
 * pvtlb_init_cpus() - allocate what each CPU needs to flush others
 *
 * Idempotent, so that a later try may succeed.
 *
 * Return: 0 or -ENOMEM.
 */
int pvtlb_init_cpus(void)
{
	if (!pvtlb_cpus && !pvtlb_fail_alloc())
		pvtlb_cpus = __alloc_percpu(sizeof(struct pvtlb_cpu) + 2 * cpumask_size(),
					    __alignof__(struct pvtlb_cpu));
	return pvtlb_cpus ? 0 : -ENOMEM;
}

/**
 * pvtlb_snapshot() - copy a live mask
 * @targets: the copy: online CPUs of @cpus but this one. May come out empty
 * @cpus:    the mask as the caller of the flush gave it
 * @local:   this CPU was in @cpus
 *
 * CPUs that come and go are treated as on_each_cpu_mask() treats them: one that
 * is not online is not flushed. With preemption off here, none can go meanwhile.
 *
 * Return: the number of CPUs in @targets.
 */
unsigned int pvtlb_snapshot(struct cpumask *targets, const struct cpumask *cpus, bool *local)
{
	cpumask_and(targets, cpus, cpu_online_mask);
	*local = cpumask_test_and_clear_cpu(smp_processor_id(), targets);
	if (pvtlb_mutant(snapshot_short))
		pvtlb_lose_last(targets);
	return cpumask_weight(targets);
}

/**
 * pvtlb_pages() - how many 4 KiB pages a flush covers
 * @info: the flush; its end may have wrapped to 0, the top of the address space
 *
 * Return: the number of pages the range touches, at least 1; 0 for a full flush.
 */
unsigned long pvtlb_pages(const struct flush_tlb_info *info)
{
	unsigned long first = info->start >> PAGE_SHIFT, last = (info->end - 1) >> PAGE_SHIFT;

	if (info->end == TLB_FLUSH_ALL)
		return 0;
	return last >= first ? last - first + 1 : 1;
}

/**
 * pvtlb_account() - tell the kernel's own observers of a remote flush
 * @req: the flush
 *
 * Existing tools read the nr_tlb_remote_flush counter and the tlb:tlb_flush
 * event and must go on seeing every remote flush, whatever carries it out. The
 * event's reason has no word but "remote ipi send" for the sender's side;
 * nr_tlb_remote_flush_received counts in the interrupted CPUs only.
 */
void pvtlb_account(const struct pvtlb_request *req)
{
	unsigned long pages = pvtlb_pages(req->info);

	count_vm_tlb_event(NR_TLB_REMOTE_FLUSH);
	trace_tlb_flush(TLB_REMOTE_SEND_IPI, pages ?: TLB_FLUSH_ALL);
}

/**
 * pvtlb_flush_by_ipi() - interrupt every remaining target and wait for it
 * @req: the flush; its targets may be empty
 *
 * Flushes this CPU while the others are under way, if that is still to be done.
 *
 * Context: as &pvtlb_backend.flush.
 */
void pvtlb_flush_by_ipi(struct pvtlb_request *req)
{
	unsigned int targets = cpumask_weight(req->targets);

	req->ipi += targets;
	req->sent += targets;
	if (pvtlb_mutant(fallback_short))
		pvtlb_lose_last(req->targets);
	if (req->local) {
		__cpumask_set_cpu(smp_processor_id(), req->targets);
		req->local = false;
	}
	on_each_cpu_mask(req->targets, req->func, (void *)req->info, true);
}

/**
 * pvtlb_flush_this_cpu() - do this CPU's part of a flush
 * @req: a flush whose @local is set
 *
 * Context: as &pvtlb_backend.flush.
 */
void pvtlb_flush_this_cpu(struct pvtlb_request *req)
{
	unsigned long flags;

	local_irq_save(flags);
	if (!pvtlb_mutant(local_skipped))
		req->func((void *)req->info);
	local_irq_restore(flags);
	req->local = false;
}

/*
 * Drop the CPUs that will flush themselves before they use the mm again. Not
 * when tables were freed: a lazy CPU may walk them speculatively.
 */
static unsigned int drop_lazy(struct pvtlb_request *req)
{
	unsigned int cpu, dropped = 0;

	if (req->kind > PVTLB_BATCH || (req->info->freed_tables && !pvtlb_mutant(lazy_walker)))
		return 0;

	for_each_cpu(cpu, req->targets) {
		if (should_flush_tlb(cpu, (void *)req->info))
			continue;
		__cpumask_clear_cpu(cpu, req->targets);
		dropped++;
	}
	return dropped;
}

static void leave_mm_if_lazy(void *unused)
{
	if (this_cpu_read(cpu_tlbstate_shared.is_lazy))
		pvtlb_leave_mm();
}

/*
 * A lazy CPU that is interrupted to flush leaves mm_cpumask() on that occasion. One
 * that the hypervisor flushes stays, and is asked for again with each flush that
 * frees tables. So when the kernel wants the mask trimmed, once a second, such
 * CPUs are told to leave. Nobody waits for them: they are flushed already.
 *
 * The CPUs to be told are picked before the flush, which empties the targets.
 */
static void pick_lazy(struct cpumask *lazy, const struct pvtlb_request *req)
{
	unsigned int cpu;

	cpumask_clear(lazy);
	if (!backend->remote || !req->info->trim_cpumask)
		return;
	for_each_cpu(cpu, req->targets)
		if (per_cpu(cpu_tlbstate_shared.is_lazy, cpu))
			__cpumask_set_cpu(cpu, lazy);
}

static void trim(struct cpumask *lazy)
{
	if (cpumask_empty(lazy))
		return;
	pvtlb_count(PVTLB_STAT_trimmed, cpumask_weight(lazy));
	smp_call_function_many(lazy, leave_mm_if_lazy, NULL, false);
}

static int flush_remote(struct pvtlb_request *req, struct cpumask *lazy)
{
	int err;

	if (!backend->in_tree)
		pvtlb_account(req);

	pick_lazy(lazy, req);
	err = static_call(pvtlb_backend_flush)(req);
	if (pvtlb_mutant(error_ignored))
		err = 0;
	if (likely(!err)) {
		trim(lazy);
		pvtlb_backend_worked();
		return 0;
	}

	pvtlb_count(PVTLB_STAT_fallbacks, 1);
	pvtlb_flush_by_ipi(req);
	if (err != -EOPNOTSUPP)
		pvtlb_backend_failed(err);
	return err;
}

static void flush(struct pvtlb_request *req, struct pvtlb_cpu *this)
{
	bool traced = trace_pvtlb_flush_enabled();
	u64 start = traced ? local_clock() : 0;
	unsigned int asked, lazy;
	int result = 0;

	req->targets = to_cpumask(this->masks);
	asked = pvtlb_snapshot(req->targets, req->cpus, &req->local);
	lazy = drop_lazy(req);
	if (asked > lazy || backend->in_tree)
		result = flush_remote(req, to_cpumask(this->masks + cpumask_size() / sizeof(long)));
	if (req->local)
		pvtlb_flush_this_cpu(req);

	pvtlb_count((enum pvtlb_stat)req->kind, 1);
	pvtlb_count(PVTLB_STAT_asked, asked);
	pvtlb_count(PVTLB_STAT_lazy, lazy);
	pvtlb_count(PVTLB_STAT_deferred, req->deferred);
	pvtlb_count(PVTLB_STAT_ipi, req->ipi);
	pvtlb_count(PVTLB_STAT_late, req->late);
	pvtlb_count(PVTLB_STAT_sent, req->sent);
	pvtlb_count(PVTLB_STAT_yields, req->yields);
	pvtlb_count(PVTLB_STAT_halts, req->halts);
	pvtlb_count(PVTLB_STAT_hypercalls, req->hypercalls);
	pvtlb_count(PVTLB_STAT_over, req->over);
	if (traced)
		trace_pvtlb_flush(backend->name, kind_names[req->kind], req,
				  pvtlb_pages(req->info), asked, lazy, result,
				  local_clock() - start);
}

/*
 * Take this CPU's state for one flush, until end(). NULL where the in-tree code
 * has to do it: the backend was just stopped; or the context is one in which
 * other CPUs may be stopped (panic, the last steps of suspend and kexec), or an
 * interrupt, which may have come in the middle of a flush.
 */
static struct pvtlb_cpu *begin(void)
{
	if (unlikely(irqs_disabled() || !in_task()))
		return NULL;

	preempt_disable();
	if (static_branch_likely(&pvtlb_active) && likely(!READ_ONCE(stopped_for_good)))
		return this_cpu_ptr(pvtlb_cpus);
	preempt_enable();
	return NULL;
}

static void end(void)
{
	preempt_enable();
}

bool __pvtlb_flush_multi(const struct cpumask *cpus, const struct flush_tlb_info *info)
{
	struct pvtlb_cpu *this = begin();
	struct pvtlb_request req = {
		.kind	= info->mm ? PVTLB_USER : PVTLB_BATCH,
		.info	= info,
		.func	= flush_tlb_func,
		.cpus	= cpus,
	};

	if (!this)
		return pvtlb_mutant(declined_as_done);

	if (!pvtlb_mutant(batch_skipped) || req.kind != PVTLB_BATCH)
		flush(&req, this);
	end();
	return true;
}

static bool flush_kernel(enum pvtlb_kind kind, unsigned long start, unsigned long end_addr)
{
	struct pvtlb_cpu *this = begin();
	struct pvtlb_request req = {
		.kind	= kind,
		.func	= end_addr == TLB_FLUSH_ALL ? do_flush_tlb_all : do_kernel_range_flush,
		.cpus	= cpu_online_mask,
	};

	if (!this)
		return pvtlb_mutant(declined_as_done);

	this->info = (struct flush_tlb_info) {
		.start		= start,
		.end		= end_addr,
		.new_tlb_gen	= TLB_GENERATION_INVALID,
		.initiating_cpu	= smp_processor_id(),
		.stride_shift	= PAGE_SHIFT,
	};
	req.info = &this->info;
	/*
	 * The caller stored to the kernel's tables with no barrier since. Here it
	 * is, so that backends may read a vCPU's state whatever the kind, as
	 * after inc_mm_tlb_gen(). Partner: what orders a vCPU's state before its
	 * next walk of the tables, such as the host's exchange in
	 * record_steal_time().
	 */
	smp_mb();
	flush(&req, this);
	end();
	return true;
}

bool __pvtlb_flush_kernel_range(unsigned long start, unsigned long end)
{
	if (end == TLB_FLUSH_ALL || end - start > tlb_single_page_flush_ceiling << PAGE_SHIFT)
		return flush_kernel(PVTLB_KERNEL, 0, TLB_FLUSH_ALL);
	if (pvtlb_mutant(kernel_range_skipped) && end - start > PAGE_SIZE)
		return true;
	if (pvtlb_mutant(kernel_range_short) && end - start > PAGE_SIZE)
		end -= PAGE_SIZE;
	return flush_kernel(PVTLB_KERNEL, start, end);
}

bool __pvtlb_flush_all(void)
{
	return flush_kernel(PVTLB_ALL, 0, TLB_FLUSH_ALL);
}
