"""Did a phase end in a steady state? Labels after SNIA's PTS, on rounds (docs/methods.md).

Throughput, write amplification and pending compaction are looked at in the last five rounds. What
cannot be shown to be steady is not called so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Self

from analysis import parallel
from analysis.load import Pool, RunRecord
from analysis.series import read_by_column

# SNIA Solid State Storage Performance Test Specification, "Steady State": over the last five
# rounds, max - min within 20 % of the mean, and the linear fit moves by at most 10 % of it.
ROUNDS = 5
MOST_RANGE = 0.20
MOST_SLOPE = 0.10
# A round is the time in which a tenth of the capacity is written, and long enough for series of
# one sample a second.
ROUND_SHARE = 0.1
SHORTEST = 5.0


class Label(StrEnum):
    """How a phase ended."""

    STEADY = "steady"
    NOT_STEADY = "not steady"
    TOO_SHORT = "too short"


@dataclass(frozen=True, slots=True)
class Steady:
    """The label with its window, seconds since the run began; null where there are no rounds.

    ``throughputs`` are those of the window's rounds, operations per second.
    """

    label: Label
    begin: float | None
    end: float | None
    rounds: int
    why: str
    throughputs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PhaseSteady:
    """A measured phase of a run and its label."""

    run: RunRecord
    phase: str
    steady: Steady


@dataclass(frozen=True, slots=True)
class Curve:
    """Something over time; ``t`` ascending in seconds, at least one point, equal lengths."""

    t: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, t: float) -> float:
        """Return the value at a time, linear between points, constant beyond them."""
        right = bisect_right(self.t, t)
        if right == 0 or right == len(self.t):
            return self.values[max(right - 1, 0)]
        (a, b), (x, y) = self.t[right - 1 : right + 1], self.values[right - 1 : right + 1]
        return x + (y - x) * (t - a) / (b - a)

    def last_at_most(self, value: float) -> float | None:
        """Return the last time at which a curve that never falls was ``value``; None: never."""
        right = bisect_right(self.values, value)
        if right == 0:
            return None
        if right == len(self.values):
            return self.t[-1]
        (a, b), (x, y) = self.t[right - 1 : right + 1], self.values[right - 1 : right + 1]
        return a + (b - a) * (value - x) / (y - x)

    def mean(self, begin: float, end: float) -> float:
        """Return the mean over time of a value that holds until the next point."""
        first, last = bisect_right(self.t, begin), bisect_left(self.t, end)
        edges = [begin, *self.t[first:last], end]
        held = [self.values[max(first - 1, 0)], *self.values[first:last]]
        area = sum(value * (b - a) for value, (a, b) in zip(held, pairwise(edges), strict=True))
        return area / (end - begin)


@dataclass(frozen=True, slots=True)
class Load:
    """What is known of a phase.

    ``operations`` done since its first sample; ``written`` to all devices since the run began, in
    bytes; ``pending`` compaction bytes, null where not recorded. ``payload`` is user bytes per
    operation, 0 for phases that only read; ``capacity`` that of the namespace.
    """

    operations: Curve
    written: Curve
    pending: Curve | None
    payload: int
    capacity: int


def judge(load: Load) -> Steady:
    """Label a phase by its last rounds."""
    cuts = _cuts(load)
    rounds = len(cuts) - 1
    rates = tuple(_rates(load.operations, cuts))
    begin, end = (cuts[0], cuts[-1]) if rounds else (None, None)
    if rounds < ROUNDS:
        return Steady(Label.TOO_SHORT, begin, end, rounds, f"{rounds} of {ROUNDS} rounds", rates)
    done = load.written.at(cuts[-1]) - load.written.values[0]
    if load.payload and done < load.capacity:
        share = f"only {done / load.capacity:.0%} of the capacity written since the run began"
        return Steady(Label.TOO_SHORT, begin, end, rounds, share, rates)
    checks = [_check("throughput", rates)]
    if load.payload:
        checks += [_write_amplification(load, cuts), _pending(load, cuts)]
    good = all(passed for passed, _ in checks)
    why = "; ".join(text for _, text in checks)
    return Steady(Label.STEADY if good else Label.NOT_STEADY, begin, end, rounds, why, rates)


def of_runs(pool: Pool, runs: Sequence[RunRecord]) -> tuple[PhaseSteady, ...]:
    """Return the label of every measured phase that runs of these campaigns have begun.

    Raises:
        RunFailed: a series is not numeric.
    """
    known = {campaign.label: campaign.steady for campaign in pool.campaigns}
    fresh = [run for run in runs if id(run) not in known[run.campaign]]
    found = parallel.each(_labels, [_Recorded.of(run) for run in fresh])
    for run, labels in zip(fresh, found, strict=True):
        known[run.campaign][id(run)] = run, labels
    return tuple(
        PhaseSteady(run, phase.name, label)
        for run in runs
        for phase, label in zip(run.measured, known[run.campaign][id(run)][1], strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What of a run its labels depend on: little, so that another process can be handed it."""

    folder: Path
    capacity: int
    phases: tuple[tuple[str, int], ...]  # measured ones: name, user bytes per operation

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        phases = tuple((spec.name, spec.user_bytes_per_operation) for spec in run.measured)
        return cls(run.path, run.result.device.capacity, phases)


def _labels(run: _Recorded) -> tuple[Steady, ...]:
    written = _written(run.folder / "series" / "diskstats.csv")
    return tuple(_of_phase(run, name, payload, written) for name, payload in run.phases)


def counted(found: Sequence[PhaseSteady]) -> str:
    """Return ``steady x2, not steady x1``, labels in their order; '' for nothing."""
    labels = [one.steady.label for one in found]
    return ", ".join(f"{label} x{labels.count(label)}" for label in Label if label in labels)


def window(steady: Steady) -> str:
    """Return the window and what was found in it, in one phrase."""
    if steady.begin is None or steady.end is None:
        return steady.why
    return f"{steady.rounds} rounds from {steady.begin:.1f} to {steady.end:.1f} s: {steady.why}"


def _of_phase(run: _Recorded, phase: str, payload: int, written: Curve | None) -> Steady:
    series = run.folder / "series"
    operations = _column(series / f"{phase}.csv", "operations")
    if operations is None or written is None:
        return Steady(Label.TOO_SHORT, None, None, 0, "no series was recorded")
    # The first interval began at a time that is not told: count from its end.
    done = tuple(accumulate((0.0, *operations.values[1:])))
    pending = _column(series / f"{phase}.lsm.csv", "pending_compaction_bytes")
    return judge(Load(Curve(operations.t, done), written, pending, payload, run.capacity))


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


def _cuts(load: Load) -> list[float]:
    """Return the ends of the last rounds, ascending: one more than there are rounds."""
    first, last = load.operations.t[0], load.operations.t[-1]
    # A phase that writes nothing has no such rounds: tenths of its time instead.
    shortest = SHORTEST if load.payload else max(SHORTEST, (last - first) * ROUND_SHARE)
    cuts = [last]
    while len(cuts) <= ROUNDS:
        cut: float | None = cuts[0] - shortest
        if load.payload:
            wanted = load.written.at(cuts[0]) - ROUND_SHARE * load.capacity
            then = load.written.last_at_most(wanted)
            cut = min(then, cuts[0] - shortest) if then is not None else None
        if cut is None or cut < first:
            break
        cuts.insert(0, cut)
    return cuts


def _rates(curve: Curve, cuts: Sequence[float]) -> list[float]:
    return [(curve.at(b) - curve.at(a)) / (b - a) for a, b in pairwise(cuts)]


def _write_amplification(load: Load, cuts: Sequence[float]) -> tuple[bool, str]:
    written, done = _rates(load.written, cuts), _rates(load.operations, cuts)
    if not all(done):
        return False, "a round without a single operation"
    values = [h / (load.payload * ops) for h, ops in zip(written, done, strict=True)]
    return _check("write amplification", values)


def _check(name: str, values: Sequence[float]) -> tuple[bool, str]:
    mean = sum(values) / len(values)
    if mean <= 0:
        return False, f"{name}: nothing happened"
    spread, slope = (max(values) - min(values)) / mean, abs(_rise(values)) / mean
    text = f"{name} range {spread:.0%}, slope {slope:.0%}"
    return spread <= MOST_RANGE and slope <= MOST_SLOPE, text


def _pending(load: Load, cuts: Sequence[float]) -> tuple[bool, str]:
    """What is left to compact may move by a tenth of what the user wrote in the window.

    It may well be 0, or go up and down with each compaction, so that its own mean is no measure.
    """
    if load.pending is None:
        return False, "pending compaction bytes are not recorded"
    means = [load.pending.mean(a, b) for a, b in pairwise(cuts)]
    user = load.payload * (load.operations.at(cuts[-1]) - load.operations.at(cuts[0]))
    if user <= 0:
        return False, "pending compaction: the user wrote nothing"
    share = abs(_rise(means)) / user
    return share <= MOST_SLOPE, f"pending compaction moves by {share:.0%} of the user's bytes"


def _rise(values: Sequence[float]) -> float:
    """Return how far the least-squares line moves from the first value to the last."""
    n = len(values)
    middle, mean = (n - 1) / 2, sum(values) / n
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / sum(
        (i - middle) ** 2 for i in range(n)
    )
    return slope * (n - 1)
