"""A modelled drive in files, which only programs with libzlfs.so use: no kernel knows it.

The contents are in a file (harness/native/zlfs/zoned/image.h). Beside it are the model and what
the drive counted (``.counts`` and ``.counts.zones``, see harness/native/zlfs/zoned/drive_counts.h).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ToolFailed
from harness.observe import zone_states
from harness.observe.diskstats import COLUMNS, DiskCounters
from harness.observe.gauges import Gauge, Values
from harness.observe.zone_reports import ACTIVE, Zone, ZoneCondition, ZoneType
from harness.store.files import new_lines
from harness.store.ledger import Completions
from harness.store.spec import MODELLED, NATIVE, Bytes, Device, DeviceIdentity, DeviceKind

# As the class DriveCounts.
_NAMES = (
    *("version", "stores", "stored_bytes", "loads", "loaded_bytes"),
    *("reads", "read_bytes", "writes", "write_bytes"),
    *("reports", "opens", "closes", "finishes", "resets"),
    *("host_bytes", "pad_bytes", "requests", "on_time", "late", "latency", "busy"),
)
_COUNTS = struct.Struct(f"<{len(_NAMES)}Q")
_VERSION = 1

# As the struct ImageHeader: magic, version, id, and the shape; then zone records.
_HEADER = struct.Struct("<10Q")
MAGIC = 0x31304C554D454C5A
_RECORDS_AT = 4096
_RECORD = struct.Struct("<QQ")
# As the enum ZoneCondition.
_CONDITIONS = (
    ZoneCondition.EMPTY,
    ZoneCondition.IMPLICIT_OPEN,
    ZoneCondition.EXPLICIT_OPEN,
    ZoneCondition.CLOSED,
    ZoneCondition.FULL,
    ZoneCondition.READ_ONLY,
    ZoneCondition.OFFLINE,
)

_COUNTED, _ZONES = ".counts", ".counts.zones"
_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class ZoneNote:
    """A zone command, or the first or last write of a zone; times are in nanoseconds."""

    ended: int  # on CLOCK_MONOTONIC
    zone: int
    action: str
    took: int
    written: int  # bytes in the zone before


class NativeDrive:
    """The files of a drive that ``device`` describes."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.contents = Path(device.path)
        served = device.model.split()[1]  # name and digest: another model, another file
        self.model = self.contents.with_name(f"{served}.json")
        self.counts_file = Path(f"{device.path}{_COUNTED}")
        self.zones_file = Path(f"{device.path}{_ZONES}")

    @property
    def name(self) -> str:
        """The name that a run's files use in place of a kernel name."""
        return self.contents.name

    @property
    def specification(self) -> str:
        """The drive's specification in the options and URIs of zlfs' programs."""
        device = self._device
        return (
            f"model:{self.model}?dilation={device.dilation}&contents={self.contents}"
            f"&counts={self.counts_file}"
        )

    def counts(self) -> Mapping[str, int]:
        """Return what the drive counted since its contents were made; zeros before that.

        Raises:
            ToolFailed: the plug-in is of another release.
        """
        try:
            data = self.counts_file.read_bytes()
        except FileNotFoundError:
            return dict.fromkeys(_NAMES, 0)
        return _counts(data)

    def disk_counters(self) -> DiskCounters:
        """Return the counts of writes and reads. Nothing is in flight without a process."""
        return _disk(self.counts())

    def completions(self) -> Completions:
        """Return the requests that the model completed, and how late."""
        counts = self.counts()
        return Completions(counts["requests"], counts["on_time"], counts["late"], counts["latency"])

    def disk_gauge(self) -> Gauge:
        """Return the gauge of the columns of ``series/diskstats.csv``."""

        def parse(data: bytes) -> Values:
            disk = _disk(_counts(data))
            return [disk.read_bytes, disk.write_bytes, disk.reads, disk.writes, disk.in_flight]

        return Gauge(self.counts_file, tuple(f"{self.name}.{one}" for one in COLUMNS), parse)

    def report(self, limit: int | None = None) -> list[Zone]:
        """Return the zones, all or the first ``limit``; empty ones before the contents are made.

        Raises:
            ToolFailed: the file is not an emulated device, or has another shape than the device.
        """
        device = self._device
        size, capacity = device.zone_size or 0, device.zone_capacity or 0
        count = min(device.zones or 0, limit if limit is not None else device.zones or 0)
        return [
            Zone(
                start=number * size,
                size=size,
                capacity=capacity,
                write_pointer=number * size + written,
                condition=condition,
                type=ZoneType.SEQUENTIAL_REQUIRED,
            )
            for number, (condition, written) in enumerate(self._states(count))
        ]

    def zone_row(self) -> Values:
        """Return a sample of ``series/zones.csv``; all null if the zones cannot be read."""
        try:
            zones = self.report()
        except ToolFailed:
            return [None] * len(zone_states.COLUMNS)
        active = [(zone.allocated, zone.capacity) for zone in zones if zone.condition in ACTIVE]
        return zone_states.row(bytes(zone.condition for zone in zones), active)

    def media_bytes(self) -> int:
        """Return the bytes that the model programmed, with those that its buffer still holds."""
        counts = self.counts()
        return counts["host_bytes"] + counts["pad_bytes"]

    def notes(self, offset: int) -> tuple[list[ZoneNote], int]:
        """Return the notes from an offset of the file on, and the offset behind them.

        Raises:
            ToolFailed: a line is damaged.
        """
        try:
            text, end = new_lines(self.zones_file, offset)
        except FileNotFoundError:
            return [], offset
        return parse_notes(text), end

    def is_ours(self) -> bool:
        """Whether the contents are missing, or an emulated device of zlfs."""
        try:
            with self.contents.open("rb") as file:
                head = file.read(_HEADER.size)
        except FileNotFoundError:
            return True
        return len(head) == _HEADER.size and _HEADER.unpack(head)[0] == MAGIC

    def remove(self) -> None:
        """Remove contents and counts. The next program that opens the drive finds a new one."""
        for file in (self.contents, self.counts_file, self.zones_file):
            file.unlink(missing_ok=True)

    def _states(self, count: int) -> Iterator[tuple[ZoneCondition, int]]:
        """Yield the condition and the write pointer of each zone."""
        capacity = self._device.zone_capacity or 0
        try:
            with self.contents.open("rb") as file:
                head = file.read(_HEADER.size)
                file.seek(_RECORDS_AT)
                records = file.read(count * _RECORD.size)
            magic, _, _, block, zones, size, held, *_ = _HEADER.unpack(head)
            shape = (magic, zones, size, held)
            wanted = (MAGIC, self._device.zones, self._device.zone_size, capacity)
            if shape != wanted:
                raise ToolFailed(f"{self.contents} is not the drive of the plan", code="native")
            for word, _ in _RECORD.iter_unpack(records):
                condition = _CONDITIONS[word & 0xFF]
                full = condition is ZoneCondition.FULL
                yield condition, capacity if full else (word >> 8) * block
        except FileNotFoundError:
            for _ in range(count):
                yield ZoneCondition.EMPTY, 0
        except (struct.error, IndexError) as error:
            raise ToolFailed(f"{self.contents}: damaged: {error}", code="native") from None


def device(path: Path, served: str, dilation: int, shape: Mapping[str, int]) -> Device:
    """Return the record of a drive whose contents are in ``path``.

    Its identity is made of its path and model, because nothing but its contents is stored.

    Args:
        path: of the contents.
        served: name and digest of the model.
        dilation: how many seconds of this machine a second of the model takes.
        shape: block_size, zones, zone_size, zone_capacity, max_open and max_active of the model.
    """
    own = uuid.uuid5(uuid.NAMESPACE_URL, f"zonelab:{path}:{served}:x{dilation}")
    return Device(
        path=str(path),
        identity=DeviceIdentity("", "", "", f"{MODELLED}{own}", 0),
        kind=DeviceKind.MODELLED,
        model=f"{NATIVE} {served} x{dilation}",
        size=Bytes(shape["zones"] * shape["zone_size"]),
        logical_block_size=shape["block_size"],
        zoned=True,
        zone_size=Bytes(shape["zone_size"]),
        zone_capacity=Bytes(shape["zone_capacity"]),
        zones=shape["zones"],
        max_open_zones=shape["max_open"],
        max_active_zones=shape["max_active"],
        scheduler="none",
        schedulers=("none",),
    )


def _counts(data: bytes) -> Mapping[str, int]:
    if len(data) != _COUNTS.size:
        raise ToolFailed(f"the counts of a drive have {len(data)} B", code="native")
    found = dict(zip(_NAMES, _COUNTS.unpack(data), strict=True))
    if found["version"] not in (0, _VERSION):  # 0: just made
        raise ToolFailed(f"the counts of a drive have version {found['version']}", code="native")
    return found


def _disk(counts: Mapping[str, int]) -> DiskCounters:
    return DiskCounters(
        reads=counts["loads"],
        read_bytes=counts["loaded_bytes"],
        writes=counts["stores"],
        write_bytes=counts["stored_bytes"],
        in_flight=0,
        busy_ms=counts["busy"] // _MS,
    )


def parse_notes(text: str) -> list[ZoneNote]:
    """Return the notes of whole lines; ToolFailed: one is damaged."""
    return [_note(line) for line in text.splitlines()]


def _note(line: str) -> ZoneNote:
    try:
        ended, zone, action, took, written = line.split()
        return ZoneNote(int(ended), int(zone), action, int(took), int(written))
    except ValueError:
        raise ToolFailed(f"a note of a drive's zones is damaged: {line[:60]!r}") from None
