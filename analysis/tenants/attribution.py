"""Test whether a tenant's latency peaks coincide with zone events of another tenant.

The test counts the other tenant's events in the window of each peak. For comparison it shifts these
events circularly in time: that keeps each series' own autocorrelation and removes only the relation
between the two. See docs/methods.md, "Tenants".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.ndimage import median_filter

from analysis.judge import stats
from analysis.read.arrays import FloatArray, IntArray

# At most 5 % of undisturbed mixes should name a tenant. A level of 5 % did so in 2 to 6 % of
# simulated mixes, because a series has ends and a circle has none. So a lower level is used.
LEVEL = 0.03
# A peak exceeds the median by this many robust standard deviations of the logs.
_PEAK = 3.0
_NORMAL_MAD = 1.4826  # standard deviation of a normal variable / its median absolute deviation
_LEAST_SPREAD = 0.02  # of logs: in a flat series, peaks exceed 6 %
_LEAST_PEAKS = 3
_LEAST_SAMPLES = 15
# A peak's window begins one sample before the peak and ends with its highest sample.
_BEFORE = 1
_DRAWS = 1999
_SEED = 7
_ROUNDING = 1e-9  # sums in another order differ less


@dataclass(frozen=True, slots=True)
class Peak:
    """An excursion of a latency: indexes of its first and of its highest sample."""

    first: int
    highest: int


@dataclass(frozen=True, slots=True)
class AlignedRun:
    """One run on a grid of equal intervals: a tenant's latency and the others' events.

    ``latency`` has shape (n,), positive, in any unit, NaN while the tenant does not run.
    ``events``: other tenant → kind → counts of shape (n,).
    """

    latency: FloatArray
    events: Mapping[str, Mapping[str, FloatArray]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CoincidenceTest:
    """One tenant's peaks against another tenant's events, over all runs.

    ``with_events`` of ``peaks`` have an event of ``kind`` in their window; chance alone gives
    ``expected``. ``kind`` is the kind that coincides most, '' for none. ``p_value`` is null with
    too few peaks or no events. ``p_holm`` is adjusted for all tests of its step.
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
        """Whether peaks and events coincide more often than by chance."""
        return self.p_holm is not None and self.p_holm < LEVEL


@dataclass(frozen=True, slots=True)
class Suspect:
    """One tenant's events against the peaks of all others together (``whole``) and of each.

    ``whole.tenant`` is empty. A finding about one tenant is named only if ``whole`` is named.
    """

    name: str
    whole: CoincidenceTest
    findings: tuple[CoincidenceTest, ...]

    @property
    def named(self) -> bool:
        """Whether the tenant's events coincide with others' peaks more often than by chance."""
        return self.whole.named


def attribute(observed: Mapping[str, Sequence[AlignedRun]]) -> list[Suspect]:
    """Test every tenant's events against the peaks of all others.

    The first step tests each tenant against all others together, Holm-corrected over the tenants.
    The second tests it against each other tenant, Holm-corrected within that tenant. In an
    undisturbed mix the chance of any named tenant stays below 5 % for any number of tenants.

    ``observed`` has each tenant's runs, in the same order for all tenants.
    """
    names = (name for runs in observed.values() for run in runs for name in run.events)
    suspects = list(dict.fromkeys(names))
    wholes, parts = [], []
    for suspect in suspects:
        victims = {
            tenant: [
                _Run(peaks(run.latency), run.events.get(suspect, {}), len(run.latency))
                for run in runs
            ]
            for tenant, runs in observed.items()
            if tenant != suspect
        }
        wholes.append(_finding("", suspect, victims))
        parts.append([_finding(name, suspect, {name: runs}) for name, runs in victims.items()])
    return [
        Suspect(
            whole.suspect, whole, tuple(_holm(part, 1.0 if whole.p_holm is None else whole.p_holm))
        )
        for whole, part in zip(_holm(wholes), parts, strict=True)
    ]


def peaks(latency: FloatArray) -> list[Peak]:
    """Return the peaks of a latency: excursions of its log above the local baseline.

    The baseline is a slope plus the running median over a fifth of the series. So neither a slow
    rise nor a step is a peak. Threshold as in Iglewicz & Hoaglin 1993.
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
    """One run of ``length`` samples: a tenant's peaks, and a suspect's events by kind."""

    peaks: list[Peak]
    events: Mapping[str, FloatArray]
    length: int

    def windows(self, kind: str) -> FloatArray:
        return _in_windows(self.peaks, self.events.get(kind, np.zeros(self.length)))


def _finding(tenant: str, suspect: str, victims: Mapping[str, Sequence[_Run]]) -> CoincidenceTest:
    everywhere = [run for runs in victims.values() for run in runs]
    count = sum(len(run.peaks) for run in everywhere)
    kinds = sorted({kind for run in everywhere for kind, n in run.events.items() if n.any()})
    if count < _LEAST_PEAKS or not kinds:
        return CoincidenceTest(tenant, suspect, count)
    windows = {
        kind: [[run.windows(kind) for run in runs] for runs in victims.values()] for kind in kinds
    }
    shifts = _shifts([run.length for run in next(iter(victims.values()))])
    no_events = np.zeros(len(shifts))
    totals = np.array(
        [sum((_totals(table, shifts) for table in windows[kind]), no_events) for kind in kinds]
    )
    deviation = totals.std(axis=1)
    # Compares the largest score of all kinds with the largest by chance (Westfall & Young 1993).
    scores = np.divide(
        totals - totals.mean(axis=1, keepdims=True),
        deviation[:, None],
        out=np.zeros_like(totals),
        where=deviation[:, None] > 0,
    )
    largest = scores.max(axis=0)
    kind = kinds[int(np.argmax(scores[:, 0]))]
    hits = [table > 0 for tables in windows[kind] for table in tables]
    return CoincidenceTest(
        tenant,
        suspect,
        count,
        kind,
        with_events=sum(int(table[:, 0].sum()) for table in hits),
        expected=sum(float(table.mean(axis=1).sum()) for table in hits),
        p_value=float(np.mean(largest >= largest[0] - _ROUNDING)),
    )


def _in_windows(excursions: Sequence[Peak], events: FloatArray) -> FloatArray:
    """Return the events in each peak's window at every shift, shape (peaks, n); shift 0 first."""
    n = len(events)
    if not excursions:
        return np.zeros((0, n))
    sums = np.concatenate(([0.0], np.cumsum(np.tile(events, 3))))
    begin = np.array([peak.first - _BEFORE for peak in excursions])[:, None] + n
    end = np.array([peak.highest + 1 for peak in excursions])[:, None] + n
    shift = np.arange(n)[None, :]
    return np.asarray(sums[end - shift] - sums[begin - shift], dtype=np.float64)


def _shifts(lengths: Sequence[int]) -> IntArray:
    """Return shifts to try, shape (tries, runs); the first is 0 in all runs.

    One run gets every possible shift; several runs get independent random shifts.
    """
    if len(lengths) == 1:
        return np.arange(lengths[0], dtype=np.int64)[:, None]
    rng = np.random.default_rng(_SEED)
    drawn = rng.integers(0, lengths, size=(_DRAWS, len(lengths)))
    return np.concatenate((np.zeros((1, len(lengths)), dtype=np.int64), drawn))


def _totals(windows: Sequence[FloatArray], shifts: IntArray) -> FloatArray:
    """Return Σ log(1 + events) over all peaks of all runs, for each row of shifts.

    The log gives few events in many windows more weight than many events in one.
    """
    total = np.zeros(len(shifts))
    for run, table in enumerate(windows):
        total += np.log1p(table).sum(axis=0)[shifts[:, run]]
    return total


def _slope(values: FloatArray) -> float:
    """Return the slope of Tukey's resistant line, which removes a trend from the running median."""
    third = len(values) // 3
    return float(np.median(values[-third:]) - np.median(values[:third])) / (len(values) - third)


def _holm(findings: Sequence[CoincidenceTest], least: float = 0.0) -> list[CoincidenceTest]:
    """Return the findings with adjusted p values of at least ``least``."""
    tested = [index for index, finding in enumerate(findings) if finding.p_value is not None]
    adjusted = stats.holm([findings[index].p_value or 0.0 for index in tested])
    p_holm = dict(zip(tested, adjusted, strict=True))
    return [
        replace(finding, p_holm=max(p_holm[index], least)) if index in p_holm else finding
        for index, finding in enumerate(findings)
    ]
