"""zlfs: RocksDB writes the zones itself, through a file-system plug-in that db_bench preloads."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from harness.errors import HostError, ZonelabError
from harness.levels.bring_up import bring_up
from harness.levels.level import (
    AUX,
    DB_IN_URI,
    FillCallback,
    Level,
    LevelContext,
    LevelKind,
    LevelUp,
    LevelUsage,
    Needs,
)
from harness.levels.options import FINISH, OneOf, Option, Switch, Whole
from harness.observe.gauges import Gauge
from harness.observe.native_drive import NativeDrive
from harness.observe.sampler import interval
from harness.observe.signatures import Probe
from harness.store.ledger import OwnCounts
from harness.store.result import Issue, IssueInfo, Severity
from harness.store.spec import Bytes, Device, Reason, Scalar
from harness.tools import ldd, native, zlfs, zlfs_ledger, zone_reset
from harness.tools.direct_io import DirectIo
from harness.tools.zlfs_ledger import METADATA_ZONES

# harness/native/zlfs: kMinZones (fs/volume.h) and kMinActiveZones: two zones of the metadata log,
# one each for WALs, other small files and garbage collection, and one for data.
MIN_ZONES = 16
MIN_ACTIVE_ZONES = 6
# A snapshot of all files' metadata must fit into one zone. Each file and extent adds to it.
_MIN_ZONE_CAPACITY = 1 << 20
# alloc/reserve.cc: compactions leave kFlushKeeps + kOpeningKeeps zones empty, and the zones that
# WALs need. This depends on the workload: 3 % of the zones, and at least 2, are assumed.
_KEPT_ZONES = 4
_RESERVE_PERCENT = 3
_MIN_RESERVE = 2

# coldfill's pattern consists of whole blocks of this size.
_COLD_BLOCK = 4096
_COLD_NAME = "/cold"

# harness/native/zlfs/format/superblock.h. The metadata log uses three zones in turn.
SIGNATURE = Probe("zlfs", 0, b"ZLFSSB01", 328, 32, zones=METADATA_ZONES)

# Input of zonelab replay (docs/replay.md).
_TRACE = "allocations.trace"


class Zlfs(Level):
    """``LD_PRELOAD=libzlfs.so db_bench --fs_uri=zlfs://dev:<device>?aux=<directory>``."""

    name: ClassVar[str] = "zlfs"
    summary: ClassVar[str] = "RocksDB on the zones themselves, through our file-system plug-in"
    kind: ClassVar[LevelKind] = LevelKind.APPLICATION
    own_ledger: ClassVar[str] = "ledger.jsonl"
    gc_columns: ClassVar[tuple[str, ...]] = ("written_gc", "collected_zones")
    needs: ClassVar[Needs] = Needs(
        MIN_ZONES,
        MIN_ACTIVE_ZONES,
        "two for the metadata log, one each for WALs, small files, garbage collection and data",
    )
    signatures: ClassVar[tuple[Probe, ...]] = (SIGNATURE,)
    issues: ClassVar[tuple[IssueInfo, ...]] = (
        IssueInfo(
            "fsck",
            (Severity.ERROR,),
            "`zlfs fsck` finds a broken invariant",
            "the level lost data or counts",
        ),
    )
    programs: ClassVar[tuple[str, ...]] = (zlfs.PROGRAM,)
    native: ClassVar[bool] = True
    # As in harness/native/zlfs/alloc/policy.h.
    options: ClassVar[Mapping[str, Option]] = {
        **FINISH,
        "gc": Switch(),
        "gc_start_pct": Whole(1, 90),
        "gc_victim": OneOf(("garbage", "cost-benefit")),
        "lifetimes": Switch(),
        "max_active": Whole(0, 255),
        "on_active_limit": OneOf(("share", "finish", "wait")),
    }
    active_option: ClassVar[str] = "max_active"

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:  # noqa: ARG002
        """Check program and plug-in, then the device's zones and limits."""
        try:
            native.program(zlfs.PROGRAM)
            native.library(zlfs.LIBRARY)
        except HostError as error:
            return Reason.of(error)
        return self.require_zones(device) or _probe_limits(device)

    def probe_program(self, program: Path, name: str) -> Reason | None:  # noqa: ARG002
        """Check that the program and the plug-in share one RocksDB.

        A program with another RocksDB, or a static one, does not know the scheme and crashes.
        """
        try:
            ours, its = ldd.rocksdb(native.library(zlfs.LIBRARY)), ldd.rocksdb(program)
        except ZonelabError as error:
            return Reason.of(error)
        if ours is not None and ours == its:
            return None
        return Reason(
            "rocksdb-differs",
            f"libzlfs.so needs {ours or 'a RocksDB that is not installed'}, {program} uses "
            f"{its or 'none (it is linked statically, or its library is not installed)'}",
            "build harness/native against the RocksDB that db_bench is linked with",
        )

    def own_files(self) -> tuple[Path, ...]:
        """Return the tool and the plug-in."""
        return native.program(zlfs.PROGRAM), native.library(zlfs.LIBRARY)

    def room(self, device: Device) -> Bytes:
        """Return the capacity of the zones, except those that zlfs keeps for itself."""
        return Bytes(usable_zones(device.zones or 0) * (device.zone_capacity or 0))

    def up(self, context: LevelContext) -> LevelUp:
        """Reset all zones and format; RocksDB mounts it through the plug-in."""
        self.check_options(context.options)
        device, aux = context.device, context.scratch / AUX
        up = LevelUp(
            fs_uri=_uri(device, aux),
            devices=(context.device,),
            environment={"LD_PRELOAD": str(native.library(zlfs.LIBRARY))},
            mount_options=",".join(f"{key}={value}" for key, value in context.options.items()),
            database_log=aux / DB_IN_URI / "LOG",
            records=(aux / self.own_ledger, aux / _TRACE),
        )
        self.down(up)  # remove the remains of a killed run of this name
        with bring_up(self, context, up):
            aux.mkdir(parents=True)
            context.check_devices()
            if not device.native:  # else its zones are empty
                zone_reset.reset_all(Path(device.path), device.size)
            zlfs.mkfs(
                _specification(device), aux=aux, label=context.label, policies=context.options
            )
        return up

    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: FillCallback) -> int:
        """Import one cold file, synced."""
        whole = size - size % _COLD_BLOCK
        if whole == 0:
            return 0
        return zlfs.import_cold(
            _device(up),
            aux=_aux(up),
            trace=_aux(up) / _TRACE,
            name=_COLD_NAME,
            size=whole,
            seed=seed,
            progress=lambda done: progress(done, size),
        )

    def gauges(self, up: LevelUp) -> tuple[Gauge, ...]:
        """Read the last line of the ledger, which has one per sample."""
        return (Gauge(up.records[0], zlfs.LEDGER_COLUMNS, zlfs.parse_ledger, tail=True),)

    def usage(self, up: LevelUp) -> LevelUsage:
        """Return the counts of ``zlfs df``; an event is a collected zone."""
        space = zlfs.df(_device(up))
        counts, gc_seconds = zlfs_ledger.read(up.records[0], int(space["zone_capacity"]))
        return LevelUsage(
            free_bytes=int(space["free_bytes"]),
            gc_events=int(space["gc.zones_reclaimed"]),
            gc_bytes=int(space["gc.copied_bytes"]),
            gc_source="zlfs df: gc.zones_reclaimed, gc.copied_bytes; ledger: collecting_ns",
            raw=space,
            own=_with_space(counts, space),
            gc_seconds=gc_seconds,
        )

    def database_bytes(self, up: LevelUp) -> int:
        """Sum the lengths of the files on the zones, without the cold file."""
        files = zlfs.files(_device(up))
        return sum(size for name, size in files.items() if name != _COLD_NAME)

    def direct_io(self, up: LevelUp) -> DirectIo:
        """Always direct, whatever db_bench requests."""
        if up.devices[0].native:
            return DirectIo(True, True, "libzlfs.so asks the model for every read and write")
        return DirectIo(True, True, "libzlfs.so opens the device with O_DIRECT and nothing else")

    def check(self, up: LevelUp) -> tuple[Issue, ...]:
        """Return every invariant of docs/zlfs.md that ``zlfs fsck`` finds broken."""
        return tuple(
            Issue("fsck", Severity.ERROR, f"invariant {fault.invariant}: {fault.what}")
            for fault in zlfs.fsck(_device(up))
        )

    def own_totals(self, lines: Iterable[str], device: Device) -> tuple[OwnCounts, float | None]:
        """Return the sums of the plug-in's ledger."""
        return zlfs_ledger.parse(lines, device.zone_capacity or 0)

    def own_samples(self, lines: Iterable[str]) -> Iterator[Sequence[int | None]]:
        """Yield the columns of each line that has them; after other lines the gauge is null."""
        for line in lines:
            with suppress(ValueError):
                yield zlfs.parse_ledger(line.encode())

    def down(self, up: LevelUp) -> None:
        """Remove the auxiliary directory; nothing is mounted."""
        if _aux(up).exists():
            shutil.rmtree(_aux(up))


def _with_space(counts: OwnCounts, space: Mapping[str, Scalar]) -> OwnCounts:
    """Return the ledger's sums with df's state of the zones.

    df's garbage includes the capacity that finishing gave up.
    """
    live, dead, filling = (int(space[f"{kind}_bytes"]) for kind in ("live", "garbage", "pad"))
    pad = counts.space["pad"]
    zones = {"live": live, "garbage": dead - pad, "filling": filling, "pad": pad}
    return replace(counts, space=zones)


def usable_zones(zones: int) -> int:
    """Return the number of zones that cold data and compactions can fill."""
    data = zones - METADATA_ZONES
    return max(0, data - _KEPT_ZONES - max(_MIN_RESERVE, data * _RESERVE_PERCENT // 100))


def _probe_limits(device: Device) -> Reason | None:
    limits = {"active": device.max_active_zones, "open": device.max_open_zones}
    for kind, limit in limits.items():
        if limit and limit < MIN_ACTIVE_ZONES:  # 0: no limit
            return Reason(
                f"zones-{kind}-limit",
                f"zlfs needs {MIN_ACTIVE_ZONES} {kind} zones, {device.path} allows {limit}",
                f"use a namespace with more {kind} zones",
            )
    if (device.zone_capacity or 0) < _MIN_ZONE_CAPACITY:
        return Reason(
            "zones-too-small",
            f"zlfs keeps its metadata log in one zone, so it needs {_MIN_ZONE_CAPACITY} B of "
            f"capacity, zones of {device.path} have {device.zone_capacity} B",
            "use a namespace with larger zones",
        )
    return None


def _device(up: LevelUp) -> Path:
    return _specification(up.devices[0])


def _specification(device: Device) -> Path:
    """Return the name of a device for zlfs' programs."""
    return Path(NativeDrive(device).specification if device.native else device.path)


def _uri(device: Device, aux: Path) -> str:
    options = f"aux={aux}&trace={aux / _TRACE}"
    if (seconds := int(interval(device.dilation))) > 1:
        options += f"&ledger_seconds={seconds}"
    if device.native:
        return f"zlfs://{_specification(device)}&{options}"
    return f"zlfs://dev:{device.path}?{options}"


def _aux(up: LevelUp) -> Path:
    return up.records[0].parent
