// SPDX-License-Identifier: GPL-2.0-only
/* The choice of a backend: what users may write, and what auto takes. */
#include <kunit/test.h>

#include "internal.h"

static const struct pvtlb_slot names[] = { { .name = "first" }, { .name = "second" } };

static const struct parse_case {
	const char *arg;
	int result;
} parse_cases[] = {
	{ "first",	0 },
	{ "second",	1 },
	{ "second\n",	1 },	/* as echo writes it */
	{ "auto",	PVTLB_WANT_AUTO },
	{ "auto\n",	PVTLB_WANT_AUTO },
	{ "off",	PVTLB_WANT_OFF },
	{ "banana",	-EINVAL },
	{ "",		-EINVAL },
	{ "\n",		-EINVAL },
	{ "firs",	-EINVAL },	/* no prefixes */
	{ "firstly",	-EINVAL },
	{ "First",	-EINVAL },
	{ " first",	-EINVAL },
	{ "first\n\n",	-EINVAL },
	{ "first,second", -EINVAL },
};

static void describe_parse(const struct parse_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%*pE", (int)strlen(c->arg), c->arg);
}

KUNIT_ARRAY_PARAM(parse, parse_cases, describe_parse);

static void parse_test(struct kunit *test)
{
	const struct parse_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, pvtlb_parse(names, ARRAY_SIZE(names), c->arg), c->result);
}

#define WORKS		{ .err = 0, .probe.advised = true }
#define ABSENT		{ .err = -ENODEV, .probe.advised = true }
#define UNADVISED	{ .err = 0, .probe.advised = false }
#define FAILED		{ .err = 0, .probe.advised = true, .failed = true }

static const struct pick_case {
	const char *what;
	struct pvtlb_slot slots[3];
	int result;
} pick_cases[] = {
	{ "the first that works",	{ WORKS, WORKS, WORKS },		0 },
	{ "past one that is absent",	{ ABSENT, WORKS, WORKS },		1 },
	{ "past one not advised",	{ UNADVISED, ABSENT, WORKS },		2 },
	{ "past one that failed",	{ FAILED, WORKS, WORKS },		1 },
	{ "none advised",		{ UNADVISED, ABSENT, UNADVISED },	-ENODEV },
	{ "all failed",			{ FAILED, FAILED, FAILED },		-ENODEV },
};

static void describe_pick(const struct pick_case *c, char *desc)
{
	strscpy(desc, c->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(pick, pick_cases, describe_pick);

static void pick_test(struct kunit *test)
{
	const struct pick_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, pvtlb_pick(c->slots, ARRAY_SIZE(c->slots)), c->result);
}

static struct kunit_case select_cases[] = {
	KUNIT_CASE_PARAM(parse_test, parse_gen_params),
	KUNIT_CASE_PARAM(pick_test, pick_gen_params),
	{}
};

static struct kunit_suite select_suite = {
	.name		= "pvtlb_select",
	.test_cases	= select_cases,
};

kunit_test_suite(select_suite);
