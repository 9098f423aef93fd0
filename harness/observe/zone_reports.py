"""Zone reports by ioctl (linux/blkzoned.h), in bytes. harness/tools/zone_reset.py resets zones."""

from __future__ import annotations

import csv
import errno
import fcntl
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from harness.errors import HostError, ToolFailed
from harness.quantities import SECTOR
from harness.store import checksums

BLKREPORTZONE = 0xC0101282  # _IOWR(0x12, 130, struct blk_zone_report)
HEADER = struct.Struct("<QII")  # first sector, zones, flags
ZONE = struct.Struct("<QQQBBBB4xQ24x")  # start, length, wp, type, cond, non_seq, reset, capacity
_HAS_CAPACITY = 1  # BLK_ZONE_REP_CAPACITY
_BATCH = 512
_COLUMNS = ["zone", "capacity", "allocated", "condition"]


class ZoneType(IntEnum):
    """``enum blk_zone_type``."""

    CONVENTIONAL = 1
    SEQUENTIAL_REQUIRED = 2
    SEQUENTIAL_PREFERRED = 3


class ZoneCondition(IntEnum):
    """``enum blk_zone_cond``."""

    NOT_WRITE_POINTER = 0
    EMPTY = 1
    IMPLICIT_OPEN = 2
    EXPLICIT_OPEN = 3
    CLOSED = 4
    ACTIVE = 5  # open or closed: cached reports of newer kernels do not distinguish them
    READ_ONLY = 13
    FULL = 14
    OFFLINE = 15


ACTIVE = frozenset(
    {
        ZoneCondition.IMPLICIT_OPEN,
        ZoneCondition.EXPLICIT_OPEN,
        ZoneCondition.CLOSED,
        ZoneCondition.ACTIVE,
    }
)


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone; positions and sizes in bytes."""

    start: int
    size: int
    capacity: int
    write_pointer: int
    condition: ZoneCondition
    type: ZoneType

    @property
    def in_place(self) -> bool:
        """Whether the zone has no write pointer: it can be written in place, and never reset."""
        return (
            self.type is ZoneType.CONVENTIONAL or self.condition is ZoneCondition.NOT_WRITE_POINTER
        )

    @property
    def allocated(self) -> int:
        """Bytes in use: the capacity of a full zone, else write pointer minus start."""
        if self.condition is ZoneCondition.FULL:
            return self.capacity
        if self.condition in ACTIVE:
            return self.write_pointer - self.start
        return 0


@dataclass(frozen=True, slots=True)
class ZoneCounts:
    """Summary of a zone report."""

    active: int
    full: int
    allocated: int  # bytes; A of docs/methods.md


def count(zones: Iterable[Zone], skip: int = 0) -> ZoneCounts:
    """Summarise a report; conventional zones count in none of the states.

    The first ``skip`` zones hold a level's metadata. They count as allocated and active, but not
    as full: ZenFS finishes an almost empty one at every mount.
    """
    active = full = allocated = 0
    for number, zone in enumerate(zones):
        allocated += zone.allocated
        active += zone.condition in ACTIVE
        if number >= skip:
            full += zone.condition is ZoneCondition.FULL
    return ZoneCounts(active, full, allocated)


def digest(zones: Iterable[Zone]) -> str:
    """Return the SHA-256 of conditions and write pointers, which changes with each write."""
    text = "".join(f"{z.start}:{z.condition:d}:{z.start + z.allocated}\n" for z in zones)
    return checksums.of_text(text)


def as_csv(zones: Iterable[Zone]) -> str:
    """Return a report as CSV; ``allocated`` is ``Zone.allocated``."""
    rows = [",".join(_COLUMNS)]
    rows += [f"{i},{z.capacity},{z.allocated},{z.condition.name}" for i, z in enumerate(zones)]
    return "\n".join(rows) + "\n"


def from_csv(text: str) -> list[Zone]:
    """Parse the output of ``as_csv``, which lacks the start and size of zones.

    Raises:
        ToolFailed: the text is not a zone report.
    """
    header, *rows = list(csv.reader(text.splitlines())) or [[]]
    if header != _COLUMNS:
        raise ToolFailed(f"a zone report begins with {','.join(header)[:60]!r}")
    try:
        return [
            Zone(
                0,
                int(capacity),
                int(capacity),
                int(allocated),
                ZoneCondition[condition],
                ZoneType.SEQUENTIAL_REQUIRED,
            )
            for _, capacity, allocated, condition in rows
        ]
    except (ValueError, KeyError) as error:
        raise ToolFailed(f"a zone report is damaged: {error}") from None


def parse_report(data: bytes) -> list[Zone]:
    """Decode ``struct blk_zone_report`` as the kernel filled it."""
    _, number, flags = HEADER.unpack_from(data)
    zones = []
    for index in range(number):
        start, size, pointer, kind, condition, _, _, capacity = ZONE.unpack_from(
            data, HEADER.size + index * ZONE.size
        )
        zones.append(
            Zone(
                start * SECTOR,
                size * SECTOR,
                (capacity if flags & _HAS_CAPACITY else size) * SECTOR,
                pointer * SECTOR,
                ZoneCondition(condition),
                ZoneType(kind),
            )
        )
    return zones


def report(path: str, limit: int | None = None) -> list[Zone]:
    """Return the zones of a device, all or the first ``limit``.

    Raises:
        HostError: the device cannot be opened.
        ToolFailed: the kernel refused the report.
    """
    zones: list[Zone] = []
    fd = _open(path)
    try:
        sector = 0
        while limit is None or len(zones) < limit:
            wanted = _BATCH if limit is None else min(_BATCH, limit - len(zones))
            buffer = bytearray(HEADER.size + wanted * ZONE.size)
            HEADER.pack_into(buffer, 0, sector, wanted, 0)
            fcntl.ioctl(fd, BLKREPORTZONE, buffer)
            batch = parse_report(bytes(buffer))
            if not batch:
                break
            zones += batch
            sector = (batch[-1].start + batch[-1].size) // SECTOR
    except OSError as error:
        raise ToolFailed(f"{path}: zone report failed: {error.strerror}") from None
    finally:
        os.close(fd)
    return zones


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        hint = "run as root" if error.errno in (errno.EACCES, errno.EPERM) else ""
        raise HostError(f"{path}: {error.strerror}", hint=hint, code="device-open") from None
