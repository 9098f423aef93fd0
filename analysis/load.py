"""Campaign folder → typed records and one table. Reads complete run directories only."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import polars as pl

from analysis import parallel
from harness.errors import RunFailed, UsageError
from harness.store import checksums, rundir
from harness.store.campaign import load_plan
from harness.store.result import Result, Status
from harness.store.spec import (
    DeviceKind,
    HostPlan,
    Inspection,
    PhaseRole,
    PhaseSpec,
    Plan,
    Reason,
    RunSpec,
    Scalar,
)

if TYPE_CHECKING:
    from analysis.flow import Flow
    from analysis.steady import Steady

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One attempt of one run, as stored. ``campaign`` names its own where there are several."""

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
        """Name the block: what else a run is, but for the contrasted factor.

        Runs of one block ran near each other with one seed; those of the same block on two hosts
        or in two campaigns share the seed, if they do. Several runs of a cell in one block would
        be repetitions that share a seed.
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
        """Its cell, with the campaign where there are several."""
        return f"{self.campaign}/{self.result.cell}" if self.campaign else self.result.cell

    @property
    def ok(self) -> bool:
        """Whether its numbers may enter a comparison."""
        return self.result.status is Status.OK

    @property
    def measured(self) -> tuple[PhaseSpec, ...]:
        """The measured phases that it has begun."""
        begun = self.result.begun(self.spec.phases)
        return tuple(phase for phase in begun if phase.role is PhaseRole.MEASURED)

    def factor(self, name: str) -> Scalar | None:
        """Return the value of a factor; level, cell, host and campaign are some."""
        identity = {
            "level": self.spec.row, "cell": self.cell, "host": self.host, "campaign": self.campaign,
        }  # fmt: skip
        return identity[name] if name in identity else self.result.factors.get(name)

    def value(self, key: str) -> float | None:
        """Return a metric as a finite number, None when null, missing or not finite."""
        metric = self.result.metrics.get(key)
        if metric is None or metric.value is None or not math.isfinite(metric.value):
            return None
        return float(metric.value)


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned run of which no complete directory exists."""

    host: str
    spec: RunSpec


# By id: a record has no hash. With the record: an id is of nothing else as long as it is there.
Kept: TypeAlias = dict[int, tuple[RunRecord, T]]


@dataclass(frozen=True, slots=True)
class CampaignData:
    """Everything that is known of a campaign; ``label`` tells it from others, if there are.

    A campaign is compared several times for one page. What takes long to know of a run is kept with
    it, by its ``id``: ``steady`` what :func:`analysis.steady.of_runs` was asked so far, ``flows``
    what :func:`analysis.flow.of_runs`, ``prints`` what
    :func:`analysis.comparability.fingerprint`.
    """

    path: Path
    plan: Plan
    runs: tuple[RunRecord, ...]
    missing: tuple[Planned, ...]
    label: str = ""
    steady: Kept[tuple[Steady, ...]] = field(default_factory=dict, compare=False)
    prints: Kept[Mapping[str, str]] = field(default_factory=dict, compare=False)
    flows: Kept[Flow] = field(default_factory=dict, compare=False)

    @property
    def emulated(self) -> bool:
        """Whether any device was none of hardware, so that times are no result."""
        devices = [run.result.device for run in self.runs]
        devices += [host.inspection.device for host in self.plan.hosts]
        return any(device.kind is not DeviceKind.HARDWARE for device in devices)

    @property
    def replayed(self) -> bool:
        """Whether its runs are replays of a recorded trace."""
        return any(run.result.device.kind is DeviceKind.REPLAYED for run in self.runs)

    @property
    def latest(self) -> tuple[RunRecord, ...]:
        """The last attempt of every (host, cell, repetition)."""
        last: dict[tuple[str, str, int], RunRecord] = {}
        for run in self.runs:
            key = (run.host, run.result.cell, run.result.repetition)
            if key not in last or run.result.attempt > last[key].result.attempt:
                last[key] = run
        return tuple(last.values())

    def inspection(self, host: str) -> Inspection | None:
        """Return what planning saw of a host."""
        found = self.host_plan(host)
        return found.inspection if found else None

    def host_plan(self, name: str) -> HostPlan | None:
        """Return what was planned for a host."""
        return next((host for host in self.plan.hosts if host.host == name), None)

    def level_order(self, row: str) -> tuple[int, str]:
        """Return a sort key: levels as the host lists them (the plan shuffles its runs)."""
        known = [probe.level for host in self.plan.hosts for probe in host.inspection.levels]
        level = next((spec.level for spec in self._specs if spec.row == row), row)
        return (known.index(level) if level in known else len(known), row)

    def skipped(self) -> dict[str, Reason]:
        """Return planned level → why it never ran (runs marked skipped, then the probes)."""
        ran = {run.spec.row for run in self.runs if run.result.status is not Status.SKIPPED}
        reasons: dict[str, Reason] = {}
        for run in self.runs:
            if run.spec.row not in ran and run.result.reason is not None:
                reasons.setdefault(run.spec.row, run.result.reason)
        for host in self.plan.hosts:
            planned = {spec.row: spec.level for spec in host.runs}  # on other rigs are others
            for probe in host.inspection.levels:
                for row, level in planned.items():
                    if probe.reason and probe.level == level and row not in ran:
                        reasons.setdefault(row, probe.reason)
        return reasons

    @property
    def _specs(self) -> list[RunSpec]:
        return [spec for host in self.plan.hosts for spec in host.runs]

    def frame(self) -> pl.DataFrame:
        """Return one row per run and metric, all attempts, in plan order."""
        latest = {id(run) for run in self.latest}
        columns: dict[str, list[Any]] = {name: [] for name in _FRAME_SCHEMA}
        for run in self.runs:  # by column: a dict for each of millions of rows is a gigabyte
            metrics = run.result.metrics
            same = (
                run.host, run.name, run.result.cell, run.spec.row, run.result.repetition,
                run.result.attempt, id(run) in latest, run.result.block, run.result.status.value,
            )  # fmt: skip
            for name, value in zip(_FRAME_SCHEMA, same, strict=False):
                columns[name] += [value] * len(metrics)
            columns["metric"] += metrics
            columns["value"] += [run.value(key) for key in metrics]
            columns["unit"] += [metric.unit for metric in metrics.values()]
        return pl.DataFrame(columns, schema=_FRAME_SCHEMA)


@dataclass(frozen=True, slots=True)
class Pool:
    """The campaigns that are compared: one, or several with different labels."""

    campaigns: tuple[CampaignData, ...]

    @property
    def first(self) -> CampaignData:
        """The one whose study says what is compared."""
        return self.campaigns[0]

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
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
    def emulated(self) -> bool:
        """Whether any device was none of hardware, so that times are no result."""
        return any(campaign.emulated for campaign in self.campaigns)

    def of(self, run: RunRecord) -> CampaignData:
        """Return the campaign of a run."""
        return next(one for one in self.campaigns if one.label == run.campaign)


_FRAME_SCHEMA = {
    "host": pl.String, "run": pl.String, "cell": pl.String, "level": pl.String,
    "repetition": pl.Int64, "attempt": pl.Int64, "latest": pl.Boolean, "block": pl.Int64,
    "status": pl.String, "metric": pl.String, "value": pl.Float64, "unit": pl.String,
}  # fmt: skip


def load_pool(paths: Sequence[Path]) -> Pool:
    """Read campaigns; several are labelled by their folders' names, or paths where these are equal.

    Raises:
        ConfigError: a file is from another schema.
        RunFailed: a run directory is corrupt.
        UsageError: one is named twice.
    """
    folders = [path.resolve() for path in paths]
    if len(set(folders)) != len(folders):
        raise UsageError("a campaign is named twice", hint="name two, or one alone", code="twice")
    if len(folders) == 1:
        return Pool((load(paths[0]),))
    names = [path.name for path in folders]
    labels = names if len(set(names)) == len(names) else [str(path) for path in paths]
    return Pool(tuple(load(path, label) for path, label in zip(paths, labels, strict=True)))


def load(path: Path, label: str = "") -> CampaignData:
    """Read a campaign; ``label`` tells its runs from those of others.

    Raises:
        ConfigError: a file is from another schema.
        RunFailed: a run directory is corrupt.
    """
    with _nothing_collected():
        plan = load_plan(path / "plan.json")
        runs = list(_runs(path, label))
    order = {
        (host.host, spec.cell, spec.repetition): index
        for host in plan.hosts
        for index, spec in enumerate(host.runs)
    }
    runs.sort(
        key=lambda r: (
            r.host, order.get((r.host, r.result.cell, r.result.repetition), len(order)),
            r.result.cell, r.result.repetition, r.result.attempt,
        ),
    )  # fmt: skip
    done = {(run.host, run.result.cell, run.result.repetition) for run in runs}
    missing = tuple(
        Planned(host.host, spec)
        for host in plan.hosts
        for spec in host.runs
        if (host.host, spec.cell, spec.repetition) not in done
    )
    return CampaignData(path, plan, tuple(runs), missing, label)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Keep the garbage collector from looking through what is read again and again: all is kept."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _runs(campaign: Path, label: str) -> Iterator[RunRecord]:
    # `.<run>.partial` is a run that never completed: not a result, not an error.
    folders = [
        folder
        for host in sorted(campaign.glob("hosts/*/runs"))
        for folder in rundir.completed(host)
    ]
    # Checksums take as long as what is done with their files here: other processes are ahead.
    for folder, found in zip(folders, parallel.each(checksums.problems, folders), strict=True):
        yield _run(campaign, folder, found, label)


def corrupt(what: str) -> RunFailed:
    """Return the error of a run's file that says ``what``."""
    return RunFailed(
        f"corrupt run directory: {what}",
        hint="check the campaign with: zonelab verify",
        code=rundir.CORRUPT,
    )


def _run(campaign: Path, folder: Path, found: Sequence[str], label: str) -> RunRecord:
    if found:
        where = folder.relative_to(campaign).as_posix()
        raise RunFailed(
            f"corrupt run directory: {where}: {found[0]}",
            hint=f"list everything that is wrong: zonelab verify {campaign}",
            code=rundir.CORRUPT,
        )
    spec, result = rundir.load_spec(folder), rundir.load_result(folder)
    return RunRecord(folder.parent.parent.name, folder, spec, result, label)
