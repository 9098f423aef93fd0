"""What people write in ``configs/``: studies, workloads and tunings (pydantic, strict).

``zonelab plan --schemas`` writes the JSON schemas of these models to ``configs/schema/``.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.metrics import CATALOGUE
from harness.plan.units import FieldError, Processors, Seconds, Share, Size

Flag = str | bool | int | float
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
FlagName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
# Cells of a mix of tenants, by the value of their factor ``mix``: each alone, and all together.
SOLO, SHARED = "solo-", "shared"
# A factor may also be an option of the study's only level: xfs.max_open_zones.
OPTION = "."
FactorName = Annotated[str, Field(pattern=r"^([a-z0-9-]+\.)?[A-Za-z][A-Za-z0-9_]*$")]

# Benchmarks the planner knows to size. The first group begins with an empty database.
FRESH = frozenset({"fillseq", "fillrandom", "filluniquerandom"})
WRITES = FRESH | {"overwrite", "updaterandom"}
SCANS = frozenset({"readseq"})
Benchmark = Literal[
    "fillseq", "fillrandom", "filluniquerandom", "overwrite", "updaterandom",
    "readseq", "readrandom", "readwhilewriting",
]  # fmt: skip

# A workload file may name another one here and give only what differs (docs/studies.md): its
# flags replace the other's one by one, every other field as a whole. These it always gives.
EXTENDS = "extends"
OWN_FIELDS = ("name", "description")


class Model(BaseModel):
    """Base of all of them: unknown fields are errors, nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Operations(Model):
    """How many operations a phase does: exactly one rule, and an optional upper limit.

    ``keys``: this multiple of the number of keys. ``free_space``: until the user payload is this
    multiple of the space left free after the fill. ``count``: this number. ``duration``: for this
    long (db_bench ``--duration``), whatever number that gives.
    """

    keys: Annotated[float, Field(gt=0)] | None = None
    free_space: Annotated[float, Field(gt=0)] | None = None
    count: Annotated[int, Field(gt=0, lt=2**63)] | None = None
    duration: Seconds | None = None
    at_most: Annotated[int, Field(gt=0, lt=2**63)] | None = None

    @model_validator(mode="after")
    def _one_rule(self) -> Operations:
        rules = [self.keys, self.free_space, self.count, self.duration]
        if sum(rule is not None for rule in rules) != 1:
            raise FieldError("operations needs exactly one of keys, free_space, count, duration")
        return self


Weight = Annotated[float, Field(ge=0)]


class Mix(Model):
    """What one invocation of kvmix does: weights by kind of operation, and which keys it wants.

    Names, meanings and defaults are those of ``kvmix run --help``. With ``rate`` (operations per
    second of all threads) the loop is open: each operation has an intended start.
    """

    insert: Weight = 0
    update: Weight = 0
    delete: Weight = 0
    range_delete: Weight = 0
    query: Weight = 0
    scan: Weight = 0
    absent_share: Share = 0.0
    range_keys: Annotated[int, Field(gt=0, lt=2**31)] = 100
    distribution: Literal["uniform", "zipfian", "latest"] = "uniform"
    theta: Annotated[float, Field(gt=0, lt=1)] = 0.99
    gated: bool = False
    rate: Annotated[float, Field(gt=0)] | None = None
    arrivals: Literal["fixed", "poisson"] = "fixed"
    verify: bool = False

    @model_validator(mode="after")
    def _does_something(self) -> Mix:
        if not 0 < self.total < float("inf"):
            raise FieldError("a mix needs an operation with a weight above 0")
        return self

    @property
    def total(self) -> float:
        """Sum of the weights."""
        reads = self.query + self.scan
        return self.insert + self.update + self.delete + self.range_delete + reads

    @property
    def growth(self) -> float:
        """Keys that an operation adds on average; below 0: it takes some away."""
        gone = self.delete + self.range_delete * self.range_keys
        return (self.insert - gone) / self.total

    @property
    def only_inserts(self) -> bool:
        """Whether the number of keys after it is known beforehand."""
        return self.insert == self.total

    @property
    def keeps_keys(self) -> bool:
        """Whether the same keys are there after it."""
        return not (self.insert or self.delete or self.range_delete)

    def payload(self, key_size: int, value_size: int) -> float:
        """Return U of one operation on average, in bytes: keys of deletes count, too."""
        written = (self.insert + self.update) * (key_size + value_size)
        return (written + (self.delete + 2 * self.range_delete) * key_size) / self.total


class Phase(Model):
    """One invocation of db_bench (``benchmark``) or of kvmix (``mix``).

    ``timeout`` is a floor: the planner raises it for large devices.

    ``stall_timeout`` without a single operation ends the phase: RocksDB may wait for ever for room
    that never comes. 0 never does.

    ``assumed_write_amplification`` is file bytes (WAL, flush, compaction) per user byte, used
    only to predict bytes and time.
    """

    name: Name
    benchmark: Benchmark | None = None
    mix: Mix | None = None
    role: Literal["fill", "measured"]
    operations: Operations
    flags: dict[FlagName, Flag] = {}
    expects_gc: bool = False
    timeout: Seconds = 300
    stall_timeout: Seconds = 600
    assumed_write_amplification: Annotated[float, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_program(self) -> Phase:
        if (self.benchmark is None) == (self.mix is None):
            raise FieldError(f"phase {self.name} needs a benchmark (db_bench) or a mix (kvmix)")
        if self.mix is None:
            return self
        if self.role == "fill" and not (self.mix.only_inserts and self.operations.duration is None):
            raise FieldError(
                f"phase {self.name} fills: it inserts a number of keys, and does nothing else"
            )
        if self.operations.duration is not None and (self.mix.insert or self.mix.gated):
            raise FieldError(
                f"phase {self.name} needs a number of operations",
                hint="what inserts needs a key space, what is gated exact counts",
            )
        return self


class Workload(Model):
    """A sequence of phases over one database, all of them of db_bench or all of kvmix.

    ``database_share`` is the size of the database after its first fill as a share of the device's
    zone capacity; the number of keys follows from it. ``fill_share`` says how large the files are
    after that fill, per byte of (keys x entry); ``peak_share`` the same for the largest moment of
    the later phases. Both are measured (docs/studies.md says where and how).
    ``target_file_size_base`` is ``zone_fill`` x zone capacity, divided by the smallest whole number
    that brings it to at most ``largest_file``. ``write_buffers_per_file`` and
    ``level_base_in_write_buffers`` size the memtable and L1 from it. ``compaction_debt`` bounds the
    bytes that wait for compaction, as a share of the capacity: without it the database outgrows
    its space whenever writes are faster than compaction.
    """

    name: Name
    description: str
    key_size: Annotated[int, Field(ge=4, lt=2**31)]
    value_size: Size
    database_share: Share
    fill_share: Annotated[float, Field(gt=0, le=2)]
    peak_share: Annotated[float, Field(gt=0, le=4)]
    zone_fill: Share = 0.95
    largest_file: Size = 64 * 2**20
    write_buffers_per_file: Annotated[float, Field(gt=0)] = 1.0
    level_base_in_write_buffers: Annotated[float, Field(gt=0)] = 4.0
    compaction_debt: Share
    flags: dict[FlagName, Flag]
    phases: Annotated[tuple[Phase, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _phases_make_sense(self) -> Workload:
        names = [phase.name for phase in self.phases]
        if len(set(names)) != len(names):
            raise FieldError(f"phase names must differ: {', '.join(names)}")
        roles = [phase.role for phase in self.phases]
        if roles[0] != "fill" or roles != sorted(roles):
            raise FieldError("fill phases come first, and there is at least one")
        if len({phase.mix is None for phase in self.phases}) > 1:
            raise FieldError("phases are benchmarks or mixes: db_bench's keys are not kvmix's")
        for before, after in itertools.pairwise(self.phases):
            if before.mix and not (before.mix.only_inserts or before.mix.keeps_keys):
                raise FieldError(
                    f"phase {after.name} cannot know which keys {before.name} left",
                    hint="a mix that inserts or deletes comes last",
                )
        if any(p.benchmark in FRESH for p in self.phases if p.role == "measured"):
            raise FieldError("a measured phase must not start with an empty database")
        if self.value_size < 1:
            raise FieldError("value_size must be at least 1 byte")
        return self


class Level(Model):
    """A level of a study, with options that its module understands.

    A study may have a level several times, with other options: ``variant`` tells them apart in
    cells, tables, claims and ``--levels``, where such a level is called ``<name>-<variant>``.
    """

    name: Name
    variant: Name | None = None
    options: dict[str, Flag] = {}

    @property
    def label(self) -> str:
        """What the study calls it."""
        return self.name if self.variant is None else f"{self.name}-{self.variant}"


Rate = Annotated[float, Field(gt=0)]


class TenantLimits(Model):
    """What a tenant may take: ``cpu`` of one processor, ``read`` and ``write`` per second."""

    cpu: Processors | None = None
    memory: Size | None = None
    read: Size | None = None
    write: Size | None = None


class Tenant(Model):
    """One of several workloads that run at once.

    ``namespace`` 1 is the device under test, 2 and higher are the others that were named.
    ``slice`` is its part of that namespace, as shares of its zones. ``shares`` names a tenant
    whose file system it uses; else ``level`` is its own, and ``instead`` takes that one's place on
    hosts where it can run. ``workload`` is the study's unless it names another; its one measured
    phase lasts as long as the tenant. ``rate`` makes that phase an open loop (operations per
    second). ``start`` and ``duration`` are measured from the barrier at which all begin.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=32)]
    namespace: Annotated[int, Field(ge=1, le=64)] = 1
    slice: tuple[Share, Share] | None = None
    shares: str | None = None
    level: Name | Level | None = None
    instead: Name | Level | None = None
    workload: Name | Workload | None = None
    rate: Rate | None = None
    limits: TenantLimits = TenantLimits()
    weight: Annotated[float, Field(gt=0)] = 1.0
    start: Annotated[float, Field(ge=0)] = 0.0
    duration: Seconds | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> Tenant:
        if (self.level is None) == (self.shares is None):
            raise FieldError(f"tenant {self.name} needs a level, or whose file system it shares")
        if self.slice is not None and not self.slice[0] < self.slice[1]:
            raise FieldError(f"tenant {self.name}: its slice ends before it begins")
        if self.shares is not None and self.slice is not None:
            raise FieldError(f"tenant {self.name}: a shared file system has the owner's slice")
        return self


class TenantMix(Model):
    """Tenants that share a drive for ``duration``, each of them also measured alone."""

    name: Name
    description: str
    duration: Seconds
    tenants: Annotated[tuple[Tenant, ...], Field(min_length=1, max_length=16)]

    @model_validator(mode="after")
    def _tenants_fit_together(self) -> TenantMix:
        names = [tenant.name for tenant in self.tenants]
        if len(set(names)) != len(names):
            raise FieldError(f"tenant names must differ: {', '.join(names)}")
        owners = [tenant.name for tenant in self.tenants if tenant.shares is None]
        for tenant in self.tenants:
            if tenant.shares is not None and tenant.shares not in owners:
                raise FieldError(
                    f"tenant {tenant.name} shares the file system of {tenant.shares!r}",
                    hint=f"with a level of their own: {', '.join(owners)}",
                )
            if tenant.start + (tenant.duration or 1) > self.duration:
                raise FieldError(
                    f"tenant {tenant.name} would last longer than the mix ({self.duration} s)"
                )
        return self


class PrimaryClaim(Model):
    """A primary claim: ``level`` against ``baseline`` on ``metric`` (``<phase>.<name>``)."""

    id: Name
    metric: str
    level: Name
    baseline: Name
    expect: Literal["better", "worse", "different"]


class Study(Model):
    """A declared question and the matrix that answers it.

    ``contrast`` is ``level`` or the name of a factor; ``baseline`` is one of its values. Factors
    are ``scheduler``, ``target_utilisation``, sizes of the workload, or db_bench flags. ``rigs``
    says which rig runs which levels, all repetitions of them; a difference in their geometry is
    thereby declared. ``tracing: all`` keeps every command of every run, and labels the runs.
    ``memory_limit`` is of db_bench with its page cache, so that every level sees the same cache.
    With a ``mix`` of tenants there are no levels and no factors: its cells are each tenant alone
    and all of them together, so ``contrast`` is ``mix``.
    ``without_kvm`` names the study that ``make study`` runs in its place where rigs are slow.
    """

    name: Name
    question: str
    workload: Name
    mix: Name | TenantMix | None = None
    levels: tuple[Name | Level, ...] = ()
    rigs: dict[Name, Annotated[tuple[Name, ...], Field(min_length=1)]] = {}
    factors: dict[FactorName, Annotated[tuple[Flag, ...], Field(min_length=1)]] = {}
    repetitions: Annotated[int, Field(ge=1, le=99)]
    seed: Annotated[int, Field(ge=1, lt=2**31)]
    cold: bool = True
    tracing: Literal["off", "zones", "all"] = "zones"
    target_utilisation: Share
    tolerance: Share = 0.02
    baseline: str
    contrast: str = "level"
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    claims: Annotated[tuple[PrimaryClaim, ...], Field(max_length=5)] = ()
    limit_time: Seconds | None = None
    limit_bytes: Size | None = None
    memory_limit: Size | None = None
    without_kvm: Name | None = None

    @property
    def entries(self) -> tuple[Level, ...]:
        """The levels, each in its long form."""
        return tuple(Level(name=e) if isinstance(e, str) else e for e in self.levels)

    @model_validator(mode="after")
    def _has_a_matrix(self) -> Study:
        if (self.mix is None) == (not self.levels):
            raise FieldError("a study needs levels, or a mix of tenants")
        if self.mix is not None and (self.factors or self.rigs or self.claims):
            raise FieldError("a study of a mix has no factors, rigs or claims")
        if self.mix is not None and self.memory_limit is not None:
            raise FieldError("a study of a mix has no memory_limit", hint="tenants have limits")
        if (self.contrast == "mix") != (self.mix is not None):
            raise FieldError("contrast: mix belongs to a study of a mix")
        return self

    @model_validator(mode="after")
    def _each_level_has_one_rig(self) -> Study:
        levels = [entry.label for entry in self.entries]
        given = [level for part in self.rigs.values() for level in part]
        for level in given:
            if level not in levels:
                raise FieldError(f"rigs: the study has no level {level!r}")
        if self.rigs and sorted(given) != sorted(levels):
            wrong = next(level for level in levels if given.count(level) != 1)
            raise FieldError(
                f"rigs: level {wrong!r} is on {given.count(wrong)} rigs",
                hint="a level runs on one rig, with all its repetitions",
            )
        return self

    @model_validator(mode="after")
    def _contrast_makes_sense(self) -> Study:
        names = [entry.label for entry in self.entries]
        if len(set(names)) != len(names):
            raise FieldError(
                f"levels must differ: {', '.join(names)}",
                hint="give one of the same name a variant: {name: …, variant: …, options: …}",
            )
        for factor in self.factors:
            owner, dot, _ = factor.partition(OPTION)
            if dot and {entry.name for entry in self.entries} != {owner}:
                raise FieldError(
                    f"factor {factor!r} needs levels: [{owner}]",
                    hint="runs of other levels would have nothing to compare it with",
                )
        if self.contrast not in ("level", "mix", *self.factors):
            raise FieldError(f"contrast {self.contrast!r} is neither 'level' nor a factor")
        if self.baseline not in (choices := self._contrasted()):
            raise FieldError(f"baseline {self.baseline!r} is not one of {', '.join(choices)}")
        for key in (*self.metrics, *(claim.metric for claim in self.claims)):
            if key.rpartition(".")[2] not in CATALOGUE:
                raise FieldError(f"unknown metric {key!r}")
        return self

    def _contrasted(self) -> list[str]:
        """Return what the contrast compares."""
        if self.contrast == "level":
            return [entry.label for entry in self.entries]
        if isinstance(self.mix, TenantMix):
            return [SHARED, *(SOLO + tenant.name for tenant in self.mix.tenants)]
        if self.mix is not None:  # only the loader has its tenants
            return [self.baseline]
        return [str(value) for value in self.factors[self.contrast]]


class Setting(Model):
    """A file to write. ``path`` may hold ``*``; files that do not exist are left out."""

    path: Annotated[str, Field(pattern=r"^/(proc/sys|sys)/[A-Za-z0-9_./*-]+$")]
    value: str


UnitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9@_.-]+\.timer$")]


class Tuning(Model):
    """Host settings applied before and restored after a campaign (role ``tuning``).

    ``swap: off`` takes swap areas out of use; ``timers`` are systemd's, stopped where they run.
    """

    name: Name
    description: str
    settings: tuple[Setting, ...]
    swap: Literal["keep", "off"] = "keep"
    timers: tuple[UnitName, ...] = ()
