"""The ratio of two alternating sides, as both benchmarks report it."""

from __future__ import annotations

import math
import statistics

import numpy as np

from analysis.judge.stats import paired_t


def interval(logs: list[float]) -> tuple[float, float, float]:
    """Return the ratio and its 95 % interval: paired t on log ratios, unbounded for one pair."""
    ratio = math.exp(statistics.fmean(logs))
    if len(logs) < 2:
        return ratio, 0.0, math.inf
    found = paired_t(np.asarray(logs), 0.95)
    return ratio, math.exp(float(found.low)), math.exp(float(found.high))
