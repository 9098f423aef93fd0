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

from analysis.load import RunRecord
from analysis.series import read_columns
from harness.store.spec import PhaseSpec

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


def of_run(run: RunRecord) -> tuple[PhaseSteady, ...]:
    """Return the label of every measured phase that a run has begun.

    Raises:
        RunFailed: a series is not numeric.
    """
    written = _written(run.path / "series" / "diskstats.csv")
    return tuple(
        PhaseSteady(run, spec.name, _of_phase(run, spec, written)) for spec in run.measured
    )


def counted(found: Sequence[PhaseSteady]) -> str:
    """Return ``steady x2, not steady x1``, labels in their order; '' for nothing."""
    labels = [one.steady.label for one in found]
    return ", ".join(f"{label} x{labels.count(label)}" for label in Label if label in labels)


def window(steady: Steady) -> str:
    """Return the window and what was found in it, in one phrase."""
    if steady.begin is None or steady.end is None:
        return steady.why
    return f"{steady.rounds} rounds from {steady.begin:.1f} to {steady.end:.1f} s: {steady.why}"


def _of_phase(run: RunRecord, spec: PhaseSpec, written: Curve | None) -> Steady:
    series = run.path / "series"
    operations = _column(series / f"{spec.name}.csv", "operations")
    if operations is None or written is None:
        return Steady(Label.TOO_SHORT, None, None, 0, "no series was recorded")
    # The first interval began at a time that is not told: count from its end.
    done = tuple(accumulate((0.0, *operations.values[1:])))
    pending = _column(series / f"{spec.name}.lsm.csv", "pending_compaction_bytes")
    return judge(
        Load(
            Curve(operations.t, done), written, pending,
            spec.user_bytes_per_operation, run.result.device.capacity,
        )
    )  # fmt: skip


def _column(path: Path, name: str) -> Curve | None:
    header, rows = read_columns(path)
    if not rows or name not in header:
        return None
    column = header.index(name)
    return Curve(tuple(row[0] for row in rows), tuple(row[column] for row in rows))


def _written(path: Path) -> Curve | None:
    header, rows = read_columns(path)
    columns = [i for i, name in enumerate(header) if name.endswith(".write_bytes")]
    if not rows or not columns:
        return None
    return Curve(tuple(row[0] for row in rows), tuple(sum(row[i] for i in columns) for row in rows))


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
