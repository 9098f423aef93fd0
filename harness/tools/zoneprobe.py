"""zoneprobe, our native program that times commands to zones by their history (harness/native)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ToolFailed
from harness.store.ledger import OwnCounts
from harness.tools import native, proc

PROGRAM = "zoneprobe"
# The file in a level's scratch directory that each invocation adds a line to.
LEDGER = "zoneprobe.jsonl"
# Zone 0 has the label (harness/native/zoneprobe/label.h).
LABEL_ZONES = 1

# Of the one line of JSON that `run` prints (report.h).
_SUMMARY_VERSION = 1
_LABEL_TIMEOUT_SECONDS = 300.0
_COUNTS = ("bytes_written", "finishes", "pad_bytes", "resets")

_HEADER = "seconds,cycle,zone,life,treatment,command,index,bytes,nanoseconds"
# The last command of a cycle.
_CLEANUP = re.compile(r"^(\d+\.\d{6}),\d+,(\d+),\d+,[^,]+,cleanup,0,0,\d+$")
# Columns of a series made from the report, behind its time.
SERIES = "operations,zone"


@dataclass(frozen=True, slots=True)
class Treatment:
    """What zones went through, and what their commands took then, in nanoseconds.

    ``occupied`` bytes were in a zone before it was finished (where ``finish``) and reset;
    ``writes`` are those behind the reset, in their order, of each cycle.
    """

    name: str
    finish: bool
    occupied: int
    finishes: tuple[int, ...]
    resets: tuple[int, ...]
    writes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of ``zoneprobe run``. ``operations`` are cycles; sizes in bytes."""

    operations: int
    seconds: float
    bytes_written: int
    zone_capacity: int
    treatments: tuple[Treatment, ...]


def label(device: Path, text: str) -> None:
    """Write the label of a run to a device whose zones are all empty.

    Raises:
        HostError: zoneprobe is not installed.
        ToolFailed: it refused or failed.
    """
    argv = [str(native.program(PROGRAM)), "label", f"--device={device}", f"--label={text}"]
    proc.run(argv, timeout=_LABEL_TIMEOUT_SECONDS)


def parse(stdout: str) -> Summary | None:
    """Read the summary; None when there is none: a run that failed prints nothing.

    Raises:
        ToolFailed: it is damaged, or does not add up.
    """
    summary = native.summary(PROGRAM, _SUMMARY_VERSION, stdout, _summary)
    if summary and sum(len(one.writes) for one in summary.treatments) != summary.operations:
        raise _malformed(f"{summary.operations} cycles are not those of its treatments")
    return summary


def _summary(told: dict[str, Any]) -> Summary:
    return Summary(
        operations=_whole(told["cycles"]),
        seconds=float(told["seconds"]),
        bytes_written=_whole(told["bytes_written"]),
        zone_capacity=_whole(told["zone_capacity"]),
        treatments=tuple(_treatment(one) for one in told["treatments"]),
    )


def totals(lines: Iterable[str]) -> OwnCounts:
    """Add up the ledger: what all invocations wrote, finished and reset. A torn line is left out.

    Behind each invocation every zone is empty again but the label's.

    Raises:
        ToolFailed: a line is not zoneprobe's.
    """
    sums = dict.fromkeys(_COUNTS, 0)
    for line in lines:
        if not line.endswith("\n"):
            continue
        try:
            told = json.loads(line)
            for name in _COUNTS:
                sums[name] += _whole(told[name])
        except (ValueError, KeyError, TypeError):
            raise _malformed(f"its ledger has {line[:60]!r}") from None
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
    """Read ``--report_file``: when each cycle ended (s), and the other columns (SERIES).

    Raises:
        ToolFailed: it does not begin as zoneprobe's does.
    """
    complete, _, _ = csv.rpartition("\n")
    header, *rows = complete.splitlines() or [""]
    if header != _HEADER:
        raise _malformed(f"the report begins with {header[:60]!r}")
    return list(_ends(rows))


def operations_in(line: str) -> int:
    """Return 1 for the line that ends a cycle, 0 for any other."""
    return int(_CLEANUP.match(line) is not None)


def _ends(rows: Iterable[str]) -> Iterator[tuple[float, str]]:
    for row in rows:
        found = _CLEANUP.match(row)
        if found:
            yield float(found[1]), f"1,{found[2]}"


def _treatment(told: dict[str, Any]) -> Treatment:
    return Treatment(
        name=str(told["name"]),
        finish=bool(told["finish"]),
        occupied=_whole(told["occupied"]),
        finishes=tuple(map(_whole, told["finish_ns"])),
        resets=tuple(map(_whole, told["reset_ns"])),
        writes=tuple(tuple(map(_whole, cycle)) for cycle in told["write_ns"]),
    )


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no count")
    return value


def _malformed(what: str) -> ToolFailed:
    return native.malformed(PROGRAM, what)
