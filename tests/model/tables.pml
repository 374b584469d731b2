/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page tables that are freed while they are walked, and flushed by the hypervisor,
 * which waits for no walker: rule 3 of include/linux/pvtlb.h, drop_lazy() in
 * drivers/virt/pvtlb/core.c, and patches 2 and 3 of integration/.
 *
 * WHAT IS MODELLED
 *
 *  - One entry that points to a table, and one entry in that. An initiator unmaps the
 *    page, or the page with its table, flushes, frees, and maps anew, ROUNDS times.
 *  - vCPU 0 walks the tables in software with interrupts off (get_user_pages_fast(),
 *    perf_get_page_size()). vCPU 1 is lazy, or switches to another mm, as it likes.
 *  - The hardware of both walks at any time that the vCPU runs, lazy or not, and keeps
 *    where the table is and what the translation was until it is flushed. A walk
 *    that a flush waits for is one that came before.
 *  - The host takes either vCPU off at any step, and a flush of it is put off until it
 *    is put back. Else it is flushed at once, whatever it has disabled.
 *  - Tables of a process are freed by RCU, the kernel's after an interrupt that every
 *    vCPU takes. What is freed is used for something else at once.
 *
 * Bounds: ROUNDS. What the vCPUs and the host do is not bounded.
 *
 * WHAT IS CHECKED, by assertions
 *
 *  (1) No table is walked, by software or hardware, that has been freed.
 *  (2) No freed page is used by a translation of a vCPU that is not lazy.
 *  (3) Nobody waits for ever: no invalid end state.
 *
 * TWINS: -DTWIN_x breaks one rule, and that must be found. See tests/model/run.
 */
#ifndef ROUNDS
#define ROUNDS		3
#endif
#define BIT(n)		(1 << (n))

bit kernel;				/* the tables are the kernel's */
byte pmd = 1, pte = 1;			/* the table and page mapped, 0 for none */
byte freed_tables, freed_pages;		/* bits */
byte mm_gen;

bit running[2] = 1, flush_put_off[2];
byte psc[2], tlb[2];			/* what the hardware has of the table and the page */

#define ACTIVE		0
#define LAZY		1
#define SWITCHING	2		/* no more lazy, not yet compared generations */
#define GONE		3		/* another mm is loaded */
byte state, local_gen;			/* of vCPU 1 */
bit is_lazy;

bit irqs_off, irr;			/* of vCPU 0 */
byte awaited;				/* bits: tables whose grace period waits for vCPU 0 */
bit finished;

inline flush(cpu)
{
	psc[cpu] = 0;
	tlb[cpu] = 0
}

#ifdef TWIN_LAZY_SKIPPED
#define DROPPED		(!kernel && is_lazy)
#else
#define DROPPED		(!kernel && is_lazy && !tables)
#endif

/* One target, by the hypervisor */
inline flush_remote(cpu)
{
	atomic {
		if
		:: cpu == 1 && !kernel && state == GONE
		:: cpu == 1 && DROPPED	/* drop_lazy() */
		:: else ->
			if
			:: running[cpu] -> flush(cpu)
			:: else -> flush_put_off[cpu] = 1
			fi
		fi
	}
}

inline free_table(id)
{
	freed_tables = freed_tables | BIT(id)
}

/* A region of RCU: interrupts off */
proctype tlb_remove_table_rcu(byte id)
{
#ifndef TWIN_TABLE_UNGRACED
	atomic {
		if
		:: irqs_off -> awaited = awaited | BIT(id)
		:: else
		fi
	};
	!(awaited & BIT(id));
#endif
	atomic { free_table(id) }
}

inline tlb_remove_table_sync_one()
{
#ifndef TWIN_KERNEL_UNSYNCED
	irr = 1;
	!irr
#else
	skip
#endif
}

proctype initiator()
{
	byte n, table, page, tables;

	do
	:: n < ROUNDS ->
		atomic {
			n++;
			page = pte;
			table = pmd;
			pte = 0;
			if
			:: pmd = 0; tables = 1
			:: true
			fi
		};
		mm_gen++;
#ifdef TWIN_TABLE_EARLY
		atomic { if :: tables -> free_table(table) :: else fi };
#endif
		flush_remote(0);
		flush_remote(1);
		freed_pages = freed_pages | BIT(page);
		if
		:: tables && !kernel -> run tlb_remove_table_rcu(table)
		:: tables && kernel -> tlb_remove_table_sync_one(); atomic { free_table(table) }
		:: !tables
		fi;
		atomic { tables = 0; pte = n + 1; if :: !pmd -> pmd = n + 1 :: else fi }
	:: n == ROUNDS -> finished = 1; break
	od
}

/* vCPU 0: a table that is found may be freed as soon as nothing holds that up. */
proctype get_user_pages_fast() provided (running[0])
{
	byte found;

end:	do
	:: atomic {
		!irqs_off && !finished ->
#ifndef TWIN_WALK_IRQS_ON
		irqs_off = 1;
#endif
		skip
	   };
		found = pmd;
		assert(!(freed_tables & BIT(found)));
		atomic { found = 0; irqs_off = 0; awaited = 0 }
	:: atomic { irr && !irqs_off -> irr = 0 }
	od
}

#define WALKS(cpu)	(running[cpu] && (cpu == 0 || kernel || state != GONE))

proctype hardware(byte cpu)
{
end:	do
	:: atomic { WALKS(cpu) && pmd && psc[cpu] != pmd && !psc[cpu] -> psc[cpu] = pmd }
	:: atomic {
		WALKS(cpu) && psc[cpu] ->
		assert(!(freed_tables & BIT(psc[cpu])));
		if
		:: psc[cpu] == pmd && pte && !tlb[cpu] -> tlb[cpu] = pte
		:: else
		fi
	   }
	:: atomic {
		running[cpu] && tlb[cpu] && (cpu == 0 || kernel || state == ACTIVE) ->
		assert(!(freed_pages & BIT(tlb[cpu])))
	   }
	od
}

/* switch_mm_irqs_off() of vCPU 1 */
proctype switch_mm() provided (running[1])
{
end:	do
	:: atomic { state == ACTIVE && !kernel -> state = LAZY; is_lazy = 1 }
	:: atomic { state == LAZY -> state = SWITCHING; is_lazy = 0 };
		atomic {
#ifndef TWIN_LAZY_UNCOMPARED
			if
			:: local_gen != mm_gen -> local_gen = mm_gen; flush(1)
			:: else
			fi;
#endif
			state = ACTIVE
		}
	:: atomic { state != SWITCHING && !kernel -> state = GONE; is_lazy = 0; flush(1) }
	:: atomic { state == GONE -> state = ACTIVE; local_gen = mm_gen }
	od
}

proctype host(byte cpu)
{
end:	do
	:: atomic { running[cpu] && !finished -> running[cpu] = 0 }
	:: atomic {
		!running[cpu] ->
		if
		:: flush_put_off[cpu] -> flush_put_off[cpu] = 0; flush(cpu)
		:: else
		fi;
		running[cpu] = 1
	   }
	od
}

init
{
	atomic {
		if
		:: kernel = 1
		:: true
		fi;
		run initiator();
		run get_user_pages_fast();
		run switch_mm();
		run hardware(0);
		run hardware(1);
		run host(0);
		run host(1)
	}
}
