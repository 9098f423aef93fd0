"""Differences of two replays: which files differ, and where each differs first."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from harness.store import checksums, packed
from harness.store.result import Result

# The record of a replay (machine.py), which differs between equal replays.
RECORD = "replay.json"

# Characters shown of a line, characters of it before the difference, and bytes of a binary file.
_SHOWN, _BEFORE, _BYTES = 60, 20, 8


@dataclass(frozen=True, slots=True)
class DifferingFile:
    """A file in which two replays differ; ``where`` is its first line, or byte, that differs.

    ``t`` is that line's time in a series, in seconds since the run began; null in other files.
    """

    file: str
    where: str
    first: str
    second: str
    t: float | None


def names(replay: Path) -> list[str]:
    """Return the names of a replay's files, sorted, without the suffix of compressed ones.

    They are the run's, the counters of the drives' servers, the guest's clock and its console.
    """
    own = (RECORD, checksums.NAME)
    files = [name for name in checksums.files(replay) if Path(name).name not in own]
    return sorted(name.removesuffix(packed.SUFFIX) for name in files)


def differences(first: Path, second: Path) -> list[DifferingFile]:
    """Return the files that differ between two replays, the earliest in the run first."""
    both = sorted({*names(first), *names(second)})
    found = [one for name in both if (one := _difference(first, second, name)) is not None]
    return sorted(found, key=lambda one: (one.t is None, one.t or 0.0))


def metric_changes(
    recorded: Result, replayed: Result, metrics: tuple[str, ...]
) -> Iterator[dict[str, object]]:
    """Yield a record for each named metric, and each phase's duration, that both runs have."""
    durations = [f"{phase.name}.seconds" for phase in recorded.phases]
    for name in dict.fromkeys([*metrics, *durations]):
        pair = [one.metrics.get(name) for one in (recorded, replayed)]
        values = [one.value for one in pair if one is not None and one.value is not None]
        if len(values) == len(pair):
            before, after = values
            change = f"{100 * (after / before - 1):+.1f} %" if before else ""
            yield {"metric": name, "recorded": before, "replayed": after, "change": change}


def _difference(first: Path, second: Path, name: str) -> DifferingFile | None:
    contents = [_content(replay / name) for replay in (first, second)]
    if contents[0] == contents[1]:
        return None
    if None in contents:
        there = ["there" if content is not None else "missing" for content in contents]
        return DifferingFile(name, "the file", there[0], there[1], None)
    before, after = (content or b"" for content in contents)
    if b"\0" in before + after:
        return _binary(name, before, after)
    lines = [content.decode(errors="replace").split("\n") for content in (before, after)]
    pairs = enumerate(zip_longest(*lines, fillvalue=""), start=1)
    number, (one, other) = next((found for found in pairs if len(set(found[1])) > 1), (0, ("", "")))
    if not number:
        return _binary(name, before, after)  # only bytes that are not UTF-8 differ
    begin = max(_common_length(one, other) - _BEFORE, 0)
    shown = [line[begin : begin + _SHOWN] for line in (one, other)]
    time = _time(lines[0][0], one or other)
    return DifferingFile(name, f"line {number}", shown[0], shown[1], time)


def _binary(name: str, before: bytes, after: bytes) -> DifferingFile:
    place = _common_length(before, after)
    shown = [content[place : place + _BYTES].hex() for content in (before, after)]
    return DifferingFile(name, f"byte {place}", shown[0], shown[1], None)


def _content(path: Path) -> bytes | None:
    stored = packed.find(path)
    return None if stored is None else packed.unpack(stored.suffix, stored.read_bytes())


def _common_length(first: Sequence[object], second: Sequence[object]) -> int:
    """Return the length of the equal beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((place for place, (one, other) in pairs if one != other), shorter)


def _time(header: str, line: str) -> float | None:
    """Return a row's column ``t``."""
    row = dict(zip(header.split(","), next(csv.reader([line])), strict=False))
    try:
        return float(row["t"])
    except (KeyError, ValueError):
        return None
