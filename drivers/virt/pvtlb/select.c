// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which backend, and when it changes: at boot, by the user, around suspend and
 * kexec, and when one keeps failing.
 */
#define pr_fmt(fmt) "pvtlb: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/ratelimit.h>
#include <linux/reboot.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include <trace/events/pvtlb.h>

#include "internal.h"

#define SLOT(_name, option) {						\
	.name	= #_name,						\
	.ops	= PTR_IF(IS_ENABLED(option), &pvtlb_##_name),		\
	.err	= -ENODEV,						\
}

/*
 * In the order of auto, which takes the first that works here and advises
 * itself:
 *
 *  - Xen before Hyper-V, because Xen can show Hyper-V's interface too, and its
 *    own is the better one; Hyper-V before KVM for the same reason.
 *  - native after all that know their hypervisor. It always works, and advises
 *    itself only in a guest: on bare metal it would only add to the in-tree
 *    code.
 *  - upstream last, and only by name: it is there to compare with.
 */
static struct pvtlb_slot slots[] = {
	SLOT(xen,	CONFIG_PVTLB_XEN),
	SLOT(hyperv,	CONFIG_PVTLB_HYPERV),
	SLOT(kvm,	CONFIG_PVTLB_KVM),
	SLOT(native,	CONFIG_PVTLB),
	SLOT(upstream,	CONFIG_PVTLB),
};

#define NR_SLOTS	((int)ARRAY_SIZE(slots))
#define SLOT_NATIVE	(NR_SLOTS - 2)
#define SLOT_OFF	(-1)

/* Flushes in a row that a backend may fail before it is left. */
#define MAX_FAILURES	16

static DEFINE_MUTEX(lock);	/* all below, and slots[] */
static int active = SLOT_OFF;
static int suspended = SLOT_OFF;	/* active before the system went to sleep */
static char reason[96] = "it has not started yet";

static const char *name_of(int slot)
{
	return slot == SLOT_OFF ? "off" : slots[slot].name;
}

/**
 * pvtlb_parse() - understand what a user asked for
 * @slots: the table
 * @nr:    its length
 * @arg:   a name, with or without a newline at its end
 *
 * Return: the number of a slot, PVTLB_WANT_AUTO, PVTLB_WANT_OFF, or -EINVAL.
 */
int pvtlb_parse(const struct pvtlb_slot *slots, int nr, const char *arg)
{
	int i;

	if (sysfs_streq(arg, "auto"))
		return PVTLB_WANT_AUTO;
	if (sysfs_streq(arg, "off"))
		return PVTLB_WANT_OFF;
	for (i = 0; i < nr; i++)
		if (sysfs_streq(arg, slots[i].name))
			return i;
	return -EINVAL;
}

/**
 * pvtlb_pick() - what auto means, after probing
 * @slots: the table
 * @nr:    its length
 *
 * Return: the number of a slot, or -ENODEV when none is advised here.
 */
int pvtlb_pick(const struct pvtlb_slot *slots, int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		if (!slots[i].err && slots[i].probe.advised && !slots[i].failed)
			return i;
	return -ENODEV;
}

static int probe(int slot)
{
	struct pvtlb_slot *s = &slots[slot];

	s->probe = (struct pvtlb_probe) { .advised = true };
	if (s->ops) {
		s->err = s->ops->probe(&s->probe);
	} else {
		s->err = -ENODEV;
		strscpy(s->probe.reason, "not built into this kernel", sizeof(s->probe.reason));
	}
	return s->err;
}

static void probe_all(void)
{
	int i;

	for (i = 0; i < NR_SLOTS; i++)
		probe(i);
}

static void refuse(int slot)
{
	trace_pvtlb_backend("refused", name_of(slot), name_of(active), slots[slot].probe.reason);
}

static void stop_active(void)
{
	if (active == SLOT_OFF)
		return;
	pvtlb_stop();
	if (slots[active].ops->leave)
		slots[active].ops->leave();
	active = SLOT_OFF;
}

static int start(int slot)
{
	const struct pvtlb_backend *ops = slots[slot].ops;
	int err = ops->enter ? ops->enter() : 0;

	if (err)
		return err;
	active = slot;
	pvtlb_start(ops);
	return 0;
}

/*
 * Change to a probed slot or to SLOT_OFF. On failure the old one is back, or
 * nothing is active, which is the in-tree code.
 */
static int change(int slot, const char *action, const char *why)
{
	int previous = active, err = 0;

	lockdep_assert_held(&lock);

	stop_active();
	if (slot != SLOT_OFF)
		err = start(slot);
	if (err && previous != SLOT_OFF && start(previous))
		strscpy(reason, "the previous backend could not be entered again", sizeof(reason));
	if (err)
		return err;

	strscpy(reason, why, sizeof(reason));
	trace_pvtlb_backend(action, name_of(active), name_of(previous), why);
	return 0;
}

static int change_to_auto(const char *action, const char *why)
{
	int slot;

	probe_all();
	slot = pvtlb_pick(slots, NR_SLOTS);
	if (slot < 0)
		return change(SLOT_OFF, action, "no hypervisor was found (pvtlb=native takes it all the same)");
	return change(slot, action, why);
}

/**
 * pvtlb_choose() - do what a user asks for at run time
 * @arg: a name, as on the command line
 *
 * Context: process context, may sleep.
 * Return: 0; -EINVAL for a name that is none; -ENODEV and the like when it does
 *         not work here. After an error the old backend goes on.
 */
int pvtlb_choose(const char *arg)
{
	int err, slot = pvtlb_parse(slots, NR_SLOTS, arg);

	if (slot < 0)
		return slot;

	mutex_lock(&lock);
	err = pvtlb_init_cpus();
	if (err)
		goto out;

	switch (slot) {
	case PVTLB_WANT_AUTO:
		err = change_to_auto("switched", "auto, by sysfs");
		break;
	case PVTLB_WANT_OFF:
		err = change(SLOT_OFF, "switched", "of sysfs");
		break;
	default:
		err = probe(slot);
		if (err) {
			refuse(slot);
			pr_notice("%s is not available here: %s\n", name_of(slot), slots[slot].probe.reason);
			break;
		}
		slots[slot].failed = false;
		err = change(slot, "switched", "sysfs");
	}
	if (!err)
		suspended = SLOT_OFF;
out:
	mutex_unlock(&lock);
	return err;
}

/*
 * Flushes in a row that failed, of the active backend, on all CPUs. Only a
 * threshold: counts lost to races between CPUs do no harm.
 */
static atomic_t failures = ATOMIC_INIT(0);

static void demote(struct work_struct *work)
{
	char why[sizeof(reason)];
	int from, to, err;

	mutex_lock(&lock);
	from = active;
	if (from == SLOT_OFF || from == SLOT_NATIVE || atomic_read(&failures) < MAX_FAILURES)
		goto out;

	slots[from].failed = true;
	to = pvtlb_pick(slots, NR_SLOTS);
	if (to < 0)
		to = SLOT_NATIVE;
	snprintf(why, sizeof(why), "%s failed %u flushes in a row", name_of(from), MAX_FAILURES);
	err = change(to, "demoted", why);
	if (err) {
		pr_err("%s, and %s cannot be entered (%d)\n", why, name_of(to), err);
		goto out;
	}
	pvtlb_count(PVTLB_STAT_demotions, 1);
	pr_warn("%s: left for %s; write %s to /sys/kernel/pvtlb/backend to try it again\n",
		why, name_of(to), name_of(from));
out:
	atomic_set(&failures, 0);
	mutex_unlock(&lock);
}

static DECLARE_WORK(demote_work, demote);

/**
 * pvtlb_backend_worked() - note a flush that the active backend did
 *
 * Context: any.
 */
void pvtlb_backend_worked(void)
{
	if (unlikely(atomic_read(&failures)))
		atomic_set(&failures, 0);
}

/**
 * pvtlb_backend_failed() - note a flush that the active backend could not do
 * @name: the backend
 * @err:  its -errno
 *
 * The flush itself is done, by interrupts.
 *
 * Context: any but NMI.
 */
void pvtlb_backend_failed(const char *name, int err)
{
	pr_warn_ratelimited("%s: a flush failed (%d) and was done by interrupts\n", name, err);
	if (atomic_inc_return(&failures) >= MAX_FAILURES)
		schedule_work(&demote_work);
}

int pvtlb_show_backend(char *buf)
{
	return sysfs_emit(buf, "%s\n", name_of(READ_ONCE(active)));
}

int pvtlb_show_reason(char *buf)
{
	int len;

	mutex_lock(&lock);
	len = sysfs_emit(buf, "%s\n", reason);
	mutex_unlock(&lock);
	return len;
}

static int list_available(char *buf, size_t size, const char *separator, int except)
{
	int i, len = 0;

	buf[0] = '\0';
	for (i = 0; i < NR_SLOTS; i++)
		if (i != except && !slots[i].err)
			len += scnprintf(buf + len, size - len, "%s%s", len ? separator : "", slots[i].name);
	return len;
}

int pvtlb_show_available(char *buf)
{
	char names[NR_SLOTS * PVTLB_NAME_LEN];

	mutex_lock(&lock);
	list_available(names, sizeof(names), " ", SLOT_OFF);
	mutex_unlock(&lock);
	return sysfs_emit(buf, "%s\n", names);
}

/*
 * Sleep: what a backend stands on (hypercall page, steal time) goes away in
 * steps of other subsystems. Out of its way, and back through a new probe.
 */
static int sleep_notify(struct notifier_block *nb, unsigned long event, void *unused)
{
	mutex_lock(&lock);
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		suspended = active;
		if (active != SLOT_OFF)
			change(SLOT_OFF, "switched", "the system sleeps");
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		if (suspended != SLOT_OFF &&
		    (probe(suspended) || change(suspended, "switched", "the system woke up")))
			change_to_auto("switched", "auto, after sleep");
		suspended = SLOT_OFF;
		break;
	}
	mutex_unlock(&lock);
	return NOTIFY_OK;
}

static struct notifier_block sleep_nb = { .notifier_call = sleep_notify };

/* Before the notifiers that take steal time and hypercall pages down. */
static int reboot_notify(struct notifier_block *nb, unsigned long event, void *unused)
{
	mutex_lock(&lock);
	if (active != SLOT_OFF)
		change(SLOT_OFF, "switched", "the system goes down");
	mutex_unlock(&lock);
	return NOTIFY_OK;
}

static struct notifier_block reboot_nb = {
	.notifier_call	= reboot_notify,
	.priority	= INT_MAX,
};

static char wanted[32] __initdata = "auto";

static int __init pvtlb_setup(char *arg)
{
	if (!arg)
		return -EINVAL;
	strscpy(wanted, arg, sizeof(wanted));
	return 0;
}
early_param("pvtlb", pvtlb_setup);

/* The user's choice, or auto with one warning why not. */
static int __init select_at_boot(void)
{
	int i, slot = pvtlb_parse(slots, NR_SLOTS, wanted);

	probe_all();
	for (i = 0; i < NR_SLOTS; i++)
		if (slots[i].err)
			refuse(i);

	if (slot == PVTLB_WANT_OFF)
		return change(SLOT_OFF, "selected", "of pvtlb=off on the command line");
	if (slot == -EINVAL)
		pr_warn("pvtlb=%s is unknown: use off, auto, xen, hyperv, kvm, native or upstream; taking auto\n",
			wanted);
	else if (slot != PVTLB_WANT_AUTO && slots[slot].err)
		pr_warn("pvtlb=%s is not available here: %s; taking auto\n",
			wanted, slots[slot].probe.reason);
	else if (slot != PVTLB_WANT_AUTO)
		return change(slot, "selected", "command line");
	return change_to_auto("selected", "auto");
}

/*
 * After the CPUs are up and the hypervisor's own initcalls have run, before
 * drivers make much use of the TLB.
 */
static int __init pvtlb_init(void)
{
	char names[NR_SLOTS * PVTLB_NAME_LEN];
	int err;

	mutex_lock(&lock);
	if (pvtlb_init_cpus()) {
		strscpy(reason, "its memory could not be allocated", sizeof(reason));
	} else {
		err = select_at_boot();
		if (err)
			snprintf(reason, sizeof(reason), "the backend could not be entered (%d)", err);
	}
	list_available(names, sizeof(names), ", ", active);
	if (active == SLOT_OFF)
		pr_info("off, because %s; the in-tree mechanism runs; available: %s\n",
			reason, names[0] ? names : "none");
	else
		pr_info("%s: %s (%s; also available: %s)\n", name_of(active),
			slots[active].ops->what, reason, names);
	mutex_unlock(&lock);

	err = pvtlb_init_sysfs();
	if (err)
		pr_err("no /sys/kernel/pvtlb (%d): the choice made at boot stays\n", err);
	err = register_pm_notifier(&sleep_nb) ?: register_reboot_notifier(&reboot_nb);
	if (err) {
		pr_err("cannot follow sleep and reboot (%d): off\n", err);
		mutex_lock(&lock);
		change(SLOT_OFF, "switched", "it cannot follow sleep and reboot");
		mutex_unlock(&lock);
	}
	return err;
}
subsys_initcall_sync(pvtlb_init);
