// SPDX-License-Identifier: GPL-2.0-only
/*
 * lock-load - contend for spinlocks of the kernel and send interrupts to several CPUs
 *
 *	lock-load [-t SECONDS] [-n THREADS]
 *
 * Each thread in turns takes the lock of a futex's hash bucket (FUTEX_WAIT for a value
 * that it does not have), the lock of a wait queue with interrupts off (an eventfd that so
 * many epolls watch that it is held for long), and every tenth time interrupts all CPUs
 * that run this process (membarrier). With fewer CPUs under them than threads, PV
 * spinlocks halt and kick.
 *
 * Prints "lock-load: rounds=<n> slowest=<ms>": how long the longest round took, in which a
 * lost wake-up would show. Exit status 1 if a thread made no round at all.
 */
#define _GNU_SOURCE
#include <err.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS	64
#define WATCHERS	200

static atomic_bool done;
static int event;
static atomic_int word = 1;
static atomic_ullong rounds, slowest, idle_threads;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

static void *contender(void *unused)
{
	uint64_t n = 0, start, ms, seen;
	uint64_t one = 1;

	(void)unused;
	while (!atomic_load(&done)) {
		start = now_ms();
		for (int i = 0; i < 20; i++) {
			syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
			if (write(event, &one, sizeof(one)) < 0 ||
			    read(event, &one, sizeof(one)) < 0)
				one = 1;	/* another thread has read it */
		}
		if (n++ % 10 == 0)
			syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
		ms = now_ms() - start;
		seen = atomic_load(&slowest);
		while (ms > seen &&
		       !atomic_compare_exchange_weak(&slowest, (unsigned long long *)&seen, ms))
			;
	}
	atomic_fetch_add(&rounds, n);
	if (!n)
		atomic_fetch_add(&idle_threads, 1);
	return NULL;
}

static void watch(void)
{
	struct epoll_event in = { .events = EPOLLIN };

	event = eventfd(0, EFD_NONBLOCK);
	if (event < 0)
		err(2, "eventfd");
	for (int i = 0; i < WATCHERS; i++) {
		int epoll = epoll_create1(0);

		if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, event, &in))
			err(2, "epoll");
	}
}

int main(int argc, char **argv)
{
	unsigned int seconds = 3, nr = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[MAX_THREADS];
	int opt;

	while ((opt = getopt(argc, argv, "t:n:")) != -1) {
		switch (opt) {
		case 't': seconds = atoi(optarg); break;
		case 'n': nr = atoi(optarg); break;
		default: errx(2, "usage: lock-load [-t seconds] [-n threads]");
		}
	}
	if (!nr || nr > MAX_THREADS)
		errx(2, "1 to %d threads, please", MAX_THREADS);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		err(2, "membarrier");
	watch();
	for (unsigned int i = 0; i < nr; i++)
		pthread_create(&threads[i], NULL, contender, NULL);
	sleep(seconds);
	atomic_store(&done, true);
	for (unsigned int i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	printf("lock-load: rounds=%llu slowest=%llu\n", (unsigned long long)rounds,
	       (unsigned long long)slowest);
	return idle_threads ? 1 : 0;
}
