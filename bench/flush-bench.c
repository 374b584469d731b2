// SPDX-License-Identifier: GPL-2.0-only
/*
 * flush-bench - compare flush mechanisms of pvtlb within one boot
 *
 *	flush-bench [-f FLUSHERS] [-s SPINNERS] [-i IDLERS] [-w PAIRS] [-t] [-c]
 *		    [-n PAGES] [-b BYSTANDERS] [-r ROUNDS] [-m MILLISECONDS] CONFIG...
 *
 * FLUSHERS threads of one process repeat a loop: map four pages, drop one and unmap
 * them, which is two remote flushes; with -t the second one frees the page table.
 * With -n they take the permission to write away from so many pages instead, and give
 * it back: two remote flushes, of just that range, and little else. BYSTANDERS are
 * processes that go through a megabyte of their own, a word a page, again and again;
 * how often, beside= tells.
 * SPINNERS threads of the same process keep CPUs busy, IDLERS sleep, and wake
 * once in a millisecond to touch memory. PAIRS of threads wake each other in turns,
 * each on a CPU of its own, and each exchange is a loop too: the way into idle and
 * back. In each round every CONFIG has its turn of so many milliseconds, forwards
 * in one round and backwards in the next. A CONFIG is one of
 *
 *	NAME[,PARAM=VALUE]...	a backend as in /sys/kernel/pvtlb/backend, with
 *				parameters of /sys/module/pvtlb/parameters; those
 *				that are not named get the value they had at start
 *	apart			the same loop and spinning in as many processes that
 *				share no memory: nothing is remote. The ceiling
 *
 * Prints a line a turn, which bench/report reads:
 *
 *	turn <round> <config> <key>=<value>...
 *
 * loops and ms of the turn; the differences of the counters in
 * /sys/kernel/pvtlb/stats; and ns=<bucket>:<count>,... a histogram of how long
 * one flush took (an madvise() or mprotect()), bucket n covering
 * 2^(n/16) to 2^((n+1)/16) nanoseconds. With -c also calls and call_ns, how many
 * hypercalls there were and how long they took in all, from the pvtlb_hypercall event,
 * and call_cycles, the same in cycles of the TSC.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE		4096ul
#define PAGES		4
#define HUGE		(2ul << 20)
#define MEGABYTE	(1ul << 20)
#define MAX_PAIRS	64
#define BUCKETS		(16 * 40)
#define MAX_COUNTERS	32
#define MAX_PARAMS	16
#define SETTLE_MS	20

#define PVTLB		"/sys/kernel/pvtlb/"
#define PARAMETERS	"/sys/module/pvtlb/parameters/"
#define CALL_EVENT	"/sys/kernel/tracing/events/pvtlb/pvtlb_hypercall/"
#define CALL_HIST	"hist:keys=backend:vals=ns"

enum turn { NOBODY, THREADS, PROCESSES, END };

/* Shared with the processes of "apart". */
static struct shared {
	_Atomic uint64_t loops, beside;
	_Atomic uint32_t histogram[BUCKETS];
	atomic_int turn;	/* whose it is; others sleep */
} *shared;

struct value {
	char name[256];
	int64_t n;
};

static struct value params[MAX_PARAMS];
static int nr_params;
static unsigned long flushers = 2, spinners = 4, idlers, pairs, range, bystanders;
static unsigned long rounds = 20, turn_ms = 250;
static bool free_tables, time_calls;
static double tsc_ghz;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sleep_ms(unsigned long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static int bucket_of(uint64_t ns)
{
	int bucket = ns ? (int)(log2((double)ns) * 16) : 0;

	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void flushed(uint64_t start)
{
	atomic_fetch_add_explicit(&shared->histogram[bucket_of(now() - start)], 1,
				  memory_order_relaxed);
}

static char *map(char *place, unsigned long pages)
{
	char *p = mmap(place, pages * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (place ? MAP_FIXED : 0), -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

static void unmap_loop(char *place)
{
	char *p = map(place, PAGES);
	uint64_t start = now();

	madvise(p, PAGE, MADV_DONTNEED);
	flushed(start);
	munmap(p, PAGES * PAGE);
}

static void protect_loop(char *p)
{
	uint64_t start = now();

	mprotect(p, range * PAGE, PROT_READ);
	flushed(start);
	mprotect(p, range * PAGE, PROT_READ | PROT_WRITE);
}

static void futex(atomic_int *word, int op, int value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void wait_for_ball(atomic_int *ball)
{
	struct timespec patience = { .tv_nsec = 50000000 };

	syscall(SYS_futex, ball, FUTEX_WAIT, 0, &patience, NULL, 0);
}

static void set_turn(int turn)
{
	atomic_store(&shared->turn, turn);
	futex(&shared->turn, FUTEX_WAKE, INT_MAX);
}

/* An address whose page table nothing else uses: in the middle of free space. */
static char *lonely_place(void)
{
	char *p = mmap(NULL, 3 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	munmap(p, 3 * HUGE);
	return (char *)(((uintptr_t)p + HUGE) & -HUGE);
}

enum job { FLUSH, SPIN, IDLE, STAND_BY };

static void go_through(volatile char *p)
{
	for (unsigned long i = 0; i < MEGABYTE; i += PAGE)
		p[i]++;
}

static void work(enum job job, bool apart)
{
	volatile unsigned long spun = 0;
	char *place = job == STAND_BY ? map(NULL, MEGABYTE / PAGE) :
		      job == FLUSH && range ? map(NULL, range) :
		      job == FLUSH && free_tables ? lonely_place() : NULL;
	int turn;

	while ((turn = atomic_load_explicit(&shared->turn, memory_order_relaxed)) != END) {
		if (turn != (apart ? PROCESSES : THREADS)) {
			futex(&shared->turn, FUTEX_WAIT, turn);
		} else if (job == FLUSH) {
			range ? protect_loop(place) : unmap_loop(place);
			atomic_fetch_add_explicit(&shared->loops, 1, memory_order_relaxed);
		} else if (job == STAND_BY) {
			go_through(place);
			atomic_fetch_add_explicit(&shared->beside, 1, memory_order_relaxed);
		} else if (job == SPIN) {
			for (int i = 0; i < 1000; i++)
				spun++;
		} else {
			spun++;
			sleep_ms(1);
		}
	}
}

static void *thread(void *job)
{
	work((enum job)(intptr_t)job, false);
	return NULL;
}

static void start_processes(unsigned long n, enum job job, bool apart)
{
	while (n--) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid)
			continue;
		work(job, apart);
		_exit(0);
	}
}

static void start_thread(void *(*body)(void *), intptr_t arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, body, (void *)arg))
		errx(1, "cannot create a thread");
}

static void start_threads(unsigned long n, enum job job)
{
	while (n--)
		start_thread(thread, job);
}

/* Number 2n plays with 2n + 1, on CPUs of the same numbers. */
static void *player(void *arg)
{
	static atomic_int balls[2 * MAX_PAIRS];
	int me = (intptr_t)arg, other = me ^ 1, turn;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(me % sysconf(_SC_NPROCESSORS_ONLN), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	while ((turn = atomic_load(&shared->turn)) != END) {
		if (turn != THREADS) {
			futex(&shared->turn, FUTEX_WAIT, turn);
			continue;
		}
		/* The even one serves, and serves again what got lost between two turns. */
		if (!(me & 1)) {
			atomic_fetch_add_explicit(&shared->loops, 1, memory_order_relaxed);
			atomic_store(&balls[other], 1);
			futex(&balls[other], FUTEX_WAKE, 1);
		}
		while (!atomic_exchange(&balls[me], 0) && atomic_load(&shared->turn) == THREADS)
			wait_for_ball(&balls[me]);
		if (me & 1) {
			atomic_store(&balls[other], 1);
			futex(&balls[other], FUTEX_WAKE, 1);
		}
	}
	return NULL;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		err(1, "writing %s to %s", text, path);
}

static char *path_of(const char *dir, const char *name)
{
	char *path;

	if (asprintf(&path, "%s%s", dir, name) < 0)
		err(1, "out of memory");
	return path;
}

static int64_t read_number(const char *dir, const char *name)
{
	char *path = path_of(dir, name), text[64] = "";
	FILE *f = fopen(path, "r");

	if (!f || !fgets(text, sizeof(text), f))
		err(1, "%s", path);
	fclose(f);
	free(path);
	return strtoll(text, NULL, 10);
}

static int read_all(const char *dir, struct value *values, int max)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && n < max) {
			snprintf(values[n].name, sizeof(values[n].name), "%s", e->d_name);
			values[n].n = read_number(dir, e->d_name);
			n++;
		}
	if (d)
		closedir(d);
	return n;
}

static void set_param(const char *name, const char *value)
{
	char *path = path_of(PARAMETERS, name);

	write_file(path, value);
	free(path);
}

static void configure(const char *config)
{
	static char *previous;
	char copy[256], value[32];
	char *word;

	for (int i = 0; i < nr_params; i++) {
		snprintf(value, sizeof(value), "%lld", (long long)params[i].n);
		set_param(params[i].name, value);
	}
	snprintf(copy, sizeof(copy), "%s", config);
	word = strtok(copy, ",");
	/* A change waits for a grace period. */
	if (!previous || strcmp(word, previous)) {
		write_file(PVTLB "backend", word);
		free(previous);
		previous = strdup(word);
	}
	while ((word = strtok(NULL, ","))) {
		char *equals = strchr(word, '=');

		if (!equals)
			errx(2, "'%s' in '%s' is no PARAM=VALUE", word, config);
		*equals = '\0';
		set_param(word, equals + 1);
	}
}

/* To open the file for writing removes what was counted before. */
static void start_timing_calls(void)
{
	write_file(CALL_EVENT "trigger", CALL_HIST);
}

static void print_calls(void)
{
	FILE *f = fopen(CALL_EVENT "hist", "r");
	unsigned long long n, ns, calls = 0, all_ns = 0;
	char line[512], *at;

	while (f && fgets(line, sizeof(line), f)) {
		at = strstr(line, "hitcount:");
		if (at && sscanf(at, "hitcount: %llu ns: %llu", &n, &ns) == 2) {
			calls += n;
			all_ns += ns;
		}
	}
	if (f)
		fclose(f);
	printf(" calls=%llu call_ns=%llu call_cycles=%.0f", calls, all_ns, all_ns * tsc_ghz);
}

/* The TSC against the clock, which is what it takes to make cycles of nanoseconds. */
static double measure_tsc(void)
{
	uint64_t start = now(), cycles = __rdtsc();

	sleep_ms(200);
	cycles = __rdtsc() - cycles;
	return (double)cycles / (now() - start);
}

static void print_turn(unsigned long round, const char *config, uint64_t ns,
		       const struct value *before, int nr)
{
	struct value after[MAX_COUNTERS];
	const char *separator = " ns=";

	printf("turn %lu %s loops=%llu beside=%llu ms=%.3f", round, config,
	       (unsigned long long)atomic_load(&shared->loops),
	       (unsigned long long)atomic_load(&shared->beside), ns / 1e6);
	if (read_all(PVTLB "stats/", after, MAX_COUNTERS) != nr)
		errx(1, "the counters in %sstats changed their number", PVTLB);
	for (int i = 0; i < nr; i++)
		printf(" %s=%llu", after[i].name, (unsigned long long)(after[i].n - before[i].n));
	if (time_calls)
		print_calls();
	for (int i = 0; i < BUCKETS; i++) {
		uint32_t n = atomic_load(&shared->histogram[i]);

		if (n) {
			printf("%s%d:%u", separator, i, n);
			separator = ",";
		}
	}
	printf("\n");
}

static void reset_counts(void)
{
	atomic_store(&shared->loops, 0);
	atomic_store(&shared->beside, 0);
	for (int i = 0; i < BUCKETS; i++)
		atomic_store(&shared->histogram[i], 0);
}

static void take_turn(unsigned long round, const char *config)
{
	struct value before[MAX_COUNTERS];
	bool apart = !strcmp(config, "apart");
	uint64_t start;
	int nr;

	if (!apart)
		configure(config);
	set_turn(apart ? PROCESSES : THREADS);
	sleep_ms(SETTLE_MS);
	nr = read_all(PVTLB "stats/", before, MAX_COUNTERS);
	reset_counts();
	if (time_calls)
		start_timing_calls();
	start = now();
	sleep_ms(turn_ms);
	print_turn(round, config, now() - start, before, nr);
	set_turn(NOBODY);
	sleep_ms(SETTLE_MS);
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || end == text || n > 1000000)
		errx(2, "'%s' is not a number from 0 to 1000000", text);
	return n;
}

int main(int argc, char **argv)
{
	int opt, configs;

	while ((opt = getopt(argc, argv, "+f:s:i:w:tcn:b:r:m:")) != -1) {
		switch (opt) {
		case 'f': flushers = number(optarg); break;
		case 's': spinners = number(optarg); break;
		case 'i': idlers = number(optarg); break;
		case 'w': pairs = number(optarg); break;
		case 't': free_tables = true; break;
		case 'c': time_calls = true; break;
		case 'n': range = number(optarg); break;
		case 'b': bystanders = number(optarg); break;
		case 'r': rounds = number(optarg); break;
		case 'm': turn_ms = number(optarg); break;
		default:
			errx(2, "usage: flush-bench [-f flushers] [-s spinners] [-i idlers] [-w pairs] [-t] [-c] [-n pages] [-b bystanders] [-r rounds] [-m ms] config...");
		}
	}
	if (pairs > MAX_PAIRS)
		errx(2, "at most %d pairs", MAX_PAIRS);
	configs = argc - optind;
	if (!configs)
		errx(2, "name at least one config, such as native, kvm or apart");

	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		err(1, "mmap");
	if (time_calls)
		tsc_ghz = measure_tsc();
	nr_params = read_all(PARAMETERS, params, MAX_PARAMS);
	start_processes(flushers, FLUSH, true);
	start_processes(spinners, SPIN, true);
	start_processes(idlers, IDLE, true);
	start_processes(bystanders, STAND_BY, false);
	start_threads(flushers, FLUSH);
	start_threads(spinners, SPIN);
	start_threads(idlers, IDLE);
	for (unsigned long i = 0; i < 2 * pairs; i++)
		start_thread(player, i);
	/* The one that switches is not to queue behind those that spin. */
	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 }))
		err(1, "cannot become a real-time thread");

	for (unsigned long round = 0; round < rounds; round++)
		for (int i = 0; i < configs; i++)
			take_turn(round, argv[optind + (round & 1 ? configs - 1 - i : i)]);

	set_turn(END);
	while (wait(NULL) > 0)
		;
	return 0;
}
