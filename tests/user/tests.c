// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of the core and the backends on the machine of shim.c and machine.c. Each runs in a
 * process of its own, from boot on. "ok NAME" or "not ok NAME" for each, and a line at the
 * end, without which the run was none.
 *
 *	tests [WORD]	only those with WORD in their name
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asm/mshyperv.h>

#include "internal.h"
#include "mailbox.h"
#include "machine.h"

#define demand(what) do { if (!(what)) shim_fail(__FILE__, __LINE__, #what); } while (0)
#define demand_is(a, b) do {								\
	long long a_ = (a), b_ = (b);							\
											\
	if (a_ != b_) {									\
		printf("%lld is not %lld\n", a_, b_);					\
		shim_fail(__FILE__, __LINE__, #a " is " #b);				\
	}										\
} while (0)

/* What pvtlb registers with the kernel */
int shim_pvtlb_setup(char *arg);
int shim_pvtlb_init(void);
int shim_setup_fail_alloc(char *arg);
int shim_setup_fail_hypercall(char *arg);
int shim_init_debugfs(void);
void shim_hv_fill(void *page);
extern bool *shim_param_hyperv_fast;
extern int *shim_param_xen_hvm_over;
extern const struct kernel_param_ops *shim_ops_kvm_yield_us, *shim_ops_kvm_halt_us;
extern struct kernel_param shim_param_kvm_yield_us, shim_param_kvm_halt_us;

#define CPUS	7	/* online, of 8: the last one is not */

static void native(void) { }

static void kvm(void)
{
	shim_hypervisor = X86_HYPER_KVM;
	shim_kvm_features = BIT(KVM_FEATURE_STEAL_TIME) | BIT(KVM_FEATURE_PV_UNHALT) |
			    BIT(KVM_FEATURE_PV_TLB_FLUSH) | BIT(KVM_FEATURE_PV_SCHED_YIELD);
	shim_steal_shared = true;
}

static void show_hyperv(void)
{
	unsigned int cpu;

	shim_hv.max_leaf = HYPERV_CPUID_ENLIGHTMENT_INFO;
	shim_hv.interface = 0x31237648;
	shim_hv.features_eax = HV_MSR_HYPERCALL_AVAILABLE | HV_MSR_VP_INDEX_AVAILABLE;
	shim_hv.features_edx = HV_X64_HYPERCALL_XMM_INPUT_AVAILABLE;
	shim_hv.hints = HV_X64_REMOTE_TLB_FLUSH_RECOMMENDED |
			HV_X64_EX_PROCESSOR_MASKS_RECOMMENDED | HV_X64_CLUSTER_IPI_RECOMMENDED;
	for (cpu = 0; cpu < NR_CPUS; cpu++)
		shim_hv.vp[cpu] = 3 * cpu;
}

static void hyperv(void)
{
	show_hyperv();
	shim_hypervisor = X86_HYPER_MS_HYPERV;
	hv_hypercall_pg = shim_vmalloc_exec();
	shim_hv_fill(hv_hypercall_pg);
}

static void hyperv64(void)
{
	hyperv();
	shim_hv.vp[2] = 64;
	shim_hv.vp[3] = 4095;
}

static void both(void)
{
	kvm();
	show_hyperv();
}

static void xen_pv(void)
{
	shim_hypervisor = X86_HYPER_XEN;
	shim_xen = SHIM_XEN_PV;
}

static void xen_hvm(void)
{
	shim_hypervisor = X86_HYPER_XEN;
	shim_xen = SHIM_XEN_HVM;
}

static void boot(void (*on)(void), const char *wanted)
{
	char *arg = strdup(wanted);

	shim_boot_cpus(CPUS, CPUS + 1);
	on();
	demand_is(shim_pvtlb_setup(arg), 0);
	demand_is(shim_pvtlb_init(), 0);
	demand_is(shim_init_debugfs(), 0);
	free(arg);
}

static void demand_shows(const char *name, const char *text)
{
	char buf[4096];

	demand(shim_show("", name, buf) > 0);
	buf[strcspn(buf, "\n")] = '\0';
	if (strcmp(buf, text)) {
		printf("%s is \"%s\", not \"%s\"\n", name, buf, text);
		shim_fail(__FILE__, __LINE__, name);
	}
}

static unsigned long long stat_of(const char *name)
{
	char buf[4096];

	demand(shim_show("stats", name, buf) > 0);
	return strtoull(buf, NULL, 10);
}

/* The choice */
static const struct choice {
	void (*on)(void);
	const char *wanted, *backend, *said;
} choices[] = {
	{ native, "auto", "native", "native: interprocessor interrupts (auto; also available: upstream)" },
	{ native, "off", "off", "off, because the command line says so; the in-tree mechanism runs" },
	{ native, "upstream", "upstream", "upstream: the in-tree mechanism (command line; also available: native)" },
	{ native, "kvm", "native", "kvm is not available here: the hypervisor does not present itself as KVM; taking auto" },
	{ native, "xen", "native", "xen is not available here: this is not a Xen PV guest; taking auto" },
	{ native, "xen-hvm", "native", "xen-hvm is not available here: this is not a Xen PVH or HVM guest" },
	{ native, "hyperv", "native", "hyperv is not available here: the hypervisor is neither" },
	{ native, "banana", "native", "pvtlb=banana is unknown: use off, auto, xen, xen-hvm, kvm, hyperv, native or upstream" },
	{ native, "", "native", "pvtlb= is unknown" },
	{ kvm, "auto", "kvm", "kvm: skip-preempted flush (auto; also available: native, upstream)" },
	{ kvm, "kvm", "kvm", "(command line" },
	{ kvm, "native", "native", "(command line; also available: kvm, upstream)" },
	{ kvm, "off", "off", "the command line says so" },
	{ hyperv, "auto", "hyperv", "hyperv: HvCallFlushVirtualAddress hypercalls (auto" },
	{ hyperv, "kvm", "hyperv", "kvm is not available here" },
	{ both, "auto", "kvm", "(auto; also available: hyperv, native, upstream)" },
	{ both, "hyperv", "hyperv", "(command line; also available: kvm, native, upstream)" },
	{ xen_pv, "auto", "xen", "xen: MMUEXT hypercalls (auto" },
	{ xen_pv, "xen-hvm", "xen", "xen-hvm is not available here" },
	{ xen_hvm, "auto", "xen-hvm", "xen-hvm: HVMOP_flush_tlbs hypercall (auto" },
	{ xen_hvm, "xen", "xen-hvm", "MMUEXT flushes are for PV guests, this one is not" },
};

/* Each in a process of its own: boots leave traces. */
static void each_in_a_process(unsigned int n, void (*body)(unsigned int i))
{
	unsigned int i;
	int status;

	for (i = 0; i < n; i++) {
		fflush(stdout);
		if (!fork()) {
			alarm(20);
			body(i);
			exit(0);
		}
		wait(&status);
		if (status)
			printf("number %u of %u, status %#x\n", i, n, status);
		demand_is(status, 0);
	}
}

static void choose(unsigned int i)
{
	boot(choices[i].on, choices[i].wanted);
	demand_shows("backend", choices[i].backend);
	demand(shim_said(choices[i].said));
}

static void choice_test(void)
{
	each_in_a_process(ARRAY_SIZE(choices), choose);
}

/* Each of these takes something away from a host on which the backend would work. */
static void bare(void) { shim_features[X86_FEATURE_HYPERVISOR] = false; }
static void kvm_no_flush(void) { kvm(); shim_kvm_features &= ~BIT(KVM_FEATURE_PV_TLB_FLUSH); }
static void kvm_no_steal(void) { kvm(); shim_kvm_features &= ~BIT(KVM_FEATURE_STEAL_TIME); }
static void kvm_not_shared(void) { kvm(); shim_steal_shared = false; }
static void kvm_realtime(void) { kvm(); shim_kvm_hints = BIT(KVM_HINTS_REALTIME); }
static void kvm_mwait(void) { kvm(); shim_features[X86_FEATURE_MWAIT] = true; }
static void kvm_1_cpu(void) { kvm(); shim_possible = (struct cpumask) { { 1 } }; }
static void kvm_encrypted(void) { kvm(); shim_encrypted = true; }
static void hv_hidden(void) { hyperv(); shim_hv.max_leaf = HYPERV_CPUID_FEATURES; }
static void hv_not_1(void) { hyperv(); shim_hv.interface = 0; }
static void hv_encrypted(void) { hyperv(); shim_encrypted = true; }
static void hv_no_vp(void) { hyperv(); shim_hv.features_eax = HV_MSR_HYPERCALL_AVAILABLE; }
static void hv_no_page(void) { hyperv(); hv_hypercall_pg = NULL; }
static void hv_no_hint(void) { hyperv(); shim_hv.hints = 0; }
static void hv_no_ex(void) { hyperv64(); shim_hv.hints &= ~HV_X64_EX_PROCESSOR_MASKS_RECOMMENDED; }
static void hv_rejects_ex(void) { hyperv64(); shim_hv.reject_ex = true; }
static void hv_rejects(void) { hyperv(); shim_hv.status = HV_STATUS_ACCESS_DENIED; }
static void hv_rejects_list(void) { hyperv(); shim_hv.reject_list = true; }
static void hv_no_memory(void) { hyperv(); shim_failing = SHIM_FAIL_KZALLOC; }
static void hv_no_hotplug(void) { hyperv(); shim_failing = SHIM_FAIL_CPUHP; }
static void both_taken(void) { both(); shim_hv.guest_os_id = 1; }
static void both_no_memory(void) { both(); shim_failing = SHIM_FAIL_VMALLOC; }
static void both_no_id(void) { both(); shim_hv.bad_msr = HV_X64_MSR_GUEST_OS_ID; }
static void both_no_page(void) { both(); shim_hv.bad_msr = HV_X64_MSR_HYPERCALL; }
static void both_off(void) { both(); shim_hv.page_stays_off = true; }
static void both_ibt(void) { both(); shim_features[X86_FEATURE_IBT] = shim_hv.no_endbr = true; }
static void both_hotplug(void) { both(); shim_failing = SHIM_FAIL_CPUHP; }
static void xen_rejects(void) { xen_pv(); shim_xen_host.error = -EPERM; }
static void xen_no_memory(void) { xen_pv(); shim_failing = SHIM_FAIL_CPUMASK; }
static void hvm_rejects(void) { xen_hvm(); shim_xen_host.error = -ENOSYS; }

static const struct without {
	void (*on)(void);
	const char *name, *automatic;	/* what auto takes instead */
	int err;			/* of the choice by name */
	const char *why;
} withouts[] = {
	{ bare, "native", "off", 0, "no hypervisor: the in-tree code does the same" },
	{ kvm_no_flush, "kvm", "native", -ENODEV, "does not offer KVM_FEATURE_PV_TLB_FLUSH" },
	{ kvm_no_steal, "kvm", "native", -ENODEV, "does not offer KVM_FEATURE_STEAL_TIME" },
	{ kvm_not_shared, "kvm", "native", -ENODEV, "steal time is not shared with the host" },
	{ kvm_realtime, "kvm", "native", 0, "KVM_HINTS_REALTIME" },
	{ kvm_mwait, "kvm", "native", 0, "MWAIT: idle vCPUs do not leave their CPUs" },
	{ kvm_1_cpu, "kvm", "native", 0, "there is one CPU only" },
	{ kvm_encrypted, "kvm", "native", -ENODEV, "the memory is encrypted" },
	{ hv_hidden, "hyperv", "native", -ENODEV, "does not show the interface of Hyper-V" },
	{ hv_not_1, "hyperv", "native", -ENODEV, "does not show the interface of Hyper-V" },
	{ hv_encrypted, "hyperv", "native", -ENODEV, "the memory is encrypted" },
	{ hv_no_vp, "hyperv", "native", -ENODEV, "does not offer the hypercall page and VP indexes" },
	{ hv_no_page, "hyperv", "native", -ENODEV, "could not set Hyper-V's hypercalls up" },
	{ hv_no_hint, "hyperv", "native", 0, "the host does not recommend it" },
	{ hv_no_ex, "hyperv", "native", 0, "there are VP indexes above 63" },
	{ hv_rejects_ex, "hyperv", "native", 0, "there are VP indexes above 63" },
	{ hv_rejects, "hyperv", "native", -ENODEV, "the host rejected a trial flush (-13)" },
	{ hv_rejects_list, "hyperv", "native", -ENODEV, "the host rejected a trial flush (-38)" },
	{ hv_no_memory, "hyperv", "native", -ENODEV, "the host rejected a trial flush (-12)" },
	{ hv_no_hotplug, "hyperv", "native", -ENODEV, "CPU hotplug cannot be followed" },
	{ both_taken, "hyperv", "kvm", -ENODEV, "the guest OS id is taken by somebody else" },
	{ both_no_memory, "hyperv", "kvm", -ENODEV, "no memory for the hypercall page" },
	{ both_no_id, "hyperv", "kvm", -ENODEV, "the guest OS id is taken by somebody else" },
	{ both_no_page, "hyperv", "kvm", -ENODEV, "the host does not enable the hypercall page" },
	{ both_off, "hyperv", "kvm", -ENODEV, "the host does not enable the hypercall page" },
	{ both_ibt, "hyperv", "kvm", -ENODEV, "does not begin with ENDBR" },
	{ both_hotplug, "hyperv", "kvm", -ENODEV, "CPU hotplug cannot be followed" },
	{ xen_rejects, "xen", "native", -ENODEV, "Xen rejected a trial flush (-1)" },
	{ xen_no_memory, "xen", "native", -ENODEV, "Xen rejected a trial flush (-12)" },
	{ hvm_rejects, "xen-hvm", "native", -ENODEV, "Xen rejected a trial flush (-38)" },
};

static void go_without(unsigned int i)
{
	const struct without *w = &withouts[i];
	int written;

	shim_tracing = true;
	boot(w->on, "auto");
	demand_shows("backend", w->automatic);
	written = shim_store("backend", w->name);
	demand_is(written, w->err ?: (int)strlen(w->name));
	demand_shows("backend", w->err ? w->automatic : w->name);
	if (w->err)
		demand(shim_said(w->why));
	/* Nothing is left behind by a probe that failed, and by one that did not. */
	demand_is(shim_hv.guest_os_id, w->on == both_taken);
	demand(!pvtlb_kvm_calls_barred());
}

static void without_test(void)
{
	each_in_a_process(ARRAY_SIZE(withouts), go_without);
}

/* Boot without something of the kernel: the in-tree code serves. */
static void boot_failure(unsigned int i)
{
	static const unsigned int missing[] = { SHIM_FAIL_PERCPU, SHIM_FAIL_PM, SHIM_FAIL_REBOOT,
						SHIM_FAIL_KOBJECT, SHIM_FAIL_SYSFS };
	static const char * const said[] = {
		"off, because its memory could not be allocated",
		"off, because it cannot follow sleep and reboot (-12)",
		"off, because it cannot follow sleep and reboot (-12)",
		"no /sys/kernel/pvtlb (-12): the choice made at boot stays",
		"no /sys/kernel/pvtlb (-12): the choice made at boot stays",
	};
	char buf[4096];

	shim_boot_cpus(CPUS, CPUS + 1);
	kvm();
	shim_failing = missing[i];
	demand_is(shim_pvtlb_init(), i ? -ENOMEM : 0);
	demand(shim_said(said[i]));
	demand(pvtlb_show_backend(buf) > 0);
	demand_is(strcmp(buf, i < 3 ? "off\n" : "kvm\n"), 0);
	if (i == 0) {
		demand_is(pvtlb_sum(PVTLB_STAT_asked), 0);
		demand_is(shim_store("backend", "kvm"), -ENOMEM);
		shim_failing = 0;
		demand_is(shim_store("backend", "kvm"), 3);
	}
}

static void boot_failure_test(void)
{
	each_in_a_process(5, boot_failure);
}

/*
 * Flushes. The page tables are changed and flushed as the kernel does, and then each
 * CPU that uses them reads.
 */
static u64 generation = 1;

static void read_everything(void *unused)
{
	unsigned int space, page;

	for (space = 0; space < SPACES; space++)
		for (page = 0; page < PAGES; page++)
			shim_read(space, page);
}

static void warm(void)
{
	unsigned int cpu, space, page;

	for (space = 0; space < SPACES; space++)
		for (page = 0; page < PAGES; page++)
			shim_map(space, page, generation);
	for_each_online_cpu(cpu)
		shim_as(cpu, read_everything, NULL);
}

struct check {
	enum pvtlb_kind kind;
	unsigned int space, first, pages;	/* pages 0: a full flush */
	struct cpumask cpus;
	unsigned int freed;
	bool trim;
};

/* The callers in arch/x86/mm/tlb.c, with what they do when pvtlb declines */
static void flush(const struct check *c)
{
	unsigned long start = shim_address(c->space, c->first);
	unsigned long end = shim_address(c->space, c->first + c->pages);
	struct flush_tlb_info info = {
		.mm = c->kind == PVTLB_USER ? &shim_mms[c->space] : NULL,
		.start = c->pages ? start : 0,
		.end = c->pages ? end : TLB_FLUSH_ALL,
		.stride_shift = shim_page_shift[c->space],
		.freed_tables = c->freed,
		.trim_cpumask = c->trim,
	};

	info.new_tlb_gen = shim_sum(&info);
	switch (c->kind) {
	case PVTLB_KERNEL:
		if (!pvtlb_flush_kernel_range(info.start, info.end))
			on_each_cpu_mask(cpu_online_mask, c->pages ? do_kernel_range_flush :
					 do_flush_tlb_all, &info, true);
		return;
	case PVTLB_ALL:
		if (!pvtlb_flush_all())
			on_each_cpu_mask(cpu_online_mask, do_flush_tlb_all, NULL, true);
		return;
	default:
		preempt_disable();
		if (!pvtlb_flush_multi(&c->cpus, &info))
			on_each_cpu_mask(&c->cpus, flush_tlb_func, &info, true);
		preempt_enable();
	}
}

static bool has_to_be_fresh(const struct check *c, unsigned int cpu, unsigned int space)
{
	if (c->kind >= PVTLB_KERNEL)
		return c->kind == PVTLB_ALL || !space;
	if (!space || !cpumask_test_cpu(cpu, &c->cpus) ||
	    (per_cpu(cpu_tlbstate_shared.is_lazy, cpu) && !c->freed))
		return false;
	return c->kind == PVTLB_BATCH ? per_cpu(cpu_tlbstate.loaded_mm, cpu) == &shim_mms[space] :
	       space == c->space && per_cpu(cpu_tlbstate.loaded_mm, cpu) == &shim_mms[space];
}

/* How many CPUs hold a translation that the flush was for. */
static unsigned int stale_after(const struct check *c)
{
	unsigned int cpu, space, page, stale = 0;
	u64 old;

	warm();
	old = generation++;
	for (space = 0; space < SPACES; space++)
		for (page = 0; page < PAGES; page++)
			shim_map(space, page, generation);
	flush(c);
	for_each_online_cpu(cpu) {
		bool found = false;

		/* It runs again: KVM puts it back. */
		if (per_cpu(steal_time.preempted, cpu))
			shim_host_puts_back(cpu);
		for (space = 0; space < SPACES; space++)
			for (page = 0; page < PAGES; page++) {
				if (!has_to_be_fresh(c, cpu, space))
					continue;
				if (c->pages && (page < c->first || page >= c->first + c->pages))
					continue;
				shim_cpu = cpu;
				found |= shim_read(space, page) <= old;
				shim_cpu = 0;
			}
		stale += found;
	}
	return stale;
}

static void mask_of(struct cpumask *mask, unsigned long bits)
{
	memset(mask, 0, sizeof(*mask));
	mask->bits[0] = bits;
}

/* CPU 0 flushes; 1 and 2 use the same mm; 3 another; 4 is lazy on it; 5 was taken off. */
static void populate(void)
{
	static const unsigned int spaces[CPUS] = { 1, 1, 1, 2, 1, 1, 2 };
	unsigned int cpu;

	for (cpu = 0; cpu < CPUS; cpu++)
		shim_load_mm(cpu, spaces[cpu], cpu == 4);
	if (shim_hypervisor == X86_HYPER_KVM) {
		per_cpu(steal_time.preempted, 5) = KVM_VCPU_PREEMPTED;
		per_cpu(steal_time.preempted, 6) = KVM_VCPU_PREEMPTED;
	}
}

#define EVERY_CPU	0x7ful

static const unsigned long masks[] = {
	EVERY_CPU, 0xff, 0x02, 0x03, 0x20, 0x21, 0x11, 0x01, 0, 0x7e, 0x80
};

static const unsigned int lengths[] = { 0, 1, 2, 33, 34, 64 };

static void check(struct check *c, unsigned int mask, unsigned int length)
{
	/* Kernel addresses have no mask, and the other two no range. */
	if ((c->kind > PVTLB_BATCH && (mask || c->freed)) ||
	    ((c->kind == PVTLB_BATCH || c->kind == PVTLB_ALL) && length))
		return;
	c->trim = mask & 1;
	c->space = c->kind == PVTLB_USER ? 1 : 0;
	c->pages = lengths[length];
	c->first = c->pages == PAGES ? 0 : length;
	mask_of(&c->cpus, masks[mask]);
	populate();
	if (stale_after(c)) {
		printf("kind %u mask %lx pages %u freed %u\n", c->kind, masks[mask], c->pages, c->freed);
		shim_fail(__FILE__, __LINE__, "nothing is stale");
	}
}

static void check_each_kind(unsigned int shift)
{
	struct check c = {};
	unsigned int mask, length;

	shim_page_shift[1] = shift;
	for (c.kind = 0; c.kind < PVTLB_NR_KINDS; c.kind++)
		for (c.freed = 0; c.freed < 2; c.freed++)
			for (mask = 0; mask < ARRAY_SIZE(masks); mask++)
				for (length = 0; length < ARRAY_SIZE(lengths); length++)
					check(&c, mask, length);
}

static void (*const hosts[])(void) = { native, kvm, hyperv, hyperv64, both, xen_pv, xen_hvm };

static unsigned long long dealt_with(void)
{
	return stat_of("lazy") + stat_of("deferred") + stat_of("ipi");
}

/* Each kind of flush, on each host, by each backend that works there, and by none */
static void flush_under(unsigned int host)
{
	char names[4096], *name, *rest = names;

	boot(hosts[host], "auto");
	demand(shim_show("", "available", names) > 0);
	strcat(names, " off");
	while ((name = strsep(&rest, " \n"))) {
		unsigned long before;

		if (!*name)
			continue;
		demand(shim_store("backend", name) > 0);
		demand_shows("backend", name);
		before = stat_of("flush_user") + stat_of("flush_kernel");
		check_each_kind(12);
		check_each_kind(21);
		demand_is(stat_of("flush_user") + stat_of("flush_kernel") > before,
			  strcmp(name, "off") != 0);
		/* They come last, and do not tell. */
		if (strcmp(name, "upstream") && strcmp(name, "off"))
			demand_is(stat_of("asked"), dealt_with());
		demand_is(stat_of("failures"), 0);
		demand_is(stat_of("fallbacks"), 0);
	}
	if (hosts[host] == kvm)
		demand(shim_kvm.flushed);
	if (hosts[host] == xen_pv)
		demand(shim_xen_host.invlpg);
	if (hosts[host] == hyperv)
		demand(shim_hv.fast && shim_hv.lists && shim_hv.spaces);
	if (hosts[host] == hyperv64)
		demand(shim_hv.ex);
	demand_is(shim_hv.bad, 0);
}

static void flush_test(void)
{
	each_in_a_process(ARRAY_SIZE(hosts), flush_under);
}

/* The test above can fail: nothing is flushed, or the host only says so. */
static void oracle_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };

	boot(both, "kvm");
	populate();
	mask_of(&c.cpus, EVERY_CPU);
	demand_is(stale_after(&c), 0);
	populate();
	shim_kvm.forgets = true;
	demand_is(stale_after(&c), 1);		/* CPU 5, which runs on with its old TLB */
	shim_kvm.forgets = false;
	demand(shim_store("backend", "hyperv") > 0);
	populate();
	shim_hv.lies = true;
	demand_is(stale_after(&c), 3);		/* 1, 2 and 5 */
	shim_hv.lies = false;
	demand_is(stale_after(&c), 0);
	/* A shorter range than was changed */
	c.pages = 2;
	c.cpus.bits[0] &= ~2ul;
	populate();
	warm();
	shim_map(1, 0, ++generation);
	c.pages = 1;
	flush(&c);
	shim_cpu = 1;
	demand(shim_read(1, 0) < generation);
	shim_cpu = 2;
	demand(shim_read(1, 0) == generation);
	shim_cpu = 0;
}

/* What is asked is counted, and each event says it. */
static void trace_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 3 };

	boot(kvm, "auto");
	populate();
	mask_of(&c.cpus, EVERY_CPU);
	shim_tracing = true;
	demand_is(stale_after(&c), 0);
	/* Asked for 6: 3 is on another mm, and so is 6; 4 is lazy; 5 was taken off. */
	demand(shim_said("pvtlb_flush: backend=kvm kind=user pages=3 full=0 asked=6 lazy=3 deferred=1 ipi=2 late=0 sent=2 yields=0 halts=0 hypercalls=0 over=0 result=0 ns="));
	demand_is(stat_of("asked"), 6);
	demand_is(stat_of("lazy"), 3);
	demand_is(stat_of("deferred"), 1);
	demand_is(stat_of("ipi"), 2);
	demand_is(shim_flush_events, 1);
	demand(shim_store("backend", "native") > 0);
	demand(shim_said("pvtlb_backend: action=switched backend=native previous=kvm reason=\"sysfs\""));
	demand_is(stale_after(&c), 0);
	demand(shim_said("backend=native kind=user pages=3 full=0 asked=6 lazy=3 deferred=0 ipi=3"));
	demand_is(shim_store("backend", "xen\n"), -ENODEV);
	demand(shim_said("pvtlb_backend: action=refused backend=xen previous=native reason=\"this is not"));
}

static void hypercall_trace(unsigned int i)
{
	static void (*const on[])(void) = { hyperv, hyperv64, xen_pv, xen_hvm };
	static const char * const said[] = {
		"pvtlb_hypercall: backend=hyperv op=HvCallFlushVirtualAddressList input=fast reps=1 done=1 status=0 (HV_STATUS_SUCCESS) ns=",
		"pvtlb_hypercall: backend=hyperv op=HvCallFlushVirtualAddressListEx input=fast reps=1 done=1 status=0 (HV_STATUS_SUCCESS) ns=",
		"pvtlb_hypercall: backend=xen op=MMUEXT_INVLPG_MULTI input=memory reps=1 done=1 status=0 (success) ns=",
		"pvtlb_hypercall: backend=xen-hvm op=HVMOP_flush_tlbs input=none reps=0 done=0 status=0 (success) ns=",
	};
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };

	boot(on[i], "auto");
	populate();
	mask_of(&c.cpus, EVERY_CPU);
	shim_tracing = true;
	demand_is(stale_after(&c), 0);
	demand(shim_said(said[i]));
	c.kind = PVTLB_KERNEL;
	c.space = 0;
	c.pages = 64;
	demand_is(stale_after(&c), 0);
	demand(shim_said(i ? "kind=kernel pages=0 full=1" : "op=HvCallFlushVirtualAddressSpace input"));
	if (i == 3)
		demand(shim_said("over=3"));
}

static void hypercall_trace_test(void)
{
	each_in_a_process(4, hypercall_trace);
}

/* Contexts in which other CPUs may be stopped: the in-tree code does it. */
static void decline_test(void)
{
	const struct flush_tlb_info info = { .mm = &shim_mms[1], .end = TLB_FLUSH_ALL };
	struct cpumask cpus;

	boot(native, "native");
	populate();
	mask_of(&cpus, EVERY_CPU);
	demand(pvtlb_flush_multi(&cpus, &info));
	demand(pvtlb_flush_all());
	shim_irqs_off = true;
	demand(!pvtlb_flush_multi(&cpus, &info));
	demand(!pvtlb_flush_all());
	demand(!pvtlb_flush_kernel_range(0, 4096));
	shim_irqs_off = false;
	shim_in_interrupt = true;
	demand(!pvtlb_flush_multi(&cpus, &info));
	shim_in_interrupt = false;
	demand(pvtlb_flush_multi(&cpus, &info));
	shim_reboot();
	demand(!pvtlb_flush_multi(&cpus, &info));
	demand(!__pvtlb_flush_multi(&cpus, &info));	/* past the first look at the key */
	/* Not even a choice brings it back. */
	demand(shim_store("backend", "upstream") > 0);
	demand(!pvtlb_flush_multi(&cpus, &info));
}

/* A hypercall fails: that flush is done by interrupts, and after sixteen the backend goes. */
static void demote(unsigned int i)
{
	static void (*const on[])(void) = { hyperv, hyperv64, both, xen_pv, xen_hvm };
	static const char * const from[] = { "hyperv", "hyperv", "hyperv", "xen", "xen-hvm" };
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };
	char fail[] = "1,100,0,-1", stop[] = "1,0,0,0", said[128];
	const char *to = on[i] == both ? "kvm" : "native";
	unsigned int n;

	boot(on[i], from[i]);
	populate();
	mask_of(&c.cpus, EVERY_CPU);
	demand_is(shim_setup_fail_hypercall(fail), 1);
	for (n = 0; n < 16; n++) {
		demand_is(stale_after(&c), 0);
		demand_is(stat_of("fallbacks"), n + 1);
		demand_is(stat_of("failures"), n + 1);
		if (n < 15) {
			demand(shim_run_work());
			demand_shows("backend", from[i]);
			populate();
		}
	}
	demand(shim_run_work());
	snprintf(said, sizeof(said), "%s kept failing: left for %s; write %s to",
		 from[i], to, from[i]);
	demand(shim_said(said));
	demand(shim_said("a flush failed (-22) and was done by interrupts"));
	demand_shows("backend", to);
	demand_is(stat_of("demotions"), 1);
	/* It stays out of auto until it is asked for. */
	demand_is(shim_setup_fail_hypercall(stop), 1);
	demand(shim_store("backend", "auto") > 0);
	demand_shows("backend", to);
	demand(shim_store("backend", from[i]) > 0);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("demotions"), 1);
	/* One that works in between takes out what one that fails puts in. */
	for (n = 0; n < 200; n++) {
		demand_is(shim_setup_fail_hypercall(n % 8 ? stop : fail), 1);
		stale_after(&c);
		shim_run_work();
	}
	demand_shows("backend", from[i]);
}

static void demote_test(void)
{
	each_in_a_process(5, demote);
}

/* Demoted when nothing else is advised: to native all the same. */
static void demote_to_native_test(void)
{
	struct check c = { .kind = PVTLB_ALL };
	char fail[] = "1,100,0,-1";
	unsigned int n;

	boot(xen_hvm, "auto");
	shim_features[X86_FEATURE_HYPERVISOR] = false;
	demand(shim_store("backend", "xen-hvm") > 0);
	demand(shim_store("backend", "native") > 0);	/* probed: not advised any more */
	demand(shim_store("backend", "xen-hvm") > 0);
	demand_is(shim_setup_fail_hypercall(fail), 1);
	for (n = 0; n < 16; n++)
		demand_is(stale_after(&c), 0);
	demand(shim_run_work());
	demand_shows("backend", "native");
	/* Work that comes late, when there is nothing to leave */
	pvtlb_backend_failed(-EIO);
	demand(shim_store("backend", "off") > 0);
	demand(shim_run_work());
	demand_shows("backend", "off");
}

/* Every status of the TLFS is an error of the flush, and none is taken for success. */
static void status_test(void)
{
	static const u16 statuses[] = {
		2, 3, 4, 5, 6, 7, 8, 0xb, 0xd, 0xe, 0x13, 0x15, 0x78, 0x7777
	};
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };
	unsigned int i;

	shim_tracing = true;
	boot(hyperv, "hyperv");
	mask_of(&c.cpus, EVERY_CPU);
	for (i = 0; i < ARRAY_SIZE(statuses); i++) {
		populate();
		shim_hv.status = statuses[i];
		demand_is(stale_after(&c), 0);
		demand_is(stat_of("fallbacks"), i + 1);
	}
	/* Success, but it does not get on: 16 of them would be too many. */
	shim_hv.status = 0;
	shim_hv.stuck = true;
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("fallbacks"), i + 1);
	demand(shim_said("status=30583 (unknown)"));
	demand(shim_said("status=120 (HV_STATUS_TIME_OUT)"));
}

/* The forms: as the host takes them, as the parameter says, and worked off bit by bit. */
static void forms_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 5 };

	boot(hyperv, "hyperv");
	mask_of(&c.cpus, EVERY_CPU);
	populate();
	shim_page_shift[1] = 21;		/* an entry each: registers hold 14 words */
	for (c.pages = 1; c.pages <= 13; c.pages++) {
		shim_hv.calls = 0;
		shim_hv.fast = 0;
		demand_is(stale_after(&c), 0);
		demand_is(shim_hv.calls, 1);
		demand_is(shim_hv.fast, 3 + c.pages <= 14);
	}
	c.pages = 5;
	shim_hv.calls = 0;
	shim_hv.fast = 0;
	demand_is(stale_after(&c), 0);
	demand_is(shim_hv.calls, 1);
	demand_is(shim_hv.fast, 1);
	shim_hv.reps = 2;			/* 2, 2 and 1 */
	demand_is(stale_after(&c), 0);
	demand_is(shim_hv.calls, 4);
	demand_is(stat_of("fallbacks"), 0);
	c.pages = 60;				/* too many for registers: from memory */
	demand_is(stale_after(&c), 0);
	demand_is(shim_hv.calls, 4 + 30);
	demand_is(shim_hv.fast, 4);
	shim_hv.reps = 0;
	*shim_param_hyperv_fast = false;
	c.pages = 1;
	demand_is(stale_after(&c), 0);
	demand_is(shim_hv.fast, 4);
	*shim_param_hyperv_fast = true;
	/* The user's page tables are at another address. */
	shim_features[X86_FEATURE_PTI] = true;
	demand_is(stale_after(&c), 0);
	/* Hosts without one of the ways */
	shim_hv.reject_fast = true;
	demand(shim_store("backend", "hyperv") > 0);
	demand_is(stale_after(&c), 0);
	demand_is(shim_hv.fast, 5);
	shim_hv.reject_fast = false;
	shim_hv.reject_slow = true;
	demand(shim_store("backend", "hyperv") > 0);
	demand_is(stale_after(&c), 0);
	c.pages = 60;				/* by address space: too many for registers */
	shim_hv.lists = 0;
	demand_is(stale_after(&c), 0);
	demand_is(shim_hv.lists, 0);
	demand_is(stat_of("fallbacks"), 0);
	demand(shim_store("backend", "native") > 0);
	shim_hv.features_edx = 0;
	demand_is(shim_store("backend", "hyperv"), -ENODEV);
	demand(shim_said("the host rejected a trial flush (-22)"));
}

/* VP indexes: above 63 by Ex calls, unknown while a CPU comes up, and moved by the host. */
static void vp_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };
	unsigned long long fallbacks = 0;

	boot(hyperv64, "hyperv");
	mask_of(&c.cpus, EVERY_CPU);
	populate();
	shim_hv.ex = 0;
	demand_is(stale_after(&c), 0);
	demand_is(shim_hv.ex, 1);
	shim_cpu_down(2);
	demand_is(stale_after(&c), 0);
	shim_cpu_up(2);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("fallbacks"), 0);
	/* It comes up without memory, and makes no hypercall; without its index, it gets none. */
	shim_cpu_down(0);
	shim_failing = SHIM_FAIL_KZALLOC;
	shim_cpu_up(0);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("fallbacks"), ++fallbacks);
	shim_failing = 0;
	shim_cpu_down(0);
	shim_cpu_up(0);
	shim_cpu_down(1);
	shim_hv.bad_msr = HV_X64_MSR_VP_INDEX;
	shim_cpu_up(1);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("fallbacks"), ++fallbacks);
	demand_is(stat_of("demotions"), 0);
	demand(!shim_run_work());		/* not expressible is no failure */
	shim_hv.bad_msr = 0;
	shim_cpu_down(1);
	shim_cpu_up(1);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("fallbacks"), fallbacks);
	/* The host gives a vCPU another index: what it then rejects is done by interrupts. */
	shim_hv.vp[2] = 70;
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("fallbacks"), ++fallbacks);
}

/* Lazy CPUs that a hypervisor flushes are told to leave when the mask is to be trimmed. */
static void trim_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1, .freed = true };

	boot(xen_pv, "auto");
	mask_of(&c.cpus, EVERY_CPU);
	populate();
	demand_is(stale_after(&c), 0);
	demand_is(shim_trimmed, 0);
	c.trim = true;
	demand_is(stale_after(&c), 0);
	demand_is(shim_trimmed, 1);
	demand_is(stat_of("trimmed"), 1);
	demand_is(stale_after(&c), 0);
	demand_is(shim_trimmed, 1);
}

/* In a PV guest, stores to page tables are queued: they are made before the flush. */
static void lazy_mmu_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };

	boot(xen_pv, "auto");
	mask_of(&c.cpus, EVERY_CPU);
	populate();
	warm();
	shim_lazy_mmu(true);
	shim_map(1, 0, ++generation);
	flush(&c);
	shim_cpu = 1;
	demand_is(shim_read(1, 0), generation);
	shim_cpu = 0;
}

/* The hypercall for everybody, or the mailbox for the few among many */
static void xen_hvm_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };

	boot(xen_hvm, "auto");
	populate();
	mask_of(&c.cpus, 0x3);
	demand_is(*shim_param_xen_hvm_over, 4);
	shim_xen_host.calls = 0;
	demand_is(stale_after(&c), 0);		/* 1 target, 5 others: interrupted */
	demand_is(shim_xen_host.calls, 0);
	demand_is(stat_of("ipi"), 1);
	shim_xen_host.stolen = BIT(1);
	demand_is(stale_after(&c), 0);
	demand_is(shim_xen_host.calls, 1);
	shim_xen_host.stolen = 0;
	shim_idle = BIT(1);
	demand_is(stale_after(&c), 0);
	demand_is(shim_xen_host.calls, 2);
	shim_idle = 0;
	*shim_param_xen_hvm_over = -1;
	demand_is(stale_after(&c), 0);
	demand_is(shim_xen_host.calls, 3);
	demand_is(stat_of("over"), 15);
}

/* KVM: what is left to the host, and what may not be */
static void kvm_test(void)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };

	boot(kvm, "auto");
	populate();
	mask_of(&c.cpus, 0x21);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("deferred"), 1);
	/* It may be in a guest of its own: interrupted, whatever the host says. */
	populate();
	per_cpu(cpu_tlbstate.cr4, 5) = X86_CR4_VMXE;
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("deferred"), 1);
	demand_is(stat_of("ipi"), 1);
	per_cpu(cpu_tlbstate.cr4, 5) = 0;
	/* Running, and marked with anything but the host's own bit: interrupted */
	per_cpu(steal_time.preempted, 5) = KVM_VCPU_FLUSH_TLB;
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("ipi"), 2);
	/* Parameters */
	demand_is(shim_ops_kvm_halt_us->set("5\n", &shim_param_kvm_halt_us), 0);
	demand_is(*(int *)shim_param_kvm_halt_us.arg, 5);
	demand_is(shim_ops_kvm_yield_us->set("-1", &shim_param_kvm_yield_us), 0);
	demand_is(shim_ops_kvm_yield_us->set("x", &shim_param_kvm_yield_us), -EINVAL);
}

/* The bits that steal time needs vanish: what is deferred was promised before. */
static void sleep_test(void)
{
	boot(both, "hyperv");
	demand(shim_hv.guest_os_id);
	shim_pm(PM_SUSPEND_PREPARE);
	demand_shows("backend", "off");
	demand_shows("reason", "the system goes to sleep");
	demand_is(shim_hv.guest_os_id, 0);
	demand_is(shim_store("backend", "native"), -EBUSY);
	shim_pm(PM_HIBERNATION_PREPARE);
	shim_pm(PM_POST_HIBERNATION);
	demand_shows("backend", "off");
	shim_pm(PM_POST_SUSPEND);
	demand_shows("backend", "hyperv");
	demand_shows("reason", "back after sleep");
	shim_pm(PM_RESTORE_PREPARE);
	shim_hv.max_leaf = 0;			/* another host */
	shim_pm(PM_POST_RESTORE);
	demand_shows("backend", "kvm");
	demand_shows("reason", "auto, after sleep");
	demand(shim_store("backend", "off") > 0);
	shim_pm(PM_SUSPEND_PREPARE);
	shim_pm(PM_POST_SUSPEND);
	demand_shows("backend", "off");
}

static void cannot_enter(unsigned int i)
{
	if (i == 0) {				/* at run time: the old one goes on */
		boot(both, "native");
		shim_hv.refuse_id = 2;		/* the probe gets one */
		demand_is(shim_store("backend", "hyperv"), -ENODEV);
		demand_shows("backend", "native");
		demand_shows("reason", "command line");
	} else if (i == 1) {			/* at boot */
		shim_hv.refuse_id = 2;
		shim_tracing = true;
		boot(both, "hyperv");
		demand_shows("backend", "kvm");
	} else if (i == 2) {			/* after sleep */
		boot(both, "hyperv");
		shim_pm(PM_SUSPEND_PREPARE);
		shim_hv.refuse_id = 2;
		shim_pm(PM_POST_SUSPEND);
		demand_shows("backend", "kvm");
		demand_shows("reason", "auto, after sleep");
	} else {				/* the old one is the same: none is left */
		boot(both, "hyperv");
		shim_hv.bad_msr = HV_X64_MSR_GUEST_OS_ID;
		demand_is(shim_store("backend", "hyperv"), -ENODEV);
		demand_shows("backend", "off");
		demand_shows("reason", "it could not be entered");
		shim_hv.bad_msr = 0;
		shim_hv.guest_os_id = 0;
		demand(shim_store("backend", "hyperv") > 0);
		demand_shows("backend", "hyperv");
	}
	demand(i == 3 || shim_said("hyperv cannot be entered (-19)"));
}

/* A backend that probes well, and then cannot be entered; and what else can be written */
static void enter_test(void)
{
	each_in_a_process(4, cannot_enter);
	boot(both, "kvm");
	shim_pm(PM_SUSPEND_PREPARE);
	shim_pm(PM_POST_SUSPEND);
	demand_shows("backend", "kvm");
	demand_is(shim_store("backend", "banana"), -EINVAL);
	demand_is(shim_store("backend", ""), -EINVAL);
	demand_is(shim_store("backend", "off\n"), 4);
	demand_is(shim_store("backend", "auto\n"), 5);
	demand_shows("backend", "kvm");
	demand_shows("available", "kvm hyperv native upstream");
}

/* In place of KVM's hypercalls, while they would be taken for Hyper-V's */
static void no_kvm_calls_test(void)
{
	struct cpumask cpus;
	unsigned long ipis;

	boot(both, "kvm");
	mask_of(&cpus, 0x6);
	demand(!pvtlb_kvm_calls_barred());
	demand(!pvtlb_kvm_send_ipi(&cpus, 0x20));
	demand(!pvtlb_kvm_kick(1));
	demand(!pvtlb_kvm_wait_irqs_off());
	demand(!__pvtlb_kvm_send_ipi(&cpus, 0x20));	/* past the key */
	demand(!__pvtlb_kvm_kick(1));
	demand(shim_store("backend", "hyperv") > 0);
	demand(pvtlb_kvm_calls_barred());
	demand(pvtlb_kvm_send_ipi(&cpus, 0x20));
	demand_is(shim_hv.ipis, 1);
	demand(pvtlb_kvm_send_ipi(&cpus, NMI_VECTOR));	/* no vector for the hypercall */
	demand_is(shim_hv.ipis, 1);
	ipis = shim_ipis;
	demand(pvtlb_kvm_kick(1));
	demand_is(shim_ipis, ipis + 1);
	demand(pvtlb_kvm_wait_irqs_off());
	demand_is(shim_hv.spins, 1);
	shim_cpu_down(2);				/* its index is not known */
	__cpumask_set_cpu(2, &shim_online);
	demand(pvtlb_kvm_send_ipi(&cpus, 0x20));
	demand_is(shim_hv.ipis, 1);
	pvtlb_kvm_crash();
	demand_is(shim_hv.guest_os_id, 0);
	demand(pvtlb_kvm_calls_barred());
	demand(pvtlb_kvm_send_ipi(&cpus, 0x20));
	demand_is(shim_hv.ipis, 1);
	pvtlb_kvm_crash();
}

static void reboot_test(void)
{
	boot(both, "hyperv");
	demand(shim_hv.guest_os_id);
	shim_reboot();
	demand_is(shim_hv.guest_os_id, 0);
	demand(!pvtlb_flush_all());
}

/* Without mailboxes: no memory, no hotplug callback, somebody else's vector */
static void no_mailbox(unsigned int i)
{
	struct check c = { .kind = PVTLB_USER, .space = 1, .pages = 1 };
	static const unsigned int missing[] = { 0, SHIM_FAIL_CPUHP, 0 };
	char once[] = "1,100,0,1";

	if (i == 2)
		x86_platform_ipi_callback = native;
	shim_boot_cpus(CPUS, CPUS + 1);
	kvm();
	demand_is(pvtlb_init_cpus(), 0);
	if (!i)
		demand_is(shim_setup_fail_alloc(once), 1);
	shim_failing = missing[i];
	demand_is(shim_pvtlb_init(), 0);
	if (i < 2)
		demand(shim_said(i ? "no mailboxes (-28)" : "no mailboxes (-12)"));
	demand_shows("backend", "kvm");
	populate();
	mask_of(&c.cpus, EVERY_CPU);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("deferred"), 1);
	demand_is(stat_of("ipi"), 2);
	demand_is(shim_calls, 2);
	check_each_kind(12);
}

static void no_mailbox_test(void)
{
	each_in_a_process(3, no_mailbox);
}

/* An interrupt that was under way to a CPU that went is lost, and nobody relies on it. */
static void hotplug_test(void)
{
	struct check c = { .kind = PVTLB_KERNEL, .pages = 1 };

	boot(native, "native");
	populate();
	demand_is(stale_after(&c), 0);
	shim_cpu_down(3);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("asked"), 2 * CPUS - 3);
	shim_cpu_up(3);
	demand_is(stale_after(&c), 0);
	demand_is(stat_of("asked"), 3 * CPUS - 4);
	shim_cpu_up(7);
	demand_is(stale_after(&c), 0);
}

/*
 * Threads: CPUs that flush each other. A page's number rises with each exchange, and is
 * published after its flush: whoever has read what was published may not read less. And when
 * the flush returns, no CPU that runs may hold less, whether it reads it or not.
 */
#define PLAYED	4

static u64 published[SPACES][PAGES];
static unsigned long stale_reads, exchanges;
static bool no_flush;
static const char *switch_to[2];
static u64 deadline;

/* Rounds are what is wanted, seconds what a busy machine gets. */
static bool time_left(void)
{
	return local_clock() < deadline;
}

static void look(void)
{
	unsigned int space = shim_random(2), page = shim_random(PLAYED);
	u64 expected = smp_load_acquire(&published[space][page]);	/* pairs with exchange() */

	if (shim_read(space, page) < expected)
		__atomic_fetch_add(&stale_reads, 1, __ATOMIC_RELAXED);
	shim_point();
}

static void exchange(u64 n)
{
	static const enum pvtlb_kind kinds[] = {
		PVTLB_USER, PVTLB_USER, PVTLB_KERNEL, PVTLB_BATCH, PVTLB_ALL
	};
	struct check c = {
		.kind = kinds[shim_random(ARRAY_SIZE(kinds))], .first = shim_cpu, .pages = 1,
		.freed = shim_random(2)
	};
	unsigned int cpu;

	c.space = c.kind == PVTLB_USER || c.kind == PVTLB_BATCH;
	if (c.kind == PVTLB_BATCH)
		c.pages = 0;
	mask_of(&c.cpus, (1 << PLAYED) - 1);
	shim_map(c.space, shim_cpu, n);
	if (!no_flush)
		flush(&c);
	for (cpu = 0; cpu < PLAYED; cpu++)
		if (shim_stale(cpu, c.space, shim_cpu, n))
			__atomic_fetch_add(&stale_reads, 1, __ATOMIC_RELAXED);
	smp_store_release(&published[c.space][shim_cpu], n);	/* pairs with look() */
	__atomic_fetch_add(&exchanges, 1, __ATOMIC_RELAXED);
}

static void *work_as_cpu(void *arg)
{
	unsigned long rounds = (unsigned long)arg, n;

	for (n = 2; n < rounds && time_left(); n++) {
		if (shim_random(3))
			look();
		else
			exchange(n);
	}
	return NULL;
}

/* The last CPU changes the backend meanwhile. */
static void *switch_as_cpu(void *arg)
{
	unsigned long n;

	for (n = 0; n < 40 && time_left(); n++) {
		demand(shim_store("backend", switch_to[n % 2]) > 0);
		for (int i = 0; i < 20; i++)
			look();
	}
	return NULL;
}

static void play(unsigned long rounds)
{
	unsigned int cpu, page;

	for (page = 0; page < PAGES; page++) {
		shim_map(0, page, 1);
		shim_map(1, page, 1);
	}
	for (cpu = 0; cpu < PLAYED; cpu++)
		shim_load_mm(cpu, 1, false);
	shim_cpu = CPUS;		/* no CPU that takes part */
	deadline = local_clock() + 4000000000ull;
	for (cpu = 0; cpu < PLAYED; cpu++)
		shim_play(cpu, cpu == PLAYED - 1 && switch_to[0] ? switch_as_cpu : work_as_cpu,
			  (void *)rounds);
	shim_join();
	shim_cpu = 0;
	demand(exchanges > 20);
}

static void boot_threads(void (*on)(void), const char *wanted)
{
	boot(on, wanted);
	/* The others would be flushed in their absence: they are not there. */
	for (unsigned int cpu = PLAYED; cpu < CPUS; cpu++)
		shim_cpu_down(cpu);
}

static void threads_native_test(void)
{
	boot_threads(native, "native");
	play(6000);
	demand_is(stale_reads, 0);
	demand(stat_of("ipi") > 20);
	demand(stat_of("sent") <= stat_of("ipi"));
	demand_is(stat_of("asked"), dealt_with());
}

static void threads_kvm_test(void)
{
	boot_threads(kvm, "kvm");
	shim_kvm.often = 60;
	play(6000);
	demand_is(stale_reads, 0);
	demand(stat_of("deferred") > 0 && stat_of("late") > 0 && stat_of("ipi") > 0);
	demand(shim_kvm.flushed > 0 && shim_kvm.flushed <= stat_of("deferred"));
	demand_is(stat_of("asked"), dealt_with());
}

/* Waiters that ask the host for their target and halt until it wakes them */
static void threads_halt_test(void)
{
	boot_threads(kvm, "kvm");
	demand_is(shim_ops_kvm_halt_us->set("0", &shim_param_kvm_halt_us), 0);
	demand_is(shim_ops_kvm_yield_us->set("0", &shim_param_kvm_yield_us), 0);
	shim_kvm.often = 200;
	play(3000);
	demand_is(stale_reads, 0);
	demand(stat_of("halts") > 0 && shim_kvm.kicks > 0);
	demand(stat_of("yields") == shim_kvm.yields);
}

static void threads_switch(unsigned int i)
{
	static const char * const pairs[][2] = {
		{ "kvm", "native" }, { "kvm", "upstream" }, { "kvm", "off" }, { "native", "off" }
	};

	boot_threads(kvm, "kvm");
	switch_to[0] = pairs[i][0];
	switch_to[1] = pairs[i][1];
	shim_kvm.often = 100;
	play(3000);
	demand_is(stale_reads, 0);
}

static void threads_switch_test(void)
{
	each_in_a_process(4, threads_switch);
}

static void threads_hypercall(unsigned int i)
{
	static void (*const on[])(void) = { hyperv, hyperv64, both, xen_pv, xen_hvm };
	static const char * const name[] = { "hyperv", "hyperv", "hyperv", "xen", "xen-hvm" };
	char sometimes[] = "1,100,0,30";

	boot_threads(on[i], name[i]);
	demand_is(shim_setup_fail_hypercall(sometimes), 1);
	play(3000);
	demand_is(stale_reads, 0);
	demand(stat_of("deferred") > 20);
	demand_is(stat_of("asked"), dealt_with());
}

static void threads_hypercall_test(void)
{
	each_in_a_process(5, threads_hypercall);
}

/* Those above can fail: without flushes, and when the host forgets what it was told. */
static void threads_oracle(unsigned int i)
{
	boot_threads(kvm, "kvm");
	if (i)
		shim_kvm.forgets = true;
	else
		no_flush = true;
	shim_kvm.often = 20;
	play(6000);
	demand(stale_reads > 0);
}

static void threads_oracle_test(void)
{
	each_in_a_process(2, threads_oracle);
}

static const struct test {
	const char *name;
	void (*body)(void);
} tests[] = {
#define TEST(name) { #name, name##_test }
	TEST(choice), TEST(without), TEST(boot_failure), TEST(flush), TEST(oracle), TEST(trace),
	TEST(hypercall_trace), TEST(decline), TEST(demote), TEST(demote_to_native), TEST(status),
	TEST(forms), TEST(vp), TEST(trim), TEST(lazy_mmu), TEST(xen_hvm), TEST(kvm), TEST(sleep),
	TEST(enter), TEST(no_kvm_calls), TEST(reboot), TEST(no_mailbox), TEST(hotplug),
	TEST(threads_native), TEST(threads_kvm), TEST(threads_halt), TEST(threads_switch),
	TEST(threads_hypercall), TEST(threads_oracle),
};

int main(int argc, char **argv)
{
	unsigned int i;
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		if (argc > 1 && !strstr(tests[i].name, argv[1]))
			continue;
		fflush(stdout);
		if (!fork()) {
			alarm(60);
			tests[i].body();
			exit(0);
		}
		wait(&status);
		if (status)
			printf("not ok %s\n", tests[i].name);
		else
			printf("ok %s\n", tests[i].name);
	}
	printf("all tests ran\n");
	return 0;
}
