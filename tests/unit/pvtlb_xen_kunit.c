// SPDX-License-Identifier: GPL-2.0-only
/*
 * What Xen is asked to do, by hand from its public/xen.h; and that page tables are
 * written before it is asked, which shows in a PV guest only.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/vmalloc.h>

#include "internal.h"

#include "../backends/xen/private.h"

#ifdef CONFIG_PVTLB_XEN

static const struct op_case {
	const char *what;
	unsigned long start, end;
	unsigned int cmd;
	unsigned long addr;
} op_cases[] = {
	{ "everything",			0, TLB_FLUSH_ALL, MMUEXT_TLB_FLUSH_MULTI },
	{ "one page",			0x7000, 0x8000, MMUEXT_INVLPG_MULTI, 0x7000 },
	{ "a byte in a page",		0x7123, 0x7124, MMUEXT_INVLPG_MULTI, 0x7000 },
	{ "nothing, so a page",		0x7000, 0x7000, MMUEXT_INVLPG_MULTI, 0x7000 },
	{ "two halves of two pages",	0x7800, 0x8800, MMUEXT_TLB_FLUSH_MULTI },
	{ "two pages",			0x7000, 0x9000, MMUEXT_TLB_FLUSH_MULTI },
	{ "33 pages",			0x7000, 0x7000 + 33 * PAGE_SIZE, MMUEXT_TLB_FLUSH_MULTI },
	{ "the last page",		0xfffffffffffff000, 0, MMUEXT_INVLPG_MULTI, 0xfffffffffffff000 },
};

static void describe_op(const struct op_case *c, char *desc)
{
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(op, op_cases, describe_op);

static void op_test(struct kunit *test)
{
	const struct op_case *c = test->param_value;
	struct flush_tlb_info info = { .start = c->start, .end = c->end };
	struct cpumask *vcpus = kunit_kzalloc(test, cpumask_size(), GFP_KERNEL);
	struct mmuext_op op;

	KUNIT_ASSERT_NOT_NULL(test, vcpus);
	memset(&op, 0xa5, sizeof(op));
	op = pvtlb_xen_op(&info, vcpus);
	KUNIT_EXPECT_EQ(test, op.cmd, c->cmd);
	KUNIT_EXPECT_EQ(test, op.arg1.linear_addr, c->addr);
	KUNIT_EXPECT_PTR_EQ(test, op.arg2.vcpumask, (void *)vcpus);
}

/*
 * In a lazy MMU section, Xen PV guests queue stores to page tables. A flush within has to
 * have them made first, or the old translation comes back after it.
 */
static void lazy_mmu_test(struct kunit *test)
{
	unsigned long *old = vmalloc(PAGE_SIZE), *new = vmalloc(PAGE_SIZE), seen;
	unsigned int level;
	pte_t *pte, before;

	KUNIT_ASSERT_NOT_NULL(test, old);
	KUNIT_ASSERT_NOT_NULL(test, new);
	*old = 1;
	*new = 2;
	pte = lookup_address((unsigned long)old, &level);
	KUNIT_ASSERT_NOT_NULL(test, pte);
	before = *pte;

	preempt_disable();
	arch_enter_lazy_mmu_mode();
	set_pte_at(&init_mm, (unsigned long)old, pte, mk_pte(vmalloc_to_page(new), PAGE_KERNEL));
	flush_tlb_kernel_range((unsigned long)old, (unsigned long)old + PAGE_SIZE);
	seen = READ_ONCE(*old);
	arch_leave_lazy_mmu_mode();
	set_pte_at(&init_mm, (unsigned long)old, pte, before);
	flush_tlb_kernel_range((unsigned long)old, (unsigned long)old + PAGE_SIZE);
	preempt_enable();

	KUNIT_EXPECT_EQ(test, seen, 2);
	KUNIT_EXPECT_EQ(test, READ_ONCE(*old), 1);
	vfree(new);
	vfree(old);
}

#endif /* CONFIG_PVTLB_XEN */

#ifdef CONFIG_PVTLB_XEN_HVM

static const struct pays_case {
	const char *what;
	unsigned int targets, over;
	bool waits;
	int limit;
	bool pays;
} pays_cases[] = {
	{ "nobody in vain",			1, 0, false, 0, true },
	{ "one in vain, limit 0",		1, 1, false, 0, false },
	{ "one in vain, but it would wait",	1, 1, true, 0, true },
	{ "just at the limit",			2, 8, false, 4, true },
	{ "just above it",			2, 9, false, 4, false },
	{ "no limit",				1, 4095, false, -1, true },
	{ "a huge limit",			4096, 4095, false, INT_MAX, true },
};

static void describe_pays(const struct pays_case *c, char *desc)
{
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(pays, pays_cases, describe_pays);

static void pays_test(struct kunit *test)
{
	const struct pays_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, pvtlb_xen_hvm_pays(c->targets, c->over, c->waits, c->limit), c->pays);
}

#endif /* CONFIG_PVTLB_XEN_HVM */

static struct kunit_case xen_cases[] = {
#ifdef CONFIG_PVTLB_XEN
	KUNIT_CASE_PARAM(op_test, op_gen_params),
	KUNIT_CASE(lazy_mmu_test),
#endif
#ifdef CONFIG_PVTLB_XEN_HVM
	KUNIT_CASE_PARAM(pays_test, pays_gen_params),
#endif
	{}
};

static struct kunit_suite xen_suite = {
	.name		= "pvtlb_xen",
	.test_cases	= xen_cases,
};

kunit_test_suite(xen_suite);
