"""Latencies of resets, finishes and first writes by the zone's history, from zoneprobe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis import numbers
from analysis.judge import latencies, stats
from analysis.judge.compare import Comparison
from analysis.judge.latencies import LatencyCurve
from analysis.judge.stats import Estimate
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord
from harness.store import packed
from harness.tables import Table, tabulate
from harness.tools import zoneprobe
from harness.tools.histogram import SAMPLES_ABOVE
from harness.tools.zoneprobe import ProbeSummary, Treatment
from harness.workloads.zoneprobe import quantile

_NS_PER_US = 1000
_US_PER_MS = 1000
_LIMIT = 4 << 20  # bytes; the runner's limit (harness/workloads/load_program.py)


@dataclass(frozen=True, slots=True)
class Probed:
    """A run of zoneprobe. Latencies of a modelled drive are on the clock of its model."""

    run: RunRecord
    summary: ProbeSummary

    def percent(self, treatment: Treatment) -> float:
        """Return the percentage of the capacity that was written before the reset."""
        return 100 * treatment.occupied / self.summary.zone_capacity

    def named(self, name: str) -> Treatment | None:
        """Return a treatment, or None."""
        return next((one for one in self.summary.treatments if one.name == name), None)


def probed(comparison: Comparison) -> list[Probed]:
    """Return the ok runs of zoneprobe with all their latencies."""
    return [
        Probed(run, _on_model_clock(summary, run.result.device.dilation))
        for run in comparison.campaign.latest
        if run.ok
        for phase in run.spec.phases
        if phase.program == zoneprobe.PROGRAM
        if (summary := _summary(run, phase.name)) is not None
    ]


def _summary(run: RunRecord, phase: str) -> ProbeSummary | None:
    return zoneprobe.parse(packed.text(run.path / "raw" / f"{phase}.stdout", _LIMIT))


def _on_model_clock(summary: ProbeSummary, dilation: int) -> ProbeSummary:
    """Return a summary whose latencies are on the model's clock."""

    def shorter(times: Sequence[int]) -> tuple[int, ...]:
        return tuple(round(time / dilation) for time in times)

    treatments = (
        dataclasses.replace(
            one,
            finishes=shorter(one.finishes),
            resets=shorter(one.resets),
            writes=tuple(map(shorter, one.writes)),
        )
        for one in summary.treatments
    )
    return dataclasses.replace(summary, treatments=tuple(treatments))


@dataclass(frozen=True, slots=True)
class ProbedCommand:
    """Latencies of one command of a treatment in a run (ns), and the ZN540's mean (ms)."""

    name: str
    samples: tuple[int, ...]
    published: float | None

    @property
    def mean(self) -> float:
        """The mean in microseconds."""
        return sum(self.samples) / len(self.samples) / _NS_PER_US


def commands(one: Probed, treatment: Treatment) -> list[ProbedCommand]:
    """Return the timed commands of a treatment."""
    percent = one.percent(treatment)
    reset = latencies.RESET_AFTER_FINISH if treatment.finish else latencies.RESET
    found = [
        ProbedCommand("finish", treatment.finishes, latencies.at(latencies.FINISH, percent)),
        ProbedCommand("reset", treatment.resets, latencies.at(reset, percent)),
        ProbedCommand(
            "first write", tuple(cycle[0] for cycle in treatment.writes), latencies.FIRST_WRITE
        ),
    ]
    return [command for command in found if command.samples]


class _Timed(NamedTuple):
    """A command of a treatment in a run."""

    probed: Probed
    treatment: Treatment
    command: ProbedCommand


def latency_table(runs: Sequence[Probed]) -> Table:
    """Return one row per run, treatment and command."""
    return tabulate(
        _LATENCIES,
        (
            _Timed(one, treatment, command)
            for one in runs
            for treatment in one.summary.treatments
            for command in commands(one, treatment)
        ),
    )


def _published_us(command: ProbedCommand) -> float | None:
    return None if command.published is None else command.published * _US_PER_MS


_LATENCIES: dict[str, Callable[[_Timed], str]] = {
    "run": lambda row: row.probed.run.name,
    "treatment": lambda row: row.treatment.name,
    "zone written": lambda row: f"{row.probed.percent(row.treatment):.4g} %",
    "command": lambda row: row.command.name,
    "n": lambda row: str(len(row.command.samples)),
    "mean": lambda row: numbers.human(row.command.mean, "us"),
    "median": lambda row: numbers.human(quantile(row.command.samples, 0.5), "us"),
    "p99": lambda row: numbers.human(
        quantile(row.command.samples, 0.99, least_above=SAMPLES_ABOVE), "us"
    ),
    "largest": lambda row: numbers.human(max(row.command.samples) / _NS_PER_US, "us"),
    "ZN540 mean": lambda row: numbers.human(_published_us(row.command), "us"),
}


class Timing(NamedTuple):
    """A command of a treatment."""

    treatment: str
    command: str


@dataclass(frozen=True, slots=True)
class LatencyOrder:
    """The claim that one timing takes longer than another.

    ``published`` is the ratio of the means on the ZN540; None if it was not published.
    """

    text: str
    longer: Timing
    shorter: Timing
    published: float | None


def _published(
    curve: LatencyCurve, percent: float, other: LatencyCurve, against: float
) -> float | None:
    above, below = latencies.at(curve, percent), latencies.at(other, against)
    return above / below if above and below else None


ORDERS = (
    LatencyOrder(
        "resetting a full zone takes longer than resetting a zone with one block",
        Timing("reset-100", "reset"),
        Timing("reset-block", "reset"),
        _published(latencies.RESET, 100, latencies.RESET, 0.1),
    ),
    LatencyOrder(
        "resetting a zone with one block takes longer than resetting an empty zone",
        Timing("reset-block", "reset"),
        Timing("reset-0", "reset"),
        _published(latencies.RESET, 0.1, latencies.RESET, 0),
    ),
    LatencyOrder(
        "finishing a zone with one block takes longer than finishing a half-full zone",
        Timing("finish-block", "finish"),
        Timing("finish-50", "finish"),
        _published(latencies.FINISH, 0.1, latencies.FINISH, 50),
    ),
    LatencyOrder(
        "resetting a half-full zone takes longer than resetting a zone that was finished half full",
        Timing("reset-50", "reset"),
        Timing("finish-50", "reset"),
        _published(latencies.RESET, 50, latencies.RESET_AFTER_FINISH, 50),
    ),
    LatencyOrder(
        "the first write after the reset of a full zone takes longer than one to a fresh zone",
        Timing("reset-100", "first write"),
        Timing("fresh", "first write"),
        None,
    ),
    LatencyOrder(
        "the first write to a fresh zone takes longer than later ones",
        Timing("fresh", "first write"),
        Timing("fresh", "later writes"),
        latencies.FIRST_WRITE / latencies.LATER_WRITE,
    ),
)


class _Judged(NamedTuple):
    """An order judged in one cell."""

    cell: str
    order: LatencyOrder
    estimate: Estimate
    verdict: str


def order_table(runs: Sequence[Probed], *, not_hardware: bool) -> Table:
    """Return one row per cell and order: ratio of geometric means, and whether the order holds.

    Ratios are paired within runs; p values are Holm-adjusted over all rows. Only hardware
    gets a verdict.
    """
    cells = grouped(runs, lambda one: one.run.cell)
    tested = [
        (cell, order, _compare(own, order)) for cell, own in cells.items() for order in ORDERS
    ]
    p_values = [1.0 if one.p_value is None else one.p_value for _, _, one in tested]
    judged = (
        _Judged(cell, order, estimate, "not a result" if not_hardware else _word(estimate, p))
        for (cell, order, estimate), p in zip(tested, stats.holm(p_values), strict=True)
    )
    return tabulate(_ORDERS, judged)


def _compare(runs: Sequence[Probed], order: LatencyOrder) -> Estimate:
    shorter, longer = _means(runs, order.shorter), _means(runs, order.longer)
    return stats.estimate(shorter, longer, exact_allowed=False)


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return numbers.DASH
    return f"{numbers.ratio(estimate.low)} … {numbers.ratio(estimate.high)}"


_ORDERS: dict[str, Callable[[_Judged], str]] = {
    "cell": lambda row: row.cell,
    "direction": lambda row: row.order.text,
    "ratio": lambda row: numbers.ratio(row.estimate.center),
    "95 % interval": lambda row: _interval(row.estimate),
    "n": lambda row: str(row.estimate.n),
    "ZN540": lambda row: numbers.ratio(row.order.published),
    "verdict": lambda row: row.verdict,
}


def _word(estimate: Estimate, p: float) -> str:
    if estimate.method is stats.Method.NONE or estimate.center is None:
        return "too few"
    if p >= stats.ALPHA:
        return "not shown"
    return "holds" if estimate.center > 1 else "does not hold"


def _means(runs: Sequence[Probed], timing: Timing) -> Mapping[str, float]:
    """Return block → mean in microseconds, from the runs that have the timing."""
    means = {}
    for one in runs:
        treatment = one.named(timing.treatment)
        samples = _samples(treatment, timing.command) if treatment else ()
        if samples:
            block = f"{one.run.host}/{one.run.result.repetition}"
            means[block] = sum(samples) / len(samples) / _NS_PER_US
    return means


def _samples(treatment: Treatment, command: str) -> Sequence[int]:
    if command == "reset":
        return treatment.resets
    if command == "finish":
        return treatment.finishes
    if command == "first write":
        return [cycle[0] for cycle in treatment.writes]
    return [one for cycle in treatment.writes for one in cycle[(len(cycle) + 1) // 2 :]]
