"""Rules about the integration level."""

from __future__ import annotations

from collections.abc import Iterator

from harness.levels import LEVELS
from harness.rules.facts import RunFacts
from harness.rules.rule import error, info, issue, rule, warning
from harness.store.result import Issue, IssueInfo, Severity

# Below half, the run hardly measured the zoned device: a trap of f2fs with a large conventional
# device. A healthy f2fs puts some per cent of metadata elsewhere.
_SHARE_ERROR = 0.5
_SHARE_WARNING = 0.9
# db_bench's flags for direct I/O. The WAL has no such flag: it is buffered everywhere.
DIRECT_FLAGS = {
    "reads": "use_direct_reads",
    "writes": "use_direct_io_for_flush_and_compaction",
}


@rule(
    warning(
        "not-discarded",
        "the conventional device of a bare level takes no discard",
        "the drive keeps its old data, so writes to fresh space are overwrites",
    )
)
def discarded(run: RunFacts) -> Iterator[Issue]:
    """A bare conventional device begins empty."""
    if run.level_facts.get("discarded") is False:
        device = run.spec.conventional or run.spec.device
        yield issue(
            "not-discarded", f"{device.path} takes no discard: the run begins with its old data"
        )


@rule(
    error(
        "utilisation-missed",
        "V / capacity differs from the target by more than the tolerance",
        "nothing influences garbage collection more than utilisation",
    )
)
def utilisation(run: RunFacts) -> Iterator[Issue]:
    """The measured utilisation is the requested one."""
    measured = run.utilisation
    if measured is None or measured.u_ns is None or run.spec.cold is None:
        return
    if abs(measured.u_ns - measured.target) > measured.tolerance:
        yield issue(
            "utilisation-missed",
            f"utilisation is {measured.u_ns:.1%}, wanted {measured.target:.1%} "
            f"± {measured.tolerance:.1%}",
            expected=measured.target,
            actual=round(measured.u_ns, 6),
        )


@rule(
    IssueInfo(
        "zoned-share-low",
        (Severity.ERROR, Severity.WARNING),
        "less than 90 % of the written bytes reached the zoned device; an error below 50 %,"
        " unless the level buffers on the conventional device by design",
        "the run did not measure the zoned device",
    )
)
def zoned_share(run: RunFacts) -> Iterator[Issue]:
    """A level for zones puts the bytes on zones."""
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
            f"only {share:.1%} of the written bytes reached the zoned device",
            severity=Severity.ERROR if fault else Severity.WARNING,
            expected=_SHARE_ERROR if fault else _SHARE_WARNING,
            actual=round(share, 6),
        )


@rule(
    warning(
        "gc-never-ran",
        "a phase with `expects_gc` had no garbage collection",
        "levels look alike while none of them collects garbage",
    ),
    info(
        "gc-counter-missing",
        "the level has no counter of garbage collections",
        "whether it collected garbage is unknown",
    ),
)
def gc_ran(run: RunFacts) -> Iterator[Issue]:
    """A phase with ``expects_gc`` triggers garbage collection."""
    for phase in run.phases:
        if not phase.spec.expects_gc or not run.uses_zoned:
            continue
        if phase.gc_events is None:
            yield issue(
                "gc-counter-missing",
                f"{run.spec.level} does not count garbage collections ({phase.after.gc_source})",
                phase,
            )
        elif phase.gc_events == 0:
            yield issue(
                "gc-never-ran",
                f"garbage collection never ran in {phase.spec.name}",
                phase,
                actual=0,
            )


@rule(
    warning(
        "direct-reads-buffered",
        "the workload requests direct reads, and the level buffers them",
        "the page cache is part of the result",
    ),
    warning(
        "direct-writes-buffered",
        "the workload requests direct writes, and the level buffers them",
        "short-lived data never reaches the device",
    ),
)
def direct_io(run: RunFacts) -> Iterator[Issue]:
    """Direct I/O bypasses the page cache where the workload requests it."""
    if run.direct_io is None:
        return
    for what, effective in (("reads", run.direct_io.reads), ("writes", run.direct_io.writes)):
        requested = any(phase.spec.flags.get(DIRECT_FLAGS[what]) for phase in run.phases)
        if requested and effective is False:
            yield issue(
                f"direct-{what}-buffered",
                f"the workload requests direct {what}, {run.spec.level} buffers them"
                f" ({run.direct_io.source})",
                expected="direct",
                actual="buffered",
            )


@rule(
    *(declared for level in LEVELS.values() for declared in level.issues),
    error(
        "commands-lost",
        "`tracing: all` missed commands",
        "the list of commands has gaps",
    ),
    error(
        "clean-up",
        "a step of the clean-up failed after the run's first error",
        "the machine may not be as before the run",
    ),
)
def level_caveats(run: RunFacts) -> Iterator[Issue]:
    """Pass on the level's own caveats and the findings of its checker."""
    yield from run.caveats
