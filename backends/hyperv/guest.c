// SPDX-License-Identifier: GPL-2.0-only
/*
 * To be a guest of Hyper-V: a reported guest OS id, the hypercall page, and the
 * VP index of each CPU.
 *
 * On Hyper-V, Linux has done the first two. A guest that KVM shows Hyper-V's interface
 * beside its own is one of KVM for Linux; there it is done here, and undone:
 *
 *	backend left, sleep		pvtlb_hv_stop()
 *	reboot, kexec			a reboot notifier
 *	crash kernel			pvtlb_kvm_crash(), out of kvm_crash_shutdown()
 *
 * The last two are needed because the next kernel makes hypercalls of KVM, which
 * are none while a guest OS id is reported; see no-kvm-calls.c.
 */
#include <linux/cc_platform.h>
#include <linux/cpuhotplug.h>
#include <linux/mm.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/ibt.h>
#include <asm/mshyperv.h>
#include <asm/processor.h>

#include "internal.h"
#include "private.h"

void *pvtlb_hv_page;
u32 pvtlb_hv_features, pvtlb_hv_hints;
DEFINE_PER_CPU(u32, pvtlb_hv_vp) = PVTLB_HV_NO_VP;
DEFINE_PER_CPU(struct pvtlb_hv_cpu *, pvtlb_hv_cpu);

static unsigned int users;
static int hotplug_state;

/* The guest OS id is reported by this file, and what KVM writes instructions to then. */
static bool reported;
static void *own_page;

/* "Hv#1": TLFS, "Hypervisor Discovery" */
#define HV_INTERFACE	0x31237648

static bool is_shown(void)
{
	return cpuid_eax(HYPERV_CPUID_VENDOR_AND_MAX_FUNCTIONS) >= HYPERV_CPUID_ENLIGHTMENT_INFO &&
	       cpuid_eax(HYPERV_CPUID_INTERFACE) == HV_INTERFACE;
}

static const char *check_host(void)
{
	u32 needed = HV_MSR_HYPERCALL_AVAILABLE | HV_MSR_VP_INDEX_AVAILABLE;

	if (!hypervisor_is_type(X86_HYPER_MS_HYPERV) && !hypervisor_is_type(X86_HYPER_KVM))
		return "the hypervisor is neither Hyper-V nor KVM with its interface";
	if (!is_shown())
		return "the hypervisor does not show the interface of Hyper-V";
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return "the memory is encrypted: the host is not trusted with flushes";
	if ((cpuid_eax(HYPERV_CPUID_FEATURES) & needed) != needed)
		return "the host does not offer the hypercall page and VP indexes";
	return NULL;
}

static void take_back(void)
{
	pvtlb_use_hv_calls(false);
	wrmsrl_safe(HV_X64_MSR_HYPERCALL, 0);
	wrmsrl_safe(HV_X64_MSR_GUEST_OS_ID, 0);
	reported = false;
}

/*
 * After the core's, which takes flushes away. A call that is under way fails, see
 * invoke(), and the flush is done by interrupts. KVM's calls stay barred.
 */
static int reboot_notify(struct notifier_block *nb, unsigned long event, void *unused)
{
	take_back();
	return NOTIFY_OK;
}

static struct notifier_block reboot_nb = { .notifier_call = reboot_notify };

/* The other CPUs are stopped. */
void pvtlb_kvm_crash(void)
{
	if (reported)
		take_back();
}

/* Never freed: at shutdown, somebody may be on the way into it. */
static int allocate_own_page(void)
{
	if (!own_page)
		own_page = __vmalloc_node_range(PAGE_SIZE, 1, VMALLOC_START, VMALLOC_END,
						GFP_KERNEL | __GFP_ZERO, PAGE_KERNEL_ROX,
						VM_FLUSH_RESET_PERMS, NUMA_NO_NODE,
						__builtin_return_address(0));
	return own_page ? 0 : -ENOMEM;
}

/* KVM writes its instruction and a return to the page (kvm_hv_set_msr_pw()). */
static const char *enable_page(void)
{
	u64 page = vmalloc_to_pfn(own_page) << HV_X64_MSR_HYPERCALL_PAGE_ADDRESS_SHIFT, now;

	if (wrmsrl_safe(HV_X64_MSR_GUEST_OS_ID, hv_generate_guest_id(LINUX_VERSION_CODE)))
		return "the host does not take a guest OS id";
	reported = true;
	if (wrmsrl_safe(HV_X64_MSR_HYPERCALL, page | HV_X64_MSR_HYPERCALL_ENABLE) ||
	    rdmsrl_safe(HV_X64_MSR_HYPERCALL, &now) || !(now & HV_X64_MSR_HYPERCALL_ENABLE))
		return "the host does not enable the hypercall page";
	if (cpu_feature_enabled(X86_FEATURE_IBT) && !is_endbr(*(u32 *)own_page))
		return "IBT is on, and the host's hypercall page does not begin with ENDBR";
	return NULL;
}

static const char *report(void)
{
	const char *why_not;
	u64 id;

	if (rdmsrl_safe(HV_X64_MSR_GUEST_OS_ID, &id) || id)
		return "the guest OS id is taken by somebody else";
	if (allocate_own_page())
		return "no memory for the hypercall page";
	pvtlb_bar_kvm_calls();
	why_not = enable_page();
	if (why_not) {
		take_back();
		pvtlb_allow_kvm_calls();
		return why_not;
	}
	pvtlb_hv_page = own_page;
	register_reboot_notifier(&reboot_nb);
	return NULL;
}

static void unreport(void)
{
	if (!reported)
		return;
	unregister_reboot_notifier(&reboot_nb);
	pvtlb_use_hv_calls(false);
	synchronize_rcu();
	take_back();
	pvtlb_allow_kvm_calls();
}

/* Without its memory a CPU interrupts those that it flushes; see hyperv_flush(). */
static int cpu_comes(unsigned int cpu)
{
	struct pvtlb_hv_cpu *hv = kzalloc_node(sizeof(*hv), GFP_KERNEL, cpu_to_node(cpu));
	u64 vp;

	BUILD_BUG_ON_NOT_POWER_OF_2(sizeof(*hv));
	BUILD_BUG_ON(sizeof(*hv) > PAGE_SIZE);

	this_cpu_write(pvtlb_hv_cpu, hv);
	if (!rdmsrl_safe(HV_X64_MSR_VP_INDEX, &vp))
		this_cpu_write(pvtlb_hv_vp, vp);
	return 0;
}

static int cpu_goes(unsigned int cpu)
{
	struct pvtlb_hv_cpu *hv = this_cpu_read(pvtlb_hv_cpu);

	this_cpu_write(pvtlb_hv_vp, PVTLB_HV_NO_VP);
	this_cpu_write(pvtlb_hv_cpu, NULL);
	kfree(hv);
	return 0;
}

static const char *start(void)
{
	const char *why_not = check_host();

	if (why_not)
		return why_not;
	pvtlb_hv_features = cpuid_edx(HYPERV_CPUID_FEATURES);
	pvtlb_hv_hints = cpuid_eax(HYPERV_CPUID_ENLIGHTMENT_INFO);
	if (hypervisor_is_type(X86_HYPER_MS_HYPERV)) {
		if (!hv_is_hyperv_initialized() || !hv_hypercall_pg)
			return "the kernel could not set Hyper-V's hypercalls up";
		pvtlb_hv_page = hv_hypercall_pg;
	} else {
		why_not = report();
		if (why_not)
			return why_not;
	}
	hotplug_state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "virt/pvtlb/hyperv:online",
					  cpu_comes, cpu_goes);
	if (hotplug_state < 0) {
		unreport();
		return "CPU hotplug cannot be followed";
	}
	if (reported)
		pvtlb_use_hv_calls(true);
	return NULL;
}

/**
 * pvtlb_hv_start() - be a guest of Hyper-V
 * @why_not: one line, when that is not possible
 *
 * May be nested.
 *
 * Context: process context, may sleep; the caller serialises.
 * Return: 0 or -ENODEV.
 */
int pvtlb_hv_start(const char **why_not)
{
	if (!users) {
		*why_not = start();
		if (*why_not)
			return -ENODEV;
	}
	users++;
	return 0;
}

/**
 * pvtlb_hv_stop() - be what the guest was before
 *
 * Context: process context, may sleep; the caller serialises. No flush is made.
 */
void pvtlb_hv_stop(void)
{
	if (--users)
		return;
	cpuhp_remove_state(hotplug_state);
	unreport();
}
