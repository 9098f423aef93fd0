"""The run to replay: its plan, its rig, and why it cannot be replayed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, UsageError
from harness.observe.zoneblk import Served
from harness.plan import drive_files
from harness.rig import model
from harness.rig.model import Rig
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.numbers_version import KEY, NUMBERS
from harness.store.result import Result, Status
from harness.store.rundir import load_result, load_spec, split_attempt
from harness.store.spec import Device, DeviceKind, Plan, RunSpec
from harness.verify import agreement

_HINT = "name a run of a timed rig: results/CAMPAIGN/hosts/HOST/runs/RUN"
_AGAIN = "run the study again with this checkout, or use the checkout of that run"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run as its campaign planned it. ``recorded`` is null while it has not been executed."""

    plan_file: Path  # the campaign's ``plan.json``
    plan: Plan
    host: str
    spec: RunSpec
    rig: Rig
    recorded: Result | None


def find(folder: Path) -> PlannedRun:
    """Return the run of a run directory, which need not exist yet.

    Raises:
        UsageError: it is not in a campaign's plan, was skipped, or is not of a timed rig.
        ConfigError: its plan, its drives or its numbers differ from this checkout's.
        RunFailed: the run directory is damaged.
    """
    folder = folder.absolute()
    if len(folder.parts) < len(("/", "campaign", "hosts", "host", "runs", "run")) or (
        not (plan_file := CampaignPaths(folder.parents[3]).plan).is_file()
    ):
        raise UsageError(f"{folder} is not a run of a campaign", hint=_HINT, code="no-run")
    plan = load_plan(plan_file)
    host = folder.parents[1].name
    spec = _planned(plan, host, folder.name)
    rig = _rig(host, spec)
    recorded = _recorded(folder, spec) if folder.exists() else None
    return PlannedRun(plan_file, plan, host, spec, rig, recorded)


def _planned(plan: Plan, host: str, name: str) -> RunSpec:
    base, _ = split_attempt(name)
    runs = {run.run: run for one in plan.hosts if one.host == host for run in one.runs}
    if base not in runs:
        known = ", ".join(sorted(runs)) or "none"
        raise UsageError(
            f"{plan.campaign} plans no run {base} on {host}",
            hint=f"runs there: {known}",
            code="no-run",
        )
    return runs[base]


def _rig(host: str, spec: RunSpec) -> Rig:
    """Return the rig whose machine executed a run, if it serves the same drives now."""
    if {one.kind for one in spec.devices} != {DeviceKind.MODELLED}:
        raise UsageError(
            f"{spec.run} used a drive of kind {spec.device.kind.value}, not a modelled one",
            hint=_HINT,
            code="not-modelled",
        )
    # the reverse of state.host_name, as the default rig is not a timed one
    rig = model.load(host.removeprefix("rig-"))
    if any(drive.nvme for drive in rig.zoneblk):
        raise UsageError(
            f"{spec.run} used a namespace of rig {rig.name}, which replays do not export",
            hint=_HINT,
            code="not-replayable",
        )
    served = served_drives(rig)
    for device in spec.devices:
        _require_drive(device, served.get(device.identity.serial), rig)
    return rig


def served_drives(rig: Rig) -> dict[str, str]:
    """Return how records name a rig's modelled drives, by their serial numbers in records."""
    less = round(float(rig.overhead.removesuffix("us")) * 1000)
    return {
        f"model.{drive.uuid}": Served(
            drive.uuid, drive_files.served_name(drive.load()), rig.dilation, less
        ).name
        for drive in rig.zoneblk
    }


def _require_drive(device: Device, served: str | None, rig: Rig) -> None:
    if device.model != served:
        now = f"serves {served}" if served else f"has no drive {device.identity.serial}"
        raise ConfigError(
            f"the run was planned for {device.model}; rig {rig.name} now {now}",
            hint=_AGAIN,
            code="drive-changed",
        )


def _recorded(folder: Path, spec: RunSpec) -> Result:
    result = load_result(folder)
    for line in agreement.of_plan(load_spec(folder), spec):
        raise ConfigError(f"{folder}: {line}", hint=_AGAIN, code="run-differs")
    if result.status is Status.SKIPPED:
        why = result.reason.message if result.reason else "no reason"
        raise UsageError(f"{spec.run} was skipped: {why}", hint=_HINT, code="skipped")
    numbers = result.manifest.get("host", {}).get(KEY)
    if numbers != NUMBERS:
        raise ConfigError(
            f"{spec.run} has numbers of version {numbers}, this checkout of {NUMBERS}",
            hint=_AGAIN,
            code="numbers",
        )
    return result
