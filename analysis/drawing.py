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
    if comparison.campaign.emulated:
        time = kind is Kind.TIME
        figure.text(0.56, 0.5, _WATERMARK[time], ha="center", va="center", alpha=0.2,
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
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def slug(key: str) -> str:
    """Return a name that a file can have."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", key).strip("-")
