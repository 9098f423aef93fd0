"""Rules about tracing: were all commands seen, and do the layers above and below agree."""

from __future__ import annotations

from collections.abc import Iterator

from harness.observe.diskstats import DiskCounters
from harness.observe.zone_trace import Traced
from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.phases import issue
from harness.store.result import Issue, Severity
from harness.store.spec import Tracing

# What zlfs counts since mkfs, by the names of ``zlfs df``, and the commands it sends for them.
_LEDGER = (("finishes", ("finish",)), ("resets", ("reset", "reset-all")))


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


def driver_bytes(run: RunFacts) -> Iterator[Issue]:
    """Bytes of write commands = sectors the kernel counted, refused ones too, to the byte."""
    for phase, name, disk, seen in _compared(run):
        if seen.submitted(name) != disk.write_bytes:
            yield issue(
                "closure-driver-bytes",
                Severity.ERROR,
                f"the commands to {name} had {seen.submitted(name)} B, the kernel counted "
                f"{disk.write_bytes} B",
                phase,
                expected=disk.write_bytes,
                actual=seen.submitted(name),
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


def zlfs_ledger(run: RunFacts) -> Iterator[Issue]:
    """Finishes and resets that zlfs says it sent = those the driver was handed."""
    for phase in run.phases:
        seen = phase.traced
        if run.spec.level != "zlfs" or seen is None or seen.zoned is None or seen.problems:
            continue
        for fact, commands in _LEDGER:
            before, after = phase.before.raw.get(fact), phase.after.raw.get(fact)
            if not isinstance(before, int) or not isinstance(after, int):
                continue
            counted = seen.done(seen.zoned, *commands)
            if counted != after - before:
                yield issue(
                    f"closure-zlfs-{fact}",
                    Severity.ERROR,
                    f"zlfs counted {after - before} {fact}, the driver was handed {counted}",
                    phase,
                    expected=after - before,
                    actual=counted,
                )


def _compared(run: RunFacts) -> Iterator[tuple[PhaseFacts, str, DiskCounters, Traced]]:
    """Yield each phase and device of which both sides were counted without loss."""
    for phase in run.phases:
        seen = phase.traced
        if seen is None or seen.problems:
            continue
        for name, disk in ((seen.zoned, phase.zoned), (seen.conventional, phase.conventional)):
            if name is not None and disk is not None:
                yield phase, name, disk, seen
