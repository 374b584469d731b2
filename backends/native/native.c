// SPDX-License-Identifier: GPL-2.0-only
/*
 * native: interrupt every target and wait until it has flushed. Works everywhere,
 * and is what the kvm backend is without the host's help.
 */
#include <linux/string.h>

#include <asm/cpufeature.h>

#include "internal.h"
#include "mailbox.h"

static int native_probe(struct pvtlb_probe *probe)
{
	probe->advised = boot_cpu_has(X86_FEATURE_HYPERVISOR);
	if (!probe->advised)
		strscpy(probe->reason, "no hypervisor: the in-tree code does the same",
			sizeof(probe->reason));
	return 0;
}

static int native_flush(struct pvtlb_request *req)
{
	pvtlb_mailbox_flush(req, NULL);
	return 0;
}

const struct pvtlb_backend pvtlb_native = {
	.name	= "native",
	.what	= "interprocessor interrupts",
	.probe	= native_probe,
	.flush	= native_flush,
};
