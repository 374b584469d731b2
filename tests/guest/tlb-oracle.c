// SPDX-License-Identifier: GPL-2.0-only
/*
 * tlb-oracle - change mappings in every way and let no stale access pass
 *
 *	tlb-oracle [-t SECONDS] [-k KIND[,KIND...]] [-f CHANGERS] [-p PINGERS] [-s STARING]
 *	           [-w WATCHED]
 *
 * A changer does one kind of change after the other to slots, pages of its own. A
 * watcher is pinned to each CPU, and STARING of them at a time (half of them) stare at the
 * slots of one changer each: they read, write and count in them without a pause. What it
 * may see is published in the slot when the system call has returned, and judged if it was
 * published before the access and still is after it (struct slot, as a seqcount).
 *
 * A lost flush can only be seen by a CPU that has used the page before the
 * change, has been running since, and uses it again: a hypervisor, or a change
 * of address space, empties TLBs too. So before a change, the changer waits until
 * watchers on other CPUs have seen what is published, and afterwards
 * until they have judged what is new. Such a change is "watched", and -w WATCHED
 * demands so many of each kind, and as many judgements. Changers go round all CPUs.
 *
 *  remap    one of two banks of a memfd is mapped over the other, 1, 8 or 40 pages.
 *           Nothing may be written to a bank that is not mapped any more
 *  unmap    munmap(), after which an access must fault; then mmap() in the same place
 *  move     mremap() to and fro, of pages and of a whole page table
 *  protect  mprotect(): a write must fault after PROT_READ, all after PROT_NONE
 *  drop     MADV_DONTNEED, and holes in a memfd, after which pages read as zero
 *  pageout  MADV_PAGEOUT under watchers that count: no count may get lost
 *  migrate  the same, by compaction of memory
 *  huge     the same, split and collapse of a huge page, beside what remap, unmap and
 *           protect do
 *  fork     the child must see what was, the parent's watchers what is written after
 *  exec     the new program must see its own data in places that both have
 *  walk     the kernel itself walks to pages, without locks (vmsplice(), direct
 *           I/O, futexes), while page tables are freed and their memory is filled with
 *           what, read as a page table, leads nowhere and makes the kernel fault
 *  kernel   socket filters replace one another, each in memory that the kernel maps and
 *           unmaps for it; a packet's length says which one the kernel ran
 *  ping     drop of one page as fast as it goes, watched only by chance
 *
 * There is a CHANGER for four CPUs unless said otherwise. PINGERS, none by default, do
 * nothing but ping, which makes the most flushes.
 *
 * Without -k it does all that this kernel can. Prints one line of figures,
 * KIND=CHANGES/WATCHED/JUDGED for each kind. Exit status: 0 all was right, 1 a stale access was
 * seen (one line says which), 2 wrong usage or a call that failed, 3 less
 * than WATCHED (one line says of what).
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define PAGE		4096ul
#define HUGE		(2ul << 20)
#define TOP		(1ul << 30)	/* what a table of the second level maps */
#define FIRST_SLOT	(64 * TOP)	/* far from where mmap() puts what has no place */
#define MAX_CPUS	64
#define MAX_GROUP	4
#define COUNTERS	64		/* offset in a page of a word for each watcher */
#define WALK_PAGES	64
#define TURN_NS		20000000ull	/* of one kind */
#define STARE_NS	50000000ull	/* at one changer */
#define WAIT_NS		20000000ull	/* for any watcher */
#define SPIN_NS		50000ull	/* before the changer leaves the CPU to them */
#define LINGER_NS	200000ull	/* for the others, after the first */

enum kind {
	REMAP, UNMAP, MOVE, PROTECT, DROP, PAGEOUT, MIGRATE, HUGE_PAGE, FORK, EXEC,
	WALK, KERNEL, PING,
	KINDS
};

static const char *const kind_names[KINDS] = {
	"remap", "unmap", "move", "protect", "drop", "pageout", "migrate", "huge", "fork", "exec",
	"walk", "kernel", "ping",
};

enum access { NONE, READ, WRITE };

/* How far a watcher has counted in a page, and in which contents of it */
struct count {
	uint64_t contents, count;
};

/*
 * Pages at @base, @base + @stride and so on, each of which starts with the number
 * @value and has a counter for each watcher at COUNTERS, which goes on as long as
 * @contents, a number never used twice, is the same. All three, and @access,
 * hold while @seq is even and remains the same.
 */
struct slot {
	enum kind kind;
	char *base;
	size_t pages, stride;
	_Atomic uint64_t seq;
	_Atomic uint64_t value, contents;
	_Atomic int access;
	bool was_watched;
	_Atomic uint64_t seen[MAX_CPUS];	/* @seq that a watcher has judged last */
	struct count *counts[MAX_CPUS];
	int sockets[MAX_CPUS][2];		/* of KERNEL */
};

/* What one changer has for one kind */
struct group {
	_Atomic size_t slots;
	struct slot slot[MAX_GROUP];
	int fd;
	char *alias;		/* of a memfd's banks, or another mapping that the kind needs */
	uint64_t round;
};

struct changer {
	unsigned int cpu;
	bool pings;		/* and nothing else */
	struct group group[KINDS];
	struct group *_Atomic current;
};

static struct changer changers[2 * MAX_CPUS];
static unsigned int nr_changers, nr_pingers, nr_watchers, on_duty, cpus[MAX_CPUS];
static bool kinds[KINDS];
static atomic_bool done, stale;
static _Atomic uint64_t changes[KINDS], watched[KINDS], judged[KINDS], next_value = 1, next_slot;

/* A program that was just started finds this unchanged, and its parent has changed it. */
#define FRESH	0x7072617774736574ull
static volatile uint64_t fresh = FRESH;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Changers and watchers go on to other CPUs when this number changes. */
static uint64_t this_turn(void)
{
	return now() / STARE_NS;
}

static void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);	/* may fail: the CPU may be offline */
}

static void found_stale(const struct slot *s, const char *what, size_t page, uint64_t want,
			uint64_t got)
{
	if (!atomic_exchange(&stale, true))
		printf("tlb-oracle: stale: kind=%s page=%zu expected=%#llx got=%#llx cpu=%d: %s\n",
		       kind_names[s->kind], page, (unsigned long long)want, (unsigned long long)got,
		       sched_getcpu(), what);
	atomic_store(&done, true);
}

/*
 * Accesses that may fault: where an instruction does that is listed in the section
 * oracle_fixups, execution goes on where the list says.
 */
struct fixup {
	uintptr_t at, to;
};

extern const struct fixup __start_oracle_fixups[], __stop_oracle_fixups[];

#define FIXUP	".pushsection oracle_fixups, \"aw\"\n\t.quad 1b, 2f\n\t.popsection\n\t"

static bool load(const void *p, uint64_t *value)
{
	int ok = 0;

	asm volatile("1: movq %2, %0\n\tmovl $1, %1\n\t" FIXUP "2:"
		     : "+r" (*value), "+r" (ok) : "m" (*(const volatile uint64_t *)p) : "memory");
	return ok;
}

static bool store(void *p, uint64_t value)
{
	int ok = 0;

	asm volatile("1: movq %2, %1\n\tmovl $1, %0\n\t" FIXUP "2:"
		     : "+r" (ok), "=m" (*(volatile uint64_t *)p) : "r" (value) : "memory");
	return ok;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *ip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)info;
	for (const struct fixup *f = __start_oracle_fixups; f < __stop_oracle_fixups; f++)
		if ((uintptr_t)*ip == f->at) {
			*ip = f->to;
			return;
		}
	signal(sig, SIG_DFL);
}

static void catch_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

/* WATCHERS */

/* Accesses to one page as the kernel makes them: there, the value, or a fault */
struct walker {
	int pipe[2], disk;
	off_t place;		/* on the disk, of this watcher alone */
	unsigned int turn;
	char *buffer;		/* as large as what is written directly */
};

static bool walk_by_splice(struct walker *w, char *p, size_t pages, uint64_t *value)
{
	struct iovec iov = { p, pages * PAGE };
	ssize_t n = vmsplice(w->pipe[1], &iov, 1, SPLICE_F_NONBLOCK);

	if (n <= 0)
		return false;
	if (read(w->pipe[0], w->buffer, n) != n)
		err(2, "read from a pipe");
	memcpy(value, w->buffer, sizeof(*value));
	return true;
}

static bool walk_by_direct_io(struct walker *w, char *p, size_t pages, uint64_t *value)
{
	if (pwrite(w->disk, p, pages * PAGE, w->place) < (ssize_t)PAGE)
		return false;
	if (pread(w->disk, w->buffer, PAGE, w->place) != PAGE)
		err(2, "direct read from a RAM disk");
	memcpy(value, w->buffer, sizeof(*value));
	return true;
}

/* A futex that all may share needs the page, but nothing in it. */
static bool walk_by_futex(char *p)
{
	return syscall(SYS_futex, p, FUTEX_WAKE, 0, NULL, NULL, 0) >= 0;
}

static void judge_walk(struct slot *s, struct walker *w, unsigned int me)
{
	uint64_t seq = atomic_load(&s->seq), value = atomic_load(&s->value), got = value;
	bool there = atomic_load(&s->access) != NONE, ok;

	switch (w->turn++ % 4) {
	case 0: ok = walk_by_futex(s->base + w->turn / 4 % s->pages * PAGE); break;
	case 1: ok = w->disk >= 0 && walk_by_direct_io(w, s->base, s->pages, &got); break;
	default: ok = walk_by_splice(w, s->base, s->pages, &got); break;
	}
	if (w->turn % 4 == 2 && w->disk < 0)
		return;
	if (seq & 1 || seq != atomic_load(&s->seq))
		return;
	if (ok != there)
		found_stale(s, ok ? "found by the kernel" : "not found by the kernel", 0,
			    there, ok);
	else if (ok && got != value)
		found_stale(s, "the kernel found something else", 0, value, got);
	atomic_store(&s->seen[me], seq);
	atomic_fetch_add(&judged[s->kind], 1);
}

static void judge_filter(struct slot *s, unsigned int me)
{
	uint64_t seq = atomic_load(&s->seq), value = atomic_load(&s->value);
	char packet[128] = "";
	ssize_t got;

	if (write(s->sockets[me][0], packet, sizeof(packet)) != sizeof(packet))
		err(2, "write to a socket");
	got = read(s->sockets[me][1], packet, sizeof(packet));
	if (seq & 1 || seq != atomic_load(&s->seq))
		return;
	if (got != (ssize_t)value)
		found_stale(s, "the length that a socket filter leaves", 0, value, got);
	atomic_store(&s->seen[me], seq);
	atomic_fetch_add(&judged[s->kind], 1);
}

/*
 * One page. A store that races with a change may land in the pages before or after
 * it, so a counter is taken as it is when the contents are new. Return: judged.
 */
static bool judge_page(struct slot *s, size_t page, unsigned int me, bool may_fault)
{
	uint64_t seq = atomic_load(&s->seq), value = atomic_load(&s->value), got = 0, counter = 0;
	uint64_t contents = atomic_load(&s->contents);
	struct count *mine = &s->counts[me][page];
	int access = atomic_load(&s->access);
	bool readable = access != NONE, writable = access == WRITE;
	char *p = s->base + page * s->stride;
	bool ok = load(p, &got) && load(p + COUNTERS + me * sizeof(uint64_t), &counter);

	if (seq & 1 || seq != atomic_load(&s->seq))
		return false;
	if (ok != readable)
		found_stale(s, ok ? "a read did not fault" : "a read faulted", page, access, got);
	else if (ok && got != value)
		found_stale(s, "a read", page, value, got);
	if (!ok)
		return true;
	if (mine->contents == contents && counter != mine->count)
		found_stale(s, "a write got lost", page, mine->count, counter);
	*mine = (struct count){ contents, counter };
	if (!writable && !may_fault)
		return true;
	ok = store(p + COUNTERS + me * sizeof(uint64_t), counter + 1);
	mine->count += ok;
	if (seq != atomic_load(&s->seq))
		return false;
	if (ok != writable)
		found_stale(s, ok ? "a write did not fault" : "a write faulted", page, access,
			    counter + 1);
	return true;
}

/*
 * Who faults may wait for the changer, and the CPU that idles meanwhile loses its stale
 * entries. So what must fault is tried once for each publication, in one page.
 */
static void judge(struct slot *s, unsigned int me, uint64_t round)
{
	uint64_t seq = atomic_load(&s->seq);
	bool fresh_to_me = atomic_load(&s->seen[me]) != seq, all = true;
	size_t chosen = round % s->pages;

	if (atomic_load(&s->access) == NONE) {
		if (seq & 1 || !fresh_to_me)
			return;
		all = judge_page(s, chosen, me, true);
	} else {
		for (size_t i = 0; i < s->pages && !atomic_load(&done); i++)
			all &= judge_page(s, i, me, fresh_to_me && i == chosen);
	}
	if (all && seq == atomic_load(&s->seq)) {
		atomic_store(&s->seen[me], seq);
		atomic_fetch_add(&judged[s->kind], 1);
	}
}

static struct walker new_walker(unsigned int me)
{
	struct walker w = {
		.disk = open("/dev/ram1", O_RDWR | O_DIRECT),
		.place = me * WALK_PAGES * PAGE,
	};

	w.buffer = mmap(NULL, WALK_PAGES * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pipe(w.pipe) || w.buffer == MAP_FAILED)
		err(2, "pipe");
	return w;
}

static void *watcher(void *arg)
{
	unsigned int me = (uintptr_t)arg, at = 0;
	unsigned int all = nr_changers + nr_pingers;
	struct walker walker = new_walker(me);
	uint64_t turn = 0, place, round = 0;
	struct group *g;

	for (; !atomic_load(&done); round++) {
		if (!(round % 64) && this_turn() != turn) {
			turn = this_turn();
			/*
			 * Changers are on the CPUs from @turn on, those that stare on the
			 * next ones.
			 */
			place = me + (uint64_t)nr_watchers * all - turn % nr_watchers - all;
			place %= nr_watchers;
			if (place >= on_duty) {
				usleep(1000);
				turn = 0;
				round--;
				continue;
			}
			at = (place + turn / nr_watchers) % all;
			pin(cpus[me]);
		}
		g = atomic_load(&changers[at].current);
		for (size_t i = 0; g && i < g->slots; i++) {
			if (g->slot[i].kind == WALK)
				judge_walk(&g->slot[i], &walker, me);
			else if (g->slot[i].kind == KERNEL)
				judge_filter(&g->slot[i], me);
			else
				judge(&g->slot[i], me, round);
		}
	}
	return NULL;
}

/* CHANGERS: what all kinds need */

static void *map(void *where, size_t size, int flags, int fd, off_t offset)
{
	void *p = mmap(where, size, PROT_READ | PROT_WRITE, flags, fd, offset);

	if (p == MAP_FAILED)
		err(2, "mmap of %zu bytes", size);
	return p;
}

static char *map_anonymous(char *where, size_t size)
{
	return map(where, size, MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);
}

static void must(int failed, const char *what)
{
	if (failed)
		err(2, "%s", what);
}

/*
 * A place of its own in the address space, whose page tables are used for nothing else. It
 * starts in the middle of a table where that does no harm, each one elsewhere, because
 * pages that share their lowest bits push one another out of a TLB.
 */
static char *new_place(void)
{
	uint64_t n = atomic_fetch_add(&next_slot, 1);

	return (char *)(FIRST_SLOT + n * 2 * TOP + n % 8 * 64 * PAGE);
}

static char *new_aligned_place(void)
{
	return (char *)(FIRST_SLOT + atomic_fetch_add(&next_slot, 1) * 2 * TOP);
}

static struct slot *add_slot(struct group *g, enum kind of, char *base, size_t pages,
			     size_t stride)
{
	struct slot *s = &g->slot[g->slots];

	s->kind = of;
	s->base = base;
	s->pages = pages;
	s->stride = stride;
	s->seq = 1;
	for (unsigned int i = 0; i < nr_watchers; i++) {
		s->counts[i] = calloc(pages, sizeof(struct count));
		must(!s->counts[i], "calloc");
	}
	g->slots++;	/* and from now on it is looked at */
	return s;
}

static uint64_t new_value(void)
{
	return atomic_fetch_add(&next_value, 1);
}

/* From here to publish() watchers judge nothing. */
static void begin_change(struct slot *s)
{
	if (!(atomic_load(&s->seq) & 1))
		atomic_fetch_add(&s->seq, 1);
}

static void publish(struct slot *s, enum access allowed, uint64_t value)
{
	atomic_store(&s->access, allowed);
	atomic_store(&s->value, value);
	atomic_store(&s->contents, new_value());
	atomic_fetch_add(&s->seq, 1);
}

/* The pages are the same, and so are the counters in them. */
static void publish_access(struct slot *s, enum access access)
{
	atomic_store(&s->access, access);
	atomic_fetch_add(&s->seq, 1);
}

/* For what changes nothing that can be seen: watchers have to look again. */
static void publish_again(struct slot *s)
{
	atomic_fetch_add(&s->seq, 2);
}

/* Watchers of this slot on other CPUs that have judged what is published now */
static unsigned int seen_by(const struct changer *c, const struct slot *s)
{
	uint64_t seq = atomic_load(&s->seq);
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr_watchers; i++)
		n += cpus[i] != c->cpu && atomic_load(&s->seen[i]) == seq;
	return n;
}

/* Return: someone has seen what is published. */
static bool wait_for_watchers(const struct changer *c, const struct slot *s)
{
	uint64_t start = now(), first = 0, t;
	unsigned int n, all = nr_changers + nr_pingers, wanted = (on_duty + all - 1) / all;

	while ((n = seen_by(c, s)) < wanted && !atomic_load(&done)) {
		t = now();
		if (n && !first)
			first = t;
		if (t - start > WAIT_NS || (first && t - first > LINGER_NS))
			break;
		if (t - start > SPIN_NS)
			usleep(SPIN_NS / 1000);
	}
	return n > 0;
}

/* After publish(). A change is watched if both sides of it were. */
static void changed(const struct changer *c, struct slot *s)
{
	bool seen = wait_for_watchers(c, s);

	atomic_fetch_add(&changes[s->kind], 1);
	atomic_fetch_add(&watched[s->kind], seen && s->was_watched);
	s->was_watched = seen;
}

static void write_value(char *base, size_t pages, size_t stride, uint64_t value)
{
	for (size_t i = 0; i < pages; i++)
		*(volatile uint64_t *)(base + i * stride) = value;
}

/* Fresh pages with a new value at the slot's place, published but not yet watched */
static uint64_t fill_anew(struct slot *s)
{
	uint64_t value = new_value();

	write_value(s->base, s->pages, s->stride, value);
	publish(s, WRITE, value);
	return value;
}

/* CHANGERS: the kinds. Each function does one round of changes. */

static const size_t sizes[] = { 1, 8, 40 };
#define SIZES	(sizeof(sizes) / sizeof(*sizes))

static char *bank_of(struct group *g, size_t i, uint64_t bank)
{
	return g->alias + (2 * i + bank) * 64 * PAGE;
}

static uint64_t sum_of_counters(const char *bank, size_t pages)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < pages; i++)
		for (unsigned int w = 0; w < nr_watchers; w++)
			sum += ((volatile uint64_t *)(bank + i * PAGE + COUNTERS))[w];
	return sum;
}

static void remap(struct changer *c, struct group *g)
{
	uint64_t bank = g->round % 2, value, sum;

	if (!g->slots) {
		g->fd = memfd_create("banks", 0);
		must(g->fd < 0 || ftruncate(g->fd, 2 * SIZES * 64 * PAGE), "memfd");
		g->alias = map(NULL, 2 * SIZES * 64 * PAGE, MAP_SHARED | MAP_POPULATE, g->fd, 0);
		for (size_t i = 0; i < SIZES; i++)
			add_slot(g, REMAP, new_place(), sizes[i], PAGE);
	}
	for (size_t i = 0; i < SIZES; i++) {
		struct slot *s = &g->slot[i];
		char *fresh_bank = bank_of(g, i, bank), *old_bank = bank_of(g, i, !bank);

		value = new_value();
		memset(fresh_bank, 0, s->pages * PAGE);
		write_value(fresh_bank, s->pages, PAGE, value);
		begin_change(s);
		map(s->base, s->pages * PAGE,
		    MAP_SHARED | MAP_FIXED | (g->round & 2 ? MAP_POPULATE : 0), g->fd,
		    fresh_bank - g->alias);
		publish(s, WRITE, value);
		sum = sum_of_counters(old_bank, s->pages);
		changed(c, s);
		if (sum_of_counters(old_bank, s->pages) != sum)
			found_stale(s, "writes to pages that were not mapped", 0, sum,
				    sum_of_counters(old_bank, s->pages));
	}
}

static void unmap(struct changer *c, struct group *g)
{
	if (!g->slots)
		for (size_t i = 0; i < SIZES; i++)
			add_slot(g, UNMAP, new_place(), sizes[i], PAGE);
	for (size_t i = 0; i < SIZES; i++) {
		struct slot *s = &g->slot[i];

		begin_change(s);
		map_anonymous(s->base, s->pages * PAGE);
		fill_anew(s);
		changed(c, s);
		begin_change(s);
		must(munmap(s->base, s->pages * PAGE), "munmap");
		publish(s, NONE, 0);
		changed(c, s);
	}
}

/* Slots 0 and 1 are places of two pages, 2 and 3 of two pages that need the whole table. */
static void move(struct changer *c, struct group *g)
{
	size_t length[2] = { 2 * PAGE, HUGE };

	if (!g->slots)
		for (size_t i = 0; i < 4; i++) {
			char *base = i / 2 ? new_aligned_place() : new_place();
			struct slot *s = add_slot(g, MOVE, base, 2, length[i / 2] / 2);

			if (i % 2) {
				publish(s, NONE, 0);
				continue;
			}
			map_anonymous(s->base, length[i / 2]);
			madvise(s->base, length[i / 2], MADV_NOHUGEPAGE);
			fill_anew(s);
		}
	for (size_t i = 0; i < 2; i++) {
		struct slot *from = &g->slot[2 * i + g->round % 2];
		struct slot *to = &g->slot[2 * i + !(g->round % 2)];

		wait_for_watchers(c, from);
		begin_change(from);
		begin_change(to);
		must(mremap(from->base, length[i], length[i], MREMAP_MAYMOVE | MREMAP_FIXED,
			    to->base) == MAP_FAILED, "mremap");
		publish(to, WRITE, atomic_load(&from->value));
		publish(from, NONE, 0);
		changed(c, from);
		changed(c, to);
	}
}

static void protect(struct changer *c, struct group *g)
{
	static const struct { int prot; enum access access; } steps[] = {
		{ PROT_READ, READ }, { PROT_READ | PROT_WRITE, WRITE }, { PROT_NONE, NONE },
		{ PROT_READ, READ }, { PROT_READ | PROT_WRITE, WRITE },
	};

	if (!g->slots)
		for (size_t i = 0; i < SIZES; i++) {
			char *base = map_anonymous(new_place(), sizes[i] * PAGE);

			fill_anew(add_slot(g, PROTECT, base, sizes[i], PAGE));
		}
	for (size_t i = 0; i < SIZES; i++)
		for (size_t step = 0; step < sizeof(steps) / sizeof(*steps); step++) {
			struct slot *s = &g->slot[i];

			begin_change(s);
			must(mprotect(s->base, s->pages * PAGE, steps[step].prot), "mprotect");
			publish_access(s, steps[step].access);
			changed(c, s);
		}
}

/* The last slot is of a memfd. Counters that race with a drop go on in the zeroes. */
static void drop(struct changer *c, struct group *g)
{
	if (!g->slots) {
		for (size_t i = 0; i < SIZES; i++)
			add_slot(g, DROP, map_anonymous(new_place(), sizes[i] * PAGE), sizes[i],
				 PAGE);
		g->fd = memfd_create("holes", 0);
		must(g->fd < 0 || ftruncate(g->fd, 8 * PAGE), "memfd");
		add_slot(g, DROP, map(new_place(), 8 * PAGE, MAP_SHARED | MAP_FIXED, g->fd, 0), 8,
			 PAGE);
	}
	for (size_t i = 0; i < g->slots; i++) {
		struct slot *s = &g->slot[i];

		begin_change(s);
		fill_anew(s);
		changed(c, s);
		begin_change(s);
		must(madvise(s->base, s->pages * PAGE, i < SIZES ? MADV_DONTNEED : MADV_REMOVE),
		     "madvise to drop");
		publish(s, WRITE, 0);
		changed(c, s);
	}
}

static void page_out(struct changer *c, struct group *g)
{
	if (!g->slots)
		fill_anew(add_slot(g, PAGEOUT, map_anonymous(new_place(), 8 * PAGE), 8, PAGE));
	must(madvise(g->slot[0].base, 8 * PAGE, MADV_PAGEOUT), "madvise to page out");
	publish_again(&g->slot[0]);
	changed(c, &g->slot[0]);
}

/* Numbers of the frames that hold the slot's pages, 0 while there is none */
static void frames(const struct slot *s, uint64_t *frame)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);

	must(fd < 0, "/proc/self/pagemap");
	for (size_t i = 0; i < s->pages; i++) {
		off_t at = (uintptr_t)(s->base + i * s->stride) / PAGE * 8;

		must(pread(fd, &frame[i], 8, at) != 8, "read of pagemap");
		frame[i] = frame[i] >> 63 ? frame[i] & ((1ull << 55) - 1) : 0;
	}
	close(fd);
}

/*
 * Compaction moves pages from low frames to high ones. So that there is something to
 * move, the slot's pages are the few that remain of many. Counts moves of pages.
 */
static void migrate(struct changer *c, struct group *g)
{
	enum { KEPT = 8, APART = 33 };	/* odd: as for new_place() */
	uint64_t before[KEPT], after[KEPT];
	unsigned int moved = 0;
	struct slot *s = &g->slot[0];
	int fd = open("/proc/sys/vm/compact_memory", O_WRONLY);

	must(fd < 0, "/proc/sys/vm/compact_memory");
	if (!g->slots) {
		add_slot(g, MIGRATE, map_anonymous(new_place(), KEPT * APART * PAGE), KEPT,
			 APART * PAGE);
		madvise(s->base, KEPT * APART * PAGE, MADV_NOHUGEPAGE);
		must(madvise(s->base, KEPT * APART * PAGE, MADV_DONTFORK), "madvise");
	}
	begin_change(s);
	must(madvise(s->base, KEPT * APART * PAGE, MADV_DONTNEED), "madvise to drop");
	write_value(s->base, KEPT * APART, PAGE, 1);
	fill_anew(s);
	for (size_t i = 0; i < KEPT; i++)
		must(madvise(s->base + (i * APART + 1) * PAGE, (APART - 1) * PAGE, MADV_DONTNEED),
		     "madvise to drop");
	s->was_watched = wait_for_watchers(c, s);
	frames(s, before);
	must(write(fd, "1", 1) != 1, "write to compact_memory");
	publish_again(s);
	frames(s, after);
	for (size_t i = 0; i < KEPT; i++)
		moved += before[i] && after[i] && before[i] != after[i];
	if (moved)
		changed(c, s);
	close(fd);
}

/*
 * Slot 0 is a page that comes and goes, slot 1 some others of the same huge page. A
 * collapse may find pages that are just being used otherwise, so it may fail.
 */
static void huge(struct changer *c, struct group *g)
{
	struct slot *hole = &g->slot[0], *rest = &g->slot[1];
	char *base;

	if (!g->slots) {
		base = new_aligned_place();
		add_slot(g, HUGE_PAGE, base + PAGE, 1, PAGE);
		add_slot(g, HUGE_PAGE, base, 8, HUGE / 8);
	}
	base = rest->base;
	begin_change(hole);
	begin_change(rest);
	map_anonymous(base, HUGE);
	must(madvise(base, HUGE, MADV_HUGEPAGE) || madvise(base, HUGE, MADV_DONTFORK),
	     "madvise for a huge page");
	fill_anew(rest);
	fill_anew(hole);
	changed(c, rest);
	changed(c, hole);

	begin_change(hole);
	if (g->round % 2) {
		must(munmap(hole->base, PAGE), "munmap");
		publish(hole, NONE, 0);
	} else {
		must(madvise(hole->base, PAGE, MADV_DONTNEED), "madvise to drop");
		publish(hole, WRITE, 0);
	}
	changed(c, hole);
	publish_again(rest);
	changed(c, rest);
	if (g->round % 2)
		return;

	begin_change(hole);
	fill_anew(hole);
	changed(c, hole);
	if (!madvise(base, HUGE, MADV_COLLAPSE)) {
		publish_again(rest);
		publish_again(hole);
		changed(c, rest);
		changed(c, hole);
	}
	begin_change(rest);
	begin_change(hole);
	must(mprotect(base, HUGE, PROT_READ), "mprotect");
	publish_access(rest, READ);
	publish_access(hole, READ);
	changed(c, rest);
}

/*
 * The child runs on the CPU of the changer, so that no other CPU changes its address
 * space meanwhile. Page 0 of alias is how they talk: word 0 is the step, 1 to 3
 * what was wrong.
 */
#define FORK_PAGES	4

static void child_found(volatile uint64_t *talk, uint64_t want, uint64_t got)
{
	talk[2] = want;
	talk[3] = got;
	talk[1] = 1;
}

static void child(const struct slot *s, uint64_t value, volatile uint64_t *talk)
{
	uint64_t sum = sum_of_counters(s->base, FORK_PAGES), start = now();

	talk[0] = 1;
	do {
		for (size_t i = 0; i < FORK_PAGES; i++)
			if (*(volatile uint64_t *)(s->base + i * PAGE) != value)
				child_found(talk, value,
					    *(volatile uint64_t *)(s->base + i * PAGE));
		if (sum_of_counters(s->base, FORK_PAGES) != sum)
			child_found(talk, sum, sum_of_counters(s->base, FORK_PAGES));
		if (now() - start > 300000) {
			if (talk[0] == 1)
				talk[0] = 2;
			sched_yield();
		}
	} while (talk[0] != 3);
	write_value(s->base, FORK_PAGES, PAGE, ~value);
	_exit(0);
}

static void fork_it(struct changer *c, struct group *g)
{
	struct slot *s = &g->slot[0];
	volatile uint64_t *talk;
	int status;
	pid_t pid;

	if (!g->slots) {
		add_slot(g, FORK, map_anonymous(new_place(), FORK_PAGES * PAGE), FORK_PAGES, PAGE);
		g->alias = map(NULL, PAGE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		fill_anew(s);
	}
	talk = (void *)g->alias;
	memset((void *)talk, 0, PAGE);
	s->was_watched = wait_for_watchers(c, s);
	pid = _Fork();
	must(pid < 0, "fork");
	if (!pid)
		child(s, atomic_load(&s->value), talk);
	while (talk[0] != 2 && !waitpid(pid, &status, WNOHANG))
		sched_yield();
	begin_change(s);
	fill_anew(s);
	changed(c, s);
	talk[0] = 3;
	publish_again(s);
	wait_for_watchers(c, s);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (talk[1])
		found_stale(s, "a child saw what was written after it was made", 0, talk[2],
			    talk[3]);
	else if (status)
		errx(2, "a child ended with status %#x", status);
}

/* What started anew finds out about itself, on each CPU: 0, or what was wrong */
static int started_anew(char *place)
{
	uint64_t got = 0;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		pin(cpu);
		if (fresh != FRESH || load(place, &got))
			return 10;
		map_anonymous(place, PAGE);
		if (!load(place, &got) || got || !store(place, cpu))
			return 11;
		must(munmap(place, PAGE), "munmap");
		if (load(place, &got))
			return 12;
	}
	return 0;
}

static void exec(struct changer *c, struct group *g)
{
	struct slot *s = &g->slot[0];
	char place[32];
	char *argv[] = { "tlb-oracle", "-x", place, NULL }, *environ[] = { NULL };
	int status, failed;
	cpu_set_t all;
	pid_t pid;

	if (!g->slots)
		fill_anew(add_slot(g, EXEC, map_anonymous(new_place(), PAGE), 1, PAGE));
	s->was_watched = wait_for_watchers(c, s);
	CPU_ZERO(&all);
	for (unsigned int i = 0; i < nr_watchers; i++)
		CPU_SET(cpus[i], &all);
	sched_setaffinity(0, sizeof(all), &all);
	snprintf(place, sizeof(place), "%p", (void *)s->base);
	failed = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);
	if (failed)
		errx(2, "exec: %s", strerror(failed));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	pin(c->cpu);
	if (WIFEXITED(status) && WEXITSTATUS(status) >= 10)
		found_stale(s, "a new program saw its parent's pages", 0, 0, WEXITSTATUS(status));
	else if (status)
		errx(2, "a new program ended with status %#x", status);
	publish_again(s);
	changed(c, s);
}

/*
 * Read as a page table: present pages, writable by users, used and written, in frames
 * that no machine has. Whoever walks here faults in the array of struct page.
 */
static void lay_bait(uint64_t *pool, size_t size)
{
	for (size_t i = 0; i < size / sizeof(*pool); i++)
		pool[i] = (0x100000000ull + i) << 12 | 0x67;
}

/* The slot lies across the border of two page tables, which go with their upper table. */
static void walk(struct changer *c, struct group *g)
{
	struct slot *s = &g->slot[0];
	enum { POOL = 24 * PAGE };

	if (!g->slots) {
		add_slot(g, WALK, new_aligned_place() + HUGE - WALK_PAGES / 2 * PAGE, WALK_PAGES,
			 PAGE);
		g->alias = map_anonymous(NULL, POOL);
	}
	begin_change(s);
	map_anonymous(s->base, s->pages * PAGE);
	fill_anew(s);
	changed(c, s);
	must(madvise(g->alias, POOL, MADV_DONTNEED), "madvise to drop");
	begin_change(s);
	must(munmap(s->base, s->pages * PAGE), "munmap");
	publish(s, NONE, 0);
	lay_bait((uint64_t *)g->alias, POOL);
	changed(c, s);
}

static void filter(struct changer *c, struct group *g)
{
	uint64_t length = 8 + g->round % 64;
	struct sock_filter keep = BPF_STMT(BPF_RET | BPF_K, length);
	struct sock_fprog program = { .len = 1, .filter = &keep };
	struct slot *s = &g->slot[0];

	if (!g->slots) {
		for (unsigned int i = 0; i < nr_watchers; i++)
			must(socketpair(AF_UNIX, SOCK_DGRAM, 0, s->sockets[i]), "socketpair");
		add_slot(g, KERNEL, NULL, 1, PAGE);
	}
	begin_change(s);
	for (unsigned int i = 0; i < nr_watchers; i++)
		must(setsockopt(s->sockets[i][1], SOL_SOCKET, SO_ATTACH_FILTER, &program,
				sizeof(program)),
		     "attach a socket filter");
	publish(s, WRITE, length);
	changed(c, s);
}

/* Not one by one: a thousand of these take as long as a few that are watched. */
static void ping(struct changer *c, struct group *g)
{
	enum { TIMES = 64 };
	struct slot *s = &g->slot[0];

	(void)c;
	if (!g->slots)
		add_slot(g, PING, map_anonymous(new_place(), PAGE), 1, PAGE);
	for (int i = 0; i < TIMES && !atomic_load(&done); i++) {
		begin_change(s);
		fill_anew(s);
		begin_change(s);
		must(madvise(s->base, PAGE, MADV_DONTNEED), "madvise to drop");
		publish(s, WRITE, 0);
	}
	atomic_fetch_add(&changes[PING], TIMES);
}

static void (*const round_of[KINDS])(struct changer *c, struct group *g) = {
	[REMAP] = remap, [UNMAP] = unmap, [MOVE] = move, [PROTECT] = protect, [DROP] = drop,
	[PAGEOUT] = page_out, [MIGRATE] = migrate, [HUGE_PAGE] = huge, [FORK] = fork_it,
	[EXEC] = exec, [WALK] = walk, [KERNEL] = filter, [PING] = ping,
};

static void *changer(void *arg)
{
	struct changer *c = arg;
	enum kind kind = (c - changers) * KINDS / nr_changers;
	struct group *g;
	uint64_t until;

	for (; !atomic_load(&done); kind = (kind + 1) % KINDS) {
		if (c->pings)
			kind = PING;
		if (!kinds[kind])
			continue;
		c->cpu = cpus[(c - changers + this_turn()) % nr_watchers];
		pin(c->cpu);
		g = &c->group[kind];
		until = now() + TURN_NS;
		atomic_store(&c->current, g);
		do {
			round_of[kind](c, g);
			g->round++;
		} while (now() < until && !atomic_load(&done));
	}
	return NULL;
}

/* THE PROGRAM */

static bool can_collapse(void)
{
	char *p = map_anonymous(NULL, 2 * HUGE);
	char *aligned = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
	bool can;

	*aligned = 1;
	can = !madvise(aligned, HUGE, MADV_COLLAPSE);
	munmap(p, 2 * HUGE);
	return can;
}

static bool can_swap(void)
{
	char line[256];
	FILE *f = fopen("/proc/swaps", "r");
	int lines = 0;

	while (f && fgets(line, sizeof(line), f))
		lines++;
	if (f)
		fclose(f);
	return lines > 1;
}

static bool can(enum kind kind)
{
	switch (kind) {
	case PAGEOUT: return can_swap();
	case MIGRATE: return !access("/proc/sys/vm/compact_memory", W_OK);
	case HUGE_PAGE: return can_collapse();
	default: return true;
	}
}

static void choose_kinds(char *list)
{
	for (char *name = list ? strtok(list, ",") : NULL; name; name = strtok(NULL, ",")) {
		enum kind kind = 0;

		while (kind < KINDS && strcmp(name, kind_names[kind]))
			kind++;
		if (kind == KINDS)
			errx(2, "unknown kind '%s'", name);
		if (!can(kind))
			errx(2, "%s: this kernel, or what was set up for it, cannot do that", name);
		kinds[kind] = true;
	}
	for (enum kind kind = 0; !list && kind < KINDS; kind++)
		kinds[kind] = can(kind);
}

static void find_cpus(void)
{
	cpu_set_t set;

	must(sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity");
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE && nr_watchers < MAX_CPUS; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[nr_watchers++] = cpu;
	if (nr_watchers < 2)
		errx(2, "with one CPU there is nobody to watch");
}

static unsigned long number(const char *text, unsigned long max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || end == text || n > max)
		errx(2, "'%s' is not a number from 0 to %lu", text, max);
	return n;
}

static void print_figures(double seconds)
{
	uint64_t all_changes = 0, all_judged = 0;

	printf("tlb-oracle:");
	for (enum kind kind = 0; kind < KINDS; kind++) {
		if (kinds[kind])
			printf(" %s=%llu/%llu/%llu", kind_names[kind],
			       (unsigned long long)changes[kind],
			       (unsigned long long)watched[kind],
			       (unsigned long long)judged[kind]);
		all_changes += changes[kind];
		all_judged += judged[kind];
	}
	printf(" changes=%llu checks=%llu stale=%d seconds=%.1f\n", (unsigned long long)all_changes,
	       (unsigned long long)all_judged, stale, seconds);
}

/* Of ping, which nobody waits for, the changes count. */
static bool enough(uint64_t wanted)
{
	for (enum kind kind = 0; kind < KINDS; kind++) {
		uint64_t have = kind == PING ? changes[kind] : watched[kind];

		if (!kinds[kind] || (have >= wanted && judged[kind] >= wanted))
			continue;
		printf("tlb-oracle: too little of %s: watched=%llu judged=%llu, wanted %llu\n",
		       kind_names[kind], (unsigned long long)have, (unsigned long long)judged[kind],
		       (unsigned long long)wanted);
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	unsigned long seconds = 5, wanted = 0;
	pthread_t threads[3 * MAX_CPUS];
	char *list = NULL;
	uint64_t start;
	int opt, n = 0;

	catch_faults();
	while ((opt = getopt(argc, argv, "t:k:f:p:s:w:x:")) != -1) {
		switch (opt) {
		case 't': seconds = number(optarg, 86400); break;
		case 'k': list = optarg; break;
		case 'f': nr_changers = number(optarg, MAX_CPUS); break;
		case 'p': nr_pingers = number(optarg, MAX_CPUS); break;
		case 's': on_duty = number(optarg, MAX_CPUS); break;
		case 'w': wanted = number(optarg, 1000000000); break;
		case 'x': return started_anew((char *)strtoul(optarg, NULL, 0));
		default:
			errx(2, "usage: tlb-oracle [-t seconds] [-k kinds] [-f changers] [-p pingers] [-s staring] [-w watched]");
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	fresh = ~FRESH;
	find_cpus();
	choose_kinds(list);
	if (!nr_changers)
		nr_changers = (nr_watchers + 3) / 4;
	if (nr_changers > nr_watchers)
		nr_changers = nr_watchers;
	if (!on_duty)
		on_duty = (nr_watchers + 1) / 2;
	start = now();
	for (uintptr_t i = 0; i < nr_watchers; i++)
		must(pthread_create(&threads[n++], NULL, watcher, (void *)i), "pthread_create");
	kinds[PING] |= nr_pingers;
	for (unsigned int i = 0; i < nr_changers + nr_pingers; i++) {
		changers[i].pings = i >= nr_changers;
		must(pthread_create(&threads[n++], NULL, changer, &changers[i]), "pthread_create");
	}
	while (!atomic_load(&done) && now() - start < seconds * 1000000000ull)
		usleep(10000);
	atomic_store(&done, true);
	while (n)
		pthread_join(threads[--n], NULL);
	print_figures((now() - start) / 1e9);
	if (stale)
		return 1;
	return enough(wanted) ? 0 : 3;
}
