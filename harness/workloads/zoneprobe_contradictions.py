"""Holds the report of zoneprobe against its summary: both have every command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from harness.errors import ZonelabError
from harness.store import packed
from harness.tools import zoneprobe
from harness.tools.zoneprobe import ProbeSummary, ReportedCommand
from harness.workloads.load_program import EndedPhase


def of_report(raw: Path, phase: EndedPhase) -> Iterator[str]:
    """The summary has the times of the report, in the order of the commands."""
    summary = phase.parsed.summary if phase.parsed else None
    if not isinstance(summary, ProbeSummary):
        return
    report, output = (f"raw/{phase.spec.name}.{kind}" for kind in ("report.csv", "stdout"))
    try:
        commands = zoneprobe.commands(packed.text(raw / f"{phase.spec.name}.report.csv"))
    except ZonelabError as error:
        yield f"{report}: {error.message}"
        return
    cycles = sum(one.command == "cleanup" for one in commands)
    written = sum(one.bytes for one in commands)
    for name, found, wanted in (
        ("cycles", cycles, summary.operations),
        ("B written", written, summary.bytes_written),
    ):
        if found != wanted:
            yield f"{report}: has {found} {name}, {output} has {wanted}"
    for treatment in summary.treatments:
        for command, times in (
            ("finish", treatment.finishes),
            ("reset", treatment.resets),
            ("write", tuple(chain(*treatment.writes))),
        ):
            if _times(commands, treatment.name, command) != times:
                yield f"{report}: has other times of {command} in {treatment.name} than {output}"


def _times(commands: Sequence[ReportedCommand], treatment: str, command: str) -> tuple[int, ...]:
    return tuple(
        one.nanoseconds for one in commands if (one.treatment, one.command) == (treatment, command)
    )
