# zonelab: `make study` runs a first study without any hardware, `make test` runs all tests.
# `make help` lists the rest. make asks questions only on a terminal, and none with YES=1.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

STUDY ?= integration-levels
CAMPAIGN ?=
DEVICE ?=
RIG ?= nvme
LEVELS ?=
REPETITIONS ?=
SET ?=
RETRY ?=
YES ?=

# With RIG=NAME all of a study runs on that rig. Without it, a study runs on the rigs that it names.
ONE_RIG := $(if $(filter file,$(origin RIG)),,$(RIG))
PYTHON ?= python3
BIN := .venv/bin
PLAYBOOK := $(BIN)/ansible-playbook
# Lists the slowest tests at the end, and writes the duration of every test to a file.
TIMES := --durations=25 --durations-min=1 --junitxml=build/tests.xml

export PYTHON YES
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# If ccache is installed, compiled native code is kept between builds and shared by checkouts.
export CMAKE_CXX_COMPILER_LAUNCHER := $(shell command -v ccache)
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: study test setup setup-dev rig-image check check-tests lint test-fast test-all test-native \
    test-native-sanitize test-native-threads test-crash test-crash-long test-zlfs-long \
    test-guard test-campaigns test-geometry test-dm-zoned test-dm-zap test-zenfs test-rocksdb \
    test-amplification test-two-hosts vagrant-packages vagrant-box vagrant-clean test-vagrant \
    test-debian12 bench bench-overhead bench-zlfs bench-collection bench-statistics bench-kvmix \
    bench-scale bench-replay bench-model bench-native lock schemas docs examples example-bundles clean help

##@ The two commands

study: ## Run a study on its rig (the first study: 30 to 60 minutes): STUDY= LEVELS=a,b REPETITIONS=n SET='field=value …' DEVICE=model:NAME CAMPAIGN= RETRY=failed,invalid BYTES_ONLY=1
	@$(if $(DEVICE),,$(PYTHON) -m harness.cli.confirm study $(STUDY) $(ONE_RIG))
	@$(MAKE) --silent setup $(if $(DEVICE),build/native-installed)
	@zonelab study $(STUDY) --yes --rig '$(ONE_RIG)' --campaign '$(CAMPAIGN)' --levels '$(LEVELS)' --repetitions '$(REPETITIONS)' --set '$(subst ','\'',$(SET))' --retry '$(RETRY)' $(if $(BYTES_ONLY),--bytes-only) $(if $(DEVICE),--device '$(DEVICE)')

test: ## Lint, native, crash, unit, runner, role and rig tests (40 to 75 minutes); make test-all runs the rest too
	@$(PYTHON) -m harness.cli.confirm test
	@$(MAKE) setup-dev
	@$(MAKE) --jobs=2 rig-image lint
	@$(BIN)/pytest -m "" -n 2 --no-loadscope-reorder $(TIMES) tests/rig tests/native tests/roles tests/unit tests/runner # the rig's first: they take longest

##@ Set-up

setup: .venv/base ## Make .venv with the command .venv/bin/zonelab

setup-dev: .venv/dev .venv/packages ## The same, with the packages for lint and tests

rig-image: setup ## Install QEMU and the image builder, and build the rig's image unless it is cached
	@$(PLAYBOOK) ansible/rig.yml -e rig_name=$(RIG) --skip-tags image
	@zonelab rig build $(RIG) # by hand: Ansible would not show its progress

.venv/base: requirements/base.txt pyproject.toml
	@requirements/venv.sh $<
	@touch $@

.venv/dev: requirements/dev.txt pyproject.toml
	@requirements/venv.sh $<
	@touch $@ .venv/base

.venv/packages: $(wildcard requirements/apt/*.txt)
	@requirements/apt.sh native native-test dev
	@requirements/apt.sh --optional dev-optional
	@touch $@

##@ Checks

check: .venv/dev ## Lint, types and the fast unit and runner tests (2 to 5 minutes; no root, no rig)
	@$(MAKE) --jobs=2 --output-sync=target lint check-tests

check-tests: .venv/dev
	@$(BIN)/pytest -m "not slow and not rig" -n auto tests/unit tests/runner

lint: .venv/dev ## ruff, mypy, ansible-lint; shellcheck and clang-format where they are installed
	@$(BIN)/python -m tests.upkeep lint

test-fast: .venv/dev ## All unit and runner tests (6 to 8 minutes; no root, no rig)
	@$(BIN)/pytest -n auto $(TIMES) tests/unit tests/runner

test-all: test test-guard test-campaigns test-crash-long test-zlfs-long test-geometry test-dm-zoned test-dm-zap test-zenfs test-rocksdb test-amplification test-two-hosts test-vagrant test-debian12 ## make test, then every slow target below (hours)

test-native: test-native-sanitize test-native-threads test-crash ## Native tests with AddressSanitizer and UBSan, tests of threads with ThreadSanitizer, and crash campaigns

test-native-sanitize: setup-dev
	@cmake -S harness/native -B build/native-asan --preset sanitize >/dev/null
	@cmake --build build/native-asan -j2 >/dev/null
	@GTEST_BRIEF=1 ctest --test-dir build/native-asan --output-on-failure -j2

test-native-threads: setup-dev
	@cmake -S harness/native -B build/native-tsan --preset tsan >/dev/null
	@cmake --build build/native-tsan -j2 --target zlfs_threads_test >/dev/null
	@GTEST_BRIEF=1 ctest --test-dir build/native-tsan --output-on-failure -L threads

.PHONY: build/native-test build/native-release build/native-installed
# An optimised build, because the crash campaigns would take an hour under a sanitizer.
build/native-test:
	@cmake -S harness/native -B $@ --preset test >/dev/null
	@cmake --build $@ -j2 --target zlfs-torture >/dev/null

build/native-release:
	@cmake -S harness/native -B $@ --preset release >/dev/null
	@cmake --build $@ -j2 >/dev/null

# The programs for runs on this machine. Without root, the packages of requirements/apt/native.txt
# must be installed.
build/native-installed:
	@requirements/apt.sh native
	@$(MAKE) build/native-release
	@cmake --install build/native-release --prefix $@ >/dev/null

# LD_BIND_NOW binds symbols at start. In thousands of short processes, lazy binding takes a tenth of
# the time.
TORTURE = LD_BIND_NOW=1 build/native-test/zlfs/crash/zlfs-torture
CRASH_SECONDS ?= 150

test-crash: setup-dev build/native-test ## zlfs: kills, losses of power and failing devices, CRASH_SECONDS=150 of each
	@$(TORTURE) kill --points=100 --seconds=$(CRASH_SECONDS)
	@$(TORTURE) loss --seed=10 --writes=1500 --stride=8 --seconds=$(CRASH_SECONDS)
	@$(TORTURE) faults --schedules=100000 --seconds=$(CRASH_SECONDS)

test-crash-long: setup-dev rig-image build/native-test ## zlfs: 300 kills, every power loss of three recorded loads, 100,000 fault schedules, 50 resets of a rig (two hours)
	@$(TORTURE) kill --points=300 --seed=11
	@$(TORTURE) loss --seed=12 --tears=4
	@$(TORTURE) loss --seed=13 --tears=4
	@$(TORTURE) loss --seed=14 --tears=4
	@$(TORTURE) faults --first=1 --schedules=100000
	@zonelab rig exec $(RIG) -- $(BIN)/python -m tests.rig.zlfs_resets --points=50 --seed=15

test-zlfs-long: setup-dev build/native-release ## Fill zlfs with 10 M keys, verify and count them, check the file system
	@$(BIN)/python tests/native/zlfs_long_fill.py

test-guard: setup-dev rig-image ## Refusals to overwrite devices, in every situation, simulated and on a rig: no byte is written
	@$(BIN)/pytest -m "" -n 2 tests/unit/test_guard.py tests/unit/test_claim.py tests/unit/test_last_looks.py tests/unit/test_identity.py tests/unit/test_device_contents.py tests/unit/test_consent.py tests/unit/test_reservations.py tests/unit/test_precondition.py tests/unit/test_hostile_*.py tests/runner/test_hostile.py
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_guard.py

test-campaigns: setup-dev rig-image ## Whole campaigns: a killed tenant, preconditioning, three levels on the timed rig, a layout, an interrupted tuning, replays (about an hour)
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_tenants.py tests/rig/test_precondition.py tests/rig/test_timed.py tests/rig/test_timed_nvme.py tests/rig/test_timed_kills.py tests/rig/test_block_level.py tests/rig/test_layout.py tests/rig/test_safety.py tests/rig/test_rig_replay.py

test-geometry: setup-dev rig-image ## Every level's probe on six geometries (two rigs in turn), a bring-up of each level that accepts one, and a campaign of btrfs
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_geometry.py tests/rig/test_btrfs.py

test-dm-zoned: setup-dev rig-image ## Kill a runner on dm-zoned's own rig, and resume the campaign (about 3 minutes)
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_dm_zoned.py

test-dm-zap: setup-dev ## dm-zap's own rig: the guest builds a module; with DM_ZAP_SOURCE=FOLDER your dm-zap runs twice in one boot (image 12 minutes, then 10, or 26 with your source)
	@$(MAKE) rig-image RIG=dm-zap
	@ZONELAB_SLOW=1 DM_ZAP_SOURCE='$(DM_ZAP_SOURCE)' $(BIN)/pytest -m rig tests/rig/test_dm_zap.py

test-zenfs: setup-dev ## Build your ZenFS, ZENFS_SOURCE=FOLDER, on its own rig and run it; ROCKSDB_SOURCE=FOLDER is the tree of the rig's RocksDB (image 5 minutes, then 16)
	@test -z '$(ZENFS_SOURCE)' || $(MAKE) rig-image RIG=zenfs
	@ZONELAB_SLOW=1 ZENFS_SOURCE='$(ZENFS_SOURCE)' ROCKSDB_SOURCE='$(ROCKSDB_SOURCE)' $(BIN)/pytest -m rig -rs tests/rig/test_zenfs.py

test-rocksdb: setup-dev ## zlfs and kvmix with your RocksDB: native tests, ldb, sst_dump, and KILLS=12 kills of db_stress with and without sync (30 minutes); ROCKSDB=FOLDER has include/ and, anywhere below, librocksdb.so (built with USE_RTTI=1) and the programs
	@ROCKSDB='$(ROCKSDB)' KILLS='$(KILLS)' $(BIN)/pytest -m "" -rs tests/native/test_rocksdb.py

test-amplification: setup-dev rig-image ## f2fs and zlfs at 80 % in one campaign: zlfs writes no more than f2fs (about 5 minutes)
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_amplification.py

test-two-hosts: setup-dev rig-image ## One campaign on two rigs at once; one of them fails
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_two_hosts.py

vagrant-packages:
	@requirements/apt.sh vagrant

vagrant-box: setup rig-image vagrant-packages ## Make the Vagrant box of a rig and add it: RIG=
	@zonelab rig box $(RIG)
	@vagrant box add --force --name zonelab/$(RIG) build/boxes/$(RIG).box

vagrant-clean: setup ## Remove the Vagrant box of a rig, from Vagrant and from libvirt: RIG=
	@zonelab rig box $(RIG) --remove

test-vagrant: setup-dev rig-image vagrant-packages ## The NVMe rig through Vagrant: up, provision, halt, up, destroy; nothing is left
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_vagrant.py

test-debian12: setup-dev ## The rig tests on a Debian 12 guest too (kernel 6.1, RocksDB 7.8)
	@$(MAKE) rig-image RIG=debian12
	@ZONELAB_SLOW=1 $(BIN)/pytest -m rig tests/rig/test_rig_debian12.py

##@ Measurements

bench: bench-overhead bench-zlfs bench-collection bench-statistics bench-kvmix bench-replay bench-model ## All benchmarks of zonelab itself

bench-overhead: setup rig-image ## db_bench under the runner versus by hand, alternating pairs; runner's share of CPU
	@zonelab rig exec $(RIG) -- $(BIN)/python tests/bench/overhead.py

bench-zlfs: setup build/native-release ## db_bench on zlfs in memory versus tmpfs, and on a model versus memory, in pairs; the ledger's share of CPU
	@$(BIN)/python tests/bench/zlfs.py

bench-collection: setup build/native-installed ## zlfs in memory: bytes written and copied when collection starts early or late
	@$(BIN)/python tests/bench/collection.py

bench-statistics: setup ## db_bench with and without RocksDB's statistics on tmpfs, in pairs; their cost in CPU time
	@$(BIN)/python tests/bench/ticker_cost.py

bench-kvmix: setup build/native-release ## kvmix without a database: generated operations per second and core, by distribution of keys
	@$(BIN)/python tests/bench/kvmix.py

bench-scale: setup ## The report of 10,000 synthetic runs: seconds and memory to load, compare and render (RUNS=, SAMPLES=)
	@PYTHONPATH='$(CURDIR)' $(BIN)/python tests/bench/scale.py

bench-replay: setup build/native-release ## zonelab replay: seconds of a grid of 33 settings over a trace of more than 10 GB, and replays beside runs
	@$(BIN)/python tests/bench/replay.py

bench-model: setup build/native-release ## The model of a drive: commands per second and core, seconds to validate, seconds of 33 replays with times
	@$(BIN)/python tests/bench/model.py

bench-native: setup build/native-release ## Repeat a run of zlfs on a modelled drive natively, and print its rates beside those of the rig (RUN=FOLDER of the run)
	@PYTHONPATH='$(CURDIR)' $(BIN)/python tests/bench/native_drive.py '$(RUN)'

##@ Upkeep

lock: ## Re-resolve requirements/*.in into pinned, hashed files (needs uv)
	@uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate requirements/base.in -o requirements/base.txt
	@uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -c requirements/base.txt requirements/dev.in -o requirements/dev.txt

schemas: setup ## Regenerate configs/schema from the models
	@zonelab plan --schemas

docs: setup ## Regenerate docs/rules.md from the rules, docs/troubleshooting.md from errors in the code, harness/zn540.py from measured points
	@$(BIN)/python -m tests.upkeep docs

examples: setup-dev ## Regenerate the tables of a study in README, docs/zlfs.md or docs/results.md from its campaign: CAMPAIGN=
	@$(BIN)/python -m tests.upkeep examples '$(CAMPAIGN)'

example-bundles: setup-dev build/native-release ## Record the campaigns under results/ again, on rigs (25 minutes)
	@$(BIN)/python -m tests.record_examples

clean: ## Remove build/ (never results/, never the image cache)
	@$(PYTHON) -m harness.cli.confirm clean
	@rm -rf build

help: ## Print this list; durations are for two cores without KVM
	@$(PYTHON) -m tests.upkeep help
