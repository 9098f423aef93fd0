"""Files in ``configs/models``: drives as the program ``zonemodel`` plays them.

harness/native/model/README.md describes each field.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from harness.plan.drive_values import (
    Percent,
    Sourced,
    SourcedBandwidth,
    SourcedBytes,
    SourcedCount,
    SourcedPercent,
    SourcedTime,
    Time,
    newest,
    size,
)
from harness.plan.fields import FieldError, Model, Name

SCHEMA_VERSION = 1


class Flash(Model):
    """Dies, their times, and the channels that connect them to the controller."""

    channels: SourcedCount
    ways: SourcedCount
    program_unit: SourcedBytes
    page: SourcedBytes
    channel_rate: SourcedBandwidth
    channel_read_rate: SourcedBandwidth
    read_4k: SourcedTime
    read_page: SourcedTime
    read_spread: SourcedTime
    program: SourcedTime
    program_spread: SourcedTime | None = None
    suspend_min: SourcedTime
    suspend_max: SourcedTime
    resume: SourcedTime
    max_suspends: SourcedCount
    read_burst: SourcedTime | None = None
    erase: SourcedTime

    @property
    def dies(self) -> int:
        """Number of dies."""
        return self.channels.value * self.ways.value


class Front(Model):
    """The controller: fixed times of commands, serial stages that cap IOPS, and the link."""

    link_rate: SourcedBandwidth
    link_command: SourcedTime
    read: SourcedTime
    write: SourcedTime
    append: SourcedTime
    flush: SourcedTime
    report: SourcedTime
    trim: SourcedTime
    stage_read: SourcedTime
    stage_write: SourcedTime
    stage_append: SourcedTime
    partial_below: SourcedBytes
    partial: SourcedTime
    stage_partial: SourcedTime
    stage_long_every: SourcedCount
    stage_long_pct: Sourced[Annotated[float, Field(ge=0)]]
    inline: SourcedBytes
    list: SourcedTime
    list_append: SourcedTime
    write_rate: SourcedBandwidth
    small_format: SourcedTime | None = None
    logical_block: Sourced[Literal["512B", "4KiB"]]


class Buffer(Model):
    """The write buffer."""

    size: SourcedBytes


class Stack(Model):
    """What a software stack of the host adds to a request."""

    submit: SourcedTime
    list: SourcedTime
    scheduler: SourcedTime
    merge: SourcedBytes
    merged: SourcedTime | None = None
    cpu: SourcedTime | None = None


class HostSide(Model):
    """The host that submits commands."""

    gap: SourcedTime
    gap_per_kib: SourcedTime
    stacks: dict[Name, Stack]


ByShare = tuple[tuple[Percent, Time], ...]


class Zones(Model):
    """The zoned namespace."""

    count: SourcedCount
    size: SourcedBytes
    capacity: SourcedBytes
    channels: SourcedCount
    ways: SourcedCount
    max_open: SourcedCount
    max_active: SourcedCount
    open: SourcedTime
    close: SourcedTime
    finish_empty: SourcedTime
    implicit_open: SourcedTime
    implicit_open_append: SourcedTime | None = None
    finish: SourcedTime
    reset: Sourced[ByShare]
    reset_finished: Sourced[ByShare]
    reset_spread_pct: SourcedPercent
    reset_exclusive_pct: SourcedPercent
    manage_read: SourcedTime
    manage_write: SourcedTime
    manage_append: SourcedTime
    erase_at: Sourced[Literal["none", "reset", "first-write"]]

    @model_validator(mode="after")
    def _limits_fit(self) -> Zones:
        for name, limit in (("max_open", self.max_open), ("max_active", self.max_active)):
            if limit.value > self.count.value:
                raise FieldError(
                    f"{name} {limit.value} is above the {self.count.value} zones",
                    hint="write at most count, or 0 for no limit",
                )
        active = self.max_active.value
        if active and not 0 < self.max_open.value <= active:
            raise FieldError(
                f"max_open {self.max_open.value} does not fit max_active {active}",
                hint="an open zone is active: write at most max_active",
            )
        if size(self.capacity.value) > size(self.size.value):
            raise FieldError(
                f"capacity {self.capacity.value} is above size {self.size.value}",
                hint="a zone holds at most its size",
            )
        for name, curve in (("reset", self.reset), ("reset_finished", self.reset_finished)):
            shares = [share for share, _ in curve.value]
            if shares != sorted(set(shares)) or shares[:1] != [0] or shares[-1:] != [100]:
                raise FieldError(
                    f"{name} has the shares {shares}", hint="write ascending shares from 0 to 100"
                )
        return self


class Ftl(Model):
    """The conventional namespace: page-mapped translation and collection."""

    capacity: SourcedBytes
    over_provisioning_pct: Sourced[Annotated[float, Field(ge=0, le=1000)]]
    map_unit: SourcedBytes
    block_units: SourcedCount
    dies: SourcedCount | None = None
    collection: Sourced[Literal["greedy", "fifo"]]
    reserve: SourcedCount
    hot_cold_separation: Sourced[bool] | None = None


class DriveModel(Model):
    """A drive. ``curves`` names the measured curves that ``zonelab model validate`` compares."""

    PAGE: ClassVar[str] = "docs/model.md"

    schema_version: Annotated[int, AfterValidator(newest(SCHEMA_VERSION, "model"))]
    name: Name
    description: str
    curves: Name | None = None
    flash: Flash
    front: Front
    buffer: Buffer
    host: HostSide
    zones: Zones | None = None
    ftl: Ftl | None = None

    @model_validator(mode="after")
    def _parts_fit_together(self) -> DriveModel:
        if self.zones is None and self.ftl is None:
            raise FieldError("it has no namespace", hint="write zones, ftl or both")
        if "passthrough" not in self.host.stacks:
            raise FieldError(
                "host.stacks has no passthrough", hint="write the stack that jobs use by default"
            )
        _check_counts(self)
        if self.zones is not None:
            _check_stripes(self.flash, self.zones)
        if self.ftl is not None:
            _check_map(self.flash, self.ftl)
        return self


def _check_counts(model: DriveModel) -> None:
    counts = {"flash.channels": model.flash.channels, "flash.ways": model.flash.ways}
    if model.ftl is not None:
        counts["ftl.block_units"] = model.ftl.block_units
        if model.ftl.dies is not None:
            counts["ftl.dies"] = model.ftl.dies
    for name, count in counts.items():
        if count.value == 0:
            raise FieldError(f"{name} is 0", hint="write a count of 1 or more")


def _check_map(flash: Flash, ftl: Ftl) -> None:
    unit, page = size(ftl.map_unit.value), size(flash.page.value)
    if unit == 0 or page % unit:
        raise FieldError(
            f"ftl.map_unit {ftl.map_unit.value} does not divide flash.page {flash.page.value}",
            hint="a map unit is a part of a page of flash, usually 4KiB",
        )
    capacity = size(ftl.capacity.value)
    if capacity == 0 or capacity % unit:
        raise FieldError(
            f"ftl.capacity {ftl.capacity.value} is not a whole number of map units",
            hint=f"write a multiple of {ftl.map_unit.value}",
        )


def _check_stripes(flash: Flash, zones: Zones) -> None:
    for name in ("channels", "ways"):
        whole, part = getattr(flash, name).value, getattr(zones, name).value
        if part == 0 or whole % part:
            raise FieldError(
                f"zones.{name} {part} does not divide flash.{name} {whole}",
                hint="all groups of dies have the same size",
            )
    stripe = zones.channels.value * zones.ways.value * size(flash.program_unit.value)
    capacity = size(zones.capacity.value)
    if stripe == 0 or capacity == 0 or capacity % stripe:
        raise FieldError(
            f"zones.capacity {zones.capacity.value} is not a whole number of stripes of {stripe} B",
            hint="a stripe is zones.channels x zones.ways x flash.program_unit",
        )
