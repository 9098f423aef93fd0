"""Labels phases by whether their numbers change while they are measured (docs/methods.md).

A phase is cut into rounds of equal device writes, which are averaged over the runs of a cell. It is
"steady" only if the rounds exclude large changes of user bytes per device byte, of throughput, and
of bytes that wait for compaction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Self

import numpy as np

from analysis.read import parallel, trend
from analysis.read.arrays import FloatArray
from analysis.read.load import RunRecord
from analysis.read.memo import Memo
from analysis.read.series import read_columns, read_written
from harness.store.spec import PhaseSpec

# A phase is steady only after these device writes since the fill, in capacities.
TURNOVER = 1.0
SHORTEST = 2.0  # seconds of a round on this machine's clock; a sample takes at least 1 s
_NO_SERIES = "no series was recorded"
_THROUGHPUT = "throughput"
_ENDS = 2  # rounds left out: the first and the last


class SteadyLabel(StrEnum):
    """The state of a phase."""

    STEADY = "steady"
    NOT_STEADY = "not steady"
    TOO_SHORT = "too short"

    @property
    def words(self) -> str:
        """The label in a sentence."""
        return f"{self} to show a steady state" if self is SteadyLabel.TOO_SHORT else str(self)


@dataclass(frozen=True, slots=True)
class Rounds:
    """A phase of one run in rounds, without the first and the last one.

    Attributes:
        window: begin and end in seconds since the run began, None without rounds.
        throughputs: operations per second of each round. On a modelled drive, seconds are the
            model's.
        shares: quantity → its value in each round, as a share of its mean.
        turnover: device writes from the fill to the end, in capacities; None if it only reads.
    """

    window: tuple[float, float] | None
    throughputs: tuple[float, ...] = ()
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    turnover: float | None = None


@dataclass(frozen=True, slots=True)
class Steady:
    """A label, and the mean window of the runs, which is None if a run has no rounds."""

    label: SteadyLabel
    begin: float | None
    end: float | None
    rounds: int
    why: str


@dataclass(frozen=True, slots=True)
class PhaseSteady:
    """A measured phase of a group of runs with its label.

    Attributes:
        value: of the contrasted factor.
        stratum: the other factors that vary; may be empty.
        phase: its name.
        runs: those with a series.
        steady: the label.
        throughputs: operations per second of each round, by run.
    """

    value: str
    stratum: str
    phase: str
    runs: tuple[RunRecord, ...]
    steady: Steady
    throughputs: tuple[tuple[float, ...], ...] = ()

    @property
    def recorded(self) -> bool:
        """Whether there is a series; points of fio and single requests have none."""
        return bool(self.runs)


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


def rounds_of(progress: PhaseSeries) -> Rounds:
    """Cut a phase into at most trend.BLOCKS rounds."""
    cuts, turnover = _cuts(progress), _turnover(progress)
    if not cuts:
        return Rounds(None, turnover=turnover)
    at = progress.operations.at
    rates = tuple((at(b) - at(a)) / (b - a) for a, b in pairwise(cuts))
    shares = {_THROUGHPUT: _shares(rates)}
    if progress.payload:
        shares |= _shares_of_writes(progress, cuts)
    return Rounds((cuts[0], cuts[-1]), rates, shares, turnover)


def judge(runs: Sequence[Rounds]) -> Steady:
    """Label a phase by the rounds of all its runs, at least one."""
    count = min(len(run.throughputs) for run in runs)
    windows = [run.window for run in runs if run.window is not None]
    begin, end = map(fmean, zip(*windows, strict=True)) if count else (None, None)
    if count < trend.FEWEST:
        why = f"{count} of {trend.FEWEST} rounds of {SHORTEST:g} s"
        return Steady(SteadyLabel.TOO_SHORT, begin, end, count, why)
    common = set.intersection(*[set(run.shares) for run in runs])
    means = {
        name: np.mean([_rebinned(run.shares[name], count) for run in runs], axis=0)
        for name in runs[0].shares
        if name in common
    }
    if not means[_THROUGHPUT].all():
        return Steady(SteadyLabel.NOT_STEADY, begin, end, count, "a round without an operation")
    checks = [_Check(name, trend.change(values)) for name, values in means.items()]
    written = [run.turnover for run in runs if run.turnover is not None]
    label = SteadyLabel.STEADY
    if any(bool(check.change.drifts) for check in checks):
        label = SteadyLabel.NOT_STEADY
    elif min(written, default=TURNOVER) < TURNOVER or not all(
        bool(check.change.steady) for check in checks
    ):
        label = SteadyLabel.TOO_SHORT
    why = "; ".join(map(str, checks))
    if written:
        why = f"{min(written):.0%} of the capacity written after the fill; {why}"
    return Steady(label, begin, end, count, why)


_rounds: Memo[tuple[Rounds | None, ...]] = Memo()
_Group = tuple[str, str]


def label_phases(
    runs: Sequence[RunRecord], group: Callable[[RunRecord], _Group]
) -> tuple[PhaseSteady, ...]:
    """Return the label of every measured phase that the runs began, sorted by phase and group.

    Args:
        runs: of any groups.
        group: returns the value of the contrasted factor, and the stratum.

    Raises:
        RunFailed: a series is not numeric.
    """
    found: dict[tuple[str, _Group], list[tuple[RunRecord, Rounds]]] = {}
    every = _rounds.get(
        runs, lambda fresh: parallel.each(_rounds_of_run, [_RoundsJob.of(run) for run in fresh])
    )
    for run, own in zip(runs, every, strict=True):
        of_run, second = group(run), run.seconds(1.0)
        for phase, rounds in zip(run.measured, own, strict=True):
            known = found.setdefault((phase.name, of_run), [])
            if rounds is not None:
                known.append((run, _on_model_clock(rounds, second)))
    return tuple(_labelled(*key, found[key]) for key in sorted(found))


def _labelled(phase: str, group: _Group, known: Sequence[tuple[RunRecord, Rounds]]) -> PhaseSteady:
    if not known:
        none = Steady(SteadyLabel.TOO_SHORT, None, None, 0, _NO_SERIES)
        return PhaseSteady(*group, phase, (), none)
    runs, rounds = zip(*known, strict=True)
    rates = tuple(one.throughputs for one in rounds)
    return PhaseSteady(*group, phase, runs, judge(rounds), rates)


def _on_model_clock(rounds: Rounds, second: float) -> Rounds:
    """Return rounds with the model's times; ``second`` is a machine's second in model time."""
    if second == 1.0 or rounds.window is None:
        return rounds
    begin, end = rounds.window
    rates = tuple(rate / second for rate in rounds.throughputs)
    return replace(rounds, window=(begin * second, end * second), throughputs=rates)


@dataclass(frozen=True, slots=True)
class _RoundsJob:
    """The input of :func:`_rounds_of_run`. It is small, because it is sent to worker processes."""

    folder: Path
    capacity: int
    phases: tuple[PhaseSpec, ...]  # the measured ones

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        return cls(run.path, run.result.device.capacity, run.measured)


def _rounds_of_run(job: _RoundsJob) -> tuple[Rounds | None, ...]:
    """Return the rounds of each phase, None without a series."""
    written = _written(job.folder)
    found: list[Rounds | None] = []
    filled: float | None = None
    for phase in job.phases:
        operations = _column(job.folder / "series" / f"{phase.name}.csv", "operations")
        if operations is None or written is None:
            found.append(None)
            continue
        filled = written.at(operations.t[0]) if filled is None else filled
        found.append(rounds_of(_progress(job, phase, operations, written, filled)))
    return tuple(found)


def window(steady: Steady) -> str:
    """Return the rounds and their checks as one phrase."""
    if steady.begin is None or steady.end is None:
        return steady.why
    return f"{steady.rounds} rounds from {steady.begin:.4g} to {steady.end:.4g} s: {steady.why}"


def _progress(
    job: _RoundsJob, phase: PhaseSpec, operations: TimeSeries, written: TimeSeries, filled: float
) -> PhaseSeries:
    # The start of the first interval is not recorded, so operations count from its end.
    done = tuple(accumulate((0.0, *operations.values[1:])))
    pending = _column(job.folder / "series" / f"{phase.name}.lsm.csv", "pending_compaction_bytes")
    curve = TimeSeries(operations.t, done)
    payload = phase.user_bytes_per_operation
    return PhaseSeries(curve, written, pending, payload, job.capacity, filled)


def _column(path: Path, name: str) -> TimeSeries | None:
    header, columns = read_columns(path)
    if name not in header or not columns[0]:
        return None
    return TimeSeries(tuple(columns[0]), tuple(columns[header.index(name)]))


def _written(folder: Path) -> TimeSeries | None:
    times, written = read_written(folder)
    if not written or not times:
        return None
    return TimeSeries(tuple(times), tuple(map(sum, zip(*written.values(), strict=True))))


def _cuts(progress: PhaseSeries) -> list[float]:
    """Return the edges of rounds, none if they are too short.

    Rounds have equal device writes, or equal times where nothing is written.

    The first and the last round are left out: a phase begins with nothing to compact, and ends in
    the middle of a burst of writes.
    """
    first, last = progress.operations.t[0], progress.operations.t[-1]
    count = min(trend.BLOCKS + _ENDS, int((last - first) / SHORTEST))
    if count <= _ENDS:
        return []
    parts = [index / count for index in range(1, count)]
    begin, end = progress.written.at(first), progress.written.at(last)
    if progress.payload and end > begin:
        cuts = [progress.written.last_at_most(begin + part * (end - begin)) for part in parts]
    else:
        cuts = [first + part * (last - first) for part in parts]
    return cuts if all(a < b for a, b in pairwise(cuts)) else []


def _turnover(progress: PhaseSeries) -> float | None:
    """Return the device writes from the fill to the phase's end, in capacities."""
    if not progress.payload:
        return None
    return (progress.written.at(progress.operations.t[-1]) - progress.filled) / progress.capacity


def _shares(values: Sequence[float], scale: float | None = None) -> tuple[float, ...]:
    """Return values over ``scale``, by default their mean. Zeros stay zeros."""
    scale = sum(values) / len(values) if scale is None else scale
    return tuple(value / (scale or 1.0) for value in values)


def _shares_of_writes(progress: PhaseSeries, cuts: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """Return the shares of a phase that writes.

    Rounds have equal device bytes, so their user bytes have the mean 1 / write amplification. The
    inverse is finite even in a round in which the level only collects garbage. Bytes that wait for
    compaction can be 0, so they are scaled by user bytes.
    """
    user = [
        progress.payload * (progress.operations.at(b) - progress.operations.at(a))
        for a, b in pairwise(cuts)
    ]
    found = {"user bytes per device byte": _shares(user)}
    if progress.pending is not None:
        means = [progress.pending.mean(a, b) for a, b in pairwise(cuts)]
        found["pending compaction of user bytes"] = _shares(means, sum(user))
    return found


def _rebinned(values: Sequence[float], count: int) -> FloatArray:
    """Return ``count`` means of equal parts of the values."""
    edges = np.linspace(0, len(values), count + 1)
    sums = np.interp(edges, np.arange(len(values) + 1), np.cumsum((0.0, *values)))
    return np.asarray(np.diff(sums) * (count / len(values)), dtype=np.float64)
