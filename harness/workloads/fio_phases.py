"""The phases of a workload of fio on a device: their options, and the most bytes they write."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.quantities import format_size
from harness.store.spec import Device, DeviceKind, Scalar
from harness.tools import fio
from harness.workloads import fio_job_options
from harness.workloads.fio_jobs import (
    JOB,
    LABEL_BYTES,
    LABEL_ZONES,
    SHORTEST_RAMP,
    DriveJob,
    JobClient,
)
from harness.workloads.fio_sweeps import LARGEST_BLOCK, RAMP, Fio, Preparation, Sweep
from harness.workloads.planning import BarePhase, BareWork, DerivedPhase

ZBD = "zbd"
# Seconds of a command that waits for the previous one; only for the ETA.
_COMMAND = {DeviceKind.EMULATED: 150e-6, DeviceKind.HARDWARE: 30e-6, DeviceKind.MODELLED: 150e-6}


# fio's options of preparing steps.
_STEP: dict[str, Scalar] = {
    "ioengine": "psync",
    "direct": 1,
    "lat_percentiles": 1,
    "clat_percentiles": 0,
}


@dataclass(frozen=True, slots=True)
class Point:
    """A measured phase: one value of each list of its sweep."""

    sweep: Sweep
    bs: int
    iodepth: int
    jobs: int
    rate: int | None

    @property
    def name(self) -> str:
        """Its phase's name, such as ``randread-4k-qd4-z1``."""
        parts = [self.sweep.name, _short(self.bs), f"qd{self.iodepth}"]
        parts += [f"z{self.jobs}"] if self.sweep.zoned else []
        parts += [f"j{self.jobs}"] if self.sweep.numjobs else []
        parts += [f"r{_short(self.rate)}"] if self.rate else []
        return "-".join(parts)


class _Zones:
    """Each job has zones of its own, from zone LABEL_ZONES on."""

    def __init__(
        self, work: Fio, sweeps: Sequence[Sweep], jobs: Sequence[DriveJob], device: Device
    ) -> None:
        self.work = work
        self.device = device
        self.size, self.capacity = device.zone_size or 0, device.zone_capacity or 0
        self.first = LABEL_ZONES * self.size
        ends = [fio_job_options.end_of_zones(job, device) - LABEL_ZONES for job in jobs]
        spans = [max(sweep.zones, default=1) * self._span(sweep) for sweep in sweeps]
        self.touched = max([*ends, *spans])
        self.block = _largest_divisor(self.capacity)
        self._check(sweeps)

    def place(self, point: Point) -> dict[str, Scalar]:
        """Return zones that hold all bytes; fio itself would reset zones after a full one."""
        zones = self._span(point.sweep)
        part, room = zones * self.size, zones * self.capacity
        return {
            "zonemode": ZBD,
            "offset": self.first,
            "size": part,
            **({"offset_increment": part} if point.jobs > 1 else {}),
            **({"io_size": min(self.work.bytes, room)} if point.sweep.writes else {}),
        }

    def step(self, step: Preparation, jobs: int) -> dict[str, Scalar]:
        """Return the reset of all zones that any phase uses, or the fill of ``jobs`` zones."""
        zones = self.touched if step == "reset" else jobs
        place: dict[str, Scalar] = {
            "zonemode": ZBD,
            "offset": self.first,
            "size": zones * self.size,
        }
        if step == "reset":  # with zonemode=zbd, fio resets zones where it would trim
            return {"rw": "trim", "bs": self.size, **place}
        return {"rw": "write", "bs": self.block, **place, "io_size": zones * self.capacity}

    def prepared(self, job: DriveJob) -> Iterator[tuple[Preparation, dict[str, Scalar]]]:
        """Yield the reset of all zones, and the job's fills."""
        yield "reset", self.step("reset", 0)
        for options in fio_job_options.fills(job, self.device, self.block):
            yield "fill", options

    def _span(self, sweep: Sweep) -> int:
        """Return the zones of each job: those that hold ``bytes``, or its share of all zones."""
        if not sweep.writes:
            return 1
        share = ((self.device.zones or 0) - LABEL_ZONES) // max(sweep.zones, default=1)
        return max(1, min(-(-self.work.bytes // self.capacity), share))

    def _check(self, sweeps: Sequence[Sweep]) -> None:
        device, limit = self.device, self.device.zone_limit
        for sweep in sweeps:
            for size in sweep.bs:
                if self.capacity % size:
                    raise ConfigError(
                        f"bs {format_size(size)} of sweep {sweep.name} does not divide the zone "
                        f"capacity {format_size(self.capacity)} of {device.path}",
                        hint="choose a bs that divides it; else fio fills no zone and never ends",
                        code="does-not-fit",
                    )
            most = max(sweep.zones, default=1)
            if sweep.writes and limit is not None and limit < most:
                raise ConfigError(
                    f"sweep {sweep.name} writes to {most} zones at once, {device.path} allows "
                    f"{limit}",
                    hint="lower zones",
                    code="too-few-active-zones",
                )
        if self.touched + LABEL_ZONES > (device.zones or 0):
            raise ConfigError(
                f"the sweeps need {self.touched + LABEL_ZONES} zones, {device.path} has "
                f"{device.zones}",
                hint="lower zones",
                code="too-few-zones",
            )


class _Region:
    """Jobs share the region after the label in equal parts."""

    def __init__(self, work: Fio, device: Device) -> None:
        self.work = work
        self.device = device
        room = device.size - LABEL_BYTES
        self.size = _whole(min(work.region or room, room))

    def place(self, point: Point) -> dict[str, Scalar]:
        """Return the job's part of the region."""
        part = _whole(self.size // point.jobs)
        if part < point.bs:
            raise ConfigError(f"the region is too small for {point.jobs} jobs", hint="raise region")
        return {
            "offset": LABEL_BYTES,
            "size": part,
            **({"offset_increment": part} if point.jobs > 1 else {}),
        }

    def step(self, step: Preparation, jobs: int) -> dict[str, Scalar]:  # noqa: ARG002
        """Return a step over the whole region: once in order, or as many blocks at random."""
        place: dict[str, Scalar] = {"offset": LABEL_BYTES, "size": self.size}
        if step == "discard":
            return {"rw": "trim", "bs": self.size, **place}
        if step == "fill":
            return {"rw": "write", "bs": LARGEST_BLOCK, **place, "io_size": self.size}
        return {"rw": "randwrite", "bs": 4096, **place, "io_size": self.size, "norandommap": 1}

    def prepared(self, job: DriveJob) -> Iterator[tuple[Preparation, dict[str, Scalar]]]:
        """Yield a discard of the region, and the writes that a job needs before it."""
        yield "discard", self.step("discard", 1)
        for state in job.prepare:
            step: Preparation = "fill" if state.conventional == "sequential" else "overwrite"
            yield step, {**self.step(step, 1), "io_size": self.size * state.times}


# The parts of a device on which jobs and preparing steps work.
_Layout = _Zones | _Region


def plan(work: Fio, device: Device) -> BareWork:
    """Return the phases for a device.

    Raises:
        ConfigError: no sweep is for this kind of device, or one does not fit it.
    """
    sweeps = [sweep for sweep in work.sweeps if sweep.zoned == device.zoned]
    own = [job for job in work.drive_jobs if job.zoned == device.zoned]
    is_modelled = device.kind is DeviceKind.MODELLED
    jobs = [job.slowed(device.dilation) if is_modelled else job for job in own]
    if not sweeps and not jobs:
        kind = "zoned" if device.zoned else "conventional"
        raise ConfigError(
            f"the workload has no sweep or job for {device.path}",
            hint=f"add one with device: {kind}, or omit the level",
            code="level-and-workload",
        )
    _check_blocks(sweeps, device)
    layout = _Zones(work, sweeps, jobs, device) if device.zoned else _Region(work, device)
    phases = (
        *(phase for sweep in sweeps for phase in _of_sweep(layout, sweep)),
        *(phase for job in jobs for phase in _of_job(layout, job)),
    )
    names = {*(sweep.name for sweep in sweeps), *map(_job_name, jobs)}
    measured = sum(phase.derived.benchmark in names for phase in phases)
    written = sum(phase.written_bytes for phase in phases)
    read = sum(map(_bytes, phases)) - written
    numbers = {
        "points": (measured, "combinations of each sweep's lists, and jobs"),
        "written_bytes": (written, "at most: bytes x jobs of each phase, and fills"),
        "read_bytes": (read, "at most: bytes x jobs of each phase without time_based"),
    }
    return BareWork(numbers, phases)


def points(sweep: Sweep) -> list[Point]:
    """Return every combination of a sweep's lists."""
    jobs = sweep.zones or sweep.numjobs or (1,)
    lists = itertools.product(sweep.bs, sweep.iodepth, jobs, sweep.rate or (None,))
    return [Point(sweep, *values) for values in lists]


def _check_blocks(sweeps: Sequence[Sweep], device: Device) -> None:
    for sweep in sweeps:
        for size in sweep.bs:
            if size % device.logical_block_size:
                raise ConfigError(
                    f"bs {format_size(size)} of sweep {sweep.name} is not a multiple of the "
                    f"{device.logical_block_size} B blocks of {device.path}",
                    hint="write 4KiB, which suits every device",
                    code="bad-field",
                )


def _of_sweep(layout: _Layout, sweep: Sweep) -> Iterator[BarePhase]:
    """Yield the phases in order; writes are prepared one by one, reads once."""
    every = points(sweep)
    most = max(point.jobs for point in every)
    if not sweep.writes:
        yield from _steps(layout, sweep, sweep.name, most)
    for point in every:
        if sweep.writes:
            yield from _steps(layout, sweep, point.name, most)
        if layout.work.ramp and not (sweep.zoned and sweep.writes):
            # The ramp is a separate phase, because with ramp_time fio does not count all bytes.
            yield _measured(layout, point, ramp=True)
        yield _measured(layout, point)


def _steps(layout: _Layout, sweep: Sweep, name: str, jobs: int) -> Iterator[BarePhase]:
    for step in sweep.prepare:
        options = {**layout.step(step, jobs), **_STEP}
        yield _phase(f"{name}-{step}", step, options, layout.device, runtime=0)


def _of_job(layout: _Layout, job: DriveJob) -> Iterator[BarePhase]:
    """Yield the phases that prepare a job's device, its warm-up, and the job."""
    for at, (step, options) in enumerate(layout.prepared(job), start=1):
        name = f"{_job_name(job)}-{step}-{at}"
        yield _phase(name, step, options | _STEP, layout.device, runtime=0)
    if job.warmup and not job.writes_zones:
        yield _clients(layout, job, ramp=max(job.warmup, SHORTEST_RAMP))
    yield _clients(layout, job)


def _clients(layout: _Layout, job: DriveJob, ramp: int = 0) -> BarePhase:
    """Return the phase of a job, or of its first ``ramp`` seconds; its clients are sections."""
    region = layout.size if isinstance(layout, _Region) else 0
    flags = fio_job_options.sections(job, layout.device, region, layout.work.ioengine, ramp=ramp)
    writers = [client for client in job.clients if client.writes]
    seconds = ramp or max(_end(client, layout.device) for client in job.clients)
    timed = ramp or all(client.seconds for client in job.clients)
    name = _job_name(job)
    benchmark = RAMP if ramp else name
    return BarePhase(
        f"{name}-{RAMP}" if ramp else name,
        DerivedPhase(benchmark, flags, None, writers[0].size if writers else 0),
        written_bytes=sum(client.most_bytes or 0 for client in writers),
        synchronous_writes=0,
        command_seconds=seconds,
        most_seconds=seconds if timed else None,
        stall_seconds=0,
    )


def _end(client: JobClient, device: Device) -> float:
    """Return the second in which a client ends: at its time, or after its bytes."""
    if client.seconds:
        return client.start + client.seconds
    moved = client.most_bytes or 0
    return client.start + _seconds(moved / client.size, moved, client.bytes_per_second, device)


def _seconds(commands: float, moved: int, rate: int | None, device: Device) -> float:
    """Return the time of commands. ``rate`` limits the bytes per second of a job with ``moved``."""
    return max(commands * _COMMAND[device.kind], moved / rate if rate else 0.0)


def _job_name(job: DriveJob) -> str:
    return f"{JOB}{job.name}"


def _measured(layout: _Layout, point: Point, *, ramp: bool = False) -> BarePhase:
    work, sweep = layout.work, point.sweep
    runtime = work.ramp if ramp else work.runtime
    options: dict[str, Scalar] = {
        "rw": sweep.rw,
        "bs": point.bs,
        "ioengine": work.ioengine if point.iodepth > 1 else "psync",
        "direct": 1,
        "iodepth": point.iodepth,
        "numjobs": point.jobs,
        "thread": 1,
        "group_reporting": 1,
        "io_size": work.bytes,
        **layout.place(point),
        **({"norandommap": 1} if sweep.rw.startswith("rand") else {}),
        **({"rate": max(1, point.rate // layout.device.dilation)} if point.rate else {}),
        **({"runtime": runtime} if runtime else {}),
        "lat_percentiles": 1,
        "clat_percentiles": 1,
    }
    name, benchmark = (f"{point.name}-{RAMP}", RAMP) if ramp else (point.name, sweep.name)
    return _phase(name, benchmark, options, layout.device, runtime=runtime)


def _phase(
    name: str, benchmark: str, options: dict[str, Scalar], device: Device, *, runtime: int
) -> BarePhase:
    """Return a phase of fio; ``runtime`` in seconds, 0: until all bytes are done."""
    jobs, size = int(options.get("numjobs", 1)), int(options["bs"])
    each = int(options.get("io_size", options["size"]))
    writes = "write" in str(options["rw"])
    commands = jobs * (each // size)
    return BarePhase(
        name,
        DerivedPhase(benchmark, options, None if runtime else commands, size if writes else 0),
        written_bytes=wanted_bytes(options) if writes else 0,
        synchronous_writes=0,
        command_seconds=_seconds(commands, each, int(options.get("rate", 0)), device),
        most_seconds=runtime or None,
        stall_seconds=0,  # fio reports at its end only
    )


def _bytes(phase: BarePhase) -> int:
    """Return the most bytes that a phase moves."""
    options = phase.derived.flags
    return 0 if options.get("rw") == "trim" else wanted_bytes(options)


def wanted_bytes(flags: Mapping[str, Scalar]) -> int:
    """Return the bytes that a phase with these options moves, if its runtime suffices."""
    return sum(map(_wanted, fio.sections("", flags).values()))


def _wanted(flags: Mapping[str, Scalar]) -> int:
    """Return the bytes of a job; 0: only time limits it."""
    if flags.get("time_based"):
        return 0
    return int(flags.get("numjobs", 1)) * int(flags.get("io_size", flags.get("size", 0)))


def _largest_divisor(capacity: int) -> int:
    """Return the largest power of two up to LARGEST_BLOCK that divides a capacity."""
    return min(capacity & -capacity, LARGEST_BLOCK)


def _whole(size: int) -> int:
    return size // LARGEST_BLOCK * LARGEST_BLOCK


def _short(size: int) -> str:
    """Return a size as names contain it: 4k, 512, 2m."""
    for unit, factor in (("m", 2**20), ("k", 2**10)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
