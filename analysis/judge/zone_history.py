"""Latencies of resets, finishes and first writes by the zone's history, from zoneprobe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis import numbers
from analysis.judge import stats, zn540
from analysis.judge.compare import Comparison
from analysis.judge.stats import Estimate
from analysis.judge.zn540 import LatencyCurve
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord
from harness.store import packed
from harness.tables import Table
from harness.tools import zoneprobe
from harness.tools.histogram import SAMPLES_ABOVE
from harness.tools.zoneprobe import ProbeSummary, Treatment
from harness.workloads.zoneprobe import quantile

_NS_PER_US = 1000
_US_PER_MS = 1000
_LIMIT = 4 << 20  # bytes; the runner's limit (harness/workloads/load_program.py)


@dataclass(frozen=True, slots=True)
class Probed:
    """A run of zoneprobe."""

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
        Probed(run, summary)
        for run in comparison.campaign.latest
        if run.ok
        for phase in run.spec.phases
        if phase.program == zoneprobe.PROGRAM
        if (summary := _summary(run, phase.name)) is not None
    ]


def _summary(run: RunRecord, phase: str) -> ProbeSummary | None:
    return zoneprobe.parse(packed.text(run.path / "raw" / f"{phase}.stdout", _LIMIT))


@dataclass(frozen=True, slots=True)
class ProbedCommand:
    """Latencies of one command of a treatment in a run (ns), and the ZN540's mean (ms)."""

    name: str
    samples: Sequence[int]
    published: float | None

    @property
    def mean(self) -> float:
        """The mean in microseconds."""
        return _mean_us(self.samples)


def commands(one: Probed, treatment: Treatment) -> list[ProbedCommand]:
    """Return the timed commands of a treatment."""
    percent = one.percent(treatment)
    reset = zn540.RESET_AFTER_FINISH if treatment.finish else zn540.RESET
    published = {
        "finish": zn540.at(zn540.FINISH, percent),
        "reset": zn540.at(reset, percent),
        "first write": zn540.FIRST_WRITE,
    }
    return [
        ProbedCommand(name, samples, mean)
        for name, mean in published.items()
        if (samples := _samples(treatment, name))
    ]


def latency_table(runs: Sequence[Probed]) -> Table:
    """Return one row per run, treatment and command."""
    rows: list[tuple[str, ...]] = [
        (
            one.run.name,
            treatment.name,
            f"{one.percent(treatment):.4g} %",
            command.name,
            str(len(command.samples)),
            numbers.human(command.mean, "us"),
            numbers.human(quantile(command.samples, 0.5), "us"),
            numbers.human(quantile(command.samples, 0.99, least_above=SAMPLES_ABOVE), "us"),
            numbers.human(max(command.samples) / _NS_PER_US, "us"),
            numbers.human(_published_us(command), "us"),
        )
        for one in runs
        for treatment in one.summary.treatments
        for command in commands(one, treatment)
    ]
    return Table(_LATENCIES, rows)


def _published_us(command: ProbedCommand) -> float | None:
    return None if command.published is None else command.published * _US_PER_MS


_LATENCIES = (
    *("run", "treatment", "zone written", "command", "n"),
    *("mean", "median", "p99", "largest", "ZN540 mean"),
)


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
    above, below = zn540.at(curve, percent), zn540.at(other, against)
    return above / below if above and below else None


ORDERS = (
    LatencyOrder(
        "resetting a full zone takes longer than resetting a zone with one block",
        Timing("reset-100", "reset"),
        Timing("reset-block", "reset"),
        _published(zn540.RESET, 100, zn540.RESET, 0.1),
    ),
    LatencyOrder(
        "resetting a zone with one block takes longer than resetting an empty zone",
        Timing("reset-block", "reset"),
        Timing("reset-0", "reset"),
        _published(zn540.RESET, 0.1, zn540.RESET, 0),
    ),
    LatencyOrder(
        "finishing a zone with one block takes longer than finishing a half-full zone",
        Timing("finish-block", "finish"),
        Timing("finish-50", "finish"),
        _published(zn540.FINISH, 0.1, zn540.FINISH, 50),
    ),
    LatencyOrder(
        "resetting a half-full zone takes longer than resetting a zone that was finished half full",
        Timing("reset-50", "reset"),
        Timing("finish-50", "reset"),
        _published(zn540.RESET, 50, zn540.RESET_AFTER_FINISH, 50),
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
        zn540.FIRST_WRITE / zn540.LATER_WRITE,
    ),
)


def order_table(runs: Sequence[Probed], *, emulated: bool) -> Table:
    """Return one row per cell and order: ratio of geometric means, and whether the order holds.

    Ratios are paired within runs; p values are Holm-adjusted over all rows. Times of emulated
    devices are not a result, so they have no verdict.
    """
    cells = grouped(runs, lambda one: one.run.cell)
    tested = [
        (cell, order, _compare(own, order)) for cell, own in cells.items() for order in ORDERS
    ]
    p_values = [1.0 if one.p_value is None else one.p_value for _, _, one in tested]
    rows: list[tuple[str, ...]] = [
        (
            cell,
            order.text,
            numbers.ratio(found.center),
            _interval(found),
            str(found.n),
            numbers.ratio(order.published),
            "not a result" if emulated else _word(found, p),
        )
        for (cell, order, found), p in zip(tested, stats.holm(p_values), strict=True)
    ]
    return Table(_ORDERS, rows)


def _compare(runs: Sequence[Probed], order: LatencyOrder) -> Estimate:
    shorter, longer = _means(runs, order.shorter), _means(runs, order.longer)
    return stats.estimate(shorter, longer, exact_allowed=False)


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return numbers.DASH
    return f"{numbers.ratio(estimate.low)} … {numbers.ratio(estimate.high)}"


_ORDERS = ("cell", "direction", "ratio", "95 % interval", "n", "ZN540", "verdict")


def _word(estimate: Estimate, p: float) -> str:
    if estimate.method is stats.Method.NONE or estimate.center is None:
        return "too few"
    if p >= 1 - stats.CONFIDENCE:
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
            means[block] = _mean_us(samples)
    return means


def _mean_us(samples: Sequence[int]) -> float:
    return sum(samples) / len(samples) / _NS_PER_US


def _samples(treatment: Treatment, command: str) -> Sequence[int]:
    if command == "reset":
        return treatment.resets
    if command == "finish":
        return treatment.finishes
    if command == "first write":
        return [cycle[0] for cycle in treatment.writes]
    return [one for cycle in treatment.writes for one in cycle[(len(cycle) + 1) // 2 :]]
