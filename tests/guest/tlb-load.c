// SPDX-License-Identifier: GPL-2.0-only
/*
 * tlb-load - force remote TLB flushes of every kind and look for stale reads
 *
 *	tlb-load [-t SECONDS] [-f FLUSHERS] [-s SPINNERS] [-k KIND[,KIND...]]
 *
 * FLUSHERS threads of each KIND (user, huge, batch, kernel; all by default)
 * keep changing mappings while SPINNERS threads (one for two CPUs by default)
 * use them on other CPUs. Every change is checked:
 *
 *  user    a window of 1, 8 or 40 pages is mapped onto the other one of two
 *          banks of pages. Once mmap() has returned and the bank is published,
 *          a spinner that still reads the old bank has used a stale entry.
 *  huge    the same with a transparent huge page that is dropped and refilled.
 *  batch   anonymous pages are paged out under spinners that count in them. A
 *          count that goes missing was written through a stale entry.
 *  kernel  a socket filter is attached and detached, which makes the kernel
 *          change and free mappings of its own; nothing to check from here.
 *
 * Prints one line of figures. Exit status: 0 all reads were right, 1 a stale
 * read was seen (one line says which), 2 wrong usage or a call that failed.
 */
#define _GNU_SOURCE
#include <err.h>
#include <linux/filter.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define PAGE		4096ul
#define HUGE		(2ul << 20)
#define MAX_THREADS	64
#define WINDOWS		3
#define BATCH_PAGES	16
#define SAMPLES		(1u << 16)

enum kind { USER, HUGE_PAGE, BATCH, KERNEL, KINDS };

static const char *const kind_names[KINDS] = { "user", "huge", "batch", "kernel" };

/*
 * What spinners may expect to read in @pages pages from @base on: @expect is
 * a generation in its upper bits, so that no two publications look alike, and
 * the number of the bank in the two lowest. 0 while the mapping changes.
 */
struct window {
	const char *name;
	char *_Atomic base;	/* set last: spinners skip the window until then */
	size_t pages;
	_Atomic uint64_t expect;
};

/* BATCH_PAGES pages with a counter for each spinner at the start of each page. */
struct batch {
	_Atomic uint64_t *_Atomic base;
};

static struct window windows[MAX_THREADS * (WINDOWS + 1)];
static struct batch batches[MAX_THREADS];
static atomic_int nr_windows, nr_batches;
static atomic_bool done, stale;
static _Atomic uint64_t loops[KINDS], checks, sample_nr;
static uint32_t samples[SAMPLES];	/* in units of 100 ns */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sample(uint64_t start)
{
	samples[atomic_fetch_add(&sample_nr, 1) % SAMPLES] = (now() - start) / 100;
}

static void found_stale(const char *what, size_t page, uint64_t want, uint64_t got)
{
	if (!atomic_exchange(&stale, true))
		printf("tlb-load: stale: %s page %zu: expected %llu, read %llu\n", what, page,
		       (unsigned long long)want, (unsigned long long)got);
	atomic_store(&done, true);
}

static void *map(void *where, size_t size, int flags, int fd, off_t offset)
{
	void *p = mmap(where, size, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, offset);

	if (p == MAP_FAILED)
		err(2, "mmap of %zu bytes", size);
	return p;
}

static struct window *new_window(const char *name, char *base, size_t pages)
{
	struct window *w = &windows[atomic_fetch_add(&nr_windows, 1)];

	w->name = name;
	w->pages = pages;
	atomic_store(&w->base, base);
	return w;
}

/* The window is only read while @expect is the same non-zero value before and after. */
static void check_window(struct window *w)
{
	char *base = atomic_load(&w->base);

	for (size_t i = 0; base && i < w->pages; i++) {
		uint64_t expect = atomic_load(&w->expect);
		uint64_t got = *(volatile uint64_t *)(base + i * PAGE);

		atomic_thread_fence(memory_order_seq_cst);
		if (expect && expect == atomic_load(&w->expect) && got != (expect & 3))
			found_stale(w->name, i, expect & 3, got);
	}
}

static void check_batch(struct batch *b, unsigned int slot, uint64_t *counts)
{
	_Atomic uint64_t *base = atomic_load(&b->base);

	for (size_t i = 0; base && i < BATCH_PAGES; i++) {
		_Atomic uint64_t *p = base + i * PAGE / sizeof(*p) + slot;
		uint64_t got = atomic_load(p);

		if (got != counts[i])
			found_stale("batch", i, counts[i], got);
		atomic_store(p, ++counts[i]);
	}
}

static void *spinner(void *arg)
{
	static uint64_t counts[MAX_THREADS][MAX_THREADS][BATCH_PAGES];
	unsigned int slot = (uintptr_t)arg;
	uint64_t rounds = 0;

	for (; !atomic_load(&done); rounds++) {
		for (int i = 0; i < atomic_load(&nr_windows); i++)
			check_window(&windows[i]);
		for (int i = 0; i < atomic_load(&nr_batches); i++)
			check_batch(&batches[i], slot, counts[slot][i]);
	}
	atomic_fetch_add(&checks, rounds);
	return NULL;
}

/* Two banks of pages whose first word is the number of the bank, 1 or 2. */
static int new_banks(size_t pages)
{
	int fd = memfd_create("banks", 0);

	if (fd < 0 || ftruncate(fd, 2 * pages * PAGE))
		err(2, "memfd of %zu pages", 2 * pages);
	for (uint64_t i = 0; i < 2 * pages; i++) {
		uint64_t bank = 1 + i / pages;

		if (pwrite(fd, &bank, sizeof(bank), i * PAGE) != sizeof(bank))
			err(2, "write to a memfd");
	}
	return fd;
}

/* Maps, write-protects, drops and unmaps a range that only this thread uses. */
static void churn(size_t pages)
{
	char *p = map(NULL, pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(p, pages * PAGE, PROT_READ);
	madvise(p, pages * PAGE, MADV_DONTNEED);
	munmap(p, pages * PAGE);
}

/* Loops of each kind; @gen counts them from 1 and @state is the thread's own. */
static void user_loop(uint64_t gen, void **state)
{
	static const size_t sizes[WINDOWS] = { 1, 8, 40 };
	struct { struct window *w; int fd; } *s = *state;
	uint64_t bank = 1 + gen % 2;

	if (!s) {
		s = *state = calloc(WINDOWS, sizeof(*s));
		for (int i = 0; i < WINDOWS; i++) {
			s[i].fd = new_banks(sizes[i]);
			s[i].w = new_window("user",
					    map(NULL, sizes[i] * PAGE, MAP_SHARED, s[i].fd, 0),
					    sizes[i]);
		}
	}
	for (int i = 0; i < WINDOWS; i++) {
		struct window *w = s[i].w;
		uint64_t start = now();

		atomic_store(&w->expect, 0);
		map(w->base, w->pages * PAGE, MAP_SHARED | MAP_FIXED, s[i].fd,
		    (bank - 1) * w->pages * PAGE);
		atomic_store(&w->expect, gen << 2 | bank);
		sample(start);
		churn(sizes[i]);
	}
}

static void huge_loop(uint64_t gen, void **state)
{
	struct window *w = *state;
	uint64_t bank = 1 + gen % 2;

	if (!w) {
		uintptr_t p = (uintptr_t)mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		p = (p + HUGE - 1) & ~(HUGE - 1);
		madvise((void *)p, HUGE, MADV_HUGEPAGE);
		w = *state = new_window("huge", (char *)p, 1);
	}
	atomic_store(&w->expect, 0);
	madvise(w->base, HUGE, MADV_DONTNEED);
	*(volatile uint64_t *)w->base = bank;
	atomic_store(&w->expect, gen << 2 | bank);
	mprotect(w->base, HUGE, PROT_READ);
	mprotect(w->base, HUGE, PROT_READ | PROT_WRITE);
}

static void batch_loop(uint64_t gen, void **state)
{
	struct batch *b = *state;

	(void)gen;
	if (!b) {
		b = *state = &batches[atomic_fetch_add(&nr_batches, 1)];
		atomic_store(&b->base,
			     map(NULL, BATCH_PAGES * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	}
	madvise((void *)b->base, BATCH_PAGES * PAGE, MADV_PAGEOUT);
	usleep(1000);	/* let the spinners fault the pages in again */
}

static void kernel_loop(uint64_t gen, void **state)
{
	struct sock_filter accept_all = BPF_STMT(BPF_RET | BPF_K, -1);
	struct sock_fprog program = { .len = 1, .filter = &accept_all };
	int *fd = *state;

	(void)gen;
	if (!fd) {
		fd = *state = malloc(sizeof(*fd));
		*fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	}
	if (setsockopt(*fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		err(2, "attach a socket filter");
	setsockopt(*fd, SOL_SOCKET, SO_DETACH_FILTER, &(int){ 0 }, sizeof(int));
}

static void *flusher(void *arg)
{
	static void (*const loop[KINDS])(uint64_t, void **) = {
		[USER] = user_loop, [HUGE_PAGE] = huge_loop,
		[BATCH] = batch_loop, [KERNEL] = kernel_loop,
	};
	enum kind kind = (uintptr_t)arg;
	void *state = NULL;
	uint64_t gen = 0;

	while (!atomic_load(&done))
		loop[kind](++gen, &state);
	atomic_fetch_add(&loops[kind], gen);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void print_figures(double seconds)
{
	size_t n = sample_nr < SAMPLES ? sample_nr : SAMPLES;
	uint64_t total = 0;

	qsort(samples, n, sizeof(*samples), by_value);
	for (int kind = 0; kind < KINDS; kind++)
		total += loops[kind];
	printf("tlb-load: loops/s=%.0f p50_us=%.1f p99_us=%.1f", total / seconds,
	       n ? samples[n / 2] / 10.0 : 0, n ? samples[n * 99 / 100] / 10.0 : 0);
	for (int kind = 0; kind < KINDS; kind++)
		printf(" %s=%llu", kind_names[kind], (unsigned long long)loops[kind]);
	printf(" checks=%llu stale=%d seconds=%.1f\n", (unsigned long long)checks, stale, seconds);
}

static unsigned int parse_kinds(char *list)
{
	unsigned int kinds = 0;

	for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		int kind = 0;

		while (kind < KINDS && strcmp(name, kind_names[kind]))
			kind++;
		if (kind == KINDS)
			errx(2, "unknown kind '%s': use user, huge, batch or kernel", name);
		kinds |= 1u << kind;
	}
	return kinds;
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || end == text || n > max)
		errx(2, "'%s' is not a number from 0 to %lu", text, max);
	return n;
}

int main(int argc, char **argv)
{
	unsigned int seconds = 5, flushers = 1, spinners = (sysconf(_SC_NPROCESSORS_ONLN) + 1) / 2;
	unsigned int kinds = (1u << KINDS) - 1;
	pthread_t threads[2 * KINDS * MAX_THREADS];
	int opt, n = 0;
	uint64_t start;

	while ((opt = getopt(argc, argv, "t:f:s:k:")) != -1) {
		switch (opt) {
		case 't': seconds = number(optarg, 86400); break;
		case 'f': flushers = number(optarg, MAX_THREADS); break;
		case 's': spinners = number(optarg, MAX_THREADS); break;
		case 'k': kinds = parse_kinds(optarg); break;
		default:
			errx(2, "usage: tlb-load [-t seconds] [-f flushers] [-s spinners] [-k kinds]");
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (spinners > MAX_THREADS)
		spinners = MAX_THREADS;
	for (uintptr_t i = 0; i < spinners; i++)
		pthread_create(&threads[n++], NULL, spinner, (void *)i);
	start = now();
	for (unsigned int i = 0; i < flushers; i++)
		for (uintptr_t kind = 0; kind < KINDS; kind++)
			if (kinds & 1u << kind)
				pthread_create(&threads[n++], NULL, flusher, (void *)kind);
	while (!atomic_load(&done) && now() - start < seconds * 1000000000ull)
		usleep(10000);
	atomic_store(&done, true);
	while (n)
		pthread_join(threads[--n], NULL);
	print_figures((now() - start) / 1e9);
	return stale ? 1 : 0;
}
