// SPDX-License-Identifier: GPL-2.0-only
/*
 * What KVM's own hypercalls do for a guest, done without them.
 *
 * From the moment a guest has reported a guest OS id, KVM takes each VMCALL
 * and VMMCALL of it for a hypercall of Hyper-V (kvm_emulate_hypercall() in
 * arch/x86/kvm/x86.c): PV IPIs would be lost, and vCPUs that wait for a kick would
 * sleep on. So before that moment, every user of them in the kernel is barred and does
 * the same in another way:
 *
 *	KVM_HC_SEND_IPI		HvCallSendSyntheticClusterIpi where the host recommends
 *				it and it can name the targets, else one APIC write each
 *	KVM_HC_KICK_CPU		an interrupt with nothing to do
 *	halting with interrupts	a kick of that sort would not end it: HvCallNotifyLong-
 *	off (kvm_wait())	SpinWait, and looking again
 *	KVM_HC_SCHED_YIELD	nothing: it is a hint
 *	KVM_HC_CLOCK_PAIRING	nothing: ptp_kvm reports an error meanwhile
 *
 * ORDER. Whoever makes a hypercall of KVM, or halts for one, looks at the key or the
 * stage with preemption off, so a grace period waits for all that saw the old one.
 *
 *  barring	1  key on	nobody halts with interrupts off any more
 *		   grace period	those who did are gone, kicked by hypercall still
 *		2  barred	nobody makes a hypercall of KVM any more
 *		   grace period	the last of them is done
 *		3  guest.c reports the guest OS id
 *
 *  allowing	1  guest.c takes the guest OS id back
 *		2  not barred	kicks are hypercalls again
 *		   grace period	the last kick by interrupt is done
 *		3  key off	whoever waits may halt with interrupts off
 *
 * The same is in tests/model/no-kvm-calls.pml, under the same names.
 */
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/jump_label.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

#include <asm/irq_vectors.h>
#include <asm/mshyperv.h>

#include "internal.h"
#include "private.h"

DEFINE_STATIC_KEY_FALSE(pvtlb_no_kvm_calls);
EXPORT_SYMBOL_GPL(pvtlb_no_kvm_calls);

static bool barred;
static bool hv_calls;

/**
 * pvtlb_bar_kvm_calls() - keep the kernel from making hypercalls of KVM
 *
 * Context: process context, may sleep; the caller serialises.
 */
void pvtlb_bar_kvm_calls(void)
{
	static_branch_enable(&pvtlb_no_kvm_calls);
	synchronize_rcu();
	WRITE_ONCE(barred, true);
	synchronize_rcu();
}

/**
 * pvtlb_allow_kvm_calls() - the opposite
 *
 * Context: process context, may sleep; the caller serialises.
 */
void pvtlb_allow_kvm_calls(void)
{
	WRITE_ONCE(barred, false);
	synchronize_rcu();
	static_branch_disable(&pvtlb_no_kvm_calls);
}

/**
 * pvtlb_use_hv_calls() - whether Hyper-V's calls may be made instead
 * @use: from now on. A grace period later, nobody does what was allowed before
 *
 * Context: any.
 */
void pvtlb_use_hv_calls(bool use)
{
	WRITE_ONCE(hv_calls, use);
}

bool __pvtlb_kvm_calls_barred(void)
{
	return READ_ONCE(barred);
}
EXPORT_SYMBOL_GPL(__pvtlb_kvm_calls_barred);

/* The vectors and VP indexes that HvCallSendSyntheticClusterIpi takes: TLFS. */
static bool send_by_hv_call(const struct cpumask *cpus, int vector)
{
	unsigned int cpu;
	u64 mask = 0;

	if (!READ_ONCE(hv_calls) || !(pvtlb_hv_hints & HV_X64_CLUSTER_IPI_RECOMMENDED) ||
	    vector < HV_IPI_LOW_VECTOR || vector > HV_IPI_HIGH_VECTOR)
		return false;
	for_each_cpu(cpu, cpus) {
		if (per_cpu(pvtlb_hv_vp, cpu) >= PVTLB_HV_BANK_VPS)
			return false;
		mask |= BIT_ULL(per_cpu(pvtlb_hv_vp, cpu));
	}
	return mask && !pvtlb_hv_call_fast16(HVCALL_SEND_IPI, vector, mask);
}

bool __pvtlb_kvm_send_ipi(const struct cpumask *cpus, int vector)
{
	unsigned int cpu;

	if (!READ_ONCE(barred))
		return false;
	if (!send_by_hv_call(cpus, vector))
		for_each_cpu(cpu, cpus)
			pvtlb_send_ipi(cpu, vector);
	return true;
}

bool __pvtlb_kvm_kick(int cpu)
{
	if (!READ_ONCE(barred))
		return false;
	pvtlb_send_ipi(cpu, X86_PLATFORM_IPI_VECTOR);
	return true;
}

bool __pvtlb_kvm_wait_irqs_off(void)
{
	if (READ_ONCE(hv_calls))
		pvtlb_hv_call_fast16(HVCALL_NOTIFY_LONG_SPIN_WAIT, 0, 0);
	return true;
}
