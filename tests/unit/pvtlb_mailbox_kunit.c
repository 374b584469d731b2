// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rules of the mailbox, one by one: included at the end of mailbox.c, whose
 * internals it drives with requests that a flush would seldom get to make. Each
 * test has this CPU play initiator and target, with interrupts off, so that what
 * the real ones do meanwhile waits.
 */
#include <kunit/test.h>

#include <linux/cpu.h>

static unsigned int carried_out;

static void count_call(void *info)
{
	carried_out++;
}

/* What a test saw with interrupts off, where KUnit's macros must not run. */
struct seen {
	unsigned int	calls;
	u32		seq, ack;
	bool		first, second, third;
	unsigned int	in_flight;
	bool		pending;
};

static struct outbox *new_outbox(struct kunit *test, struct mm_struct *mm, u64 ctx_id)
{
	struct outbox *out = kunit_kzalloc(test, sizeof(*out), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, out);
	seqcount_init(&out->seq);
	out->func = count_call;
	out->info.mm = mm;
	out->info.initiating_cpu = nr_cpu_ids;
	out->ctx_id = ctx_id;
	return out;
}

static unsigned int calls_for(const struct outbox *out, u32 *seq)
{
	unsigned long flags;
	unsigned int calls;

	local_irq_save(flags);
	carried_out = 0;
	*seq = mailbox_carry_out(out);
	calls = carried_out;
	local_irq_restore(flags);
	return calls;
}

/* A valid request is carried out; one that is being written is not, but all is flushed. */
static void torn_request_test(struct kunit *test)
{
	struct outbox *out = new_outbox(test, NULL, 0);
	u32 seq;

	KUNIT_EXPECT_EQ(test, calls_for(out, &seq), 1);
	KUNIT_EXPECT_EQ(test, seq, 0);
	raw_write_seqcount_begin(&out->seq);
	KUNIT_EXPECT_EQ(test, calls_for(out, &seq), 0);
	KUNIT_EXPECT_EQ(test, seq & 1, 1);
	raw_write_seqcount_end(&out->seq);
	KUNIT_EXPECT_EQ(test, calls_for(out, &seq), 1);
	KUNIT_EXPECT_EQ(test, seq, 2);
}

static struct outbox *changing;

static void change_request(void *info)
{
	raw_write_seqcount_begin(&changing->seq);
	raw_write_seqcount_end(&changing->seq);
}

/* A target that is taken off in the middle answers for the request that it has read. */
static void abandoned_request_test(struct kunit *test)
{
	u32 seq;

	changing = new_outbox(test, NULL, 0);
	changing->func = change_request;
	calls_for(changing, &seq);
	KUNIT_EXPECT_EQ(test, seq, 0);
	KUNIT_EXPECT_EQ(test, changing->seq.sequence, 2);
}

/* A request for an mm that had the address of the loaded one before is left alone. */
static void replaced_mm_test(struct kunit *test)
{
	struct mm_struct *mm = &init_mm;
	struct outbox *out;
	unsigned long flags;
	unsigned int same, replaced, other;
	u32 seq;

	/* A kernel thread is lazy on some mm, or on init_mm. */
	out = new_outbox(test, NULL, 0);
	local_irq_save(flags);
	mm = this_cpu_read(cpu_tlbstate.loaded_mm);
	out->info.mm = mm;
	out->ctx_id = mm->context.ctx_id;
	same = calls_for(out, &seq);
	out->ctx_id++;
	replaced = calls_for(out, &seq);
	out->info.mm = mm + 1;
	other = calls_for(out, &seq);
	local_irq_restore(flags);

	KUNIT_EXPECT_EQ(test, same, 1);
	KUNIT_EXPECT_EQ(test, replaced, 0);
	/* The request's own function decides that, without looking into the mm. */
	KUNIT_EXPECT_EQ(test, other, 1);
}

/* Three initiators share one interrupt, which answers all of them. */
static void shared_interrupt_test(struct kunit *test)
{
	struct outbox *out;
	unsigned int this, initiator;
	struct seen s = {};
	unsigned long flags;

	if (!ready)
		kunit_skip(test, "no mailbox here");

	local_irq_save(flags);
	this = smp_processor_id();
	initiator = cpumask_any_but(cpu_possible_mask, this);
	if (initiator < nr_cpu_ids) {
		mailbox_interrupt();	/* what others have posted, so that nothing is in flight */
		/* In the name of this CPU, whose outbox nobody else writes */
		out = this_cpu_ptr(outboxes);
		raw_write_seqcount_begin(&out->seq);
		out->func = count_call;
		out->info.mm = NULL;
		raw_write_seqcount_end(&out->seq);
		carried_out = 0;
		s.first = mailbox_post(this, this);
		s.second = mailbox_post(this, this);
		mailbox_withdraw(this, this);
		s.pending = test_bit(this, per_cpu_ptr(inboxes, this)->pending);
		s.third = mailbox_post(this, this);
		s.in_flight = per_cpu_ptr(inboxes, this)->in_flight;
		mailbox_interrupt();
		s.calls = carried_out;
		s.seq = out->seq.sequence;
		s.ack = *ack_of(this, this);
	}
	local_irq_restore(flags);
	if (initiator >= nr_cpu_ids)
		kunit_skip(test, "needs a second CPU");

	KUNIT_EXPECT_FALSE(test, s.second);
	KUNIT_EXPECT_FALSE(test, s.pending);
	KUNIT_EXPECT_FALSE(test, s.third);
	KUNIT_EXPECT_EQ(test, s.in_flight, 1);
	KUNIT_EXPECT_EQ(test, s.calls, 1);
	KUNIT_EXPECT_EQ(test, s.ack, s.seq);
}

static bool late_needs_interrupt;

static void post_late(void *info)
{
	unsigned int this = smp_processor_id();

	carried_out++;
	late_needs_interrupt = mailbox_post(this, this);
}

/* Who posts while the handler scans must not rely on the interrupt that it is in. */
static void late_post_test(struct kunit *test)
{
	struct outbox *out;
	struct seen s = {};
	unsigned long flags;
	unsigned int this;

	if (!ready)
		kunit_skip(test, "no mailbox here");

	local_irq_save(flags);
	this = smp_processor_id();
	mailbox_interrupt();
	out = this_cpu_ptr(outboxes);
	raw_write_seqcount_begin(&out->seq);
	out->func = post_late;
	out->info.mm = NULL;
	raw_write_seqcount_end(&out->seq);
	carried_out = 0;
	mailbox_post(this, this);
	mailbox_interrupt();
	s.first = late_needs_interrupt;
	s.pending = test_bit(this, per_cpu_ptr(inboxes, this)->pending);
	s.in_flight = per_cpu_ptr(inboxes, this)->in_flight;
	s.calls = carried_out;
	raw_write_seqcount_begin(&out->seq);
	out->func = count_call;
	raw_write_seqcount_end(&out->seq);
	mailbox_interrupt();
	local_irq_restore(flags);

	KUNIT_EXPECT_EQ(test, s.calls, 1);
	KUNIT_EXPECT_TRUE(test, s.first);
	KUNIT_EXPECT_TRUE(test, s.pending);
	KUNIT_EXPECT_EQ(test, s.in_flight, 1);
}

/* A CPU that comes up takes no interrupt for granted. */
static void prepare_cpu_test(struct kunit *test)
{
	struct inbox *in;
	unsigned int cpu;

	if (!ready)
		kunit_skip(test, "no mailbox here");
	for_each_possible_cpu(cpu)
		if (!cpu_online(cpu))
			break;
	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "needs a CPU that is offline");
	in = per_cpu_ptr(inboxes, cpu);
	in->in_flight = 1;
	set_bit(0, in->pending);
	mailbox_prepare_cpu(cpu);
	KUNIT_EXPECT_EQ(test, in->in_flight, 0);
	KUNIT_EXPECT_FALSE(test, test_bit(0, in->pending));
}

/* An interrupt that everybody relies on is lost: the flush comes to its end all the same. */
static void lost_interrupt_test(struct kunit *test)
{
	struct flush_tlb_info info = {
		.end = TLB_FLUSH_ALL, .new_tlb_gen = TLB_GENERATION_INVALID,
	};
	struct pvtlb_request req = { .kind = PVTLB_ALL, .info = &info, .func = do_flush_tlb_all };
	u64 resent = pvtlb_sum(PVTLB_STAT_resent);
	unsigned int target;
	cpumask_var_t mask;
	bool flushed;

	if (!ready || !pvtlb_cpus)
		kunit_skip(test, "no mailbox here");
	KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&mask, GFP_KERNEL));
	cpus_read_lock();
	preempt_disable();
	target = cpumask_any_but(cpu_online_mask, smp_processor_id());
	flushed = target < nr_cpu_ids;
	if (flushed) {
		req.targets = mask;
		cpumask_set_cpu(target, mask);
		WRITE_ONCE(per_cpu_ptr(inboxes, target)->in_flight, 1);
		pvtlb_mailbox_flush(&req, NULL);
	}
	preempt_enable();
	cpus_read_unlock();
	free_cpumask_var(mask);
	if (!flushed)
		kunit_skip(test, "needs a second CPU");

	KUNIT_EXPECT_GE(test, pvtlb_sum(PVTLB_STAT_resent), resent + 1);
}

static struct kunit_case mailbox_cases[] = {
	KUNIT_CASE(torn_request_test),
	KUNIT_CASE(abandoned_request_test),
	KUNIT_CASE(replaced_mm_test),
	KUNIT_CASE(shared_interrupt_test),
	KUNIT_CASE(late_post_test),
	KUNIT_CASE(prepare_cpu_test),
	KUNIT_CASE(lost_interrupt_test),
	{}
};

static struct kunit_suite mailbox_suite = {
	.name		= "pvtlb_mailbox",
	.test_cases	= mailbox_cases,
};

kunit_test_suite(mailbox_suite);
