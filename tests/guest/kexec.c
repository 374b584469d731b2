// SPDX-License-Identifier: GPL-2.0-only
/*
 * kexec - start another kernel, as "kexec -l" and "kexec -e" would, or with -p load
 * one for after a crash
 *
 *	kexec [-p] KERNEL INITRD COMMAND_LINE
 *
 * Exit status: 2 wrong usage, 1 the kernel refused, 0 loaded; without -p it does not
 * return otherwise.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <linux/reboot.h>
#include <stdbool.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

int main(int argc, char **argv)
{
	bool crash = argc > 1 && !strcmp(argv[1], "-p");

	argv += crash;
	if (argc - crash != 4)
		errx(2, "usage: kexec [-p] kernel initrd command-line");

	if (syscall(SYS_kexec_file_load, open_file(argv[1]), open_file(argv[2]),
		    strlen(argv[3]) + 1, argv[3], crash ? KEXEC_FILE_ON_CRASH : 0ul))
		err(1, "loading %s", argv[1]);
	if (crash)
		return 0;
	reboot(LINUX_REBOOT_CMD_KEXEC);
	err(1, "starting %s", argv[1]);
}
