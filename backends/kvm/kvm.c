// SPDX-License-Identifier: GPL-2.0-only
/*
 * kvm: leave the flush of a vCPU that is not running to the host, interrupt the
 * others. The handshake is described in private.h.
 *
 * Differs from the in-tree mechanism in that lazy CPUs are filtered out before,
 * so that a preempted one is not flushed in full for nothing, and in that
 * kernel ranges come here as well. Waiting for a vCPU that is preempted after
 * it was interrupted is where the time still goes.
 */
#include <linux/atomic.h>
#include <linux/string.h>

#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/msr.h>

#include "internal.h"
#include "private.h"

static bool steal_time_is_shared(void)
{
	u64 msr;

	return !rdmsrl_safe(MSR_KVM_STEAL_TIME, &msr) && (msr & KVM_MSR_ENABLED);
}

static int kvm_probe(struct pvtlb_probe *probe)
{
	const char *why_not = NULL;

	if (!hypervisor_is_type(X86_HYPER_KVM))
		why_not = "the hypervisor does not present itself as KVM";
	else if (!kvm_para_has_feature(KVM_FEATURE_PV_TLB_FLUSH))
		why_not = "the host does not offer KVM_FEATURE_PV_TLB_FLUSH";
	else if (!kvm_para_has_feature(KVM_FEATURE_STEAL_TIME))
		why_not = "the host does not offer KVM_FEATURE_STEAL_TIME";
	else if (!steal_time_is_shared())
		why_not = "steal time is not shared with the host";
	if (why_not) {
		strscpy(probe->reason, why_not, sizeof(probe->reason));
		return -ENODEV;
	}

	/* Where vCPUs never leave their CPUs, or idle on them, nothing is ever skipped. */
	if (kvm_para_has_hint(KVM_HINTS_REALTIME))
		why_not = "KVM_HINTS_REALTIME: vCPUs are never preempted";
	else if (boot_cpu_has(X86_FEATURE_MWAIT))
		why_not = "MWAIT: idle vCPUs do not leave their CPUs";
	else if (num_possible_cpus() == 1)
		why_not = "there is one CPU only";
	if (why_not) {
		strscpy(probe->reason, why_not, sizeof(probe->reason));
		probe->advised = false;
	}
	return 0;
}

/*
 * Order, with the host's side in record_steal_time() of arch/x86/kvm/x86.c:
 *
 *	flushing vCPU			host, putting the target back
 *
 *	[S]   page table		[RmW] preempted <-> 0
 *	[RmW] PREEMPTED ->		flush, if FLUSH_TLB was set
 *	      PREEMPTED|FLUSH_TLB	enter the guest
 *
 * Either the exchange comes second and the host flushes, or it comes first and
 * the compare-and-exchange fails, so that the target is interrupted. In neither
 * case does the target walk the old table after it runs again.
 *
 * A vCPU that may be running a nested guest is interrupted all the same, see
 * private.h. Its CR4 is read after the exchange: it cannot have entered VMX
 * operation between its being taken off and then.
 */
static bool leave_to_host(unsigned int cpu)
{
	struct kvm_steal_time *st = &per_cpu(steal_time, cpu);
	u8 state = READ_ONCE(st->preempted);

	return (state & KVM_VCPU_PREEMPTED) &&
	       try_cmpxchg(&st->preempted, &state, state | KVM_VCPU_FLUSH_TLB) &&
	       !(READ_ONCE(per_cpu(cpu_tlbstate.cr4, cpu)) & X86_CR4_VMXE);
}

static int kvm_flush(struct pvtlb_request *req)
{
	unsigned int cpu;

	for_each_cpu(cpu, req->targets) {
		if (!leave_to_host(cpu))
			continue;
		__cpumask_clear_cpu(cpu, req->targets);
		req->deferred++;
	}
	pvtlb_flush_by_ipi(req);
	return 0;
}

const struct pvtlb_backend pvtlb_kvm = {
	.name	= "kvm",
	.what	= "skip-preempted flush",
	.probe	= kvm_probe,
	.flush	= kvm_flush,
};
