"""Rules about the devices, the level and the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.nulls import difference
from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.phases import issue
from harness.store.result import Issue, Severity

# block/blk-core.c and drivers/nvme print these; f2fs, btrfs, xfs and ext4 their own. Zone limit
# messages (status 0xbd "Too Many Active Zones", 0xbe "… Open …") have rules of their own.
_IO_ERROR = re.compile(
    r"I/O error|critical medium error|critical target error|Buffer I/O|I/O Error|EXT4-fs error"
    r"|BTRFS (?:error|critical)|XFS .*(?:Corruption|shutdown)|F2FS-fs .*(?:error|shutdown)"
    r"|nvme.*(?:timeout|resetting controller)",
    re.IGNORECASE,
)
_ACTIVE_LIMIT = re.compile(r"active zones exceeded|too many active zones", re.IGNORECASE)
_OPEN_LIMIT = re.compile(r"open zones exceeded|too many open zones", re.IGNORECASE)

# Below half, the run did not measure the zoned device at all (f2fs with a large conventional
# device: FACTS, traps); a healthy f2fs puts some per cent of metadata elsewhere.
_SHARE_ERROR = 0.5
_SHARE_WARNING = 0.9
# NTP slews by at most 0.5 ms a second; a step of a second in a run of minutes is a jump.
_CLOCK_JUMP_SECONDS = 1.0
# What db_bench is told about direct I/O. The WAL has no such flag: it is buffered everywhere.
DIRECT_FLAGS = {
    "reads": "use_direct_reads",
    "writes": "use_direct_io_for_flush_and_compaction",
}


def kernel_log_readable(run: RunFacts) -> Iterator[Issue]:
    """Without the kernel log, I/O errors cannot be excluded."""
    if run.kernel_log is None:
        yield issue("kernel-log-missing", Severity.WARNING, "the kernel log could not be read")


def io_errors(run: RunFacts) -> Iterator[Issue]:
    """Errors the kernel reported while the run was on."""
    lines = [line for line in (run.kernel_log or "").splitlines() if _IO_ERROR.search(line)]
    if lines:
        yield issue(
            "io-errors",
            Severity.ERROR,
            f"the kernel reported errors: {lines[0].strip()}",
            expected=0,
            actual=len(lines),
        )


def zone_limits(run: RunFacts) -> Iterator[Issue]:
    """Somebody opened more zones than the device allows."""
    for name, pattern in (("active", _ACTIVE_LIMIT), ("open", _OPEN_LIMIT)):
        limit = run.spec.device.max_active_zones if name == "active" else None
        limit = run.spec.device.max_open_zones if name == "open" else limit
        if pattern.search(run.kernel_log or ""):
            yield issue(
                f"{name}-zones-exceeded",
                Severity.ERROR,
                f"the limit of {limit} {name} zones was exceeded",
                expected=limit,
            )


def utilisation(run: RunFacts) -> Iterator[Issue]:
    """The aged state that was asked for has to be the one that was measured."""
    found = run.utilisation
    if found is None or found.u_ns is None or run.spec.cold is None:
        return
    if abs(found.u_ns - found.target) > found.tolerance:
        yield issue(
            "utilisation-missed",
            Severity.ERROR,
            f"utilisation is {found.u_ns:.1%}, wanted {found.target:.1%} ± {found.tolerance:.1%}",
            expected=found.target,
            actual=round(found.u_ns, 6),
        )


def zoned_share(run: RunFacts) -> Iterator[Issue]:
    """A level that says it uses zones must really put the bytes there."""
    if not run.uses_zoned:
        return
    measured = [phase for phase in run.phases if phase.measured]
    zoned = sum(phase.zoned.write_bytes for phase in measured if phase.zoned)
    other = sum(phase.conventional.write_bytes for phase in measured if phase.conventional)
    if zoned + other == 0:
        return
    share = zoned / (zoned + other)
    fault = share < _SHARE_ERROR and not run.buffers_conventional
    if share < _SHARE_WARNING:
        yield issue(
            "zoned-share-low",
            Severity.ERROR if fault else Severity.WARNING,
            f"only {share:.1%} of the written bytes reached the zoned device",
            expected=_SHARE_ERROR if fault else _SHARE_WARNING,
            actual=round(share, 6),
        )


def direct_io(run: RunFacts) -> Iterator[Issue]:
    """Direct I/O was asked for and the level buffers it: the page cache is part of the result."""
    if run.direct_io is None:
        return
    for what, effective in (("reads", run.direct_io.reads), ("writes", run.direct_io.writes)):
        asked = any(phase.spec.flags.get(DIRECT_FLAGS[what]) for phase in run.phases)
        if asked and effective is False:
            yield issue(
                f"direct-{what}-buffered",
                Severity.WARNING,
                f"direct {what} were asked for, {run.spec.level} buffers them"
                f" ({run.direct_io.source})",
                expected="direct",
                actual="buffered",
            )


def level_caveats(run: RunFacts) -> Iterator[Issue]:
    """What the level says of itself on this device."""
    yield from run.caveats


def gc_ran(run: RunFacts) -> Iterator[Issue]:
    """A phase meant to trigger garbage collection in which none ran compares nothing."""
    for phase in run.phases:
        if not phase.spec.expects_gc or not run.uses_zoned:
            continue
        events = gc_delta(phase)
        if events is None:
            yield issue(
                "gc-counter-missing",
                Severity.INFO,
                f"{run.spec.level} does not tell whether it collected garbage"
                f" ({phase.after.gc_source})",
                phase,
            )
        elif events == 0:
            yield issue(
                "gc-never-ran",
                Severity.WARNING,
                f"garbage collection never ran in {phase.spec.name}",
                phase,
                actual=0,
            )


def clock(run: RunFacts) -> Iterator[Issue]:
    """Real time jumped while the run was on (times themselves are monotonic)."""
    if abs(run.clock_jump) > _CLOCK_JUMP_SECONDS:
        yield issue(
            "clock-jump",
            Severity.WARNING,
            f"the clock jumped by {run.clock_jump:+.1f} s during the run",
            expected=0,
            actual=round(run.clock_jump, 3),
        )


def other_io(run: RunFacts) -> Iterator[Issue]:
    """Someone else was writing to a device before the run began."""
    for name, written in run.idle_written.items():
        if written:
            yield issue(
                "other-io",
                Severity.ERROR,
                f"{written} B were written to {name} by others right before the run",
                expected=0,
                actual=written,
            )


def gc_delta(phase: PhaseFacts) -> int | None:
    """Return the GC events of a phase by the level's own counter, None when it has none."""
    return difference(phase.before.gc_events, phase.after.gc_events)
