"""Points of block-level sweeps: the results of each measured phase of fio, by its options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from analysis.read.drives import drive_of
from analysis.read.load import RunRecord
from analysis.read.percentiles import together
from harness.levels import LEVELS
from harness.run.imported import OVERWRITES
from harness.store.spec import Device, PhaseRole, PhaseSpec, RunSpec
from harness.tools import fio, histogram
from harness.workloads.fio_sweeps import RAMP, RESERVED

# Quantiles in ten-thousandths, and the metrics to use if no histogram is stored.
_MEDIAN, _P95 = (5000, "latency_p50"), (9500, "latency_p95")
# Steps after which a device holds data.
_FILLING = frozenset({"fill", "overwrite"})
# Factors that have a field of their own.
_OWN = frozenset({"level", "scheduler"})


@dataclass(frozen=True, slots=True)
class BlockPoint:
    """One phase of one run. ``iops`` and latencies in µs are null where they are unknown.

    ``row`` and ``others`` name the run's level and factors, ``block`` the runs that belong
    together, ``model`` the drive. ``cell`` and ``phase`` have its metrics. ``overwrites`` is true
    if the written blocks already hold data. ``instructions`` are per command, ``merged`` is the
    share of write requests that the kernel merged into others.
    """

    row: str
    zoned: bool
    scheduler: str
    rw: str
    bs: int
    iodepth: int
    jobs: int
    block: str
    iops: float | None
    p50: float | None
    p95: float | None
    overwrites: bool = False
    others: tuple[str, ...] = ()
    instructions: float | None = None
    merged: float | None = None
    model: str = ""
    cell: str = ""
    phase: str = ""

    @property
    def in_flight(self) -> int:
        """Commands that fio keeps outstanding, over all its jobs."""
        return self.iodepth * self.jobs

    @property
    def reads(self) -> bool:
        """Whether the phase only reads."""
        return self.rw in ("read", "randread")

    @property
    def sequential(self) -> bool:
        """Whether the commands follow each other on the device."""
        return not self.rw.startswith("rand")

    @property
    def operation(self) -> str:
        """The kind of access, as readable text."""
        return f"over{self.rw}" if self.overwrites else self.rw

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second."""
        return None if self.iops is None else self.iops * self.bs


def points_of(runs: Iterable[RunRecord]) -> list[BlockPoint]:
    """Return the points of all ok runs but twins, in the order of their phases."""
    return [point for run in runs if run.ok and not run.spec.is_twin for point in _points(run)]


def has_points(runs: Iterable[RunRecord]) -> bool:
    """Return whether a run swept a device with fio; computes at most one point."""
    return any(True for run in runs if run.ok for _ in _points(run))


def _points(run: RunRecord) -> Iterator[BlockPoint]:
    """Yield a point for each measured phase with one kind of access; preparing phases have none.

    A write of a device that a phase filled before overwrites data.
    """
    filled = False
    for phase in run.spec.phases:
        if phase.program != fio.PROGRAM:
            continue
        if phase.benchmark in RESERVED:
            filled = phase.benchmark in _FILLING or (filled and phase.benchmark == RAMP)
        elif phase.role is PhaseRole.MEASURED and (size := _bytes(phase.flags)) is not None:
            yield _point(run, phase, size, filled=filled)


def _point(run: RunRecord, phase: PhaseSpec, size: int, *, filled: bool) -> BlockPoint:
    level = LEVELS.get(run.spec.level)
    rw = str(phase.flags.get("rw"))
    factors = {name: run.factor(name) for name in run.result.factors if name not in _OWN}
    return BlockPoint(
        row=run.spec.row,
        zoned=level.uses_zoned if level is not None else run.result.device.zoned,
        scheduler=run.spec.scheduler,
        rw=rw,
        bs=size,
        iodepth=_count(phase.flags, "iodepth"),
        jobs=_count(phase.flags, "numjobs"),
        block=run.block_key("scheduler"),
        iops=run.value(f"{phase.name}.throughput"),
        p50=_latency(run, phase.name, *_MEDIAN),
        p95=_latency(run, phase.name, *_P95),
        overwrites="write" in rw and (filled or phase.flags.get(OVERWRITES) is True),
        others=(
            *device_words(run.spec),
            *(f"{name} {value}" for name, value in sorted(factors.items())),
        ),
        instructions=run.value(f"{phase.name}.instructions_per_operation"),
        merged=run.value(f"{phase.name}.merged_share") if "write" in rw else None,
        model=_device(run.spec).model,
        cell=run.cell,
        phase=phase.name,
    )


def device_words(spec: RunSpec) -> tuple[str, ...]:
    """Return the model of a conventional device: a campaign can have several."""
    device = _device(spec)
    if device is not spec.conventional or not device.model:
        return ()
    modelled = drive_of(device.model)
    return (modelled.model if modelled else device.model,)


def _device(spec: RunSpec) -> Device:
    """Return the device that the commands go to."""
    level = LEVELS.get(spec.level)
    return level.main_device(spec.device, spec.conventional) if level is not None else spec.device


def _latency(run: RunRecord, phase: str, per_myriad: int, metric: str) -> float | None:
    """Return a quantile of the histogram, else the stored metric."""
    whole = together([run], phase)
    if whole is None:
        return run.value(f"{phase}.{metric}")
    return histogram.quantile(whole, per_myriad)


def _bytes(flags: Mapping[str, object]) -> int | None:
    """Return the one block size of a phase; null for ranges and mixes."""
    try:
        return fio.size(str(flags.get("bs", "")))
    except ValueError:
        return None


def _count(flags: Mapping[str, object], name: str) -> int:
    text = str(flags.get(name, 1))
    return int(text) if text.isdecimal() else 1
