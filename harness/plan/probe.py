"""Workloads without a database: what zoneprobe does to bare zones, and what that will take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness import levels
from harness.errors import ConfigError
from harness.plan.derive import Derived
from harness.plan.devices import ZONE_SIZE
from harness.plan.load import build, nearest
from harness.plan.models import Flag, Study, Workload
from harness.plan.predict import RATES, TIMEOUT_FACTOR
from harness.plan.probe_models import BLOCK, AnyWorkload, ProbeWorkload, ZoneProbe, word
from harness.plan.units import format_size
from harness.store.spec import (
    Bytes,
    ColdSpec,
    Device,
    DeviceKind,
    PhaseRole,
    PhaseSpec,
    Prediction,
    Reason,
)
from harness.tools.zoneprobe import LABEL_ZONES, PROGRAM

# The fields that a factor may vary.
_OF_THE_STUDY = ("scheduler", ZONE_SIZE)
_NUMBERS = ("repeats", "first_writes", "write_size", "fill_size")

# The longest command of a ZN540, in seconds by percent of the capacity written: finish = 906.3 -
# 9.025 o ms, reset at most 16.2 ms (docs/methods.md). Emulators change a flag.
_FINISH = (0.9063, -0.009025)
_COMMAND = {DeviceKind.EMULATED: 1e-3, DeviceKind.HARDWARE: 16.2e-3}


@dataclass(frozen=True, slots=True)
class ProbeSizes:
    """What follows from the device; ``formulas`` says how, for people to read."""

    cycles: int
    written_bytes: int
    finishes: int
    formulas: Mapping[str, str]
    cold_bytes: int = 0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """What the workload gives a run."""

    sizes: Derived | ProbeSizes
    cold: ColdSpec
    phases: tuple[PhaseSpec, ...]
    predicted: Prediction
    timeout_seconds: int
    infeasible: Reason | None = None


def check_level(level: str, workload: AnyWorkload) -> None:
    """Refuse a workload that a level has no use for.

    Raises:
        ConfigError: a database on bare zones, or commands to zones inside another level.
    """
    module = levels.LEVELS.get(level)
    takes_database = module is None or module.takes_database
    if takes_database == isinstance(workload, Workload):
        return
    raise ConfigError(
        f"workload {workload.name} is not for level {level}",
        hint="raw-device takes workloads with `zones`, every other level those with phases",
        code="level-and-workload",
    )


def with_factors(study: Study, workload: ProbeWorkload, factors: Mapping[str, Flag]) -> ZoneProbe:
    """Return the probe of a cell.

    Raises:
        ConfigError: a factor is none of the probe's, or out of range.
    """
    changes = {name: value for name, value in factors.items() if name not in _OF_THE_STUDY}
    for name in changes:
        if name not in _NUMBERS:
            raise ConfigError(
                f"study {study.name} varies an unknown factor {name!r}",
                hint=nearest(name, (*_NUMBERS, *_OF_THE_STUDY)),
                code="unknown-factor",
            )
    fields = workload.zones.model_dump(mode="json") | changes
    return build(ZoneProbe, fields, f"study {study.name}, factors {dict(factors)}")


def work(probe: ZoneProbe, device: Device, timeout: int) -> Work:
    """Size a probe for a device.

    Raises:
        ConfigError: it has too few zones, or the first writes do not fit into one.
    """
    capacity, block = device.zone_capacity or 0, device.logical_block_size
    _check(probe, device)
    before = [occupied(one, capacity, block) for one in probe.occupancies]
    finished = [occupied(one, capacity, block) for one in probe.finish_occupancies]
    each = sum(before) + sum(finished) + probe.treatments * probe.first_writes * probe.write_size
    cycles, written = probe.treatments * probe.repeats, probe.repeats * each
    sizes = ProbeSizes(
        cycles=cycles,
        written_bytes=written,
        finishes=probe.repeats * len(finished),
        formulas={
            "cycles": f"{probe.treatments} treatments x {probe.repeats} repeats",
            "written_bytes": "repeats x (what treatments fill + treatments x first_writes x "
            "write_size)",
            "finishes": "repeats x finish_occupancies",
        },
    )
    seconds = _seconds(probe, device, written, finished)
    limit = max(timeout, math.ceil(TIMEOUT_FACTOR * seconds))
    phase = PhaseSpec(
        name="probe",
        benchmark="zones",
        role=PhaseRole.MEASURED,
        flags={
            "occupancies": ",".join(map(word, probe.occupancies)),
            "finish_occupancies": ",".join(map(word, probe.finish_occupancies)),
            **{name: getattr(probe, name) for name in _NUMBERS},
        },
        operations=cycles,
        user_bytes_per_operation=0,
        expects_gc=False,
        timeout_seconds=limit,
        program=PROGRAM,
    )
    setup = RATES[device.kind].setup
    return Work(
        sizes=sizes,
        cold=ColdSpec(target_utilisation=0.0, tolerance=1.0, bytes=Bytes(0)),
        phases=(phase,),
        predicted=Prediction(Bytes(written), Bytes(0), round(setup + seconds, 1)),
        timeout_seconds=max(300, math.ceil(TIMEOUT_FACTOR * setup)) + limit,
    )


def occupied(occupancy: str | float, capacity: int, block: int) -> int:
    """Return bytes in whole blocks; as ``Occupancy::Bytes`` of harness/native/zoneprobe."""
    if isinstance(occupancy, str):
        return block if occupancy == BLOCK else capacity - block
    return int(occupancy / 100 * capacity) // block * block


def _check(probe: ZoneProbe, device: Device) -> None:
    zones, capacity = device.zones or 0, device.zone_capacity or 0
    if zones - LABEL_ZONES <= probe.repeats:
        raise ConfigError(
            f"{probe.repeats} repeats need {probe.repeats + 1 + LABEL_ZONES} zones, "
            f"{device.path} has {zones}",
            hint="fewer repeats, or a namespace of more zones",
            code="too-few-zones",
        )
    for name in ("write_size", "fill_size"):
        if getattr(probe, name) % device.logical_block_size:
            raise ConfigError(
                f"{name} is no multiple of the {device.logical_block_size} B blocks of "
                f"{device.path}",
                hint="4KiB suits every device",
                code="bad-field",
            )
    if probe.first_writes * probe.write_size + device.logical_block_size > capacity:
        raise ConfigError(
            f"{probe.first_writes} first writes of {format_size(probe.write_size)} do not fit into "
            f"a zone of {format_size(capacity)}",
            hint="lower first_writes or write_size",
            code="does-not-fit",
        )


def _seconds(probe: ZoneProbe, device: Device, written: int, finished: list[int]) -> float:
    """Return the predicted time of the phase."""
    rates = RATES[device.kind]
    writes = probe.treatments * probe.repeats * probe.first_writes
    commands = 2 * probe.treatments * probe.repeats
    seconds = written / rates.file_bytes_per_second + writes * rates.read
    seconds += commands * _COMMAND[device.kind] + rates.phase
    if device.kind is DeviceKind.HARDWARE:
        capacity = device.zone_capacity or 1
        shares = [100 * size / capacity for size in finished if size]  # an empty zone: at once
        seconds += probe.repeats * sum(_FINISH[0] + _FINISH[1] * share for share in shares)
    return seconds
