/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the Xen backends know of their host. Files are those of Xen 4.17.
 *
 * A PV guest flushes other vCPUs with HYPERVISOR_mmuext_op (xen/interface/xen.h):
 * MMUEXT_TLB_FLUSH_MULTI for everything, MMUEXT_INVLPG_MULTI for one page, each
 * with a bitmap of vCPUs, the caller allowed among them. Xen flushes global
 * entries as well, at once where a vCPU runs, else before it runs again, and
 * answers -EINVAL to any guest that is not PV. Calls that change page tables may
 * be queued in the guest (xen/multicalls.h): they have to be made first. Several
 * operations can go in one call, but each is a round of interrupts of its own
 * (do_mmuext_op() in arch/x86/mm.c).
 *
 * Other guests have HVMOP_flush_tlbs (public/hvm/hvm_op.h), with a null pointer for
 * argument. It flushes every vCPU of the guest, the caller included, and that keeps
 * the law, because
 *
 *  - it takes the tag of each vCPU's translations away (flush_tlb() in
 *    arch/x86/mm/hap/hap.c). A vCPU without one gets a new one on its next entry
 *    (hvm_asid_handle_vmenter() in arch/x86/hvm/asid.c), to which nothing old
 *    belongs, be it global or of a paging structure. Where tags are not used, each
 *    entry flushes (svm_asid_handle_vmrun() in arch/x86/hvm/svm/asid.c).
 *  - it interrupts the CPUs on which vCPUs run, and returns when all have taken the
 *    interrupt (on_selected_cpus() in common/smp.c), for which each has left the guest.
 *  - the caller has left the guest by calling.
 *  - under shadow paging it stops all other vCPUs, loads their page tables anew, and
 *    flushes their CPUs (shadow_flush_tlb() in arch/x86/mm/shadow/common.c). When two
 *    vCPUs call at once, one has to try again: the -ERESTART for that makes Xen
 *    return to the call instruction (hypercall_create_continuation()). The guest
 *    does not see it; if it does, it is an error, and nothing was promised.
 *
 * What the shared runstate says of a vCPU cannot leave it out of a flush. One that was
 * taken off keeps its tag, and finds its old translations if it is back before the
 * tags of that CPU have run out (hvm_asid_handle_vmenter() returns at once). And Xen
 * writes it in the middle of the change (context_switch() in arch/x86/domain.c). So it
 * is a hint here, for a choice between two ways that both flush every target.
 */
#ifndef _PVTLB_XEN_PRIVATE_H
#define _PVTLB_XEN_PRIVATE_H

#include <xen/xen.h>
#include <xen/interface/xen.h>

#include <asm/xen/hypercall.h>

/* Xen's public/hvm/hvm_op.h; Linux has no name for it. */
#define HVMOP_flush_tlbs	5

struct flush_tlb_info;

struct mmuext_op pvtlb_xen_op(const struct flush_tlb_info *info, struct cpumask *vcpus);
bool pvtlb_xen_hvm_pays(unsigned int targets, unsigned int over, bool waits, int limit);

#endif /* _PVTLB_XEN_PRIVATE_H */
