"""Labels phases by whether their numbers change while they are measured (docs/methods.md).

A phase is cut into rounds of equal device writes. It is "steady" only if its rounds exclude
large changes of user bytes per device byte, of throughput, and of bytes that wait for compaction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from analysis.read import parallel, trend
from analysis.read.load import RunRecord
from analysis.read.memo import Memo
from analysis.read.series import read_by_column

# Device writes after the fill, in capacities, before which no phase is steady.
TURNOVER = 1.0
SHORTEST = 2.0  # seconds of a round on the machine's clock: series have at most one sample a second
_NO_SERIES = "no series was recorded"


class SteadyLabel(StrEnum):
    """The state of a phase."""

    STEADY = "steady"
    NOT_STEADY = "not steady"
    TOO_SHORT = "too short"


@dataclass(frozen=True, slots=True)
class Steady:
    """A label and its phase in seconds since the run began, None without rounds.

    ``throughputs`` has one value per round, in operations per second. On a modelled drive, times
    are of the model.
    """

    label: SteadyLabel
    begin: float | None
    end: float | None
    rounds: int
    why: str
    throughputs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PhaseSteady:
    """A measured phase of a run with its label."""

    run: RunRecord
    phase: str
    steady: Steady

    @property
    def recorded(self) -> bool:
        """Whether there is a series; points of fio and single requests have none."""
        return self.steady.why != _NO_SERIES


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """Values over time: ``t`` ascends, in seconds. At least one point; equal lengths."""

    t: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, t: float) -> float:
        """Return the value at a time: linear between points, constant outside."""
        right = bisect_right(self.t, t)
        if right == 0 or right == len(self.t):
            return self.values[max(right - 1, 0)]
        (a, b), (x, y) = self.t[right - 1 : right + 1], self.values[right - 1 : right + 1]
        return x + (y - x) * (t - a) / (b - a)

    def last_at_most(self, value: float) -> float:
        """Return the last time at which a rising curve is at most ``value``; at least its first."""
        return TimeSeries(self.values, self.t).at(value)

    def mean(self, begin: float, end: float) -> float:
        """Return the mean over time. Each value holds until the next point."""
        first, last = bisect_right(self.t, begin), bisect_left(self.t, end)
        edges = [begin, *self.t[first:last], end]
        held = [self.values[max(first - 1, 0)], *self.values[first:last]]
        area = sum(value * (b - a) for value, (a, b) in zip(held, pairwise(edges), strict=True))
        return area / (end - begin)


@dataclass(frozen=True, slots=True)
class PhaseSeries:
    """The recorded progress of a phase.

    Attributes:
        operations: done since the phase's first sample.
        written: bytes written to all devices since the run began.
        pending: compaction bytes; None if not recorded.
        payload: user bytes per operation; 0 for phases that only read.
        capacity: bytes of the namespace.
        filled: bytes written to all devices when the fill ended.
    """

    operations: TimeSeries
    written: TimeSeries
    pending: TimeSeries | None
    payload: int
    capacity: int
    filled: float = 0.0


class _Check(NamedTuple):
    """The change of one quantity over the phase."""

    name: str
    change: trend.LinearTrend

    def __str__(self) -> str:
        return f"{self.name} {float(self.change.center):+.0%} (up to {self.change.largest:.0%})"


def judge(progress: PhaseSeries) -> Steady:
    """Label a phase by its rounds."""
    cuts = _cuts(progress)
    rounds = len(cuts) - 1
    rates = tuple(_rates(progress.operations, cuts))
    if rounds < trend.FEWEST:
        begin, end = (cuts[0], cuts[-1]) if rounds else (None, None)
        why = f"{rounds} of {trend.FEWEST} rounds of {SHORTEST:g} s"
        return Steady(SteadyLabel.TOO_SHORT, begin, end, rounds, why, rates)
    if not all(rates):
        why = "a round without an operation"
        return Steady(SteadyLabel.NOT_STEADY, cuts[0], cuts[-1], rounds, why, rates)
    checks = [_Check("throughput", _relative(rates))]
    if progress.payload:
        checks += _of_writes(progress, cuts)
    label, turnover = SteadyLabel.STEADY, _turnover(progress)
    if any(bool(check.change.drifts) for check in checks):
        label = SteadyLabel.NOT_STEADY
    elif turnover < TURNOVER or not all(bool(check.change.steady) for check in checks):
        label = SteadyLabel.TOO_SHORT
    why = "; ".join(map(str, checks))
    if progress.payload:
        why = f"{turnover:.0%} of the capacity written after the fill; {why}"
    return Steady(label, cuts[0], cuts[-1], rounds, why, rates)


_labels: Memo[tuple[Steady, ...]] = Memo()


def label_phases(runs: Sequence[RunRecord]) -> tuple[PhaseSteady, ...]:
    """Return the label of every measured phase that the runs began.

    Raises:
        RunFailed: a series is not numeric.
    """
    labels = _labels.get(runs, _compute)
    return tuple(
        PhaseSteady(run, phase.name, _on_model_clock(label, run.seconds(1.0)))
        for run, own in zip(runs, labels, strict=True)
        for phase, label in zip(run.measured, own, strict=True)
    )


def _on_model_clock(label: Steady, second: float) -> Steady:
    """Return a label with times of the model; ``second`` is a second of the machine there."""
    if second == 1.0 or label.begin is None or label.end is None:
        return label
    rates = tuple(rate / second for rate in label.throughputs)
    return replace(label, begin=label.begin * second, end=label.end * second, throughputs=rates)


class _Phase(NamedTuple):
    """A measured phase; ``payload`` is user bytes per operation."""

    name: str
    payload: int


@dataclass(frozen=True, slots=True)
class _LabelJob:
    """The input of :func:`_label_run`. It is small, because it is sent to worker processes."""

    folder: Path
    capacity: int
    phases: tuple[_Phase, ...]

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        phases = tuple(_Phase(spec.name, spec.user_bytes_per_operation) for spec in run.measured)
        return cls(run.path, run.result.device.capacity, phases)


def _compute(runs: Sequence[RunRecord]) -> Iterator[tuple[Steady, ...]]:
    return parallel.each(_label_run, [_LabelJob.of(run) for run in runs])


def _label_run(job: _LabelJob) -> tuple[Steady, ...]:
    written = _written(job.folder / "series" / "diskstats.csv")
    found: list[Steady] = []
    filled: float | None = None
    for phase in job.phases:
        operations = _column(job.folder / "series" / f"{phase.name}.csv", "operations")
        if operations is None or written is None:
            found.append(Steady(SteadyLabel.TOO_SHORT, None, None, 0, _NO_SERIES))
            continue
        filled = written.at(operations.t[0]) if filled is None else filled
        found.append(judge(_progress(job, phase, operations, written, filled)))
    return tuple(found)


def count_labels(phases: Sequence[PhaseSteady]) -> str:
    """Return ``steady x2, not steady x1``, in the order of SteadyLabel; '' without a series."""
    labels = [phase.steady.label for phase in phases if phase.recorded]
    return ", ".join(f"{label} x{labels.count(label)}" for label in SteadyLabel if label in labels)


def window(steady: Steady) -> str:
    """Return the rounds and their checks in one phrase."""
    if steady.begin is None or steady.end is None:
        return steady.why
    return f"{steady.rounds} rounds from {steady.begin:.4g} to {steady.end:.4g} s: {steady.why}"


def _progress(
    job: _LabelJob, phase: _Phase, operations: TimeSeries, written: TimeSeries, filled: float
) -> PhaseSeries:
    # The start of the first interval is not recorded: count from its end.
    done = tuple(accumulate((0.0, *operations.values[1:])))
    pending = _column(job.folder / "series" / f"{phase.name}.lsm.csv", "pending_compaction_bytes")
    curve = TimeSeries(operations.t, done)
    return PhaseSeries(curve, written, pending, phase.payload, job.capacity, filled)


def _column(path: Path, name: str) -> TimeSeries | None:
    header, columns = read_by_column(path)
    if name not in header or not columns[0]:
        return None
    return TimeSeries(tuple(columns[0]), tuple(columns[header.index(name)]))


def _written(path: Path) -> TimeSeries | None:
    header, columns = read_by_column(path)
    own = [
        values
        for name, values in zip(header, columns, strict=True)
        if name.endswith(".write_bytes")
    ]
    if not own or not columns[0]:
        return None
    return TimeSeries(tuple(columns[0]), tuple(map(sum, zip(*own, strict=True))))


def _cuts(progress: PhaseSeries) -> list[float]:
    """Return the edges of rounds: equal device writes, or equal times where nothing is written."""
    first, last = progress.operations.t[0], progress.operations.t[-1]
    count = min(trend.BLOCKS, int((last - first) / SHORTEST))
    if count < 1:
        return [last]
    parts = [index / count for index in range(1, count)]
    begin, end = progress.written.at(first), progress.written.at(last)
    if progress.payload and end > begin:
        inner = [progress.written.last_at_most(begin + part * (end - begin)) for part in parts]
    else:
        inner = [first + part * (last - first) for part in parts]
    cuts = [first, *inner, last]
    return cuts if all(a < b for a, b in pairwise(cuts)) else [last]


def _rates(curve: TimeSeries, cuts: Sequence[float]) -> list[float]:
    return [(curve.at(b) - curve.at(a)) / (b - a) for a, b in pairwise(cuts)]


def _turnover(progress: PhaseSeries) -> float:
    """Return the device writes from the fill to the phase's end, in capacities."""
    if not progress.payload:
        return TURNOVER
    return (progress.written.at(progress.operations.t[-1]) - progress.filled) / progress.capacity


def _relative(values: Sequence[float], scale: float | None = None) -> trend.LinearTrend:
    """Return the change over all rounds as a share of ``scale``, by default of their mean."""
    rounds = np.array(values, dtype=np.float64)
    return trend.change(rounds / (scale or float(rounds.mean())))


def _of_writes(progress: PhaseSeries, cuts: Sequence[float]) -> Iterator[_Check]:
    """Yield the checks of a phase that writes.

    Rounds have equal device bytes, so their user bytes have the mean 1 / write amplification. The
    inverse is finite also in a round where the level only collects. Bytes that wait for compaction
    can be 0, so their scale is the user's bytes.
    """
    user = [
        progress.payload * (progress.operations.at(b) - progress.operations.at(a))
        for a, b in pairwise(cuts)
    ]
    yield _Check("user bytes per device byte", _relative(user))
    if progress.pending is not None:
        means = [progress.pending.mean(a, b) for a, b in pairwise(cuts)]
        yield _Check("pending compaction of user bytes", _relative(means, sum(user)))
