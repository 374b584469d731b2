// SPDX-License-Identifier: GPL-2.0-only
/*
 * xen-hvm: flush by hypercall in PVH and HVM guests, or by mailbox where that
 * disturbs less. The call, and what Xen promises of it, is described in private.h.
 */
#include <linux/cpumask.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/string.h>

#include <xen/xen-ops.h>

#include <trace/events/pvtlb.h>

#include "internal.h"
#include "mailbox.h"
#include "private.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "pvtlb."

/*
 * pvtlb.xen_hvm_over=, also at run time: how many vCPUs a hypercall may flush in vain
 * for each that it is for, as long as all of these run. -1: no number is too high.
 *
 * By mailbox, a target costs three exits: one to send, and two to take the interrupt and
 * to end it. By hypercall, the caller exits once, and so does each vCPU that runs, target
 * or not, which then starts with an empty TLB. So the mailbox is for the few among
 * many. Measured at 0 and 2 in vain, the hypercall made 1.5 and 3 times the flushes
 * of the mailbox (bench/cases, pair and few).
 */
static int over_limit = 4;
module_param_named(xen_hvm_over, over_limit, int, 0644);

/**
 * pvtlb_xen_hvm_pays() - is a flush better done by hypercall?
 * @targets: vCPUs to be flushed
 * @over:    further ones that the hypercall would flush
 * @waits:   an interrupt would wait for some target to get a CPU
 * @limit:   pvtlb.xen_hvm_over
 *
 * A question of cost alone: both ways flush all targets.
 *
 * Return: true if it is.
 */
bool pvtlb_xen_hvm_pays(unsigned int targets, unsigned int over, bool waits, int limit)
{
	return waits || limit < 0 || over <= (u64)targets * limit;
}

/*
 * Would an interrupt wait for a target that Xen has taken off, or wake an idle one? As
 * they look now: a hint.
 */
static bool some_target_waits(const struct cpumask *targets)
{
	unsigned int cpu;

	for_each_cpu(cpu, targets)
		if (xen_vcpu_stolen(cpu) || idle_cpu(cpu))
			return true;
	return false;
}

static int call(struct pvtlb_request *req)
{
	bool traced = trace_pvtlb_hypercall_enabled();
	u64 start = traced ? local_clock() : 0;
	int err;

	if (pvtlb_fail_hypercall())
		err = -EINVAL;
	else if (pvtlb_mutant(xen_hvm_not_called))
		err = 0;
	else
		err = HYPERVISOR_hvm_op(HVMOP_flush_tlbs, NULL);
	req->hypercalls++;
	if (traced)
		trace_pvtlb_hypercall("xen-hvm", "HVMOP_flush_tlbs", "none", 0, 0, err,
				      err ? "failed" : "success", local_clock() - start);
	if (err)
		pvtlb_count(PVTLB_STAT_failures, 1);
	return err;
}

/*
 * This CPU's TLB is gone with the others', but its part is left to the core all the
 * same: that costs no exit, and keeps the generation of the mm up to date here.
 */
static int xen_hvm_flush(struct pvtlb_request *req)
{
	unsigned int targets = cpumask_weight(req->targets);
	unsigned int over = num_online_cpus() - targets - req->local;
	int err;

	if (!pvtlb_xen_hvm_pays(targets, over, some_target_waits(req->targets),
				READ_ONCE(over_limit))) {
		if (!pvtlb_mutant(xen_hvm_few_lost))
			pvtlb_mailbox_flush(req, NULL);
		return 0;
	}
	err = call(req);
	if (pvtlb_mutant(xen_hvm_error_ignored))
		err = 0;
	if (err)
		return err;
	req->deferred += targets;
	req->over += over;
	cpumask_clear(req->targets);
	return 0;
}

static int xen_hvm_probe(struct pvtlb_probe *probe)
{
	struct pvtlb_request req = { .kind = PVTLB_ALL };
	int err;

	if (!xen_hvm_domain()) {
		strscpy(probe->reason, "this is not a Xen PVH or HVM guest", sizeof(probe->reason));
		return -ENODEV;
	}
	err = call(&req);
	if (err) {
		snprintf(probe->reason, sizeof(probe->reason),
			 "Xen rejected a trial flush (%d)", err);
		return -ENODEV;
	}
	return 0;
}

const struct pvtlb_backend pvtlb_xen_hvm = {
	.name	= "xen-hvm",
	.what	= "HVMOP_flush_tlbs hypercall",
	.probe	= xen_hvm_probe,
	.flush	= xen_hvm_flush,
	.remote	= true,
};
