"""Rigs: ``configs/rigs/*.yml`` as typed, checked data with QEMU's own property names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from harness.errors import ConfigError, UsageError
from harness.plan import drive_files
from harness.plan.drive_models import DriveModel
from harness.plan.extended_files import read_extended
from harness.plan.fields import validated_by
from harness.quantities import parse_qemu_size
from harness.rig.releases import known_release

PROJECT = Path(__file__).parents[2]
RIGS = PROJECT / "configs" / "rigs"
_PAGE = "see docs/rigs.md"
DEFAULT = "nvme"  # of `zonelab rig`, and of studies that name no rig
SLOW = "slow"  # <rig>-slow has twice the dilation of <rig>


def _parse_uuid(value: object) -> str:
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", str(value)):
        raise ValueError(f"expected a lower-case UUID in quotes, got {value!r}")
    return str(value)


QemuSize = Annotated[int, validated_by(parse_qemu_size), Field(gt=0)]
Uuid = Annotated[str, BeforeValidator(_parse_uuid)]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class EmulatedNamespace(_Data):
    """One ``-device nvme-ns`` and the sparse file behind it."""

    nsid: int = Field(ge=1, le=256, description="maps to nvme-ns,nsid=")
    eui64: int = Field(gt=0, lt=1 << 64, description="maps to nvme-ns,eui64=")
    uuid: Uuid = Field(description="maps to nvme-ns,uuid=")
    logical_block_size: Literal[512, 4096] = Field(
        default=4096, description="maps to nvme-ns,logical_block_size= and physical_block_size="
    )
    size: QemuSize | None = Field(
        default=None, description="conventional only: maps to the length of the backing file"
    )
    zoned: bool = Field(default=False, description="maps to nvme-ns,zoned=")
    zones: int | None = Field(
        default=None, gt=0, description="zoned only: the backing file is zones x zone_size long"
    )
    zone_size: QemuSize | None = Field(
        default=None, alias="zoned.zone_size", description="maps to nvme-ns,zoned.zone_size="
    )
    zone_capacity: QemuSize | None = Field(
        default=None,
        alias="zoned.zone_capacity",
        description="maps to nvme-ns,zoned.zone_capacity=",
    )
    max_open: int = Field(
        default=0, ge=0, alias="zoned.max_open", description="maps to nvme-ns,zoned.max_open="
    )
    max_active: int = Field(
        default=0, ge=0, alias="zoned.max_active", description="maps to nvme-ns,zoned.max_active="
    )

    @property
    def length(self) -> int:
        """Bytes of address space: the length of the backing file."""
        return (self.zones or 0) * (self.zone_size or 0) if self.zoned else self.size or 0

    @property
    def capacity(self) -> int:
        """Bytes that can be written."""
        return (self.zones or 0) * (self.zone_capacity or 0) if self.zoned else self.size or 0

    @property
    def eui(self) -> str:
        """EUI-64 as Linux prints it without blanks, 16 hexadecimal digits."""
        return f"{self.eui64:016x}"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.zoned:
            if self.size is None:
                raise ValueError("a conventional namespace needs size")
            if {self.zones, self.zone_size, self.zone_capacity} != {None}:
                raise ValueError("zones and zoned.* need zoned: true")
            return self
        if self.size is not None:
            raise ValueError("a zoned namespace is zones x zoned.zone_size long; drop size")
        if self.zones is None or self.zone_size is None or self.zone_capacity is None:
            raise ValueError(
                "a zoned namespace needs zones, zoned.zone_size and zoned.zone_capacity"
            )
        self._check_zones(self.zones, self.zone_size, self.zone_capacity)
        return self

    def _check_zones(self, zones: int, size: int, capacity: int) -> None:
        if size & (size - 1):
            raise ValueError(f"zoned.zone_size {size} is not a power of two, which Linux requires")
        if capacity > size:
            raise ValueError(f"zoned.zone_capacity {capacity} exceeds zoned.zone_size {size}")
        if capacity % self.logical_block_size:
            raise ValueError("zoned.zone_capacity is not a multiple of logical_block_size")
        if self.max_active and self.max_open > self.max_active:
            raise ValueError("zoned.max_open exceeds zoned.max_active")
        for name, limit in (("max_open", self.max_open), ("max_active", self.max_active)):
            if limit > zones:
                raise ValueError(f"zoned.{name} {limit} exceeds zones {zones}")


class Controller(_Data):
    """One ``-device nvme``. Without ``subsys`` Linux shows the zone limits on the namespaces.

    With it, and ``nvme_core.multipath=Y``, each namespace becomes the head of a multipath device.
    """

    serial: str = Field(pattern=r"^[\w-]{1,20}$", description="maps to nvme,serial=")
    subsys: bool = Field(
        default=False, description="maps to nvme,subsys= and an nvme-subsys with nqn=<serial>"
    )
    namespaces: tuple[EmulatedNamespace, ...] = Field(
        min_length=1, alias="nvme-ns", description="maps to -device nvme-ns, one each"
    )


class ModelledDrive(_Data):
    """One drive that ``zoneblk`` serves in the guest (docs/model.md).

    It is zoned if its model has zones, else conventional. Its contents are in the guest's memory.
    """

    model: str = Field(description="a file of configs/models; maps to zoneblk --model")
    uuid: Uuid = Field(description="maps to zoneblk --uuid: the drive's identity")
    nvme: bool = Field(
        default=False, description="maps to a namespace of the guest's nvmet, by transport loop"
    )

    def load(self) -> DriveModel:
        """Return the drive's model. Raises ConfigError: there is none, or it is wrong."""
        return drive_files.load_model(self.model)


class Rig(_Data):
    """One file of ``configs/rigs``; ``name`` is the file's stem."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,30}$", description="the file's stem")
    description: str = Field(description="one line for `zonelab rig list`")
    suite: Annotated[str, AfterValidator(known_release)] = Field(
        description="a file of configs/releases; maps to mmdebstrap SUITE"
    )
    newer: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="maps to apt pins: packages by the other suite they come from",
    )
    packages: tuple[str, ...] = Field(
        default=(), description="maps to mmdebstrap --include: more packages in this rig's image"
    )
    machine: Literal["q35"] = Field(default="q35", description="maps to -machine")
    smp: int = Field(ge=1, le=64, description="maps to -smp")
    memory: QemuSize = Field(alias="m", description="maps to -m")
    append: tuple[str, ...] = Field(
        default=(), description="maps to -append, after root= and console="
    )
    icount: Literal["shift=0,sleep=off"] | None = Field(
        default=None, description="maps to -icount: the guest's clock counts instructions"
    )
    dilation: int = Field(
        default=1,
        ge=1,
        le=1000,  # zoneblk takes 2000, which the rig that checks times needs
        description="guest seconds per second of a modelled drive",
    )
    overhead: str = Field(
        default="0us",
        pattern=r"^\d+(\.\d+)?us$",
        description="maps to zoneblk --overhead: guest time of a request that is not the drive's",
    )
    wakeup: str = Field(
        default="0us",
        pattern=r"^\d+(\.\d+)?us$",
        description="maps to zoneblk --wakeup: the part of the overhead after a request is due",
    )
    overhead_left_pct: float | None = Field(
        default=None, ge=0, description="largest measured error of a request, with this overhead"
    )
    hosts: int = Field(
        default=1, ge=1, le=8, description="machines that `zonelab study` boots for a campaign"
    )
    nvme: tuple[Controller, ...] = Field(default=(), description="maps to -device nvme, one each")
    zoneblk: tuple[ModelledDrive, ...] = Field(
        default=(), description="modelled drives that the guest serves itself, in this order"
    )

    @property
    def namespaces(self) -> tuple[EmulatedNamespace, ...]:
        """All namespaces in the order of the file."""
        return tuple(ns for controller in self.nvme for ns in controller.namespaces)

    @model_validator(mode="after")
    def _check_machine(self) -> Self:
        if bool(self.nvme) == bool(self.zoneblk):
            raise ValueError("a rig has either nvme or zoneblk: kinds of device never mix")
        if self.hosts > 1 and self.icount is None:
            raise ValueError("hosts needs icount: other machines would slow each other down")
        if self.zoneblk and self.icount is None:
            raise ValueError("zoneblk needs icount: an emulated CPU has no time of its own")
        if float(self.wakeup[:-2]) > float(self.overhead[:-2]):
            raise ValueError("wakeup is above overhead, but must be a part of it")
        if self.icount is not None and self.smp != 1:
            raise ValueError("icount needs smp: 1")
        if len({drive.uuid for drive in self.zoneblk}) != len(self.zoneblk):
            raise ValueError("two modelled drives have the same uuid")
        return self

    @model_validator(mode="after")
    def _check_identities(self) -> Self:
        for what in ("eui64", "uuid"):
            values = [getattr(ns, what) for ns in self.namespaces]
            if len(set(values)) != len(values):
                raise ValueError(f"two namespaces have the same {what}")
        for controller in self.nvme:
            nsids = [ns.nsid for ns in controller.namespaces]
            if len(set(nsids)) != len(nsids):
                raise ValueError(f"controller {controller.serial}: two namespaces share an nsid")
        if len({c.serial for c in self.nvme}) != len(self.nvme):
            raise ValueError("two controllers have the same serial")
        return self


def names(folder: Path = RIGS) -> list[str]:
    """Return the names of all rigs, sorted."""
    return sorted(path.stem for path in folder.glob("*.yml"))


def load(name: str, folder: Path = RIGS) -> Rig:
    """Read one rig: a file, or one that follows from a file.

    ``<rig>-slow`` has drives of twice the dilation. ``<rig>-<n>`` is the n-th machine of a rig with
    several hosts.

    Raises:
        UsageError: there is no such rig.
        ConfigError: the file is not YAML, repeats a key or does not describe a rig; the message
            names the line or the field.
    """
    if name not in names(folder) and (found := _derived(name, folder)) is not None:
        return found
    path = folder / f"{name}.yml"
    if name not in names(folder):
        known = ", ".join(names(folder)) or "none"
        raise UsageError(f"unknown rig {name!r}", hint=f"rigs in {folder}: {known}")
    try:
        fields = read_extended(path, folder, hint=_PAGE)
        # Through JSON, where strict mode still turns lists into tuples.
        return Rig.model_validate_json(json.dumps({"name": name, **fields}))
    except ValidationError as error:
        raise ConfigError(f"{path.name}: {_first_problem(error)}", hint=_PAGE) from None
    except TypeError as error:  # a date or another YAML type that JSON does not have
        raise ConfigError(f"{path.name}: {error}", hint="quote the value") from None


def overhead_left(served: str, dilation: int, overhead_us: float) -> float | None:
    """Return the error in % that a rig's calibration leaves for a drive of such a model.

    None if no rig serves the drive in this way.
    """
    for name in names():
        rig = load(name)
        models = {drive.model for drive in rig.zoneblk}
        same = (rig.dilation, float(rig.overhead.removesuffix("us"))) == (dilation, overhead_us)
        if same and served in models:
            return rig.overhead_left_pct
    return None


def _derived(name: str, folder: Path) -> Rig | None:
    base, _, last = name.rpartition("-")
    if last == SLOW:
        return slower(load(base, folder)) if base in names(folder) else None
    if base.removesuffix(f"-{SLOW}") not in names(folder):
        return None
    return next((one for one in hosts_of(load(base, folder)) if one.name == name), None)


def slower(rig: Rig) -> Rig | None:
    """Return the same rig with twice the dilation: it checks times (docs/methods.md).

    None if the rig has no modelled drives, or is such a rig itself.
    """
    if not rig.zoneblk or rig.name.endswith(f"-{SLOW}"):
        return None
    drives = tuple(
        drive.model_copy(update={"uuid": f"{drive.uuid[:24]}1{drive.uuid[25:]}"})
        for drive in rig.zoneblk
    )
    changes = {"name": f"{rig.name}-{SLOW}", "dilation": 2 * rig.dilation, "zoneblk": drives}
    return rig.model_copy(update={**changes, "overhead_left_pct": None})


def hosts_of(rig: Rig) -> tuple[Rig, ...]:
    """Return the machines of a campaign on a rig, each with its own name and drive identities."""
    if rig.hosts == 1:
        return (rig,)
    return tuple(_host(rig, number) for number in range(1, rig.hosts + 1))


def _host(rig: Rig, number: int) -> Rig:
    drives = tuple(
        drive.model_copy(update={"uuid": f"{drive.uuid[:-4]}{number:02x}{drive.uuid[-2:]}"})
        for drive in rig.zoneblk
    )
    return rig.model_copy(update={"name": f"{rig.name}-{number}", "hosts": 1, "zoneblk": drives})


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"]) or "the file"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "unknown field"
    return f"{where}: {message}"
