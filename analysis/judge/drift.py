"""Tests whether a metric drifted over the campaign, in all cells alike.

Blocks are randomised, so a drift adds noise to a comparison but no bias. With a drift, absolute
values depend on the time of the run, and something on the machine was not steady.

The study's metrics in all runs are one family of tests, whatever a view shows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from analysis.judge import noise, one_number, stats
from analysis.judge.select import select_metrics
from analysis.judge.stats import Interval
from analysis.read.arrays import FloatArray
from analysis.read.grouping import grouped
from analysis.read.load import Pool, RunRecord

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Drift:
    """Relative change of a metric from a campaign's first run to its last, with its interval.

    ``p_value`` tests a change within the metric's noise floor; ``p_holm`` is adjusted over all
    tested metrics.
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
        """Whether the drift exceeds the noise floor."""
        return self.p_holm < stats.ALPHA


def slope(
    cells: Sequence[str], blocks: Sequence[str], x: FloatArray, y: FloatArray
) -> Interval | None:
    """Return the common slope of y on x within cells and blocks; all have shape (n,).

    Least squares of y = cell + block + b·x with s² = RSS / df and t on df = n - rank degrees of
    freedom (analysis of covariance, Fisher 1932). Without block terms, differences between blocks
    would count as drift. None without degrees of freedom, or if cell and block determine x.
    """
    # There are as many blocks as repetitions. Subtracting means within blocks removes their terms
    # without a column for each [Frisch & Waugh 1933, Lovell 1963].
    centred, count = _centred(np.column_stack([_indicators(cells), x, y]), blocks)
    design, measured = centred[:, :-2], centred[:, -2:]
    fitted, _, rank, _ = np.linalg.lstsq(design, measured, rcond=None)
    within_x, within_y = (measured - design @ fitted).T
    square = float(within_x @ within_x)
    df = len(x) - count - int(rank) - 1
    if df < 1 or square <= _ROUNDING * float(x @ x):
        return None
    b = float(within_x @ within_y) / square
    rest = within_y - b * within_x
    error = math.sqrt(float(rest @ rest) / df / square)
    return stats.t_interval(np.array(b), np.array(error), np.array(float(df)))


def _indicators(names: Sequence[str]) -> FloatArray:
    """Return shape (n, different names): 1 where a run has the name."""
    different, index = np.unique(np.array(names), return_inverse=True)
    return np.eye(len(different))[index]


def _centred(values: FloatArray, groups: Sequence[str]) -> tuple[FloatArray, int]:
    """Return columns minus their means within each group, and the number of groups."""
    different, index = np.unique(np.array(groups), return_inverse=True)
    sums = np.column_stack([np.bincount(index, weights=column) for column in values.T])
    means = sums / np.bincount(index)[:, None]
    return values - means[index], len(different)


def find_drifts(pool: Pool, noise_floor: float) -> tuple[Drift, ...]:
    """Return the drift of every metric of the study that enough runs measured, Holm-adjusted."""
    floors = noise.floors(pool.latest, _different_metrics(pool), noise_floor)
    starts = _relative_starts([run for run in pool.latest if run.ok])
    found = [_find_drift(starts, key, floor.floor) for key, floor in floors.items()]
    drifts = [drift for drift in found if drift is not None]
    adjusted = stats.holm([drift.p_value for drift in drifts])
    return tuple(
        dataclasses.replace(drift, p_holm=p) for drift, p in zip(drifts, adjusted, strict=True)
    )


def _different_metrics(pool: Pool) -> list[str]:
    """Return the study's metrics; of those that are proportional in each cell only one."""
    cells = grouped(pool.latest, _cell)
    claimed = [claim.metric for claim in pool.first.plan.claims]
    return list(one_number.others_of(select_metrics(pool, ()), cells, claimed))


def _cell(run: RunRecord) -> str:
    """Return a run's cell on its host."""
    return f"{run.host}/{run.cell}"


def _find_drift(starts: Mapping[RunRecord, float], key: str, floor: float) -> Drift | None:
    values = {run: value for run in starts if (value := run.value(key)) is not None and value > 0}
    if not values:
        return None
    logs = np.log(np.array([*values.values()], dtype=np.float64))
    cells = [_cell(run) for run in values]
    blocks = [f"{run.campaign}/{run.host}/{run.result.block}" for run in values]
    fit = slope(cells, blocks, np.array([starts[run] for run in values]), logs)
    if fit is None or float(fit.error) == 0:
        return None
    change, low, high = (
        math.expm1(min(float(edge), 50.0)) for edge in (fit.center, fit.low, fit.high)
    )
    p = stats.minimum_effect(fit.center, fit.error, fit.df, math.log1p(floor))
    return Drift(key, change, low, high, len(values), float(p))


def _relative_starts(runs: Sequence[RunRecord]) -> dict[RunRecord, float]:
    """Return each run's start: 0 for a host's first run, 1 for the campaign's longest host's last.

    Clocks of hosts can differ, and virtual ones do: only times of one host are compared.
    """
    found: dict[RunRecord, float] = {}
    for of_campaign in grouped(runs, lambda run: run.campaign).values():
        since: dict[RunRecord, float] = {}
        for of_host in grouped(of_campaign, lambda run: run.host).values():
            at = {run: datetime.fromisoformat(run.result.started).timestamp() for run in of_host}
            since |= {run: t - min(at.values()) for run, t in at.items()}
        longest = max(since.values()) or 1
        found |= {run: t / longest for run, t in since.items()}
    return found
