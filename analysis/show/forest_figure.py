"""Forest plot: the ratio and interval of every judged row, one line per row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator

from analysis.judge import wording
from analysis.judge.compare import Comparison
from analysis.judge.rows import Row
from analysis.show.drawing import GRID, INK, Plot, canvas, finish, name_rows
from analysis.show.groups import looks_of
from harness.metrics.catalogue import MetricKind

MOST_ROWS = 30  # more rows are not readable at the width of a page
# Factors between neighbouring ticks; 1 is always a tick.
_STEPS = (1.001, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 5.0, 10.0, 100.0)
_MOST_TICKS = 5
NAME, TITLE = "forest", "Ratios with intervals"


def forest(comparison: Comparison) -> Plot:
    """Draw the ratios to the baseline with their intervals on a logarithmic axis.

    Rows without a ratio or an interval are left out. Claims come first when rows are too many.
    """
    rows = [row for row in comparison.rows if row.verdict.is_judged and _ends(row)]
    if not rows:
        return Plot(NAME, TITLE, "No row has a ratio with an interval.")
    claims_first = sorted(rows, key=lambda row: row.claim is None)[:MOST_ROWS]
    chosen = [row for row in rows if row in claims_first]
    figure, axes = canvas(0.9 + 0.24 * len(chosen))
    _band(axes, chosen)
    looks = looks_of(comparison)
    for y, row in enumerate(chosen):
        low, high = _ends(row) or (0.0, 0.0)
        color, marker = looks[row.level]
        axes.plot([low, high], [y, y], "-", color=color, linewidth=2, solid_capstyle="butt")
        axes.plot([math.log(row.estimate.center or 1.0)], [y], marker, color=color, markersize=5)
    axes.axvline(0, color=INK, linewidth=1)
    name_rows(axes, _names(chosen), fontsize=7.5)
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(MultipleLocator(math.log(_step(high - low))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{math.exp(value):.3g}"))
    axes.set_xlabel(f"ratio to {comparison.baseline}")
    sentence = (
        f"Marks: ratio of geometric means to {comparison.baseline}; lines: 95 % interval; band: "
        "differences that get no verdict."
    )
    if len(chosen) < len(rows):
        sentence += f" {len(rows) - len(chosen)} more rows are in the table."
    return finish(comparison, figure, Plot(NAME, TITLE, sentence), MetricKind.RATIO)


def _ends(row: Row) -> tuple[float, float] | None:
    """Return the logarithms of the interval's ends; None without them."""
    low, high = row.estimate.bounds
    if not row.estimate.is_ratio or not row.estimate.center or not low or not high:
        return None
    return (math.log(low), math.log(high)) if math.isfinite(high) else None


def _step(width: float) -> float:
    """Return the factor between ticks, with which an axis of this log width has few of them."""
    steps = (factor for factor in _STEPS if width / math.log(factor) <= _MOST_TICKS)
    return next(steps, math.exp(width / _MOST_TICKS))


def _band(axes: Axes, rows: Sequence[Row]) -> None:
    """Shade each row's noise floor."""
    for y, row in enumerate(rows):
        width = 2 * math.log1p(row.floor)
        axes.barh(y, width, 1.0, left=-width / 2, color=GRID, alpha=0.9, linewidth=0)


def _names(rows: Sequence[Row]) -> list[str]:
    """Return one label per row; the metric stands above the first row of its group."""
    labels = []
    for metric, group in groupby(rows, key=lambda row: row.metric):
        for index, row in enumerate(group):
            label = wording.short(row.level, row.stratum)
            labels.append(f"{metric}\n{label}" if index == 0 else label)
    return labels
