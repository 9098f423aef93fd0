"""Files in ``configs/jobs``: clients that send commands to a drive.

harness/native/model/README.md describes each field.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from harness.plan.drive_values import ByteSize, Count, Percent, Rate, Time, newest
from harness.plan.fields import FieldError, Model, Name

SCHEMA_VERSION = 1

Zoned = Literal[
    "read", "write", "append", "flush", "report", "open", "close", "finish", "reset", "trim"
]
ZoneRange = tuple[Count, Count]
Depth = Annotated[int, Field(ge=1, le=2**14)]
Weight = Annotated[int, Field(ge=0, le=10**6)]


class Fill(Model):
    """State of a zone; ``used``: it was full and reset, and is not erased yet."""

    fill_pct: Percent | None = None
    written: ByteSize | None = None
    state: Literal["closed", "open", "full", "finished", "empty"] | None = None
    used: bool | None = None

    @model_validator(mode="after")
    def _has_one_size(self) -> Fill:
        if self.fill_pct is not None and self.written is not None:
            raise FieldError("it has fill_pct and written", hint="write one of them")
        return self


class Prepare(Fill):
    """State of zones, or of the conventional namespace, at time 0."""

    zones: ZoneRange | None = None
    conventional: Literal["sequential", "random"] | None = None
    times: Annotated[int, Field(ge=1, le=100)] | None = None

    @model_validator(mode="after")
    def _has_one_target(self) -> Prepare:
        if (self.zones is None) == (self.conventional is None):
            raise FieldError("it needs either zones or conventional")
        _check_range(self.zones)
        return self


class Step(Model):
    """A command of a sequence, repeated ``times`` or until the zone is ``to_pct`` full."""

    command: Zoned
    times: Annotated[int, Field(ge=1)] | None = None
    to_pct: Percent | None = None


class Hot(Model):
    """Share of the addresses that gets a share of the commands."""

    range_pct: Percent
    commands_pct: Percent


class Client(Model):
    """A source of commands with its own queue depth."""

    name: Name
    namespace: Literal["zoned", "conventional"] | None = None
    stack: Name | None = None
    mix: dict[Zoned, Weight] | None = None
    sequence: tuple[Zoned | Step, ...] | None = None
    size: ByteSize | None = None
    depth: Depth | None = None
    zones: ZoneRange | None = None
    active: Annotated[int, Field(ge=1)] | None = None
    repeat: bool | None = None
    refill: Fill | None = None
    at_full: Literal["reset", "reset-command", "next"] | None = None
    range: tuple[ByteSize, ByteSize] | None = None
    pattern: Literal["random", "sequential"] | None = None
    run: ByteSize | None = None
    hot: Hot | None = None
    rate: Rate | None = None
    start: Time | None = None
    duration: Time | None = None
    commands: Annotated[int, Field(ge=1)] | None = None
    bytes: ByteSize | None = None
    seed: Count | None = None

    @model_validator(mode="after")
    def _has_commands(self) -> Client:
        if (self.mix is None) == (self.sequence is None):
            raise FieldError(f"client {self.name} needs either mix or sequence")
        _check_range(self.zones)
        return self


class Job(Model):
    """Clients that run side by side on a new drive."""

    PAGE: ClassVar[str] = "docs/model.md"

    schema_version: Annotated[int, AfterValidator(newest(SCHEMA_VERSION, "job"))]
    name: Name
    description: str | None = None
    seed: Count | None = None
    duration: Time | None = None
    warmup: Time | None = None
    prepare: tuple[Prepare, ...] = ()
    clients: Annotated[tuple[Client, ...], Field(min_length=1)]
    zone_report: bool = False

    @model_validator(mode="after")
    def _names_differ(self) -> Job:
        names = [client.name for client in self.clients]
        if len(set(names)) != len(names):
            raise FieldError(f"names of clients must differ: {', '.join(names)}")
        return self


def _check_range(zones: ZoneRange | None) -> None:
    if zones is not None and zones[0] >= zones[1]:
        raise FieldError(
            f"zones [{zones[0]}, {zones[1]}] hold no zone", hint="write [first, end], first < end"
        )
