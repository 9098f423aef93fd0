"""Numbers that are sampled about once a second from kernel files that stay open."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ZonelabError

_LARGEST = 1 << 14  # bytes; memory.stat of a cgroup has 1.5 KiB, a sysfs file at most a page

Values = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A file and the columns that are read from it."""

    path: Path
    columns: tuple[str, ...]
    parse: Callable[[bytes], Values]  # one value per column; null where there is none
    tail: bool = False  # read only the last complete line of a growing file, and what follows


def number(path: Path, column: str) -> Gauge:
    """Return the gauge of a file that holds one number."""
    return Gauge(path, (column,), lambda data: [int(data)])


def fields(path: Path, columns: dict[str, str], *, scale: int = 1) -> Gauge:
    """Return the gauge of a file with lines ``name value`` or ``name: value``.

    ``columns`` maps names in the file to columns of the series; the first line with a name is read.
    ``scale`` is a factor for all values.
    """
    patterns = [re.compile(rb"^%s:?\s+(\d+)" % name.encode(), re.MULTILINE) for name in columns]

    def parse(data: bytes) -> Values:
        matches = [pattern.search(data) for pattern in patterns]
        return [int(match[1]) * scale if match else None for match in matches]

    return Gauge(path, tuple(columns.values()), parse)


def pressure(path: Path, column: str) -> Gauge:
    """Return the gauge of a pressure file: microseconds in which some or all tasks waited."""
    pattern = re.compile(rb"^(some|full) .*total=(\d+)$", re.MULTILINE)

    def parse(data: bytes) -> Values:
        totals = dict(pattern.findall(data))
        return [int(totals[kind]) if kind in totals else None for kind in (b"some", b"full")]

    return Gauge(path, (f"{column}_some_us", f"{column}_full_us"), parse)


def devices_io(path: Path, columns: tuple[str, str]) -> Gauge:
    """Return the gauge of a cgroup's io.stat: bytes read and written on all devices."""
    read, written = re.compile(rb"\brbytes=(\d+)"), re.compile(rb"\bwbytes=(\d+)")

    def parse(data: bytes) -> Values:
        return [sum(map(int, read.findall(data))), sum(map(int, written.findall(data)))]

    return Gauge(path, columns, parse)


class Reader:
    """Reads gauges repeatedly. A file that is missing is tried again each time."""

    def __init__(self, gauges: Sequence[Gauge]) -> None:
        self._gauges = tuple(gauges)
        self._files: dict[Path, int] = {}

    @property
    def columns(self) -> list[str]:
        """All columns, in order."""
        return [column for gauge in self._gauges for column in gauge.columns]

    def read(self) -> list[int | None]:
        """Return one value per column."""
        values: list[int | None] = []
        for gauge in self._gauges:
            row = self._read_gauge(gauge)
            values += row if row is not None else [None] * len(gauge.columns)
        return values

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _read_gauge(self, gauge: Gauge) -> Values | None:
        try:
            if gauge.path not in self._files:
                self._files[gauge.path] = os.open(gauge.path, os.O_RDONLY | os.O_CLOEXEC)
            descriptor = self._files[gauge.path]
            data = _last_line(descriptor) if gauge.tail else os.pread(descriptor, _LARGEST, 0)
            return gauge.parse(data)
        except (OSError, ValueError, IndexError, ZonelabError):
            return None  # missing, too short, or not a number: null, never 0


def _last_line(descriptor: int) -> bytes:
    """Return the end of a file with at least one whole line, however long, if it has one."""
    size, length = os.fstat(descriptor).st_size, _LARGEST
    while True:
        begin = max(size - length, 0)
        data = os.pread(descriptor, size - begin, begin)
        if begin == 0 or data.count(b"\n") > 1:
            return data
        length *= 4
