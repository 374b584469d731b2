// SPDX-License-Identifier: GPL-2.0-only
/*
 * The handshake with the host: included at the end of kvm.c. Where there is no KVM below, a
 * CPU that is offline is the vCPU, and its steal time the test's to change.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>

static int find_vcpu(struct kunit *test)
{
	unsigned int cpu;

	if (hypervisor_is_type(X86_HYPER_KVM))
		kunit_skip(test, "the steal time is KVM's");
	for_each_possible_cpu(cpu)
		if (!cpu_online(cpu))
			return cpu;
	kunit_skip(test, "needs a CPU that is offline");
	return -1;
}

#define PREEMPTED	KVM_VCPU_PREEMPTED
#define BOTH		(KVM_VCPU_PREEMPTED | KVM_VCPU_FLUSH_TLB)

static const struct leave_case {
	const char *what;
	u8 before;
	unsigned long cr4;
	bool left;
	u8 after;
} leave_cases[] = {
	{ "runs",			0, 0, false, 0 },
	{ "is off",			PREEMPTED, 0, true, BOTH },
	{ "was left by another",	BOTH, 0, true, BOTH },
	{ "runs a guest",		0, X86_CR4_VMXE, false, 0 },
	{ "is off, in its guest",	PREEMPTED, X86_CR4_VMXE, false, BOTH },
	{ "has other CR4 bits",		PREEMPTED, ~X86_CR4_VMXE, true, BOTH },
};

static void describe_leave(const struct leave_case *c, char *desc)
{
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(leave, leave_cases, describe_leave);

static void leave_test(struct kunit *test)
{
	const struct leave_case *c = test->param_value;
	int cpu = find_vcpu(test);
	struct kvm_steal_time *st = &per_cpu(steal_time, cpu);
	unsigned long cr4 = per_cpu(cpu_tlbstate.cr4, cpu);

	st->preempted = c->before;
	per_cpu(cpu_tlbstate.cr4, cpu) = c->cr4;
	KUNIT_EXPECT_EQ(test, leave_to_host(cpu), c->left);
	KUNIT_EXPECT_EQ(test, st->preempted, c->after);
	per_cpu(cpu_tlbstate.cr4, cpu) = cr4;
	st->preempted = 0;
}

/*
 * A host that takes a vCPU off and puts it back, as record_steal_time() does, as
 * fast as it can. Each time counts as one stay, whose number is half the version. In
 * every other stay the vCPU is in VMX operation, so that a flush does not help.
 */
#define STAYS	1024

struct stays {
	int		cpu;
	u32		flushed[STAYS];	/* the last stay with this number that ended in a flush */
};

static int play_host(void *arg)
{
	struct stays *s = arg;
	struct kvm_steal_time *st = &per_cpu(steal_time, s->cpu);
	unsigned int spins = 0;

	while (!kthread_should_stop()) {
		u32 stay = READ_ONCE(st->version) / 2, i;
		bool nested = stay & 1;

		WRITE_ONCE(per_cpu(cpu_tlbstate.cr4, s->cpu), nested ? X86_CR4_VMXE : 0);
		for (i = 0; i < spins; i++)
			cpu_relax();
		xchg(&st->preempted, KVM_VCPU_PREEMPTED);
		spins = (spins + 1) % 16;
		for (i = 0; i < spins; i++)
			cpu_relax();
		if (xchg(&st->preempted, 0) & KVM_VCPU_FLUSH_TLB && !nested)
			WRITE_ONCE(s->flushed[stay % STAYS], stay);
		/* Pairs with the acquire in handshake_test(): after the stay, its flush is seen. */
		smp_store_release(&st->version, 2 * stay + 2);
		if (stay % STAYS == 0)
			cond_resched();
	}
	return 0;
}

/* Whoever is left to the host is flushed before it runs again, whatever the host does meanwhile. */
static void handshake_test(struct kunit *test)
{
	struct stays *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	unsigned int asked = 0, left = 0, lost = 0;
	struct kvm_steal_time *st;
	struct task_struct *host;
	unsigned long cr4;
	ktime_t end;

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->cpu = find_vcpu(test);
	if (num_online_cpus() == 1)
		kunit_skip(test, "needs a second CPU");
	st = &per_cpu(steal_time, s->cpu);
	cr4 = per_cpu(cpu_tlbstate.cr4, s->cpu);
	st->version = 2 * STAYS;
	host = kthread_run(play_host, s, "pvtlb_host");
	KUNIT_ASSERT_FALSE(test, IS_ERR(host));

	end = ktime_add_ms(ktime_get(), 1000);
	for (; ktime_before(ktime_get(), end); cond_resched()) {
		u32 first = READ_ONCE(st->version) / 2, last, stay;
		bool flushed = false;

		asked++;
		if (!leave_to_host(s->cpu))
			continue;
		last = READ_ONCE(st->version) / 2;
		/* Pairs with the release in play_host(). */
		while (smp_load_acquire(&st->version) / 2 == last)
			cond_resched();
		if (last - first > STAYS / 2)
			continue;
		for (stay = first; stay <= last; stay++)
			flushed |= READ_ONCE(s->flushed[stay % STAYS]) == stay;
		left++;
		lost += !flushed;
	}
	kthread_stop(host);
	per_cpu(cpu_tlbstate.cr4, s->cpu) = cr4;
	st->preempted = 0;
	st->version = 0;

	kunit_info(test, "asked %u times, left %u times to the host, %u of them lost\n", asked,
		   left, lost);
	KUNIT_EXPECT_GT(test, asked, left);
	KUNIT_EXPECT_GT(test, left, 1000);
	KUNIT_EXPECT_EQ(test, lost, 0);
}

static struct kunit_case kvm_cases[] = {
	KUNIT_CASE_PARAM(leave_test, leave_gen_params),
	KUNIT_CASE(handshake_test),
	{}
};

static struct kunit_suite kvm_suite = {
	.name		= "pvtlb_kvm",
	.test_cases	= kvm_cases,
};

kunit_test_suite(kvm_suite);
