"""Statistics of one ratio over several campaigns: pure functions on numbers.

The unit of replication is the campaign, because campaigns differ by more than their errors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.judge import stats
from analysis.judge.stats import Interval
from analysis.read.arrays import FloatArray


class Pooled(NamedTuple):
    """The interval of the mean, and the share of the variance that is between campaigns (I²)."""

    interval: Interval
    share: FloatArray


def random_effects(centers: FloatArray, errors: FloatArray) -> Pooled:
    """Pool log ratios of campaigns, shape (..., campaigns), at least two.

    Random effects with τ² = max(0, s² - ē²) (Hedges & Olkin 1985, 9.3). s² is the variance of the
    centers, ē² the mean of the squared errors. Campaigns of one study have equal weights: errors of
    three runs are too uncertain for weights, and cover 89 % with them. The error is Hartung &
    Knapp's (2001), not below the error of random effects (Röver, Knapp & Friede 2015):
    √(max(s², ē²) / k), with Student's t at k - 1 degrees of freedom.
    """
    count = centers.shape[-1]
    spread = np.var(centers, axis=-1, ddof=1)
    within = np.mean(errors**2, axis=-1)
    error = np.sqrt(np.maximum(spread, within) / count)
    df = np.full_like(error, count - 1)
    between = np.maximum(0.0, spread - within)
    share = np.divide(between, spread, out=np.zeros_like(between), where=spread > 0)
    return Pooled(stats.t_interval(np.mean(centers, axis=-1), error, df), share)
