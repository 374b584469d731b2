/* SPDX-License-Identifier: GPL-2.0-only */
/* What the tests set up in the machine of shim.c and machine.c, and what they look at. */
#ifndef _MACHINE_H
#define _MACHINE_H

#include "shim.h"

/* shim.c: CPUs */
void shim_boot_cpus(unsigned int cpus, unsigned int possible);
void shim_play(unsigned int cpu, void *(*body)(void *), void *arg);	/* a thread as a CPU */
void shim_join(void);
void shim_as(unsigned int cpu, void (*func)(void *), void *arg);	/* in an idle CPU's name */
void shim_interrupts(void);
unsigned int shim_random(unsigned int below);
int shim_cpu_up(unsigned int cpu);
void shim_cpu_down(unsigned int cpu);

/* shim.c: the rest of the kernel */
bool shim_run_work(void);
void shim_pm(unsigned long event);
void shim_reboot(void);
int shim_show(const char *group, const char *name, char *buf);
int shim_store(const char *name, const char *value);
bool shim_said(const char *text);
void shim_forget(void);

enum {
	SHIM_FAIL_PERCPU = 1, SHIM_FAIL_PM = 2, SHIM_FAIL_REBOOT = 4, SHIM_FAIL_CPUHP = 8,
	SHIM_FAIL_KOBJECT = 16, SHIM_FAIL_SYSFS = 32, SHIM_FAIL_KZALLOC = 64,
	SHIM_FAIL_VMALLOC = 128, SHIM_FAIL_CPUMASK = 256,
};

extern unsigned int shim_failing;
extern unsigned long shim_calls, shim_ipis, shim_events, shim_flush_events, shim_trimmed;

/* machine.c: page tables and TLBs. Space 0 is the kernel's, the others are of shim_mms. */
#define SPACES		4
#define PAGES		64
#define KERNEL_BASE	0xffff800000000000ul

extern struct mm_struct shim_mms[SPACES];
extern unsigned int shim_page_shift[SPACES];

unsigned long shim_address(unsigned int space, unsigned int page);
void shim_map(unsigned int space, unsigned int page, u64 value);	/* a store, no flush */
u64 shim_read(unsigned int space, unsigned int page);			/* as this CPU sees it */
bool shim_stale(unsigned int cpu, unsigned int space, unsigned int page, u64 value);
u64 shim_sum(const struct flush_tlb_info *info);
void shim_load_mm(unsigned int cpu, unsigned int space, bool lazy);
void shim_lazy_mmu(bool on);

/* machine.c: hypervisors */
struct shim_kvm {
	unsigned int often;	/* at one of so many points a vCPU is taken off; 0: never */
	bool forgets;		/* a faulty host: FLUSH_TLB is not looked at */
	unsigned long taken_off, flushed, kicks, yields;
};

struct shim_hv {
	u32 max_leaf, interface, features_eax, features_edx, hints;
	u32 vp[NR_CPUS];
	u32 bad_msr;		/* an access to it faults */
	unsigned int refuse_id;	/* the guest OS id that faults: the next is 1 */
	unsigned int reps;	/* done per call, 0: all */
	bool stuck;		/* none done, however often it is called */
	u16 status;		/* what every flush returns, having done nothing */
	bool reject_ex, reject_list, reject_fast, reject_slow, no_endbr, page_stays_off;
	bool lies;		/* success, and nothing done */
	u64 guest_os_id, page;
	unsigned long calls, fast, lists, ex, spaces, ipis, spins, bad;
};

struct shim_xen_host {
	int error;
	unsigned long stolen;	/* vCPUs that Xen has taken off */
	unsigned long calls, invlpg;
};

extern struct shim_kvm shim_kvm;
extern struct shim_hv shim_hv;
extern struct shim_xen_host shim_xen_host;
DECLARE_PER_CPU(struct kvm_steal_time, steal_time);
extern bool shim_steal_shared;
extern unsigned long shim_idle;		/* CPUs for idle_cpu() */

void shim_host_point(void);
bool shim_host_puts_back(unsigned int cpu);	/* one that is not played: did it flush? */

#endif /* _MACHINE_H */
