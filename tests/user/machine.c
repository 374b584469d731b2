// SPDX-License-Identifier: GPL-2.0-only
/*
 * The machine below the kernel of shim.c: page tables, a TLB a CPU that keeps what it has
 * once read, what of arch/x86/mm/tlb.c pvtlb calls, and three hypervisors. Written from
 * their specifications (private.h of each backend, TLFS), not from the backends.
 */
#include <asm/hyperv-tlfs.h>

#include <linux/pvtlb.h>

#include "machine.h"

#define count(what, n)	__atomic_fetch_add(&(what), n, __ATOMIC_RELAXED)

struct mm_struct shim_mms[SPACES];
unsigned int shim_page_shift[SPACES] = { 12, 12, 12, 12 };
static u64 tables[SPACES][PAGES];

DEFINE_PER_CPU(struct tlb_state, cpu_tlbstate);
DEFINE_PER_CPU(struct tlb_state_shared, cpu_tlbstate_shared);
unsigned long tlb_single_page_flush_ceiling = 33;

/*
 * Whoever reads holds the lock from the walk to the end, as an instruction does not get
 * flushed in its middle.
 */
static struct tlb {
	bool lock;
	u64 entry[SPACES][PAGES];	/* 0: none */
} tlbs[NR_CPUS];

static void lock_tlb(unsigned int cpu)
{
	while (__atomic_exchange_n(&tlbs[cpu].lock, true, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock_tlb(unsigned int cpu)
{
	smp_store_release(&tlbs[cpu].lock, false);	/* pairs with lock_tlb() */
}

unsigned long shim_address(unsigned int space, unsigned int page)
{
	return (space ? 0 : KERNEL_BASE) + ((unsigned long)page << shim_page_shift[space]);
}

/* A store to a page table; in a lazy MMU section of Xen PV, it is queued. */
static struct { bool on; unsigned int n; u64 *to[PAGES], value[PAGES]; } queue;

void shim_map(unsigned int space, unsigned int page, u64 value)
{
	if (queue.on) {
		queue.to[queue.n] = &tables[space][page];
		queue.value[queue.n++] = value;
		return;
	}
	WRITE_ONCE(tables[space][page], value);
}

void shim_lazy_mmu(bool on)
{
	arch_flush_lazy_mmu_mode();
	queue.on = on;
}

void arch_flush_lazy_mmu_mode(void)
{
	while (queue.n) {
		queue.n--;
		WRITE_ONCE(*queue.to[queue.n], queue.value[queue.n]);
	}
}

/* vCPUs that the hypervisor has taken off, until it has done what it owes them */
static bool off[NR_CPUS];

/* The law: does a CPU that may run hold what is older than this? */
bool shim_stale(unsigned int cpu, unsigned int space, unsigned int page, u64 value)
{
	bool stale;

	lock_tlb(cpu);
	stale = tlbs[cpu].entry[space][page] && tlbs[cpu].entry[space][page] < value &&
		!__atomic_load_n(&off[cpu], __ATOMIC_SEQ_CST);
	unlock_tlb(cpu);
	return stale;
}

u64 shim_read(unsigned int space, unsigned int page)
{
	u64 *entry = &tlbs[shim_cpu].entry[space][page], value;

	lock_tlb(shim_cpu);
	if (!*entry)
		*entry = READ_ONCE(tables[space][page]);
	value = *entry;
	unlock_tlb(shim_cpu);
	return value;
}

/* Drop from one page on, as many as there are in [start, end), of one space or of all. */
static void drop(unsigned int cpu, int space, bool global, unsigned long start, unsigned long end)
{
	unsigned int s, page;

	lock_tlb(cpu);
	for (s = 0; s < SPACES; s++) {
		if ((space >= 0 && s != (unsigned int)space) || (!s && !global))
			continue;
		for (page = 0; page < PAGES; page++) {
			unsigned long first = shim_address(s, page);
			unsigned long last = shim_address(s, page + 1) - 1;

			if (first <= end - 1 && last >= start)
				tlbs[cpu].entry[s][page] = 0;
		}
	}
	unlock_tlb(cpu);
}

#define EVERYTHING	0, 0	/* [0, 0) wraps: the whole address space */

void shim_load_mm(unsigned int cpu, unsigned int space, bool lazy)
{
	shim_mms[space].pgd = (void *)(uintptr_t)(0x100000ul * space);
	shim_mms[space].context.ctx_id = space + 100;
	per_cpu(cpu_tlbstate.loaded_mm, cpu) = space ? &shim_mms[space] : NULL;
	per_cpu(cpu_tlbstate_shared.is_lazy, cpu) = lazy;
}

/*
 * arch/x86/mm/tlb.c. A request that is half another one shows: user ranges carry a sum in
 * place of the generation, and kernel ranges are known by their addresses.
 */
u64 shim_sum(const struct flush_tlb_info *info)
{
	return (info->start * 31 + info->end * 17 + (uintptr_t)info->mm * 7 +
		info->freed_tables) | 1;
}

void shim_leave_mm(void)
{
	this_cpu_write(cpu_tlbstate.loaded_mm, (struct mm_struct *)NULL);
	this_cpu_write(cpu_tlbstate_shared.is_lazy, false);
	for (int space = 1; space < SPACES; space++)
		drop(shim_cpu, space, false, EVERYTHING);
	count(shim_trimmed, 1);
}

void flush_tlb_func(void *arg)
{
	const struct flush_tlb_info *info = arg;
	struct mm_struct *mm = this_cpu_read(cpu_tlbstate.loaded_mm);

	lockdep_assert_irqs_disabled();
	lockdep_assert(!info->new_tlb_gen || info->new_tlb_gen == shim_sum(info));
	if (info->mm && info->mm != mm)
		return;
	if (this_cpu_read(cpu_tlbstate_shared.is_lazy)) {
		shim_leave_mm();
		return;
	}
	for (int space = 1; space < SPACES; space++)
		if (!info->mm)
			drop(shim_cpu, space, false, EVERYTHING);
		else if (mm == &shim_mms[space])
			drop(shim_cpu, space, false, info->start,
			     info->end == TLB_FLUSH_ALL ? 0 : info->end);
}

bool should_flush_tlb(int cpu, void *data)
{
	const struct flush_tlb_info *info = data;

	if (READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)))
		return false;
	return !info->mm || READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu)) == info->mm;
}

void do_flush_tlb_all(void *info)
{
	lockdep_assert_irqs_disabled();
	drop(shim_cpu, -1, true, EVERYTHING);
}

void do_kernel_range_flush(void *arg)
{
	const struct flush_tlb_info *info = arg;

	lockdep_assert_irqs_disabled();
	lockdep_assert(info->start >= KERNEL_BASE);
	drop(shim_cpu, 0, true, info->start, info->end);
}

void native_flush_tlb_multi(const struct cpumask *cpus, const struct flush_tlb_info *info)
{
	count_vm_tlb_event(NR_TLB_REMOTE_FLUSH);
	on_each_cpu_mask(cpus, flush_tlb_func, (void *)info, true);
}

struct pv_ops pv_ops = { { native_flush_tlb_multi } };

void count_vm_tlb_event(int event)
{
	count(shim_flush_events, 1);
}

void trace_tlb_flush(int reason, unsigned long pages)
{
}

/* What the processor and the hypervisor show */
bool shim_features[SHIM_FEATURES] = { [X86_FEATURE_HYPERVISOR] = true };
enum x86_hypervisor_type shim_hypervisor;
bool shim_encrypted, shim_steal_shared;
u32 shim_kvm_features, shim_kvm_hints;
int shim_xen;
unsigned long shim_idle;
struct shim_kvm shim_kvm;
struct shim_hv shim_hv;
struct shim_xen_host shim_xen_host;

bool idle_cpu(int cpu)
{
	return shim_idle >> cpu & 1;
}

/* KVM: a vCPU that is taken off at an instruction boundary, and put back */
DEFINE_PER_CPU(struct kvm_steal_time, steal_time);
static bool kicked[NR_CPUS];

static void put_back(unsigned int cpu)
{
	struct kvm_steal_time *st = &per_cpu(steal_time, cpu);
	u8 was = __atomic_exchange_n(&st->preempted, 0, __ATOMIC_SEQ_CST);

	if (!shim_random(3))
		sched_yield();
	if (was & KVM_VCPU_FLUSH_TLB && !shim_kvm.forgets) {
		drop(cpu, -1, true, EVERYTHING);
		count(shim_kvm.flushed, 1);
	}
	__atomic_fetch_add(&st->version, 2, __ATOMIC_SEQ_CST);
	__atomic_store_n(&off[cpu], false, __ATOMIC_SEQ_CST);
}

void shim_host_point(void)
{
	unsigned int for_long;

	if (!shim_kvm.often || shim_random(shim_kvm.often))
		return;
	__atomic_store_n(&off[shim_cpu], true, __ATOMIC_SEQ_CST);
	WRITE_ONCE(this_cpu_ptr(&steal_time)->preempted, KVM_VCPU_PREEMPTED);
	count(shim_kvm.taken_off, 1);
	for (for_long = shim_random(20); for_long; for_long--)
		sched_yield();
	put_back(shim_cpu);
}

bool shim_host_puts_back(unsigned int cpu)
{
	unsigned long before = shim_kvm.flushed;

	put_back(cpu);
	return shim_kvm.flushed > before;
}

void kvm_hypercall1(unsigned int nr, unsigned long a)
{
	lockdep_assert(nr == KVM_HC_SCHED_YIELD && !shim_hv.guest_os_id);
	count(shim_kvm.yields, 1);
	sched_yield();
}

void kvm_hypercall2(unsigned int nr, unsigned long a, unsigned long b)
{
	lockdep_assert(nr == KVM_HC_KICK_CPU && !shim_hv.guest_os_id);
	count(shim_kvm.kicks, 1);
	__atomic_store_n(&kicked[b / 2], true, __ATOMIC_SEQ_CST);
}

/* With interrupts on from here. There is no tick: who is not woken sleeps for ever. */
void safe_halt(void)
{
	unsigned long flags = 0;

	lockdep_assert_irqs_disabled();
	while (!__atomic_exchange_n(&kicked[shim_cpu], false, __ATOMIC_SEQ_CST)) {
		sched_yield();
		local_irq_restore(flags);
	}
	shim_irqs_off = false;
}

/* Hyper-V, and KVM that shows its interface: TLFS */
void *hv_hypercall_pg;
void shim_hv_stub(void);

bool hv_is_hyperv_initialized(void)
{
	return hv_hypercall_pg;
}

/* Keeps what a call keeps: all but RAX, RCX, RDX, R8 and R9-R11. */
asm(".text\n"
	".globl shim_hv_stub\n"
	"shim_hv_stub:\n"
	"	push %rbp\n	mov %rsp, %rbp\n	push %rsi\n	push %rdi\n"
	"	sub $272, %rsp\n	and $-16, %rsp\n"
	"	movups %xmm0, 0(%rsp)\n	movups %xmm1, 16(%rsp)\n	movups %xmm2, 32(%rsp)\n"
	"	movups %xmm3, 48(%rsp)\n	movups %xmm4, 64(%rsp)\n	movups %xmm5, 80(%rsp)\n"
	"	mov %rcx, %rdi\n	mov %rdx, %rsi\n	mov %r8, %rdx\n	mov %rsp, %rcx\n"
	"	cld\n	call shim_hv_call\n"
	"	movups 0(%rsp), %xmm0\n	movups 16(%rsp), %xmm1\n	movups 32(%rsp), %xmm2\n"
	"	movups 48(%rsp), %xmm3\n	movups 64(%rsp), %xmm4\n	movups 80(%rsp), %xmm5\n"
	"	mov -8(%rbp), %rsi\n	mov -16(%rbp), %rdi\n	leave\n	ret\n");

static void hv_drop(const struct cpumask *cpus, u64 space, u64 flags,
		    const u64 *gva, unsigned int n)
{
	int only = flags & HV_FLUSH_ALL_VIRTUAL_ADDRESS_SPACES ? -1 : (int)(space / 0x100000);
	bool global = !(flags & HV_FLUSH_NON_GLOBAL_MAPPINGS_ONLY) && only < 0;
	unsigned int cpu, i;

	for_each_cpu(cpu, cpus) {
		if (!gva)
			drop(cpu, only, global, EVERYTHING);
		for (i = 0; gva && i < n; i++) {
			unsigned long start = gva[i] & PAGE_MASK;

			drop(cpu, only, true, start, start + ((gva[i] & 0xfff) + 1) * PAGE_SIZE);
		}
	}
}

static bool add_vps(struct cpumask *cpus, unsigned int first, u64 bits)
{
	unsigned int cpu;

	for (; bits; bits &= bits - 1) {
		unsigned int vp = first + __builtin_ctzll(bits);

		for (cpu = 0; cpu < nr_cpu_ids; cpu++)
			if (shim_hv.vp[cpu] == vp)
				break;
		if (cpu == nr_cpu_ids || !cpumask_test_cpu(cpu, &shim_online))
			return false;
		__cpumask_set_cpu(cpu, cpus);
	}
	return true;
}

static u64 hv_flush(u64 control, const u64 *in, unsigned int words)
{
	unsigned int code = control & 0xffff, banks = control >> 17 & 0x3ff;
	unsigned int reps = control >> 32 & 0xfff, start = control >> 48 & 0xfff, end = reps;
	bool ex = code == 0x13 || code == 0x14, list = code == 0x3 || code == 0x14;
	unsigned int used = 2, bank;
	struct cpumask cpus = {};
	u64 mask;

	count(shim_hv.lists, list);
	count(shim_hv.spaces, !list);
	count(shim_hv.ex, ex);
	if (list != !!reps || start > reps || (banks && !ex) ||
	    (list && in[1] & HV_FLUSH_NON_GLOBAL_MAPPINGS_ONLY))
		return HV_STATUS_INVALID_HYPERCALL_INPUT;
	if (shim_hv.status)
		return shim_hv.status;
	if ((ex && shim_hv.reject_ex) || (list && shim_hv.reject_list))
		return HV_STATUS_INVALID_HYPERCALL_CODE;
	if (ex) {
		if (in[used++] != HV_GENERIC_SET_SPARSE_4K)
			return HV_STATUS_INVALID_PARAMETER;
		mask = in[used++];
		if (banks != hweight64(mask))
			return HV_STATUS_INVALID_HYPERCALL_INPUT;
		for (bank = 0; bank < 64; bank++)
			if (mask >> bank & 1 && !add_vps(&cpus, bank * 64, in[used++]))
				return 0x0e /* HV_STATUS_INVALID_VP_INDEX */;
	} else if (!add_vps(&cpus, 0, in[used++])) {
		return 0x0e /* HV_STATUS_INVALID_VP_INDEX */;
	}
	/* KVM would take that for everybody. */
	lockdep_assert(!cpumask_empty(&cpus));
	if (used + reps > words)
		return HV_STATUS_INVALID_HYPERCALL_INPUT;
	if (shim_hv.reps && start + shim_hv.reps < reps)
		end = start + shim_hv.reps;
	if (shim_hv.stuck)
		end = start;
	if (!shim_hv.lies)
		hv_drop(&cpus, in[0], in[1], list ? in + used + start : NULL, end - start);
	return (u64)end << 32;
}

/* Called by the stub */
u64 shim_hv_call(u64 control, u64 rdx, u64 r8, const u64 *xmm)
{
	unsigned int code = control & 0xffff, banks = control >> 17 & 0x3ff;
	unsigned int reps = control >> 32 & 0xfff;
	bool fast = control & HV_HYPERCALL_FAST_BIT;
	u64 in[14];
	u64 status;

	lockdep_assert(shim_hv.guest_os_id || shim_hypervisor == X86_HYPER_MS_HYPERV);
	count(shim_hv.calls, 1);
	if (code == HVCALL_SEND_IPI) {
		unsigned int cpu;

		for (cpu = 0; cpu < nr_cpu_ids; cpu++)
			if (shim_hv.vp[cpu] < 64 && r8 >> shim_hv.vp[cpu] & 1)
				__apic_send_IPI(cpu, rdx);
		count(shim_hv.ipis, 1);
		return shim_hv.status;
	}
	if (code == HVCALL_NOTIFY_LONG_SPIN_WAIT) {
		count(shim_hv.spins, 1);
		return 0;
	}
	if (control & (0x1full << 27 | 0xfull << 44 | 0xfull << 60) ||
	    !(code == 0x2 || code == 0x3 || code == 0x13 || code == 0x14)) {
		count(shim_hv.bad, 1);
		return HV_STATUS_INVALID_HYPERCALL_INPUT;
	}
	if (fast) {
		/* #UD */
		lockdep_assert(shim_hv.features_edx & HV_X64_HYPERCALL_XMM_INPUT_AVAILABLE);
		if (shim_hv.reject_fast)
			return HV_STATUS_INVALID_HYPERCALL_INPUT;
		count(shim_hv.fast, 1);
		in[0] = rdx;
		in[1] = r8;
		memcpy(in + 2, xmm, 96);
		status = hv_flush(control, in, 14);
	} else {
		/* One page, of which the list may take what the page has */
		if (rdx & 7 || shim_hv.reject_slow)
			return HV_STATUS_INVALID_ALIGNMENT;
		lockdep_assert((rdx & 4095) + 8 * ((code < 0x10 ? 3 : 4 + banks) + reps) <= 4096);
		status = hv_flush(control, (const u64 *)(uintptr_t)rdx, (4096 - (rdx & 4095)) / 8);
	}
	if (status & 0xffff)
		count(shim_hv.bad, 1);
	return status;
}

u32 cpuid_eax(u32 leaf)
{
	switch (leaf) {
	case HYPERV_CPUID_VENDOR_AND_MAX_FUNCTIONS:
		return shim_hv.max_leaf;
	case HYPERV_CPUID_INTERFACE:
		return shim_hv.interface;
	case HYPERV_CPUID_FEATURES:
		return shim_hv.features_eax;
	case HYPERV_CPUID_ENLIGHTMENT_INFO:
		return shim_hv.hints;
	}
	return 0;
}

u32 cpuid_edx(u32 leaf)
{
	return leaf == HYPERV_CPUID_FEATURES ? shim_hv.features_edx : 0;
}

int rdmsrl_safe(u32 msr, u64 *value)
{
	if (msr == shim_hv.bad_msr)
		return -EIO;
	switch (msr) {
	case HV_X64_MSR_GUEST_OS_ID:
		*value = shim_hv.guest_os_id;
		return 0;
	case HV_X64_MSR_HYPERCALL:
		*value = shim_hv.page;
		return 0;
	case HV_X64_MSR_VP_INDEX:
		*value = shim_hv.vp[shim_cpu];
		return 0;
	case MSR_KVM_STEAL_TIME:
		*value = shim_steal_shared ? KVM_MSR_ENABLED : 0;
		return 0;
	}
	return -EIO;
}

/* endbr64; movabs $shim_hv_stub, %r11; jmp *%r11 */
void shim_hv_fill(void *page)
{
	static const u8 code[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0,
				   0x41, 0xff, 0xe3 };
	void *stub = shim_hv_stub;
	unsigned int skip = shim_hv.no_endbr ? 4 : 0;

	memcpy(page, code + skip, sizeof(code) - skip);
	memcpy((char *)page + 6 - skip, &stub, 8);
}

int wrmsrl_safe(u32 msr, u64 value)
{
	if (msr == shim_hv.bad_msr)
		return -EIO;
	switch (msr) {
	case HV_X64_MSR_GUEST_OS_ID:
		if (value && shim_hv.refuse_id && !--shim_hv.refuse_id)
			return -EIO;
		shim_hv.guest_os_id = value;
		return 0;
	case HV_X64_MSR_HYPERCALL:
		shim_hv.page = shim_hv.page_stays_off ? 0 : value;
		if (shim_hv.page & HV_X64_MSR_HYPERCALL_ENABLE)
			shim_hv_fill((void *)(uintptr_t)(value & PAGE_MASK));
		return 0;
	}
	return -EIO;
}

/* Xen */
bool xen_vcpu_stolen(int vcpu)
{
	return shim_xen_host.stolen >> vcpu & 1;
}

int HYPERVISOR_mmuext_op(struct mmuext_op *op, unsigned int count, unsigned int *done, u16 domid)
{
	unsigned int cpu;

	count(shim_xen_host.calls, 1);
	lockdep_assert(count == 1 && domid == DOMID_SELF && shim_xen == SHIM_XEN_PV);
	if (shim_xen_host.error)
		return shim_xen_host.error;
	for_each_cpu(cpu, op->arg2.vcpumask) {
		lockdep_assert(cpumask_test_cpu(cpu, &shim_online));
		if (op->cmd == MMUEXT_TLB_FLUSH_MULTI) {
			drop(cpu, -1, true, EVERYTHING);
		} else {
			lockdep_assert(op->cmd == MMUEXT_INVLPG_MULTI);
			count(shim_xen_host.invlpg, 1);
			drop(cpu, -1, true, op->arg1.linear_addr, op->arg1.linear_addr + PAGE_SIZE);
		}
	}
	return 0;
}

int HYPERVISOR_hvm_op(int op, void *arg)
{
	unsigned int cpu;

	count(shim_xen_host.calls, 1);
	lockdep_assert(op == 5 && !arg && shim_xen == SHIM_XEN_HVM);
	if (shim_xen_host.error)
		return shim_xen_host.error;
	for_each_online_cpu(cpu)
		drop(cpu, -1, true, EVERYTHING);
	return 0;
}
