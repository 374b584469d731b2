// SPDX-License-Identifier: GPL-2.0-only
/*
 * hyperv: flush by hypercall. The effects have happened on all targets when the
 * call returns (TLFS, HvCallFlushVirtualAddressSpace), whether they run or not.
 */
#include <linux/irqflags.h>
#include <linux/string.h>

#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/mshyperv.h>

#include <trace/events/pvtlb.h>

#include "internal.h"
#include "private.h"

/* This CPU's input page: the kernel's, which interrupts use too. */
union input_page {
	struct hv_tlb_flush	flush;
	struct hv_tlb_flush_ex	ex;
	u8			page[HV_HYP_PAGE_SIZE];
};

#define GVA_ROOM(list_offset)	((HV_HYP_PAGE_SIZE - (list_offset)) / sizeof(u64))

static const char *name_of(u16 code)
{
	switch (code) {
	case HVCALL_FLUSH_VIRTUAL_ADDRESS_SPACE:
		return "HvCallFlushVirtualAddressSpace";
	case HVCALL_FLUSH_VIRTUAL_ADDRESS_LIST:
		return "HvCallFlushVirtualAddressList";
	case HVCALL_FLUSH_VIRTUAL_ADDRESS_SPACE_EX:
		return "HvCallFlushVirtualAddressSpaceEx";
	default:
		return "HvCallFlushVirtualAddressListEx";
	}
}

/*
 * Make a call, and go on with it from the number of completed entries for as
 * long as the hypervisor returns early. One that returns early without having
 * got on is taken for broken, or this would never end.
 */
static int call(struct pvtlb_request *req, u16 code, unsigned int reps, unsigned int banks, void *input)
{
	u64 control = code | (u64)banks << HV_HYPERCALL_VARHEAD_OFFSET |
		      (u64)reps << HV_HYPERCALL_REP_COMP_OFFSET;
	unsigned int done = 0, before;
	u64 result;

	do {
		before = done;
		if (pvtlb_fail_hypercall())
			result = HV_STATUS_INVALID_PARAMETER;
		else
			result = hv_do_hypercall(control | (u64)done << HV_HYPERCALL_REP_START_OFFSET,
						 input, NULL);
		req->hypercalls++;
		done = hv_repcomp(result);
		trace_pvtlb_hypercall("hyperv", name_of(code), reps, done, hv_result(result));
		if (!hv_result_success(result) || (done < reps && done <= before)) {
			pvtlb_count(PVTLB_STAT_failures, 1);
			return -EIO;
		}
	} while (done < reps);
	return 0;
}

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

/* Flush a list of addresses or, in full or if it would not fit, whole spaces. */
static int flush_input(struct pvtlb_request *req, union input_page *in)
{
	const struct flush_tlb_info *info = req->info;
	unsigned int cpu, banks, list_offset;
	struct hv_vpset *set = &in->ex.hv_vp_set;
	int gvas = -E2BIG;
	u64 flags = 0, space, mask;
	bool ex;

	pvtlb_hv_vpset_init(set);
	for_each_cpu(cpu, req->targets)
		if (pvtlb_hv_vpset_add(set, hv_cpu_number_to_vp_number(cpu)))
			return -EOPNOTSUPP;	/* it is coming up: its index is not known yet */

	/* An empty set means nobody to us and everybody to KVM. */
	if (WARN_ON_ONCE(!set->valid_bank_mask))
		return -EINVAL;

	ex = set->valid_bank_mask != BIT_ULL(0);
	if (ex && !(ms_hyperv.hints & HV_X64_EX_PROCESSOR_MASKS_RECOMMENDED))
		return -EOPNOTSUPP;

	space = address_space(req, &flags);
	if (ex) {
		banks = pvtlb_hv_vpset_pack(set);
		list_offset = offsetof(struct hv_tlb_flush_ex, gva_list[banks]);
	} else {
		banks = 0;
		mask = set->bank_contents[0];
		in->flush.processor_mask = mask;
		list_offset = offsetof(struct hv_tlb_flush, gva_list);
	}

	if (list_is_enough(req))
		gvas = pvtlb_hv_fill_gvas((u64 *)(in->page + list_offset), GVA_ROOM(list_offset),
					  info->start, info->end);
	if (gvas < 0 && req->kind <= PVTLB_BATCH)
		flags |= HV_FLUSH_NON_GLOBAL_MAPPINGS_ONLY;

	/* The first two fields are where they are in either form. */
	in->flush.address_space = space;
	in->flush.flags = flags;
	if (gvas < 0)
		return call(req, ex ? HVCALL_FLUSH_VIRTUAL_ADDRESS_SPACE_EX :
			    HVCALL_FLUSH_VIRTUAL_ADDRESS_SPACE, 0, banks, in);
	return call(req, ex ? HVCALL_FLUSH_VIRTUAL_ADDRESS_LIST_EX :
		    HVCALL_FLUSH_VIRTUAL_ADDRESS_LIST, gvas, banks, in);
}

static int hyperv_flush(struct pvtlb_request *req)
{
	unsigned long flags;
	union input_page *in;
	int err;

	local_irq_save(flags);
	in = *this_cpu_ptr(hyperv_pcpu_input_arg);
	err = in ? flush_input(req, in) : -EOPNOTSUPP;	/* this CPU is coming up or going */
	local_irq_restore(flags);
	if (err)
		return err;

	req->deferred += cpumask_weight(req->targets);
	cpumask_clear(req->targets);
	return 0;
}

static int try_on_this_cpu(struct cpumask *self, unsigned long end)
{
	struct flush_tlb_info info = { .start = 0, .end = end };
	struct pvtlb_request req = { .kind = PVTLB_USER, .info = &info, .targets = self };
	int err;

	preempt_disable();
	__cpumask_set_cpu(smp_processor_id(), self);
	err = hyperv_flush(&req);
	preempt_enable();
	return err;
}

/* Prove it, in full and by list: some hosts advertise the calls and reject them. */
static int try(void)
{
	cpumask_var_t self;
	int err;

	if (!zalloc_cpumask_var(&self, GFP_KERNEL))
		return -ENOMEM;
	err = try_on_this_cpu(self, TLB_FLUSH_ALL);
	if (!err) {
		cpumask_clear(self);
		err = try_on_this_cpu(self, PAGE_SIZE);
	}
	free_cpumask_var(self);
	return err;
}

static bool all_vps_fit(void)
{
	unsigned int cpu;

	if (ms_hyperv.hints & HV_X64_EX_PROCESSOR_MASKS_RECOMMENDED)
		return true;
	for_each_online_cpu(cpu)
		if ((u32)hv_cpu_number_to_vp_number(cpu) >= PVTLB_HV_BANK_VPS)
			return false;
	return true;
}

static int hyperv_probe(struct pvtlb_probe *probe)
{
	int err;

	if (!hypervisor_is_type(X86_HYPER_MS_HYPERV)) {
		strscpy(probe->reason, "the hypervisor does not present itself as Hyper-V", sizeof(probe->reason));
		return -ENODEV;
	}
	/* Without the page a confidential guest asks a host that it does not trust. */
	if (!hv_is_hyperv_initialized() || !hv_hypercall_pg || !hyperv_pcpu_input_arg || !hv_vp_index) {
		strscpy(probe->reason, "the kernel could not set Hyper-V's hypercalls up", sizeof(probe->reason));
		return -ENODEV;
	}
	err = try();
	if (err) {
		snprintf(probe->reason, sizeof(probe->reason), "the host rejected a trial flush (%d)", err);
		return -ENODEV;
	}
	if (!(ms_hyperv.hints & HV_X64_REMOTE_TLB_FLUSH_RECOMMENDED)) {
		strscpy(probe->reason, "the host does not recommend it", sizeof(probe->reason));
		probe->advised = false;
	} else if (!all_vps_fit()) {
		strscpy(probe->reason, "there are VP indexes above 63, but no Ex calls", sizeof(probe->reason));
		probe->advised = false;
	}
	return 0;
}

const struct pvtlb_backend pvtlb_hyperv = {
	.name	= "hyperv",
	.what	= "HvCallFlushVirtualAddress hypercalls",
	.probe	= hyperv_probe,
	.flush	= hyperv_flush,
};
