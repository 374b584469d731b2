/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernels that the core and the backends are written for, and the one place
 * for what differs between them. Only LTS releases are supported: 6.1 and 6.12.
 *
 * Below: flush_tlb_info without trim_cpumask, other filter rules.
 * Above: mm_cpumask() is trimmed by the flush itself (6.14), global ASIDs
 * expect remote CPUs to reload theirs in the IPI (6.15), pv_ops.mmu without
 * tlb_remove_table (6.15). Each needs work in the core, not only here.
 */
#ifndef _PVTLB_COMPAT_H
#define _PVTLB_COMPAT_H

#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "pvtlb supports Linux 6.1 and 6.12; this kernel is older"
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#error "pvtlb supports Linux 6.1 and 6.12; this kernel is newer"
#endif

#include <asm/apic.h>
#include <asm/mmu.h>

static inline void pvtlb_send_ipi(unsigned int cpu, int vector)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	__apic_send_IPI(cpu, vector);
#else
	apic->send_IPI(cpu, vector);
#endif
}

static inline void pvtlb_send_ipi_mask(const struct cpumask *cpus, int vector)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	__apic_send_IPI_mask(cpus, vector);
#else
	apic->send_IPI_mask(cpus, vector);
#endif
}

static inline void pvtlb_leave_mm(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	leave_mm();
#else
	leave_mm(smp_processor_id());
#endif
}

#endif /* _PVTLB_COMPAT_H */
