"""Compares the records of a campaign: plan.json, host.json, run.json, result.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.errors import ZonelabError
from harness.observe.sysfs import kind_of
from harness.run.phase import seed
from harness.run.tenant import phases_of, tenants_of
from harness.store import rundir
from harness.store.campaign import CampaignPaths, load_campaign, load_inspection, load_plan
from harness.store.differences import differences
from harness.store.files import read_json
from harness.store.result import COPIED, PhaseResult, Result, Status
from harness.store.spec import Device, HostPlan, Inspection, PhaseSpec, RunSpec
from harness.workloads import program_of

# The runner finds devices by identity: names and schedulers can differ from the plan.
_FOUND = ("path", "scheduler", "schedulers")
# Fields of a run that the runner sets itself.
_OWN = ("run", "attempt", "conventional", "schema_version")
# Not the processors: the runner can be restricted to one NUMA node.
_MANIFEST = ("kernel", "os")
# Times in the campaign's records are whole seconds.
_SECONDS = 2.0


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per contradiction between the records of a campaign."""
    plan = load_plan(paths.plan)
    lines: list[str] = []
    try:
        record = load_campaign(paths.record)
        names = ("campaign", "study", "zonelab_version")
        lines += _fields("campaign.json", record, plan, names, source="plan.json has")
    except ZonelabError:
        pass  # the overview of the campaign reports it
    for host in plan.hosts:
        lines += [f"{host.host}: {line}" for line in _host(paths, host)]
    return lines


def _host(paths: CampaignPaths, host: HostPlan) -> Iterator[str]:
    try:
        stored = load_inspection(paths.host(host.host) / "host.json")
        yield from differences("host.json", stored, host.inspection, source="plan.json has")
    except ZonelabError:
        pass
    conventional = [host.inspection.conventional] if host.inspection.conventional else []
    for device in (*host.inspection.devices, *conventional):
        yield from _kind("plan.json", device)
    planned = {run.run: run for run in host.runs}
    yield from _attempts(paths, host)
    for folder in rundir.completed(paths.runs(host.host)):
        try:
            result, spec = rundir.load_result(folder), rundir.load_spec(folder)
            base = rundir.split_attempt(folder.name)[0]
        except ZonelabError:
            continue
        lines = [*of_run(folder, spec, result)]
        if base in planned:
            lines += of_plan(spec, planned[base])
        if result.status is not Status.SKIPPED:
            lines += _manifest(result, spec, host.inspection)
        yield from (f"{folder.name}: {line}" for line in lines)


def _attempts(paths: CampaignPaths, host: HostPlan) -> Iterator[str]:
    """Check that no attempt of a run is missing before a later one."""
    attempts: dict[str, set[str]] = {}
    for folder in rundir.completed(paths.runs(host.host)):
        try:
            attempts.setdefault(rundir.split_attempt(folder.name)[0], set()).add(folder.name)
        except ZonelabError:
            continue  # the overview reports the name
    for run in host.runs:
        there = attempts.get(run.run, set())
        for number in range(1, len(there) + 1):
            name = rundir.attempt_name(run.run, number)
            if name not in there:
                yield f"{name}: is missing, a later attempt is there"


def _kind(where: str, device: Device) -> Iterator[str]:
    """Check the kind of a device, which follows from its name and model."""
    wanted = kind_of(device.name, device.model)
    if device.kind.ran and device.kind is not wanted:
        yield (
            f"{where}: device.kind: {device.path} has {device.kind.value}, "
            f"its model {device.model!r} means {wanted.value}"
        )


def of_plan(spec: RunSpec, planned: RunSpec) -> Iterator[str]:
    """Yield one line per field of run.json that is not as planned."""
    own = {name: getattr(planned, name) for name in _OWN}
    yield from differences(
        "run.json", replace(spec, **own), planned, source="plan.json has", without=_FOUND
    )
    # The plan sets the run's scheduler. A device's record has the scheduler before the run.
    yield from _fields("run.json", spec, planned, ["scheduler"], source="plan.json has")
    if spec.conventional is not None:
        yield from differences(
            "run.json: conventional",
            spec.conventional,
            planned.conventional,
            source="plan.json has",
            without=_FOUND,
        )


def _fields(
    where: str, stored: object, wanted: object, names: Iterable[str], *, source: str
) -> Iterator[str]:
    """Compare fields that two records have in common."""
    yield from _values(
        where, stored, {name: getattr(wanted, name) for name in names}, source=source
    )


def _values(
    where: str, stored: object, wanted: Mapping[str, Any], *, source: str = "run.json has"
) -> Iterator[str]:
    """Compare fields of a record with the values that another file gives."""
    for name, value in wanted.items():
        yield from differences(f"{where}: {name}", getattr(stored, name), value, source=source)


def of_run(folder: Path, spec: RunSpec, result: Result) -> Iterator[str]:
    """Yield one line per contradiction between run.json, result.json and raw/."""
    yield from _fields("result.json", result, spec, COPIED, source="run.json has")
    for device in spec.devices:
        yield from _kind("run.json", device)
    if not result.device.kind.ran:
        return
    yield from _phases(folder, spec, result)
    yield from _utilisation(spec, result)


def _phases(folder: Path, spec: RunSpec, result: Result) -> Iterator[str]:
    planned = {phase.name: phase for phase in spec.phases}
    seeds = {
        phase.name: seed(spec.seed + tenant.seed, phases_of(tenant, spec.phases), phase)
        for tenant in tenants_of(spec)
        for phase in phases_of(tenant, spec.phases)
    }
    spent, slower = 0.0, {device.dilation for device in spec.devices}
    for phase in result.phases:
        where = f"result.json: phases: {phase.name}"
        if phase.name not in planned:
            yield f"{where}: run.json has no such phase"
            continue
        yield from _phase(where, phase, planned[phase.name], seeds[phase.name], slower)
        yield from _process(where, phase, folder / "raw" / f"{phase.name}.process.json")
        spent += phase.seconds
    if not spec.tenants and spent > result.seconds + _SECONDS:
        yield f"result.json: seconds: has {result.seconds}, its phases took {spent:.3f}"
    yield from _times(result)
    names = [phase.name for phase in result.phases]
    if not spec.tenants and names != [phase.name for phase in spec.phases][: len(names)]:
        yield f"result.json: phases: has {', '.join(names)}, which is not the order of run.json"


def _times(result: Result) -> Iterator[str]:
    """Check that start and finish agree with the duration, which comes from another clock."""
    if any(issue.code == "clock-jump" for issue in result.issues):
        return
    try:
        begun, ended = (datetime.fromisoformat(t) for t in (result.started, result.finished))
        took = (ended - begun).total_seconds()
    except (ValueError, TypeError):
        yield f"result.json: started: {result.started!r} or finished is not a time"
        return
    if abs(took - result.seconds) > _SECONDS + 1:
        yield f"result.json: seconds: has {result.seconds}, started and finished give {took:.0f}"


def _phase(
    where: str, phase: PhaseResult, spec: PhaseSpec, seed_: int, dilations: Set[int]
) -> Iterator[str]:
    """Compare a phase with its plan. Rates are divided by the dilation of the level's device."""
    wanted = {"benchmark": spec.benchmark, "role": spec.role.value}
    yield from _values(where, phase, wanted | {"operations_requested": spec.operations})
    program = program_of(spec)
    used = program.given(phase.argv)
    planned = {**spec.flags, program.seed_flag: seed_}
    every = [planned | program.slowed(planned, factor) for factor in dilations]
    for name in planned:
        arguments = [program.flag(name, flags[name]) for flags in every]
        if used.get(name) not in arguments:
            yield f"{where}: argv: has {used.get(name)}, run.json gives {' or '.join(arguments)}"


def _process(where: str, phase: PhaseResult, file: Path) -> Iterator[str]:
    try:
        process = read_json(file)
    except ZonelabError:
        return  # reading the barrier reports it
    if not isinstance(process, Mapping):
        yield f"raw/{file.name} is not a JSON object"
        return
    wanted = {name: process.get(name) for name in ("exit_code", "signal")}
    seconds = process.get("seconds")
    if isinstance(seconds, (int, float)):
        wanted["seconds"] = round(seconds, 3)
    yield from _values(where, phase, wanted, source=f"raw/{file.name} has")


def _utilisation(spec: RunSpec, result: Result) -> Iterator[str]:
    if result.utilisation is not None and spec.cold is not None:
        used = {"target": result.utilisation.target, "tolerance": result.utilisation.tolerance}
        wanted = {"target": spec.cold.target_utilisation, "tolerance": spec.cold.tolerance}
        yield from differences(
            "result.json", {"utilisation": used}, {"utilisation": wanted}, source="run.json has"
        )


def _manifest(result: Result, spec: RunSpec, inspection: Inspection) -> Iterator[str]:
    """Check that the run's host is the planned one, with the same devices."""
    host = result.manifest.get("host")
    if not isinstance(host, Mapping):
        return
    for name in _MANIFEST:
        if host.get(name) is not None:
            where, wanted = f"result.json: manifest.host.{name}", getattr(inspection.host, name)
            yield from differences(where, host[name], wanted, source="host.json has")
    devices = {device.identity.key: device for device in spec.devices}
    for record in host.get("devices") or ():
        device = devices.get(record.get("key"))
        if device is None:
            yield f"result.json: manifest.host.devices: {record.get('key')}: is not in run.json"
            continue
        for name in ("kind", "model", "size", "zoned", "zone_size", "zone_capacity", "zones"):
            where = f"result.json: manifest.host.devices: {record['key']}: {name}"
            wanted = getattr(device, name)
            yield from differences(where, record.get(name), wanted, source="run.json has")
