// SPDX-License-Identifier: GPL-2.0-only
/* xen: flush by hypercall in a PV guest. The calls are described in private.h. */
#include <linux/preempt.h>
#include <linux/sched/clock.h>
#include <linux/string.h>

#include <asm/paravirt.h>

#include <trace/events/pvtlb.h>

#include "internal.h"
#include "private.h"

/**
 * pvtlb_xen_op() - describe a flush to Xen
 * @info:  the flush
 * @vcpus: whom to flush
 *
 * More than one page is flushed as everything. Xen does one round of interrupts an
 * operation: page by page in one call, two pages made 1.1 times as many flushes,
 * within the noise, four and eight 0.8, and 33 pages 0.5 times (bench/cases).
 *
 * Return: the operation, ready for the call.
 */
struct mmuext_op pvtlb_xen_op(const struct flush_tlb_info *info, struct cpumask *vcpus)
{
	struct mmuext_op op = { .cmd = MMUEXT_TLB_FLUSH_MULTI, .arg2.vcpumask = vcpus };

	if (pvtlb_pages(info) == 1 ||
	    (pvtlb_mutant(xen_first_page) && info->end != TLB_FLUSH_ALL)) {
		op.cmd = MMUEXT_INVLPG_MULTI;
		op.arg1.linear_addr = info->start & PAGE_MASK;
	}
	return op;
}

static int call(struct pvtlb_request *req, struct mmuext_op *op)
{
	bool traced = trace_pvtlb_hypercall_enabled();
	u64 start = traced ? local_clock() : 0;
	int err;

	if (pvtlb_fail_hypercall())
		err = -EINVAL;
	else if (pvtlb_mutant(xen_not_called))
		err = 0;
	else
		err = HYPERVISOR_mmuext_op(op, 1, NULL, DOMID_SELF);
	req->hypercalls++;
	if (traced)
		trace_pvtlb_hypercall("xen",
				      op->cmd == MMUEXT_INVLPG_MULTI ? "MMUEXT_INVLPG_MULTI" :
								       "MMUEXT_TLB_FLUSH_MULTI",
				      "memory", 1, !err, err, err ? "failed" : "success",
				      local_clock() - start);
	if (err)
		pvtlb_count(PVTLB_STAT_failures, 1);
	return err;
}

static int xen_flush(struct pvtlb_request *req)
{
	unsigned int remote = cpumask_weight(req->targets);
	struct mmuext_op op;
	int err;

	if (pvtlb_mutant(xen_vcpu_lost))
		pvtlb_lose_last(req->targets);
	/* Every flush is a hypercall here, so let this one do ours as well. */
	if (req->local)
		__cpumask_set_cpu(smp_processor_id(), req->targets);
	op = pvtlb_xen_op(req->info, req->targets);

	/* What is queued for the page tables comes first, see private.h. */
	if (!pvtlb_mutant(xen_queue_kept))
		arch_flush_lazy_mmu_mode();
	err = call(req, &op);
	if (pvtlb_mutant(xen_error_ignored))
		err = 0;
	if (err) {
		__cpumask_clear_cpu(smp_processor_id(), req->targets);
		return err;
	}

	req->deferred += remote;
	req->local = false;
	cpumask_clear(req->targets);
	return 0;
}

/* Prove it: flush this vCPU. */
static int try_on_this_cpu(void)
{
	struct flush_tlb_info info = { .start = 0, .end = TLB_FLUSH_ALL };
	struct pvtlb_request req = { .kind = PVTLB_ALL, .info = &info, .local = true };
	cpumask_var_t none;
	int err;

	if (!zalloc_cpumask_var(&none, GFP_KERNEL))
		return -ENOMEM;
	req.targets = none;
	preempt_disable();
	err = xen_flush(&req);
	preempt_enable();
	free_cpumask_var(none);
	return err;
}

static int xen_probe(struct pvtlb_probe *probe)
{
	int err;

	if (!xen_pv_domain()) {
		strscpy(probe->reason,
			xen_domain() ? "MMUEXT flushes are for PV guests, this one is not" :
				       "this is not a Xen PV guest",
			sizeof(probe->reason));
		return -ENODEV;
	}
	err = try_on_this_cpu();
	if (err) {
		snprintf(probe->reason, sizeof(probe->reason),
			 "Xen rejected a trial flush (%d)", err);
		return -ENODEV;
	}
	return 0;
}

const struct pvtlb_backend pvtlb_xen = {
	.name	= "xen",
	.what	= "MMUEXT hypercalls",
	.probe	= xen_probe,
	.flush	= xen_flush,
	.remote	= true,
};
