// SPDX-License-Identifier: GPL-2.0-only
/*
 * idle-load - free page tables beside threads that sleep
 *
 *	idle-load [-t SECONDS] [-n SLEEPERS]
 *
 * SLEEPERS run once, each on a CPU of its own, and sleep for good. Their CPUs stay in the
 * mm, lazily. The main thread maps and unmaps memory in places where that frees a page
 * table, which all CPUs of the mm are asked to flush.
 *
 * Prints "idle-load: loops=<n>".
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE		4096ul
#define MAX_THREADS	64

static pthread_barrier_t slept;

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(2, "CPU %d", cpu);
}

static void *sleeper(void *cpu)
{
	run_on((int)(long)cpu);
	pthread_barrier_wait(&slept);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int seconds = 3, nr = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	char *place = (char *)(1ul << 40);
	unsigned long loops = 0;
	pthread_t thread;
	time_t end;
	int opt;

	while ((opt = getopt(argc, argv, "t:n:")) != -1) {
		switch (opt) {
		case 't': seconds = atoi(optarg); break;
		case 'n': nr = atoi(optarg); break;
		default: errx(2, "usage: idle-load [-t seconds] [-n sleepers]");
		}
	}
	if (nr > MAX_THREADS)
		errx(2, "up to %d sleepers, please", MAX_THREADS);
	pthread_barrier_init(&slept, NULL, nr + 1);
	for (unsigned int i = 1; i <= nr; i++)
		pthread_create(&thread, NULL, sleeper, (void *)(long)i);
	run_on(0);
	pthread_barrier_wait(&slept);
	usleep(100000);
	for (end = time(NULL) + seconds; time(NULL) < end; loops++) {
		char *p = mmap(place, PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);

		if (p == MAP_FAILED || munmap(p, PAGE))
			err(2, "mmap");
	}
	printf("idle-load: loops=%lu\n", loops);
	return 0;
}
