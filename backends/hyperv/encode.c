// SPDX-License-Identifier: GPL-2.0-only
/* Lists of addresses and sets of virtual processors, in the form of the TLFS. */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/minmax.h>

#include <asm/hyperv-tlfs.h>

#include "private.h"

/**
 * pvtlb_hv_fill_gvas() - describe a range of addresses
 * @list:  the entries
 * @room:  how many fit
 * @start: first byte; its whole page is flushed
 * @end:   first byte after the range, 0 for the top of the address space; the
 *         whole page of the byte before it is flushed. An empty range gives
 *         the page of @start
 *
 * Counts in pages, which unlike addresses cannot wrap.
 *
 * Return: the number of entries used, at least 1, or -E2BIG.
 */
int pvtlb_hv_fill_gvas(u64 *list, unsigned int room, unsigned long start, unsigned long end)
{
	u64 page = start >> PVTLB_HV_GVA_SHIFT, last = (end - 1) >> PVTLB_HV_GVA_SHIFT;
	u64 left = last >= page ? last - page + 1 : 1, n;
	unsigned int used = 0;

	for (; left; page += n, left -= n) {
		if (used == room)
			return -E2BIG;
		n = min_t(u64, left, PVTLB_HV_GVA_PAGES);
		list[used++] = page << PVTLB_HV_GVA_SHIFT | (n - 1);
	}
	return used;
}

/**
 * pvtlb_hv_vpset_init() - start a set, empty
 * @set: with room for PVTLB_HV_MAX_BANKS banks; what is in them does not matter
 */
void pvtlb_hv_vpset_init(struct hv_vpset *set)
{
	set->format = HV_GENERIC_SET_SPARSE_4K;
	set->valid_bank_mask = 0;
}

/**
 * pvtlb_hv_vpset_add() - add a virtual processor
 * @set: not packed yet: bank n is at index n
 * @vp:  its index
 *
 * Return: 0, or -EINVAL for an index no sparse set can hold, VP_INVAL included.
 */
int pvtlb_hv_vpset_add(struct hv_vpset *set, u32 vp)
{
	u32 bank = vp / PVTLB_HV_BANK_VPS;

	if (bank >= PVTLB_HV_MAX_BANKS)
		return -EINVAL;
	if (!(set->valid_bank_mask & BIT_ULL(bank))) {
		set->valid_bank_mask |= BIT_ULL(bank);
		set->bank_contents[bank] = 0;
	}
	set->bank_contents[bank] |= BIT_ULL(vp % PVTLB_HV_BANK_VPS);
	return 0;
}

/**
 * pvtlb_hv_vpset_pack() - leave only the banks that hold somebody
 * @set: filled; nothing can be added afterwards
 *
 * The hypervisor wants as many banks as the mask has bits.
 *
 * Return: the number of banks.
 */
unsigned int pvtlb_hv_vpset_pack(struct hv_vpset *set)
{
	unsigned int bank, packed = 0;

	for (bank = 0; bank < PVTLB_HV_MAX_BANKS; bank++)
		if (set->valid_bank_mask & BIT_ULL(bank))
			set->bank_contents[packed++] = set->bank_contents[bank];
	return packed;
}
