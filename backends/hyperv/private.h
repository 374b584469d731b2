/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How flushes are put into words for Hyper-V, as the Hypervisor Top Level
 * Functional Specification (TLFS) has it. The structures and codes themselves
 * are the kernel's: <asm/hyperv-tlfs.h>.
 *
 * HvCallFlushVirtualAddressSpace (0x2) and ...List (0x3) name their targets by
 * a mask of VP indexes below 64; ...SpaceEx (0x13) and ...ListEx (0x14) by a
 * sparse set: a mask of banks of 64, followed by the banks that are in it. The
 * List calls are "rep" calls: their list is worked off entry by entry, and the
 * hypervisor may return before its end, with the number of entries done.
 *
 * Input goes through memory here. Fast calls, which pass it in registers, and
 * hosts whose hypercall page Linux did not set up, are not dealt with.
 */
#ifndef _PVTLB_HYPERV_PRIVATE_H
#define _PVTLB_HYPERV_PRIVATE_H

#include <linux/types.h>

struct hv_vpset;

/* A list entry: bits 63:12 the first page, bits 11:0 how many follow it. */
#define PVTLB_HV_GVA_SHIFT	12
#define PVTLB_HV_GVA_PAGES	4096

#define PVTLB_HV_BANK_VPS	64
#define PVTLB_HV_MAX_BANKS	64

int pvtlb_hv_fill_gvas(u64 *list, unsigned int room, unsigned long start, unsigned long end);

void pvtlb_hv_vpset_init(struct hv_vpset *set);
int pvtlb_hv_vpset_add(struct hv_vpset *set, u32 vp);
unsigned int pvtlb_hv_vpset_pack(struct hv_vpset *set);

#endif /* _PVTLB_HYPERV_PRIVATE_H */
