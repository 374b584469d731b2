// SPDX-License-Identifier: GPL-2.0-only
/*
 * upstream: whatever the kernel set up for itself, seen through pvtlb's eyes.
 * For comparison in one boot, and to blame or clear the in-tree code.
 *
 * What its flush_tlb_multi op does to which CPU is its own affair: deferred,
 * ipi and hypercalls stay 0. Kernel ranges it leaves to interrupts.
 */
#include <linux/string.h>

#include <asm/hypervisor.h>
#include <asm/paravirt.h>

#include "internal.h"

static int upstream_probe(struct pvtlb_probe *probe)
{
	probe->advised = false;
	strscpy(probe->reason, "for comparison, by name only", sizeof(probe->reason));
	return 0;
}

/* The native op counts and traces; KVM's ends in it; Hyper-V's and Xen's do neither. */
static bool op_accounts(void)
{
	return pv_ops.mmu.flush_tlb_multi == native_flush_tlb_multi ||
	       hypervisor_is_type(X86_HYPER_KVM);
}

static int upstream_flush(struct pvtlb_request *req)
{
	if (req->kind > PVTLB_BATCH) {
		pvtlb_account(req);
		pvtlb_flush_by_ipi(req);
		return 0;
	}

	if (!op_accounts() && !cpumask_empty(req->targets))
		pvtlb_account(req);
	__flush_tlb_multi(req->cpus, req->info);
	req->local = false;	/* the op flushes every CPU of the mask, this one too */
	return 0;
}

const struct pvtlb_backend pvtlb_upstream = {
	.name	 = "upstream",
	.what	 = "the in-tree mechanism",
	.probe	 = upstream_probe,
	.flush	 = upstream_flush,
	.in_tree = true,
};
