// SPDX-License-Identifier: GPL-2.0-only
/* The trace events of <trace/events/pvtlb.h> come into being here. */
#include <linux/pvtlb.h>

#define CREATE_TRACE_POINTS
#include <trace/events/pvtlb.h>
