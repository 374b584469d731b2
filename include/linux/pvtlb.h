/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pvtlb - remote TLB flushes by the mechanism the hypervisor does best
 *
 * THE LAW
 *
 *  1. When a flush returns, each CPU it targeted either holds no translation
 *     and no paging-structure entry older than the request, or is not
 *     executing guest code and will drop them before it does.
 *
 *  2. Uncertain means flush more. A backend that cannot serve a request
 *     returns an error having promised nothing for the CPUs it leaves in
 *     &pvtlb_request.targets, and the core interrupts all of them. Never
 *     local only, never silently nothing.
 *
 *  3. Nobody may use the flush IPI as a barrier, because a hypervisor that
 *     flushes a vCPU does not wait for it to enable interrupts, which is what
 *     lock-free page-table walkers rely on. The tables of processes are freed
 *     by RCU (CONFIG_MMU_GATHER_RCU_TABLE_FREE, which PVTLB selects), and where
 *     the kernel frees its own it waits for walkers by an IPI of its own.
 *
 *  4. The cpumask a flush is called with is live: CPUs join and leave it while
 *     it is read. The core copies it once, and everything after that works on
 *     the copy, which may turn out empty.
 *
 * What breaks without them: (1) and (2) are memory corruption, a process that
 * goes on writing to a page it no longer owns; (3) is a use after free in
 * get_user_pages_fast(); (4) has been an out-of-bounds array index.
 *
 * ENTRY POINTS, called by arch/x86/mm/tlb.c and by nobody else
 *
 *  pvtlb_flush_multi()		user ranges of one mm, and batched unmap
 *  pvtlb_flush_kernel_range()	kernel addresses, on every CPU
 *  pvtlb_flush_all()		everything, global entries too, on every CPU
 *
 * Each returns true when the flush is complete, this CPU's part included, and
 * false when nothing was done and the in-tree code has to run. While no
 * backend is active they cost a static branch and return false. That is the
 * whole hook, so "off" is exactly the kernel without pvtlb.
 *
 * BACKENDS implement struct pvtlb_backend, below. Their place is
 * drivers/virt/pvtlb/backends/, one folder a hypervisor; the ordered table
 * that names them all is in drivers/virt/pvtlb/select.c.
 */
#ifndef _LINUX_PVTLB_H
#define _LINUX_PVTLB_H

#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/types.h>

struct flush_tlb_info;

#ifdef CONFIG_PVTLB

/* What arch/x86/mm/tlb.c shares with the core: file-local without PVTLB. */
#define STATIC_NOPVTLB

void flush_tlb_func(void *info);
bool should_flush_tlb(int cpu, void *data);
void do_flush_tlb_all(void *info);
void do_kernel_range_flush(void *info);
extern unsigned long tlb_single_page_flush_ceiling;

/**
 * enum pvtlb_kind - what a request covers
 * @PVTLB_USER:   a range, or all, of one mm
 * @PVTLB_BATCH:  every mm whose generation moved on: batched unmap of reclaim
 *                and migration. Always full, never global entries
 * @PVTLB_KERNEL: a range of kernel addresses in every address space
 * @PVTLB_ALL:    everything, global entries included
 * @PVTLB_NR_KINDS: how many there are
 */
enum pvtlb_kind {
	PVTLB_USER,
	PVTLB_BATCH,
	PVTLB_KERNEL,
	PVTLB_ALL,
	PVTLB_NR_KINDS
};

/**
 * struct pvtlb_request - one flush, from the core to the active backend
 * @kind:       what is to be flushed
 * @info:       the range [start, end) in bytes, or end == TLB_FLUSH_ALL; the mm,
 *              NULL unless @kind is PVTLB_USER
 * @func:       flushes the CPU it runs on, with interrupts off, as told by @info
 * @cpus:       the mask as the caller gave it, live. For the upstream backend
 *              only; everyone else works on @targets
 * @targets:    remote online CPUs that still have to be flushed: a private copy,
 *              never empty, never this CPU, CPUs filtered out that will flush
 *              themselves before they use the mm again. A backend clears those
 *              it took care of and leaves the others in
 * @local:      this CPU is to be flushed as well. A backend that did so clears
 *              it, otherwise the core does it after the backend returned
 * @deferred:   CPUs left to the hypervisor: flushed within a hypercall, or by the
 *              time they run again
 * @ipi:        CPUs interrupted, and waited for until they had flushed
 * @late:       of @deferred, those that were interrupted first
 * @sent:       interrupts sent: less than @ipi where others' could be shared
 * @yields:     times the hypervisor was asked to run a target
 * @halts:      times this CPU halted for a target
 * @hypercalls: hypercalls made
 * @over:       CPUs that a hypercall flushed though they were no targets
 */
struct pvtlb_request {
	enum pvtlb_kind			kind;
	const struct flush_tlb_info	*info;
	void				(*func)(void *info);
	const struct cpumask		*cpus;
	struct cpumask			*targets;
	bool				local;
	unsigned int			deferred;
	unsigned int			ipi;
	unsigned int			late;
	unsigned int			sent;
	unsigned int			yields;
	unsigned int			halts;
	unsigned int			hypercalls;
	unsigned int			over;
};

/**
 * struct pvtlb_probe - a backend's answer to "can you work here?"
 * @reason:  why not, or why it is not advised: one line, no full stop
 * @advised: good enough to be chosen unasked. True before the call
 */
struct pvtlb_probe {
	char	reason[96];
	bool	advised;
};

/**
 * struct pvtlb_backend - one way to flush the TLBs of other CPUs
 * @name:   as on the command line and in sysfs; less than PVTLB_NAME_LEN bytes
 * @what:   what it does, for the boot line
 * @probe:  0 if it works here, else -errno with @reason filled in. Proves it
 *          with a trial call where a call exists. Leaves nothing behind. May be
 *          called while the backend, or another, is active. May sleep
 * @enter:  makes ready what @flush stands on; 0 or -errno. No backend is active.
 *          May sleep. NULL if there is nothing to do
 * @leave:  the opposite of @enter, likewise
 * @flush:  serves one request. Called with preemption off and interrupts on,
 *          never nested on a CPU. A full barrier stands between the stores to
 *          the page tables and this call: inc_mm_tlb_gen() for user ranges and
 *          batches, smp_mb() in the core for the kernel's. 0, or -errno with
 *          every CPU that is not done still in @targets: -EOPNOTSUPP when this
 *          request cannot be expressed, anything else when the mechanism failed
 * @remote: flushes targets that run without running anything on them
 * @in_tree: wants every request, also those whose targets were all filtered
 *          out, and does the kernel's own accounting itself where the in-tree
 *          mechanism does
 */
struct pvtlb_backend {
	const char	*name;
	const char	*what;
	int		(*probe)(struct pvtlb_probe *probe);
	int		(*enter)(void);
	void		(*leave)(void);
	int		(*flush)(struct pvtlb_request *req);
	bool		remote;
	bool		in_tree;
};

#define PVTLB_NAME_LEN	16

DECLARE_STATIC_KEY_FALSE(pvtlb_active);

bool __pvtlb_flush_multi(const struct cpumask *cpus, const struct flush_tlb_info *info);
bool __pvtlb_flush_kernel_range(unsigned long start, unsigned long end);
bool __pvtlb_flush_all(void);

/**
 * pvtlb_flush_multi() - flush user translations on several CPUs
 * @cpus: CPUs that may hold them, this one included or not. May change meanwhile
 * @info: what to flush, see struct flush_tlb_info; not changed
 *
 * Context: preemption off, interrupts on.
 * Return: true when done, false when the caller has to do it.
 */
static inline bool pvtlb_flush_multi(const struct cpumask *cpus, const struct flush_tlb_info *info)
{
	return static_branch_unlikely(&pvtlb_active) && __pvtlb_flush_multi(cpus, info);
}

/**
 * pvtlb_flush_kernel_range() - flush a range of kernel addresses on every CPU
 * @start: first byte
 * @end:   first byte after it, or TLB_FLUSH_ALL
 *
 * Context: process context, interrupts on.
 * Return: true when done, false when the caller has to do it.
 */
static inline bool pvtlb_flush_kernel_range(unsigned long start, unsigned long end)
{
	return static_branch_unlikely(&pvtlb_active) && __pvtlb_flush_kernel_range(start, end);
}

/**
 * pvtlb_flush_all() - flush everything, global entries too, on every CPU
 *
 * Context: process context, interrupts on.
 * Return: true when done, false when the caller has to do it.
 */
static inline bool pvtlb_flush_all(void)
{
	return static_branch_unlikely(&pvtlb_active) && __pvtlb_flush_all();
}

#else /* !CONFIG_PVTLB */

#define STATIC_NOPVTLB	static

static inline bool pvtlb_flush_multi(const struct cpumask *cpus, const struct flush_tlb_info *info)
{
	return false;
}

static inline bool pvtlb_flush_kernel_range(unsigned long start, unsigned long end)
{
	return false;
}

static inline bool pvtlb_flush_all(void)
{
	return false;
}

#endif /* CONFIG_PVTLB */

/*
 * IN PLACE OF KVM'S HYPERCALLS
 *
 * While the hyperv backend is active on KVM, the kernel makes no hypercall of KVM,
 * because KVM would take it for one of Hyper-V. Called by arch/x86/kernel/kvm.c, ptp_kvm
 * and the kvm backend, each with preemption off from the call to the hypercall
 * that it may be in place of; why, is told in backends/hyperv/no-kvm-calls.c.
 */
#ifdef CONFIG_PVTLB_HYPERV

DECLARE_STATIC_KEY_FALSE(pvtlb_no_kvm_calls);

bool __pvtlb_kvm_calls_barred(void);
bool __pvtlb_kvm_send_ipi(const struct cpumask *cpus, int vector);
bool __pvtlb_kvm_kick(int cpu);
bool __pvtlb_kvm_wait_irqs_off(void);
void pvtlb_kvm_crash(void);

/**
 * pvtlb_kvm_calls_barred() - whether a hypercall of KVM must not be made
 *
 * Context: preemption off.
 * Return: true when it must not.
 */
static inline bool pvtlb_kvm_calls_barred(void)
{
	return static_branch_unlikely(&pvtlb_no_kvm_calls) && __pvtlb_kvm_calls_barred();
}

/**
 * pvtlb_kvm_send_ipi() - in place of KVM_HC_SEND_IPI
 * @cpus:   whom to
 * @vector: which, NMI_VECTOR included
 *
 * Context: preemption off.
 * Return: true when sent, false when the hypercall is to be made.
 */
static inline bool pvtlb_kvm_send_ipi(const struct cpumask *cpus, int vector)
{
	return static_branch_unlikely(&pvtlb_no_kvm_calls) && __pvtlb_kvm_send_ipi(cpus, vector);
}

/**
 * pvtlb_kvm_kick() - in place of KVM_HC_KICK_CPU
 * @cpu: whom
 *
 * Context: preemption off.
 * Return: true when kicked, false when the hypercall is to be made.
 */
static inline bool pvtlb_kvm_kick(int cpu)
{
	return static_branch_unlikely(&pvtlb_no_kvm_calls) && __pvtlb_kvm_kick(cpu);
}

/**
 * pvtlb_kvm_wait_irqs_off() - in place of halting for a kick with interrupts off
 *
 * Context: interrupts off.
 * Return: true when the caller is to look again, false when it may halt.
 */
static inline bool pvtlb_kvm_wait_irqs_off(void)
{
	return static_branch_unlikely(&pvtlb_no_kvm_calls) && __pvtlb_kvm_wait_irqs_off();
}

#else /* !CONFIG_PVTLB_HYPERV */

static inline bool pvtlb_kvm_calls_barred(void) { return false; }
static inline bool pvtlb_kvm_send_ipi(const struct cpumask *cpus, int vector) { return false; }
static inline bool pvtlb_kvm_kick(int cpu) { return false; }
static inline bool pvtlb_kvm_wait_irqs_off(void) { return false; }
static inline void pvtlb_kvm_crash(void) { }

#endif /* CONFIG_PVTLB_HYPERV */
#endif /* _LINUX_PVTLB_H */
