"""The list of rules. A new rule is one function and one entry here, then ``make docs``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from harness.rules import bandwidth, cache, closures, devices, phases, tenants, tracing
from harness.rules.facts import RunFacts
from harness.store.result import Issue, Severity

Rule = Callable[[RunFacts], Iterator[Issue]]


@dataclass(frozen=True, slots=True)
class Code:
    """An issue that a rule can raise: what makes it fire, and why a reader must know."""

    name: str
    severities: tuple[Severity, ...]
    fires: str
    why: str


def _error(name: str, fires: str, why: str) -> Code:
    return Code(name, (Severity.ERROR,), fires, why)


def _warning(name: str, fires: str, why: str) -> Code:
    return Code(name, (Severity.WARNING,), fires, why)


def _info(name: str, fires: str, why: str) -> Code:
    return Code(name, (Severity.INFO,), fires, why)


RULES: Mapping[Rule, tuple[Code, ...]] = {
    phases.ended_well: (
        _error(
            "exit-status",
            "db_bench ended with another status than 0, or by a signal",
            "crashed runs have been published as results",
        ),
        _error("phase-timeout", "db_bench ran into its time limit", "it was cut off"),
        _error(
            "phase-stalled",
            "not one operation in `stall_seconds`",
            "it hung, and its rate is of the time before",
        ),
    ),
    phases.one_summary: (
        _error(
            "output-malformed",
            "db_bench's output or RocksDB's LOG cannot be read",
            "what cannot be read is not guessed",
        ),
        _error(
            "summary-count",
            "not exactly one summary line for the benchmark",
            "a finished benchmark prints one; none or two is a crash or another benchmark",
        ),
    ),
    phases.not_skipped: (
        _error(
            "benchmark-skipped",
            "`skipped (--use_existing_db)` in the output",
            "db_bench leaves fills out on an existing database, and exits with 0",
        ),
    ),
    phases.all_operations: (
        _error(
            "operations-differ",
            "the summary has another number of operations than was asked for",
            "a phase that was cut short measured another database",
        ),
    ),
    phases.reads_right: (
        _error(
            "data-wrong",
            "kvmix read something else than what it wrote before",
            "the level or RocksDB lost data; no number of it is worth anything",
        ),
    ),
    phases.space_left: (
        _error(
            "no-space",
            "ENOSPC in db_bench's output or RocksDB's LOG",
            "it ends a phase early, and may still look like a result",
        ),
    ),
    phases.db_bench_warnings: (
        _info("db-bench-warning", "db_bench warns of how it was built or set up", "its own words"),
    ),
    phases.assertions: (
        _info(
            "assertions-enabled",
            "db_bench says that assertions are on",
            "fine for bytes and counts; times are to be published from a release build",
        ),
    ),
    phases.open_files: (
        _warning(
            "open-files-few",
            "`--open_files` keeps fewer tables open than the database has",
            "reads become table opens: 79 % of the time in a published study",
        ),
    ),
    devices.kernel_log_readable: (
        _warning(
            "kernel-log-missing",
            "the kernel log could not be read",
            "errors of devices cannot be excluded",
        ),
    ),
    devices.io_errors: (
        _error(
            "io-errors",
            "the kernel reported errors of a device or file system during the run",
            "retries and remounts cost time, and data may be missing",
        ),
    ),
    devices.zone_limits: (
        _error(
            "active-zones-exceeded",
            "the device refused to activate a zone (status 0xbd)",
            "the level does not know the device's limit: writes failed",
        ),
        _error(
            "open-zones-exceeded",
            "the device refused to open a zone (status 0xbe)",
            "the same, for open zones",
        ),
    ),
    devices.utilisation: (
        _error(
            "utilisation-missed",
            "V / capacity differs from the target by more than the tolerance",
            "garbage collection depends on it more than on anything else",
        ),
    ),
    devices.zoned_share: (
        Code(
            "zoned-share-low",
            (Severity.ERROR, Severity.WARNING),
            "less than 90 % of the written bytes reached the zoned device; an error below 50 %,"
            " unless the level buffers on the conventional device by design",
            "the run did not measure the zoned device",
        ),
    ),
    devices.gc_ran: (
        _warning(
            "gc-never-ran",
            "no garbage collection in a phase that is meant to trigger it",
            "levels that never collect garbage are all alike",
        ),
        _info(
            "gc-counter-missing",
            "the level does not count its garbage collections",
            "whether it collected is not known",
        ),
    ),
    devices.direct_io: (
        _warning(
            "direct-reads-buffered",
            "direct reads were asked for, and the level buffers them",
            "the page cache is part of the result",
        ),
        _warning(
            "direct-writes-buffered",
            "direct writes were asked for, and the level buffers them",
            "what is deleted soon never reaches the device",
        ),
    ),
    cache.reads_reached_the_device: (
        _warning(
            "cache-served",
            "caches below RocksDB served more than half of what a phase that only reads asked for",
            "page-cache reads have been published as reads of the device",
        ),
    ),
    bandwidth.used: (
        _warning(
            "bandwidth-low",
            "a measured phase that writes used less than 30 % of its drive's bandwidth",
            "the device did not limit it: levels look alike that differ under load",
        ),
        _info(
            "bandwidth-unknown",
            "the run is on real hardware, whose bandwidth is not known",
            "how near to its limit the device was cannot be said",
        ),
    ),
    devices.level_caveats: (
        _error("fsck", "`zlfs fsck` finds an invariant broken", "the level lost data or count"),
        Code(
            "active-limit-ignored",
            (Severity.WARNING, Severity.INFO),
            "the level is dm-zoned; a warning where the device has a limit",
            "it keeps no count of active zones",
        ),
        _info("mapping-volatile", "the level is dm-zap", "its mapping is in memory alone"),
        _warning(
            "own-db-bench",
            "zenfs ran with a db_bench of its own",
            "it may be another build than the other levels'",
        ),
        _error(
            "commands-lost",
            "`tracing: all`, and not every command was written down",
            "the list of commands has holes",
        ),
    ),
    devices.clock: (
        _warning(
            "clock-jump",
            "real time and monotonic time moved apart by more than 1 s",
            "times are monotonic, but logs cannot be put beside them",
        ),
    ),
    devices.other_io: (
        _error(
            "other-io",
            "bytes were written to a device in the second before the run",
            "somebody else uses it",
        ),
    ),
    closures.ledger: (
        _error(
            closures.BROKEN,
            "two adjacent layers that count the same bytes do not agree",
            "one of the numbers is wrong",
        ),
        _warning(
            closures.UNSETTLED,
            "the devices were still busy behind a phase",
            "what was in flight belongs to the next phase, or to nobody",
        ),
        _warning(
            closures.UNWITNESSED,
            "the device's own counters could not be asked",
            "F = H was not checked",
        ),
    ),
    tracing.traced: (
        _info(
            "not-traced",
            "commands at the driver could not be traced",
            "what was done to zones is null, where the level does not count it itself",
        ),
        _warning(
            "every-command-kept",
            "the study says `tracing: all`",
            "writing each command down slows the run: its times are no result",
        ),
    ),
    tracing.every_command: (
        _error(
            "trace-incomplete",
            "the tracer lost commands",
            "numbers that may be too low are none",
        ),
    ),
    tracing.driver_commands: (
        _error(
            "closure-driver-commands",
            "writes and zone commands seen at the driver are not those that the kernel counted",
            "the tracer overlooked some, or saw others twice",
        ),
    ),
    tenants.all_lived: (
        _error(
            "tenant-died",
            "a tenant's program ended too early, not well, or got nowhere; the others were stopped",
            "the others had the drive to themselves from then on",
        ),
    ),
    tenants.own_units: (
        _warning(
            "tenants-without-units",
            "systemd does not run the machine",
            "what a tenant takes of processors and memory is neither limited nor its own",
        ),
    ),
    tenants.together: (
        _warning(
            "tenants-apart",
            "tenants that last to the end ended more than a second apart",
            "for that long not all of them were there",
        ),
    ),
}


def judge(run: RunFacts) -> tuple[Issue, ...]:
    """Return the issues of all rules, in the rules' order."""
    return tuple(issue for rule in RULES for issue in rule(run))
