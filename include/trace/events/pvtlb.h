/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace events of pvtlb: what was flushed, by which mechanism, at what cost.
 *
 * Names are stored as text, not as enum values, so that filters and histogram
 * keys read like the output: backend == "kvm" && kind == "kernel".
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM pvtlb

#if !defined(_TRACE_PVTLB_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_PVTLB_H

#include <linux/pvtlb.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

/*
 * One flush, after it completed. asked = lazy + deferred + ipi, except under
 * the upstream backend, where the in-tree code does not tell.
 *
 * pages:	4 KiB pages of the range; 0 if full
 * asked:	remote CPUs the flush was asked for
 * lazy:	of these, left alone: in lazy TLB mode, or on another mm by now;
 *		they flush themselves before they use the mm again
 * deferred:	left to the hypervisor
 * ipi:		interrupted, and waited for
 * late:	of deferred: interrupted first, then taken off its CPU
 * sent:	interrupts sent; others' were shared
 * yields:	times the hypervisor was asked to run a target
 * halts:	times the initiator halted for a target
 * over:	CPUs that a hypercall flushed in vain: it could not name its targets
 * result:	0, or the backend's -errno, upon which the core interrupted
 *		every CPU that was left
 * ns:		from entry to completion, this CPU's own part included
 */
TRACE_EVENT(pvtlb_flush,

	TP_PROTO(const char *backend, const char *kind, const struct pvtlb_request *req,
		 unsigned long pages, unsigned int asked, unsigned int lazy, int result, u64 ns),

	TP_ARGS(backend, kind, req, pages, asked, lazy, result, ns),

	TP_STRUCT__entry(
		__array(char,		backend, PVTLB_NAME_LEN)
		__array(char,		kind, 8)
		__field(unsigned long,	pages)
		__field(bool,		full)
		__field(unsigned int,	asked)
		__field(unsigned int,	lazy)
		__field(unsigned int,	deferred)
		__field(unsigned int,	ipi)
		__field(unsigned int,	late)
		__field(unsigned int,	sent)
		__field(unsigned int,	yields)
		__field(unsigned int,	halts)
		__field(unsigned int,	hypercalls)
		__field(unsigned int,	over)
		__field(int,		result)
		__field(u64,		ns)
	),

	TP_fast_assign(
		strscpy(__entry->backend, backend, PVTLB_NAME_LEN);
		strscpy(__entry->kind, kind, 8);
		__entry->pages = pages;
		__entry->full = !pages;
		__entry->asked = asked;
		__entry->lazy = lazy;
		__entry->deferred = req->deferred;
		__entry->ipi = req->ipi;
		__entry->late = req->late;
		__entry->sent = req->sent;
		__entry->yields = req->yields;
		__entry->halts = req->halts;
		__entry->hypercalls = req->hypercalls;
		__entry->over = req->over;
		__entry->result = result;
		__entry->ns = ns;
	),

	TP_printk("backend=%s kind=%s pages=%lu full=%d asked=%u lazy=%u deferred=%u ipi=%u late=%u sent=%u yields=%u halts=%u hypercalls=%u over=%u result=%d ns=%llu",
		  __entry->backend, __entry->kind, __entry->pages, __entry->full,
		  __entry->asked, __entry->lazy, __entry->deferred, __entry->ipi,
		  __entry->late, __entry->sent, __entry->yields, __entry->halts,
		  __entry->hypercalls, __entry->over, __entry->result, __entry->ns)
);

/*
 * One hypercall. A rep call that the hypervisor returns from early shows once
 * for each time it was continued.
 *
 * input:	where it came from: memory, or fast, which is registers
 * reps:	list entries or operations asked for in all; 0 for a call without
 * done:	of these, completed so far
 * status:	as the hypervisor returned it: the result code of the TLFS for
 *		Hyper-V, 0 or -errno for Xen
 * text:	the same for people
 * ns:		in the hypervisor, the way there and back included
 */
TRACE_EVENT(pvtlb_hypercall,

	TP_PROTO(const char *backend, const char *op, const char *input, unsigned int reps,
		 unsigned int done, int status, const char *text, u64 ns),

	TP_ARGS(backend, op, input, reps, done, status, text, ns),

	TP_STRUCT__entry(
		__array(char,		backend, PVTLB_NAME_LEN)
		__array(char,		op, 40)
		__array(char,		input, 8)
		__field(unsigned int,	reps)
		__field(unsigned int,	done)
		__field(int,		status)
		__array(char,		text, 40)
		__field(u64,		ns)
	),

	TP_fast_assign(
		strscpy(__entry->backend, backend, PVTLB_NAME_LEN);
		strscpy(__entry->op, op, 40);
		strscpy(__entry->input, input, 8);
		__entry->reps = reps;
		__entry->done = done;
		__entry->status = status;
		strscpy(__entry->text, text, 40);
		__entry->ns = ns;
	),

	TP_printk("backend=%s op=%s input=%s reps=%u done=%u status=%d (%s) ns=%llu",
		  __entry->backend, __entry->op, __entry->input, __entry->reps, __entry->done,
		  __entry->status, __entry->text, __entry->ns)
);

/*
 * The choice of a backend: action is selected (at boot), switched (by the
 * user, or around suspend and kexec), demoted (it kept failing) or refused.
 */
TRACE_EVENT(pvtlb_backend,

	TP_PROTO(const char *action, const char *backend, const char *previous, const char *reason),

	TP_ARGS(action, backend, previous, reason),

	TP_STRUCT__entry(
		__array(char,	action, 12)
		__array(char,	backend, PVTLB_NAME_LEN)
		__array(char,	previous, PVTLB_NAME_LEN)
		__array(char,	reason, 96)
	),

	TP_fast_assign(
		strscpy(__entry->action, action, 12);
		strscpy(__entry->backend, backend, PVTLB_NAME_LEN);
		strscpy(__entry->previous, previous, PVTLB_NAME_LEN);
		strscpy(__entry->reason, reason, 96);
	),

	TP_printk("action=%s backend=%s previous=%s reason=\"%s\"",
		  __entry->action, __entry->backend, __entry->previous, __entry->reason)
);

#endif /* _TRACE_PVTLB_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
