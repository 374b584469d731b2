// SPDX-License-Identifier: GPL-2.0-only
/*
 * pvtlb.mutant=NAME, on the command line and in /sys/module/pvtlb/parameters: which
 * flushes are lost on purpose. Only for tests of tests, see mutants.h.
 */
#define pr_fmt(fmt) "pvtlb: " fmt

#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/moduleparam.h>
#include <linux/panic.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mutants.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "pvtlb."

enum pvtlb_mutant pvtlb_active_mutant __read_mostly;

#define M(name)	#name,
static const char * const names[PVTLB_NR_MUTANTS] = { "none", PVTLB_MUTANTS(M) };
#undef M

#define M(name)	" " #name
static const char all_names[] = "none" PVTLB_MUTANTS(M);
#undef M

static int set_mutant(const char *val, const struct kernel_param *kp)
{
	int mutant = sysfs_match_string(names, val);

	if (mutant < 0) {
		pr_err("there is no mutant %.*s; there are: %s\n", (int)strcspn(val, "\n"), val,
		       all_names);
		return mutant;
	}
	if (mutant != PVTLB_MUTANT_none) {
		pr_notice("mutant %s: flushes are lost on purpose\n", names[mutant]);
		add_taint(TAINT_TEST, LOCKDEP_STILL_OK);
	}
	WRITE_ONCE(pvtlb_active_mutant, mutant);
	return 0;
}

static int get_mutant(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", names[READ_ONCE(pvtlb_active_mutant)]);
}

static const struct kernel_param_ops mutant_ops = { .set = set_mutant, .get = get_mutant };

module_param_cb(mutant, &mutant_ops, NULL, 0600);

/**
 * pvtlb_lose_last() - leave the last CPU out
 * @cpus: may be empty
 */
void pvtlb_lose_last(struct cpumask *cpus)
{
	if (!cpumask_empty(cpus))
		__cpumask_clear_cpu(cpumask_last(cpus), cpus);
}
