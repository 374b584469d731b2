// SPDX-License-Identifier: GPL-2.0-only
/*
 * hyperv: flush by hypercall. The effects have happened on all targets when the
 * call returns (TLFS, HvCallFlushVirtualAddressSpace), whether they run or not.
 *
 * Differs from the in-tree code in that input goes through registers where the host
 * takes that; in that a large page is one entry of the list; in that kernel
 * addresses come here; and in that it works on KVM, beside KVM's own interface.
 */
#include <linux/irqflags.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include <asm/cpufeature.h>
#include <asm/mshyperv.h>

#include "internal.h"
#include "private.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "pvtlb."

/* pvtlb.hyperv_fast=0, also at run time: input from memory, though registers would do */
static bool allow_fast = true;
module_param_named(hyperv_fast, allow_fast, bool, 0644);

/* What the trial calls have shown; changes with no flush under way. */
static struct pvtlb_hv_ways ways;

/*
 * The address space: the mm's page tables, by their physical address. All spaces
 * where one does not say it: no mm, or page-table isolation, under which user
 * code runs on page tables of its own at another address.
 */
static u64 address_space(const struct pvtlb_request *req, u64 *flags)
{
	if (req->info->mm && !cpu_feature_enabled(X86_FEATURE_PTI))
		return virt_to_phys(req->info->mm->pgd) & CR3_ADDR_MASK;
	*flags |= HV_FLUSH_ALL_VIRTUAL_ADDRESS_SPACES;
	return 0;
}

/*
 * Whether a list of addresses says enough. Not for kernel addresses: the kernel
 * frees a page-table page after flushing one address below it, in the knowledge
 * that INVLPG empties all paging-structure caches (pud_free_pmd_page()). An
 * entry of the list promises that for its own address only. The ranges of an mm
 * hold an address below each table that was freed.
 */
static bool list_is_enough(const struct pvtlb_request *req)
{
	return req->kind == PVTLB_USER && req->info->end != TLB_FLUSH_ALL;
}

static int flush_from(struct pvtlb_hv_cpu *hv, struct pvtlb_request *req)
{
	const struct pvtlb_hv_ways now = {
		.fast = ways.fast && (READ_ONCE(allow_fast) || !ways.slow),
		.slow = ways.slow,
		.ex = ways.ex,
	};
	const struct pvtlb_hv_range range = {
		.start = req->info->start,
		.end = req->info->end,
		.shift = req->info->stride_shift,
	};
	u64 entries = list_is_enough(req) ? pvtlb_hv_entries(&range) : 0;
	struct pvtlb_hv_form form;
	u64 space, flags = 0;
	unsigned int cpu;
	u32 vp;
	int err;

	hv->vps.mask = 0;
	for_each_cpu(cpu, req->targets) {
		vp = per_cpu(pvtlb_hv_vp, cpu);
		if (pvtlb_mutant(hv_cpu_as_vp))
			vp = cpu;
		if (pvtlb_hv_vps_add(&hv->vps, vp))
			return -EOPNOTSUPP;	/* coming up or going: its index is not known */
	}

	/* One word less, for the other half of an XMM register */
	err = pvtlb_hv_choose(&form, &now, hv->vps.mask, entries, ARRAY_SIZE(hv->input) - 1);
	if (err)
		return err;

	space = address_space(req, &flags);
	if (!form.reps && req->kind <= PVTLB_BATCH)
		flags |= HV_FLUSH_NON_GLOBAL_MAPPINGS_ONLY;
	pvtlb_hv_encode(hv->input, &form, space, flags, &hv->vps, &range);
	return pvtlb_hv_call(&form, hv->input, &req->hypercalls);
}

static int hyperv_flush(struct pvtlb_request *req)
{
	struct pvtlb_hv_cpu *hv;
	unsigned long flags;
	int err;

	local_irq_save(flags);
	hv = this_cpu_read(pvtlb_hv_cpu);
	err = hv ? flush_from(hv, req) : -EOPNOTSUPP;	/* this CPU is coming up or going */
	local_irq_restore(flags);
	if (err)
		return err;

	req->deferred += cpumask_weight(req->targets);
	cpumask_clear(req->targets);
	return 0;
}

/*
 * Some hosts advertise a call and reject it, or one form of it. Each is tried on this
 * CPU: whole address spaces and one page, by mask and by sparse set, from registers
 * and from memory.
 */
static int try(bool ex, bool fast, unsigned int entries)
{
	const struct pvtlb_hv_range page = { .start = 0, .end = PAGE_SIZE, .shift = PAGE_SHIFT };
	unsigned int calls = 0;
	struct pvtlb_hv_form form;
	struct pvtlb_hv_cpu *hv;
	unsigned long flags;
	int err;

	local_irq_save(flags);
	hv = this_cpu_read(pvtlb_hv_cpu);
	err = hv ? 0 : -ENOMEM;
	if (err)
		goto out;
	hv->vps.mask = 0;
	err = pvtlb_hv_vps_add(&hv->vps, this_cpu_read(pvtlb_hv_vp));
	if (err || (!ex && hv->vps.mask != BIT_ULL(0)))
		goto out;
	pvtlb_hv_shape(&form, ex ? 1 : 0, entries);
	form.fast = fast;
	pvtlb_hv_encode(hv->input, &form, 0, HV_FLUSH_ALL_VIRTUAL_ADDRESS_SPACES, &hv->vps, &page);
	err = pvtlb_hv_call(&form, hv->input, &calls);
out:
	local_irq_restore(flags);
	pvtlb_count(PVTLB_STAT_hypercalls, calls);
	return err;
}

static bool works(bool ex, bool fast, int *err)
{
	*err = try(ex, fast, 0) ?: try(ex, fast, 1);
	return !*err;
}

/* Between pvtlb_hv_start() and pvtlb_hv_stop() */
static int find_ways(void)
{
	struct pvtlb_hv_ways found = {};
	int err, ignored;

	found.slow = works(false, false, &err);
	found.fast = (pvtlb_hv_features & HV_X64_HYPERCALL_XMM_INPUT_AVAILABLE) &&
		     works(false, true, &ignored);
	if (pvtlb_hv_hints & HV_X64_EX_PROCESSOR_MASKS_RECOMMENDED)
		found.ex = (!found.slow || works(true, false, &ignored)) &&
			   (!found.fast || works(true, true, &ignored));
	ways = found;
	return found.slow || found.fast ? 0 : err;
}

static bool all_vps_fit(void)
{
	unsigned int cpu;

	if (ways.ex)
		return true;
	for_each_online_cpu(cpu)
		if (per_cpu(pvtlb_hv_vp, cpu) >= PVTLB_HV_BANK_VPS)
			return false;
	return true;
}

static int hyperv_probe(struct pvtlb_probe *probe)
{
	const char *why_not;
	int err = pvtlb_hv_start(&why_not);

	if (err) {
		strscpy(probe->reason, why_not, sizeof(probe->reason));
		return err;
	}
	err = find_ways();
	if (err) {
		snprintf(probe->reason, sizeof(probe->reason),
			 "the host rejected a trial flush (%d)", err);
		err = -ENODEV;
	} else if (!(pvtlb_hv_hints & HV_X64_REMOTE_TLB_FLUSH_RECOMMENDED)) {
		strscpy(probe->reason, "the host does not recommend it", sizeof(probe->reason));
		probe->advised = false;
	} else if (!all_vps_fit()) {
		strscpy(probe->reason, "there are VP indexes above 63, but no Ex calls",
			sizeof(probe->reason));
		probe->advised = false;
	}
	pvtlb_hv_stop();
	return err;
}

static int hyperv_enter(void)
{
	const char *why_not;

	return pvtlb_hv_start(&why_not);
}

const struct pvtlb_backend pvtlb_hyperv = {
	.name	= "hyperv",
	.what	= "HvCallFlushVirtualAddress hypercalls",
	.probe	= hyperv_probe,
	.enter	= hyperv_enter,
	.leave	= pvtlb_hv_stop,
	.flush	= hyperv_flush,
	.remote	= true,
};
