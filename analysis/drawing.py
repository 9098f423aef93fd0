"""What all figures share: ink, paper, axes, watermark, and how they become SVG text."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from analysis.compare import Comparison
from analysis.groups import Group
from harness.metrics import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Stand-ins that become CSS after drawing, so that one SVG serves light and dark pages.
INK, GRID = "#010203", "#020304"
WIDTH = 4.6  # inches; narrow enough to be read on a phone at full width
_WATERMARK = {True: "emulated: not a result", False: "emulated device"}

_STYLE: Any = {
    "svg.fonttype": "none", "font.size": 9, "font.family": "DejaVu Sans", "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": INK, "axes.labelcolor": INK,
    "text.color": INK, "xtick.color": INK, "ytick.color": INK, "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
    "figure.facecolor": "none", "axes.facecolor": "none", "hatch.linewidth": 0.8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure, or the sentence that says why there is none."""

    name: str
    title: str
    svg: str | None
    sentence: str


def style() -> AbstractContextManager[None]:
    """Return the context inside which all figures are drawn."""
    return mpl.rc_context(_STYLE)


def canvas(height: float) -> tuple[Figure, Axes]:
    """Return an empty figure, of a height in inches, and its axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def level_axis(axes: Axes, groups: Sequence[Group]) -> None:
    """Name the groups on the vertical axis, the first on top."""
    axes.set_yticks(range(len(groups)), [group.label for group in groups])
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def legend(axes: Axes) -> None:
    """Put the legend above the axes."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8, borderaxespad=0.2)


def finish(comparison: Comparison, figure: Figure, plot: Plot, kind: Kind) -> Plot:
    """Add the watermark and turn the figure into SVG text."""
    return stamped(figure, plot, kind, mark=mark_of(comparison, kind))


def mark_of(comparison: Comparison, kind: Kind) -> str:
    """Return the watermark of a figure of this campaign, '' for none."""
    if comparison.campaign.replayed:
        return "replayed, not run"
    return _WATERMARK[kind is Kind.TIME] if comparison.campaign.emulated else ""


def stamped(figure: Figure, plot: Plot, kind: Kind, *, mark: str) -> Plot:
    """Write a watermark over the figure, large over times, and turn it into SVG text."""
    if mark:
        time = kind is Kind.TIME
        figure.text(0.56, 0.5, mark, ha="center", va="center", alpha=0.2,
                    fontsize=15 if time else 9, rotation=16 if time else 0)  # fmt: skip
    out = io.StringIO()
    # A salt per figure: ids inside one page never clash, and do not change between runs.
    with mpl.rc_context({"svg.hashsalt": f"zonelab {plot.name}"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return dataclasses.replace(plot, svg=_themed(out.getvalue(), plot.title))


def _themed(svg: str, title: str) -> str:
    """Make ink follow the page's text colour; drop what only a stand-alone file needs."""
    svg = svg[svg.index("<svg") :]
    svg = svg.replace(INK, "currentColor").replace(GRID, "var(--grid, #dddddd)")
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", svg)  # matplotlib's, the same in each figure
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


# More points of a group than this are drawn over each other, and take megabytes.
MOST_POINTS = 200
BY_RANK = f" Of a group with more runs, {MOST_POINTS} are drawn: evenly by rank, with both ends."


def by_rank(values: Sequence[float]) -> list[float]:
    """Return at most MOST_POINTS of the values: evenly by rank, both ends; their order is kept."""
    if len(values) <= MOST_POINTS:
        return list(values)
    order = sorted(range(len(values)), key=values.__getitem__)
    last, steps = len(values) - 1, MOST_POINTS - 1
    chosen = sorted(order[round(step * last / steps)] for step in range(MOST_POINTS))
    return [values[index] for index in chosen]


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def slug(key: str) -> str:
    """Return a name that a file can have."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", key).strip("-")
