"""Records of inspection, plan and run specification, stored as JSON.

``host.json`` is an Inspection, ``plan.json`` a Plan, ``run.json`` a RunSpec. Sizes are in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NewType, Self

from harness.errors import ZonelabError
from harness.store.codec import SCHEMA_VERSION

Bytes = NewType("Bytes", int)
Scalar = str | int | float | bool

# Factors that change how much data fits. That a setting cannot hold the data is a result.
TRADES_ROOM = frozenset({"finish_occupancy_pct", "target_utilisation", "zone_size"})


# Ends the variant of a cell that repeats another one, to set the noise floor.
TWIN = "twin"
# In place of a serial number, for a device with no other name than the kernel's.
UNSTABLE = "kernel-name."
# Ends the name of a modelled drive (harness/observe/zoneblk.py).
_DILATION = re.compile(r" x(\d+)$")
# In place of a serial number of a modelled drive; a UUID follows.
MODELLED = "model."
# Begins the model's name of a modelled drive in files (harness/observe/native_drive.py).
NATIVE = "zlfs"


class DeviceKind(StrEnum):
    """Kind of device. Only times on ``hardware`` are real; ``replayed`` runs have no device.

    Times on a ``modelled`` drive are results of its model. ``imported`` runs have times that other
    people measured.
    """

    EMULATED = "emulated"
    HARDWARE = "hardware"
    MODELLED = "modelled"
    REPLAYED = "replayed"
    IMPORTED = "imported"

    @property
    def ran(self) -> bool:
        """Whether zonelab ran something on the device."""
        return self not in (DeviceKind.REPLAYED, DeviceKind.IMPORTED)


class TracingMode(StrEnum):
    """What is traced: ``zones`` counts in the kernel; ``all`` also stores every command (slow)."""

    OFF = "off"
    ZONES = "zones"
    ALL = "all"


class PhaseRole(StrEnum):
    """``fill`` builds the database; ``measured`` phases follow once utilisation is known."""

    FILL = "fill"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something cannot be done."""

    code: str  # machine-readable, kebab-case, stable across releases
    message: str  # one line for people
    hint: str = ""  # what to type or change; may be empty

    @classmethod
    def of(cls, error: ZonelabError) -> Self:
        """Return an error as a reason."""
        return cls(error.code, error.message, error.hint)


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """Names of a device that survive renumbering; '' where the device reports none."""

    eui64: str  # IEEE identifier of the namespace, 64 bit, hexadecimal
    nguid: str  # globally unique identifier of the namespace, 128 bit
    uuid: str  # UUID of the namespace
    serial: str  # serial number of the drive, or another stable name
    nsid: int  # namespace number; 0 without NVMe

    @property
    def stable(self) -> bool:
        """Whether another device cannot have this key after a reboot."""
        return not self.key.startswith(UNSTABLE)

    @property
    def key(self) -> str:
        """The first identifier that is set: ``eui.…``, ``nguid.…``, ``uuid.…``, ``serial:nsid``.

        A modelled drive has ``model.<uuid>``.
        """
        if self.eui64.strip("0."):
            return f"eui.{self.eui64}"
        if self.nguid.strip("0-"):
            return f"nguid.{self.nguid}"
        if self.uuid.strip("0-"):
            return f"uuid.{self.uuid}"
        return self.serial if self.serial.startswith(MODELLED) else f"{self.serial}:{self.nsid}"


@dataclass(frozen=True, slots=True)
class Device:
    """A block device as inspected. Zone fields are null on conventional devices."""

    path: str  # device node, such as /dev/nvme2n2
    identity: DeviceIdentity  # checked again before every destructive step
    kind: DeviceKind  # whether times measured on it mean anything
    model: str  # controller model, or the driver's name
    size: Bytes  # addressable bytes, gaps between zone capacity and zone size included
    logical_block_size: int  # smallest read or write
    zoned: bool  # whether it is a zoned block device
    zone_size: Bytes | None  # distance between the starts of two zones
    zone_capacity: Bytes | None  # writable bytes of a zone
    zones: int | None  # number of zones
    max_open_zones: int | None  # 0: no limit; read from a path node under NVMe multipath
    max_active_zones: int | None  # 0: no limit; read from a path node under NVMe multipath
    scheduler: str  # active I/O scheduler
    schedulers: tuple[str, ...]  # I/O schedulers that the kernel offers for it

    @property
    def name(self) -> str:
        """The last part of its path: the kernel's name of a block device."""
        return Path(self.path).name

    @property
    def capacity(self) -> Bytes:
        """Writable bytes: number of zones times zone *capacity*, never zone size."""
        if self.zones is None or self.zone_capacity is None:
            return self.size
        return Bytes(self.zones * self.zone_capacity)

    @property
    def zone_limit(self) -> int | None:
        """How many zones may be active and written at once; None: no limit is known."""
        limits = (self.max_active_zones, self.max_open_zones)
        return min((limit for limit in limits if limit), default=None)

    @property
    def native(self) -> bool:
        """Whether it is a modelled drive in files: no block device, and unknown to the kernel."""
        return self.kind is DeviceKind.MODELLED and self.model.startswith(f"{NATIVE} ")

    @property
    def dilation(self) -> int:
        """Seconds of this machine per second of the drive's model; 1 if it is not modelled."""
        found = _DILATION.search(self.model) if self.kind is DeviceKind.MODELLED else None
        return int(found[1]) if found else 1


@dataclass(frozen=True, slots=True)
class LevelProbe:
    """Whether a level can run on this host and device."""

    level: str  # name of the integration level
    available: bool  # whether it can run
    reason: Reason | None  # why it cannot; null when it can
    facts: Mapping[str, Scalar] = field(default_factory=dict)  # what the probe measured


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The part of the host manifest that the planner needs."""

    name: str  # host name
    kernel: str  # kernel release
    os: str  # distribution and version
    cpus: int  # processors that the runner may use
    memory_bytes: Bytes  # main memory
    rocksdb: str  # build id of db_bench; empty when there is none


@dataclass(frozen=True, slots=True)
class OtherDevice:
    """A further device of a host that runs can use."""

    device: Device  # as inspected
    refusals: tuple[Reason, ...]  # why the guard would refuse it now; empty: allowed
    levels: tuple[LevelProbe, ...]  # which levels can run on it


@dataclass(frozen=True, slots=True)
class DeviceContents:
    """What a wipe of a device destroys."""

    path: str  # device node
    identity: str  # key of the identity
    model: str  # controller model, or the driver's name
    serial: str  # serial number of the drive
    size: Bytes  # addressable bytes
    signatures: tuple[str, ...]  # formats that are recognised, with their labels
    first_block: str  # SHA-256 of the first 4 KiB
    zones_not_empty: int | None  # null on a conventional device
    consent: str = ""  # value of erase= that permits the wipe; empty: none is needed


@dataclass(frozen=True, slots=True)
class Inspection:
    """Output of ``zonelab inspect <device> --format json``: input of plan, guard and preflight."""

    host: HostFacts  # the machine under test
    device: Device  # the zoned device
    conventional: Device | None  # companion for metadata and baselines
    conventional_reason: Reason | None  # why there is no companion
    drive_capacity: Bytes | None  # capacity of the whole drive; null when it reports none
    refusals: tuple[Reason, ...]  # why the guard would refuse the device now; empty: allowed
    levels: tuple[LevelProbe, ...]  # which levels can run
    others: tuple[OtherDevice, ...] = ()  # for studies that vary the device, and for tenants
    more_conventional: tuple[OtherDevice, ...] = ()  # bare levels measure them too
    endurance: Bytes | None = None  # bytes that may be written in the drive's life, by its estimate
    remainder: Device | None = None  # the drive's other namespace, if it is filled or purged first
    contents: tuple[DeviceContents, ...] = ()  # what runs destroy; not stored in campaigns
    notices: tuple[str, ...] = ()  # about consents without effect; not stored in campaigns
    unusable: Mapping[str, Reason] = field(default_factory=dict)  # programs that cannot run here
    schema_version: int = SCHEMA_VERSION  # of this file

    @classmethod
    def of_no_machine(cls, name: str, device: Device, levels: Iterable[str]) -> Self:
        """Return an inspection for runs that no machine under test executed."""
        return cls(
            host=HostFacts(name, "", "", 0, Bytes(0), ""),
            device=device,
            conventional=None,
            conventional_reason=None,
            drive_capacity=None,
            refusals=(),
            levels=tuple(LevelProbe(level, available=True, reason=None) for level in levels),
        )

    @property
    def devices(self) -> tuple[Device, ...]:
        """All named zoned devices, in the order given."""
        return (self.device, *(other.device for other in self.others))


@dataclass(frozen=True, slots=True)
class PhaseSpec:
    """One invocation of a load program."""

    name: str  # unique in the run; ``<tenant>.<phase>`` in a run of tenants
    benchmark: str  # the program's benchmark, such as overwrite
    role: PhaseRole  # fill or measured
    flags: Mapping[str, Scalar]  # flags of the program under its own names, without dashes
    operations: int | None  # operations it must report; null for time-limited phases
    user_bytes_per_operation: int  # key + value of a write, 0 for a read; the mean of a mix
    expects_gc: bool  # whether garbage collection is expected
    timeout_seconds: int  # the phase is killed after this time
    stall_seconds: int = 600  # the phase is killed after this time without an operation; 0: never
    program: str = "db_bench"  # module of harness/workloads that runs it


@dataclass(frozen=True, slots=True)
class ColdSpec:
    """Cold data that is written to the level before the database."""

    target_utilisation: float  # wanted share of the capacity after the fill phases
    tolerance: float  # allowed difference between wanted and measured share
    bytes: Bytes  # cold data to write
    peak_bytes: Bytes = Bytes(0)  # what must fit: cold data and the database at its peak; 0: any


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the planner expects of one run, shown before anything is destroyed."""

    bytes_written: Bytes  # to the device, over the run
    live_bytes: Bytes  # cold data and database after the fill phases
    seconds: float  # duration of the run


@dataclass(frozen=True, slots=True)
class Extent:
    """A contiguous part of a device."""

    first: int  # first zone, or first byte
    count: int  # number of zones, or of bytes

    @property
    def numbers(self) -> range:
        """Numbers of its zones or bytes."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the programs of a tenant may use; null: no limit."""

    cpu: float | None = None  # share of one processor: 1.5 is one and a half
    memory: Bytes | None = None  # includes the page cache that they fill
    read: Bytes | None = None  # bytes per second of each device (cgroup's io.max)
    write: Bytes | None = None  # bytes per second of each device (cgroup's io.max)

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        limits = (self.cpu, self.memory, self.read, self.write)
        return any(limit is not None for limit in limits)


@dataclass(frozen=True, slots=True)
class TenantSpec:
    """One of several workloads of a run. Its phases are named ``<name>.<phase>``."""

    name: str  # unique in the run
    level: str  # its integration level
    options: Mapping[str, Scalar]  # options of the level
    stack: str  # tenant whose file system it uses; its own name when it brings one up itself
    device: Device  # its namespace
    zones: Extent | None  # its zones of that namespace; null: all
    conventional: Extent | None  # its bytes of the conventional device; null: all, or none
    active: int | None  # zones it may keep active; null: the device has no limit
    cold: ColdSpec | None  # its cold data
    limits: Limits  # of its cgroup
    weight: float  # the throughput it deserves, relative to others (fairness)
    start_offset: float  # seconds between the start barrier and its start
    duration: float  # seconds that it runs
    seed: int  # added to the run's seed: a tenant has the same keys alone and among others

    @property
    def zone_range(self) -> range:
        """Numbers of its zones of the namespace."""
        return self.zones.numbers if self.zones else range(self.device.zones or 0)

    def owns(self, phase: PhaseSpec) -> bool:
        """Whether a phase of the run belongs to this tenant."""
        return phase.name.partition(".")[0] == self.name


@dataclass(frozen=True, slots=True)
class MediaModel:
    """A modelled conventional drive that plays what a run wrote to a real one (docs/model.md)."""

    name: str  # with a digest of its parameters, as modelled drives are named
    parameters: Mapping[str, Any]  # input of the program zonemodel


@dataclass(frozen=True, slots=True)
class RunSpec:
    """``run.json``: one run, complete; the runner needs nothing else."""

    campaign: str  # name of the campaign
    study: str  # name of the study
    run: str  # name of the run: ``<cell>--r<repetition>``
    cell: str  # slug of level and factors
    level: str  # integration level; with tenants the name of their mix
    factors: Mapping[str, Scalar]  # values that the study varies, of this cell
    level_options: Mapping[str, Scalar]  # options of the level
    repetition: int  # from 1
    attempt: int  # from 1; a failed run that is repeated is the next attempt
    block: int  # number of the repetition; runs of a block share a seed
    position: int  # place in its block, from 1
    seed: int  # of the workload's random numbers
    device: Device  # device under test, as planned
    conventional: Device | None  # companion, when the level uses one
    scheduler: str  # I/O scheduler to set
    cold: ColdSpec | None  # cold data; null: none
    phases: tuple[PhaseSpec, ...]  # in order; of all tenants
    predicted: Prediction  # what the planner expects
    timeout_seconds: int  # the run is aborted after this time
    variant: str = (
        ""  # distinguishes runs of one level with different options; empty: one set of options
    )
    tracing: TracingMode = TracingMode.ZONES  # which commands are traced
    memory_limit: Bytes | None = None  # of the load program and its page cache; null: none
    infeasible: Reason | None = None  # why it cannot hold the data: a result without a run
    tenants: tuple[TenantSpec, ...] = ()  # empty: a run of one workload
    media_model: MediaModel | None = None  # counts M of the conventional device; null: none does
    schema_version: int = SCHEMA_VERSION  # of this file

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that the run brings up."""
        return tuple(tenant.level for tenant in self.tenants) or (self.level,)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Every device that the run may touch, each once."""
        others = [tenant.device for tenant in self.tenants]
        devices = [self.device, *others, *([self.conventional] if self.conventional else [])]
        return tuple({device.identity.key: device for device in devices}.values())

    @property
    def row(self) -> str:
        """The level's name in tables, claims and the plan's baseline."""
        return f"{self.level}-{self.variant}" if self.variant else self.level

    @property
    def trades_room(self) -> bool:
        """Whether a factor of the study changes how much data fits."""
        return not TRADES_ROOM.isdisjoint(self.factors)

    @property
    def is_twin(self) -> bool:
        """Whether the cell repeats another one, by its name."""
        return self.variant.endswith(TWIN)


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The runs of one host."""

    host: str  # name of the host
    inspection: Inspection  # what the plan was made from
    runs: tuple[RunSpec, ...]  # in the order of execution
    rig: str = ""  # rig of the study that these runs belong to; empty: it runs whole blocks
    source: str | None = None  # SHA-256 of the planner's source; null: a replay or imported runs


@dataclass(frozen=True, slots=True)
class Claim:
    """A primary claim, declared before any run."""

    id: str  # name of the claim
    metric: str  # metric it is about
    level: str  # row that is compared
    baseline: str  # row that it is compared with
    expect: str  # expected verdict: better, worse or different


@dataclass(frozen=True, slots=True)
class Plan:
    """``plan.json``: a study expanded for the hosts of a campaign."""

    campaign: str  # name of the campaign
    study: str  # name of the study
    question: str  # what the study asks
    study_digest: str  # SHA-256 of study, workload and devices; continuing needs an equal one
    baseline: str  # row that others are compared with
    contrast: str  # factor whose values are compared
    claims: tuple[Claim, ...]  # primary claims
    metrics: tuple[str, ...]  # metrics that the report shows first
    hosts: tuple[HostPlan, ...]  # parts planned so far
    zonelab_version: str  # release that planned it
    rigs: tuple[str, ...] = ()  # rigs that contribute a part each, in order
    hosts_differ: tuple[str, ...] = ()  # facts in which hosts may differ: compare per host only
    # The resolved study and workload, from which verify derives the plan again; null as ``source``.
    definition: Mapping[str, Any] | None = None
    schema_version: int = SCHEMA_VERSION  # of this file

    @property
    def rigs_to_come(self) -> tuple[str, ...]:
        """Rigs whose part is not planned yet."""
        there = {host.rig for host in self.hosts}
        return tuple(rig for rig in self.rigs if rig not in there)
