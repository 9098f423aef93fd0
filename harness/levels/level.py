"""The interface of an integration level: ``probe``, ``up``, ``usage``, ``down``, and hooks.

A level is a concrete subclass of ``Level`` in a module of this folder. No list names it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import ClassVar

from harness.levels import options as level_options
from harness.levels.options import Option
from harness.observe.gauges import Gauge
from harness.observe.kmsg import KernelLog
from harness.observe.signatures import Probe
from harness.store.ledger import OwnCounts
from harness.store.result import Issue, IssueInfo
from harness.store.spec import Bytes, Device, Reason, Scalar
from harness.tools.direct_io import DirectIo

FillCallback = Callable[[int, int], None]  # bytes done, bytes wanted

# Folder of the database on a level that --fs_uri addresses.
DB_IN_URI = "db"
# Folder in the run's scratch directory, for a level's files on an ordinary file system.
AUX = "aux"


class LevelKind(IntEnum):
    """The layer where a level integrates; tables list levels in this order."""

    BASELINE = 0
    BLOCK = 1
    FILE_SYSTEM = 2
    APPLICATION = 3
    RAW = 4  # nothing is integrated


@dataclass(frozen=True, slots=True)
class Needs:
    """The fewest zones and active zones that a level works with, and the reason."""

    zones: int
    active: int
    why: str


@dataclass(frozen=True, slots=True)
class LevelContext:
    """Input of ``up``. ``scratch`` is an empty directory of this run, for mount points.

    ``check_devices`` proves the identity of every device again; call it before each destructive
    step. ``program`` is the run's db_bench, null where there is none. ``kernel_log`` returns a
    reader of the kernel log from now on. ``progress`` receives the progress of a long fill.
    """

    device: Device
    conventional: Device | None
    options: Mapping[str, Scalar]
    scratch: Path
    label: str
    check_devices: Callable[[], None]
    program: Path | None = None
    kernel_log: Callable[[], KernelLog] = KernelLog
    progress: FillCallback = lambda _done, _wanted: None


@dataclass(frozen=True, slots=True)
class LevelUp:
    """A level that is up. One of ``db`` (a path) and ``fs_uri`` is set, neither on bare zones.

    ``devices`` are all block devices that it writes to; the ledger counts them. ``mount_options``
    are the kernel's. ``cold_dir`` holds the cold files, null for application-level integrations.
    ``database_log`` is RocksDB's LOG. ``records`` are the level's own log files; the run keeps
    them, packed. ``mapped`` are device-mapper names to remove in ``down``, topmost first.
    ``program`` is the level's own db_bench, null where it uses the run's. ``facts`` go to the
    run's manifest: versions, builds, sizes that the level chose.
    """

    db: Path | None = None
    fs_uri: str | None = None
    cold_dir: Path | None = None
    devices: tuple[Device, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mount_options: str = ""
    database_log: Path | None = None
    records: tuple[Path, ...] = ()
    mapped: tuple[str, ...] = ()
    program: Path | None = None
    facts: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def dilation(self) -> int:
        """How many times slower than their model the devices are."""
        return max((device.dilation for device in self.devices), default=1)


@dataclass(frozen=True, slots=True)
class LevelUsage:
    """The level's own counters; null: it has none.

    ``gc_events``, ``gc_bytes`` and ``gc_seconds`` (the time while garbage was collected) are
    cumulative since ``up``. ``raw`` keeps every counter read. ``own`` is set where the level counts
    each byte that it writes.
    """

    free_bytes: int | None
    gc_events: int | None
    gc_bytes: int | None
    gc_source: str
    raw: Mapping[str, Scalar] = field(default_factory=dict)
    own: OwnCounts | None = None
    gc_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A program that prints the level's state while a phase runs. It only reads.

    Its answers become ``series/<name>.csv``: time and cost of asking, then ``columns``. ``read``
    parses the output into these columns (ToolFailed: it cannot).
    """

    name: str
    argv: tuple[str, ...]
    columns: tuple[str, ...]
    read: Callable[[str], tuple[int, ...]]


class Level(ABC):
    """An integration level. Instances hold no state of a run; that lives in LevelUp.

    A level implements ``probe``, ``up``, ``usage`` and ``down``. Every other method and attribute
    is a hook with a default.
    """

    # Name and place in tables.
    name: ClassVar[str]
    summary: ClassVar[str]
    kind: ClassVar[LevelKind]

    # Requirements: host programs, their packages, devices, schedulers (empty: any). Below 16 zones
    # every file system here spends most of them on reserves.
    programs: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[Needs] = Needs(16, 3, "data, metadata and journal each keep a zone active")
    needs_conventional: ClassVar[bool] = False
    schedulers: ClassVar[tuple[str, ...]] = ()
    # Recorded conditions that are part of the level, as prefixes of the keys that ``compare``
    # lists. They may differ from the baseline's.
    owns: ClassVar[tuple[str, ...]] = ()
    # Kernel modules whose parameters change what it does, as sysfs names them.
    modules: ClassVar[tuple[str, ...]] = ()
    # Garbage is collected in the background, so the bytes depend on time.
    timed_collection: ClassVar[bool] = False
    # Columns of ``gauges`` that grow while garbage is collected.
    gc_columns: ClassVar[tuple[str, ...]] = ()

    # Use of the devices. ``buffers_conventional``: writes go to the conventional device first by
    # design, so a small share of bytes on zones is no fault. ``metadata_zones`` at the start are
    # left out where zones are counted by condition. ``takes_database``: RocksDB can run on it.
    uses_zoned: ClassVar[bool] = True
    buffers_conventional: ClassVar[bool] = False
    metadata_zones: ClassVar[int] = 0
    counters: ClassVar[tuple[str, ...]] = ()  # gauges that only grow and are in ``usage.raw`` too
    own_ledger: ClassVar[str] = ""  # file of a level with OwnCounts; ``own_totals`` reads it
    takes_database: ClassVar[bool] = True
    native: ClassVar[bool] = False  # it can use a modelled drive in files, without the kernel

    # Options of a study. ``active_option`` limits the active zones; '' if no option does.
    options: ClassVar[Mapping[str, Option]] = {}
    active_option: ClassVar[str] = ""

    # Traces that it leaves: signatures by which the guard knows its data, a regular expression of
    # its errors in the kernel log, and the issues of its caveats and its checker.
    signatures: ClassVar[tuple[Probe, ...]] = ()
    kernel_errors: ClassVar[str] = ""
    kernel_mounted: ClassVar[str] = ""  # what the kernel logs at each mount; '': not known
    issues: ClassVar[tuple[IssueInfo, ...]] = ()

    # --- the interface ------------------------------------------------------------------------

    @abstractmethod
    def probe(self, device: Device, conventional: Device | None) -> Reason | None:
        """Return why this level cannot run on this host and device, or None when it can."""

    @abstractmethod
    def up(self, context: LevelContext) -> LevelUp:
        """Format and mount. Destroys all data on the devices.

        Raises:
            ToolFailed: a formatting or mounting program failed.
            GuardRefused: a device's identity differs from the plan.
        """

    @abstractmethod
    def usage(self, up: LevelUp) -> LevelUsage:
        """Return the level's own counters. Cheap enough to call at 1 Hz."""

    @abstractmethod
    def down(self, up: LevelUp) -> None:
        """Unmount and detach. Safe to call on a level that is half up."""

    # --- hooks of the planner -----------------------------------------------------------------

    def probe_kernel(self, device: Device) -> Reason | None:
        """Return why the level cannot use a device that the kernel does not know."""
        if not device.native or self.native:
            return None
        return Reason(
            "needs-kernel-device",
            f"{self.name} needs a block device of the kernel, and {device.model} is not one",
            "without DEVICE=model:… the study runs on a rig",
        )

    def probe_program(self, program: Path, name: str) -> Reason | None:  # noqa: ARG002
        """Return why this program cannot load a database here; ``name`` is PhaseSpec.program."""
        return None

    def check_options(self, options: Mapping[str, Scalar]) -> None:
        """Refuse unknown options and bad values (ConfigError), in the plan and again in ``up``."""
        level_options.check(self.name, self.options, options)

    def require_zones(self, device: Device) -> Reason | None:
        """Return why a device does not suit: it has no zones, or fewer than the level needs."""
        if not device.zoned:
            return Reason("not-zoned", f"{device.path} has no zones", "name a zoned device")
        if (device.zones or 0) < self.needs.zones:
            return Reason(
                "zones-too-few",
                f"{self.name} needs {self.needs.zones} zones, {device.path} has {device.zones}",
                "use a larger namespace",
            )
        return None

    def require_conventional(self, conventional: Device | None, least: int) -> Reason | None:
        """Return why a conventional device does not suit: missing, or below ``least`` bytes."""
        if conventional is None:
            return Reason(
                "conventional-missing",
                f"{self.name} needs a conventional device and none was named or found",
                "-e conventional_device=<device>",
            )
        if conventional.size < least:
            return Reason(
                "conventional-too-small",
                f"{self.name} needs {least} B on a conventional device, "
                f"{conventional.path} has {conventional.size} B",
                "-e conventional_device=<a larger device or partition>",
            )
        return None

    def caveats(self, device: Device) -> tuple[Issue, ...]:  # noqa: ARG002
        """Return issues that every run on this device has."""
        return ()

    def room(self, device: Device) -> Bytes | None:  # noqa: ARG002
        """Return the room for cold data and database; None: only the formatted level knows."""
        return None

    def prepares(self, device: Device, options: Mapping[str, Scalar]) -> Bytes:  # noqa: ARG002
        """Return the bytes that ``up`` writes beyond formatting; ``options`` were checked."""
        return Bytes(0)

    def opens(self, device: Device, options: Mapping[str, Scalar]) -> int | None:
        """Return the largest number of active zones; None: no limit is known."""
        if not self.uses_zoned:
            return 0
        chosen = options.get(self.active_option) if self.active_option else None
        limits = (device.zone_limit, int(chosen) if chosen else None)
        return min((limit for limit in limits if limit), default=None)

    @property
    def measures_conventional(self) -> bool:
        """Whether the level measures only a conventional device, without a database."""
        return not self.takes_database and not self.uses_zoned

    def main_device(self, zoned: Device, conventional: Device | None) -> Device:
        """Return which of the two devices holds the level's data."""
        return zoned if self.uses_zoned or conventional is None else conventional

    # --- hooks of a run, in their order --------------------------------------------------------

    def own_files(self) -> tuple[Path, ...]:
        """Return zonelab's native programs that the level runs; HostError: one is missing."""
        return ()

    def own_totals(self, lines: Iterable[str], device: Device) -> tuple[OwnCounts, float | None]:
        """Add up the level's own ledger; ToolFailed: it is damaged.

        ``space`` can be incomplete. The number is ``gc_seconds``, null if not counted.
        """
        raise NotImplementedError

    def own_samples(self, lines: Iterable[str]) -> Iterator[Sequence[int | None]]:  # noqa: ARG002
        """Yield the gauges' values after each line of the level's own ledger, if they read it."""
        return iter(())

    def direct_io(self, up: LevelUp) -> DirectIo | None:  # noqa: ARG002
        """Find out whether O_DIRECT works; may write a little. None: it cannot be found out."""
        return None

    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: FillCallback) -> int:  # noqa: ARG002
        """Store up to ``size`` bytes of cold data, synced; return the bytes really stored."""
        return 0

    def gauges(self, up: LevelUp) -> tuple[Gauge, ...]:  # noqa: ARG002
        """Return files whose numbers are sampled once a second while phases run."""
        return ()

    def questions(self, up: LevelUp) -> tuple[Question, ...]:  # noqa: ARG002
        """Return programs to run in turn during measured phases, one a second."""
        return ()

    def sync(self, up: LevelUp) -> None:  # noqa: B027
        """Write everything that the level holds back to the devices (a barrier)."""

    def database_bytes(self, up: LevelUp) -> int:
        """Return the lengths of the database's files, without blocks; 0 without a directory."""
        total = 0
        for folder, _, files in os.walk(up.db) if up.db else ():
            for name in files:
                with suppress(FileNotFoundError):  # RocksDB has deleted it
                    total += Path(folder, name).lstat().st_size
        return total

    def check(self, up: LevelUp) -> tuple[Issue, ...]:  # noqa: ARG002
        """Return the faults that the level's own checker finds after the last phase."""
        return ()
