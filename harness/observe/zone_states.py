"""Number of zones per state, cheap enough to sample once a second.

The report is read as columns of bytes, and only the few active zones are decoded. This takes a
tenth of the time of ``harness.observe.zone_reports`` for 384 zones.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path

from harness.observe.zone_reports import BLKREPORTZONE, HEADER, ZONE, ZoneCondition

_CONDITION = 25  # of struct blk_zone: start, length and write pointer (8 B each), type, condition
_WORDS = ZONE.size // 8  # start, length, write pointer, type and condition, capacity

_COUNTED = (
    ZoneCondition.EMPTY,
    ZoneCondition.IMPLICIT_OPEN,
    ZoneCondition.EXPLICIT_OPEN,
    ZoneCondition.CLOSED,
    ZoneCondition.ACTIVE,
    ZoneCondition.FULL,
    ZoneCondition.READ_ONLY,
    ZoneCondition.OFFLINE,
)
_ACTIVE = re.compile(rb"[\x02-\x05]")
_OPEN = (ZoneCondition.IMPLICIT_OPEN, ZoneCondition.EXPLICIT_OPEN)
_BINS = 10

# Zones per condition, open zones, active zones, and active zones by tenths of capacity written.
COLUMNS = (
    *(condition.name.lower() for condition in _COUNTED if condition is not ZoneCondition.ACTIVE),
    "open",
    "active",
    *(f"occupied_{10 * index}" for index in range(_BINS)),
)


def row(conditions: bytes, active: Iterable[tuple[int, int]]) -> list[int]:
    """Return one value per column.

    ``conditions`` has a byte per zone (``enum blk_zone_cond``), ``active`` the pair (written,
    capacity) of each active zone in one unit.
    """
    counts = {condition: conditions.count(condition) for condition in _COUNTED}
    bins = [0] * _BINS
    total = 0
    for written, capacity in active:
        total += 1
        bins[min(written * _BINS // capacity, _BINS - 1)] += 1
    # Cached reports do not distinguish open from closed: such zones count as active only.
    listed = [counts[condition] for condition in _COUNTED if condition is not ZoneCondition.ACTIVE]
    return [*listed, sum(counts[condition] for condition in _OPEN), total, *bins]


def of_report(data: bytearray) -> list[int]:
    """Return the row of a ``struct blk_zone_report`` as the kernel filled it."""
    _, number, _ = HEADER.unpack_from(data)
    end = HEADER.size + number * ZONE.size
    conditions = bytes(data[HEADER.size + _CONDITION : end : ZONE.size])
    with memoryview(data)[HEADER.size : end] as body, body.cast("Q") as words:
        active = []
        for match in _ACTIVE.finditer(conditions):
            start, size, pointer, _, capacity = words[match.start() * _WORDS :][:5]
            active.append((pointer - start, capacity or size))
    return row(conditions, active)


class ZoneStates:
    """A device whose zones are counted repeatedly."""

    def __init__(self, path: Path, zones: int) -> None:
        self._zones = zones
        self._buffer = bytearray(HEADER.size + zones * ZONE.size)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> list[int | None]:
        """Return one value per column; all are null if the kernel refuses the report."""
        HEADER.pack_into(self._buffer, 0, 0, self._zones, 0)
        try:
            fcntl.ioctl(self._file, BLKREPORTZONE, self._buffer)
        except OSError:
            return [None] * len(COLUMNS)
        return list(of_report(self._buffer))

    def close(self) -> None:
        """Close the device."""
        os.close(self._file)
