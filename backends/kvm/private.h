/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the KVM backend knows of its host.
 *
 * Each vCPU shares a struct kvm_steal_time with the host (MSR_KVM_STEAL_TIME,
 * Documentation/virt/kvm/x86/msr.rst). Its byte "preempted" is the handshake:
 *
 *	0				may be running: interrupt it
 *	PREEMPTED			off its CPU since the last instruction boundary
 *	PREEMPTED | FLUSH_TLB		the same, and the host flushes before entry
 *
 * The host sets PREEMPTED when it takes the vCPU off; when it puts it back, it
 * reads and zeroes the byte in one atomic exchange and flushes the vCPU's whole
 * TLB, global entries included, if FLUSH_TLB was set. A guest may only move the
 * byte from PREEMPTED to PREEMPTED | FLUSH_TLB, and only by compare-and-exchange:
 * setting the bit in any other way could hit a vCPU that is running already
 * (CVE-2019-3016 was that race, from the host's side).
 *
 * A vCPU that was taken off while it ran a guest of its own is another matter:
 * an Intel host then flushes the tag (VPID) of that nested guest and not the one
 * that our kernel's translations carry (vmx_flush_tlb_guest() with
 * vmx_get_current_vpid(), as of 6.12). vCPUs in VMX operation are interrupted.
 */
#ifndef _PVTLB_KVM_PRIVATE_H
#define _PVTLB_KVM_PRIVATE_H

#include <linux/percpu.h>

#include <linux/kvm_para.h>

/* Defined, and registered with the host, by arch/x86/kernel/kvm.c */
DECLARE_PER_CPU(struct kvm_steal_time, steal_time);

#endif /* _PVTLB_KVM_PRIVATE_H */
