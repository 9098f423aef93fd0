"""Kernel counters of block devices (/proc/diskstats)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace

from harness.errors import ToolFailed
from harness.quantities import SECTOR


@dataclass(frozen=True, slots=True)
class DiskCounters:
    """Counters of one device since it appeared. Zone management counts as writes of 0 bytes."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    in_flight: int
    busy_ms: int = 0  # milliseconds with anything in flight
    reads_merged: int = 0  # requests merged into others; not in ``reads``
    writes_merged: int = 0

    def __add__(self, other: DiskCounters) -> DiskCounters:
        """Return the sum."""
        return DiskCounters(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, earlier: DiskCounters) -> DiskCounters:
        """Return the difference to ``earlier``; ``in_flight`` stays the current value."""
        difference = DiskCounters(*map(operator.sub, astuple(self), astuple(earlier)))
        return replace(difference, in_flight=self.in_flight)


COLUMNS = ("read_bytes", "write_bytes", "reads", "writes", "in_flight")
DiskSnapshot = Mapping[str, DiskCounters]


def parse(text: str, names: Iterable[str]) -> dict[str, DiskCounters]:
    """Return the counters of the named devices.

    Raises:
        ToolFailed: a device has no line.
    """
    wanted = set(names)
    counters: dict[str, DiskCounters] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14 or fields[2] not in wanted:  # noqa: PLR2004 - Documentation/iostats
            continue
        # major minor name | reads merged sectors ms | writes merged sectors ms | in flight, busy …
        reads, read_sectors, writes, written, in_flight, busy, *merged = (
            int(fields[i]) for i in (3, 5, 7, 9, 11, 12, 4, 8)
        )
        counters[fields[2]] = DiskCounters(
            reads, read_sectors * SECTOR, writes, written * SECTOR, in_flight, busy, *merged
        )
    missing = sorted(wanted - set(counters))
    if missing:
        raise ToolFailed(f"/proc/diskstats has no line for {', '.join(missing)}")
    return counters


def changes(text: str, names: Iterable[str]) -> int | None:
    """Return a count that grows with each write and discard; null if no device has a line.

    Commands that a program sends directly to the driver are not counted.
    """
    wanted = set(names)
    lines = [fields for fields in map(str.split, text.splitlines()) if fields[2] in wanted]
    # Writes and their sectors, discards and their sectors; old kernels lack the latter.
    counts = [sum(int(fields[i]) for i in (7, 9, 14, 16) if i < len(fields)) for fields in lines]
    return sum(counts) if counts else None


def delta(earlier: DiskSnapshot, later: DiskSnapshot) -> dict[str, DiskCounters]:
    """Return the difference per device."""
    return {name: later[name] - earlier[name] for name in later if name in earlier}
