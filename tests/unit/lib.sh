# SPDX-License-Identifier: GPL-2.0-only
#
# What the shell tests here share: sourced, not run. A test is a function; it runs
# with set -e in a subshell, and what it printed is shown when it fails. The last
# line is what callers read.

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# try NAME FUNCTION [ARG...]
try() {
	name=$1
	shift
	# Not as a condition: that would switch set -e off inside.
	set +e
	(
		set -e
		"$@"
	) >"$work/said" 2>&1
	status=$?
	set -e
	if [ $status -eq 0 ]; then
		echo "ok $name"
		passed=$((passed + 1))
	else
		echo "not ok $name"
		sed 's/^/    /' "$work/said"
		failed=$((failed + 1))
	fi
}

finish() {
	echo "$passed passed, $failed failed, 0 skipped"
	[ $failed -eq 0 ] && [ $passed -gt 0 ]
}

fail() {
	echo "$*"
	exit 1
}

# The files of Debian's source of a version that its hooks touch, as Debian ships them.
pristine() { # VERSION DIRECTORY
	archive=/usr/src/linux-source-$1.tar.xz
	[ -f "$archive" ] || fail "there is no $archive: run make deps"
	kept=$top/build/pristine-$1
	if [ ! -d "$kept" ]; then
		mkdir -p "$kept.new"
		tar -xf "$archive" -C "$kept.new" --strip-components=1 \
			"linux-source-$1/Makefile" "linux-source-$1/drivers/virt" \
			"linux-source-$1/arch/x86/mm" "linux-source-$1/arch/x86/kernel/paravirt.c" \
			"linux-source-$1/arch/x86/kernel/kvm.c" "linux-source-$1/drivers/ptp/ptp_kvm_x86.c"
		mv "$kept.new" "$kept"
	fi
	cp -r "$kept" "$2"
}

versions=$(cd "$top/integration" && echo [0-9]*)
