"""What a run is told: the device, the plan and one run's specification (all JSON on disk)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from harness.store.codec import SCHEMA_VERSION

Bytes = NewType("Bytes", int)
Scalar = str | int | float | bool

# Factors that trade room for something else: a setting that cannot hold the data is an answer then.
TRADES_ROOM = frozenset({"finish_occupancy_pct", "zone_size"})


class DeviceKind(StrEnum):
    """Whether times measured on the device mean anything; ``replayed`` there is none."""

    EMULATED = "emulated"
    HARDWARE = "hardware"
    REPLAYED = "replayed"


class Tracing(StrEnum):
    """``zones`` counts in the kernel; ``all`` also keeps every command, which costs time."""

    OFF = "off"
    ZONES = "zones"
    ALL = "all"


class PhaseRole(StrEnum):
    """``fill`` builds the database; ``measured`` phases follow once utilisation is known."""

    FILL = "fill"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something cannot be done, readable by machines (code) and people (message, hint)."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """Names that survive renumbering. Empty string: the device does not tell."""

    eui64: str
    nguid: str
    uuid: str
    serial: str
    nsid: int

    @property
    def key(self) -> str:
        """The first that is set of ``eui.…``, ``nguid.…``, ``uuid.…`` and ``serial:nsid``."""
        if self.eui64.strip("0."):
            return f"eui.{self.eui64}"
        if self.nguid.strip("0-"):
            return f"nguid.{self.nguid}"
        if self.uuid.strip("0-"):
            return f"uuid.{self.uuid}"
        return f"{self.serial}:{self.nsid}"


@dataclass(frozen=True, slots=True)
class Device:
    """A block device as inspected. Sizes in bytes; zone fields are null on conventional ones.

    ``max_active_zones`` and ``max_open_zones`` are null on conventional devices and 0 where a zoned
    device has no limit. They come from the path node where NVMe multipath hides them.
    """

    path: str
    identity: DeviceIdentity
    kind: DeviceKind
    model: str
    size: Bytes
    logical_block_size: int
    zoned: bool
    zone_size: Bytes | None
    zone_capacity: Bytes | None
    zones: int | None
    max_open_zones: int | None
    max_active_zones: int | None
    scheduler: str
    schedulers: tuple[str, ...]

    @property
    def capacity(self) -> Bytes:
        """Bytes that can be written: zones times zone *capacity*, never zone size."""
        if self.zones is None or self.zone_capacity is None:
            return self.size
        return Bytes(self.zones * self.zone_capacity)


@dataclass(frozen=True, slots=True)
class LevelProbe:
    """Whether a level can run here; ``reason`` is null when it can."""

    level: str
    available: bool
    reason: Reason | None
    facts: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The part of the host manifest that planning needs."""

    name: str
    kernel: str
    os: str
    cpus: int
    memory_bytes: Bytes
    rocksdb: str


@dataclass(frozen=True, slots=True)
class OtherDevice:
    """A further zoned device of a host that runs may be given; fields as in ``Inspection``."""

    device: Device
    refusals: tuple[Reason, ...]
    levels: tuple[LevelProbe, ...]


@dataclass(frozen=True, slots=True)
class Inspection:
    """``zonelab inspect <device> --format json``: what plan, guard and preflight decide on.

    ``refusals`` lists everything for which the guard would refuse the device now; empty: allowed.
    ``drive_capacity`` is the whole drive's capacity in bytes, null when it does not tell;
    ``endurance`` what may be written to it in its life, by its own estimate, in bytes.
    ``others`` are zoned devices that were named beside it, for studies that vary the device and for
    mixes of tenants.
    """

    host: HostFacts
    device: Device
    conventional: Device | None
    conventional_reason: Reason | None
    drive_capacity: Bytes | None
    refusals: tuple[Reason, ...]
    levels: tuple[LevelProbe, ...]
    others: tuple[OtherDevice, ...] = ()
    endurance: Bytes | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def devices(self) -> tuple[Device, ...]:
        """All zoned devices that were named, the first first."""
        return (self.device, *(other.device for other in self.others))


@dataclass(frozen=True, slots=True)
class PhaseSpec:
    """One invocation of ``program``. ``flags`` carry its own names, without dashes.

    ``operations`` is what the benchmark must report as done, null for time-limited ones.
    ``user_bytes_per_operation`` is key + value for writes, 0 for reads (of a mix: their mean).
    After ``stall_seconds`` without a single operation the phase is given up (0: never).
    """

    name: str
    benchmark: str
    role: PhaseRole
    flags: Mapping[str, Scalar]
    operations: int | None
    user_bytes_per_operation: int
    expects_gc: bool
    timeout_seconds: int
    stall_seconds: int = 600
    program: str = "db_bench"


@dataclass(frozen=True, slots=True)
class ColdSpec:
    """Cold data to put inside the level before the database."""

    target_utilisation: float
    tolerance: float
    bytes: Bytes


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the planner expects of one run, shown before anything is destroyed."""

    bytes_written: Bytes
    live_bytes: Bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a device: ``count`` from ``first`` on, in zones or in bytes."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What a tenant's programs may take; null: no limit.

    ``cpu`` is a share of one processor, ``memory`` includes the page cache that they fill. ``read``
    and ``write`` are bytes per second of each of its devices (cgroup's io.max).
    """

    cpu: float | None = None
    memory: Bytes | None = None
    read: Bytes | None = None
    write: Bytes | None = None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return any(one is not None for one in (self.cpu, self.memory, self.read, self.write))


@dataclass(frozen=True, slots=True)
class TenantSpec:
    """One of several workloads of a run. Its phases are called ``<name>.<phase>``.

    ``stack`` names the tenant whose file system it uses, its own where it brings one up itself.
    ``device`` is its namespace, ``zones`` the part of it that is its own (null: all of it),
    ``conventional`` its part of the run's conventional device, in bytes (null: all of it, or none).
    ``active`` is how many zones it may keep active at once, null: its device has no limit.
    It begins ``start_offset`` seconds behind the barrier and lasts ``duration`` seconds. ``seed``
    is added to the run's, so that a tenant has the same keys alone and among others.
    """

    name: str
    level: str
    options: Mapping[str, Scalar]
    stack: str
    device: Device
    zones: Extent | None
    conventional: Extent | None
    active: int | None
    cold: ColdSpec | None
    limits: Limits
    weight: float
    start_offset: float
    duration: float
    seed: int

    def owns(self, phase: PhaseSpec) -> bool:
        """Whether a phase of the run is its own."""
        return phase.name.partition(".")[0] == self.name


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run, complete: the runner needs nothing else. Stored as ``run.json``.

    ``variant`` tells apart runs of one level that differ in ``level_options``; empty: there is one.
    ``memory_limit`` is what db_bench and its page cache may take; null: all there is.
    ``infeasible`` says why the setting cannot hold the data, with the arithmetic: a result.
    With ``tenants``, ``level`` is the name of their mix, and ``phases`` are those of all of them.
    """

    campaign: str
    study: str
    run: str
    cell: str
    level: str
    factors: Mapping[str, Scalar]
    level_options: Mapping[str, Scalar]
    repetition: int
    attempt: int
    block: int
    position: int
    seed: int
    device: Device
    conventional: Device | None
    scheduler: str
    cold: ColdSpec | None
    phases: tuple[PhaseSpec, ...]
    predicted: Prediction
    timeout_seconds: int
    variant: str = ""
    tracing: Tracing = Tracing.ZONES
    memory_limit: Bytes | None = None
    infeasible: Reason | None = None
    tenants: tuple[TenantSpec, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it brings up."""
        return tuple(one.level for one in self.tenants) or (self.level,)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Every device that it may touch, each once."""
        others = [tenant.device for tenant in self.tenants]
        found = [self.device, *others, *([self.conventional] if self.conventional else [])]
        return tuple({device.identity.key: device for device in found}.values())

    @property
    def row(self) -> str:
        """What tables, claims and the plan's baseline call its level."""
        return f"{self.level}-{self.variant}" if self.variant else self.level


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The runs of one host, in the order in which they must be executed.

    ``rig`` is the rig of the study whose part these are; empty: the host has whole blocks.
    """

    host: str
    inspection: Inspection
    runs: tuple[RunSpec, ...]
    rig: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A primary claim, declared before any run: ``level`` against the baseline on ``metric``."""

    id: str
    metric: str
    level: str
    baseline: str
    expect: str


@dataclass(frozen=True, slots=True)
class Plan:
    """``plan.json``: a study expanded for the hosts of a campaign.

    ``study_digest`` is the SHA-256 of the resolved study, workload and device facts; a campaign
    is only ever continued under an equal digest. ``rigs`` are those that each give a part, in
    their order; ``hosts`` has the parts that were planned so far. ``hosts_differ`` are the facts in
    which hosts were declared to differ: blocks may be compared within each of them only.
    """

    campaign: str
    study: str
    question: str
    study_digest: str
    baseline: str
    contrast: str
    claims: tuple[Claim, ...]
    metrics: tuple[str, ...]
    hosts: tuple[HostPlan, ...]
    zonelab_version: str
    rigs: tuple[str, ...] = ()
    hosts_differ: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @property
    def rigs_to_come(self) -> tuple[str, ...]:
        """Rigs whose part is not planned yet."""
        there = {host.rig for host in self.hosts}
        return tuple(rig for rig in self.rigs if rig not in there)
