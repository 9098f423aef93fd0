"""Files of recorded writes: ``raw/writes.bin``, as ``zonemodel media`` plays them.

harness/native/model/media/media.h describes the form. Sectors have 512 B.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import IO

from harness.errors import ConfigError
from harness.quantities import SECTOR
from harness.store import packed
from harness.store.media_record import MediaInterval

_MAGIC = b"zonelab-writes-1\n"
_RECORD = struct.Struct("<QQII")
_CHUNK = 4096 * _RECORD.size
_NS_PER_US = 1000


class Kind(IntEnum):
    """What a record is: a command, or the mark at the end of an interval."""

    WRITE = 0
    DISCARD = 1
    ZEROES = 2
    MARK = 3


@dataclass(frozen=True, slots=True)
class WriteCommand:
    """A command that the device completed. ``time`` is CLOCK_MONOTONIC in ns."""

    time: int
    sector: int
    sectors: int
    kind: Kind


def write(
    path: Path, commands: Iterable[WriteCommand], marks: Mapping[str, int]
) -> tuple[MediaInterval, ...]:
    """Write a file; return its intervals, the last one without a mark.

    Args:
        path: the file.
        commands: in the order of their times.
        marks: times of the marks in ns, by name. A command at the time of a mark is before it.
    """
    ordered = sorted(marks.items(), key=lambda item: item[1])
    found: list[MediaInterval] = []
    sectors: Counter[int] = Counter()
    with path.open("wb") as file:
        names = [name for name, _ in ordered]
        file.write(_MAGIC + json.dumps({"marks": names}).encode() + b"\n")

        def mark() -> None:
            name, time = ordered[len(found)]
            file.write(_RECORD.pack(time // _NS_PER_US, len(found), 0, Kind.MARK))
            found.append(_ended(name, sectors))

        for one in commands:
            while len(found) < len(ordered) and one.time > ordered[len(found)][1]:
                mark()
            sectors[one.kind] += one.sectors
            file.write(_RECORD.pack(one.time // _NS_PER_US, one.sector, one.sectors, one.kind))
        while len(found) < len(ordered):
            mark()
    return (*found, _ended("", sectors))


def interval_of(time: int, marks: Mapping[str, int]) -> str:
    """Return the mark at the end of the interval of a time in ns; '' after the last one."""
    later = [(moment, name) for name, moment in marks.items() if time <= moment]
    return min(later)[1] if later else ""


def read(path: Path) -> tuple[MediaInterval, ...]:
    """Return the intervals of a stored file, which may be compressed.

    Raises:
        ConfigError: it is missing or damaged.
    """
    stored = packed.find(path)
    if stored is None:
        raise _damaged(path, "is missing")
    try:
        with packed.opened_bytes(stored) as file:
            return tuple(_intervals(path, file))
    except packed.UNREADABLE as error:
        raise _damaged(path, f"cannot be read: {error}") from None


def _intervals(path: Path, file: IO[bytes]) -> Iterator[MediaInterval]:
    if file.readline() != _MAGIC:
        raise _damaged(path, "has another form")
    try:
        marks = [str(name) for name in json.loads(file.readline())["marks"]]
    except (ValueError, KeyError, TypeError):
        raise _damaged(path, "has no marks") from None
    total: Counter[int] = Counter()
    done = 0
    while chunk := file.read(_CHUNK):
        if len(chunk) % _RECORD.size:
            raise _damaged(path, "ends within a record")
        for _, number, sectors, kind in _RECORD.iter_unpack(chunk):
            if kind > Kind.MARK or (kind == Kind.MARK and (number != done or done >= len(marks))):
                raise _damaged(path, "has an unknown record")
            if kind != Kind.MARK:
                total[kind] += sectors
                continue
            yield _ended(marks[done], total)
            done += 1
    if done != len(marks):
        raise _damaged(path, f"lacks the mark {marks[done]}")
    yield _ended("", total)


def _ended(mark: str, sectors: Counter[int]) -> MediaInterval:
    """Return the interval whose sectors are counted by kind; the next one begins at 0."""
    done = [sectors[kind] * SECTOR for kind in (Kind.WRITE, Kind.ZEROES, Kind.DISCARD)]
    sectors.clear()
    return MediaInterval(mark, *done)


def _damaged(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{path} {what}",
        hint="restore it from a copy, or move its run directory away to repeat the run",
        code="packed-damaged",
    )
