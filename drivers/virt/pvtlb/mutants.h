/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mutants: ways to lose a flush, each a mistake that one could make where it is put
 * in, as "if (pvtlb_mutant(name))". At most one is active, chosen by pvtlb.mutant=;
 * tests/mutants/ shows of each that a test finds it. Without CONFIG_PVTLB_MUTANTS
 * all of it is compiled to nothing.
 */
#ifndef _PVTLB_MUTANTS_H
#define _PVTLB_MUTANTS_H

#define PVTLB_MUTANTS(M)							\
	/* the core */								\
	M(snapshot_short)	/* the last CPU is left out	*/		\
	M(lazy_walker)		/* tables go under a lazy CPU	*/		\
	M(batch_skipped)						\
	M(local_skipped)						\
	M(error_ignored)	/* no fallback			*/		\
	M(fallback_short)	/* without the last CPU		*/		\
	M(kernel_range_short)	/* without the last page	*/		\
	M(kernel_range_skipped)	/* unless it is one page	*/		\
	M(declined_as_done)	/* told to the in-tree code	*/		\
	/* the mailbox */							\
	M(ack_only)		/* acknowledged, not done	*/		\
	M(torn_read)		/* seq not looked at again	*/		\
	M(mm_unchecked)		/* ctx_id not looked at		*/		\
	M(late_seq)		/* acknowledged as of after	*/		\
	M(in_flight_late)	/* cleared after the scan	*/		\
	M(published_short)	/* without the last page	*/		\
	M(withdrawn)		/* though the host has not it	*/		\
	M(unawaited)							\
	M(cpu_unprepared)	/* interrupts lost with a CPU	*/		\
	/* kvm */								\
	M(kvm_unflagged)	/* left to a host not told	*/		\
	M(kvm_running_left)	/* ... though it runs		*/		\
	M(kvm_byte_ored)	/* ... or may by now		*/		\
	M(kvm_nested_left)	/* ... or runs a guest		*/		\
	M(kvm_version_unread)	/* ... or did when it was left	*/		\
	/* hyperv */								\
	M(hv_last_vp_only)	/* of each bank			*/		\
	M(hv_cpu_as_vp)		/* CPU number for VP index	*/		\
	M(hv_entry_short)	/* without its last page	*/		\
	M(hv_list_short)	/* without its last entry	*/		\
	M(hv_large_as_small)	/* 4 KiB of a large page	*/		\
	M(hv_bank_empty)	/* the last of several		*/		\
	M(hv_some_as_all)	/* reps left over		*/		\
	M(hv_status_ignored)						\
	M(hv_not_called)						\
	/* xen */								\
	M(xen_not_called)						\
	M(xen_queue_kept)	/* flush before the new tables	*/		\
	M(xen_first_page)	/* of a range only		*/		\
	M(xen_vcpu_lost)	/* the last			*/		\
	M(xen_error_ignored)						\
	/* xen-hvm */								\
	M(xen_hvm_not_called)						\
	M(xen_hvm_error_ignored)					\
	M(xen_hvm_few_lost)	/* when a call does not pay	*/

enum pvtlb_mutant {
	PVTLB_MUTANT_none,
#define M(name)	PVTLB_MUTANT_##name,
	PVTLB_MUTANTS(M)
#undef M
	PVTLB_NR_MUTANTS
};

#ifdef CONFIG_PVTLB_MUTANTS
extern enum pvtlb_mutant pvtlb_active_mutant;
#define pvtlb_mutant(name)	unlikely(READ_ONCE(pvtlb_active_mutant) == PVTLB_MUTANT_##name)
#else
#define pvtlb_mutant(name)	((void)PVTLB_MUTANT_##name, false)
#endif

struct cpumask;
void pvtlb_lose_last(struct cpumask *cpus);

#endif /* _PVTLB_MUTANTS_H */
