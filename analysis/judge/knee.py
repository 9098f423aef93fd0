"""The knee of a curve: the smallest depth or size that reaches nearly all of the peak.

A point is on the plateau if its true value is at least ``SHARE`` of the peak's. Each point is
compared with the peak by a t on logs over the repetitions. The largest of several noisy values is
too large, so the other repetitions decide at which x a repetition's peak is. The knee has two
bounds. For each, points are tested in order up to the first failure. So the level of the test holds
without a correction (fixed sequence, Maurer et al. 1995).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.judge import stats
from analysis.judge.stats import Interval
from analysis.read.arrays import FloatArray

SHARE = 0.95
_EDGE = math.log(SHARE)

# x → block → value.
SweepCurve = Mapping[float, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Knee:
    """The knee of the mean curve, bounds of the true one, and the place of the peak.

    The bounds are null with fewer than two repetitions. ``blocks`` have a value at every x.
    """

    at: float
    low: float | None
    high: float | None
    peak: float
    blocks: int


def find(curve: SweepCurve) -> Knee | None:
    """Return the knee over the blocks that have a value at every x; null without such a block."""
    places = sorted(curve)
    common = sorted(set.intersection(*({*curve[x]} for x in places))) if places else []
    if not common:
        return None
    logs = np.log([[curve[x][block] for block in common] for x in places])
    peak = int(np.argmax(logs.mean(axis=1)))
    means = logs.mean(axis=1)
    at = next(x for x, mean in zip(places, means, strict=True) if mean >= means[peak] + _EDGE)
    if len(common) < stats.MINIMUM_RUNS:
        return Knee(at, None, None, places[peak], len(common))
    low, high = _bounds(stats.paired_t(logs - _peaks(logs)), peak)
    return Knee(at, places[low], places[high], places[peak], len(common))


def _peaks(logs: FloatArray) -> FloatArray:
    """Return each repetition's value at the x where the others' mean is largest."""
    total = logs.sum(axis=1, keepdims=True)
    places = np.argmax(total - logs, axis=0)
    return np.asarray(logs[places, np.arange(logs.shape[1])])


def _bounds(shares: Interval, peak: int) -> tuple[int, int]:
    """Return the first x that can be on the plateau, and the last x that can begin it."""
    low, high = 0, peak
    while low < peak and shares.high[low] < _EDGE:
        low += 1
    while high > 0 and shares.low[high - 1] >= _EDGE:
        high -= 1
    return low, max(low, high)
