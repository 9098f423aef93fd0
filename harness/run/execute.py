"""A campaign's runs on this machine, in order: what is complete stays, what is missing is run."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import (
    ConfigError,
    GuardRefused,
    HostError,
    Interrupted,
    UsageError,
    ZonelabError,
)
from harness.levels.base import Level
from harness.run.bench import Bench, Paths
from harness.run.cgroups import cgroups
from harness.run.guard import Guard
from harness.run.host import Host
from harness.run.journal import Journal
from harness.run.kept_tracer import closing_tracer
from harness.run.life import OneRun
from harness.run.lock import exclusive
from harness.run.progress import Progress, announce, human_seconds
from harness.run.recover import recover, release
from harness.run.signals import Stop
from harness.run.tenants.life import TenantsRun
from harness.store.campaign import load_plan
from harness.store.files import dumps, write_atomic
from harness.store.result import Result, Status
from harness.store.rundir import RunWriter, attempt_name, attempts, full_disk_is_clear, load_result
from harness.store.spec import Device, HostPlan, Plan, RunSpec

# A run directory is a few hundred KiB; with less than this a run would be done for nothing.
_MIN_FREE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for. ``retry``: statuses to repeat as new attempts."""

    host_name: str
    program: Path
    paths: Paths
    retry: frozenset[str] = frozenset()
    only: tuple[str, ...] = ()
    erase: tuple[str, ...] = ()
    conventional: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The newest attempt of a run; ``new``: executed just now."""

    run: str
    level: str
    status: str
    reason: str
    issues: int
    seconds: float
    new: bool


def execute_plan(
    plan: Plan,
    request: Request,
    *,
    host: Host,
    levels: Mapping[str, Level],
    say: Callable[[str], None],
) -> list[Outcome]:
    """Execute the pending runs of one host; return the state of all of its runs.

    Raises:
        UsageError: the plan has no such host or run.
        ConfigError: the plan names an unknown level, or is not the campaign's.
        GuardRefused: a device may not be used; earlier runs of this call are kept.
        HostError: another run is under way, or the disk is full.
        Interrupted: SIGINT, SIGTERM or SIGHUP; everything was put back.
    """
    runs = selected(plan, request.host_name, request.only, levels)
    paths, stop = request.paths, Stop()
    with exclusive(paths.lock, f"campaign {plan.campaign}"), stop.installed():
        try:
            with full_disk_is_clear(paths.state):
                _prepare(plan, paths, host, say)
            done = {run.run: _newest(paths.runs(plan.campaign), run) for run in runs}
            pending = [
                _next_attempt(run, done[run.run]) for run in runs if _due(done[run.run], request)
            ]
            kept = [r.status.value for r in done.values() if r and not _due(r, request)]
            progress = Progress(
                paths.progress(plan.campaign),
                plan.campaign,
                kept,
                pending,
                clock=host.monotonic,
                now=host.now,
            )
            journal = Journal(paths.journal)
            guard = Guard(host, journal, request.erase)
            if pending:
                with stop.deferred():
                    for line in release(host, journal, guard, _devices(runs)):
                        say(line)
            with (
                cgroups(host.cgroups, host.proc_text("self/cgroup")) as groups,
                closing_tracer(host, paths.runtime / "tracer", pending) as tracer,
            ):
                bench = Bench(
                    host=host,
                    levels=levels,
                    program=request.program,
                    paths=paths,
                    journal=journal,
                    guard=guard,
                    stop=stop,
                    progress=progress,
                    cgroups=groups,
                    tracer=tracer,
                    conventional_named=bool(pending) and _is_named(plan, request, host),
                    say=say,
                )
                tracer.prepare()
                for spec in pending:
                    stop.check()
                    _execute_one(bench, plan.campaign, spec)
            progress.finish()
        except ZonelabError as error:
            state = "aborted" if isinstance(error, Interrupted) else "failed"
            announce(paths.progress(plan.campaign), plan.campaign, state, error.message, host.now())
            raise
    new = {spec.run for spec in pending}
    return [_outcome(paths.runs(plan.campaign), run, new) for run in runs]


def _prepare(plan: Plan, paths: Paths, host: Host, say: Callable[[str], None]) -> None:
    """Make the campaign's folder, and put right what a killed runner left."""
    paths.runs(plan.campaign).mkdir(parents=True, exist_ok=True)
    for line in recover(host, paths):
        say(line)
    _adopt_plan(plan, paths.campaign(plan.campaign) / "plan.json")


def _execute_one(bench: Bench, campaign: str, spec: RunSpec) -> None:
    runs = bench.paths.runs(campaign)
    _require_space(runs)
    writer = RunWriter(runs, spec.run)
    bench.progress.begin(spec)
    try:
        life = TenantsRun if spec.tenants else OneRun
        status = life(bench, spec, writer).execute()
    except (GuardRefused, HostError):
        writer.discard()
        raise
    except Interrupted:
        bench.progress.end(Status.ABORTED.value)
        raise
    bench.progress.end(status.value)
    left = bench.progress.eta()
    reason = load_result(runs / spec.run).reason
    why = f" ({reason.message})" if reason else ""
    bench.say(f"{spec.run}: {status.value}{why}, about {human_seconds(left)} left")


def selected(
    plan: Plan, host_name: str, only: Sequence[str], levels: Mapping[str, Level]
) -> list[RunSpec]:
    """Return the planned runs of a host, or those named; errors as for execute_plan."""
    host_plan = _host_plan(plan, host_name)
    names = {run.run for run in host_plan.runs}
    for name in only:
        if name not in names:
            raise UsageError(f"the plan has no run {name!r}", hint="runs are named in plan.json")
    runs = [run for run in host_plan.runs if not only or run.run in only]
    for run in runs:
        unknown = [one for one in run.levels if one not in levels]
        if unknown:
            raise ConfigError(
                f"run {run.run}: this zonelab has no level {unknown[0]!r}",
                hint=f"it has {', '.join(levels)}",
                code="unknown-level",
            )
    return runs


def _devices(runs: Sequence[RunSpec]) -> list[Device]:
    return [device for run in runs for device in run.devices]


def _host_plan(plan: Plan, name: str) -> HostPlan:
    for host_plan in plan.hosts:
        if host_plan.host == name:
            return host_plan
    known = ", ".join(host_plan.host for host_plan in plan.hosts)
    raise UsageError(f"the plan has no host {name!r}", hint=f"--host is one of: {known}")


def _adopt_plan(plan: Plan, path: Path) -> None:
    """Keep the plan beside the runs; a campaign is only continued under an equal one."""
    if path.exists():
        known = load_plan(path)
        if known.study_digest != plan.study_digest:
            raise ConfigError(
                f"campaign {plan.campaign} was begun under another study ({path})",
                hint="start a new campaign: CAMPAIGN=<name>",
                code="other-study",
            )
    write_atomic(path, dumps(plan))


def _newest(runs: Path, run: RunSpec) -> Result | None:
    own = attempts(runs, run.run)
    return load_result(own[-1]) if own else None


def _due(result: Result | None, request: Request) -> bool:
    """Whether a run has to be executed: missing, aborted, or to be retried."""
    if result is None or result.status is Status.ABORTED:
        return True
    return result.status.value in request.retry


def _next_attempt(run: RunSpec, result: Result | None) -> RunSpec:
    attempt = result.attempt + 1 if result else run.attempt
    return replace(run, run=attempt_name(run.run, attempt), attempt=attempt)


def _outcome(runs: Path, run: RunSpec, new: Collection[str]) -> Outcome:
    result = _newest(runs, run)
    if result is None:
        return Outcome(run.run, run.level, "missing", "", 0, 0.0, new=False)
    return Outcome(
        run=result.run,
        level=result.level,
        status=result.status.value,
        reason=result.reason.code if result.reason else "",
        issues=len(result.issues),
        seconds=result.seconds,
        new=result.run in new,
    )


def _is_named(plan: Plan, request: Request, host: Host) -> bool:
    """Whether the planned conventional device is one that the user named.

    A sibling namespace may have been taken unasked; any other device can only have been named.
    """
    inspection = _host_plan(plan, request.host_name).inspection
    planned = inspection.conventional
    if planned is None:
        return False
    if request.conventional is not None:
        return host.device(request.conventional).identity.key == planned.identity.key
    siblings = host.sysfs.siblings(Path(host.find(inspection.device).path).name)
    return Path(host.find(planned).path).name not in siblings


def _require_space(runs: Path) -> None:
    space = os.statvfs(runs)
    if space.f_bavail * space.f_frsize < _MIN_FREE_BYTES:
        raise HostError(
            f"less than {_MIN_FREE_BYTES // 2**20} MiB are free on the disk that holds {runs}",
            hint="free some space there and repeat; completed runs are kept",
            code="disk-full",
        )
