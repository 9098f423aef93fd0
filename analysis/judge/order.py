"""Judges the best value of a comparison against each other value.

Two intervals of ratios to one baseline share its spread, so their overlap decides nothing. The
values are compared with each other, in the same blocks. The runs decide which value is the best,
so each p is multiplied by the number of pairs (Bonferroni over all pairs). A pair that the study
claims was chosen before the runs, so it gets the verdict of its claim.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from analysis.judge import family, stats
from analysis.judge.compare import Comparison
from analysis.judge.rows import Row
from analysis.judge.select import stratum_of


def others(rows: Sequence[Row], best: Row) -> list[str]:
    """Return the other values that have a row in the stratum of the best one."""
    return [row.level for row in rows if row is not best and row.stratum == best.stratum]


def against_others(comparison: Comparison, rows: Sequence[Row], best: Row) -> list[Row]:
    """Return one row for each other value, with that value as the baseline.

    A value without any comparable run has no row.

    Args:
        comparison: the comparison with one baseline.
        rows: the rows of one metric. Only rows in the best row's stratum count.
        best: one of ``rows``.
    """
    names = others(rows, best)
    runs = [run for run in comparison.runs if stratum_of(run, comparison.varying) == best.stratum]
    pairs = math.comb(len(names) + 2, 2)  # the best value and the baseline count too
    rows_of_all = [
        one
        for name in names
        for one in family.rows_of_pair(comparison.judge, runs, best.metric, name, best.level)
    ]
    marked = family.mark(comparison.judge, rows_of_all, comparison.declared)
    return [row if row.claim is not None else corrected(row, pairs) for row in marked]


def corrected(row: Row, pairs: int) -> Row:
    """Return a row with the verdict of its p multiplied by the number of pairs."""
    if not row.verdict.is_judged:
        return row
    p = stats.p_beyond(row.estimate, row.floor)
    adjusted = min(1.0, pairs * p) if p is not None else 1.0
    word = stats.verdict(row.estimate, row.info.better, p_value=adjusted, claimed=False)
    return dataclasses.replace(row, verdict=word)
