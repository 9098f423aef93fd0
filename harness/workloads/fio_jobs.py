"""Jobs of the model's job language (configs/jobs), the part that fio can play.

Times are in seconds, rates per second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from harness.workloads.planning import Bounds, SizeQuantity

# Seconds; fio starts its jobs in the first one.
SHORTEST_RAMP = 2
# Zone 0, or the first MiB of a conventional device, holds the label of the run.
LABEL_ZONES = 1
LABEL_BYTES = 2**20
ALL = 100  # percent
# Prefix of the names of phases that are jobs.
JOB = "job-"


@dataclass(frozen=True, kw_only=True)
class JobState:
    """State before a job: zones that are filled by a share, or writes to the whole region."""

    zones: tuple[int, int] | None = None
    fill_pct: float = 0
    written: SizeQuantity | None = None
    conventional: Literal["sequential", "random"] | None = None
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class JobClient:
    """A source of commands. ``seconds`` and ``bytes`` limit it; null: no limit."""

    name: str
    read_pct: Annotated[int, Bounds(ge=0, le=100)]
    size: Annotated[SizeQuantity, Bounds(ge=1)]
    depth: int = 1
    zones: tuple[int, int] | None = None
    active: int | None = None
    range: tuple[SizeQuantity, SizeQuantity] | None = None
    sequential: bool = False
    run: SizeQuantity | None = None
    hot: tuple[float, float] | None = None  # percent of the range, percent of the commands
    rate: SizeQuantity | None = None
    rate_iops: int | None = None
    start: int = 0
    seconds: int | None = None
    bytes: SizeQuantity | None = None

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        return self.read_pct < ALL

    @property
    def bytes_per_second(self) -> int | None:
        """Its rate in bytes per second; null: no limit."""
        return self.rate if self.rate_iops is None else self.rate_iops * self.size

    def slowed(self, factor: int) -> JobClient:
        """Return the client for a modelled drive, with longer times and a lower rate in bytes.

        fio's rates are whole numbers, so commands per second would lose too much. Flags at a
        factor of 1 have the same names, so that campaigns at both dilations pair.
        """
        rate = self.bytes_per_second
        return replace(
            self,
            start=self.start * factor,
            seconds=self.seconds and self.seconds * factor,
            rate=None if rate is None else rate // factor,
            rate_iops=None,
        )

    @property
    def most_bytes(self) -> int | None:
        """The most bytes that it moves; null: only the drive limits it."""
        rate = self.bytes_per_second
        timed = [rate * self.seconds] if rate and self.seconds else []
        return min([*timed, *([self.bytes] if self.bytes else [])], default=None)


@dataclass(frozen=True, kw_only=True)
class DriveJob:
    """Clients that run side by side on a prepared device."""

    name: str
    zoned: bool
    warmup: int = 0
    prepare: tuple[JobState, ...] = ()
    clients: tuple[JobClient, ...]

    def slowed(self, factor: int) -> DriveJob:
        """Return the job for a modelled drive whose seconds take ``factor`` seconds."""
        return replace(
            self,
            warmup=self.warmup * factor,
            clients=tuple(client.slowed(factor) for client in self.clients),
        )

    @property
    def writes_zones(self) -> bool:
        """Whether a client writes to zones, which a warm-up would use up."""
        return self.zoned and any(client.writes for client in self.clients)
