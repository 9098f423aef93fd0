"""Planning of workloads without a database."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import levels
from harness.errors import ConfigError
from harness.plan import rate_caps
from harness.plan.devices import ZONE_SIZE
from harness.plan.fields import Flag
from harness.plan.load import build, nearest
from harness.plan.predict import RATES, TIMEOUT_FACTOR, Rates
from harness.plan.study_models import Study
from harness.plan.workload_models import BARE_WORKLOADS, AnyWorkload, BareWorkload, Workload
from harness.store.spec import (
    Bytes,
    ColdSpec,
    Device,
    Inspection,
    PhaseRole,
    PhaseSpec,
    Prediction,
    Reason,
)
from harness.workloads.fio_sweeps import Fio
from harness.workloads.load_program import LoadProgram
from harness.workloads.planning import BarePhase, DerivedNumbers

_STUDY_FACTORS = ("scheduler", ZONE_SIZE)


@dataclass(frozen=True, slots=True)
class Work:
    """Part of a run that comes from the workload."""

    sizes: DerivedNumbers
    cold: ColdSpec
    phases: tuple[PhaseSpec, ...]
    predicted: Prediction
    timeout_seconds: int
    infeasible: Reason | None = None


def check_level(level: str, workload: AnyWorkload) -> None:
    """Refuse a workload that does not match the level.

    Raises:
        ConfigError: a database on bare zones, or zone commands on a level with a database.
    """
    if levels.LEVELS[level].takes_database == isinstance(workload, Workload):
        return
    bare = ", ".join(name for name, one in levels.LEVELS.items() if not one.takes_database)
    fields = " or ".join(f"`{field}`" for field in BARE_WORKLOADS)
    raise ConfigError(
        f"workload {workload.name} is not for level {level}",
        hint=f"{bare} takes workloads with {fields}, every other level those with phases",
        code="level-and-workload",
    )


def device_of(level: str, inspection: Inspection) -> Device:
    """Return the zoned device, or the conventional device if the level measures that one."""
    bare = levels.LEVELS[level].measures_conventional
    return inspection.conventional if bare and inspection.conventional else inspection.device


def with_factors(study: Study, workload: BareWorkload, factors: Mapping[str, Flag]) -> Any:
    """Return the work of a cell.

    Raises:
        ConfigError: a factor is unknown or out of range.
    """
    known = workload.program.factors
    changes = {name: value for name, value in factors.items() if name not in _STUDY_FACTORS}
    for name in changes:
        if name not in known:
            raise ConfigError(
                f"study {study.name} varies an unknown factor {name!r}",
                hint=nearest(name, (*known, *_STUDY_FACTORS)),
                code="unknown-factor",
            )
    fields = workload.work.model_dump(mode="json") | changes
    return build(type(workload.work), fields, f"study {study.name}, factors {dict(factors)}")


def work(program: LoadProgram, value: Any, device: Device, timeout: int) -> Work:
    """Size the work in a program's field (``value``) for a device.

    Raises:
        ConfigError: the work cannot run on the device.
    """
    planned = program.plan_bare(value, device)
    if isinstance(value, Fio):
        rate_caps.check(value, device)
    rates = RATES[device.kind]
    seconds = [_seconds(phase, rates) for phase in planned.phases]
    limits = [
        # A program that ends itself must not be killed before, however slow the drive is.
        max(math.ceil(TIMEOUT_FACTOR * each), timeout + math.ceil(phase.most_seconds or 0))
        for each, phase in zip(seconds, planned.phases, strict=True)
    ]
    written = sum(phase.written_bytes for phase in planned.phases)
    return Work(
        sizes=planned.numbers,
        cold=ColdSpec(target_utilisation=0.0, tolerance=1.0, bytes=Bytes(0)),
        phases=tuple(
            _spec(program, phase, limit)
            for phase, limit in zip(planned.phases, limits, strict=True)
        ),
        predicted=Prediction(Bytes(written), Bytes(0), round(rates.setup + sum(seconds), 1)),
        timeout_seconds=max(300, math.ceil(TIMEOUT_FACTOR * rates.setup)) + sum(limits),
    )


def _seconds(phase: BarePhase, rates: Rates) -> float:
    seconds = phase.written_bytes / rates.file_bytes_per_second + phase.command_seconds
    seconds += phase.synchronous_writes * rates.read
    return min(seconds, phase.most_seconds or seconds) + rates.phase


def _spec(program: LoadProgram, phase: BarePhase, limit: int) -> PhaseSpec:
    return PhaseSpec(
        name=phase.name,
        benchmark=phase.derived.benchmark,
        role=PhaseRole.MEASURED,
        flags=phase.derived.flags,
        operations=phase.derived.operations,
        user_bytes_per_operation=phase.derived.user_bytes_per_operation,
        expects_gc=False,
        timeout_seconds=limit,
        stall_seconds=phase.stall_seconds,
        program=program.name,
    )
