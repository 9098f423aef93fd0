"""The part of a difference that is due to the cell and not to the level.

Layout, boot and placement differ between cells. Identical cells (A/A) show how much results then
differ.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analysis.judge import stats
from analysis.judge.stats import Estimate

_PAIR = 2  # a difference needs at least these cells


class CellSpread(NamedTuple):
    """The variance of the log ratio of two identical cells.

    ``runs`` is the part of it that the spread of runs causes; its degrees of freedom are
    ``runs_df``. ``df`` is the number of identical cells minus the number of their groups.
    """

    variance: float
    df: int
    runs: float
    runs_df: float

    @property
    def between(self) -> float:
        """The part of the variance that more repetitions do not reduce; at least 0."""
        return max(0.0, self.variance - self.runs)

    @property
    def cell_sd(self) -> float:
        """The standard deviation of one cell: a ratio contains two."""
        return math.sqrt(self.between / 2)


def measure(groups: Sequence[Sequence[Mapping[str, float]]]) -> CellSpread | None:
    """Return the spread of groups of identical cells; None without two comparable cells.

    A cell is block → value; cells with too few runs are left out. In each group of m cells, logs
    are centred in the blocks that all cells have. Twice the variance of the cell means has m - 1
    degrees of freedom, with which groups are pooled. This is a one-way random-effects analysis of
    variance with blocks (Searle 1971).
    """
    variance = runs = 0.0
    df = runs_df = 0
    for group in groups:
        cells = [cell for cell in group if len(cell) >= stats.MINIMUM_RUNS]
        common = sorted(set.intersection(*(set(cell) for cell in cells))) if cells else []
        m, n = len(cells), len(common)
        table = np.array([[cell[block] for block in common] for cell in cells], dtype=np.float64)
        if m < _PAIR or n < stats.MINIMUM_RUNS or np.any(table <= 0):
            continue
        logs = np.log(table)
        means = logs.mean(axis=1)
        rest = logs - means[:, None] - logs.mean(axis=0) + logs.mean()
        own = (m - 1) * (n - 1)
        variance += 2 * float(np.sum((means - means.mean()) ** 2))
        runs += 2 * float(np.sum(rest**2)) / n
        df += m - 1
        runs_df += own
    return CellSpread(variance / df, df, runs / runs_df, runs_df) if df else None


def widened(found: Estimate, spread: CellSpread | None) -> Estimate:
    """Return an estimate whose error contains the variance between cells.

    The variances add; the degrees of freedom are Satterthwaite's [1946] for
    error² + (variance - runs), but at least those of the smaller sample. His approximation fails
    where the difference is small beside its parts [Gaylor & Hopper 1969]: it would give one degree
    of freedom. If cells spread no more than runs do, the estimate stays.
    """
    if spread is None or spread.between == 0 or not found.is_ratio or found.center is None:
        return found
    if found.method is stats.Method.NONE:
        return found
    own, own_df = (found.error or 0.0) ** 2, found.df or 1.0
    variance = own + spread.between
    terms = own**2 / own_df + spread.variance**2 / spread.df + spread.runs**2 / spread.runs_df
    df = max(1.0, min(own_df, spread.df), variance**2 / terms)
    center = math.log(found.center)
    interval = stats.t_interval(np.array(center), np.array(math.sqrt(variance)), np.array(df))
    method = stats.Method.CELLS if found.method is stats.Method.EXACT else found.method
    return dataclasses.replace(
        found,
        low=math.exp(max(-690.0, float(interval.low))),
        high=math.exp(min(690.0, float(interval.high))),
        p_value=float(interval.p),
        error=math.sqrt(variance),
        df=df,
        between_cells=spread.between,
        method=method,
    )
