"""Rules about tracing: were all commands seen? Bytes and zones are the ledger's closures."""

from __future__ import annotations

from collections.abc import Iterator

from harness.observe.diskstats import DiskCounters
from harness.observe.zone_trace import Traced
from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.phases import issue
from harness.store.result import Issue, Severity
from harness.store.spec import Tracing


def traced(run: RunFacts) -> Iterator[Issue]:
    """Zone metrics are null without a tracer; every command kept costs time."""
    if run.untraced is not None:
        yield issue(
            "not-traced", Severity.INFO, f"commands were not traced: {run.untraced.message}"
        )
    if run.spec.tracing is Tracing.ALL:
        yield issue(
            "every-command-kept",
            Severity.WARNING,
            "every command was written down, which slows the run: its times are no result",
        )


def every_command(run: RunFacts) -> Iterator[Issue]:
    """Numbers that may be too low are none."""
    for phase in run.phases:
        for problem in phase.traced.problems if phase.traced else ():
            yield issue(
                "trace-incomplete", Severity.ERROR, f"commands were missed: {problem}", phase
            )


def driver_commands(run: RunFacts) -> Iterator[Issue]:
    """Writes and zone management commands = writes the kernel counted: none was overlooked.

    It counts a flush without data as a write too, and one in front of a write not.
    """
    for phase, name, disk, seen in _compared(run):
        flushes = disk.writes - seen.attempted(name)
        if not 0 <= flushes <= seen.done(name, "flush"):
            yield issue(
                "closure-driver-commands",
                Severity.ERROR,
                f"{seen.attempted(name)} writes and zone commands to {name} were seen, the kernel "
                f"counted {disk.writes}",
                phase,
                expected=disk.writes,
                actual=seen.attempted(name),
            )


def _compared(run: RunFacts) -> Iterator[tuple[PhaseFacts, str, DiskCounters, Traced]]:
    """Yield each phase and device of which both sides were counted without loss."""
    for phase in run.phases:
        seen = phase.traced
        if seen is None or not seen.complete:
            continue
        for name, disk in ((seen.zoned, phase.zoned), (seen.conventional, phase.conventional)):
            if name is not None and disk is not None:
                yield phase, name, disk, seen
