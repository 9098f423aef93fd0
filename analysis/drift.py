"""Did a metric move over the campaign, whatever the cell? A test on the order of the runs.

Blocks are randomised, so that a drift is noise to a comparison and no bias; but then absolute
values belong to their hour, and something on the machine was not steady.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import numpy as np

from analysis import stats
from analysis.load import RunRecord
from analysis.stats import FloatArray, Interval


@dataclass(frozen=True, slots=True)
class Drift:
    """Relative change of a metric from a campaign's first run to its last, with its interval.

    ``p_holm`` is adjusted over the metrics that were looked at.
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
        """Whether it is more than chance."""
        return self.p_holm < 1 - stats.CONFIDENCE


def slope(groups: Sequence[str], x: FloatArray, y: FloatArray) -> Interval | None:
    """Return the common slope of y on x within groups, shapes (n,), each with a mean of its own.

    Least squares: b = Σ(x - x̄_g)(y - ȳ_g) / Σ(x - x̄_g)², s² = RSS / (n - groups - 1),
    t on n - groups - 1 degrees of freedom (analysis of covariance, Fisher 1932). None where there
    are none, or where x does not vary within any group.
    """
    within_x, within_y = x.copy(), y.copy()
    names, of = np.unique(np.array(groups), return_inverse=True)
    ends = np.cumsum(np.bincount(of))
    for here in np.split(np.argsort(of, kind="stable"), ends[:-1]):
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


def of_metrics(runs: Sequence[RunRecord], keys: Sequence[str]) -> tuple[Drift, ...]:
    """Return the drift of every metric that enough runs have, Holm-adjusted over them."""
    ok = [_Started.of(run) for run in runs if run.ok]
    found = [drift for key in keys if (drift := _of_metric(ok, key)) is not None]
    adjusted = stats.holm([drift.p_value for drift in found])
    return tuple(
        dataclasses.replace(drift, p_holm=p) for drift, p in zip(found, adjusted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Started:
    """A run, whose kin it is, and when it began."""

    run: RunRecord
    campaign: str
    cell: str
    at: float

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        at = datetime.fromisoformat(run.result.started).timestamp()
        return cls(run, run.campaign, f"{run.host}/{run.cell}", at)


def _of_metric(runs: Sequence[_Started], key: str) -> Drift | None:
    told = [
        (one, value) for one in runs if (value := one.run.value(key)) is not None and value > 0
    ]  # fmt: skip
    if not told:
        return None
    x = _when([one for one, _ in told])
    found = slope([one.cell for one, _ in told], x, _logs([v for _, v in told]))
    if found is None or float(found.error) == 0:
        return None
    change, low, high = (math.expm1(min(float(v), 50.0)) for v in found[:3])
    return Drift(key, change, low, high, len(told), float(found.p))


def _when(runs: Sequence[_Started]) -> FloatArray:
    """Return each run's start on its campaign's time, 0 (the first) to 1 (the last)."""
    starts: dict[str, list[float]] = {}
    for one in runs:
        starts.setdefault(one.campaign, []).append(one.at)
    spans = {campaign: (min(found), max(found)) for campaign, found in starts.items()}
    return np.array([
        (one.at - first) / (last - first) if last > first else 0.0
        for one in runs
        for first, last in [spans[one.campaign]]
    ])  # fmt: skip


def _logs(values: Sequence[float]) -> FloatArray:
    return np.log(np.array(values, dtype=np.float64))
