"""Do a tenant's latency peaks come with what another tenant does to its zones?

For each peak the events of another tenant in its window are counted. Shifting that tenant's events
around the circle of the window keeps how both series follow on themselves, and takes away only
what they have to do with each other: the test of docs/methods.md, "Tenants".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from analysis import stats
from analysis.stats import FloatArray

# Wanted: at most 5 % of mixes in which nobody disturbs name somebody. At 5 % simulated ones did in
# 2 to 6 % (a series has ends, a circle has none), so it is held to less.
LEVEL = 0.03
# A sample is in a peak from here on: the median plus so many robust standard deviations, of logs.
_PEAK = 3.0
_NORMAL_MAD = 1.4826  # standard deviation of a normal variable / its median absolute deviation
_LEAST_SPREAD = 0.02  # of logs: 2 %; a series that hardly moves has no peaks of less than 6 %
_LEAST_PEAKS = 3
_LEAST_SAMPLES = 15
# An event is in a peak's window from one sample before the peak until its highest sample.
_BEFORE = 1
_DRAWS = 1999
_SEED = 7
_ROUNDING = 1e-9  # sums of equal terms in another order

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Peak:
    """An excursion of a latency: first sample above the threshold, and the highest one."""

    first: int
    highest: int


@dataclass(frozen=True, slots=True)
class Observed:
    """One run: a tenant's latency, and the others' events, on a grid of equal intervals.

    ``latency`` has shape (n,), positive, any unit, NaN before the tenant began and after it ended;
    ``events`` are other tenant → kind → counts, shape (n,).
    """

    latency: FloatArray
    events: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """One tenant's peaks against another one's events, over all runs.

    ``with_events`` of ``peaks`` have an event of ``kind`` in their window, ``expected`` by chance.
    ``kind`` is the one that coincides most, empty where there is none. ``p_value`` is null where
    there are too few peaks or no events; ``p_holm`` is adjusted for all that was tested.
    """

    tenant: str
    suspect: str
    peaks: int
    kind: str = ""
    with_events: int = 0
    expected: float = 0.0
    p_value: float | None = None
    p_holm: float | None = None

    @property
    def named(self) -> bool:
        """Whether they coincide more often than chance explains."""
        return self.p_holm is not None and self.p_holm < LEVEL


@dataclass(frozen=True, slots=True)
class Suspect:
    """One tenant's events against the peaks of all others: ``whole``, then one by one.

    ``whole.tenant`` is empty. A single tenant is named only where the whole is.
    """

    name: str
    whole: Finding
    findings: tuple[Finding, ...]

    @property
    def named(self) -> bool:
        """Whether it is to blame for more than chance explains."""
        return self.whole.named


def attribute(observed: Mapping[str, Sequence[Observed]]) -> list[Suspect]:
    """Hold every tenant's events against the peaks of all others.

    Two steps: who is to blame at all, Holm-corrected over the tenants; then for whose peaks,
    Holm-corrected within one that is named. So in a mix in which nobody disturbs anybody the
    chance that anyone is named stays below 5 %, however many tenants there are.

    Args:
        observed: tenant → its runs; run i of all tenants is the same one.
    """
    suspects = list(dict.fromkeys(
        name for runs in observed.values() for run in runs for name in run.events
    ))  # fmt: skip
    wholes, parts = [], []
    for suspect in suspects:
        victims = {
            tenant: [_Run(peaks(run.latency), run.events.get(suspect, {}), len(run.latency))
                     for run in runs]
            for tenant, runs in observed.items() if tenant != suspect
        }  # fmt: skip
        wholes.append(_finding("", suspect, victims))
        parts.append([_finding(name, suspect, {name: runs}) for name, runs in victims.items()])
    found = []
    for whole, part in zip(_holm(wholes), parts, strict=True):
        least = 1.0 if whole.p_holm is None else whole.p_holm
        found.append(Suspect(whole.suspect, whole, tuple(_holm(part, least))))
    return found


def peaks(latency: FloatArray) -> list[Peak]:
    """Return the peaks of a latency: excursions of its log above what is usual around them.

    What is usual is a slope and the running median over a fifth of the series, so that neither a
    slow rise nor a level that changes makes peaks; threshold as in Iglewicz & Hoaglin 1993.
    """
    there = np.flatnonzero(np.isfinite(latency))
    if len(there) < _LEAST_SAMPLES:
        return []
    begin = int(there[0])
    logs = np.log(latency[begin : int(there[-1]) + 1])
    flat = logs - _slope(logs) * np.arange(len(logs))
    width = max(_LEAST_SAMPLES, len(logs) // 5) | 1
    above = flat - median_filter(flat, size=width, mode="reflect")
    spread = max(_NORMAL_MAD * float(np.median(np.abs(above))), _LEAST_SPREAD)
    high = np.concatenate(([False], above > _PEAK * spread, [False]))
    edges = np.flatnonzero(high[1:] != high[:-1])
    return [
        Peak(begin + int(first), begin + int(first + np.argmax(logs[first:end])))
        for first, end in zip(edges[::2], edges[1::2], strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    """A tenant's peaks in one run of ``length`` samples, and a suspect's events by kind."""

    peaks: list[Peak]
    events: Mapping[str, FloatArray]
    length: int

    def windows(self, kind: str) -> FloatArray:
        return _in_windows(self.peaks, self.events.get(kind, np.zeros(self.length)))


def _finding(tenant: str, suspect: str, victims: Mapping[str, Sequence[_Run]]) -> Finding:
    everywhere = [run for runs in victims.values() for run in runs]
    count = sum(len(run.peaks) for run in everywhere)
    kinds = sorted({kind for run in everywhere for kind, n in run.events.items() if n.any()})
    if count < _LEAST_PEAKS or not kinds:
        return Finding(tenant, suspect, count)
    windows = {
        kind: [[run.windows(kind) for run in runs] for runs in victims.values()] for kind in kinds
    }
    shifts = _shifts([run.length for run in next(iter(victims.values()))])
    totals = np.array([
        sum((_totals(tables, shifts) for tables in windows[kind]), np.zeros(len(shifts)))
        for kind in kinds
    ])  # fmt: skip
    deviation = totals.std(axis=1)
    # The largest of several kinds, against the largest by chance (Westfall & Young 1993).
    scores = np.divide(
        totals - totals.mean(axis=1, keepdims=True), deviation[:, None],
        out=np.zeros_like(totals), where=deviation[:, None] > 0,
    )  # fmt: skip
    largest = scores.max(axis=0)
    kind = kinds[int(np.argmax(scores[:, 0]))]
    hits = [table > 0 for tables in windows[kind] for table in tables]
    return Finding(
        tenant, suspect, count, kind,
        with_events=sum(int(table[:, 0].sum()) for table in hits),
        expected=sum(float(table.mean(axis=1).sum()) for table in hits),
        p_value=float(np.mean(largest >= largest[0] - _ROUNDING)),
    )  # fmt: skip


def _in_windows(found: Sequence[Peak], events: FloatArray) -> FloatArray:
    """Return the events in each peak's window at every shift, shape (peaks, n); shift 0 first."""
    n = len(events)
    if not found:
        return np.zeros((0, n))
    sums = np.concatenate(([0.0], np.cumsum(np.tile(events, 3))))
    begin = np.array([peak.first - _BEFORE for peak in found])[:, None] + n
    end = np.array([peak.highest + 1 for peak in found])[:, None] + n
    shift = np.arange(n)[None, :]
    return np.asarray(sums[end - shift] - sums[begin - shift], dtype=np.float64)


def _shifts(lengths: Sequence[int]) -> IntArray:
    """Return shifts to try, shape (tries, runs), none shifted first.

    Every shift there is where one run is looked at, else draws that shift each run by its own.
    """
    if len(lengths) == 1:
        return np.arange(lengths[0], dtype=np.int64)[:, None]
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(0, lengths, size=(_DRAWS, len(lengths)))
    return np.concatenate((np.zeros((1, len(lengths)), dtype=np.int64), drawn))


def _totals(windows: Sequence[FloatArray], shifts: IntArray) -> FloatArray:
    """Return Σ log(1 + events) over all peaks of all runs, for each row of shifts.

    The log lets a hundred events in one window weigh less than a few in each of many.
    """
    total = np.zeros(len(shifts))
    for run, table in enumerate(windows):
        total += np.log1p(table).sum(axis=0)[shifts[:, run]]
    return total


def _slope(values: FloatArray) -> float:
    """Return the slope of Tukey's resistant line: a running median knows one side at its ends."""
    third = len(values) // 3
    return float(np.median(values[-third:]) - np.median(values[:third])) / (len(values) - third)


def _holm(found: Sequence[Finding], least: float = 0.0) -> list[Finding]:
    """Return the findings with adjusted p values, of which none is below ``least``."""
    tested = [index for index, one in enumerate(found) if one.p_value is not None]
    adjusted = stats.holm([found[index].p_value or 0.0 for index in tested])
    p_holm = dict(zip(tested, adjusted, strict=True))
    return [
        replace(one, p_holm=max(p_holm[index], least)) if index in p_holm else one
        for index, one in enumerate(found)
    ]
