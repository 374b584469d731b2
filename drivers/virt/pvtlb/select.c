// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which backend, and when it changes: at boot, by the user, around sleep and
 * reboot, and when one keeps failing.
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
#include "mailbox.h"

#define SLOT(_name, _ops, option) {					\
	.name	= _name,						\
	.ops	= PTR_IF(IS_ENABLED(option), &(_ops)),			\
	.err	= -ENODEV,						\
}

/*
 * In the order of auto, which takes the first that works here and advises
 * itself:
 *
 *  - Those that know their hypervisor. Those of Xen exclude one another;
 *    where a hypervisor shows another's interface beside its own, its own is
 *    meant for Linux and comes first: Xen can show Hyper-V's, and so can KVM.
 *    There both were measured (bench/cases, kvm+hyperv): hyperv made 0.7 times the
 *    flushes of kvm where targets run (pair, many), 0.7 beside spinning
 *    threads (spin), and as many where targets flush or sleep (flush4, idle). And it
 *    takes KVM's own hypercalls away from the rest of the kernel.
 *  - native works everywhere. It advises itself in any guest, where a few
 *    counters are a fair price for seeing every flush; not on bare metal.
 *  - upstream only by name: it is there to compare with.
 */
static struct pvtlb_slot slots[] = {
	SLOT("xen",	 pvtlb_xen,	 CONFIG_PVTLB_XEN),
	SLOT("xen-hvm",	 pvtlb_xen_hvm,	 CONFIG_PVTLB_XEN_HVM),
	SLOT("kvm",	 pvtlb_kvm,	 CONFIG_PVTLB_KVM),
	SLOT("hyperv",	 pvtlb_hyperv,	 CONFIG_PVTLB_HYPERV),
	SLOT("native",	 pvtlb_native,	 CONFIG_PVTLB),
	SLOT("upstream", pvtlb_upstream, CONFIG_PVTLB),
};

#define NR_SLOTS	((int)ARRAY_SIZE(slots))
#define SLOT_OFF	(-1)

static DEFINE_MUTEX(lock);	/* protects all below, and slots[] */
static int active = SLOT_OFF;
static char reason[96] = "it has not started yet";
static int sleeping;		/* how many sleep transitions are under way */
static int before_sleep = SLOT_OFF;

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

static void refuse(int slot)
{
	trace_pvtlb_backend("refused", name_of(slot), name_of(active), slots[slot].probe.reason);
}

static void leave(int slot)
{
	if (slot == SLOT_OFF)
		return;
	pvtlb_stop();
	if (slots[slot].ops->leave)
		slots[slot].ops->leave();
}

static int enter(int slot)
{
	int err = 0;

	if (slot == SLOT_OFF)
		return 0;
	if (slots[slot].ops->enter)
		err = slots[slot].ops->enter();
	if (!err)
		pvtlb_start(slots[slot].ops);
	return err;
}

/*
 * Change to a slot whose probe said yes, or to SLOT_OFF. One that cannot be
 * entered all the same leaves the old one active, or the in-tree code if that
 * cannot be entered again either.
 */
static int change(int slot, const char *action, const char *why)
{
	int previous = active, now = slot, err;

	lockdep_assert_held(&lock);

	leave(previous);
	err = enter(now);
	if (err) {
		pr_warn("%s cannot be entered (%d)\n", name_of(slot), err);
		slots[slot].err = err;
		action = "refused";
		why = "it could not be entered";
		now = enter(previous) ? SLOT_OFF : previous;
	}
	WRITE_ONCE(active, now);

	/* What is active on as before keeps its reason. */
	if (!err || now != previous)
		strscpy(reason, why, sizeof(reason));
	trace_pvtlb_backend(action, name_of(slot), name_of(previous), why);
	return err;
}

static void probe_all(void)
{
	int i;

	for (i = 0; i < NR_SLOTS; i++)
		if (probe(i))
			refuse(i);
}

/* After probe_all(). One that cannot be entered has an error in its slot from then on. */
static void change_to_auto(const char *action, const char *why)
{
	int slot;

	do {
		slot = pvtlb_pick(slots, NR_SLOTS);
	} while (slot >= 0 && change(slot, action, why));
	if (slot < 0)
		change(SLOT_OFF, action,
		       "no hypervisor was found (pvtlb=native takes it all the same)");
}

static int change_by_name(int slot)
{
	int err = probe(slot);

	if (err) {
		refuse(slot);
		pr_notice("%s is not available here: %s\n",
			  name_of(slot), slots[slot].probe.reason);
		return err;
	}
	slots[slot].failed = false;
	return change(slot, "switched", "sysfs");
}

/**
 * pvtlb_choose() - do what a user asks for at run time
 * @arg: a name, as on the command line
 *
 * Context: process context, may sleep.
 * Return: 0; -EINVAL for a name that is none, -ENODEV when it does not work
 *         here, -ENOMEM, or -EBUSY while the system goes to sleep. After an
 *         error the old backend goes on.
 */
int pvtlb_choose(const char *arg)
{
	int slot = pvtlb_parse(slots, NR_SLOTS, arg);
	int err;

	if (slot < 0)
		return slot;

	mutex_lock(&lock);
	err = sleeping ? -EBUSY : pvtlb_init_cpus();
	if (err)
		goto out;

	if (slot == PVTLB_WANT_AUTO) {
		probe_all();
		change_to_auto("switched", "auto, by sysfs");
	} else if (slot == PVTLB_WANT_OFF) {
		change(SLOT_OFF, "switched", "sysfs was told off");
	} else {
		err = change_by_name(slot);
	}
out:
	mutex_unlock(&lock);
	return err;
}

/*
 * A leaky bucket: a failed flush fills FILL into it, one that worked takes 1
 * out, and the backend is left when it is full. That is 16 failures in a row,
 * or more than a fifth of all flushes for long enough, such as all of one kind.
 */
#define FILL	4
#define FULL	(16 * FILL)

static atomic_t bucket = ATOMIC_INIT(0);
static int last_error;

/* The next one that is advised; native, which cannot fail, when there is none. */
static int change_after_failure(const char *why)
{
	int slot, native;

	for (native = 0; slots[native].ops != &pvtlb_native; native++)
		;
	do {
		slot = pvtlb_pick(slots, NR_SLOTS);
		if (slot < 0)
			slot = native;
	} while (change(slot, "demoted", why));
	return slot;
}

/* Printing and changing both take their time: not while a flush waits for it. */
static void after_failure(struct work_struct *work)
{
	char why[sizeof(reason)];
	int from, to;

	mutex_lock(&lock);
	from = active;
	if (from == SLOT_OFF)
		goto out;
	pr_warn_ratelimited("%s: a flush failed (%d) and was done by interrupts\n",
			    name_of(from), READ_ONCE(last_error));
	if (atomic_read(&bucket) < FULL)
		goto out;

	slots[from].failed = true;
	snprintf(why, sizeof(why), "%s kept failing", name_of(from));
	to = change_after_failure(why);
	atomic_set(&bucket, 0);
	pvtlb_count(PVTLB_STAT_demotions, 1);
	pr_warn("%s: left for %s; write %s to /sys/kernel/pvtlb/backend to try it again\n",
		why, name_of(to), name_of(from));
out:
	mutex_unlock(&lock);
}

static DECLARE_WORK(after_failure_work, after_failure);

/**
 * pvtlb_backend_worked() - note a flush that the active backend did
 *
 * Context: any.
 */
void pvtlb_backend_worked(void)
{
	if (unlikely(atomic_read(&bucket)))
		atomic_dec_if_positive(&bucket);
}

/**
 * pvtlb_backend_failed() - note a flush that the active backend could not do
 * @err: its -errno
 *
 * The flush itself is done, by interrupts.
 *
 * Context: any but NMI.
 */
void pvtlb_backend_failed(int err)
{
	WRITE_ONCE(last_error, err);
	atomic_add(FILL, &bucket);
	schedule_work(&after_failure_work);
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

static void list_available(char *buf, size_t size, const char *separator, int except)
{
	size_t len = 0;
	int i;

	buf[0] = '\0';
	for (i = 0; i < NR_SLOTS; i++)
		if (i != except && !slots[i].err)
			len += scnprintf(buf + len, size - len, "%s%s",
					 len ? separator : "", slots[i].name);
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
 * Transitions can overlap: user space may hold /dev/snapshot open and suspend.
 */
static int sleep_notify(struct notifier_block *nb, unsigned long event, void *unused)
{
	mutex_lock(&lock);
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		if (!sleeping++) {
			before_sleep = active;
			if (active != SLOT_OFF)
				change(SLOT_OFF, "switched", "the system goes to sleep");
		}
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		if (--sleeping || before_sleep == SLOT_OFF)
			break;
		probe_all();
		if (slots[before_sleep].err)
			change_to_auto("switched", "auto, after sleep");
		else if (change(before_sleep, "switched", "back after sleep"))
			change_to_auto("switched", "auto, after sleep");
		break;
	}
	mutex_unlock(&lock);
	return NOTIFY_OK;
}

static struct notifier_block sleep_nb = { .notifier_call = sleep_notify };

/* First of all, before steal time and hypercall pages are taken down. */
static int reboot_notify(struct notifier_block *nb, unsigned long event, void *unused)
{
	pvtlb_stop_for_good();
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
static void __init select_at_boot(void)
{
	int slot = pvtlb_parse(slots, NR_SLOTS, wanted);

	/* Not even trial calls: off is what remains when they do harm. */
	if (slot == PVTLB_WANT_OFF) {
		change(SLOT_OFF, "selected", "the command line says so");
		return;
	}

	probe_all();
	if (slot >= 0 && slot < NR_SLOTS && !slots[slot].err) {
		if (change(slot, "selected", "command line"))
			change_to_auto("selected", "auto");
		return;
	}
	if (slot == -EINVAL)
		pr_warn("pvtlb=%s is unknown: use off, auto, xen, xen-hvm, kvm, hyperv, native or upstream; taking auto\n",
			wanted);
	else if (slot != PVTLB_WANT_AUTO)
		pr_warn("pvtlb=%s is not available here: %s; taking auto\n",
			wanted, slots[slot].probe.reason);
	change_to_auto("selected", "auto");
}

static int __init follow_sleep_and_reboot(void)
{
	int err = register_pm_notifier(&sleep_nb);

	if (err)
		return err;
	err = register_reboot_notifier(&reboot_nb);
	if (err)
		unregister_pm_notifier(&sleep_nb);
	return err;
}

/*
 * After the CPUs are up and the hypervisor's own initcalls have run, before
 * drivers make much use of the TLB.
 */
static int __init pvtlb_init(void)
{
	char names[NR_SLOTS * PVTLB_NAME_LEN];
	int err = follow_sleep_and_reboot();
	int no_memory = pvtlb_init_cpus();

	pvtlb_init_mailbox();
	mutex_lock(&lock);
	if (err)
		snprintf(reason, sizeof(reason), "it cannot follow sleep and reboot (%d)", err);
	else if (no_memory)
		strscpy(reason, "its memory could not be allocated", sizeof(reason));
	else
		select_at_boot();

	list_available(names, sizeof(names), ", ", active);
	if (active == SLOT_OFF)
		pr_info("off, because %s; the in-tree mechanism runs\n", reason);
	else
		pr_info("%s: %s (%s; also available: %s)\n", name_of(active),
			slots[active].ops->what, reason, names);
	mutex_unlock(&lock);
	if (err)
		return err;

	err = pvtlb_init_sysfs();
	if (err)
		pr_err("no /sys/kernel/pvtlb (%d): the choice made at boot stays\n", err);
	return err;
}
subsys_initcall_sync(pvtlb_init);
