"""The measurements of a workload of fio: sweeps over options, as its file describes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from harness.errors import ConfigError
from harness.quantities import format_size
from harness.workloads.fio_jobs import SHORTEST_RAMP, DriveJob
from harness.workloads.planning import Bounds, SizeQuantity

# Largest command that no driver splits; otherwise fio's count and the kernel's would differ.
LARGEST_BLOCK = 128 * 2**10
_NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,30}$")

Positive = Annotated[int, Bounds(ge=1, le=4096)]
Preparation = Literal["reset", "fill", "discard", "overwrite"]
# Phases that prepare others.
RAMP = "ramp"
RESERVED = frozenset({RAMP, *get_args(Preparation)})
_OF_ZONES = frozenset({"reset", "fill"})
_OF_CONVENTIONAL = frozenset({"discard", "fill", "overwrite"})


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Every combination of the lists is a phase of fio; names and units are fio's.

    ``device`` is the kind of device. On zones, each of ``zones`` jobs works in zones of its own. On
    a conventional device, ``numjobs`` jobs share the region. ``rate`` limits each job, in bytes per
    second. ``prepare`` runs before each writing phase, and once before all reading phases.
    """

    name: str
    device: Literal["zoned", "conventional"]
    rw: Literal["read", "write", "randread", "randwrite"]
    bs: Annotated[tuple[SizeQuantity, ...], Bounds(min_length=1)]
    iodepth: Annotated[tuple[Positive, ...], Bounds(min_length=1)] = (1,)
    zones: tuple[Positive, ...] = ()
    numjobs: tuple[Positive, ...] = ()
    rate: tuple[SizeQuantity, ...] = ()
    prepare: tuple[Preparation, ...] = ()

    def check(self) -> None:
        """Refuse values that do not fit together (ConfigError)."""
        if not _NAME.match(self.name):
            raise ConfigError(f"sweep {self.name!r}: names are of the characters a-z, 0-9 and -")
        for field in ("bs", "iodepth", "zones", "numjobs", "rate", "prepare"):
            values = getattr(self, field)
            if len(set(values)) != len(values):
                raise ConfigError(f"sweep {self.name}: two values of {field} are equal")
        for size in self.bs:
            if not 0 < size <= LARGEST_BLOCK:
                raise ConfigError(
                    f"sweep {self.name}: bs must be above 0 and at most "
                    f"{format_size(LARGEST_BLOCK)}, which is one command with every driver"
                )
        if 0 in self.rate:
            raise ConfigError(f"sweep {self.name}: rate must be above 0; without a limit, omit it")
        self._check_device()
        self._check_preparation()

    @property
    def zoned(self) -> bool:
        """Whether it is for zones."""
        return self.device == "zoned"

    @property
    def writes(self) -> bool:
        """Whether its phases write."""
        return self.rw in ("write", "randwrite")

    def _check_device(self) -> None:
        wrong = "numjobs" if self.zoned else "zones"
        if getattr(self, wrong):
            raise ConfigError(
                f"sweep {self.name}: {wrong} does not apply to device: {self.device}",
                hint="zones on zoned devices, numjobs on conventional ones",
            )
        if self.zoned and self.rw == "randwrite":
            raise ConfigError(f"sweep {self.name}: zones accept no random writes; use rw: write")

    def _check_preparation(self) -> None:
        unknown = set(self.prepare) - (_OF_ZONES if self.zoned else _OF_CONVENTIONAL)
        if unknown:
            raise ConfigError(
                f"sweep {self.name}: {min(unknown)} does not apply to device: {self.device}"
            )
        if self.zoned and self.writes and self.prepare != ("reset",):
            raise ConfigError(
                f"sweep {self.name}: writes to zones need prepare: [reset]",
                hint="zones that are not empty keep resources, or fio resets them itself",
            )
        if not self.writes and "fill" not in self.prepare:
            raise ConfigError(
                f"sweep {self.name}: reads need data",
                hint="prepare: [reset, fill] on zones, [fill] on a conventional device",
            )


@dataclass(frozen=True, kw_only=True)
class Fio:
    """Sweeps and jobs of fio over one device; each level runs those of its kind of device.

    A phase ends after ``bytes`` for each job, or after ``runtime`` seconds (0: no limit). Writes to
    zones end earlier if the device has too few zones. ``ramp``: for so many seconds the same job
    runs before, as a separate phase. ``ioengine`` is for depths above 1; depth 1 uses psync.
    ``region`` is the used part of a conventional device; 0, or too much: all of it. ``jobs`` are
    names of files in configs/jobs, which the loader replaces by their content.
    """

    ioengine: Literal["libaio", "io_uring"] = "libaio"
    bytes: SizeQuantity = 0
    runtime: Annotated[int, Bounds(ge=0, le=86_400)] = 0
    ramp: Annotated[int, Bounds(ge=0, le=86_400)] = 0
    region: SizeQuantity = 0
    sweeps: tuple[Sweep, ...] = ()
    jobs: tuple[str | DriveJob, ...] = ()

    def check(self) -> None:
        """Refuse values that do not fit together (ConfigError)."""
        if not self.sweeps and not self.jobs:
            raise ConfigError("fio has no sweep and no job", hint="add sweeps or jobs")
        names = [sweep.name for sweep in self.sweeps]
        if len(set(names)) != len(names) or RESERVED & set(names):
            raise ConfigError(
                f"names of sweeps must differ, also from {', '.join(sorted(RESERVED))}: "
                f"{', '.join(names)}"
            )
        if 0 < self.ramp < SHORTEST_RAMP:
            raise ConfigError(
                f"ramp must be at least {SHORTEST_RAMP} s",
                hint="fio needs the first second to start its jobs",
            )
        for sweep in self.sweeps:
            for size in sweep.bs:
                if self.bytes < size or self.bytes % size:
                    raise ConfigError(
                        f"bytes {format_size(self.bytes)} is no multiple of bs "
                        f"{format_size(size)} of sweep {sweep.name}"
                    )

    @property
    def drive_jobs(self) -> tuple[DriveJob, ...]:
        """The jobs."""
        return tuple(job for job in self.jobs if isinstance(job, DriveJob))
