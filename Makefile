# SPDX-License-Identifier: GPL-2.0-only
#
# Everything a developer runs; "make help" lists it. The work is done by
# scripts/ and tests/, this file only knows what needs what.

HV ?= all
PVTLB ?= auto
CMDLINE ?=
KERNEL ?= 6.12
VCPUS ?= 4
PCPUS ?= 2
SECONDS ?= 30
export HV PVTLB CMDLINE KERNEL VCPUS PCPUS

.PHONY: help deps kernels kernel-6.12 kernel-6.12-disabled kernel-6.1 guest boot shell
.PHONY: check check-unit check-boot check-model check-fuzz check-user check-mutants lint soak
.PHONY: bench-kvm bench-hyperv bench-xen clean

help:
	@echo 'Targets:'
	@echo '  deps         install the Debian packages that the rest needs (as root)'
	@echo '  kernels      build the lab kernels, build/kernel-*'
	@echo '  boot         boot guests and show how they flush: HV=all, kvm, hyperv, kvm+hyperv, xen-pv, xen-pvh or native'
	@echo '  shell        a shell in a guest, or the commands on stdin: HV as for boot'
	@echo '  check        all tests'
	@echo '  check-unit   user-space tests, and KUnit in a guest'
	@echo '  check-boot   tests that boot guests; TESTS=word for those with it in their name'
	@echo '  check-model  the protocols, by model checking'
	@echo '  check-fuzz   what puts flushes into words, fuzzed in user space; FUZZ_SECONDS=20'
	@echo '  check-user   the core and the backends in user space, with sanitizers and line coverage'
	@echo '  lint         sparse, checkpatch, coccicheck, kernel-doc, shellcheck, licence lines'
	@echo '  soak         guests of HV look for stale translations for SECONDS=30 each'
	@echo '  check-mutants  whether the tests find flushes that are lost on purpose; not in check; MUTANT=word'
	@echo '  bench-kvm, bench-hyperv, bench-xen   compare the backends; ROUNDS, TURN_MS: see bench/run'
	@echo '  clean        remove build/'
	@echo 'Settings of boot and shell (defaults):'
	@echo '  PVTLB=$(PVTLB) KERNEL=$(KERNEL) VCPUS=$(VCPUS) PCPUS=$(PCPUS) CMDLINE="more kernel options"'

deps:
	@scripts/deps

kernels: kernel-6.12 kernel-6.12-disabled kernel-6.1

# The kernel's own make knows what is out of date.
kernel-6.12 kernel-6.1: kernel-%: deps
	@scripts/build-kernel $*

kernel-6.12-disabled: kernel-6.12
	@scripts/build-kernel 6.12 --config tests/lab/disabled.config --name 6.12-disabled

# One of them at a time: each uses all CPUs.
kernel-6.1: | kernel-6.12-disabled

guest: deps
	@scripts/build-guest

# The hosts run 6.12, whatever their guests do.
boot shell: guest kernel-6.12 $(if $(filter 6.1,$(KERNEL)),kernel-6.1)
	@tests/lab/boot $@

check-unit: guest kernels
	@scripts/check unit

check-boot: guest kernels
	@scripts/check boot '$(TESTS)'

check-model: deps
	@scripts/check model

check-fuzz: kernel-6.12
	@scripts/check fuzz

check-user: kernel-6.12
	@scripts/check user

lint: kernel-6.12 kernel-6.1
	@scripts/check lint

check-mutants: guest kernel-6.12
	@scripts/check mutants '$(MUTANT)'

check: guest kernels
	@scripts/check unit lint model fuzz user boot

soak: guest kernel-6.12 $(if $(filter 6.1,$(KERNEL)),kernel-6.1)
	@SECONDS_OF_SOAK='$(SECONDS)' tests/soak/run

bench-kvm: guest kernel-6.12
	@bench/run kvm

bench-hyperv: guest kernel-6.12
	@bench/run hyperv
	@bench/run kvm+hyperv

bench-xen: guest kernel-6.12
	@bench/run xen

clean:
	@rm -rf build
