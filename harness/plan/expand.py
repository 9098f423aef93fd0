"""Plan of a campaign: the cells of a study, repeated in seeded, randomised blocks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness import __version__
from harness.errors import ConfigError
from harness.machine import code
from harness.plan import media
from harness.plan.cells import Cell, cells_of
from harness.plan.host_changes import device_facts, differences
from harness.plan.load import nearest
from harness.plan.study_models import Study
from harness.plan.workload_models import AnyWorkload
from harness.quantities import format_size
from harness.store import checksums
from harness.store.spec import Claim, HostPlan, Inspection, Plan, RunSpec
from harness.workloads import program_of

# Phases of a run use the seeds above the run's own seed; this leaves room for them.
_SEED_STEP = 10_000


def expand(
    study: Study,
    workload: AnyWorkload,
    hosts: Sequence[tuple[str, Inspection]],
    campaign: str,
    rig: str = "",
) -> Plan:
    """Return the plan. The hosts take the blocks in turn.

    With ``rig``, the only host is that rig of the study, and the plan has only its levels.

    Raises:
        ConfigError: a level is unknown, or the study does not fit a host's device.
    """
    plans = []
    study = media.resolved(study)
    study_digest = digest(study, workload, () if rig else hosts)
    rigs = tuple(study.rigs) if rig else ()
    definition = definition_of(study, workload)
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
        plans.append(HostPlan(host, inspection, runs, rig, code.planner()))
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
        definition=definition,
    )


def part_of(study: Study, rig: str) -> Study:
    """Return the study with only the levels of one rig; claims and baseline stay.

    Raises:
        ConfigError: the study does not name this rig.
    """
    if rig not in study.rigs:
        raise ConfigError(
            f"study {study.name} has no levels for rig {rig!r}",
            hint=nearest(rig, study.rigs) if study.rigs else "the study names no rigs: omit --rig",
            code="unknown-rig",
        )
    kept = tuple(entry for entry in study.entries if entry.label in study.rigs[rig])
    return study.model_copy(update={"levels": kept})


def digest(study: Study, workload: AnyWorkload, hosts: Sequence[tuple[str, Inspection]]) -> str:
    """Return the SHA-256 of the resolved study, its workload and the facts of its devices.

    A newer version must compute the same digest for an unchanged study, so that it can continue
    the campaign. Fields therefore keep their first name (the serialization alias), and fields with
    default values are left out. Rigs join a campaign one by one, so ``hosts`` is empty for them;
    each is compared with its host.json instead.
    """
    content = {
        "study": study.model_dump(mode="json", exclude_defaults=True, by_alias=True),
        "workload": workload.model_dump(mode="json", exclude_defaults=True, by_alias=True),
        "devices": {host: device_facts(inspection) for host, inspection in hosts},
    }
    return checksums.of_json(content)


def definition_of(study: Study, workload: AnyWorkload) -> dict[str, Any]:
    """Return study and workload as plain data, for ``Plan.definition``.

    Unlike in ``digest``, fields have the names that the loader reads.
    """
    return {
        "study": study.model_dump(mode="json", exclude_defaults=True),
        "workload": workload.model_dump(mode="json", exclude_defaults=True),
    }


def block_seed(study: Study, repetition: int) -> int:
    """Return the seed that all runs of a block share; each repetition has another one."""
    return study.seed + _SEED_STEP * repetition


def block_order(study: Study, cells: Sequence[str], repetition: int) -> list[str]:
    """Return the order of the cells in a block; it depends only on the study's seed."""
    order = sorted(cells)
    # A seeded generator, so that the same study always gives the same plan.
    random.Random(f"{study.seed}/{repetition}").shuffle(order)  # noqa: S311
    return order


def _run(study: Study, cell: Cell, repetition: int, position: int) -> RunSpec:
    seed, phases = block_seed(study, repetition), cell.template.phases
    return replace(
        cell.template,
        run=f"{cell.name}--r{repetition:02d}",
        repetition=repetition,
        block=repetition,
        position=position,
        seed=seed,
        phases=program_of(phases[0]).ordered(phases, seed) if phases else phases,
    )


def _check_limits(study: Study, runs: Sequence[RunSpec]) -> None:
    written = sum(run.predicted.bytes_written for run in runs)
    seconds = sum(run.predicted.seconds for run in runs)
    if study.limit_bytes is not None and written > study.limit_bytes:
        raise ConfigError(
            f"{len(runs)} runs would write {format_size(written)}, the study allows "
            f"{format_size(study.limit_bytes)}",
            hint="use fewer --repetitions or --levels, or raise the limit: --set limit_bytes=SIZE",
            code="too-many-bytes",
        )
    if study.limit_time is not None and seconds > study.limit_time:
        raise ConfigError(
            f"{len(runs)} runs would take {seconds:.0f} s, the study allows {study.limit_time} s",
            hint="use fewer --repetitions or --levels, or raise the limit: --set limit_time=TIME",
            code="too-much-time",
        )
