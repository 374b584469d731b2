// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes put into the words of the TLFS, and its answers read. Nothing here has
 * state or touches the machine, so all of it is tested by table and fuzzed in user space.
 */
#include <linux/bits.h>
#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/kernel.h>

#include <asm/hyperv-tlfs.h>

#include "mutants.h"
#include "private.h"

/* Blocks of 1 << shift bytes that a range touches: at least that of its first byte. */
static u64 blocks(const struct pvtlb_hv_range *range, unsigned int shift)
{
	u64 first = range->start >> shift, last = (range->end - 1) >> shift;

	return last >= first ? last - first + 1 : 1;
}

/**
 * pvtlb_hv_entries() - how long the list for a range is
 * @range: what is to be flushed
 *
 * Pages of 4 KiB are told by the run, larger ones by an entry each, with an address
 * in it: that flushes what is cached of the whole page, as INVLPG does (TLFS,
 * HvCallFlushVirtualAddressList). Counts in blocks, which unlike addresses cannot
 * wrap, and whole ones: a large page may be replaced by a table that was freed
 * anywhere in it.
 *
 * Return: the number of entries, at least 1.
 */
u64 pvtlb_hv_entries(const struct pvtlb_hv_range *range)
{
	u64 nr = blocks(range, range->shift);

	if (range->shift <= PVTLB_HV_GVA_SHIFT)
		nr = (nr - 1) / PVTLB_HV_GVA_PAGES + 1;
	return pvtlb_mutant(hv_list_short) && nr > 1 ? nr - 1 : nr;
}

/**
 * pvtlb_hv_fill_gvas() - list the addresses of a range
 * @list:  room for pvtlb_hv_entries()
 * @range: what is to be flushed
 */
void pvtlb_hv_fill_gvas(u64 *list, const struct pvtlb_hv_range *range)
{
	u64 block = range->start >> range->shift, left = blocks(range, range->shift), n;
	unsigned int shift = range->shift;

	if (shift > PVTLB_HV_GVA_SHIFT) {
		if (pvtlb_mutant(hv_large_as_small))
			shift = PVTLB_HV_GVA_SHIFT;
		while (left--)
			*list++ = block++ << shift;
		return;
	}
	for (; left; block += n, left -= n) {
		n = min_t(u64, left, PVTLB_HV_GVA_PAGES);
		*list++ = block << PVTLB_HV_GVA_SHIFT | (n - 1);
		if (pvtlb_mutant(hv_entry_short) && n > 1)
			list[-1]--;
	}
}

/**
 * pvtlb_hv_vps_add() - add a virtual processor
 * @vps: empty when its mask is 0
 * @vp:  its index
 *
 * Return: 0, or -EINVAL for an index that no set can hold, PVTLB_HV_NO_VP included.
 */
int pvtlb_hv_vps_add(struct pvtlb_hv_vps *vps, u32 vp)
{
	u32 bank = vp / PVTLB_HV_BANK_VPS;

	if (bank >= PVTLB_HV_MAX_BANKS)
		return -EINVAL;
	if (!(vps->mask & BIT_ULL(bank)) || pvtlb_mutant(hv_last_vp_only)) {
		vps->mask |= BIT_ULL(bank);
		vps->bank[bank] = 0;
	}
	vps->bank[bank] |= BIT_ULL(vp % PVTLB_HV_BANK_VPS);
	return 0;
}

/**
 * pvtlb_hv_shape() - the call for a kind of targets and a number of entries
 * @form:    the answer, as from memory
 * @banks:   of a sparse set, 0 for a mask
 * @entries: of a list, 0 for whole address spaces
 */
void pvtlb_hv_shape(struct pvtlb_hv_form *form, unsigned int banks, unsigned int entries)
{
	size_t header = banks ? sizeof(struct hv_tlb_flush_ex) : sizeof(struct hv_tlb_flush);

	if (banks)
		form->code = entries ? HVCALL_FLUSH_VIRTUAL_ADDRESS_LIST_EX :
				       HVCALL_FLUSH_VIRTUAL_ADDRESS_SPACE_EX;
	else
		form->code = entries ? HVCALL_FLUSH_VIRTUAL_ADDRESS_LIST :
				       HVCALL_FLUSH_VIRTUAL_ADDRESS_SPACE;
	form->fast = false;
	form->banks = banks;
	form->reps = entries;
	form->words = header / sizeof(u64) + banks + entries;
}

/* Whether the host can be told in this shape: from registers where they hold it. */
static bool goes(struct pvtlb_hv_form *form, const struct pvtlb_hv_ways *ways, unsigned int room)
{
	form->fast = ways->fast && form->words <= PVTLB_HV_FAST_WORDS;
	return form->fast || (ways->slow && form->words <= room);
}

/**
 * pvtlb_hv_choose() - how to put a flush
 * @form:      the answer
 * @ways:      what the host takes
 * @bank_mask: banks with a target
 * @entries:   list entries; 0 to flush whole address spaces
 * @room:      words of input that there is memory for
 *
 * By mask where that can name the targets, else by sparse set. By list if there is
 * one and it fits, else whole address spaces. From registers where they hold it, else
 * from memory.
 *
 * Return: 0; -EINVAL for nobody, because KVM takes an empty mask for everybody;
 *	   -EOPNOTSUPP when this host has no way to be told.
 */
int pvtlb_hv_choose(struct pvtlb_hv_form *form, const struct pvtlb_hv_ways *ways,
		    u64 bank_mask, u64 entries, unsigned int room)
{
	bool mask_will_do = bank_mask == BIT_ULL(0);
	unsigned int banks = mask_will_do ? 0 : hweight64(bank_mask);

	if (!bank_mask)
		return -EINVAL;
	if (!mask_will_do && !ways->ex)
		return -EOPNOTSUPP;

	if (entries && entries <= PVTLB_HV_MAX_REPS) {
		pvtlb_hv_shape(form, banks, entries);
		if (goes(form, ways, room))
			return 0;
	}
	pvtlb_hv_shape(form, banks, 0);
	return goes(form, ways, room) ? 0 : -EOPNOTSUPP;
}

/**
 * pvtlb_hv_encode() - write the input of a flush
 * @input: room for the words of @form, rounded up to two, and for two at least
 * @form:  from pvtlb_hv_choose()
 * @space: physical address of the page tables, without any PCID; 0 when all are meant
 * @flags: HV_FLUSH_*
 * @vps:   the targets
 * @range: the addresses, if @form has reps
 */
void pvtlb_hv_encode(u64 *input, const struct pvtlb_hv_form *form, u64 space, u64 flags,
		     const struct pvtlb_hv_vps *vps, const struct pvtlb_hv_range *range)
{
	unsigned int bank;
	u64 *word = input;

	*word++ = space;
	*word++ = flags;
	if (form->banks) {
		*word++ = HV_GENERIC_SET_SPARSE_4K;
		*word++ = vps->mask;
		for (bank = 0; bank < PVTLB_HV_MAX_BANKS; bank++)
			if (vps->mask & BIT_ULL(bank))
				*word++ = vps->bank[bank];
		if (pvtlb_mutant(hv_bank_empty) && form->banks > 1)
			word[-1] = 0;
	} else {
		*word++ = vps->bank[0];
	}
	if (form->reps)
		pvtlb_hv_fill_gvas(word, range);
	/* The other half of an XMM register */
	if (form->words & 1)
		input[form->words] = 0;
}

/**
 * pvtlb_hv_control() - the hypercall input value
 * @form: of the call
 * @done: list entries that are done already
 *
 * Return: what goes to RCX: TLFS, "Hypercall Inputs".
 */
u64 pvtlb_hv_control(const struct pvtlb_hv_form *form, unsigned int done)
{
	return form->code | (form->fast ? HV_HYPERCALL_FAST_BIT : 0) |
	       (u64)form->banks << HV_HYPERCALL_VARHEAD_OFFSET |
	       (u64)form->reps << HV_HYPERCALL_REP_COMP_OFFSET |
	       (u64)done << HV_HYPERCALL_REP_START_OFFSET;
}

/**
 * pvtlb_hv_progress() - what the answer to a call means
 * @result: RAX: TLFS, "Hypercall Outputs"
 * @reps:   list entries asked for in all
 * @done:   of these, done before the call; after it, on return
 *
 * A hypervisor that returns early without having got on is taken for broken, or
 * going on would never end. So is one that claims more than it was asked for.
 *
 * Return: 0 when all is done, 1 to go on from @done, -errno when it failed.
 */
int pvtlb_hv_progress(u64 result, unsigned int reps, unsigned int *done)
{
	unsigned int before = *done;
	int err = pvtlb_hv_errno(result & HV_HYPERCALL_RESULT_MASK);

	*done = (result & HV_HYPERCALL_REP_COMP_MASK) >> HV_HYPERCALL_REP_COMP_OFFSET;
	if (pvtlb_mutant(hv_status_ignored))
		err = 0;
	if (err)
		return err;
	if (*done > reps || (*done < reps && *done <= before))
		return -EPROTO;
	if (pvtlb_mutant(hv_some_as_all))
		return 0;
	return *done < reps;
}

/*
 * Those that a flush or an interrupt can meet: TLFS, "Hypercall Status Codes".
 * None of them is -EOPNOTSUPP, which is how a backend says that it did not try.
 */
static const struct {
	u16		status;
	s16		err;
	const char	*name;
} statuses[] = {
	{ 0x00, 0,		"HV_STATUS_SUCCESS" },
	{ 0x02, -ENOSYS,	"HV_STATUS_INVALID_HYPERCALL_CODE" },
	{ 0x03, -EINVAL,	"HV_STATUS_INVALID_HYPERCALL_INPUT" },
	{ 0x04, -EINVAL,	"HV_STATUS_INVALID_ALIGNMENT" },
	{ 0x05, -EINVAL,	"HV_STATUS_INVALID_PARAMETER" },
	{ 0x06, -EACCES,	"HV_STATUS_ACCESS_DENIED" },
	{ 0x07, -EBUSY,		"HV_STATUS_INVALID_PARTITION_STATE" },
	{ 0x08, -EPERM,		"HV_STATUS_OPERATION_DENIED" },
	{ 0x0b, -ENOMEM,	"HV_STATUS_INSUFFICIENT_MEMORY" },
	{ 0x0d, -EINVAL,	"HV_STATUS_INVALID_PARTITION_ID" },
	{ 0x0e, -EINVAL,	"HV_STATUS_INVALID_VP_INDEX" },
	{ 0x13, -ENOBUFS,	"HV_STATUS_INSUFFICIENT_BUFFERS" },
	{ 0x15, -EBUSY,		"HV_STATUS_INVALID_VP_STATE" },
	{ 0x78, -ETIME,		"HV_STATUS_TIME_OUT" },
};

/**
 * pvtlb_hv_errno() - a status as the kernel puts it
 * @status: bits 15:0 of a hypercall's result
 *
 * Return: 0 for success, else -errno; -EIO for one that is not known here.
 */
int pvtlb_hv_errno(u16 status)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].err;
	return -EIO;
}

/**
 * pvtlb_hv_status_name() - a status as the TLFS puts it, for people
 * @status: bits 15:0 of a hypercall's result
 *
 * Return: its name.
 */
const char *pvtlb_hv_status_name(u16 status)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].name;
	return "unknown";
}

/**
 * pvtlb_hv_call_name() - a flush call as the TLFS puts it
 * @code: HVCALL_FLUSH_VIRTUAL_ADDRESS_*
 *
 * Return: its name.
 */
const char *pvtlb_hv_call_name(u16 code)
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
