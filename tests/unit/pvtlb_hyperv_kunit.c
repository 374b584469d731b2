// SPDX-License-Identifier: GPL-2.0-only
/* Flushes in the words of Hyper-V, against what the TLFS makes of them by hand. */
#include <kunit/test.h>
#include <linux/sizes.h>

#include <asm/hyperv-tlfs.h>

#include "../backends/hyperv/private.h"

/* A name of each case that KUnit can print */
#define DESCRIBE(name)									\
static void describe_##name(const struct name##_case *c, char *desc)			\
{											\
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);					\
}											\
KUNIT_ARRAY_PARAM(name, name##_cases, describe_##name)

#define ROOM 4

static const struct gva_case {
	const char *what;
	struct pvtlb_hv_range range;
	int used;
	u64 list[ROOM];
} gva_cases[] = {
	{ "one page",			{ 0x7000, 0x8000, 12 }, 1, { 0x7000 } },
	{ "one byte",			{ 0x7000, 0x7001, 12 }, 1, { 0x7000 } },
	{ "one byte short of a page",	{ 0x7000, 0x7fff, 12 }, 1, { 0x7000 } },
	{ "one byte more than a page",	{ 0x7000, 0x8001, 12 }, 1, { 0x7001 } },
	{ "two halves of two pages",	{ 0x7800, 0x8800, 12 }, 1, { 0x7001 } },
	{ "nothing, so a page",		{ 0x7000, 0x7000, 12 }, 1, { 0x7000 } },
	{ "backwards, so a page",	{ 0x7000, 0x1000, 12 }, 1, { 0x7000 } },
	{ "33 pages",			{ 0x7000, 0x7000 + 33 * SZ_4K, 12 }, 1, { 0x7020 } },
	{ "4095 pages",			{ 0, 4095ul * SZ_4K, 12 }, 1, { 0xffe } },
	{ "4096 pages fill an entry",	{ 0, SZ_16M, 12 }, 1, { 0xfff } },
	{ "4097 pages take two",	{ 0, SZ_16M + SZ_4K, 12 }, 2, { 0xfff, 0x1000000 } },
	{ "all the room",		{ 0, 4ul * SZ_16M, 12 }, 4, { 0xfff, 0x1000fff, 0x2000fff, 0x3000fff } },
	{ "a page more than the room",	{ 0, 4ul * SZ_16M + SZ_4K, 12 }, 5 },
	{ "the last page, by end 0",	{ 0xfffffffffffff000, 0, 12 }, 1, { 0xfffffffffffff000 } },
	{ "the last page but a byte",	{ 0xfffffffffffff000, 0xffffffffffffffff, 12 }, 1, { 0xfffffffffffff000 } },
	{ "the last 4096 pages",	{ 0xffffffffff000000, 0, 12 }, 1, { 0xffffffffff000fff } },
	{ "the last 4097 pages",	{ 0xfffffffffefff000, 0, 12 }, 2, { 0xfffffffffeffffff, 0xfffffffffffff000 } },
	{ "a large page",		{ 0x40000000, 0x40200000, 21 }, 1, { 0x40000000 } },
	{ "three large pages",		{ 0x40000000, 0x40600000, 21 }, 3, { 0x40000000, 0x40200000, 0x40400000 } },
	{ "a table anywhere in a large page", { 0x40345000, 0x40346000, 21 }, 1, { 0x40200000 } },
	{ "tables in two large pages",	{ 0x403ff000, 0x40401000, 21 }, 2, { 0x40200000, 0x40400000 } },
	{ "two pages of 1 GiB",		{ 0x40000000, 0xc0000000, 30 }, 2, { 0x40000000, 0x80000000 } },
	{ "the last large page",	{ 0xffffffffffe00000, 0, 21 }, 1, { 0xffffffffffe00000 } },
	{ "more large pages than room",	{ 0, 5 * SZ_2M, 21 }, 5 },
};

DESCRIBE(gva);

static void gva_test(struct kunit *test)
{
	const struct gva_case *c = test->param_value;
	u64 list[ROOM + 1];
	int i;

	memset(list, 0xa5, sizeof(list));
	KUNIT_ASSERT_EQ(test, pvtlb_hv_entries(&c->range), c->used);
	if (c->used > ROOM)
		return;
	pvtlb_hv_fill_gvas(list, &c->range);
	for (i = 0; i < c->used; i++)
		KUNIT_EXPECT_EQ(test, list[i], c->list[i]);
	for (; i <= ROOM; i++)
		KUNIT_EXPECT_EQ(test, list[i], 0xa5a5a5a5a5a5a5a5ull);
}

/* A set full of what an earlier call left behind, but for its mask */
static struct pvtlb_hv_vps *dirty_vps(struct kunit *test)
{
	struct pvtlb_hv_vps *vps = kunit_kmalloc(test, sizeof(*vps), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, vps);
	memset(vps, 0xff, sizeof(*vps));
	vps->mask = 0;
	return vps;
}

static void vp_invalid_test(struct kunit *test)
{
	struct pvtlb_hv_vps *vps = dirty_vps(test);

	KUNIT_EXPECT_EQ(test, pvtlb_hv_vps_add(vps, 4096), -EINVAL);
	KUNIT_EXPECT_EQ(test, pvtlb_hv_vps_add(vps, PVTLB_HV_NO_VP), -EINVAL);
	KUNIT_EXPECT_EQ(test, vps->mask, 0);
	KUNIT_EXPECT_EQ(test, pvtlb_hv_vps_add(vps, 4095), 0);
	KUNIT_EXPECT_EQ(test, vps->mask, 1ull << 63);
}

/*
 * Whole calls, word by word: TLFS, HvCallFlushVirtualAddress*, "Input Parameters", and
 * "Hypercall Inputs" for the control value: bits 15:0 the code, 16 fast, 26:17 the size
 * of a variable header in words, 43:32 reps, 59:48 where to start.
 */
#define SPACE	0x123456000ull

static const struct call_case {
	const char *what;
	bool fast;
	u32 vps[4];
	int nr;
	struct pvtlb_hv_range range;	/* shift 0: whole spaces */
	u64 flags;
	unsigned int words;
	u64 control;
	u64 input[12];
} call_cases[] = {
	{ "Space, fast", true, { 0, 3 }, 2, {}, 4,
	  3, 0x10002, { SPACE, 4, 0x9 } },
	{ "Space, memory", false, { 63 }, 1, {}, 4,
	  3, 0x00002, { SPACE, 4, 1ull << 63 } },
	{ "List, fast", true, { 1 }, 1, { 0x7000, 0xa000, 12 }, 0,
	  4, 0x100010003, { SPACE, 0, 0x2, 0x7002 } },
	{ "List, memory, large pages", false, { 1, 2 }, 2, { 0x40000000, 0x40400000, 21 }, 0,
	  5, 0x200000003, { SPACE, 0, 0x6, 0x40000000, 0x40200000 } },
	{ "SpaceEx, fast, one bank", true, { 64 }, 1, {}, 2,
	  5, 0x30013, { SPACE, 2, 0, 0x2, 0x1 } },
	{ "SpaceEx, memory, banks apart", false, { 4095, 70, 5 }, 3, {}, 0,
	  7, 0x60013, { SPACE, 0, 0, 1ull << 63 | 3, 0x20, 0x40, 1ull << 63 } },
	{ "ListEx, fast", true, { 0, 1, 100, 127 }, 4, { 0x7000, 0x8000, 12 }, 0,
	  7, 0x100050014, { SPACE, 0, 0, 0x3, 0x3, 1ull << 36 | 1ull << 63, 0x7000 } },
	{ "ListEx, memory, twice the same", false, { 65, 65 }, 2, { 0, SZ_16M + SZ_4K, 12 }, 0,
	  7, 0x200020014, { SPACE, 0, 0, 0x2, 0x2, 0xfff, 0x1000000 } },
};

DESCRIBE(call);

static void call_test(struct kunit *test)
{
	const struct call_case *c = test->param_value;
	const struct pvtlb_hv_ways ways = { .fast = c->fast, .slow = !c->fast, .ex = true };
	struct pvtlb_hv_vps *vps = dirty_vps(test);
	struct pvtlb_hv_form form;
	u64 input[16], entries;
	int i;

	memset(input, 0xa5, sizeof(input));
	for (i = 0; i < c->nr; i++)
		KUNIT_ASSERT_EQ(test, pvtlb_hv_vps_add(vps, c->vps[i]), 0);
	entries = c->range.shift ? pvtlb_hv_entries(&c->range) : 0;
	KUNIT_ASSERT_EQ(test, pvtlb_hv_choose(&form, &ways, vps->mask, entries, 14), 0);
	KUNIT_ASSERT_EQ(test, form.words, c->words);
	KUNIT_EXPECT_EQ(test, pvtlb_hv_control(&form, 0), c->control);
	KUNIT_EXPECT_EQ(test, pvtlb_hv_control(&form, 5), c->control | 5ull << 48);
	pvtlb_hv_encode(input, &form, SPACE, c->flags, vps, &c->range);
	for (i = 0; i < c->words; i++)
		KUNIT_EXPECT_EQ(test, input[i], c->input[i]);
	if (i & 1)
		KUNIT_EXPECT_EQ(test, input[i++], 0);
	KUNIT_EXPECT_EQ(test, input[i], 0xa5a5a5a5a5a5a5a5ull);
}

/* What a flush has to be, told in another way than the code tells it. */
static int expected(struct pvtlb_hv_form *form, const struct pvtlb_hv_ways *ways,
		    u64 bank_mask, u64 entries, unsigned int room)
{
	unsigned int banks = hweight64(bank_mask);
	unsigned int head = bank_mask == 1 ? 3 : 4 + banks, fast = ways->fast ? 14 : 0;
	unsigned int most = max(fast, ways->slow ? room : 0);
	bool list = entries && entries < 4096 && head + entries <= most;

	if (!banks)
		return -EINVAL;
	if ((bank_mask > 1 && !ways->ex) || head > most)
		return -EOPNOTSUPP;
	form->code = (bank_mask > 1 ? 0x13 : 2) + list;
	form->banks = bank_mask > 1 ? banks : 0;
	form->reps = list ? entries : 0;
	form->words = head + form->reps;
	form->fast = form->words <= fast;
	return 0;
}

/*
 * The whole input space, as far as it makes a difference: each way of the host, each
 * number of banks with and without the first, and every number of entries up to beyond
 * all that fits anywhere.
 */
static void choose_test(struct kunit *test)
{
	static const u64 far_entries[] = { 4095, 4096, 1ull << 32, U64_MAX };
	static const unsigned int rooms[] = { 14, 191, 4200 };
	unsigned int way, room, banks, i, wrong = 0, seen = 0;

	for (way = 0; way < 8; way++)
	for (room = 0; room < ARRAY_SIZE(rooms); room++)
	for (banks = 0; banks <= 128; banks++)
	for (i = 0; i < 200 + ARRAY_SIZE(far_entries); i++) {
		const struct pvtlb_hv_ways ways = {
			.fast = way & 1, .slow = way & 2, .ex = way & 4
		};
		u64 mask = banks > 64 ? ~0ull << (128 - banks) : banks ? ~0ull >> (64 - banks) : 0;
		u64 entries = i < 200 ? i : far_entries[i - 200];
		struct pvtlb_hv_form form = {}, want = {};
		int err, want_err;

		if (banks == 128)
			mask = 0;
		err = pvtlb_hv_choose(&form, &ways, mask, entries, rooms[room]);
		want_err = expected(&want, &ways, mask, entries, rooms[room]);
		seen++;
		if (err == want_err &&
		    (err || (form.code == want.code && form.fast == want.fast &&
			     form.banks == want.banks && form.reps == want.reps &&
			     form.words == want.words)))
			continue;
		if (!wrong++)
			KUNIT_FAIL(test, "ways %u mask %llx entries %llu room %u: %d, code %x fast %d reps %u; expected %d, %x %d %u\n",
				   way, mask, entries, rooms[room],
				   err, form.code, form.fast, form.reps, want_err, want.code, want.fast, want.reps);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, seen, 8 * 3 * 129 * 204);
}

static const struct progress_case {
	const char *what;
	u64 result;
	unsigned int reps, before, after;
	int more;
} progress_cases[] = {
	{ "no reps",			0,			0, 0, 0, 0 },
	{ "all at once",		7ull << 32,		7, 0, 7, 0 },
	{ "some",			3ull << 32,		7, 0, 3, 1 },
	{ "some more",			5ull << 32,		7, 3, 5, 1 },
	{ "the rest",			7ull << 32,		7, 5, 7, 0 },
	{ "none",			0,			7, 0, 0, -EPROTO },
	{ "none more",			3ull << 32,		7, 3, 3, -EPROTO },
	{ "fewer than before",		2ull << 32,		7, 3, 2, -EPROTO },
	{ "more than there are",	8ull << 32,		7, 0, 8, -EPROTO },
	{ "an error",			3,			0, 0, 0, -EINVAL },
	{ "an error after some",	3ull << 32 | 5,		7, 0, 3, -EINVAL },
	{ "an error after all",		7ull << 32 | 11,	7, 0, 7, -ENOMEM },
	{ "reserved bits are not ours",	0xf0007fffull << 32 >> 44 << 44 | 7ull << 32, 7, 0, 7, 0 },
	{ "unknown status",		0xffff,			0, 0, 0, -EIO },
	{ "not taken for Hyper-V's",	(u64)-1000,		0, 0, 0xfff, -EIO },
};

DESCRIBE(progress);

static void progress_test(struct kunit *test)
{
	const struct progress_case *c = test->param_value;
	unsigned int done = c->before;

	KUNIT_EXPECT_EQ(test, pvtlb_hv_progress(c->result, c->reps, &done), c->more);
	KUNIT_EXPECT_EQ(test, done, c->after);
}

/* Every status but success is an error, and none says that nothing was tried. */
static void status_test(struct kunit *test)
{
	unsigned int status, named = 0;

	KUNIT_EXPECT_EQ(test, pvtlb_hv_errno(HV_STATUS_SUCCESS), 0);
	for (status = 1; status <= U16_MAX; status++) {
		if (pvtlb_hv_errno(status) >= 0 || pvtlb_hv_errno(status) == -EOPNOTSUPP)
			KUNIT_FAIL(test, "status %#x is taken for %d",
				   status, pvtlb_hv_errno(status));
		if (strcmp(pvtlb_hv_status_name(status), "unknown"))
			named++;
	}
	KUNIT_EXPECT_EQ(test, named, 13);
	KUNIT_EXPECT_STREQ(test, pvtlb_hv_status_name(HV_STATUS_INVALID_PARAMETER),
			   "HV_STATUS_INVALID_PARAMETER");
	KUNIT_EXPECT_STREQ(test, pvtlb_hv_status_name(0x78), "HV_STATUS_TIME_OUT");
	KUNIT_EXPECT_STREQ(test, pvtlb_hv_call_name(0x13), "HvCallFlushVirtualAddressSpaceEx");
}

static struct kunit_case hyperv_cases[] = {
	KUNIT_CASE_PARAM(gva_test, gva_gen_params),
	KUNIT_CASE(vp_invalid_test),
	KUNIT_CASE_PARAM(call_test, call_gen_params),
	KUNIT_CASE(choose_test),
	KUNIT_CASE_PARAM(progress_test, progress_gen_params),
	KUNIT_CASE(status_test),
	{}
};

static struct kunit_suite hyperv_suite = {
	.name		= "pvtlb_hyperv",
	.test_cases	= hyperv_cases,
};

kunit_test_suite(hyperv_suite);
