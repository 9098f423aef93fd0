"""Rules about tracing: the tracer saw every command. The ledger checks bytes and zones."""

from __future__ import annotations

from collections.abc import Iterator

from harness.observe.diskstats import DiskCounters
from harness.observe.tracing.zone_history import Traced
from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.rule import error, info, issue, rule, warning
from harness.store.result import Issue
from harness.store.spec import TracingMode


@rule(
    info(
        "not-traced",
        "commands at the driver could not be traced",
        "zone metrics are null unless the level counts them itself",
    ),
    warning(
        "every-command-kept",
        "the study sets `tracing: all`",
        "storing every command slows the run: do not use its times",
    ),
)
def traced(run: RunFacts) -> Iterator[Issue]:
    """Commands are traced, and the trace does not slow the run."""
    if run.untraced is not None:
        yield issue("not-traced", f"commands were not traced: {run.untraced.message}")
    if run.spec.tracing is TracingMode.ALL:
        yield issue(
            "every-command-kept",
            "tracing stored every command, which slows the run: do not use its times",
        )


@rule(
    error(
        "trace-incomplete",
        "the tracer lost commands",
        "the counts may be too low",
    )
)
def every_command(run: RunFacts) -> Iterator[Issue]:
    """The tracer loses no command."""
    for phase in run.phases:
        for problem in phase.traced.problems if phase.traced else ():
            yield issue("trace-incomplete", f"commands were missed: {problem}", phase)


@rule(
    error(
        "closure-driver-commands",
        "the tracer's count of writes and zone commands differs from the kernel's",
        "the tracer missed some, or counted some twice",
    )
)
def driver_commands(run: RunFacts) -> Iterator[Issue]:
    """The tracer sees as many writes and zone management commands as the kernel counts.

    The kernel counts a flush without data as a write, and a flush before a write not at all.
    """
    for phase, name, disk, seen in _compared(run):
        flushes = disk.writes - seen.attempted(name)
        if not 0 <= flushes <= seen.done(name, "flush"):
            yield issue(
                "closure-driver-commands",
                f"the tracer saw {seen.attempted(name)} writes and zone commands to {name}, the "
                f"kernel counted {disk.writes}",
                phase,
                expected=disk.writes,
                actual=seen.attempted(name),
            )


def _compared(run: RunFacts) -> Iterator[tuple[PhaseFacts, str, DiskCounters, Traced]]:
    """Yield each phase and device for which both counts are complete."""
    for phase in run.phases:
        seen = phase.traced
        if seen is None or not seen.complete:
            continue
        for name, disk in ((seen.zoned, phase.zoned), (seen.conventional, phase.conventional)):
            if name is not None and disk is not None:
                yield phase, name, disk, seen
