// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hypercalls: TLFS, "Hypercall Interface". Input in memory, in RDX and R8, or in
 * these and XMM0-5; rep calls until all their entries are done.
 */
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/lockdep.h>
#include <linux/sched/clock.h>

#include <asm/mshyperv.h>
#include <asm/nospec-branch.h>

#include <trace/events/pvtlb.h>

#include "internal.h"
#include "private.h"

/*
 * RAX is no input. It holds a number that KVM has no hypercall for, so that a call
 * which it does not take for Hyper-V's, because the guest OS id is gone by now,
 * is refused, which counts as failed.
 */
static __always_inline u64 invoke(u64 control, u64 rdx, u64 r8)
{
	register u64 arg asm("r8") = r8;
	u64 result = U64_MAX;

	asm volatile(CALL_NOSPEC
		     : "+a" (result), ASM_CALL_CONSTRAINT, "+c" (control), "+d" (rdx), "+r" (arg)
		     : THUNK_TARGET(pvtlb_hv_page)
		     : "cc", "memory", "r9", "r10", "r11");
	return result;
}

/* Two words to an XMM register. The compiler uses none of them in the kernel. */
typedef u64 xmm_t[2];

static __always_inline void save_xmm(xmm_t *to, unsigned int nr)
{
	switch (nr) {
	case 6: asm volatile("movups %%xmm5, %0" : "=m" (to[5])); fallthrough;
	case 5: asm volatile("movups %%xmm4, %0" : "=m" (to[4])); fallthrough;
	case 4: asm volatile("movups %%xmm3, %0" : "=m" (to[3])); fallthrough;
	case 3: asm volatile("movups %%xmm2, %0" : "=m" (to[2])); fallthrough;
	case 2: asm volatile("movups %%xmm1, %0" : "=m" (to[1])); fallthrough;
	case 1: asm volatile("movups %%xmm0, %0" : "=m" (to[0]));
	}
}

static __always_inline void load_xmm(const xmm_t *from, unsigned int nr)
{
	switch (nr) {
	case 6: asm volatile("movups %0, %%xmm5" : : "m" (from[5])); fallthrough;
	case 5: asm volatile("movups %0, %%xmm4" : : "m" (from[4])); fallthrough;
	case 4: asm volatile("movups %0, %%xmm3" : : "m" (from[3])); fallthrough;
	case 3: asm volatile("movups %0, %%xmm2" : : "m" (from[2])); fallthrough;
	case 2: asm volatile("movups %0, %%xmm1" : : "m" (from[1])); fallthrough;
	case 1: asm volatile("movups %0, %%xmm0" : : "m" (from[0]));
	}
}

/*
 * The registers belong to a user task, or to kernel code that interrupts were off
 * for too late: what is overwritten is put back. The upper halves of YMM registers
 * are not touched by instructions of this encoding.
 */
static u64 invoke_fast(u64 control, const u64 *input, unsigned int words)
{
	unsigned int nr = words > 2 ? (words - 1) / 2 : 0;
	xmm_t saved[6];
	u64 result;

	lockdep_assert_irqs_disabled();
	save_xmm(saved, nr);
	load_xmm((const xmm_t *)(input + 2), nr);
	result = invoke(control, input[0], input[1]);
	load_xmm(saved, nr);
	return result;
}

/**
 * pvtlb_hv_call() - make a flush call, to its end
 * @form:  how it is put
 * @input: its input, see pvtlb_hv_encode(); in one page, in the direct map
 * @calls: to be counted up for each time the hypervisor is entered
 *
 * Context: interrupts off.
 * Return: 0, or -errno, upon which any part of it may have been done.
 */
int pvtlb_hv_call(const struct pvtlb_hv_form *form, const u64 *input, unsigned int *calls)
{
	bool traced = trace_pvtlb_hypercall_enabled();
	u64 control, result, start = 0;
	unsigned int done = 0;
	u16 status;
	int more;

	do {
		control = pvtlb_hv_control(form, done);
		if (traced)
			start = local_clock();
		if (pvtlb_mutant(hv_not_called))
			result = (u64)form->reps << HV_HYPERCALL_REP_COMP_OFFSET;
		else if (pvtlb_fail_hypercall())
			result = pvtlb_fail_status();
		else if (form->fast)
			result = invoke_fast(control, input, form->words);
		else
			result = invoke(control, virt_to_phys((void *)input), 0);
		++*calls;
		more = pvtlb_hv_progress(result, form->reps, &done);
		if (traced) {
			status = result & HV_HYPERCALL_RESULT_MASK;
			trace_pvtlb_hypercall("hyperv", pvtlb_hv_call_name(form->code),
					      form->fast ? "fast" : "memory", form->reps, done,
					      status, pvtlb_hv_status_name(status),
					      local_clock() - start);
		}
	} while (more > 0);

	if (more < 0)
		pvtlb_count(PVTLB_STAT_failures, 1);
	return more;
}

/**
 * pvtlb_hv_call_fast16() - make a call with up to 16 bytes of input
 * @code:   of the call
 * @first:  bytes 0-7
 * @second: bytes 8-15, 0 if there are none
 *
 * Needs no memory and no XMM registers, so any host takes it.
 *
 * Context: any.
 * Return: the status; HV_STATUS_SUCCESS is 0.
 */
u16 pvtlb_hv_call_fast16(u16 code, u64 first, u64 second)
{
	return invoke(code | HV_HYPERCALL_FAST_BIT, first, second) & HV_HYPERCALL_RESULT_MASK;
}
