"""Tests whether a metric drifted over the campaign, whatever the cell.

Blocks are randomised, so a drift adds noise to a comparison but no bias. Absolute values then
depend on the time of the run, and something on the machine was not steady.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import numpy as np

from analysis.judge import stats
from analysis.judge.stats import FloatArray, Interval
from analysis.read.load import RunRecord


@dataclass(frozen=True, slots=True)
class Drift:
    """Relative change of a metric from a campaign's first run to its last, with its interval.

    ``p_holm`` is adjusted over all tested metrics.
    """

    metric: str
    change: float
    low: float
    high: float
    runs: int
    p_value: float
    p_holm: float = 1.0

    @property
    def shown(self) -> bool:
        """Whether the drift is significant."""
        return self.p_holm < 1 - stats.CONFIDENCE


def slope(groups: Sequence[str], x: FloatArray, y: FloatArray) -> Interval | None:
    """Return the common slope of y on x within groups; all have shape (n,).

    Least squares: b = Σ(x - x̄_g)(y - ȳ_g) / Σ(x - x̄_g)², s² = RSS / (n - groups - 1),
    t on n - groups - 1 degrees of freedom (analysis of covariance, Fisher 1932). None without
    degrees of freedom, or if x does not vary within any group.
    """
    within_x, within_y = x.copy(), y.copy()
    names, index = np.unique(np.array(groups), return_inverse=True)
    ends = np.cumsum(np.bincount(index))
    for here in np.split(np.argsort(index, kind="stable"), ends[:-1]):
        within_x[here] -= x[here].mean()
        within_y[here] -= y[here].mean()
    square = float(within_x @ within_x)
    df = len(x) - len(names) - 1
    if df < 1 or square <= 0:
        return None
    b = float(within_x @ within_y) / square
    rest = within_y - b * within_x
    error = math.sqrt(float(rest @ rest) / df / square)
    return stats.t_interval(np.array(b), np.array(error), np.array(float(df)))


def find_drifts(runs: Sequence[RunRecord], keys: Sequence[str]) -> tuple[Drift, ...]:
    """Return the drift of every metric that enough runs measured, Holm-adjusted."""
    ok = [_Started.of(run) for run in runs if run.ok]
    drifts = [drift for key in keys if (drift := _find_drift(ok, key)) is not None]
    adjusted = stats.holm([drift.p_value for drift in drifts])
    return tuple(
        dataclasses.replace(drift, p_holm=p) for drift, p in zip(drifts, adjusted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Started:
    """A run with its campaign, its cell on its host, and its start."""

    run: RunRecord
    campaign: str
    cell: str
    at: float

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        at = datetime.fromisoformat(run.result.started).timestamp()
        return cls(run, run.campaign, f"{run.host}/{run.cell}", at)


def _find_drift(runs: Sequence[_Started], key: str) -> Drift | None:
    values = {one: value for one in runs if (value := one.run.value(key)) is not None and value > 0}
    if not values:
        return None
    logs = np.log(np.array([*values.values()], dtype=np.float64))
    fit = slope([one.cell for one in values], _relative_starts([*values]), logs)
    if fit is None or float(fit.error) == 0:
        return None
    change, low, high = (
        math.expm1(min(float(edge), 50.0)) for edge in (fit.center, fit.low, fit.high)
    )
    return Drift(key, change, low, high, len(values), float(fit.p))


def _relative_starts(runs: Sequence[_Started]) -> FloatArray:
    """Return each run's start relative to its campaign: 0 for the first run, 1 for the last."""
    starts: dict[str, list[float]] = {}
    for one in runs:
        starts.setdefault(one.campaign, []).append(one.at)
    first = {campaign: min(times) for campaign, times in starts.items()}
    span = {campaign: max(times) - first[campaign] for campaign, times in starts.items()}
    return np.array(
        [
            (one.at - first[one.campaign]) / span[one.campaign] if span[one.campaign] else 0.0
            for one in runs
        ]
    )
