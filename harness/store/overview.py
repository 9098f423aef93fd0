"""A campaign as a whole: what the plan wants, what there is, what is wrong with it."""

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

_ALWAYS_DUE = (None, Status.ABORTED.value)


@dataclass(frozen=True, slots=True)
class RunState:
    """A planned run and the status of its newest attempt; null when there is none."""

    host: str
    run: str
    level: str
    status: str | None
    reason: str


def states(paths: CampaignPaths, host: str | None = None) -> list[RunState]:
    """Return every planned run, of one host or of all.

    Raises:
        ConfigError: the plan is missing or damaged, or a file of another schema version.
        RunFailed: a result is missing or damaged.
    """
    plan = load_plan(paths.plan)
    wanted = [host_plan for host_plan in plan.hosts if host in (None, host_plan.host)]
    return [state for host_plan in wanted for state in _host_states(paths, host_plan)]


def pending(found: Sequence[RunState], retry: Collection[str]) -> int:
    """Return how many runs are missing, aborted, or to be retried."""
    return sum(state.status in _ALWAYS_DUE or state.status in retry for state in found)


def counts(found: Sequence[RunState]) -> dict[str, int]:
    """Return runs by status, every status named."""
    counter = Counter(state.status for state in found)
    return {status.value: counter[status.value] for status in Status}


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per thing wrong with a campaign, each naming host, run and file.

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
    lines += [f"{host}: is not in plan.json" for host in paths.hosts() if host not in planned]
    return lines


def _host_states(paths: CampaignPaths, host_plan: HostPlan) -> list[RunState]:
    runs = paths.runs(host_plan.host)
    found = []
    for run in host_plan.runs:
        own = rundir.attempts(runs, run.run)
        result = rundir.load_result(own[-1]) if own else None
        status = result.status.value if result else None
        reason = result.reason.message if result and result.reason else ""
        found.append(RunState(host_plan.host, run.run, run.level, status, reason))
    return found


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
            lines.append(f"{folder.name}: is not in plan.json")
        lines += [f"{folder.name}: {line}" for line in rundir.problems(folder)]
    lines += [f"{run}: missing" for run in sorted(planned - present)]
    return lines


def _relative(text: str, root: Path) -> str:
    return text.replace(f"{root}/", "")
