/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flushes as Hyper-V wants to be told of them, and what it takes to tell it.
 *
 * The words are those of the Hypervisor Top Level Functional Specification
 * (TLFS); codes, flags and structures are the kernel's, <asm/hyperv-tlfs.h>.
 *
 *			      targets by mask	  targets by sparse set
 *			      (VP indexes < 64)	  (any VP index)
 *	whole address spaces  ...Space (0x2)	  ...SpaceEx (0x13)
 *	a list of addresses   ...List (0x3)	  ...ListEx (0x14)
 *
 * all of them HvCallFlushVirtualAddress... A sparse set is a mask of banks of 64
 * VPs, followed by the banks that are in it. The List calls are "rep" calls: their
 * list is worked off entry by entry, and the hypervisor may return before its
 * end, with the number of entries done.
 *
 * Each takes its input from memory, or, "fast", from registers: RDX, R8 and
 * XMM0-5, 112 bytes in all, in the same order as in memory. XMM registers are for
 * hosts with CPUID 0x40000003 EDX bit 4 only; others raise #UD.
 *
 *	encode.c	flushes put into words: no state, also built in user space
 *	call.c		the calls themselves
 *	guest.c		being a guest of Hyper-V, on KVM too, and each CPU's VP index
 *	no-kvm-calls.c	what KVM's hypercalls do, done without them meanwhile
 *	hyperv.c	the backend
 */
#ifndef _PVTLB_HYPERV_PRIVATE_H
#define _PVTLB_HYPERV_PRIVATE_H

#include <linux/types.h>

/* A list entry: bits 63:12 the first page, bits 11:0 how many follow it. */
#define PVTLB_HV_GVA_SHIFT	12
#define PVTLB_HV_GVA_PAGES	4096

#define PVTLB_HV_BANK_VPS	64
#define PVTLB_HV_MAX_BANKS	64
#define PVTLB_HV_NO_VP		U32_MAX

/* What XMM fast calls hold: RDX, R8 and six times 16 bytes */
#define PVTLB_HV_FAST_WORDS	14

/* The number of list entries is a field of 12 bits. */
#define PVTLB_HV_MAX_REPS	4095

/**
 * struct pvtlb_hv_vps - a set of virtual processors
 * @mask: a bit for each bank in which there is somebody
 * @bank: those banks, each at its number; the others hold anything
 */
struct pvtlb_hv_vps {
	u64	mask;
	u64	bank[PVTLB_HV_MAX_BANKS];
};

/**
 * struct pvtlb_hv_range - addresses of which none may stay cached
 * @start: the first byte
 * @end:   the first byte after them, 0 for the top of the address space
 * @shift: log2 of the bytes that one entry of a page table maps there
 */
struct pvtlb_hv_range {
	unsigned long	start;
	unsigned long	end;
	unsigned int	shift;
};

/**
 * struct pvtlb_hv_ways - what a host takes
 * @fast: input in XMM registers
 * @slow: input in memory
 * @ex:   the Ex calls
 */
struct pvtlb_hv_ways {
	bool	fast;
	bool	slow;
	bool	ex;
};

/**
 * struct pvtlb_hv_form - how a flush is put
 * @code:  of the hypercall
 * @fast:  from registers, not from memory
 * @banks: banks of the sparse set, 0 for the calls that take a mask
 * @reps:  list entries, 0 for whole address spaces
 * @words: 8-byte words of input
 */
struct pvtlb_hv_form {
	u16		code;
	bool		fast;
	unsigned int	banks;
	unsigned int	reps;
	unsigned int	words;
};

/* encode.c */
u64 pvtlb_hv_entries(const struct pvtlb_hv_range *range);
void pvtlb_hv_fill_gvas(u64 *list, const struct pvtlb_hv_range *range);
int pvtlb_hv_vps_add(struct pvtlb_hv_vps *vps, u32 vp);
void pvtlb_hv_shape(struct pvtlb_hv_form *form, unsigned int banks, unsigned int entries);
int pvtlb_hv_choose(struct pvtlb_hv_form *form, const struct pvtlb_hv_ways *ways,
		    u64 bank_mask, u64 entries, unsigned int room);
void pvtlb_hv_encode(u64 *input, const struct pvtlb_hv_form *form, u64 space, u64 flags,
		     const struct pvtlb_hv_vps *vps, const struct pvtlb_hv_range *range);
u64 pvtlb_hv_control(const struct pvtlb_hv_form *form, unsigned int done);
int pvtlb_hv_progress(u64 result, unsigned int reps, unsigned int *done);
int pvtlb_hv_errno(u16 status);
const char *pvtlb_hv_status_name(u16 status);
const char *pvtlb_hv_call_name(u16 code);

#ifdef __KERNEL__
#include <linux/percpu.h>

struct cpumask;

/**
 * struct pvtlb_hv_cpu - where a CPU puts its flushes into words, interrupts off
 * @input: of the calls. In one page, as the size of the whole is a power of two
 * @vps:   whom they are for
 */
struct pvtlb_hv_cpu {
	u64			input[191];
	struct pvtlb_hv_vps	vps;
};

/* guest.c */
extern void *pvtlb_hv_page;		/* the hypercall page */
extern u32 pvtlb_hv_features;		/* CPUID 0x40000003 EDX */
extern u32 pvtlb_hv_hints;		/* CPUID 0x40000004 EAX */
DECLARE_PER_CPU(u32, pvtlb_hv_vp);
DECLARE_PER_CPU(struct pvtlb_hv_cpu *, pvtlb_hv_cpu);

int pvtlb_hv_start(const char **why_not);
void pvtlb_hv_stop(void);

/* call.c */
int pvtlb_hv_call(const struct pvtlb_hv_form *form, const u64 *input, unsigned int *calls);
u16 pvtlb_hv_call_fast16(u16 code, u64 first, u64 second);

/* no-kvm-calls.c */
void pvtlb_bar_kvm_calls(void);
void pvtlb_allow_kvm_calls(void);
void pvtlb_use_hv_calls(bool use);
#endif

#endif /* _PVTLB_HYPERV_PRIVATE_H */
