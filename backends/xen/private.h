/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the Xen backend knows of its host.
 *
 * A PV guest flushes other vCPUs with HYPERVISOR_mmuext_op (xen/interface/xen.h):
 * MMUEXT_TLB_FLUSH_MULTI for everything, MMUEXT_INVLPG_MULTI for one page, each
 * with a bitmap of vCPUs, the caller allowed among them. Xen flushes global
 * entries as well, at once where a vCPU runs, else before it runs again, and
 * answers -EINVAL to any guest that is not PV. Calls that change page tables may
 * be queued in the guest (xen/multicalls.h): they have to be made first.
 *
 * PVH and HVM guests have nothing but HVMOP_flush_tlbs, which flushes every
 * vCPU. They are not served here.
 */
#ifndef _PVTLB_XEN_PRIVATE_H
#define _PVTLB_XEN_PRIVATE_H

#include <xen/xen.h>
#include <xen/interface/xen.h>

#include <asm/xen/hypercall.h>

#endif /* _PVTLB_XEN_PRIVATE_H */
