// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes on the running machine, under every backend that works on it, and what
 * the core prepares for them.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

#include "internal.h"

static const struct pages_case {
	const char *what;
	unsigned long start, end, pages;
} pages_cases[] = {
	{ "full",			0, TLB_FLUSH_ALL, 0 },
	{ "one page",			0x7000, 0x8000, 1 },
	{ "one byte short of a page",	0x7000, 0x7fff, 1 },
	{ "one byte more than a page",	0x7000, 0x8001, 2 },
	{ "two halves of two pages",	0x7800, 0x8800, 2 },
	{ "nothing",			0x7000, 0x7000, 1 },
	{ "2 MiB",			SZ_2M, SZ_4M, 512 },
	{ "up to the top",		0xffffffffffffe000, 0, 2 },
};

static void describe_pages(const struct pages_case *c, char *desc)
{
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(pages, pages_cases, describe_pages);

static void pages_test(struct kunit *test)
{
	const struct pages_case *c = test->param_value;
	struct flush_tlb_info info = { .start = c->start, .end = c->end };

	KUNIT_EXPECT_EQ(test, pvtlb_pages(&info), c->pages);
}

static unsigned int snapshot(struct cpumask *copy, const struct cpumask *live, bool *local)
{
	unsigned int nr;

	preempt_disable();
	nr = pvtlb_snapshot(copy, live, local);
	preempt_enable();
	return nr;
}

/* The copy has the online CPUs but this one, and nothing changes it later. */
static void snapshot_test(struct kunit *test)
{
	struct cpumask *live = kunit_kzalloc(test, cpumask_size(), GFP_KERNEL);
	struct cpumask *copy = kunit_kzalloc(test, cpumask_size(), GFP_KERNEL);
	unsigned int cpu, nr;
	bool local;

	KUNIT_ASSERT_NOT_NULL(test, live);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	migrate_disable();	/* expectations may sleep, so preemption stays on between */
	cpu = raw_smp_processor_id();

	cpumask_setall(copy);
	nr = snapshot(copy, live, &local);		/* empty */
	KUNIT_EXPECT_EQ(test, nr, 0);
	KUNIT_EXPECT_TRUE(test, cpumask_empty(copy));
	KUNIT_EXPECT_FALSE(test, local);

	cpumask_set_cpu(cpu, live);
	nr = snapshot(copy, live, &local);		/* nobody but this CPU */
	KUNIT_EXPECT_EQ(test, nr, 0);
	KUNIT_EXPECT_TRUE(test, local);

	cpumask_setall(live);				/* CPUs that are not there */
	nr = snapshot(copy, live, &local);
	KUNIT_EXPECT_EQ(test, nr, num_online_cpus() - 1);
	KUNIT_EXPECT_TRUE(test, cpumask_subset(copy, cpu_online_mask));
	KUNIT_EXPECT_FALSE(test, cpumask_test_cpu(cpu, copy));
	KUNIT_EXPECT_TRUE(test, local);

	cpumask_clear(live);				/* everybody leaves */
	KUNIT_EXPECT_EQ(test, cpumask_weight(copy), nr);
	migrate_enable();
}

/* Run a test under each backend that works here. The exit function ends it. */
static void under_each_backend(struct kunit *test,
			       void (*body)(struct kunit *test, const char *name))
{
	char *names = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL), *name;
	int tried = 0;

	KUNIT_ASSERT_NOT_NULL(test, names);
	pvtlb_show_available(names);
	while ((name = strsep(&names, " \n"))) {
		if (!*name)
			continue;
		KUNIT_ASSERT_EQ_MSG(test, pvtlb_choose(name), 0, "%s", name);
		body(test, name);
		tried++;
	}
	KUNIT_EXPECT_GT(test, tried, 1);
}

static int flush_init(struct kunit *test)
{
	char *before = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);

	if (!before)
		return -ENOMEM;
	pvtlb_show_backend(before);
	test->priv = before;
	return 0;
}

static void flush_exit(struct kunit *test)
{
	if (pvtlb_choose(test->priv))
		pr_warn("pvtlb_flush: cannot go back to %s", (char *)test->priv);
}

static u64 dealt_with(void)
{
	return pvtlb_sum(PVTLB_STAT_lazy) + pvtlb_sum(PVTLB_STAT_deferred) +
	       pvtlb_sum(PVTLB_STAT_ipi);
}

static void count_kind(struct kunit *test, const char *name, enum pvtlb_stat kind)
{
	u64 requests = pvtlb_sum(kind), asked = pvtlb_sum(PVTLB_STAT_asked), done = dealt_with();
	unsigned int others = num_online_cpus() - 1;

	if (kind == PVTLB_STAT_flush_all)
		flush_tlb_all();
	else
		flush_tlb_kernel_range(VMALLOC_START, VMALLOC_START + PAGE_SIZE);

	/* Others flush too, so at least; and every CPU was dealt with in some way. */
	KUNIT_EXPECT_GE_MSG(test, pvtlb_sum(kind), requests + 1, "%s", name);
	KUNIT_EXPECT_GE_MSG(test, pvtlb_sum(PVTLB_STAT_asked), asked + others, "%s", name);
	KUNIT_EXPECT_GE_MSG(test, dealt_with(), done + others, "%s", name);
}

static void count_body(struct kunit *test, const char *name)
{
	count_kind(test, name, PVTLB_STAT_flush_all);
	count_kind(test, name, PVTLB_STAT_flush_kernel);
}

static void count_test(struct kunit *test)
{
	if (num_online_cpus() == 1)
		kunit_skip(test, "needs a second CPU");
	under_each_backend(test, count_body);
}

/*
 * A kernel address whose page is exchanged, and a reader on every CPU. The pages
 * hold rising numbers. After the flush for number n, published says n, and
 * whoever reads less afterwards has used an old translation.
 */
struct window {
	u64		*address;
	struct page	*pages[2];
	u64		published;
	atomic_t	stale;
	u64		*seen;		/* the newest number each CPU has read */
};

static int reader(void *arg)
{
	struct window *w = arg;

	while (!kthread_should_stop()) {
		u64 expected = smp_load_acquire(&w->published);	/* pairs with exchange() */
		u64 value = READ_ONCE(*w->address);

		if (value < expected)
			atomic_inc(&w->stale);
		WRITE_ONCE(w->seen[raw_smp_processor_id()], max(value, expected));
		cond_resched();
	}
	return 0;
}

static int set_page(pte_t *pte, unsigned long address, void *page)
{
	set_pte_at(&init_mm, address, pte, mk_pte((struct page *)page, PAGE_KERNEL));
	return 0;
}

static int exchange(struct window *w, u64 n, bool flush)
{
	unsigned long address = (unsigned long)w->address;
	struct page *page = w->pages[n % 2];
	int err;

	*(u64 *)page_address(page) = n;
	err = apply_to_page_range(&init_mm, address, PAGE_SIZE, set_page, page);
	if (flush)
		flush_tlb_kernel_range(address, address + PAGE_SIZE);
	smp_store_release(&w->published, n);	/* pairs with reader() */
	return err;
}

static u64 exchanges(struct kunit *test, const char *name, bool flush)
{
	struct window *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct task_struct **readers;
	u64 n = 0;
	int cpu, i;

	KUNIT_ASSERT_NOT_NULL(test, w);
	readers = kunit_kcalloc(test, nr_cpu_ids, sizeof(*readers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, readers);
	w->seen = kunit_kcalloc(test, nr_cpu_ids, sizeof(*w->seen), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w->seen);
	for (i = 0; i < 2; i++) {
		w->pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		KUNIT_ASSERT_NOT_NULL(test, w->pages[i]);
	}
	w->address = vmap(w->pages, 1, VM_MAP, PAGE_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, w->address);

	for_each_online_cpu(cpu) {
		readers[cpu] = kthread_create_on_cpu(reader, w, cpu, "pvtlb_reader/%u");
		if (IS_ERR(readers[cpu])) {
			KUNIT_FAIL(test, "no reader on CPU %d", cpu);
			readers[cpu] = NULL;
		} else {
			wake_up_process(readers[cpu]);
		}
	}
	while (n < 300) {
		KUNIT_EXPECT_EQ(test, exchange(w, ++n, flush), 0);
		/* Each has to read once more, so that it holds a translation. */
		for_each_online_cpu(cpu)
			while (readers[cpu] && READ_ONCE(w->seen[cpu]) < n)
				cond_resched();
	}
	for_each_online_cpu(cpu)
		if (readers[cpu])
			kthread_stop(readers[cpu]);

	/* vunmap() clears the entry whatever page is in it. */
	vunmap(w->address);
	for (i = 0; i < 2; i++)
		__free_page(w->pages[i]);
	return atomic_read(&w->stale);
}

static void exchange_body(struct kunit *test, const char *name)
{
	KUNIT_EXPECT_EQ_MSG(test, exchanges(test, name, true), 0, "%s", name);
}

/* No reader on any CPU may see the old page after a kernel-range flush. */
static void exchange_test(struct kunit *test)
{
	if (num_online_cpus() == 1)
		kunit_skip(test, "needs a second CPU");
	under_each_backend(test, exchange_body);
}

/* The test above can fail: without the flush, old translations are seen. */
static void exchange_without_flush_test(struct kunit *test)
{
	if (num_online_cpus() == 1)
		kunit_skip(test, "needs a second CPU");
	KUNIT_EXPECT_GT(test, exchanges(test, "none", false), 0);
	flush_tlb_all();
}

static struct kunit_case flush_cases[] = {
	KUNIT_CASE_PARAM(pages_test, pages_gen_params),
	KUNIT_CASE(snapshot_test),
	KUNIT_CASE(count_test),
	KUNIT_CASE(exchange_test),
	KUNIT_CASE(exchange_without_flush_test),
	{}
};

static struct kunit_suite flush_suite = {
	.name		= "pvtlb_flush",
	.init		= flush_init,
	.exit		= flush_exit,
	.test_cases	= flush_cases,
};

kunit_test_suite(flush_suite);
