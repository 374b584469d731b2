/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the kernel that pvtlb stands on, in user space. Each header that the core
 * and the backends include leads here (tests/user/run), but for pvtlb's own ones and
 * <asm/hyperv-tlfs.h>, which is the kernel's.
 *
 * What is what:
 *
 *  CPU		A number, of the thread that plays it: run_as_cpu(). A CPU that no thread
 *		plays is idle, and takes an interrupt at once: whoever sends it runs the
 *		handler in that CPU's name. A CPU that is played takes it at the next
 *		instruction boundary with interrupts on.
 *  instruction	Most primitives below that other CPUs can see are a point(): there, an
 *  boundary	interrupt is taken, and the hypervisor may take the vCPU off.
 *  per CPU	An object a CPU, from malloc() or beside the linker's section, found by the
 *		address of the original, which itself cannot be used.
 *  atomics	The compiler's, with at least the kernel's ordering. READ_ONCE() and
 *		WRITE_ONCE() are relaxed, so ThreadSanitizer sees whatever is neither.
 *  RCU		Preemption off is a section, which synchronize_rcu() waits for.
 *  page tables	An array of numbers, and a TLB of them a CPU, with global entries: machine.c.
 *		All that the flush functions of arch/x86/mm/tlb.c do is drop entries.
 *  hypervisor	Drops entries too, when it is called or when a vCPU goes on, and only when
 *		it is told to in its own words: machine.c.
 *
 * Not modelled: speculation, ordering weaker than the compiler's atomics produce on this
 * machine, CPUs that come and go during a flush, NMIs, and everything that pvtlb does not
 * use. What a test has to set up or to look at begins with shim_.
 */
#ifndef _SHIM_H
#define _SHIM_H

#define __KERNEL__ 1

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of C and of the compiler */
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;	/* as printf() has it in the kernel */
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef unsigned long long cycles_t;
typedef unsigned int gfp_t;
typedef unsigned short umode_t;
typedef struct { int counter; } atomic_t;

#define U16_MAX			UINT16_MAX
#define U32_MAX			UINT32_MAX
#define U64_MAX			UINT64_MAX
#define __packed		__attribute__((packed))
#define __aligned(n)		__attribute__((aligned(n)))
#undef __always_inline
#define __always_inline		inline __attribute__((always_inline))
#define fallthrough		__attribute__((fallthrough))
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define __init
#define __initdata
#define __ro_after_init
#define __percpu
#define EXPORT_SYMBOL_GPL(symbol)
#define BUILD_BUG_ON(condition)	_Static_assert(!(condition), #condition)
#define BUILD_BUG_ON_NOT_POWER_OF_2(n) BUILD_BUG_ON((n) & ((n) - 1))
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define min_t(type, a, b)	({ type a_ = (a), b_ = (b); a_ < b_ ? a_ : b_; })
#define PTR_IF(condition, p)	((condition) ? (p) : NULL)
#define PTR_ERR_OR_ZERO(p)	((void)(p), 0)
#define BIT(n)			(1ul << (n))
#define BIT_ULL(n)		(1ull << (n))
#define GENMASK_ULL(h, l)	(~0ull >> (63 - (h)) & ~0ull << (l))
#define hweight64(n)		((unsigned int)__builtin_popcountll(n))
#define PAGE_SHIFT		12
#define PAGE_SIZE		4096ul
#define PAGE_MASK		(~(PAGE_SIZE - 1))
#define SMP_CACHE_BYTES		64
#define ENOTSUPP		524

/* Kconfig: all of it */
#define CONFIG_PVTLB 1
#define CONFIG_PVTLB_KVM 1
#define CONFIG_PVTLB_HYPERV 1
#define CONFIG_PVTLB_XEN 1
#define CONFIG_PVTLB_XEN_HVM 1
#define CONFIG_PVTLB_FAULT_INJECTION 1
#define IS_ENABLED(option)	(option)

#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + (c))
#ifndef LINUX_VERSION_CODE
#define LINUX_VERSION_CODE	KERNEL_VERSION(6, 12, 0)
#endif

/* CPUs */
#define NR_CPUS			80
#define BITS_PER_LONG		64
#define BITS_TO_LONGS(bits)	(((bits) + BITS_PER_LONG - 1) / BITS_PER_LONG)

extern unsigned int nr_cpu_ids;
extern __thread unsigned int shim_cpu;
extern __thread bool shim_irqs_off, shim_in_interrupt;

void shim_point(void);
void shim_fail(const char *file, int line, const char *what);

#define smp_processor_id()	shim_cpu
#define raw_smp_processor_id()	shim_cpu
#define irqs_disabled()		shim_irqs_off
#define in_task()		(!shim_in_interrupt)
#define lockdep_assert(what)	do { if (!(what)) shim_fail(__FILE__, __LINE__, #what); } while (0)
#define lockdep_assert_irqs_enabled()	lockdep_assert(!shim_irqs_off)
#define lockdep_assert_irqs_disabled()	lockdep_assert(shim_irqs_off)
#define lockdep_assert_held(mutex)	lockdep_assert(READ_ONCE((mutex)->held))

static inline void local_irq_enable(void)
{
	shim_irqs_off = false;
	shim_point();
}

static inline void local_irq_disable(void)
{
	shim_point();
	shim_irqs_off = true;
}

#define local_irq_save(flags)	do { (flags) = shim_irqs_off; local_irq_disable(); } while (0)
#define local_irq_restore(flags) do { if (!(flags)) local_irq_enable(); } while (0)

void preempt_disable(void);
void preempt_enable(void);
void synchronize_rcu(void);
void cpu_relax(void);
void safe_halt(void);

/* Atomics */
#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), value, __ATOMIC_RELAXED)
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define smp_mb()		__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_mb__after_atomic()	smp_mb()

#define xchg(p, v) ({								\
	shim_point();								\
	__typeof__(*(p)) old_ = __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);	\
	shim_point();								\
	old_;									\
})

#define try_cmpxchg(p, old, new) ({						\
	shim_point();								\
	__atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
})

#define cmpxchg(p, old, new) ({							\
	__typeof__(*(p)) old_ = (old);						\
	try_cmpxchg(p, &old_, new);						\
	old_;									\
})

#define ATOMIC_INIT(n)		{ n }
#define atomic_read(a)		READ_ONCE((a)->counter)
#define atomic_set(a, n)	WRITE_ONCE((a)->counter, n)
#define atomic_add(n, a)	((void)__atomic_fetch_add(&(a)->counter, n, __ATOMIC_SEQ_CST))

static inline void atomic_dec_if_positive(atomic_t *a)
{
	int n = atomic_read(a);

	while (n > 0 && !try_cmpxchg(&a->counter, &n, n - 1))
		;
}

/* A race that the code says it knows of */
#if defined(__SANITIZE_THREAD__)
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#else
#define AnnotateIgnoreReadsBegin(file, line)	((void)0)
#define AnnotateIgnoreReadsEnd(file, line)	((void)0)
#define AnnotateIgnoreWritesBegin(file, line)	((void)0)
#define AnnotateIgnoreWritesEnd(file, line)	((void)0)
#endif

#define data_race(expression) ({						\
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);				\
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);				\
	__typeof__(expression) value_ = (expression);				\
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);				\
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);				\
	shim_point();								\
	value_;									\
})

typedef struct { unsigned int sequence; } seqcount_t;

static inline unsigned int raw_read_seqcount(const seqcount_t *s)
{
	unsigned int seq = smp_load_acquire(&s->sequence);

	shim_point();
	return seq;
}

static inline bool read_seqcount_retry(const seqcount_t *s, unsigned int seq)
{
	shim_point();
	smp_rmb();
	return READ_ONCE(s->sequence) != seq;
}

static inline void raw_write_seqcount_begin(seqcount_t *s)
{
	WRITE_ONCE(s->sequence, s->sequence + 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	shim_point();
}

static inline void raw_write_seqcount_end(seqcount_t *s)
{
	shim_point();
	smp_store_release(&s->sequence, s->sequence + 1);
}

static inline void set_bit(unsigned int n, unsigned long *map)
{
	shim_point();
	__atomic_fetch_or(&map[n / 64], BIT(n % 64), __ATOMIC_SEQ_CST);
}

static inline void clear_bit(unsigned int n, unsigned long *map)
{
	shim_point();
	__atomic_fetch_and(&map[n / 64], ~BIT(n % 64), __ATOMIC_SEQ_CST);
}

static inline bool test_and_clear_bit(unsigned int n, unsigned long *map)
{
	shim_point();
	return __atomic_fetch_and(&map[n / 64], ~BIT(n % 64), __ATOMIC_SEQ_CST) & BIT(n % 64);
}

static inline unsigned int shim_next_bit(const unsigned long *map, unsigned int size, unsigned int n)
{
	while (n < size && !(READ_ONCE(map[n / 64]) >> n % 64 & 1))
		n++;
	return n;
}

#define for_each_set_bit(bit, map, size)					\
	for ((bit) = shim_next_bit(map, size, 0); (bit) < (size);		\
	     (bit) = shim_next_bit(map, size, (bit) + 1))

static inline void bitmap_zero(unsigned long *map, unsigned int bits)
{
	memset(map, 0, BITS_TO_LONGS(bits) * sizeof(long));
}

/* CPU masks: allocated with cpumask_size() bytes, so no more than that may be touched. */
struct cpumask { unsigned long bits[BITS_TO_LONGS(NR_CPUS)]; };
typedef struct cpumask *cpumask_var_t;
extern struct cpumask shim_online, shim_possible;

#define cpu_online_mask		((const struct cpumask *)&shim_online)
#define cpumask_size()		(BITS_TO_LONGS(nr_cpu_ids) * sizeof(long))
#define to_cpumask(map)		((struct cpumask *)(map))
#define shim_bits(mask)		((const unsigned long *)(mask))
#define for_each_cpu(cpu, mask)	for_each_set_bit(cpu, shim_bits(mask), nr_cpu_ids)
#define for_each_online_cpu(cpu) for_each_cpu(cpu, &shim_online)
#define for_each_possible_cpu(cpu) for_each_cpu(cpu, &shim_possible)
#define cpumask_first(mask)	shim_next_bit(shim_bits(mask), nr_cpu_ids, 0)
#define cpumask_empty(mask)	(cpumask_first(mask) >= nr_cpu_ids)
#define num_online_cpus()	cpumask_weight(&shim_online)
#define num_possible_cpus()	cpumask_weight(&shim_possible)

static inline unsigned int cpumask_weight(const struct cpumask *mask)
{
	unsigned int cpu, n = 0;

	for_each_cpu(cpu, mask)
		n++;
	return n;
}

static inline bool cpumask_test_cpu(unsigned int cpu, const struct cpumask *mask)
{
	return READ_ONCE(shim_bits(mask)[cpu / 64]) >> cpu % 64 & 1;
}

static inline void __cpumask_set_cpu(unsigned int cpu, struct cpumask *mask)
{
	((unsigned long *)mask)[cpu / 64] |= BIT(cpu % 64);
}

static inline void __cpumask_clear_cpu(unsigned int cpu, struct cpumask *mask)
{
	((unsigned long *)mask)[cpu / 64] &= ~BIT(cpu % 64);
}

static inline bool cpumask_test_and_clear_cpu(unsigned int cpu, struct cpumask *mask)
{
	bool was = cpumask_test_cpu(cpu, mask);

	__cpumask_clear_cpu(cpu, mask);
	return was;
}

static inline void cpumask_clear(struct cpumask *mask)
{
	memset(mask, 0, cpumask_size());
}

static inline void cpumask_and(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{
	for (unsigned int i = 0; i < BITS_TO_LONGS(nr_cpu_ids); i++)
		((unsigned long *)to)[i] = READ_ONCE(shim_bits(a)[i]) & READ_ONCE(shim_bits(b)[i]);
}

bool zalloc_cpumask_var(cpumask_var_t *mask, gfp_t gfp);
#define free_cpumask_var(mask)	free(mask)

/* Data per CPU */
void *shim_percpu(const void *p, unsigned int cpu);
void *__alloc_percpu(size_t size, size_t align);
void free_percpu(void *p);

#define DECLARE_PER_CPU(type, name)	extern type name __attribute__((section("percpu")))
#define DEFINE_PER_CPU(type, name)	type name __attribute__((section("percpu")))
#define per_cpu_ptr(p, cpu)	((__typeof__(p))shim_percpu(p, cpu))
#define this_cpu_ptr(p)		per_cpu_ptr(p, shim_cpu)
#define per_cpu(var, cpu)	(*per_cpu_ptr(&(var), cpu))
#define this_cpu_read(var)	READ_ONCE(*this_cpu_ptr(&(var)))
#define this_cpu_write(var, v)	WRITE_ONCE(*this_cpu_ptr(&(var)), v)
#define this_cpu_add(var, n) do {						\
	__typeof__(&(var)) p_ = this_cpu_ptr(&(var));				\
	WRITE_ONCE(*p_, *p_ + (n));						\
} while (0)

/* Code that is patched */
struct static_key_false { bool on; };

#define DEFINE_STATIC_KEY_FALSE(name)	struct static_key_false name
#define DECLARE_STATIC_KEY_FALSE(name)	extern struct static_key_false name
#define static_branch_unlikely(key)	unlikely(__atomic_load_n(&(key)->on, __ATOMIC_SEQ_CST))
#define static_branch_likely(key)	likely(__atomic_load_n(&(key)->on, __ATOMIC_SEQ_CST))
#define static_branch_enable(key)	__atomic_store_n(&(key)->on, true, __ATOMIC_SEQ_CST)
#define static_branch_disable(key)	__atomic_store_n(&(key)->on, false, __ATOMIC_SEQ_CST)
#define DEFINE_STATIC_CALL(name, f)	static __typeof__(f) *shim_call_##name = f
#define static_call(name)		smp_load_acquire(&shim_call_##name)
#define static_call_update(name, f)	smp_store_release(&shim_call_##name, f)

/* Interrupts to other CPUs */
#define X86_PLATFORM_IPI_VECTOR	0xf7
#define NMI_VECTOR		2

struct shim_apic {
	void (*send_IPI)(int cpu, int vector);
	void (*send_IPI_mask)(const struct cpumask *cpus, int vector);
};

extern const struct shim_apic *apic;
extern void (*x86_platform_ipi_callback)(void);

void __apic_send_IPI(int cpu, int vector);
void __apic_send_IPI_mask(const struct cpumask *cpus, int vector);
void on_each_cpu_mask(const struct cpumask *cpus, void (*func)(void *info), void *info, bool wait);
void smp_call_function_many(const struct cpumask *cpus, void (*func)(void *info), void *info, bool wait);

/* Memory management, and arch/x86/mm/tlb.c */
struct mm_struct { void *pgd; struct { u64 ctx_id; } context; };

struct flush_tlb_info {
	struct mm_struct	*mm;
	unsigned long		start;
	unsigned long		end;
	u64			new_tlb_gen;
	unsigned int		initiating_cpu;
	u8			stride_shift;
	u8			freed_tables;
	u8			trim_cpumask;
};

struct tlb_state { struct mm_struct *loaded_mm; unsigned long cr4; };
struct tlb_state_shared { bool is_lazy; };

DECLARE_PER_CPU(struct tlb_state, cpu_tlbstate);
DECLARE_PER_CPU(struct tlb_state_shared, cpu_tlbstate_shared);

#define TLB_FLUSH_ALL		-1UL
#define TLB_GENERATION_INVALID	0
#define TLB_REMOTE_SEND_IPI	3
#define NR_TLB_REMOTE_FLUSH	0
#define CR3_ADDR_MASK		0x7ffffffffffff000ull
#define X86_CR4_VMXE		BIT(13)

void shim_leave_mm(void);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define leave_mm(cpu)		shim_leave_mm()
#else
#define leave_mm()		shim_leave_mm()
#endif
void count_vm_tlb_event(int event);
void trace_tlb_flush(int reason, unsigned long pages);
void arch_flush_lazy_mmu_mode(void);
#define virt_to_phys(p)		((u64)(uintptr_t)(p))

struct pv_ops { struct { void (*flush_tlb_multi)(const struct cpumask *cpus, const struct flush_tlb_info *info); } mmu; };
extern struct pv_ops pv_ops;
void native_flush_tlb_multi(const struct cpumask *cpus, const struct flush_tlb_info *info);
#define __flush_tlb_multi(cpus, info) pv_ops.mmu.flush_tlb_multi(cpus, info)

#define GFP_KERNEL		0
#define __GFP_ZERO		0
#define VMALLOC_START		0
#define VMALLOC_END		0
#define PAGE_KERNEL_ROX		0
#define VM_FLUSH_RESET_PERMS	0
#define NUMA_NO_NODE		-1
#define cpu_to_node(cpu)	0
#define kfree(p)		free(p)
void *kzalloc_node(size_t size, gfp_t gfp, int node);
void *shim_vmalloc_exec(void);
#define __vmalloc_node_range(size, align, start, end, gfp, prot, flags, node, caller) shim_vmalloc_exec()
#define vmalloc_to_pfn(p)	((u64)(uintptr_t)(p) >> PAGE_SHIFT)

/* Time: jiffies of 1 ms, cycles of 1 ns */
u64 local_clock(void);
#define get_cycles()		local_clock()
#define jiffies			((unsigned long)(local_clock() / 1000000))
#define HZ			1000
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define tsc_khz			1000000u
#define div_u64(a, b)		((a) / (b))

/* Locks, work, notifiers, sysfs, parameters */
struct mutex { bool held; };
#define DEFINE_MUTEX(name)	struct mutex name
void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);

struct work_struct { void (*func)(struct work_struct *work); };
#define DECLARE_WORK(name, f)	struct work_struct name = { f }
void schedule_work(struct work_struct *work);

struct notifier_block {
	int (*notifier_call)(struct notifier_block *nb, unsigned long event, void *data);
	int priority;
};

#define NOTIFY_OK 1
enum { PM_HIBERNATION_PREPARE = 1, PM_POST_HIBERNATION, PM_SUSPEND_PREPARE, PM_POST_SUSPEND,
	PM_RESTORE_PREPARE, PM_POST_RESTORE };
int register_pm_notifier(struct notifier_block *nb);
int register_reboot_notifier(struct notifier_block *nb);
int unregister_pm_notifier(struct notifier_block *nb);
int unregister_reboot_notifier(struct notifier_block *nb);

enum { CPUHP_BP_PREPARE_DYN, CPUHP_AP_ONLINE_DYN };
int cpuhp_setup_state(int state, const char *name, int (*up)(unsigned int), int (*down)(unsigned int));
int cpuhp_setup_state_nocalls(int state, const char *name, int (*up)(unsigned int),
			      int (*down)(unsigned int));
void cpuhp_remove_state(int state);

struct kobject { int unused; };
struct attribute { const char *name; };
struct kobj_attribute {
	struct attribute attr;
	ssize_t (*show)(struct kobject *kobj, struct kobj_attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct kobj_attribute *attr, const char *buf, size_t count);
};
struct attribute_group { const char *name; struct attribute **attrs; };
#define __ATTR_RO(n)		{ { #n }, n##_show, NULL }
#define __ATTR_RW(n)		{ { #n }, n##_show, n##_store }
#define kernel_kobj		NULL
struct kobject *kobject_create_and_add(const char *name, struct kobject *parent);
void kobject_put(struct kobject *kobj);
int sysfs_create_groups(struct kobject *kobj, const struct attribute_group **groups);
int sysfs_emit(char *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sysfs_streq(const char *a, const char *b);
ssize_t strscpy(char *to, const char *from, size_t size);
#define scnprintf(buf, size, ...) shim_scnprintf(buf, size, __VA_ARGS__)
int shim_scnprintf(char *buf, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct kernel_param { void *arg; };
struct kernel_param_ops {
	int (*set)(const char *val, const struct kernel_param *kp);
	int (*get)(char *buf, const struct kernel_param *kp);
};
int param_set_int(const char *val, const struct kernel_param *kp);
int param_get_int(char *buf, const struct kernel_param *kp);
#define module_param_cb(name, ops, argument, perm)				\
	const struct kernel_param_ops *shim_ops_##name = ops;			\
	struct kernel_param shim_param_##name = { argument }
#define module_param_named(name, var, type, perm) __typeof__(var) *shim_param_##name = &(var)
#define early_param(name, f)	int shim_##f(char *arg) { return f(arg); } int shim_##f(char *arg)
#define __setup(name, f)	int shim_##f(char *arg) { return f(arg); } int shim_##f(char *arg)
#define subsys_initcall_sync(f)	int shim_##f(void) { return f(); } int shim_##f(void)
#define late_initcall(f)	int shim_##f(void) { return f(); } int shim_##f(void)

struct fault_attr { int probability, times, verbose; };
struct dentry;
#define DECLARE_FAULT_ATTR(name) struct fault_attr name = { .times = 1 }
bool setup_fault_attr(struct fault_attr *attr, char *arg);
bool should_fail(struct fault_attr *attr, ssize_t size);
struct dentry *fault_create_debugfs_attr(const char *name, struct dentry *parent, struct fault_attr *attr);
void debugfs_create_x32(const char *name, umode_t mode, struct dentry *dir, u32 *value);

/* What is printed, for tests to look at */
void shim_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
#ifndef pr_fmt
#define pr_fmt(format) format
#endif
#define pr_info(format, ...)	shim_print(pr_fmt(format), ##__VA_ARGS__)
#define pr_notice		pr_info
#define pr_warn			pr_info
#define pr_err			pr_info
#define pr_warn_ratelimited	pr_info

/* Trace events: what TP_printk makes of them, when they are on */
extern bool shim_tracing;
void shim_trace(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define TP_PROTO(...)		__VA_ARGS__
#define TP_ARGS(...)		__VA_ARGS__
#define TP_STRUCT__entry(...)	__VA_ARGS__
#define TP_fast_assign(...)	__VA_ARGS__
#define TP_printk(...)		shim_trace(shim_event, __VA_ARGS__)
#define __array(type, name, n)	type name[n];
#define __field(type, name)	type name;
#define TRACE_EVENT(name, proto, args, fields, assign, print)			\
struct trace_##name { fields };							\
static inline bool trace_##name##_enabled(void) { return READ_ONCE(shim_tracing); } \
static inline void trace_##name(proto)						\
{										\
	const char *shim_event = #name;						\
	struct trace_##name entry, *__entry = &entry;				\
										\
	if (!trace_##name##_enabled())						\
		return;								\
	assign									\
	print;									\
}

/* The processor, and what a hypervisor shows */
enum { X86_FEATURE_HYPERVISOR, X86_FEATURE_MWAIT, X86_FEATURE_PTI, X86_FEATURE_IBT, SHIM_FEATURES };
extern bool shim_features[SHIM_FEATURES];
#define boot_cpu_has(feature)		shim_features[feature]
#define cpu_feature_enabled(feature)	shim_features[feature]

enum x86_hypervisor_type { X86_HYPER_NATIVE, X86_HYPER_MS_HYPERV, X86_HYPER_KVM, X86_HYPER_XEN };
extern enum x86_hypervisor_type shim_hypervisor;
#define hypervisor_is_type(type)	(shim_hypervisor == (type))
u32 cpuid_eax(u32 leaf);
u32 cpuid_edx(u32 leaf);
int rdmsrl_safe(u32 msr, u64 *value);
int wrmsrl_safe(u32 msr, u64 value);
enum { CC_ATTR_GUEST_MEM_ENCRYPT, SHIM_CC_ATTRS };
extern bool shim_encrypted;
#define cc_platform_has(attr)		(shim_encrypted && (attr) == CC_ATTR_GUEST_MEM_ENCRYPT)
#define is_endbr(word)			((word) == 0xfa1e0ff3)

register unsigned long current_stack_pointer asm("rsp");
#define ASM_CALL_CONSTRAINT		"+r" (current_stack_pointer)
#define CALL_NOSPEC			"call *%[thunk_target]\n"
#define THUNK_TARGET(address)		[thunk_target] "rm" (address)

/* KVM */
#define MSR_KVM_STEAL_TIME		0x4b564d03
#define KVM_MSR_ENABLED			1
#define KVM_VCPU_PREEMPTED		1
#define KVM_VCPU_FLUSH_TLB		2
#define KVM_FEATURE_STEAL_TIME		5
#define KVM_FEATURE_PV_UNHALT		7
#define KVM_FEATURE_PV_TLB_FLUSH	9
#define KVM_FEATURE_PV_SCHED_YIELD	13
#define KVM_HINTS_REALTIME		0
#define KVM_HC_KICK_CPU			5
#define KVM_HC_SCHED_YIELD		11
struct kvm_steal_time { u64 steal; u32 version; u32 flags; u8 preempted; u8 pad[47]; };
extern u32 shim_kvm_features, shim_kvm_hints;
#define kvm_para_has_feature(n)		(shim_kvm_features >> (n) & 1)
#define kvm_para_has_hint(n)		(shim_kvm_hints >> (n) & 1)
DECLARE_PER_CPU(u32, x86_cpu_to_apicid);
void kvm_hypercall1(unsigned int nr, unsigned long a);
void kvm_hypercall2(unsigned int nr, unsigned long a, unsigned long b);
bool idle_cpu(int cpu);

/* Hyper-V: the rest is the kernel's <asm/hyperv-tlfs.h> */
extern void *hv_hypercall_pg;
bool hv_is_hyperv_initialized(void);
#define hv_generate_guest_id(version)	(0x8100ull << 48 | (u64)(version) << 16)

/* Xen */
#define DOMID_SELF			0x7ff0
#define MMUEXT_TLB_FLUSH_MULTI		8
#define MMUEXT_INVLPG_MULTI		9
struct mmuext_op {
	unsigned int cmd;
	union { unsigned long mfn; unsigned long linear_addr; } arg1;
	union { unsigned int nr_ents; const void *vcpumask; } arg2;
};
enum { SHIM_XEN_NONE, SHIM_XEN_PV, SHIM_XEN_HVM };
extern int shim_xen;
#define xen_domain()			(shim_xen != SHIM_XEN_NONE)
#define xen_pv_domain()			(shim_xen == SHIM_XEN_PV)
#define xen_hvm_domain()		(shim_xen == SHIM_XEN_HVM)
bool xen_vcpu_stolen(int vcpu);
int HYPERVISOR_mmuext_op(struct mmuext_op *op, unsigned int count, unsigned int *done, u16 domid);
int HYPERVISOR_hvm_op(int op, void *arg);

#endif /* _SHIM_H */
