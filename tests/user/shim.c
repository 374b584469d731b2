// SPDX-License-Identifier: GPL-2.0-only
/* The kernel below pvtlb, as told in include/shim.h: CPUs, and whatever is no machine. */
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"

void shim_fail(const char *file, int line, const char *what)
{
	printf("%s:%d: not so: %s\n", file, line, what);
	fflush(stdout);
	abort();
}

/* Data per CPU: an original is a range of addresses, and each CPU has bytes for it. */
#define MAX_ORIGINALS	32
#define TOKEN_SIZE	(1ul << 20)

extern char __start_percpu[], __stop_percpu[];

static struct original {
	const char *start;
	size_t size;
	char *bytes[NR_CPUS];
} originals[MAX_ORIGINALS];

unsigned int shim_failing;

static void *new_original(const char *start, size_t size, bool copy)
{
	struct original *o;
	unsigned int cpu;

	for (o = originals; o->start; o++)
		lockdep_assert(o < originals + MAX_ORIGINALS - 1);
	o->size = size;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		o->bytes[cpu] = aligned_alloc(64, (size + 63) & ~63ul);
		/* Aligned for the code, exact for the sanitizer where it can be. */
		if (size % 64 && !copy) {
			free(o->bytes[cpu]);
			o->bytes[cpu] = malloc(size);
		}
		if (copy)
			memcpy(o->bytes[cpu], start, size);
		else
			memset(o->bytes[cpu], 0, size);
	}
	o->start = start;
	return (void *)start;
}

void *shim_percpu(const void *p, unsigned int cpu)
{
	struct original *o;

	lockdep_assert(cpu < nr_cpu_ids);
	for (o = originals; o->start; o++)
		if ((const char *)p >= o->start && (const char *)p <= o->start + o->size)
			return o->bytes[cpu] + ((const char *)p - o->start);
	shim_fail(__FILE__, __LINE__, "data per CPU");
	return NULL;
}

void *__alloc_percpu(size_t size, size_t align)
{
	if (shim_failing & SHIM_FAIL_PERCPU)
		return NULL;
	/* Addresses that nobody may use: it has to be somebody's copy. */
	return new_original(mmap(NULL, TOKEN_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			    size, false);
}

void free_percpu(void *p)
{
	struct original *o;
	unsigned int cpu;

	for (o = originals; p && o->start; o++)
		if (o->start == p) {
			for (cpu = 0; cpu < nr_cpu_ids; cpu++)
				free(o->bytes[cpu]);
			o->size = 0;
			o->start = (void *)1;	/* never found again */
		}
}

/* CPUs */
unsigned int nr_cpu_ids;
__thread unsigned int shim_cpu;
__thread bool shim_irqs_off, shim_in_interrupt;
static __thread unsigned int preempt_count, seed;
static __thread bool playing;
struct cpumask shim_online, shim_possible;

struct call {
	struct call *next;
	void (*func)(void *info);
	void *info;
	unsigned int *done;
};

static struct cpu {
	pthread_t thread;
	bool played;
	unsigned int vectors;		/* bit 0 the platform's, bit 1 function calls */
	unsigned int section;		/* odd while preemption is off */
	struct call *calls;
} cpus[NR_CPUS];

const struct shim_apic *apic;
void (*x86_platform_ipi_callback)(void);
unsigned long shim_calls, shim_ipis, shim_events, shim_flush_events, shim_trimmed;

static const struct shim_apic the_apic = { __apic_send_IPI, __apic_send_IPI_mask };

DEFINE_PER_CPU(u32, x86_cpu_to_apicid);

void shim_boot_cpus(unsigned int online, unsigned int possible)
{
	unsigned int cpu;

	nr_cpu_ids = possible;
	apic = &the_apic;
	for (cpu = 0; cpu < possible; cpu++) {
		__cpumask_set_cpu(cpu, &shim_possible);
		if (cpu < online)
			__cpumask_set_cpu(cpu, &shim_online);
	}
	new_original(__start_percpu, __stop_percpu - __start_percpu, true);
	for (cpu = 0; cpu < possible; cpu++)
		per_cpu(x86_cpu_to_apicid, cpu) = 2 * cpu;
}

unsigned int shim_random(unsigned int below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % below;
}

static void take_calls(void)
{
	struct call *call, *next;

	call = __atomic_exchange_n(&cpus[shim_cpu].calls, NULL, __ATOMIC_SEQ_CST);
	for (; call; call = next) {
		next = call->next;
		call->func(call->info);
		__atomic_fetch_add(call->done, 1, __ATOMIC_SEQ_CST);
		free(call);
	}
}

/* Those that are pending. Interrupts are on, and off in the handlers. */
void shim_interrupts(void)
{
	unsigned int vectors;

	while (READ_ONCE(cpus[shim_cpu].vectors)) {
		vectors = __atomic_exchange_n(&cpus[shim_cpu].vectors, 0, __ATOMIC_SEQ_CST);
		shim_irqs_off = shim_in_interrupt = true;
		if (vectors & 1)
			x86_platform_ipi_callback();
		if (vectors & 2)
			take_calls();
		shim_irqs_off = shim_in_interrupt = false;
	}
}

void shim_point(void)
{
	unsigned int slow;

	if (!playing)
		return;
	/* Some instructions take long, so that others get between any two. */
	if (!shim_random(40))
		for (slow = shim_random(8); slow; slow--)
			sched_yield();
	shim_host_point();
	if (!shim_irqs_off)
		shim_interrupts();
}

void shim_as(unsigned int cpu, void (*func)(void *), void *arg)
{
	unsigned int self = shim_cpu;
	bool irqs_off = shim_irqs_off, in_interrupt = shim_in_interrupt;

	lockdep_assert(!READ_ONCE(cpus[cpu].played) || cpu == self);
	shim_cpu = cpu;
	shim_irqs_off = shim_in_interrupt = false;
	func(arg);
	shim_cpu = self;
	shim_irqs_off = irqs_off;
	shim_in_interrupt = in_interrupt;
}

static void take_idle(void *unused)
{
	shim_interrupts();
}

static void interrupt(unsigned int cpu, unsigned int vectors)
{
	__atomic_fetch_or(&cpus[cpu].vectors, vectors, __ATOMIC_SEQ_CST);
	if (!READ_ONCE(cpus[cpu].played))
		shim_as(cpu, take_idle, NULL);
}

void __apic_send_IPI(int cpu, int vector)
{
	lockdep_assert(cpumask_test_cpu(cpu, &shim_online));
	__atomic_fetch_add(&shim_ipis, 1, __ATOMIC_RELAXED);
	if (vector == X86_PLATFORM_IPI_VECTOR)
		interrupt(cpu, 1);
}

void __apic_send_IPI_mask(const struct cpumask *mask, int vector)
{
	unsigned int cpu;

	for_each_cpu(cpu, mask)
		__apic_send_IPI(cpu, vector);
}

static unsigned int call_others(const struct cpumask *mask, void (*func)(void *), void *info,
				unsigned int *done)
{
	unsigned int cpu, sent = 0;
	struct call *call;

	for_each_cpu(cpu, mask) {
		if (cpu == shim_cpu || !cpumask_test_cpu(cpu, &shim_online))
			continue;
		call = malloc(sizeof(*call));
		*call = (struct call) { READ_ONCE(cpus[cpu].calls), func, info, done };
		while (!__atomic_compare_exchange_n(&cpus[cpu].calls, &call->next, call, false,
						    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			;
		__atomic_fetch_add(&shim_calls, 1, __ATOMIC_RELAXED);
		interrupt(cpu, 2);
		sent++;
	}
	return sent;
}

void on_each_cpu_mask(const struct cpumask *mask, void (*func)(void *info), void *info, bool wait)
{
	unsigned int done = 0, sent;
	unsigned long flags;

	lockdep_assert(wait && !shim_irqs_off);
	preempt_disable();
	sent = call_others(mask, func, info, &done);
	if (cpumask_test_cpu(shim_cpu, mask)) {
		local_irq_save(flags);
		func(info);
		local_irq_restore(flags);
	}
	while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) != sent)
		cpu_relax();
	preempt_enable();
}

void smp_call_function_many(const struct cpumask *mask, void (*func)(void *info), void *info,
			    bool wait)
{
	static unsigned int done;

	lockdep_assert(!wait);
	call_others(mask, func, info, &done);
}

void preempt_disable(void)
{
	if (!preempt_count++)
		__atomic_fetch_add(&cpus[shim_cpu].section, 1, __ATOMIC_SEQ_CST);
}

void preempt_enable(void)
{
	if (!--preempt_count)
		__atomic_fetch_add(&cpus[shim_cpu].section, 1, __ATOMIC_SEQ_CST);
}

void synchronize_rcu(void)
{
	unsigned int cpu, seen;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		seen = __atomic_load_n(&cpus[cpu].section, __ATOMIC_SEQ_CST);
		lockdep_assert(!(seen & 1) || cpu != shim_cpu);
		while (seen & 1 && __atomic_load_n(&cpus[cpu].section, __ATOMIC_SEQ_CST) == seen)
			cpu_relax();
	}
}

void cpu_relax(void)
{
	shim_point();
	sched_yield();
}

struct player {
	unsigned int cpu;
	void *(*body)(void *arg);
	void *arg;
};

/* A CPU whose work is done is idle: it takes interrupts until everybody's is. */
static unsigned int working;

static void *play(void *p)
{
	struct player player = *(struct player *)p;

	free(p);
	shim_cpu = player.cpu;
	seed = player.cpu + 1;
	playing = true;
	player.body(player.arg);
	__atomic_fetch_sub(&working, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&working, __ATOMIC_SEQ_CST))
		cpu_relax();
	shim_interrupts();
	return NULL;
}

void shim_play(unsigned int cpu, void *(*body)(void *), void *arg)
{
	struct player *player = malloc(sizeof(*player));

	*player = (struct player) { cpu, body, arg };
	WRITE_ONCE(cpus[cpu].played, true);
	__atomic_fetch_add(&working, 1, __ATOMIC_SEQ_CST);
	lockdep_assert(!pthread_create(&cpus[cpu].thread, NULL, play, player));
}

/* By a thread that plays no CPU itself. */
void shim_join(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (cpus[cpu].played) {
			pthread_join(cpus[cpu].thread, NULL);
			WRITE_ONCE(cpus[cpu].played, false);
		}
}

/* Locks, time, memory */
void mutex_lock(struct mutex *mutex)
{
	while (__atomic_exchange_n(&mutex->held, true, __ATOMIC_SEQ_CST))
		cpu_relax();
}

void mutex_unlock(struct mutex *mutex)
{
	__atomic_store_n(&mutex->held, false, __ATOMIC_SEQ_CST);
}

u64 local_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void *kzalloc_node(size_t size, gfp_t gfp, int node)
{
	void *p = shim_failing & SHIM_FAIL_KZALLOC ? NULL : aligned_alloc(size, size);

	return p ? memset(p, 0, size) : NULL;
}

bool zalloc_cpumask_var(cpumask_var_t *mask, gfp_t gfp)
{
	*mask = shim_failing & SHIM_FAIL_CPUMASK ? NULL : calloc(1, cpumask_size());
	return *mask;
}

void *shim_vmalloc_exec(void)
{
	if (shim_failing & SHIM_FAIL_VMALLOC)
		return NULL;
	return mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Work, notifiers, CPU hotplug */
static struct work_struct *work;

void schedule_work(struct work_struct *w)
{
	__atomic_store_n(&work, w, __ATOMIC_SEQ_CST);
}

bool shim_run_work(void)
{
	struct work_struct *w = __atomic_exchange_n(&work, NULL, __ATOMIC_SEQ_CST);

	if (w)
		w->func(w);
	return w;
}

static struct notifier_block *pm, *reboot[4];

int register_pm_notifier(struct notifier_block *nb)
{
	if (shim_failing & SHIM_FAIL_PM)
		return -ENOMEM;
	pm = nb;
	return 0;
}

int unregister_pm_notifier(struct notifier_block *nb)
{
	lockdep_assert(pm == nb);
	pm = NULL;
	return 0;
}

void shim_pm(unsigned long event)
{
	lockdep_assert(pm);
	pm->notifier_call(pm, event, NULL);
}

int register_reboot_notifier(struct notifier_block *nb)
{
	int i = 0;

	if (shim_failing & SHIM_FAIL_REBOOT)
		return -ENOMEM;
	while (reboot[i])
		i++;
	reboot[i] = nb;
	return 0;
}

int unregister_reboot_notifier(struct notifier_block *nb)
{
	int i = 0;

	while (reboot[i] != nb)
		i++;
	for (; i < 3; i++)
		reboot[i] = reboot[i + 1];
	return 0;
}

void shim_reboot(void)
{
	struct notifier_block *next;
	int i;

	do {
		next = NULL;
		for (i = 0; i < 4; i++)
			if (reboot[i] && (!next || reboot[i]->priority > next->priority))
				next = reboot[i];
		if (next) {
			next->notifier_call(next, 0, NULL);
			unregister_reboot_notifier(next);
		}
	} while (next);
}

static struct { int (*up)(unsigned int cpu), (*down)(unsigned int cpu); } hotplug[2];

struct hotplug_call {
	int (*func)(unsigned int cpu);
	int result;
};

static void hotplug_call(void *arg)
{
	struct hotplug_call *call = arg;

	call->result = call->func(shim_cpu);
}

static int call_on(unsigned int cpu, int (*func)(unsigned int cpu))
{
	struct hotplug_call call = { func };

	if (func)
		shim_as(cpu, hotplug_call, &call);
	return call.result;
}

int cpuhp_setup_state_nocalls(int state, const char *name, int (*up)(unsigned int cpu),
			      int (*down)(unsigned int cpu))
{
	if (shim_failing & SHIM_FAIL_CPUHP)
		return -ENOSPC;
	hotplug[state].up = up;
	hotplug[state].down = down;
	return state;
}

int cpuhp_setup_state(int state, const char *name, int (*up)(unsigned int cpu),
		      int (*down)(unsigned int cpu))
{
	int err = cpuhp_setup_state_nocalls(state, name, up, down);
	unsigned int cpu;

	if (err >= 0)
		for_each_online_cpu(cpu)
			call_on(cpu, up);
	return err;
}

void cpuhp_remove_state(int state)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		call_on(cpu, hotplug[state].down);
	hotplug[state].up = hotplug[state].down = NULL;
}

int shim_cpu_up(unsigned int cpu)
{
	if (hotplug[CPUHP_BP_PREPARE_DYN].up)
		hotplug[CPUHP_BP_PREPARE_DYN].up(cpu);
	__cpumask_set_cpu(cpu, &shim_online);
	return call_on(cpu, hotplug[CPUHP_AP_ONLINE_DYN].up);
}

void shim_cpu_down(unsigned int cpu)
{
	call_on(cpu, hotplug[CPUHP_AP_ONLINE_DYN].down);
	__cpumask_clear_cpu(cpu, &shim_online);
	cpus[cpu].vectors = 0;	/* lost */
}

/* sysfs, parameters, text */
static struct kobject the_kobject;
static const struct attribute_group **groups;

struct kobject *kobject_create_and_add(const char *name, struct kobject *parent)
{
	return shim_failing & SHIM_FAIL_KOBJECT ? NULL : &the_kobject;
}

void kobject_put(struct kobject *kobj)
{
	lockdep_assert(kobj == &the_kobject);
}

int sysfs_create_groups(struct kobject *kobj, const struct attribute_group **g)
{
	if (shim_failing & SHIM_FAIL_SYSFS)
		return -ENOMEM;
	groups = g;
	return 0;
}

static struct kobj_attribute *find(const char *group, const char *name)
{
	const struct attribute_group **g;
	struct attribute **a;

	for (g = groups; g && *g; g++)
		if (!strcmp((*g)->name ?: "", group))
			for (a = (*g)->attrs; *a; a++)
				if (!strcmp((*a)->name, name))
					return (struct kobj_attribute *)*a;
	return NULL;
}

int shim_show(const char *group, const char *name, char *buf)
{
	struct kobj_attribute *a = find(group, name);

	return a ? a->show(&the_kobject, a, buf) : -ENOENT;
}

int shim_store(const char *name, const char *value)
{
	struct kobj_attribute *a = find("", name);

	return a ? a->store(&the_kobject, a, value, strlen(value)) : -ENOENT;
}

int sysfs_emit(char *buf, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf, PAGE_SIZE, format, args);
	va_end(args);
	return n;
}

int shim_scnprintf(char *buf, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf, size, format, args);
	va_end(args);
	return n < (int)size ? n : (int)size - 1;
}

bool sysfs_streq(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	n -= n && a[n - 1] == '\n';
	m -= m && b[m - 1] == '\n';
	return n == m && !memcmp(a, b, n);
}

ssize_t strscpy(char *to, const char *from, size_t size)
{
	size_t n = strnlen(from, size - 1);

	memcpy(to, from, n);
	to[n] = '\0';
	return from[n] ? -E2BIG : (ssize_t)n;
}

int param_set_int(const char *val, const struct kernel_param *kp)
{
	char *end;
	long n = strtol(val, &end, 0);

	if (end == val || (*end && *end != '\n'))
		return -EINVAL;
	*(int *)kp->arg = n;
	return 0;
}

int param_get_int(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", *(int *)kp->arg);
}

/* "interval,probability,space,times", of which the interval has to be 1 */
bool setup_fault_attr(struct fault_attr *attr, char *arg)
{
	int interval, space;

	int read = sscanf(arg, "%d,%d,%d,%d", &interval, &attr->probability, &space, &attr->times);

	return read == 4 && interval == 1;
}

bool should_fail(struct fault_attr *attr, ssize_t size)
{
	int left = READ_ONCE(attr->times);

	if (!attr->probability)
		return false;
	while (left > 0 && !__atomic_compare_exchange_n(&attr->times, &left, left - 1, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return left;
}

struct dentry *fault_create_debugfs_attr(const char *name, struct dentry *parent,
					 struct fault_attr *attr)
{
	return NULL;
}

void debugfs_create_x32(const char *name, umode_t mode, struct dentry *dir, u32 *value)
{
}

/* What was printed and traced, all of it */
static char said[1 << 16];
static size_t said_len;
static struct mutex said_lock;
bool shim_tracing;

static void say(const char *event, const char *format, va_list args)
{
	mutex_lock(&said_lock);
	if (said_len < sizeof(said) - 600) {
		if (event)
			said_len += sprintf(said + said_len, "%s: ", event);
		said_len += min_t(int, vsnprintf(said + said_len, 500, format, args), 499);
		if (event)
			said[said_len++] = '\n';
		said[said_len] = '\0';
	}
	mutex_unlock(&said_lock);
}

void shim_print(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(NULL, format, args);
	va_end(args);
}

void shim_trace(const char *event, const char *format, ...)
{
	va_list args;

	__atomic_fetch_add(&shim_events, 1, __ATOMIC_RELAXED);
	va_start(args, format);
	say(event, format, args);
	va_end(args);
}

bool shim_said(const char *text)
{
	bool found = strstr(said, text);

	if (!found)
		printf("said was:\n%s", said);
	return found;
}

void shim_forget(void)
{
	said_len = 0;
	said[0] = '\0';
}
