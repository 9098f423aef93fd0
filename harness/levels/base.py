"""The one small interface of an integration level.

A level is one module: ``probe`` (can it run here), ``up`` (format and mount), ``fill_cold``,
``usage`` (what the level says of itself), ``down``. A module of this folder is found by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import ClassVar

from harness.levels import options as level_options
from harness.levels.options import Option
from harness.observe.gauges import Gauge
from harness.store.ledger import OwnCounts
from harness.store.result import Issue
from harness.store.spec import Bytes, Device, Reason, Scalar

Progress = Callable[[int, int], None]  # bytes done, bytes wanted

# Where the database lives inside a level that is addressed by --fs_uri.
DB_IN_URI = "db"
# Folder of the run's scratch directory for files that a level needs on an ordinary file system.
AUX = "aux"


class Kind(IntEnum):
    """Where a level integrates; levels are listed in this order."""

    BASELINE = 0
    BLOCK = 1
    FILE_SYSTEM = 2
    APPLICATION = 3
    RAW = 4  # nothing is integrated


@dataclass(frozen=True, slots=True)
class Needs:
    """Smallest zone count and active limit of a level, and where the numbers come from."""

    zones: int
    active: int
    why: str


@dataclass(frozen=True, slots=True)
class DirectIo:
    """What became of O_DIRECT; null: not known. ``source`` says how it was found out."""

    reads: bool | None
    writes: bool | None
    source: str
    facts: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LevelContext:
    """What a level may use. ``scratch`` is an empty directory of this run's own (mount points).

    ``check_devices`` re-proves the identity of every device; call it before each destructive step.
    ``program`` is the run's db_bench, null where there is none.
    """

    device: Device
    conventional: Device | None
    options: Mapping[str, Scalar]
    scratch: Path
    label: str
    check_devices: Callable[[], None]
    program: Path | None = None


@dataclass(frozen=True, slots=True)
class LevelUp:
    """A level that is up. One of ``db`` (a path) and ``fs_uri`` is set, neither on bare zones.

    ``devices`` are all block devices it touches, for the ledger; ``mount_options`` as the kernel
    shows them; ``cold_dir`` is where cold files live, null for application-level integrations.
    ``database_log`` is RocksDB's LOG; ``records`` are files that the level writes about itself and
    that are kept with the run (packed) before it goes down. ``mapped`` are device-mapper names to
    remove on the way down, topmost first. ``program`` is the level's own db_bench, null where it
    takes the run's. ``facts`` are recorded with the run: versions, builds, sizes it chose.
    """

    db: Path | None
    fs_uri: str | None
    cold_dir: Path | None
    devices: tuple[Device, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    mount_options: str = ""
    database_log: Path | None = None
    records: tuple[Path, ...] = ()
    mapped: tuple[str, ...] = ()
    program: Path | None = None
    facts: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LevelUsage:
    """What the level says of itself; null: it does not tell.

    ``gc_events`` and ``gc_bytes`` are cumulative since ``up``. ``raw`` keeps every counter read.
    ``own`` is there where the level counts each byte that it writes.
    """

    free_bytes: int | None
    gc_events: int | None
    gc_bytes: int | None
    gc_source: str
    raw: Mapping[str, Scalar] = field(default_factory=dict)
    own: OwnCounts | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A program that tells the level's state while db_bench works. It reads, and no more.

    Answers become ``series/<name>.csv``: behind the time and the cost of asking come ``columns``,
    which ``read`` makes of what was printed (ToolFailed when that is something else).
    """

    name: str
    argv: tuple[str, ...]
    columns: tuple[str, ...]
    read: Callable[[str], tuple[int, ...]]


class Level(ABC):
    """An integration level. Instances hold no state of a run; that lives in LevelUp."""

    name: ClassVar[str]
    summary: ClassVar[str]
    kind: ClassVar[Kind]
    # Below 16 zones every file system here spends most of them on reserves.
    needs: ClassVar[Needs] = Needs(16, 3, "data, metadata and journal each keep a zone active")
    needs_conventional: ClassVar[bool] = False
    uses_zoned: ClassVar[bool] = True
    takes_database: ClassVar[bool] = True  # False: no study of RocksDB can have it
    programs: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, Option]] = {}  # LevelContext.options it understands
    # Its option that says how many zones it may keep active; '': it cannot be told.
    active_option: ClassVar[str] = ""
    schedulers: ClassVar[tuple[str, ...]] = ()  # those it works with; empty: any
    # Writes go to the conventional device first, by design: a small share of the bytes on zones is
    # then worth knowing, and no fault.
    buffers_conventional: ClassVar[bool] = False
    metadata_zones: ClassVar[int] = 0  # at the start; left out where zones are counted by condition

    @abstractmethod
    def probe(self, device: Device, conventional: Device | None) -> Reason | None:
        """Return why this level cannot run on this host and device, or None when it can."""

    def probe_program(self, program: Path) -> Reason | None:  # noqa: ARG002 - for subclasses
        """Return why this level cannot run with this db_bench, or None when it can."""
        return None

    def probe_load(self, program: Path) -> Reason | None:  # noqa: ARG002 - for subclasses
        """Return why a program of our own cannot load a database here, or None when it can."""
        return None

    def caveats(self, device: Device) -> tuple[Issue, ...]:  # noqa: ARG002 - for subclasses
        """Return what a reader of any run on this device must know of the level."""
        return ()

    def check(self, up: LevelUp) -> tuple[Issue, ...]:  # noqa: ARG002 - for subclasses
        """Return what the level's own checker finds wrong after the last phase."""
        return ()

    def room(self, device: Device) -> Bytes | None:  # noqa: ARG002 - for subclasses
        """Return what cold data and database can take; None: only the formatted level knows."""
        return None

    def opens(self, device: Device, options: Mapping[str, Scalar]) -> int | None:
        """Return how many zones it keeps active at most; None: as many as it likes.

        What nobody limits may take all that the device allows.
        """
        if not self.uses_zoned:
            return 0
        limits = [one for one in (device.max_active_zones, device.max_open_zones) if one]
        told = options.get(self.active_option) if self.active_option else None
        return min([*limits, *([int(told)] if told else [])], default=None)

    @abstractmethod
    def up(self, context: LevelContext) -> LevelUp:
        """Format and mount. Destroys what is on the devices.

        Raises:
            ToolFailed: a formatting or mounting program failed.
            GuardRefused: a device is no longer the one that was planned.
        """

    @abstractmethod
    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: Progress) -> int:
        """Put ``size`` bytes of cold data inside the level; return the bytes really stored.

        Leaves no zone active on its account: data is synced when it returns.
        """

    @abstractmethod
    def usage(self, up: LevelUp) -> LevelUsage:
        """Return the level's own counters. Cheap enough to call at 1 Hz."""

    def gauges(self, up: LevelUp) -> tuple[Gauge, ...]:  # noqa: ARG002 - for subclasses
        """Return the files whose numbers are sampled once a second while phases run."""
        return ()

    @abstractmethod
    def database_bytes(self, up: LevelUp) -> int:
        """Return the size of the database's files in bytes (their lengths, not blocks)."""

    def questions(self, up: LevelUp) -> tuple[Question, ...]:  # noqa: ARG002 - for subclasses
        """Return what to ask during measured phases, in turn, one program a second."""
        return ()

    def direct_io(self, up: LevelUp) -> DirectIo | None:  # noqa: ARG002 - for subclasses
        """Find out what O_DIRECT does here; None: it cannot be told. May write a little."""
        return None

    @abstractmethod
    def sync(self, up: LevelUp) -> None:
        """Push everything the level holds back to the devices (a barrier)."""

    @abstractmethod
    def down(self, up: LevelUp) -> None:
        """Unmount and detach. Safe to call on a level that is half up."""

    def check_options(self, options: Mapping[str, Scalar]) -> None:
        """Refuse options that the level does not know, or whose values it does not take.

        The planner asks as well, before anything is destroyed.

        Raises:
            ConfigError: there is one; the hint says what is known, or accepted.
        """
        level_options.check(self.name, self.options, options)
