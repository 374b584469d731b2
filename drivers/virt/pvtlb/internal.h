/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the core, the backends and the tests share.
 * The contract itself is in <linux/pvtlb.h>.
 */
#ifndef _PVTLB_INTERNAL_H
#define _PVTLB_INTERNAL_H

#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/pvtlb.h>

#include <asm/tlbflush.h>

#include "compat.h"
#include "mutants.h"

/* One counter a CPU each, summed for /sys/kernel/pvtlb/stats. */
#define PVTLB_STATS(S)							\
	S(flush_user)		/* requests, in the order of	*/	\
	S(flush_batch)		/* enum pvtlb_kind		*/	\
	S(flush_kernel)							\
	S(flush_all)							\
	S(asked)		/* remote CPUs asked for	*/	\
	S(lazy)			/* ... that flush themselves	*/	\
	S(deferred)		/* ... left to the hypervisor	*/	\
	S(ipi)			/* ... interrupted		*/	\
	S(late)			/* of deferred: after the IPI	*/	\
	S(sent)			/* IPIs: others were shared	*/	\
	S(yields)		/* targets the host should run	*/	\
	S(halts)		/* waits that gave up the CPU	*/	\
	S(resent)		/* IPIs again, after a second	*/	\
	S(trimmed)		/* lazy CPUs told to leave	*/	\
	S(hypercalls)							\
	S(over)			/* CPUs flushed in vain		*/	\
	S(failures)		/* hypercalls that failed	*/	\
	S(fallbacks)		/* requests ended by interrupt	*/	\
	S(demotions)		/* backends left for failing	*/

enum pvtlb_stat {
#define S(name)	PVTLB_STAT_##name,
	PVTLB_STATS(S)
#undef S
	PVTLB_NR_STATS
};

/**
 * struct pvtlb_cpu - what a CPU needs to flush others
 * @info:    for a kernel flush, which comes without one
 * @stats:   since boot; changed by this CPU only, read by all
 * @masks:   cpumask_size() bytes each: &pvtlb_request.targets, and those that are to
 *	     leave the mm afterwards
 */
struct pvtlb_cpu {
	struct flush_tlb_info	info;
	u64			stats[PVTLB_NR_STATS];
	unsigned long		masks[];
};

/* core.c: one flush, from the hook to its completion */
extern struct pvtlb_cpu __percpu *pvtlb_cpus;

int pvtlb_init_cpus(void);
void pvtlb_stop(void);
void pvtlb_stop_for_good(void);
void pvtlb_start(const struct pvtlb_backend *backend);
unsigned int pvtlb_snapshot(struct cpumask *targets, const struct cpumask *cpus, bool *local);
unsigned long pvtlb_pages(const struct flush_tlb_info *info);
void pvtlb_account(const struct pvtlb_request *req);
void pvtlb_flush_by_ipi(struct pvtlb_request *req);
void pvtlb_flush_this_cpu(struct pvtlb_request *req);

static inline void pvtlb_count(enum pvtlb_stat stat, u64 n)
{
	this_cpu_add(pvtlb_cpus->stats[stat], n);
}

/* select.c: which backend, and when it changes */

/**
 * struct pvtlb_slot - a line of the table of backends, and what is known here
 * @name:   as users write it; there also when the backend is not built in
 * @ops:    NULL when not built in
 * @err:    0 or the -errno of the last probe
 * @failed: was demoted: left out of auto until asked for by name
 * @probe:  the last probe's words
 */
struct pvtlb_slot {
	const char			*name;
	const struct pvtlb_backend	*ops;
	int				err;
	bool				failed;
	struct pvtlb_probe		probe;
};

/* What pvtlb_parse() returns beside the number of a slot or an error. */
#define PVTLB_WANT_AUTO	1000
#define PVTLB_WANT_OFF	1001

int pvtlb_parse(const struct pvtlb_slot *slots, int nr, const char *arg);
int pvtlb_pick(const struct pvtlb_slot *slots, int nr);
int pvtlb_choose(const char *arg);
int pvtlb_show_backend(char *buf);
int pvtlb_show_reason(char *buf);
int pvtlb_show_available(char *buf);
void pvtlb_backend_worked(void);
void pvtlb_backend_failed(int err);

/* sysfs.c: /sys/kernel/pvtlb */
int pvtlb_init_sysfs(void);
u64 pvtlb_sum(enum pvtlb_stat stat);

/* fault.c: failures on demand, for tests */
#ifdef CONFIG_PVTLB_FAULT_INJECTION
bool pvtlb_fail_alloc(void);
bool pvtlb_fail_hypercall(void);
u16 pvtlb_fail_status(void);
#else
static inline bool pvtlb_fail_alloc(void) { return false; }
static inline bool pvtlb_fail_hypercall(void) { return false; }
static inline u16 pvtlb_fail_status(void) { return 0; }
#endif

/* backends/ */
extern const struct pvtlb_backend pvtlb_native;
extern const struct pvtlb_backend pvtlb_upstream;
extern const struct pvtlb_backend pvtlb_kvm;
extern const struct pvtlb_backend pvtlb_hyperv;
extern const struct pvtlb_backend pvtlb_xen;
extern const struct pvtlb_backend pvtlb_xen_hvm;

#endif /* _PVTLB_INTERNAL_H */
