"""Executes the missing runs of a campaign on this machine, in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness import cleanup
from harness.cleanup import after
from harness.errors import (
    ConfigError,
    GuardRefused,
    HostError,
    Hung,
    Interrupted,
    UsageError,
    ZonelabError,
)
from harness.levels.filesystem import free_bytes
from harness.levels.level import Level
from harness.machine.cgroups import cgroups
from harness.machine.consent import Consent
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.machine.lock import exclusive
from harness.machine.paths import Paths
from harness.machine.signals import Stop
from harness.machine.whole_digests import seal
from harness.run import hung
from harness.run.context import RunContext
from harness.run.kept_tracer import closing_tracer
from harness.run.life import Life
from harness.run.progress import ProgressPublisher, announcement, human_seconds
from harness.run.pulse import Pulse, pulse
from harness.run.recover import recover, release
from harness.store.adopted import require_same
from harness.store.campaign import load_plan
from harness.store.files import dumps, write_atomic
from harness.store.overview import is_due
from harness.store.result import Result, Status
from harness.store.rundir import (
    RunWriter,
    attempt_name,
    attempts,
    completed,
    full_disk_is_clear,
    load_result,
)
from harness.store.spec import Device, HostPlan, Plan, RunSpec

# A run directory has a few hundred KiB; with less space a run could not be stored.
_MIN_FREE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """Options of the command line. ``retry``: statuses to repeat as new attempts."""

    host_name: str
    program: Path
    paths: Paths
    retry: frozenset[str] = frozenset()
    only: tuple[str, ...] = ()
    erase: tuple[Consent, ...] = ()


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The newest attempt of a run; ``new`` if this call executed it."""

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
) -> list[RunOutcome]:
    """Execute the pending runs of one host; return the state of all of its runs.

    Raises:
        UsageError: the plan has no such host or run.
        ConfigError: the plan names an unknown level, or belongs to another campaign.
        GuardRefused: a device must not be used; the runs that are complete are kept.
        HostError: another run is active, or the disk is full.
        Interrupted: SIGINT, SIGTERM or SIGHUP; the host was restored.
        Hung: a process cannot be killed; the claim is kept.
    """
    runs = selected(plan, request.host_name, request.only, levels)
    paths, stop = request.paths, Stop()
    with (
        exclusive(paths.lock, f"campaign {plan.campaign}"),
        stop.installed(),
        pulse(paths.progress(plan.campaign), host) as own,
    ):
        try:
            with full_disk_is_clear(paths.state):
                paths.runs(plan.campaign).mkdir(parents=True, exist_ok=True)
                own.publish(announcement(own.path, plan.campaign, "running", "starting"))
                _prepare(plan, request, host, say)
            new = _execute_due(
                plan, runs, request, host=host, levels=levels, say=say, stop=stop, own=own
            )
        except ZonelabError as error:
            after(
                error,
                partial(_announce, plan.campaign, paths, host, own, error),
                uses_device=False,
            )
            raise
    return [_outcome(paths.runs(plan.campaign), run, new) for run in runs]


def _announce(campaign: str, paths: Paths, host: Host, own: Pulse, error: ZonelabError) -> None:
    """Write the end of the campaign for processes that wait for it."""
    state = "aborted" if isinstance(error, Interrupted) else "failed"
    hang = cleanup.hung(error)
    if hang is not None:  # first: the disk of the progress file can be full
        hung.note(host, paths, hang)
    own.publish(announcement(own.path, campaign, state, error.message))


def _prepare(plan: Plan, request: Request, host: Host, say: Callable[[str], None]) -> None:
    """Clean up after a killed runner, and store the plan."""
    paths = request.paths
    hung.require_gone(host, paths)
    for line in recover(host, paths):
        say(line)
    _adopt_plan(plan, request.host_name, paths.campaign(plan.campaign) / "plan.json")


def _execute_due(
    plan: Plan,
    runs: Sequence[RunSpec],
    request: Request,
    *,
    host: Host,
    levels: Mapping[str, Level],
    say: Callable[[str], None],
    stop: Stop,
    own: Pulse,
) -> set[str]:
    """Execute the runs that are missing or to be retried; return their names.

    Before the runs, devices of a killed run are emptied and released. After them, a digest of every
    byte of the released devices is recorded, which proves ownership after a restart.
    """
    paths = request.paths
    pending, kept = _due_runs(paths.runs(plan.campaign), runs, request)
    devices = _devices(runs)
    progress = ProgressPublisher(own.publish, plan.campaign, kept, pending, clock=host.monotonic)
    journal = Journal(paths.journal)
    guard = Guard(host, journal, request.erase, say)
    if pending:
        with stop.deferred():
            for line in release(host, journal, guard, devices):
                say(line)
    with (
        cgroups(host.cgroups, host.proc_text("self/cgroup")) as groups,
        closing_tracer(host, paths.runtime / "tracer", pending) as tracer,
    ):
        context = RunContext(
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
            say=say,
        )
        tracer.prepare()
        for spec in pending:
            stop.check()
            _execute_one(context, plan.campaign, spec)
    if pending:
        seal(host, guard, journal, devices)
    progress.finish()
    if pending:
        for line in guard.notices({device.identity.key for device in devices}):
            say(f"note: {line}")
    return {spec.run for spec in pending}


def _execute_one(context: RunContext, campaign: str, spec: RunSpec) -> None:
    runs = context.paths.runs(campaign)
    _require_space(runs)
    writer = RunWriter(runs, spec.run)
    context.progress.begin(spec)
    try:
        status = Life(context, spec, writer).execute()
    except (GuardRefused, HostError) as error:
        after(error, writer.discard, uses_device=False)
        raise
    except (Interrupted, Hung) as error:
        status = Status.ABORTED if isinstance(error, Interrupted) else Status.FAILED
        after(error, lambda: context.progress.end(status.value), uses_device=False)
        raise
    context.progress.end(status.value)
    left = context.progress.eta()
    reason = load_result(runs / spec.run).reason
    why = f" ({reason.message})" if reason else ""
    context.say(f"{spec.run}: {status.value}{why}, about {human_seconds(left)} left")


def selected(
    plan: Plan, host_name: str, only: Sequence[str], levels: Mapping[str, Level]
) -> list[RunSpec]:
    """Return the planned runs of a host, or the named ones; errors as for execute_plan."""
    host_plan = _host_plan(plan, host_name)
    names = {run.run for run in host_plan.runs}
    for name in only:
        if name not in names:
            raise UsageError(f"the plan has no run {name!r}", hint="runs are named in plan.json")
    runs = [run for run in host_plan.runs if not only or run.run in only]
    for run in runs:
        unknown = [name for name in run.levels if name not in levels]
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


def _adopt_plan(plan: Plan, host_name: str, path: Path) -> None:
    """Store the plan beside the runs; a campaign with runs continues only under an equal plan."""
    if path.exists() and completed(path.parent / "runs"):
        require_same(load_plan(path), plan, host_name)
    write_atomic(path, dumps(plan))


def _newest(runs: Path, run: RunSpec) -> Result | None:
    folders = attempts(runs, run.run)
    return load_result(folders[-1]) if folders else None


def _due_runs(
    folder: Path, runs: Sequence[RunSpec], request: Request
) -> tuple[list[RunSpec], list[str]]:
    """Return the next attempts of the runs to execute, and the statuses of those that are kept."""
    retry = request.retry
    newest = [(run, _newest(folder, run)) for run in runs]
    pending = [
        _next_attempt(run, result)
        for run, result in newest
        if is_due(result.status.value if result else None, retry)
    ]
    kept = [r.status.value for _, r in newest if r and not is_due(r.status.value, retry)]
    return pending, kept


def _next_attempt(run: RunSpec, result: Result | None) -> RunSpec:
    attempt = result.attempt + 1 if result else run.attempt
    return replace(run, run=attempt_name(run.run, attempt), attempt=attempt)


def _outcome(runs: Path, run: RunSpec, new: Collection[str]) -> RunOutcome:
    result = _newest(runs, run)
    if result is None:
        return RunOutcome(run.run, run.level, "missing", "", 0, 0.0, new=False)
    return RunOutcome(
        run=result.run,
        level=result.level,
        status=result.status.value,
        reason=result.reason.code if result.reason else "",
        issues=len(result.issues),
        seconds=result.seconds,
        new=result.run in new,
    )


def _require_space(runs: Path) -> None:
    if free_bytes(runs) < _MIN_FREE_BYTES:
        raise HostError(
            f"less than {_MIN_FREE_BYTES // 2**20} MiB are free on the disk that holds {runs}",
            hint="free space there and repeat the command; completed runs are kept",
            code="disk-full",
        )
