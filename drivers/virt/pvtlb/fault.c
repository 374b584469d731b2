// SPDX-License-Identifier: GPL-2.0-only
/*
 * Failures on demand, by the kernel's fault injection framework. On the command
 * line, in its form <interval>,<probability>,<space>,<times>:
 *
 *  fail_pvtlb_alloc=	 the allocation at start
 *  fail_pvtlb_hypercall= hypercalls: not made, and reported as failed
 *
 * and for hypercalls at run time in debugfs, fail_pvtlb_hypercall/. Its file status is
 * what a call to Hyper-V appears to return: by default, and in place of success,
 * HV_STATUS_INVALID_PARAMETER.
 */
#include <linux/debugfs.h>
#include <linux/fault-inject.h>
#include <linux/init.h>

#include "internal.h"

static DECLARE_FAULT_ATTR(fail_alloc);
static DECLARE_FAULT_ATTR(fail_hypercall);

/* A flush holds page-table locks: no stack dump to the console for each. */
static int __init setup_quietly(struct fault_attr *attr, char *arg)
{
	attr->verbose = 0;
	return setup_fault_attr(attr, arg);
}

static int __init setup_fail_alloc(char *arg)
{
	return setup_quietly(&fail_alloc, arg);
}
__setup("fail_pvtlb_alloc=", setup_fail_alloc);

static int __init setup_fail_hypercall(char *arg)
{
	return setup_quietly(&fail_hypercall, arg);
}
__setup("fail_pvtlb_hypercall=", setup_fail_hypercall);

bool pvtlb_fail_alloc(void)
{
	return should_fail(&fail_alloc, 1);
}

bool pvtlb_fail_hypercall(void)
{
	return should_fail(&fail_hypercall, 1);
}

#define INVALID_PARAMETER	5

static u32 status = INVALID_PARAMETER;

u16 pvtlb_fail_status(void)
{
	return (u16)READ_ONCE(status) ?: INVALID_PARAMETER;
}

static int __init init_debugfs(void)
{
	struct dentry *dir;

	fail_hypercall.verbose = 0;
	dir = fault_create_debugfs_attr("fail_pvtlb_hypercall", NULL, &fail_hypercall);
	debugfs_create_x32("status", 0600, dir, &status);
	return PTR_ERR_OR_ZERO(dir);
}
late_initcall(init_debugfs);
