"""From a study to runs: levels x factors x repetitions, in seeded randomised blocks."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness import __version__
from harness.errors import ConfigError
from harness.plan import devices, probe, tenants
from harness.plan.derive import DOES_NOT_FIT, Derived, check_fits, cold_spec, measure, phase_spec
from harness.plan.facts import device_facts
from harness.plan.hosts import differences
from harness.plan.load import build, nearest
from harness.plan.models import OPTION, Flag, Level, Study, Workload
from harness.plan.predict import predict
from harness.plan.probe import ProbeSizes, Work
from harness.plan.probe_models import AnyWorkload, ProbeWorkload
from harness.plan.requirements import (
    check_level,
    check_memory,
    check_options,
    check_room,
    choose_scheduler,
)
from harness.plan.units import format_size, parse_share
from harness.store.spec import (
    TRADES_ROOM,
    Bytes,
    Claim,
    Device,
    HostPlan,
    Inspection,
    LevelProbe,
    Plan,
    Prediction,
    Reason,
    RunSpec,
    Tracing,
)

# A run's folder adds its repetition and attempt to the cell; store.campaign.NAME allows 200.
_LONGEST_CELL = 180

# Phases of a run use seeds above the run's own; this leaves room for them.
_SEED_STEP = 10_000

# The finish threshold as papers state it: an option that levels share under this name.
FINISH = "finish_occupancy_pct"

# Fields of a workload that a factor may vary, besides the flags.
_WORKLOAD_FACTORS = frozenset({"key_size", "value_size", "database_share", "compaction_debt"})
_STUDY_FACTORS = frozenset({"scheduler", "target_utilisation", devices.ZONE_SIZE, FINISH})
_SIZE_FLAGS = frozenset({"target_file_size_base", "write_buffer_size", "max_bytes_for_level_base"})


@dataclass(frozen=True, slots=True)
class Cell:
    """A point of the matrix, sized for one host's device."""

    name: str
    level: Level
    factors: dict[str, Flag]
    scheduler: str
    derived: Derived | ProbeSizes
    template: RunSpec


def block_seed(study: Study, repetition: int) -> int:
    """Return the seed all runs of a block share; it differs between repetitions."""
    return study.seed + _SEED_STEP * repetition


def block_order(study: Study, cells: Sequence[str], repetition: int) -> list[str]:
    """Return the cells of a block in their order; depends on the study's seed and nothing else."""
    order = sorted(cells)
    # Not cryptography: the same plan must come out of the same study.
    random.Random(f"{study.seed}/{repetition}").shuffle(order)  # noqa: S311
    return order


def cell_name(level: str, factors: dict[str, Flag]) -> str:
    """Return a cell's slug: the level, then ``_factor-value`` for each factor."""
    parts = [level, *(f"{name}-{value}" for name, value in factors.items())]
    return re.sub(r"[^a-z0-9._-]+", "-", "_".join(parts).lower())


def expand(
    study: Study,
    workload: AnyWorkload,
    hosts: Sequence[tuple[str, Inspection]],
    campaign: str,
    rig: str = "",
) -> Plan:
    """Return the whole plan. Block *r* runs on host *r* modulo the number of hosts.

    With ``rig``, the only host is that rig of the study: the plan has its levels and no others.

    Raises:
        ConfigError: a level is unknown or the study cannot fit a host's device.
    """
    plans = []
    study_digest = digest(study, workload, () if rig else hosts)
    rigs = tuple(study.rigs) if rig else ()
    if rig:
        study = part_of(study, rig)
    for index, (host, inspection) in enumerate(hosts):
        cells = {cell.name: cell for cell in cells_of(study, workload, inspection, campaign)}
        blocks = range(index + 1, study.repetitions + 1, len(hosts))
        runs = tuple(
            _run(study, cells[name], repetition, position)
            for repetition in blocks
            for position, name in enumerate(block_order(study, list(cells), repetition), start=1)
        )
        plans.append(HostPlan(host, inspection, runs, rig))
    _check_limits(study, [run for plan in plans for run in plan.runs])
    return Plan(
        campaign=campaign,
        study=study.name,
        question=study.question,
        study_digest=study_digest,
        baseline=study.baseline,
        contrast=study.contrast,
        claims=tuple(Claim(**claim.model_dump()) for claim in study.claims),
        metrics=study.metrics,
        hosts=tuple(plans),
        zonelab_version=__version__,
        rigs=rigs,
        hosts_differ=differences(hosts),
    )


def part_of(study: Study, rig: str) -> Study:
    """Return the study with the levels that one of its rigs runs; claims and baseline stay.

    Raises:
        ConfigError: the study names no such rig.
    """
    if rig not in study.rigs:
        raise ConfigError(
            f"study {study.name} has no part for rig {rig!r}",
            hint=nearest(rig, study.rigs) if study.rigs else "it names no rigs: leave --rig out",
            code="unknown-rig",
        )
    kept = tuple(entry for entry in study.entries if entry.label in study.rigs[rig])
    return study.model_copy(update={"levels": kept})


def digest(study: Study, workload: AnyWorkload, hosts: Sequence[tuple[str, Inspection]]) -> str:
    """Return the SHA-256 of the resolved study, its workload and the devices' lasting facts.

    Rigs join a campaign one by one: theirs are left out, each is held against its host.json.
    Defaults are left out too, so that a field which is new here ends no campaign under way.
    """
    content = {
        "study": study.model_dump(mode="json", exclude_defaults=True),
        "workload": workload.model_dump(mode="json", exclude_defaults=True),
        "devices": {host: device_facts(inspection) for host, inspection in hosts},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def cells_of(
    study: Study, workload: AnyWorkload, inspection: Inspection, campaign: str
) -> list[Cell]:
    """Return the matrix for one host, sized for its device, in the study's order.

    Raises:
        ConfigError: a level or factor is unknown, or a cell cannot fit.
    """
    if study.mix is not None:
        return _tenant_cells(study, workload, inspection, campaign)
    devices.check(study, inspection)
    known = {probe.level: probe for probe in inspection.levels}
    cells = []
    for level in study.entries:
        if level.name not in known:
            raise ConfigError(
                f"there is no level {level.name!r}", hint=nearest(level.name, known),
                code="unknown-level",
            )  # fmt: skip
        probe.check_level(level.name, workload)
        for values in itertools.product(*study.factors.values()):
            factors = dict(zip(study.factors, values, strict=True))
            placed = devices.place(inspection, factors)
            able = _probe(level.name, placed).available
            if able:  # else it becomes a skipped row, whatever the geometry
                check_level(level.name, placed.device)
            cell = _cell(study, workload, inspection, campaign, level=level, factors=factors)
            if able:
                check_memory(study.memory_limit, inspection.host, cell.template)
            cells.append(cell)
    if len({cell.name for cell in cells}) != len(cells):
        raise ConfigError("two cells have the same name", hint="factor values must differ")
    longest = max((cell.name for cell in cells), key=len)
    if len(longest) > _LONGEST_CELL:
        raise ConfigError(
            f"the cell name {longest[:40]}… is too long for a folder", hint="use fewer factors"
        )
    return cells


def _tenant_cells(
    study: Study, workload: AnyWorkload, inspection: Inspection, campaign: str
) -> list[Cell]:
    """Return each tenant alone and all together; the numbers shown are of a cell's first tenant."""
    cells = []
    for value, (run, planned) in tenants.runs_of(study, workload, inspection, campaign).items():
        name = cell_name(run.level, {"mix": value})
        template = replace(run, cell=name)
        level = Level(name=run.level)
        derived = planned[0].derived
        cells.append(Cell(name, level, {"mix": value}, run.scheduler, derived, template))
    return cells


def apply_factors(
    study: Study, workload: Workload, factors: dict[str, Flag]
) -> tuple[Workload, float, str | None]:
    """Return the workload, target utilisation and scheduler of a cell.

    Raises:
        ConfigError: a factor is neither the study's, the workload's, nor a flag, or out of range.
    """
    changes = workload.model_dump(mode="json", exclude_defaults=True)
    known = _WORKLOAD_FACTORS | _STUDY_FACTORS | _SIZE_FLAGS | set(workload.flags)
    for name, value in factors.items():
        if name not in known and OPTION not in name:
            raise ConfigError(
                f"study {study.name} varies an unknown factor {name!r}",
                hint=nearest(name, known), code="unknown-factor",
            )  # fmt: skip
        if name in _WORKLOAD_FACTORS:
            changes[name] = value
        elif name not in _STUDY_FACTORS and OPTION not in name:
            changes["flags"][name] = value
    target = parse_share(factors.get("target_utilisation", study.target_utilisation))
    if not 0 < target <= 1:
        raise ConfigError(
            f"target_utilisation {target:g} is not a share",
            hint="write 80% or 0.8",
            code="bad-field",
        )
    scheduler = factors.get("scheduler")
    changed = build(Workload, changes, f"study {study.name}, factors {factors}")
    return changed, target, None if scheduler is None else str(scheduler)


def _cell(
    study: Study, workload: AnyWorkload, whole: Inspection, campaign: str, *,
    level: Level, factors: dict[str, Flag],
) -> Cell:  # fmt: skip
    inspection = devices.place(whole, factors)
    device = inspection.device
    level = _with_options(level, factors)
    check_options(level)
    # A level that is skipped anyway refuses nothing.
    able = _probe(level.name, inspection).available
    done, wanted = _work(
        study, workload, whole, device, factors, level=level.name if able else None
    )
    scheduler = choose_scheduler(level.name if able else None, wanted, inspection)
    name = cell_name(level.label, factors)
    template = RunSpec(
        campaign=campaign,
        study=study.name,
        run="",
        cell=name,
        level=level.name,
        factors=factors,
        level_options=level.options,
        repetition=0,
        attempt=1,
        block=0,
        position=0,
        seed=0,
        device=device,
        conventional=inspection.conventional,
        scheduler=scheduler,
        cold=done.cold,
        phases=done.phases,
        predicted=done.predicted if able and done.infeasible is None else _free(done.predicted),
        timeout_seconds=done.timeout_seconds,
        variant=level.variant or "",
        tracing=Tracing(study.tracing),
        memory_limit=None if study.memory_limit is None else Bytes(study.memory_limit),
        infeasible=done.infeasible,
    )
    return Cell(name, level, factors, scheduler, done.sizes, template)


def _work(
    study: Study, workload: AnyWorkload, whole: Inspection, device: Device,
    factors: dict[str, Flag], *, level: str | None,
) -> tuple[Work, str | None]:  # fmt: skip
    """Return what a cell does on its device, and the scheduler that it wants.

    ``level`` is null for one that is skipped.
    """
    if isinstance(workload, ProbeWorkload):
        scheduler = factors.get("scheduler")
        zones = probe.with_factors(study, workload, factors)
        work = probe.work(zones, device, workload.timeout)
        return work, None if scheduler is None else str(scheduler)
    sized, target, wanted = apply_factors(study, workload, factors)
    sized = devices.same_files(study, sized, whole)
    derived = measure(sized, device, target, cold=study.cold)
    infeasible = _infeasible(study, sized, derived, device, level=level)
    specs = tuple(phase_spec(sized, phase, derived) for phase in sized.phases)
    predicted, phases, timeout = predict(sized, derived, specs, device.kind)
    cold = cold_spec(derived, target, study.tolerance)
    return Work(derived, cold, phases, predicted, timeout, infeasible), wanted


def _with_options(level: Level, factors: dict[str, Flag]) -> Level:
    """Return the level with the options that factors ``<level>.<option>`` and FINISH set."""
    options = {n.partition(OPTION)[2]: value for n, value in factors.items() if OPTION in n}
    if FINISH in factors:
        options[FINISH] = _occupancy(factors[FINISH])
    return level.model_copy(update={"options": {**level.options, **options}})


def _occupancy(value: Flag) -> int:
    """Return a finish threshold: the share of a zone, in %, from which on it is finished.

    Raises:
        ConfigError: it is no whole number from 0 to 100.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:  # noqa: PLR2004
        raise ConfigError(
            f"{FINISH} {value!r} is no whole number from 0 to 100",
            hint="finish_remaining_pct of ZenFS is 100 less it",
            code="bad-field",
        )
    return value


def _infeasible(
    study: Study, workload: Workload, derived: Derived, device: Device, *, level: str | None
) -> Reason | None:
    """Return why a cell cannot hold the data, where that is an answer to the study's question.

    ``level`` is null for one that is skipped anyway: it refuses nothing.

    Raises:
        ConfigError: it cannot, and the study is not about that.
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


def _free(predicted: Prediction) -> Prediction:
    return replace(predicted, bytes_written=type(predicted.bytes_written)(0), seconds=0.0)


def _probe(level: str, inspection: Inspection) -> LevelProbe:
    return next(probe for probe in inspection.levels if probe.level == level)


def _run(study: Study, cell: Cell, repetition: int, position: int) -> RunSpec:
    return replace(
        cell.template,
        run=f"{cell.name}--r{repetition:02d}",
        repetition=repetition,
        block=repetition,
        position=position,
        seed=block_seed(study, repetition),
    )


def _check_limits(study: Study, runs: Sequence[RunSpec]) -> None:
    written = sum(run.predicted.bytes_written for run in runs)
    seconds = sum(run.predicted.seconds for run in runs)
    if study.limit_bytes is not None and written > study.limit_bytes:
        raise ConfigError(
            f"{len(runs)} runs would write {format_size(written)}, the study allows "
            f"{format_size(study.limit_bytes)}",
            hint="fewer --repetitions or --levels, or raise it: --set limit_bytes=SIZE",
            code="too-many-bytes",
        )
    if study.limit_time is not None and seconds > study.limit_time:
        raise ConfigError(
            f"{len(runs)} runs would take {seconds:.0f} s, the study allows {study.limit_time} s",
            hint="fewer --repetitions or --levels, or raise it: --set limit_time=TIME",
            code="too-much-time",
        )
