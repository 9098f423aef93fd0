"""Cells of a study: levels x factors, sized for the device of a host."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import ConfigError
from harness.levels import LEVELS
from harness.plan import bare, devices, media, tenant_runs
from harness.plan.bare import Work
from harness.plan.derive import DOES_NOT_FIT, Derived, check_fits, measure
from harness.plan.factors import apply_factors, with_options
from harness.plan.fields import Flag
from harness.plan.level_entry import LevelEntry
from harness.plan.load import nearest
from harness.plan.phases import phase_spec
from harness.plan.predict import predict
from harness.plan.requirements import (
    check_level,
    check_memory,
    check_options,
    check_room,
    choose_scheduler,
    is_available,
)
from harness.plan.study_models import Study
from harness.plan.workload_models import AnyWorkload, BareWorkload, Workload
from harness.store.spec import (
    TRADES_ROOM,
    TWIN,
    Bytes,
    ColdSpec,
    Device,
    Inspection,
    Reason,
    RunSpec,
    TracingMode,
)
from harness.workloads.planning import DerivedNumbers

# The folder of a run adds repetition and attempt to the cell; store.campaign.NAME allows 200.
_LONGEST_CELL = 180


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell, sized for the device of one host; its runs are repetitions of the template."""

    derived: DerivedNumbers
    template: RunSpec

    @property
    def name(self) -> str:
        """The slug of level and factors."""
        return self.template.cell


def cell_name(level: str, factors: Mapping[str, Flag]) -> str:
    """Return a cell's slug: the level, then ``_factor-value`` for each factor."""
    parts = [level, *(f"{name}-{value}" for name, value in factors.items())]
    return re.sub(r"[^a-z0-9._-]+", "-", "_".join(parts).lower())


def cells_of(
    study: Study, workload: AnyWorkload, inspection: Inspection, campaign: str
) -> list[Cell]:
    """Return the cells for one host, sized for its device, in the study's order.

    Raises:
        ConfigError: a level or factor is unknown, or a cell does not fit the device.
    """
    plain = _tenant_cells if study.mix is not None else _level_cells
    cells = plain(study, workload, inspection, campaign)
    if study.twin:
        cells += _twin(study, cells, inspection)
    if len({cell.name for cell in cells}) != len(cells):
        raise ConfigError("two cells have the same name", hint="factor values must differ")
    longest = max((cell.name for cell in cells), key=len)
    if len(longest) > _LONGEST_CELL:
        raise ConfigError(
            f"the cell name {longest[:40]}… is too long for a folder", hint="use fewer factors"
        )
    return cells


def _twin(study: Study, cells: Sequence[Cell], inspection: Inspection) -> list[Cell]:
    """Return a copy of the baseline's first cell that can run; empty if none can run."""
    for cell in cells:
        template = cell.template
        value = template.factors.get(study.contrast, template.row)
        if (
            str(value) == study.baseline
            and template.infeasible is None
            and (study.mix is not None or is_available(template.level, inspection))
        ):
            own = template.variant
            twin = replace(template, variant=f"{own}-{TWIN}" if own else TWIN)
            name = cell_name(twin.row, twin.factors)
            return [replace(cell, template=replace(twin, cell=name))]
    return []


def _level_cells(
    study: Study, workload: AnyWorkload, inspection: Inspection, campaign: str
) -> list[Cell]:
    """Return the cells of levels and factors."""
    devices.check(study, inspection)
    known = [probe.level for probe in inspection.levels]
    cells = []
    for level in study.entries:
        if level.name not in LEVELS:
            raise ConfigError(
                f"there is no level {level.name!r}",
                hint=nearest(level.name, LEVELS),
                code="unknown-level",
            )
        if level.name not in known:
            raise ConfigError(
                f"the inspection of {inspection.host.name} is older than level {level.name}",
                hint="inspect the device again: zonelab inspect DEVICE --format json",
                code="old-inspection",
            )
        bare.check_level(level.name, workload)
        for own, placed in devices.side_by_side(level, inspection):
            for values in itertools.product(*study.factors.values()):
                factors = dict(zip(study.factors, values, strict=True))
                cells.append(_cell(study, workload, placed, campaign, level=own, factors=factors))
    return cells


def _tenant_cells(
    study: Study, workload: AnyWorkload, inspection: Inspection, campaign: str
) -> list[Cell]:
    """Return each tenant alone and all tenants together, with the sizes of the first tenant."""
    cells = []
    for value, (run, tenants) in tenant_runs.runs_of(study, workload, inspection, campaign).items():
        template = replace(run, cell=cell_name(run.level, {"mix": value}))
        cells.append(Cell(tenants[0].derived.numbers, template))
    return cells


def _cell(
    study: Study,
    workload: AnyWorkload,
    inspection: Inspection,
    campaign: str,
    *,
    level: LevelEntry,
    factors: dict[str, Flag],
) -> Cell:
    placed = devices.place(inspection, factors)
    level = with_options(level, factors)
    # A level that this host cannot run is skipped. It is not checked against the device.
    able = is_available(level.name, placed)
    if able:
        check_level(level.name, placed.device)
    check_options(level)
    runnable = level if able else None
    under_test = bare.device_of(level.name, placed)
    work = _work(study, workload, inspection, under_test, factors, level=runnable)
    wanted = factors.get("scheduler")
    scheduler = choose_scheduler(
        level.name if able else None,
        None if wanted is None else str(wanted),
        placed,
        work.phases if isinstance(workload, BareWorkload) else (),
    )
    predicted = work.predicted
    if not able or work.infeasible is not None:
        predicted = replace(predicted, bytes_written=Bytes(0), seconds=0.0)
    template = RunSpec(
        campaign=campaign,
        study=study.name,
        run="",
        cell=cell_name(level.label, factors),
        level=level.name,
        factors=factors,
        level_options=level.options,
        repetition=0,
        attempt=1,
        block=0,
        position=0,
        seed=0,
        device=placed.device,
        conventional=placed.conventional,
        scheduler=scheduler,
        cold=work.cold,
        phases=work.phases,
        predicted=predicted,
        timeout_seconds=work.timeout_seconds,
        variant=level.variant or "",
        tracing=TracingMode(study.tracing),
        memory_limit=None if study.memory_limit is None else Bytes(study.memory_limit),
        infeasible=work.infeasible,
        media_model=media.model_of(study, level.name, placed.conventional),
    )
    if able:
        check_memory(study.memory_limit, inspection.host, template)
    return Cell(work.sizes, template)


def _work(
    study: Study,
    workload: AnyWorkload,
    inspection: Inspection,
    device: Device,
    factors: dict[str, Flag],
    *,
    level: LevelEntry | None,
) -> Work:
    """Return the work of a cell on its device; ``level`` is null for a skipped level."""
    if isinstance(workload, BareWorkload):
        work = bare.with_factors(study, workload, factors)
        return bare.work(workload.program, work, device, workload.timeout)
    sized, target = apply_factors(study, workload, factors)
    sized = devices.same_files(study, sized, inspection)
    derived = measure(sized, device, target, cold=study.cold)
    infeasible = _infeasible(study, sized, derived, device, level=level.name if level else None)
    specs = tuple(phase_spec(sized, phase, derived) for phase in sized.phases)
    prepared = LEVELS[level.name].prepares(device, level.options) if level else Bytes(0)
    predicted, phases, timeout = predict(sized, derived, specs, device.kind, prepared)
    # Where utilisation is not the question, a run goes on: the peak is an upper bound.
    asked = "target_utilisation" in study.factors
    peak_bytes = Bytes(derived.cold_bytes + derived.peak_bytes if asked else 0)
    cold = ColdSpec(target, study.tolerance, Bytes(derived.cold_bytes), peak_bytes)
    return Work(derived.numbers, cold, phases, predicted, timeout, infeasible)


def _infeasible(
    study: Study, workload: Workload, derived: Derived, device: Device, *, level: str | None
) -> Reason | None:
    """Return why a cell cannot hold the data, if a factor of the study changes its room.

    Raises:
        ConfigError: the data does not fit, and no factor of the study changes the room.
    """
    try:
        check_fits(workload, device, derived)
        if level is not None:
            check_room(level, device, derived)
    except ConfigError as error:
        if error.code != DOES_NOT_FIT or not TRADES_ROOM & study.factors.keys():
            raise
        return Reason("infeasible", error.message, error.hint)
    return None
