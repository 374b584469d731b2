// SPDX-License-Identifier: GPL-2.0-only
/* Hyper-V's lists of addresses and sets of virtual processors, by hand from the TLFS. */
#include <kunit/test.h>
#include <linux/sizes.h>

#include <asm/hyperv-tlfs.h>

#include "../backends/hyperv/private.h"

#define ROOM 4

static const struct gva_case {
	const char *what;
	unsigned long start, end;
	int used;
	u64 list[ROOM];
} gva_cases[] = {
	{ "one page",			0x7000, 0x8000, 1, { 0x7000 } },
	{ "one byte",			0x7000, 0x7001, 1, { 0x7000 } },
	{ "one byte short of a page",	0x7000, 0x7fff, 1, { 0x7000 } },
	{ "one byte more than a page",	0x7000, 0x8001, 1, { 0x7001 } },
	{ "two halves of two pages",	0x7800, 0x8800, 1, { 0x7001 } },
	{ "nothing, so a page",		0x7000, 0x7000, 1, { 0x7000 } },
	{ "backwards, so a page",	0x7000, 0x1000, 1, { 0x7000 } },
	{ "33 pages",			0x7000, 0x7000 + 33 * SZ_4K, 1, { 0x7020 } },
	{ "4095 pages",			0, 4095ul * SZ_4K, 1, { 0xffe } },
	{ "4096 pages fill an entry",	0, SZ_16M, 1, { 0xfff } },
	{ "4097 pages take two",	0, SZ_16M + SZ_4K, 2, { 0xfff, 0x1000000 } },
	{ "all the room",		0, 4ul * SZ_16M, 4, { 0xfff, 0x1000fff, 0x2000fff, 0x3000fff } },
	{ "a page more than the room",	0, 4ul * SZ_16M + SZ_4K, -E2BIG },
	{ "the last page, by end 0",	0xfffffffffffff000, 0, 1, { 0xfffffffffffff000 } },
	{ "the last page but a byte",	0xfffffffffffff000, 0xffffffffffffffff, 1, { 0xfffffffffffff000 } },
	{ "the last 4096 pages",	0xffffffffff000000, 0, 1, { 0xffffffffff000fff } },
	{ "the last 4097 pages",	0xfffffffffefff000, 0, 2, { 0xfffffffffeffffff, 0xfffffffffffff000 } },
};

static void describe_gva(const struct gva_case *c, char *desc)
{
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(gva, gva_cases, describe_gva);

static void gva_test(struct kunit *test)
{
	const struct gva_case *c = test->param_value;
	u64 list[ROOM + 1];
	int i, used;

	memset(list, 0xa5, sizeof(list));
	used = pvtlb_hv_fill_gvas(list, ROOM, c->start, c->end);
	KUNIT_ASSERT_EQ(test, used, c->used);
	for (i = 0; i < used; i++)
		KUNIT_EXPECT_EQ(test, list[i], c->list[i]);
	KUNIT_EXPECT_EQ(test, list[ROOM], 0xa5a5a5a5a5a5a5a5ull);
}

/* A set with room for all banks, full of what an earlier call left behind. */
static struct hv_vpset *dirty_set(struct kunit *test)
{
	size_t size = sizeof(struct hv_vpset) + PVTLB_HV_MAX_BANKS * sizeof(u64);
	struct hv_vpset *set = kunit_kmalloc(test, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, set);
	memset(set, 0xff, size);
	pvtlb_hv_vpset_init(set);
	return set;
}

static const struct vp_case {
	const char *what;
	u32 vps[4];
	int nr;
	u64 mask;
	unsigned int banks;
	u64 contents[3];
} vp_cases[] = {
	{ "empty",		{},			0, 0, 0 },
	{ "0",			{ 0 },			1, 1, 1, { 1 } },
	{ "63",			{ 63 },			1, 1, 1, { 1ull << 63 } },
	{ "64",			{ 64 },			1, 2, 1, { 1 } },
	{ "63 and 64",		{ 63, 64 },		2, 3, 2, { 1ull << 63, 1 } },
	{ "4095",		{ 4095 },		1, 1ull << 63, 1, { 1ull << 63 } },
	{ "0, 1, 100, 127",	{ 0, 1, 100, 127 },	4, 3, 2, { 3, 1ull << 36 | 1ull << 63 } },
	{ "backwards, a gap",	{ 4095, 70, 5 },	3, 1ull << 63 | 3, 3, { 32, 64, 1ull << 63 } },
	{ "twice the same",	{ 65, 65 },		2, 2, 1, { 2 } },
};

static void describe_vp(const struct vp_case *c, char *desc)
{
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(vp, vp_cases, describe_vp);

static void vp_test(struct kunit *test)
{
	const struct vp_case *c = test->param_value;
	struct hv_vpset *set = dirty_set(test);
	unsigned int i;

	for (i = 0; i < c->nr; i++)
		KUNIT_ASSERT_EQ(test, pvtlb_hv_vpset_add(set, c->vps[i]), 0);
	KUNIT_EXPECT_EQ(test, set->format, HV_GENERIC_SET_SPARSE_4K);
	KUNIT_EXPECT_EQ(test, set->valid_bank_mask, c->mask);
	KUNIT_ASSERT_EQ(test, pvtlb_hv_vpset_pack(set), c->banks);
	for (i = 0; i < c->banks; i++)
		KUNIT_EXPECT_EQ(test, set->bank_contents[i], c->contents[i]);
}

static void vp_invalid_test(struct kunit *test)
{
	struct hv_vpset *set = dirty_set(test);

	KUNIT_EXPECT_EQ(test, pvtlb_hv_vpset_add(set, 4096), -EINVAL);
	KUNIT_EXPECT_EQ(test, pvtlb_hv_vpset_add(set, U32_MAX), -EINVAL);	/* VP_INVAL */
	KUNIT_EXPECT_EQ(test, set->valid_bank_mask, 0);
}

static struct kunit_case hyperv_cases[] = {
	KUNIT_CASE_PARAM(gva_test, gva_gen_params),
	KUNIT_CASE_PARAM(vp_test, vp_gen_params),
	KUNIT_CASE(vp_invalid_test),
	{}
};

static struct kunit_suite hyperv_suite = {
	.name		= "pvtlb_hyperv",
	.test_cases	= hyperv_cases,
};

kunit_test_suite(hyperv_suite);
