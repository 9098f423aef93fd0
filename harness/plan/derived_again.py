"""Derive a stored plan again from the study inside it, for ``zonelab verify``.

This finds a changed seed, flag, claim or baseline, and a removed run. Another release can derive
other sizes from the same study, so these differences are only notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.errors import ConfigError
from harness.machine import code
from harness.plan.expand import definition_of, digest, expand
from harness.plan.host_changes import host_digest
from harness.plan.load import build
from harness.plan.study_models import Study
from harness.plan.workload_models import AnyWorkload, model_of
from harness.store.campaign import CampaignPaths, load_campaign, load_plan
from harness.store.differences import differences
from harness.store.spec import HostPlan, Plan, RunSpec

# Fields of a plan that the study alone decides.
_OF_STUDY = ("study", "question", "study_digest", "baseline", "contrast", "claims", "metrics")
# Fields of a run that are the same in every release.
_IDENTITY = ("cell", "level", "factors", "level_options", "repetition", "block", "position", "seed")


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per difference between a plan and the study in it, and per wrong digest."""
    plan = load_plan(paths.plan)
    return [*_digest(paths, plan), *of_plan(plan)]


def of_plan(plan: Plan) -> list[str]:
    """Return one line per difference between a plan and the study in it; [] without a study."""
    if plan.definition is None:
        return []
    try:
        return [*_problems(plan, *_models(plan.definition))]
    except ConfigError as error:
        return [f"plan.json: definition: the study cannot be planned again: {error.message}"]


def _digest(paths: CampaignPaths, plan: Plan) -> Iterator[str]:
    digest = host_digest([(host.host, host.inspection) for host in plan.hosts])
    try:
        stored = load_campaign(paths.record).host_digest
    except ConfigError:
        return  # the overview reports it
    yield from differences(
        "campaign.json: host_digest", stored, digest, source="the hosts of plan.json give"
    )


def notes(plan: Plan) -> list[str]:
    """Return what ``problems`` could not check."""
    if plan.definition is None:
        return ["plan.json holds no study: claims, baseline, seeds and runs are not derived again"]
    if all(map(_same_code, plan.hosts)):
        return []
    try:
        return [*_of_other_code(plan)]
    except ConfigError:
        return []  # a problem


def _of_other_code(plan: Plan) -> Iterator[str]:
    assert plan.definition is not None  # noqa: S101 - the caller looked
    for stored, derived in _hosts(plan, _expanded(plan, *_models(plan.definition))):
        if not _same_code(stored):
            lines = [line for run in _pairs(stored, derived) for line in differences(*run)]
            if lines:
                yield (
                    f"{stored.host} was planned by other code (zonelab {plan.zonelab_version}): "
                    f"{len(lines)} derived values differ. The first: {lines[0]}"
                )


def _same_code(host: HostPlan) -> bool:
    """Whether this code planned the runs of a host."""
    return host.source == code.planner()


def study_digest(plan: Plan) -> str | None:
    """Return the digest of the study inside a plan and its devices; null without a study."""
    if plan.definition is None:
        return None
    study, workload = _models(plan.definition)
    hosts = [(host.host, host.inspection) for host in plan.hosts]
    return digest(study, workload, () if plan.rigs else hosts)


def _models(definition: Any) -> tuple[Study, AnyWorkload]:
    """Return the study and workload of a plan.

    Raises:
        ConfigError: a field is missing, unknown or wrong.
    """
    parts = {name: definition.get(name) for name in ("study", "workload")}
    for name, part in parts.items():
        if not isinstance(part, dict):
            raise ConfigError(f"it has no {name}", hint="restore plan.json from a copy")
    study = build(Study, parts["study"], "definition.study")
    return study, build(model_of(parts["workload"]), parts["workload"], "definition.workload")


def _problems(plan: Plan, study: Study, workload: AnyWorkload) -> Iterator[str]:
    if definition_of(study, workload) != plan.definition:
        yield "plan.json: definition: is not in the form that the planner writes"
    parts = _expanded(plan, study, workload)
    if not parts:
        return
    for name in (*_OF_STUDY, "rigs"):
        yield from differences(f"plan.json: {name}", getattr(plan, name), getattr(parts[0], name))
    for stored, derived in _hosts(plan, parts):
        yield from _host(stored, derived, same_code=_same_code(stored))


def _expanded(plan: Plan, study: Study, workload: AnyWorkload) -> list[Plan]:
    """Return the plans that the study gives: one for each rig, or one for all hosts."""
    hosts = [(host.host, host.inspection) for host in plan.hosts]
    if not plan.rigs:
        return [expand(study, workload, hosts, plan.campaign)]
    return [
        expand(study, workload, [(host.host, host.inspection)], plan.campaign, host.rig)
        for host in plan.hosts
    ]


def _hosts(plan: Plan, parts: Sequence[Plan]) -> Iterator[tuple[HostPlan, HostPlan]]:
    again = [host for part in parts for host in part.hosts]
    return zip(plan.hosts, again, strict=True)


def _host(stored: HostPlan, derived: HostPlan, *, same_code: bool) -> Iterator[str]:
    where = f"plan.json: {stored.host}"
    names = [run.run for run in stored.runs]
    wanted = [run.run for run in derived.runs]
    yield from (
        f"{where}: {name}: the study has this run, the plan does not"
        for name in _without(wanted, names)
    )
    yield from (f"{where}: {name}: the study has no such run" for name in _without(names, wanted))
    if sorted(names) == sorted(wanted) and names != wanted:
        yield f"{where}: the order of its runs is not the order that the study gives"
    for run, one, other in _pairs(stored, derived):
        if same_code:
            yield from differences(run, one, other)
            continue
        for name in _IDENTITY:
            yield from differences(f"{run}: {name}", getattr(one, name), getattr(other, name))


def _pairs(stored: HostPlan, derived: HostPlan) -> Iterator[tuple[str, RunSpec, RunSpec]]:
    """Yield the runs that both plans have, each with its place in plan.json."""
    runs = {run.run: run for run in derived.runs}
    for run in stored.runs:
        if run.run in runs:
            yield f"plan.json: {stored.host}: {run.run}", run, runs[run.run]


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    return sorted(set(names) - set(others))
