"""Loads a campaign folder into typed records. Only complete run directories are read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from analysis.read import parallel
from analysis.read.clock import model_time
from harness.errors import RunFailed, UsageError
from harness.store import checksums, rundir
from harness.store.campaign import load_plan
from harness.store.result import PhaseResult, Result, Status
from harness.store.spec import (
    DeviceKind,
    HostPlan,
    PhaseRole,
    PhaseSpec,
    Plan,
    Reason,
    RunSpec,
    Scalar,
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class RunRecord:
    """One stored attempt of a run.

    Records are compared and hashed by identity, so that :mod:`analysis.read.memo` can refer to
    them. ``campaign`` is the campaign's label; it is empty when only one campaign is loaded.
    """

    host: str
    path: Path
    spec: RunSpec
    result: Result
    campaign: str = ""

    @property
    def name(self) -> str:
        """Directory name, unique on its host."""
        return self.path.name

    def block_key(self, contrast: str) -> str:
        """Name the run's block: its campaign, host, block, repetition and seed.

        The contrasted factor is left out, so that the runs to compare share a key.
        """
        parts = {
            "campaign": "" if contrast == "cell" else self.campaign,
            "host": self.host,
            "block": self.result.block,
            "repetition": self.result.repetition,
            "seed": self.result.seed,
        }
        return "/".join(str(part) for name, part in parts.items() if name != contrast)

    @property
    def cell(self) -> str:
        """The cell, prefixed with the campaign's label if it has one."""
        return f"{self.campaign}/{self.result.cell}" if self.campaign else self.result.cell

    @property
    def ok(self) -> bool:
        """Whether the run's numbers enter a comparison."""
        return self.result.status is Status.OK

    @property
    def has_virtual_clock(self) -> bool:
        """Whether the machine's clock counts instructions; such a clock begins at a fixed date."""
        host = self.result.manifest.get("host")
        return isinstance(host, Mapping) and host.get("virtual_time") is True

    @property
    def measured(self) -> tuple[PhaseSpec, ...]:
        """The measured phases that the run began."""
        begun = self.result.begun(self.spec.phases)
        return tuple(phase for phase in begun if phase.role is PhaseRole.MEASURED)

    @property
    def configured(self) -> str:
        """Level and its options as text."""
        return repr((self.spec.level, sorted(self.spec.level_options.items())))

    @property
    def settings(self) -> str:
        """Level, its options and factors as text. Cells with equal settings are identical."""
        return f"{self.configured} {sorted(self.spec.factors.items())}"

    def factor(self, name: str) -> Scalar | None:
        """Return the value of a factor. Level, cell, host and campaign count as factors."""
        identity = {
            "level": self.spec.row,
            "cell": self.cell,
            "host": self.host,
            "campaign": self.campaign,
        }
        return identity[name] if name in identity else self.result.factors.get(name)

    def value(self, key: str) -> float | None:
        """Return a metric, or None if it is null, missing or not finite.

        Times of a modelled drive are on the clock of its model.
        """
        metric = self.result.metrics.get(key)  # not by recorded(): reports call this most
        if metric is None or metric.value is None or not math.isfinite(metric.value):
            return None
        return model_time(key, float(metric.value), metric.unit, self.result.device.dilation)

    def recorded(self, key: str) -> float | None:
        """Return a metric on the clock of the machine, or None as ``value`` does."""
        metric = self.result.metrics.get(key)
        if metric is None or metric.value is None or not math.isfinite(metric.value):
            return None
        return float(metric.value)

    def start_of(self, phase: PhaseResult) -> float:
        """Return the start of a phase, in seconds since the run began."""
        began, started = map(datetime.fromisoformat, (self.result.started, phase.started))
        return (started - began).total_seconds()

    def seconds(self, t: float) -> float:
        """Return seconds of the run's files on the clock of the drive's model."""
        return t / self.result.device.dilation


@dataclass(frozen=True, slots=True)
class MissingRun:
    """A planned run without a complete directory."""

    host: str
    spec: RunSpec


@dataclass(frozen=True, slots=True)
class CampaignData:
    """A loaded campaign. ``label`` is unique within a comparison."""

    path: Path
    plan: Plan
    runs: tuple[RunRecord, ...]
    missing: tuple[MissingRun, ...]
    label: str = ""

    @property
    def not_hardware(self) -> bool:
        """Whether any device is not hardware; its kind decides about times."""
        return bool(self.kinds - {DeviceKind.HARDWARE})

    @property
    def kinds(self) -> frozenset[DeviceKind]:
        """The kinds of the devices under test."""
        devices = [run.result.device for run in self.runs]
        devices += [host.inspection.device for host in self.plan.hosts]
        return frozenset(device.kind for device in devices)

    @property
    def replayed(self) -> bool:
        """Whether any run is a replay of a recorded trace."""
        return any(run.result.device.kind is DeviceKind.REPLAYED for run in self.runs)

    @property
    def latest(self) -> tuple[RunRecord, ...]:
        """The last attempt of each host, cell and repetition."""
        last: dict[tuple[str, str, int], RunRecord] = {}
        for run in self.runs:
            key = (run.host, run.result.cell, run.result.repetition)
            if key not in last or run.result.attempt > last[key].result.attempt:
                last[key] = run
        return tuple(last.values())

    def host_plan(self, name: str) -> HostPlan | None:
        """Return the plan of a host."""
        return next((host for host in self.plan.hosts if host.host == name), None)

    def level_order(self, row: str) -> tuple[int, str]:
        """Return a sort key: the host's order of levels, because the plan shuffles its runs."""
        known = [probe.level for host in self.plan.hosts for probe in host.inspection.levels]
        planned = (spec for host in self.plan.hosts for spec in host.runs)
        level = next((spec.level for spec in planned if spec.row == row), row)
        return (known.index(level) if level in known else len(known), row)

    def skipped(self) -> dict[str, Reason]:
        """Return planned level → reason why it never ran: of skipped runs, else of the probes."""
        ran = {run.spec.row for run in self.runs if run.result.status is not Status.SKIPPED}
        reasons: dict[str, Reason] = {}
        for run in self.runs:
            if run.spec.row not in ran and run.result.reason is not None:
                reasons.setdefault(run.spec.row, run.result.reason)
        for host in self.plan.hosts:
            planned = {spec.row: spec.level for spec in host.runs}  # other rigs have other levels
            for probe in host.inspection.levels:
                for row, level in planned.items():
                    if probe.reason and probe.level == level and row not in ran:
                        reasons.setdefault(row, probe.reason)
        return reasons


@dataclass(frozen=True, slots=True)
class Pool:
    """The campaigns of one comparison. If there are several, their labels differ."""

    campaigns: tuple[CampaignData, ...]

    @property
    def first(self) -> CampaignData:
        """The campaign whose study sets the contrast and the metrics."""
        return self.campaigns[0]

    @property
    def several(self) -> bool:
        """Whether there is more than one campaign."""
        return len(self.campaigns) > 1

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All attempts of all runs."""
        return tuple(run for campaign in self.campaigns for run in campaign.runs)

    @property
    def latest(self) -> tuple[RunRecord, ...]:
        """The last attempt of every run."""
        return tuple(run for campaign in self.campaigns for run in campaign.latest)

    @property
    def not_hardware(self) -> bool:
        """Whether any device is not hardware; its kind decides about times."""
        return any(campaign.not_hardware for campaign in self.campaigns)

    def campaign_of(self, run: RunRecord) -> CampaignData:
        """Return the campaign of a run."""
        return next(campaign for campaign in self.campaigns if campaign.label == run.campaign)


def load_pool(paths: Sequence[Path], given: Sequence[str] = ()) -> Pool:
    """Load campaigns. Several get their folder names as labels.

    Args:
        paths: the campaigns' folders.
        given: the names that the user typed, for labels if folder names are equal; paths by
            default.

    Raises:
        ConfigError: a file has an unknown schema version.
        RunFailed: a run directory is corrupt.
        UsageError: a run is in two campaigns, and would count as two measurements.
    """
    if len(paths) == 1:
        return Pool((load(paths[0]),))
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = list(given) or [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise _named_twice("a campaign is named twice")
    pool = Pool(tuple(load(path, label) for path, label in zip(paths, names, strict=True)))
    refuse_copies(pool.campaigns, names)
    return pool


def refuse_copies(campaigns: Sequence[CampaignData], names: Sequence[str]) -> None:
    """Refuse campaigns that share a run, such as copies and archives; checksums are compared.

    Args:
        campaigns: the loaded campaigns.
        names: the name of each for the message.

    Raises:
        UsageError: a folder or a run is in two campaigns.
    """
    folders: set[Path] = set()
    known: dict[bytes, int] = {}
    for index, (campaign, name) in enumerate(zip(campaigns, names, strict=True)):
        if (folder := campaign.path.resolve()) in folders:
            raise _named_twice(f"a campaign is named twice: {name}")
        folders.add(folder)
        for run in campaign.runs:
            first = known.setdefault((run.path / checksums.NAME).read_bytes(), index)
            if first != index:
                raise _named_twice(f"{names[first]} and {name} share the run {run.spec.run}")


def _named_twice(problem: str) -> UsageError:
    hint = "name each campaign once; a copy is not a second measurement"
    return UsageError(problem, hint=hint, code="twice")


def load(path: Path, label: str = "") -> CampaignData:
    """Load a campaign. Its runs carry ``label``.

    Raises:
        ConfigError: a file has an unknown schema version.
        RunFailed: a run directory is corrupt.
    """
    plan = load_plan(path / "plan.json")
    runs = list(_runs(path, label))
    order = {
        (host.host, spec.cell, spec.repetition): index
        for host in plan.hosts
        for index, spec in enumerate(host.runs)
    }
    runs.sort(
        key=lambda r: (
            r.host,
            order.get((r.host, r.result.cell, r.result.repetition), len(order)),
            r.result.cell,
            r.result.repetition,
            r.result.attempt,
        ),
    )
    done = {(run.host, run.result.cell, run.result.repetition) for run in runs}
    missing = tuple(
        MissingRun(host.host, spec)
        for host in plan.hosts
        for spec in host.runs
        if (host.host, spec.cell, spec.repetition) not in done
    )
    return CampaignData(path, plan, tuple(runs), missing, label)


def _runs(campaign: Path, label: str) -> Iterator[RunRecord]:
    # A `.<run>.partial` folder belongs to a run that never completed. It is not an error.
    folders = [
        folder
        for host in sorted(campaign.glob("hosts/*/runs"))
        for folder in rundir.completed(host)
    ]
    # Checksums take as long as parsing. Worker processes compute them ahead of this loop.
    for folder, problems in zip(folders, parallel.each(checksums.problems, folders), strict=True):
        yield _run(campaign, folder, problems, label)


def corrupt(what: str) -> RunFailed:
    """Return the error for a damaged file; ``what`` names the file and the damage."""
    return RunFailed(
        f"corrupt run directory: {what}",
        hint="check the campaign with: zonelab verify",
        code=rundir.CORRUPT,
    )


def _run(campaign: Path, folder: Path, problems: Sequence[str], label: str) -> RunRecord:
    if problems:
        where = folder.relative_to(campaign).as_posix()
        raise RunFailed(
            f"corrupt run directory: {where}: {problems[0]}",
            hint=f"list all problems with: zonelab verify {campaign}",
            code=rundir.CORRUPT,
        )
    spec, result = rundir.load_spec(folder), rundir.load_result(folder)
    return RunRecord(folder.parent.parent.name, folder, spec, result, label)
