"""zoneprobe, the native program that times zone commands by the history of the zone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.store.ledger import OwnCounts
from harness.tools import native, proc
from harness.tools.native import whole

PROGRAM = "zoneprobe"
# File in a level's scratch folder; each invocation appends a line.
LEDGER = "zoneprobe.jsonl"
# Zone 0 holds the label (harness/native/zoneprobe/label.h).
LABEL_ZONES = 1

# Schema of the JSON line that `run` prints (report.h).
_SUMMARY_VERSION = 1
_LABEL_TIMEOUT_SECONDS = 300.0
_COUNTS = ("bytes_written", "finishes", "pad_bytes", "resets")

_HEADER = "seconds,cycle,zone,life,treatment,command,index,bytes,nanoseconds"
# The last command of a cycle.
_CLEANUP = re.compile(r"^(\d+\.\d{6}),\d+,(\d+),\d+,[^,]+,cleanup,0,0,\d+$")
# The treatment that only writes.
_FRESH = "fresh"
# Columns after the time in a series made from the report.
SERIES = "operations,zone"


@dataclass(frozen=True, slots=True)
class Treatment:
    """A history of zones, and the latencies of the commands that followed, in nanoseconds."""

    name: str
    finish: bool  # zones were finished before the reset
    occupied: int  # bytes in a zone before it was finished or reset
    finishes: tuple[int, ...]
    resets: tuple[int, ...]
    writes: tuple[tuple[int, ...], ...]  # after the reset, in order, of each cycle


@dataclass(frozen=True, slots=True)
class ProbeSummary:
    """Summary of ``zoneprobe run``."""

    operations: int  # cycles
    seconds: float
    bytes_written: int
    zone_capacity: int  # bytes
    treatments: tuple[Treatment, ...]
    finishes: int
    resets: int


@dataclass(frozen=True, slots=True)
class ReportedCommand:
    """A line of the report; the command of a ``fill`` is all of its writes."""

    treatment: str
    command: str
    bytes: int
    nanoseconds: int


def label(device: Path, text: str) -> None:
    """Write the label of a run to a device with empty zones.

    Raises:
        HostError: zoneprobe is not installed.
        ToolFailed: zoneprobe failed.
    """
    argv = [str(native.program(PROGRAM)), "label", f"--device={device}", f"--label={text}"]
    proc.run(argv, timeout=_LABEL_TIMEOUT_SECONDS)


def parse(stdout: str) -> ProbeSummary | None:
    """Parse the summary; None without one: a failed run prints nothing.

    Raises:
        ToolFailed: it is damaged or inconsistent.
    """
    summary = native.summary(PROGRAM, _SUMMARY_VERSION, stdout, _summary)
    if summary is None:
        return None
    for problem in _contradictions(summary):
        raise native.malformed(PROGRAM, problem)
    return summary


def _contradictions(summary: ProbeSummary) -> Iterator[str]:
    """Yield the counts that contradict the lists of times. Each cycle ends with a reset."""
    treatments = summary.treatments
    cycles = sum(len(one.writes) for one in treatments)
    for name, count, wanted in (
        ("cycles", summary.operations, cycles),
        ("finishes", summary.finishes, sum(len(one.finishes) for one in treatments)),
        ("resets", summary.resets, sum(len(one.resets) for one in treatments) + cycles),
    ):
        if count != wanted:
            yield f"{count} {name}, but {wanted} in its treatments"
    for one in treatments:
        times = len(one.writes)
        if len(one.finishes) != (times if one.finish else 0):
            yield f"{one.name} has {len(one.finishes)} finishes in {times} cycles"
        if len(one.resets) != (0 if one.name == _FRESH else times):
            yield f"{one.name} has {len(one.resets)} resets in {times} cycles"
    if len({len(one.writes) for one in treatments}) > 1:
        yield "its treatments have different numbers of cycles"
    if len({len(cycle) for one in treatments for cycle in one.writes}) > 1:
        yield "its cycles have different numbers of writes"


def _summary(line: dict[str, Any]) -> ProbeSummary:
    return ProbeSummary(
        operations=whole(line["cycles"]),
        seconds=float(line["seconds"]),
        bytes_written=whole(line["bytes_written"]),
        zone_capacity=whole(line["zone_capacity"]),
        treatments=tuple(map(_treatment, line["treatments"])),
        finishes=whole(line["finishes"]),
        resets=whole(line["resets"]),
    )


def totals(lines: Iterable[str]) -> OwnCounts:
    """Add up the ledger of all invocations; an incomplete line is ignored.

    After each invocation all zones except the label's are empty again.

    Raises:
        ToolFailed: a line is malformed.
    """
    sums = dict.fromkeys(_COUNTS, 0)
    for line in lines:
        if not line.endswith("\n"):
            continue
        try:
            record = json.loads(line)
            for name in _COUNTS:
                sums[name] += whole(record[name])
        except (ValueError, KeyError, TypeError):
            raise native.malformed(PROGRAM, f"its ledger has {line[:60]!r}") from None
    return OwnCounts(
        payload={"probe": sums["bytes_written"]},
        filling={},
        given_up={"explicit": sums["pad_bytes"]},
        finishes=sums["finishes"],
        resets=sums["resets"],
        space={"live": 0},
        metadata_zones=LABEL_ZONES,
    )


def cycles(csv: str) -> list[tuple[float, str]]:
    """Parse ``--report_file``: when each cycle ended (s), and the other columns (SERIES).

    Raises:
        ToolFailed: the header is not zoneprobe's.
    """
    ends = filter(None, map(_CLEANUP.match, _rows(csv)))
    return [(float(end[1]), f"1,{end[2]}") for end in ends]


def commands(csv: str) -> list[ReportedCommand]:
    """Parse ``--report_file``: every command, in order.

    Raises:
        ToolFailed: the header or a line is not zoneprobe's.
    """
    return [_command(row) for row in _rows(csv)]


def _command(row: str) -> ReportedCommand:
    try:
        *_, treatment, command, _, size, nanoseconds = row.split(",")
        return ReportedCommand(treatment, command, int(size), int(nanoseconds))
    except ValueError:
        raise native.malformed(PROGRAM, f"the report has {row[:60]!r}") from None


def _rows(csv: str) -> list[str]:
    """Return the complete lines behind the header; ToolFailed if that is not zoneprobe's."""
    complete, _, _ = csv.rpartition("\n")
    header, *rows = complete.splitlines() or [""]
    if header != _HEADER:
        raise native.malformed(PROGRAM, f"the report begins with {header[:60]!r}")
    return rows


def operations_in(line: str) -> int:
    """Return 1 for the last line of a cycle, 0 for any other."""
    return int(_CLEANUP.match(line) is not None)


def _treatment(record: dict[str, Any]) -> Treatment:
    return Treatment(
        name=str(record["name"]),
        finish=bool(record["finish"]),
        occupied=whole(record["occupied"]),
        finishes=tuple(map(whole, record["finish_ns"])),
        resets=tuple(map(whole, record["reset_ns"])),
        writes=tuple(tuple(map(whole, cycle)) for cycle in record["write_ns"]),
    )
