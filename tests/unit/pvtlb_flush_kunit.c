// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes on the running machine, under every backend that works on it, and what
 * the core prepares for them.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
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
 * Kernel addresses whose pages are exchanged, and a reader on every CPU. The pages
 * hold rising numbers. After the flush for number n, published says n, and
 * whoever reads less afterwards has used an old translation.
 */
#define WINDOW_PAGES	40	/* more than are flushed one by one */

struct window {
	char		*address;
	unsigned int	nr;
	struct page	*pages[2][WINDOW_PAGES];
	u64		number;
	u64		published;
	atomic_t	stale;
	u64		*seen;		/* the newest number each CPU has read */
};

static int reader(void *arg)
{
	struct window *w = arg;

	while (!kthread_should_stop()) {
		u64 expected = smp_load_acquire(&w->published);	/* pairs with exchange() */
		u64 oldest = U64_MAX;
		unsigned int i;

		for (i = 0; i < w->nr; i++)
			oldest = min(oldest, READ_ONCE(*(u64 *)(w->address + i * PAGE_SIZE)));
		if (oldest < expected)
			atomic_inc(&w->stale);
		WRITE_ONCE(w->seen[raw_smp_processor_id()], max(oldest, expected));
		cond_resched();
	}
	return 0;
}

static int set_page(pte_t *pte, unsigned long address, void *data)
{
	struct window *w = data;
	unsigned long nr = (address - (unsigned long)w->address) / PAGE_SIZE;
	struct page *page = w->pages[w->number % 2][nr];

	*(u64 *)page_address(page) = w->number;
	set_pte_at(&init_mm, address, pte, mk_pte(page, PAGE_KERNEL));
	return 0;
}

static int exchange(struct window *w, u64 n, bool flush)
{
	unsigned long address = (unsigned long)w->address, size = w->nr * PAGE_SIZE;
	int err;

	w->number = n;
	err = apply_to_page_range(&init_mm, address, size, set_page, w);
	if (flush)
		flush_tlb_kernel_range(address, address + size);
	smp_store_release(&w->published, n);	/* pairs with reader() */
	return err;
}

static u64 exchanges(struct kunit *test, unsigned int nr, unsigned int times, bool flush)
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
	w->nr = nr;
	for (i = 0; i < 2 * nr; i++) {
		w->pages[i % 2][i / 2] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		KUNIT_ASSERT_NOT_NULL(test, w->pages[i % 2][i / 2]);
	}
	w->address = vmap(w->pages[0], nr, VM_MAP, PAGE_KERNEL);
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
	while (n < times) {
		KUNIT_EXPECT_EQ(test, exchange(w, ++n, flush), 0);
		/* Each has to read once more, so that it holds a translation. */
		for_each_online_cpu(cpu)
			while (readers[cpu] && READ_ONCE(w->seen[cpu]) < n)
				cond_resched();
	}
	for_each_online_cpu(cpu)
		if (readers[cpu])
			kthread_stop(readers[cpu]);

	/* vunmap() clears the entries whatever pages are in them. */
	vunmap(w->address);
	for (i = 0; i < 2 * nr; i++)
		__free_page(w->pages[i % 2][i / 2]);
	return atomic_read(&w->stale);
}

static void exchange_body(struct kunit *test, const char *name)
{
	KUNIT_EXPECT_EQ_MSG(test, exchanges(test, 1, 200, true), 0, "%s, a page", name);
	KUNIT_EXPECT_EQ_MSG(test, exchanges(test, 8, 40, true), 0, "%s, a few", name);
	KUNIT_EXPECT_EQ_MSG(test, exchanges(test, WINDOW_PAGES, 40, true), 0, "%s, many", name);
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
	KUNIT_EXPECT_GT(test, exchanges(test, 1, 100, false), 0);
	flush_tlb_all();
}

/* A backend that can do nothing: all its targets are flushed all the same. */
static int refuse(struct pvtlb_request *req)
{
	return -EOPNOTSUPP;
}

static const struct pvtlb_backend refusing = { .name = "refusing", .flush = refuse };

static void fallback_test(struct kunit *test)
{
	u64 fallbacks = pvtlb_sum(PVTLB_STAT_fallbacks);

	if (num_online_cpus() == 1)
		kunit_skip(test, "needs a second CPU");
	KUNIT_ASSERT_EQ(test, pvtlb_choose("off"), 0);
	pvtlb_start(&refusing);
	KUNIT_EXPECT_EQ(test, exchanges(test, 1, 100, true), 0);
	pvtlb_stop();
	KUNIT_EXPECT_GE(test, pvtlb_sum(PVTLB_STAT_fallbacks), fallbacks + 100);
}

/*
 * CPUs that have not loaded an mm may be left out of its flush, but not out of one
 * after which page tables are freed: a lazy one may walk them.
 */
static void freed_tables_test(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();
	struct flush_tlb_info info = {
		.mm = mm, .end = TLB_FLUSH_ALL, .new_tlb_gen = 1, .freed_tables = true,
		.initiating_cpu = nr_cpu_ids,
	};
	u64 before[PVTLB_NR_STATS];
	struct pvtlb_cpu *this;
	u64 asked, lazy;
	bool done;

	KUNIT_ASSERT_NOT_NULL(test, mm);
	preempt_disable();
	this = this_cpu_ptr(pvtlb_cpus);
	memcpy(before, this->stats, sizeof(before));
	done = pvtlb_flush_multi(cpu_online_mask, &info);
	asked = this->stats[PVTLB_STAT_asked] - before[PVTLB_STAT_asked];
	lazy = this->stats[PVTLB_STAT_lazy] - before[PVTLB_STAT_lazy];
	preempt_enable();
	mmput(mm);

	KUNIT_EXPECT_TRUE(test, done);
	KUNIT_EXPECT_EQ(test, asked, num_online_cpus() - 1);
	KUNIT_EXPECT_EQ(test, lazy, 0);
}

/* Where the core cannot work, it has to say so, for the in-tree code to do it. */
static void declined_test(struct kunit *test)
{
	struct flush_tlb_info info = { .end = TLB_FLUSH_ALL };
	bool multi, range, all;

	local_irq_disable();
	multi = pvtlb_flush_multi(cpu_online_mask, &info);
	range = pvtlb_flush_kernel_range(VMALLOC_START, VMALLOC_START + PAGE_SIZE);
	all = pvtlb_flush_all();
	local_irq_enable();

	KUNIT_EXPECT_FALSE(test, multi);
	KUNIT_EXPECT_FALSE(test, range);
	KUNIT_EXPECT_FALSE(test, all);
}

/*
 * What a backend is told of a kernel flush: no page less than asked for, and every other CPU. An
 * emulator may flush more than it is told, so reading does not show that.
 */
static struct {
	struct task_struct	*by;
	enum pvtlb_kind		kind;
	unsigned long		start, end;
	unsigned int		targets;
} recorded;

static int record(struct pvtlb_request *req)
{
	if (current == recorded.by) {
		recorded.kind = req->kind;
		recorded.start = req->info->start;
		recorded.end = req->info->end;
		recorded.targets = cpumask_weight(req->targets);
	}
	return -EOPNOTSUPP;
}

static const struct pvtlb_backend recording = { .name = "recording", .flush = record };

static void request_test(struct kunit *test)
{
	static const unsigned int pages[] = { 1, 2, 8, 33, 34 };
	unsigned long end;
	int i;

	if (num_online_cpus() == 1)
		kunit_skip(test, "needs a second CPU");
	KUNIT_ASSERT_EQ(test, pvtlb_choose("off"), 0);
	pvtlb_start(&recording);
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		memset(&recorded, 0xa5, sizeof(recorded));
		recorded.by = current;
		end = VMALLOC_START + pages[i] * PAGE_SIZE;
		flush_tlb_kernel_range(VMALLOC_START, end);
		KUNIT_EXPECT_EQ(test, recorded.kind, PVTLB_KERNEL);
		KUNIT_EXPECT_LE(test, recorded.start, VMALLOC_START);
		KUNIT_EXPECT_GE_MSG(test, recorded.end, end, "%u pages", pages[i]);
		KUNIT_EXPECT_EQ(test, recorded.targets, num_online_cpus() - 1);
	}
	recorded.by = NULL;
	pvtlb_stop();
}

static struct kunit_case core_cases[] = {
	KUNIT_CASE_PARAM(pages_test, pages_gen_params),
	KUNIT_CASE(snapshot_test),
	KUNIT_CASE(count_test),
	KUNIT_CASE(freed_tables_test),
	KUNIT_CASE(request_test),
	KUNIT_CASE(declined_test),
	{}
};

static struct kunit_suite core_suite = {
	.name		= "pvtlb_core",
	.init		= flush_init,
	.exit		= flush_exit,
	.test_cases	= core_cases,
};

static struct kunit_case flush_cases[] = {
	KUNIT_CASE(exchange_test),
	KUNIT_CASE(exchange_without_flush_test),
	KUNIT_CASE(fallback_test),
	{}
};

static struct kunit_suite flush_suite = {
	.name		= "pvtlb_flush",
	.init		= flush_init,
	.exit		= flush_exit,
	.test_cases	= flush_cases,
};

kunit_test_suites(&core_suite, &flush_suite);
