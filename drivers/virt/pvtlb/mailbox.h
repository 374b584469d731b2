/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The mailbox, for the backends that interrupt. The protocol is described in
 * mailbox.c.
 */
#ifndef _PVTLB_MAILBOX_H
#define _PVTLB_MAILBOX_H

#include <linux/timex.h>
#include <linux/types.h>

struct pvtlb_request;

/**
 * struct pvtlb_mailbox_host - what a hypervisor can do for a flush by mailbox
 * @leave:       is the target's flush left to the host? If true, the host flushes
 *               it before it runs again. Full barrier before the decision
 * @yield:       ask the host to run the target now. Decides for itself
 *               whether that is worth it, and says if it did ask
 * @wake:        end the halt of an initiator. Called in the handler, interrupts off
 * @yield_after: how long to wait for one target before @yield is tried
 * @halt_after:  how long to wait before halting until the target wakes us
 *
 * Times are in units of get_cycles(), ULONG_MAX for never.
 */
struct pvtlb_mailbox_host {
	bool		(*leave)(unsigned int target);
	bool		(*yield)(unsigned int target);
	void		(*wake)(unsigned int initiator);
	cycles_t	yield_after;
	cycles_t	halt_after;
};

void pvtlb_init_mailbox(void);
void pvtlb_mailbox_flush(struct pvtlb_request *req, const struct pvtlb_mailbox_host *host);

#endif /* _PVTLB_MAILBOX_H */
