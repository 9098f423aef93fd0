"""Sweeps of fio on the model of a drive: each point becomes a job, whose result is a point.

The model's clients replace fio: each is a closed loop of equal commands, on the host stack of the
scheduler.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.read.block import BlockPoint
from harness.errors import ConfigError
from harness.plan import drive_files
from harness.plan.drive_models import DriveModel
from harness.plan.drive_values import size
from harness.plan.job_models import Job
from harness.plan.load import build, nearest
from harness.tools import zonemodel
from harness.tools.zonemodel import Played
from harness.workloads import fio_phases
from harness.workloads.fio_jobs import LABEL_ZONES
from harness.workloads.fio_phases import Point
from harness.workloads.fio_sweeps import LARGEST_BLOCK, Fio

# Virtual time of each job. The workload's runtime, ramp and bytes are for drives.
DURATION, WARMUP = "2s", "200ms"
_STACK = "io_uring-"
_US = 1e3


@dataclass(frozen=True, slots=True)
class _Task:
    """A point with one scheduler in one repetition."""

    point: Point
    scheduler: str
    repetition: int

    @property
    def name(self) -> str:
        """Its job's name."""
        return f"{self.point.name}-{self.scheduler}"


@dataclass(frozen=True, slots=True)
class SweptModel:
    """The results of a model's jobs.

    ``left_out`` names jobs that the model cannot play: several writes to one zone, which wait for
    each other if the scheduler does not merge them.
    """

    points: tuple[BlockPoint, ...]
    left_out: tuple[str, ...]


def sweep(
    model: DriveModel, work: Fio, schedulers: Sequence[str], repetitions: int, threads: int = 1
) -> SweptModel:
    """Play every sweep for the model's kinds of namespace. Repetitions differ by their seed.

    A drive without zones is scaled to the workload's ``region``; a whole one would only take
    memory.

    Raises:
        ConfigError: no sweep is for the model, it has no stack for a scheduler, or it refuses a
            command.
        HostError, ToolFailed: the program ``zonemodel`` is missing or failed.
    """
    kinds = {True: model.zones is not None, False: model.ftl is not None}
    every = [point for one in work.sweeps if kinds[one.zoned] for point in fio_phases.points(one)]
    if not every:
        raise ConfigError(
            f"the workload has no sweep for model {model.name}",
            hint="add one for its kind of device",
            code="level-and-workload",
        )
    for scheduler in schedulers:
        _check_stack(model, scheduler)
    rooms = _rooms(model, work)
    if not rooms.zone:
        model = drive_files.scaled(model, rooms.region)
    tasks = [
        _Task(point, scheduler, repetition)
        for repetition in range(1, repetitions + 1)
        for point in every
        for scheduler in schedulers
    ]
    waiting = dict.fromkeys(task.name for task in tasks if _waits(model, task))
    tasks = [task for task in tasks if task.name not in waiting]
    jobs = [drive_files.job_input(job(task, rooms)) for task in tasks]
    played = zonemodel.run(drive_files.program_input(model), jobs, threads)
    points = tuple(_point(model, *pair) for pair in zip(tasks, played, strict=True))
    return SweptModel(points, tuple(waiting))


def job(task: _Task, rooms: _Rooms) -> Job:
    """Return the job of a point: a client for each of fio's jobs, on a prepared drive."""
    point, zoned = task.point, task.point.sweep.zoned
    clients = [
        {
            "name": f"job{index}",
            "namespace": point.sweep.device,
            "stack": f"{_STACK}{task.scheduler}",
            "mix": {"write" if point.sweep.writes else "read": 1},
            "size": f"{point.bs}B",
            "depth": point.iodepth,
            **({"rate": f"{point.rate / 2**20:.9f}MiB/s"} if point.rate else {}),
            **(_zone if zoned else _part)(point, rooms, index),
        }
        for index in range(point.jobs)
    ]
    data = {
        "schema_version": 1,
        "name": task.name,
        "seed": task.repetition,
        "duration": DURATION,
        "warmup": WARMUP,
        "prepare": list(_prepared(point)),
        "clients": clients,
    }
    return build(Job, data, f"job of {task.name}")


def _prepared(point: Point) -> Iterator[dict[str, Any]]:
    """Yield the drive's state. The drive is new, so nothing must be reset or discarded."""
    if point.sweep.zoned:
        if "fill" in point.sweep.prepare:
            yield {"zones": [LABEL_ZONES, LABEL_ZONES + point.jobs], "fill_pct": 100}
        return
    if "fill" in point.sweep.prepare:
        yield {"conventional": "sequential"}
    if "overwrite" in point.sweep.prepare:
        yield {"conventional": "random"}


def _zone(point: Point, rooms: _Rooms, index: int) -> dict[str, Any]:
    """Return a zone for this client only. With merged writes, it stops at the zone's end."""
    first = LABEL_ZONES + index
    own: dict[str, Any] = {"zones": [first, first + 1]}
    if point.sweep.writes:
        return own | {"bytes": f"{rooms.zone // point.bs * point.bs}B"}
    return own | {"pattern": _pattern(point)}


def _part(point: Point, rooms: _Rooms, index: int) -> dict[str, Any]:
    """Return the client's part of the region."""
    part = rooms.region // point.jobs // LARGEST_BLOCK * LARGEST_BLOCK
    return {
        "range": [f"{index * part}B", f"{(index + 1) * part}B"],
        "pattern": _pattern(point),
    }


def _pattern(point: Point) -> str:
    return "random" if point.sweep.rw.startswith("rand") else "sequential"


@dataclass(frozen=True, slots=True)
class _Rooms:
    """Bytes that a zone holds, and bytes that the sweeps use of a conventional namespace."""

    zone: int
    region: int


def _rooms(model: DriveModel, work: Fio) -> _Rooms:
    zone = size(model.zones.capacity.value) if model.zones is not None else 0
    whole = size(model.ftl.capacity.value) if model.ftl is not None else 0
    return _Rooms(zone, min(work.region or whole, whole) // LARGEST_BLOCK * LARGEST_BLOCK)


def _waits(model: DriveModel, task: _Task) -> bool:
    """Return whether the scheduler cannot have several writes of a zone under way."""
    point = task.point
    several = point.sweep.zoned and point.sweep.writes and point.iodepth > 1
    return several and not size(model.host.stacks[f"{_STACK}{task.scheduler}"].merge.value)


def _check_stack(model: DriveModel, scheduler: str) -> None:
    known = [name.removeprefix(_STACK) for name in model.host.stacks if name.startswith(_STACK)]
    if scheduler not in known:
        raise ConfigError(
            f"model {model.name} has no stack {_STACK}{scheduler}",
            hint=nearest(scheduler, known) if known else "add it to host.stacks",
            code="model",
        )


def _point(model: DriveModel, task: _Task, played: Played) -> BlockPoint:
    point = task.point
    command = "write" if point.sweep.writes else "read"
    clients = [client[command] for client in played.clients.values()]
    refused = sum(sum(one["errors"].values()) for one in clients)
    if refused:
        raise ConfigError(
            f"model {model.name} refuses {refused} commands of {point.name}",
            hint="lower zones to the model's limit of active zones",
            code="model",
        )
    return BlockPoint(
        row=model.name,
        zoned=point.sweep.zoned,
        scheduler=task.scheduler,
        rw=point.sweep.rw,
        bs=point.bs,
        iodepth=point.iodepth,
        jobs=point.jobs,
        block=str(task.repetition),
        iops=sum(one["per_second"] for one in clients),
        p50=_latency(clients, "p50_ns"),
        p95=_latency(clients, "p95_ns"),
        overwrites=point.sweep.writes and bool({"fill", "overwrite"} & {*point.sweep.prepare}),
        model=model.name,
    )


def _latency(clients: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Return a quantile in µs: the mean over clients, which do the same."""
    known = [one[name] for one in clients if one[name] is not None]
    return statistics.fmean(known) / _US if len(known) == len(clients) else None
