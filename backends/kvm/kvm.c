// SPDX-License-Identifier: GPL-2.0-only
/*
 * kvm: leave the flush of a vCPU that is not running to the host, interrupt the
 * others, and leave those to the host as well that it takes off meanwhile. The
 * handshake is described in private.h, the interrupts are the mailbox's.
 *
 * Differs from the in-tree mechanism in that nobody waits for a vCPU that is not
 * running; in that lazy CPUs are filtered out before, so that a preempted one
 * is not flushed in full for nothing; and in that kernel ranges come here as
 * well.
 */
#include <linux/atomic.h>
#include <linux/cc_platform.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/string.h>

#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/msr.h>
#include <asm/tsc.h>

#include "internal.h"
#include "mailbox.h"
#include "private.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "pvtlb."

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
 * private.h. CR4 is read after the exchange, and tells of that moment only if the
 * host has not put the vCPU back meanwhile: it may have left VMX operation since. The
 * host changes the version each time it does so, before the vCPU runs.
 */
static bool leave_to_host(unsigned int cpu)
{
	struct kvm_steal_time *st = &per_cpu(steal_time, cpu);
	u32 version = READ_ONCE(st->version);
	u8 state = READ_ONCE(st->preempted);

	if (pvtlb_mutant(kvm_running_left))
		return true;
	if (pvtlb_mutant(kvm_unflagged))
		return state & KVM_VCPU_PREEMPTED;
	if (pvtlb_mutant(kvm_byte_ored) && state & KVM_VCPU_PREEMPTED)
		return st->preempted |= KVM_VCPU_FLUSH_TLB;
	if (!(state & KVM_VCPU_PREEMPTED) ||
	    !try_cmpxchg(&st->preempted, &state, state | KVM_VCPU_FLUSH_TLB))
		return false;
	if (pvtlb_mutant(kvm_nested_left))
		return true;
	if (READ_ONCE(per_cpu(cpu_tlbstate.cr4, cpu)) & X86_CR4_VMXE)
		return false;
	if (pvtlb_mutant(kvm_version_unread))
		return true;
	smp_rmb();	/* CR4 before the version */
	return READ_ONCE(st->version) == version;
}

/*
 * A target that neither answers nor is marked as taken off. The host marks
 * only what it takes off at an instruction boundary (kvm_steal_time_set_preempted()),
 * so such a target may wait for a CPU, and the one that we wait on might serve it.
 *
 * First ask for it, at most once a jiffy: each ask is an exit, and the host can
 * seldom do what it is asked. Idle vCPUs are never asked for: they wake by the
 * interrupt, and KVM would look for one that wants to run in vain.
 */
static DEFINE_PER_CPU(unsigned long, last_yield);

static bool ask_for(unsigned int target)
{
	if (this_cpu_read(last_yield) == jiffies || idle_cpu(target) || pvtlb_kvm_calls_barred())
		return false;

	this_cpu_write(last_yield, jiffies);
	kvm_hypercall1(KVM_HC_SCHED_YIELD, per_cpu(x86_cpu_to_apicid, target));
	return true;
}

static void wake(unsigned int initiator)
{
	if (!pvtlb_kvm_kick(initiator))
		kvm_hypercall2(KVM_HC_KICK_CPU, 0, per_cpu(x86_cpu_to_apicid, initiator));
}

static struct pvtlb_mailbox_host host = {
	.leave		= leave_to_host,
	.yield		= ask_for,
	.wake		= wake,
	.yield_after	= ULONG_MAX,
	.halt_after	= ULONG_MAX,
};

/*
 * pvtlb.kvm_yield_us= and pvtlb.kvm_halt_us=, also at run time: how long a flush
 * waits for one target before it asks the host to run it, and before it halts. -1
 * for never.
 */
static int yield_us = 100, halt_us = 200;

static cycles_t cycles_of(int us)
{
	return us < 0 ? ULONG_MAX : div_u64((u64)us * tsc_khz, 1000);
}

static void set_patience(void)
{
	WRITE_ONCE(host.yield_after, kvm_para_has_feature(KVM_FEATURE_PV_SCHED_YIELD) ?
				     cycles_of(yield_us) : ULONG_MAX);
	WRITE_ONCE(host.halt_after, kvm_para_has_feature(KVM_FEATURE_PV_UNHALT) ?
				    cycles_of(halt_us) : ULONG_MAX);
}

static int set_us(const char *val, const struct kernel_param *kp)
{
	int err = param_set_int(val, kp);

	if (!err && tsc_khz)
		set_patience();
	return err;
}

static const struct kernel_param_ops us_ops = { .set = set_us, .get = param_get_int };

module_param_cb(kvm_yield_us, &us_ops, &yield_us, 0644);
module_param_cb(kvm_halt_us, &us_ops, &halt_us, 0644);

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
	else if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		why_not = "the memory is encrypted: the host is not trusted with flushes";
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

	set_patience();
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

static int kvm_flush(struct pvtlb_request *req)
{
	pvtlb_mailbox_flush(req, &host);
	return 0;
}

const struct pvtlb_backend pvtlb_kvm = {
	.name	= "kvm",
	.what	= "skip-preempted flush",
	.probe	= kvm_probe,
	.flush	= kvm_flush,
};

#ifdef CONFIG_PVTLB_KUNIT_TEST
#include "tests/pvtlb_kvm_kunit.c"
#endif
