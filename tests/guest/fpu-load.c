// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpu-load - flush remotely with every XMM and YMM register in use
 *
 *	fpu-load [-t SECONDS] [-f FLUSHERS] [-s SPINNERS]
 *
 * A hypercall may take its input from XMM registers, which belong to the program that
 * flushes. FLUSHERS fill all sixteen registers, at the width that the CPU has, with a
 * pattern that is another one each time, drop a page by a system call, and look
 * whether the registers are as they were. SPINNERS keep the other CPUs in the same
 * mm, so that each drop is a remote flush. Nothing of C runs in between.
 *
 * Prints "fpu-load: width=<bits> checks=<n> wrong=<n>"; exit status 1 if one was wrong.
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REGS		16
#define PAGE		4096ul
#define MAX_THREADS	64

struct registers {
	uint8_t reg[REGS][32];
};

static atomic_bool done;
static atomic_ullong checks, wrong;
static bool avx;

#define EACH(S)	S(0) S(1) S(2) S(3) S(4) S(5) S(6) S(7)		\
		S(8) S(9) S(10) S(11) S(12) S(13) S(14) S(15)
#define LOAD_YMM(n)	"vmovdqu " #n "*32(%[in]), %%ymm" #n "\n\t"
#define STORE_YMM(n)	"vmovdqu %%ymm" #n ", " #n "*32(%[out])\n\t"
#define LOAD_XMM(n)	"movdqu " #n "*32(%[in]), %%xmm" #n "\n\t"
#define STORE_XMM(n)	"movdqu %%xmm" #n ", " #n "*32(%[out])\n\t"
#define USED(n)		"xmm" #n,

/* Registers in, a page that is there dropped, registers out. */
#define DROP(load, store)								\
	asm volatile(EACH(load) "movb $1, (%%rdi)\n\tsyscall\n\t" EACH(store)		\
		     : "=a" (ret)							\
		     : "a" (SYS_madvise), "D" (page), "S" (PAGE), "d" (MADV_DONTNEED),	\
		       [in] "r" (in), [out] "r" (out)					\
		     : EACH(USED) "rcx", "r11", "memory")

static long drop(char *page, const struct registers *in, struct registers *out)
{
	long ret;

	if (avx)
		DROP(LOAD_YMM, STORE_YMM);
	else
		DROP(LOAD_XMM, STORE_XMM);
	return ret;
}

static void *flusher(void *unused)
{
	size_t width = avx ? 32 : 16;
	struct registers in, out;
	unsigned int seed = gettid();
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)unused;
	if (page == MAP_FAILED)
		err(2, "mmap");
	while (!atomic_load(&done)) {
		for (size_t i = 0; i < sizeof(in); i++)
			((uint8_t *)&in)[i] = rand_r(&seed) >> 8;
		if (drop(page, &in, &out))
			errx(2, "madvise failed");
		for (int i = 0; i < REGS; i++)
			if (memcmp(in.reg[i], out.reg[i], width))
				atomic_fetch_add(&wrong, 1);
		atomic_fetch_add(&checks, 1);
	}
	return NULL;
}

static void *spinner(void *unused)
{
	(void)unused;
	while (!atomic_load(&done))
		;
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int seconds = 3, flushers = 2, spinners = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[2 * MAX_THREADS];
	int opt, n = 0;

	while ((opt = getopt(argc, argv, "t:f:s:")) != -1) {
		switch (opt) {
		case 't': seconds = atoi(optarg); break;
		case 'f': flushers = atoi(optarg); break;
		case 's': spinners = atoi(optarg); break;
		default: errx(2, "usage: fpu-load [-t seconds] [-f flushers] [-s spinners]");
		}
	}
	if (!flushers || flushers > MAX_THREADS || spinners > MAX_THREADS)
		errx(2, "1 to %d flushers and up to %d spinners, please", MAX_THREADS, MAX_THREADS);
	avx = __builtin_cpu_supports("avx");
	for (unsigned int i = 0; i < flushers; i++)
		pthread_create(&threads[n++], NULL, flusher, NULL);
	for (unsigned int i = 0; i < spinners; i++)
		pthread_create(&threads[n++], NULL, spinner, NULL);
	sleep(seconds);
	atomic_store(&done, true);
	while (n)
		pthread_join(threads[--n], NULL);
	printf("fpu-load: width=%d checks=%llu wrong=%llu\n", avx ? 256 : 128,
	       (unsigned long long)checks, (unsigned long long)wrong);
	return wrong ? 1 : 0;
}
