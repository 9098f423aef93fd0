"""Splits the spread of rounds into a part between runs and a part within runs.

The unit of replication is the run. Its rounds share a device state, a boot and a seed. They are
averaged and never counted as repetitions (pseudo-replication, Hurlbert 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.judge import stats
from analysis.judge.stats import Interval
from analysis.read.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Components:
    """Variance between runs and within them, in squared units of the values.

    ``interval`` bounds the mean of the runs' means.
    """

    runs: int
    rounds: int
    between: float
    within: float
    interval: Interval

    @property
    def share_between(self) -> float | None:
        """Intraclass correlation; None if nothing varies."""
        total = self.between + self.within
        return self.between / total if total > 0 else None


def components(runs: Sequence[Sequence[float]]) -> Components | None:
    """Split the variance of values given as rounds of runs; None for fewer than two runs.

    One-way analysis of variance with random effects (Searle 1971): within = MSW, between =
    (MSB - MSW) / n₀, n₀ = (N - Σn²/N) / (k - 1); negative estimates are 0.
    """
    groups = [np.array(values, dtype=np.float64) for values in runs if values]
    count = sum(map(len, groups))
    if len(groups) < stats.MINIMUM_RUNS or count <= len(groups):
        return None
    means: FloatArray = np.array([group.mean() for group in groups])
    grand = sum(float(group.sum()) for group in groups) / count
    msw = sum(float(((g - g.mean()) ** 2).sum()) for g in groups) / (count - len(groups))
    spread = sum(len(g) * float(m - grand) ** 2 for g, m in zip(groups, means, strict=True))
    size = (count - sum(len(group) ** 2 for group in groups) / count) / (len(groups) - 1)
    between = max(0.0, (spread / (len(groups) - 1) - msw) / size)
    return Components(len(groups), count, between, msw, stats.paired_t(means))
