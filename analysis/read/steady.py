"""Labels phases by whether they ended in a steady state, after SNIA's PTS (docs/methods.md).

The last five rounds are checked: throughput, write amplification and pending compaction. A phase
is "steady" only if its data show it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, Self

from analysis.read import parallel
from analysis.read.load import RunRecord
from analysis.read.memo import Memo
from analysis.read.series import read_by_column

# SNIA Solid State Storage Performance Test Specification, "Steady State": over the last five
# rounds, max - min within 20 % of the mean, and the linear fit moves by at most 10 % of it.
ROUNDS = 5
MOST_RANGE = 0.20
MOST_SLOPE = 0.10
# A round is the time in which a tenth of the capacity is written. It takes at least SHORTEST
# seconds, because series have one sample a second.
ROUND_SHARE = 0.1
SHORTEST = 5.0


class Label(StrEnum):
    """The state in which a phase ended."""

    STEADY = "steady"
    NOT_STEADY = "not steady"
    TOO_SHORT = "too short"


@dataclass(frozen=True, slots=True)
class Steady:
    """A label and its window in seconds since the run began, None without rounds.

    ``throughputs`` has one value per round of the window, in operations per second.
    """

    label: Label
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


@dataclass(frozen=True, slots=True)
class Curve:
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

    def last_at_most(self, value: float) -> float | None:
        """Return the last time at which a rising curve is at most ``value``; None if never."""
        right = bisect_right(self.values, value)
        if right == 0:
            return None
        if right == len(self.values):
            return self.t[-1]
        (a, b), (x, y) = self.t[right - 1 : right + 1], self.values[right - 1 : right + 1]
        return a + (b - a) * (value - x) / (y - x)

    def mean(self, begin: float, end: float) -> float:
        """Return the mean over time. Each value holds until the next point."""
        first, last = bisect_right(self.t, begin), bisect_left(self.t, end)
        edges = [begin, *self.t[first:last], end]
        held = [self.values[max(first - 1, 0)], *self.values[first:last]]
        area = sum(value * (b - a) for value, (a, b) in zip(held, pairwise(edges), strict=True))
        return area / (end - begin)


@dataclass(frozen=True, slots=True)
class Progress:
    """The recorded progress of a phase.

    Attributes:
        operations: done since the phase's first sample.
        written: bytes written to all devices since the run began.
        pending: compaction bytes; None if not recorded.
        payload: user bytes per operation; 0 for phases that only read.
        capacity: bytes of the namespace.
    """

    operations: Curve
    written: Curve
    pending: Curve | None
    payload: int
    capacity: int


def judge(progress: Progress) -> Steady:
    """Label a phase by its last rounds."""
    cuts = _cuts(progress)
    rounds = len(cuts) - 1
    rates = tuple(_rates(progress.operations, cuts))
    begin, end = (cuts[0], cuts[-1]) if rounds else (None, None)
    if rounds < ROUNDS:
        return Steady(Label.TOO_SHORT, begin, end, rounds, f"{rounds} of {ROUNDS} rounds", rates)
    done = progress.written.at(cuts[-1]) - progress.written.values[0]
    if progress.payload and done < progress.capacity:
        share = f"only {done / progress.capacity:.0%} of the capacity written since the run began"
        return Steady(Label.TOO_SHORT, begin, end, rounds, share, rates)
    checks = [_check("throughput", rates)]
    if progress.payload:
        checks += [_write_amplification(progress, cuts), _pending(progress, cuts)]
    good = all(passed for passed, _ in checks)
    why = "; ".join(text for _, text in checks)
    return Steady(Label.STEADY if good else Label.NOT_STEADY, begin, end, rounds, why, rates)


_labels: Memo[tuple[Steady, ...]] = Memo()


def label_phases(runs: Sequence[RunRecord]) -> tuple[PhaseSteady, ...]:
    """Return the label of every measured phase that the runs began.

    Raises:
        RunFailed: a series is not numeric.
    """
    labels = _labels.get(runs, _compute)
    return tuple(
        PhaseSteady(run, phase.name, label)
        for run, own in zip(runs, labels, strict=True)
        for phase, label in zip(run.measured, own, strict=True)
    )


class _Phase(NamedTuple):
    """A measured phase; ``payload`` is user bytes per operation."""

    name: str
    payload: int


@dataclass(frozen=True, slots=True)
class _Job:
    """The input of :func:`_label_run`. It is small, because it is sent to worker processes."""

    folder: Path
    capacity: int
    phases: tuple[_Phase, ...]

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        phases = tuple(_Phase(spec.name, spec.user_bytes_per_operation) for spec in run.measured)
        return cls(run.path, run.result.device.capacity, phases)


def _compute(runs: Sequence[RunRecord]) -> Iterator[tuple[Steady, ...]]:
    return parallel.each(_label_run, [_Job.of(run) for run in runs])


def _label_run(job: _Job) -> tuple[Steady, ...]:
    written = _written(job.folder / "series" / "diskstats.csv")
    return tuple(_label_phase(job, phase, written) for phase in job.phases)


def count_labels(phases: Sequence[PhaseSteady]) -> str:
    """Return ``steady x2, not steady x1``, in the order of Label; '' for no phase."""
    labels = [phase.steady.label for phase in phases]
    return ", ".join(f"{label} x{labels.count(label)}" for label in Label if label in labels)


def window(steady: Steady) -> str:
    """Return the window and its checks in one phrase."""
    if steady.begin is None or steady.end is None:
        return steady.why
    return f"{steady.rounds} rounds from {steady.begin:.1f} to {steady.end:.1f} s: {steady.why}"


def _label_phase(job: _Job, phase: _Phase, written: Curve | None) -> Steady:
    series = job.folder / "series"
    operations = _column(series / f"{phase.name}.csv", "operations")
    if operations is None or written is None:
        return Steady(Label.TOO_SHORT, None, None, 0, "no series was recorded")
    # The start of the first interval is not recorded: count from its end.
    done = tuple(accumulate((0.0, *operations.values[1:])))
    pending = _column(series / f"{phase.name}.lsm.csv", "pending_compaction_bytes")
    return judge(Progress(Curve(operations.t, done), written, pending, phase.payload, job.capacity))


def _column(path: Path, name: str) -> Curve | None:
    header, columns = read_by_column(path)
    if name not in header or not columns[0]:
        return None
    return Curve(tuple(columns[0]), tuple(columns[header.index(name)]))


def _written(path: Path) -> Curve | None:
    header, columns = read_by_column(path)
    own = [
        values
        for name, values in zip(header, columns, strict=True)
        if name.endswith(".write_bytes")
    ]
    if not own or not columns[0]:
        return None
    return Curve(tuple(columns[0]), tuple(map(sum, zip(*own, strict=True))))


def _cuts(progress: Progress) -> list[float]:
    """Return the ends of the last rounds, ascending. There is one more end than rounds."""
    first, last = progress.operations.t[0], progress.operations.t[-1]
    # A phase that writes nothing is cut into tenths of its time.
    shortest = SHORTEST if progress.payload else max(SHORTEST, (last - first) * ROUND_SHARE)
    cuts = [last]
    while len(cuts) <= ROUNDS:
        cut: float | None = cuts[0] - shortest
        if progress.payload:
            wanted = progress.written.at(cuts[0]) - ROUND_SHARE * progress.capacity
            then = progress.written.last_at_most(wanted)
            cut = min(then, cuts[0] - shortest) if then is not None else None
        if cut is None or cut < first:
            break
        cuts.insert(0, cut)
    return cuts


def _rates(curve: Curve, cuts: Sequence[float]) -> list[float]:
    return [(curve.at(b) - curve.at(a)) / (b - a) for a, b in pairwise(cuts)]


def _write_amplification(progress: Progress, cuts: Sequence[float]) -> tuple[bool, str]:
    written, done = _rates(progress.written, cuts), _rates(progress.operations, cuts)
    if not all(done):
        return False, "a round without a single operation"
    values = [h / (progress.payload * ops) for h, ops in zip(written, done, strict=True)]
    return _check("write amplification", values)


def _check(name: str, values: Sequence[float]) -> tuple[bool, str]:
    mean = sum(values) / len(values)
    if mean <= 0:
        return False, f"{name}: nothing happened"
    spread, slope = (max(values) - min(values)) / mean, abs(_rise(values)) / mean
    text = f"{name} range {spread:.0%}, slope {slope:.0%}"
    return spread <= MOST_RANGE and slope <= MOST_SLOPE, text


def _pending(progress: Progress, cuts: Sequence[float]) -> tuple[bool, str]:
    """Check that pending bytes move by at most a tenth of the user's bytes in the window.

    Pending bytes can be 0 or change with each compaction, so their own mean is no scale.
    """
    if progress.pending is None:
        return False, "pending compaction bytes are not recorded"
    means = [progress.pending.mean(a, b) for a, b in pairwise(cuts)]
    user = progress.payload * (progress.operations.at(cuts[-1]) - progress.operations.at(cuts[0]))
    if user <= 0:
        return False, "pending compaction: the user wrote nothing"
    share = abs(_rise(means)) / user
    return share <= MOST_SLOPE, f"pending compaction moves by {share:.0%} of the user's bytes"


def _rise(values: Sequence[float]) -> float:
    """Return the change of the least-squares line from the first value to the last."""
    n = len(values)
    middle, mean = (n - 1) / 2, sum(values) / n
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / sum(
        (i - middle) ** 2 for i in range(n)
    )
    return slope * (n - 1)
