// SPDX-License-Identifier: GPL-2.0-only
/*
 * xentrace-count - count the hypercalls of each domain in Xen's own trace
 *
 *	xentrace -e 0x2a3000 | xentrace-count
 *
 * Reads records until the end of the trace and prints, for each domain and
 * hypercall number that was seen, one line
 *
 *	domain <d> hypercall <nr> <calls>
 *
 * where calls are those made directly plus those inside multicalls, and then
 * "lost <n>", records that Xen had no room for, and "unknown <n>", hypercalls
 * on a CPU whose domain is not known yet. Both make the counts too low, never
 * too high.
 *
 * A hypercall record does not name its domain. Xen traces every change of
 * what a physical CPU runs, so the domain is that of the last vCPU that went
 * to "running" on the CPU of the record.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Events, from Xen's public/trace.h. A class is 16 bits up, a subclass 12. */
#define EV_LOST_RECORDS		0x01f001
#define EV_CPU_CHANGE		0x01f003
#define EV_RUNSTATE_CHANGE	0x021001	/* | old state << 8 | new state << 4 */
#define RUNSTATE_MASK		0xff0
#define EV_HYPERCALL		0x20100d
#define EV_HYPERCALL_SUBCALL	0x20200e
#define EV_HVM_VMMCALL		0x082012	/* VMCALL on Intel's too */

#define MAX_CPUS	256
#define MAX_DOMAINS	1024
#define MAX_CALLS	64
#define UNKNOWN		(-1)

static int running[MAX_CPUS];
static uint64_t calls[MAX_DOMAINS][MAX_CALLS], lost, unknown;

static uint32_t word(void)
{
	uint32_t w;

	if (fread(&w, sizeof(w), 1, stdin) != 1) {
		fprintf(stderr, "xentrace-count: the trace ends inside a record\n");
		exit(1);
	}
	return w;
}

static void runstate_change(unsigned int cpu, uint32_t event, uint32_t vcpu)
{
	unsigned int old = event >> 8 & 0xf, new = event >> 4 & 0xf;

	if (new == 0)
		running[cpu] = vcpu >> 16;
	else if (old == 0)
		running[cpu] = UNKNOWN;
}

static void hypercall(unsigned int cpu, uint32_t nr)
{
	nr &= 0xfffff;	/* the upper bits say which arguments follow */
	if (running[cpu] < 0)
		unknown++;
	else if (running[cpu] < MAX_DOMAINS && nr < MAX_CALLS)
		calls[running[cpu]][nr]++;
}

static void print_counts(void)
{
	for (int d = 0; d < MAX_DOMAINS; d++)
		for (int nr = 0; nr < MAX_CALLS; nr++)
			if (calls[d][nr])
				printf("domain %d hypercall %d %" PRIu64 "\n", d, nr, calls[d][nr]);
	printf("lost %" PRIu64 "\nunknown %" PRIu64 "\n", lost, unknown);
}

int main(void)
{
	uint32_t header, data[8];
	unsigned int cpu = 0;

	/* xentrace is ended by a signal, and gives up when that interrupts a write that waits. */
	fcntl(STDIN_FILENO, F_SETPIPE_SZ, 1 << 20);
	setvbuf(stdin, NULL, _IOFBF, 1 << 18);
	for (int i = 0; i < MAX_CPUS; i++)
		running[i] = UNKNOWN;
	while (fread(&header, sizeof(header), 1, stdin) == 1) {
		uint32_t event = header & 0x0fffffff, extra = header >> 28 & 7;

		if (header >> 31) {	/* a time stamp comes first */
			word();
			word();
		}
		for (uint32_t i = 0; i < extra; i++)
			data[i] = word();
		if (event == EV_CPU_CHANGE && extra) {
			cpu = data[0] % MAX_CPUS;
		} else if (event == EV_LOST_RECORDS && extra) {
			lost += data[0];
			running[cpu] = UNKNOWN;
		} else if ((event & ~RUNSTATE_MASK) == EV_RUNSTATE_CHANGE && extra) {
			runstate_change(cpu, event, data[0]);
		} else if ((event == EV_HYPERCALL || event == EV_HYPERCALL_SUBCALL ||
			    event == EV_HVM_VMMCALL) && extra) {
			hypercall(cpu, data[0]);
		}
	}
	print_counts();
	return 0;
}
