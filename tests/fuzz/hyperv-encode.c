// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fuzz target for backends/hyperv/encode.c: put a flush into words, read the words as a
 * hypervisor does, by the TLFS, and look whether they say what was meant: each VP and
 * each address, no VP more, and nothing written beyond the input.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../backends/hyperv/private.h"

#define ROOM	190
#define CANARY	0xa5a5a5a5a5a5a5a5ull

#define demand(what) do {								\
	if (!(what)) {									\
		fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);	\
		abort();								\
	}										\
} while (0)

struct input {
	const uint8_t *data;
	size_t left;
};

static uint64_t take(struct input *in, unsigned int bytes)
{
	uint64_t n = 0;

	while (bytes-- && in->left) {
		n = n << 8 | *in->data++;
		in->left--;
	}
	return n;
}

/* What the words ask for */
struct decoded {
	bool in[4096];		/* the VPs */
	bool list;
	unsigned int reps;
	const u64 *gva;
};

static void decode(struct decoded *to, u64 control, const u64 *word, unsigned int words)
{
	unsigned int code = control & 0xffff, banks = control >> 17 & 0x3ff, used = 2, bank = 0;
	u64 mask;

	memset(to, 0, sizeof(*to));
	to->reps = control >> 32 & 0xfff;
	to->list = code == 0x3 || code == 0x14;
	demand(code == 0x2 || code == 0x3 || code == 0x13 || code == 0x14);
	demand(!(control & (0x1full << 27 | 0xfull << 44 | 0xfull << 60)));
	demand(to->list == !!to->reps);

	if (code < 0x10) {
		demand(!banks);
		mask = word[used++];
		demand(mask);			/* KVM: nobody means everybody */
		for (int vp = 0; vp < 64; vp++)
			to->in[vp] = mask >> vp & 1;
	} else {
		demand(word[used++] == 0);	/* HvGenericSetSparse4k */
		mask = word[used++];
		demand(banks == (unsigned int)__builtin_popcountll(mask));
		for (bank = 0; bank < 64; bank++) {
			if (!(mask >> bank & 1))
				continue;
			demand(word[used]);	/* an empty bank has no business there */
			for (int vp = 0; vp < 64; vp++)
				to->in[bank * 64 + vp] = word[used] >> vp & 1;
			used++;
		}
	}
	to->gva = word + used;
	demand(used + to->reps == words);
	demand(!(control & 1 << 16) || words <= 14);
}

static bool listed(const struct decoded *d, u64 addr, unsigned int shift)
{
	for (unsigned int i = 0; i < d->reps; i++) {
		u64 first = d->gva[i] >> 12, more = d->gva[i] & 0xfff;

		if (addr >> 12 >= first && addr >> 12 <= first + more)
			return true;
		/* An address in a large page flushes all of it. */
		if (shift > 12 && addr >> shift == first << 12 >> shift)
			return true;
	}
	return false;
}

static void check_addresses(const struct decoded *d, const struct pvtlb_hv_range *range,
			    struct input *in)
{
	u64 last = range->end - 1;

	if (!d->list)
		return;
	demand(listed(d, range->start, range->shift));
	if (last < range->start)
		return;
	demand(listed(d, last, range->shift));
	for (int i = 0; i < 8; i++)
		demand(listed(d, range->start + take(in, 8) % (last - range->start + 1 ?: 1),
			      range->shift));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned int shifts[] = { 12, 12, 21, 30 };
	struct input in = { data, size };
	unsigned int way = take(&in, 1), nr = take(&in, 1) % 80, calls, done = 0;
	const struct pvtlb_hv_ways ways = { .fast = way & 1, .slow = way & 2, .ex = way & 4 };
	struct pvtlb_hv_range range = { .shift = shifts[way >> 3 & 3] };
	static bool meant[4096];
	struct pvtlb_hv_vps vps;
	struct pvtlb_hv_form form;
	static struct decoded d;
	u64 input[ROOM + 2], control;
	unsigned int room = take(&in, 1) % ROOM + 1;

	range.start = take(&in, 8);
	range.end = way & 0x20 ? take(&in, 8) : range.start + take(&in, 3);
	memset(meant, 0, sizeof(meant));
	memset(&vps, 0xff, sizeof(vps));
	vps.mask = 0;
	while (nr--) {
		u32 vp = take(&in, way & 0x40 ? 1 : 2);

		if (way & 0x40)
			vp %= 64;
		demand(!pvtlb_hv_vps_add(&vps, vp) == (vp < 4096));
		if (vp < 4096)
			meant[vp] = true;
	}

	for (unsigned int i = 0; i < ROOM + 2; i++)
		input[i] = CANARY;
	if (pvtlb_hv_choose(&form, &ways, vps.mask,
			    way & 0x80 ? pvtlb_hv_entries(&range) : 0, room))
		return 0;
	pvtlb_hv_encode(input, &form, 0x1000, 0, &vps, &range);
	demand(form.words <= (form.fast ? 14 : room));
	demand(form.fast ? ways.fast : ways.slow);
	for (unsigned int i = (form.words + 1) & ~1u; i < ROOM + 2; i++)
		demand(input[i] == CANARY);

	control = pvtlb_hv_control(&form, 0);
	decode(&d, control, input, form.words);
	demand(!memcmp(d.in, meant, sizeof(meant)));
	check_addresses(&d, &range, &in);

	/* However a hypervisor answers, the call comes to an end. */
	for (calls = 0; pvtlb_hv_progress(take(&in, 6), form.reps, &done) > 0; calls++)
		demand(calls <= form.reps);
	return 0;
}
