# zonelab: `make study` runs the first study with no hardware at all, `make test` runs every test.
# `make help` lists the rest. Answers are not asked for when YES=1 or when not on a terminal.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

STUDY ?= integration-levels
CAMPAIGN ?= $(STUDY)-$(shell date -u +%Y%m%d-%H%M%S)
RIG ?= default
LEVELS ?=
REPETITIONS ?=
SET ?=
RETRY ?=
YES ?=

# A study may name rigs, which then run one after the other; RIG= runs all of it on that one.
ONE_RIG := $(if $(filter file,$(origin RIG)),,$(RIG))
CAMPAIGN := $(CAMPAIGN)# expanded once: the default has the time in it
PYTHON ?= python3
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
BIN := .venv/bin
PLAYBOOK := $(BIN)/ansible-playbook

export PATH := $(CURDIR)/.venv/bin:$(PATH)

##@ The two commands

.PHONY: study
study: confirm-study setup rig-image ## Run a study on the emulated rig (about 15 minutes, 20 with an empty cache): STUDY= LEVELS=a,b REPETITIONS=n SET=field=value CAMPAIGN= RETRY=failed,invalid
	@code=0; folder=results/$(CAMPAIGN); parts=; word=$$(mktemp -u); reported=; study=$(STUDY); \
	if [[ -z "$(ONE_RIG)" ]]; then \
	  study=$$(zonelab plan $(STUDY) --for-rig) || exit $$?; \
	  parts=$$(zonelab plan $$study --rigs $(if $(LEVELS),--levels $(LEVELS))) || exit $$?; \
	fi; \
	for rig in $${parts:-$(RIG)}; do \
	  ended=0; zonelab rig exec $$rig -- $(PLAYBOOK) ansible/site.yml -e study_rig=$${parts:+$$rig} -e report_word=$$word \
	    -e study=$$study -e campaign=$(CAMPAIGN) -e levels=$(LEVELS) -e repetitions=$(REPETITIONS) -e "settings='$(SET)'" -e retry=$(RETRY) \
	    || ended=$$?; \
	  if [[ -e $$word ]]; then rm $$word; reported=1; \
	    if ((ended == 2)); then zonelab status $$folder --check >/dev/null || ended=$$?; fi; \
	  fi; \
	  if ((ended && code != 2)); then code=$$ended; fi; \
	  if ((ended != 0 && ended != 2 && ended != 4)); then code=$$ended; break; fi; \
	done; \
	if [[ $$reported ]]; then echo "report: $$folder/report/index.html"; fi; \
	if [[ -d $$folder ]]; then echo $$folder; fi; \
	exit $$code

.PHONY: test
test: confirm-test setup-dev rig-image lint ## Lint, native, crash, unit, runner and rig tests (45 to 50 minutes); those below take longer
	@$(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder tests/rig tests/native tests/unit tests/runner # the rig's first, in one process

##@ Set-up

.PHONY: setup
setup: .venv/base ## Make .venv with the command .venv/bin/zonelab

.PHONY: setup-dev
setup-dev: .venv/dev ## The same, with what lint and tests need

.PHONY: rig-image
rig-image: setup ## Install QEMU and the image builder, build the rig's image unless it is cached
	@$(PLAYBOOK) ansible/rig.yml -e rig_name=$(RIG) --skip-tags image
	@zonelab rig build $(RIG) # by hand: Ansible would not show its progress

.venv/base: requirements/base.txt pyproject.toml
	@$(MAKE) venv REQUIREMENTS=$<
	@touch $@

# For tests of the Vagrantfile and of boxes; not every distribution has Vagrant, they are skipped there.
VAGRANT_DEV := grub-common grub-pc-bin qemu-utils vagrant vagrant-libvirt
# For `vagrant up`, too.
VAGRANT := $(VAGRANT_DEV) dnsmasq-base libvirt-clients libvirt-daemon-system

# What the native programs and their tests are built with, beside the compiler.
NATIVE_DEV := libcli11-dev libgtest-dev librocksdb-dev libxxhash-dev libzbd-dev nlohmann-json3-dev rocksdb-tools
.venv/dev: requirements/dev.txt pyproject.toml
	@$(MAKE) venv REQUIREMENTS=$<
	@missing=(); for pair in clang-format:clang-format cmake:cmake dpkg-source:dpkg-dev g++:g++ patch:patch shellcheck:shellcheck; do \
	  command -v $${pair%%:*} >/dev/null || missing+=($${pair##*:}); done; \
	for package in $(NATIVE_DEV); do dpkg-query -W $$package >/dev/null 2>&1 || missing+=($$package); done; \
	if (($${#missing[@]})); then echo "installing $${missing[*]}"; \
	  $(SUDO) apt-get update -qq; $(SUDO) apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; fi
	@missing=(); for package in $(VAGRANT_DEV); do dpkg-query -W $$package >/dev/null 2>&1 || ! apt-cache show $$package >/dev/null 2>&1 || missing+=($$package); done; \
	if (($${#missing[@]})); then echo "installing $${missing[*]}"; \
	  $(SUDO) apt-get update -qq; $(SUDO) apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; fi
	@if ! command -v chromium >/dev/null; then echo "installing chromium"; \
	  $(SUDO) apt-get update -qq; $(SUDO) apt-get install -y -qq --no-install-recommends chromium >/dev/null \
	  || echo "no package chromium here: tests that open the report in it are skipped"; fi # Ubuntu has it as a snap only
	@touch $@ .venv/base

.PHONY: venv
venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "zonelab: $(PYTHON) is too old; hint: make PYTHON=python3.11 (or newer)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "installing python3-venv"; $(SUDO) apt-get update -qq; $(SUDO) apt-get install -y -qq python3-venv >/dev/null; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing $(REQUIREMENTS) into .venv"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(REQUIREMENTS)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .

.PHONY: confirm-study confirm-test
confirm-study: export WHAT := run the study $(STUDY) on the emulated rig $(RIG)$(if $(ONE_RIG),,, or those it names)
confirm-study: export TAKES := at most 30 minutes on two cores (the default study), of which set-up at most 8
confirm-test: export WHAT := run every test, those on the emulated rig too
confirm-test: export TAKES := 45 to 50 minutes on two cores
confirm-study confirm-test:
	@echo "This will $$WHAT. It takes $$TAKES, and:"
	@echo "  installs  QEMU, mmdebstrap and an ssh client with apt (as root), Python packages into .venv (0.7 GB)"
	@echo "  downloads about 0.6 GB of distribution and Python packages, the first time"
	@echo "  uses      6 GB of disk while building, 3 GB for the image in ~/.cache/zonelab, 5 GB of memory while running"
	@echo "  touches   no drive of this machine"
	@if [[ -z "$(YES)" && -t 0 && -t 1 ]]; then read -r -p "Go on? [y/N] " answer; [[ $$answer == [yY]* ]] || { echo "zonelab: nothing was done" >&2; exit 130; }; fi

##@ Checks

.PHONY: lint
lint: setup-dev ## ruff, mypy, ansible-lint, shellcheck, clang-format
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@ANSIBLE_CONFIG=ansible/ansible.cfg $(BIN)/ansible-lint --offline --profile production -q site.yml ansible roles
	@git ls-files '*.sh' .ci/run | xargs -r shellcheck
	@git ls-files 'harness/native/*.cc' 'harness/native/*.h' | xargs -r clang-format --dry-run --Werror
	@echo "lint: clean"

.PHONY: test-fast
test-fast: setup-dev ## Unit and runner tests only (no rig, a minute or two)
	@$(BIN)/pytest tests/unit tests/runner

.PHONY: test-native
test-native: test-native-sanitize test-native-threads test-native-crash ## Native tests: under AddressSanitizer and UBSan, those with threads under ThreadSanitizer, crash campaigns

.PHONY: test-native-sanitize
test-native-sanitize: setup-dev
	@cmake -S harness/native -B build/native-asan --preset sanitize >/dev/null
	@cmake --build build/native-asan -j2 >/dev/null
	@ctest --test-dir build/native-asan --output-on-failure -j2 -LE crash

.PHONY: test-native-threads
test-native-threads: setup-dev
	@cmake -S harness/native -B build/native-tsan --preset tsan >/dev/null
	@cmake --build build/native-tsan -j2 --target zlfs_threads_test >/dev/null
	@ctest --test-dir build/native-tsan --output-on-failure -L threads

.PHONY: test-native-crash
test-native-crash: setup-dev build/native-test
	@ctest --test-dir build/native-test --output-on-failure -L crash

# At full speed, with the crash campaigns: under a sanitizer they would take an hour.
.PHONY: build/native-test
build/native-test:
	@cmake -S harness/native -B $@ --preset test >/dev/null
	@cmake --build $@ -j2 --target zlfs-torture >/dev/null

.PHONY: build/native-release
build/native-release:
	@cmake -S harness/native -B $@ --preset release >/dev/null
	@cmake --build $@ -j2 >/dev/null

.PHONY: test-crash
test-crash: setup-dev rig-image build/native-test ## zlfs: 300 kills, every power loss of three recorded loads, 50 resets of a rig (these alone 41 minutes)
	@build/native-test/zlfs/crash/zlfs-torture kill --points=300 --seed=11
	@for seed in 12 13 14; do build/native-test/zlfs/crash/zlfs-torture loss --seed=$$seed --tears=4; done
	@zonelab rig exec $(RIG) -- $(BIN)/python -m tests.rig.zlfs_resets --points=50 --seed=15

.PHONY: test-zlfs-long
test-zlfs-long: setup-dev build/native-release ## 10 M keys on zlfs: filled, verified, counted, checked
	@$(BIN)/python tests/native/zlfs_long_fill.py

.PHONY: test-geometry
test-geometry: setup-dev rig-image ## Every level's probe on six geometries, two rigs one after the other; levels that say yes come up; a campaign of btrfs
	@ZONELAB_SLOW=1 $(BIN)/pytest tests/rig/test_geometry.py tests/rig/test_btrfs.py

.PHONY: test-dm-zoned
test-dm-zoned: setup-dev rig-image ## A runner killed on dm-zoned's own rig, and the campaign resumed (about 3 minutes)
	@ZONELAB_SLOW=1 $(BIN)/pytest tests/rig/test_dm_zoned.py

.PHONY: test-amplification
test-amplification: setup-dev rig-image ## f2fs and zlfs at 80 % in one campaign: zlfs writes no more (about 5 minutes)
	@ZONELAB_SLOW=1 $(BIN)/pytest tests/rig/test_amplification.py

.PHONY: test-two-hosts
test-two-hosts: setup-dev rig-image ## One campaign on two rigs at once, one of which fails
	@ZONELAB_SLOW=1 $(BIN)/pytest tests/rig/test_two_hosts.py

# libvirt's daemon has to run. Packages of the distribution: vagrant is not in every one.
.PHONY: vagrant-packages
vagrant-packages:
	@missing=(); for package in $(VAGRANT); do dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed || missing+=($$package); done; \
	if (($${#missing[@]})); then echo "installing $${missing[*]}"; \
	  $(SUDO) apt-get update -qq; $(SUDO) apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; fi

.PHONY: vagrant-box
vagrant-box: setup rig-image vagrant-packages ## Make the Vagrant box of a rig and add it: RIG=
	@zonelab rig box $(RIG)
	@vagrant box add --force --name zonelab/$(RIG) build/boxes/$(RIG).box

# Vagrant itself leaves a box's disk in libvirt's pool.
VIRSH := virsh --connect qemu:///system --quiet
.PHONY: vagrant-clean
vagrant-clean: ## Remove the Vagrant box of a rig, from Vagrant and from libvirt: RIG=
	@! vagrant box list | grep -q '^zonelab/$(RIG) ' || vagrant box remove --force zonelab/$(RIG)
	@rm -f build/boxes/$(RIG).box
	@{ $(VIRSH) vol-list default 2>/dev/null || :; } | awk '$$1 ~ /^zonelab-VAGRANTSLASH-$(RIG)_vagrant_box_image_/ {print $$1}' \
	  | xargs -r -n 1 $(VIRSH) vol-delete --pool default

.PHONY: test-vagrant
test-vagrant: setup-dev rig-image vagrant-packages ## The default rig through Vagrant: up, provision, halt, up, destroy; nothing is left
	@ZONELAB_SLOW=1 $(BIN)/pytest tests/rig/test_vagrant.py

.PHONY: test-debian12
test-debian12: setup-dev ## The rig tests on a Debian 12 guest too (kernel 6.1, RocksDB 7.8)
	@$(MAKE) rig-image RIG=debian12
	@ZONELAB_SLOW=1 $(BIN)/pytest tests/rig/test_rig_debian12.py

##@ Measurements

.PHONY: bench
bench: bench-overhead bench-zlfs bench-statistics bench-kvmix bench-replay ## All benchmarks of zonelab itself

.PHONY: bench-overhead
bench-overhead: setup rig-image ## db_bench under the runner versus by hand, alternating pairs; runner's share of CPU
	@zonelab rig exec $(RIG) -- $(BIN)/python tests/bench/overhead.py

.PHONY: bench-zlfs
bench-zlfs: setup build/native-release ## db_bench on zlfs in memory versus tmpfs, alternating pairs; the ledger's share of CPU
	@$(BIN)/python tests/bench/zlfs.py

.PHONY: bench-statistics
bench-statistics: setup ## db_bench with and without RocksDB's statistics on tmpfs, in pairs; what they cost in CPU time
	@$(BIN)/python tests/bench/ticker_cost.py

.PHONY: bench-kvmix
bench-kvmix: setup build/native-release ## kvmix without a database: operations made per second and core, by distribution of keys
	@$(BIN)/python tests/bench/kvmix.py

.PHONY: bench-scale
bench-scale: setup ## The report of 10,000 synthetic runs: seconds and memory to load, compare and render (RUNS=, SAMPLES=)
	@PYTHONPATH=$(CURDIR) $(BIN)/python tests/bench/scale.py

.PHONY: bench-replay
bench-replay: setup build/native-release ## zonelab replay: seconds of a grid of 33 settings over a trace of more than 10 GB, and replays beside runs
	@$(BIN)/python tests/bench/replay.py

##@ Upkeep

.PHONY: lock
lock: ## Re-resolve requirements/*.in into pinned, hashed files (needs uv)
	@uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate requirements/base.in -o requirements/base.txt
	@uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -c requirements/base.txt requirements/dev.in -o requirements/dev.txt

.PHONY: schemas
schemas: setup ## Regenerate configs/schema from the models
	@zonelab plan --schemas

.PHONY: docs
docs: setup ## Regenerate docs/rules.md from the rules, docs/troubleshooting.md from what the code refuses
	@zonelab rules --format md > docs/rules.md.new && mv docs/rules.md.new docs/rules.md
	@$(BIN)/python -m harness.rules.refusals > docs/troubleshooting.md.new && mv docs/troubleshooting.md.new docs/troubleshooting.md

.PHONY: clean
clean: ## Remove build/ (never results/, never the image cache)
	@rm -rf build

.PHONY: help
help: ## This list; durations are of two cores without KVM
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
