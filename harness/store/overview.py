"""Compare a campaign's plan with its run directories: states, counts and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError
from harness.store import rundir
from harness.store.campaign import CampaignPaths, load_campaign, load_inspection, load_plan
from harness.store.result import Status
from harness.store.spec import HostPlan


@dataclass(frozen=True, slots=True)
class RunState:
    """A planned run and the state of its newest attempt."""

    host: str
    run: str
    level: str
    status: str | None  # null: not run yet
    reason: str  # why it failed or was skipped


def states(paths: CampaignPaths, host: str | None = None) -> list[RunState]:
    """Return the state of every planned run of one host or of all hosts.

    Raises:
        ConfigError: the plan is missing or damaged, or a file has another schema version.
        RunFailed: a result is missing or damaged.
    """
    plan = load_plan(paths.plan)
    wanted = [host_plan for host_plan in plan.hosts if host in (None, host_plan.host)]
    return [state for host_plan in wanted for state in _host_states(paths, host_plan)]


def pending(runs: Sequence[RunState], retry: Collection[str]) -> int:
    """Return the number of runs that are due."""
    return sum(is_due(run.status, retry) for run in runs)


def is_due(status: str | None, retry: Collection[str]) -> bool:
    """Whether a run is missing (null), aborted, or in a status to retry."""
    return status is None or status == Status.ABORTED.value or status in retry


def counts(runs: Sequence[RunState]) -> dict[str, int]:
    """Return the number of runs by status, zeros included."""
    counter = Counter(run.status for run in runs)
    return {status.value: counter[status.value] for status in Status}


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per problem of a campaign; each names host, run and file.

    Raises:
        ConfigError: the plan is missing, damaged or of another schema version.
    """
    plan = load_plan(paths.plan)
    lines = []
    try:
        if load_campaign(paths.record).study_digest != plan.study_digest:
            lines.append("campaign.json: study_digest differs from plan.json")
    except ConfigError as error:
        lines.append(_relative(error.message, paths.root))
    for host_plan in plan.hosts:
        lines += [f"{host_plan.host}: {line}" for line in _host_problems(paths, host_plan)]
    lines += [f"rig {rig}: its part is not planned yet" for rig in plan.rigs_to_come]
    planned = {host_plan.host for host_plan in plan.hosts}
    lines += [f"{host}: not in plan.json" for host in paths.hosts() if host not in planned]
    return lines


def _host_states(paths: CampaignPaths, host_plan: HostPlan) -> list[RunState]:
    runs = paths.runs(host_plan.host)
    host_states = []
    for run in host_plan.runs:
        attempts = rundir.attempts(runs, run.run)
        result = rundir.load_result(attempts[-1]) if attempts else None
        status = result.status.value if result else None
        reason = result.reason.message if result and result.reason else ""
        host_states.append(RunState(host_plan.host, run.run, run.level, status, reason))
    return host_states


def _host_problems(paths: CampaignPaths, host_plan: HostPlan) -> list[str]:
    lines = []
    try:
        load_inspection(paths.host(host_plan.host) / "host.json")
    except ConfigError as error:
        lines.append(_relative(error.message, paths.root))
    planned = {run.run for run in host_plan.runs}
    present = set()
    for folder in rundir.completed(paths.runs(host_plan.host)):
        try:
            base = rundir.split_attempt(folder.name)[0]
        except ConfigError as error:
            lines.append(error.message)
            continue
        present.add(base)
        if base not in planned:
            lines.append(f"{folder.name}: not in plan.json")
        lines += [f"{folder.name}: {line}" for line in rundir.problems(folder)]
    lines += [f"{run}: missing" for run in sorted(planned - present)]
    return lines


def _relative(text: str, root: Path) -> str:
    return text.replace(f"{root}/", "")
