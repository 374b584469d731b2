// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/pvtlb, described in Documentation/ABI/testing/sysfs-kernel-pvtlb.
 */
#include <linux/kobject.h>
#include <linux/sysfs.h>

#include "internal.h"

/**
 * pvtlb_sum() - a counter over all CPUs, those that have gone included
 * @stat: which
 *
 * Return: its value since boot.
 */
u64 pvtlb_sum(enum pvtlb_stat stat)
{
	unsigned int cpu;
	u64 sum = 0;

	if (!pvtlb_cpus)
		return 0;
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(pvtlb_cpus, cpu)->stats[stat]);
	return sum;
}

static ssize_t backend_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return pvtlb_show_backend(buf);
}

static ssize_t backend_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	return pvtlb_choose(buf) ?: count;
}

static ssize_t reason_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return pvtlb_show_reason(buf);
}

static ssize_t available_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return pvtlb_show_available(buf);
}

static struct kobj_attribute backend_attr = __ATTR_RW(backend);
static struct kobj_attribute reason_attr = __ATTR_RO(reason);
static struct kobj_attribute available_attr = __ATTR_RO(available);

static struct attribute *attrs[] = {
	&backend_attr.attr,
	&reason_attr.attr,
	&available_attr.attr,
	NULL
};

static const struct attribute_group group = { .attrs = attrs };

#define S(name)									\
static ssize_t name##_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf) \
{										\
	return sysfs_emit(buf, "%llu\n", pvtlb_sum(PVTLB_STAT_##name));		\
}										\
static struct kobj_attribute name##_attr = __ATTR_RO(name);
PVTLB_STATS(S)
#undef S

static struct attribute *stats_attrs[] = {
#define S(name) &name##_attr.attr,
	PVTLB_STATS(S)
#undef S
	NULL
};

static const struct attribute_group stats_group = { .name = "stats", .attrs = stats_attrs };

static const struct attribute_group *groups[] = { &group, &stats_group, NULL };

/**
 * pvtlb_init_sysfs() - create /sys/kernel/pvtlb
 *
 * Return: 0 or -errno, with nothing left behind.
 */
int __init pvtlb_init_sysfs(void)
{
	struct kobject *kobj = kobject_create_and_add("pvtlb", kernel_kobj);
	int err;

	if (!kobj)
		return -ENOMEM;
	err = sysfs_create_groups(kobj, groups);
	if (err)
		kobject_put(kobj);
	return err;
}
