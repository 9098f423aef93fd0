"""Parts that all figures share: colours, axes, legends, watermark, conversion to SVG text."""

from __future__ import annotations

import dataclasses
import html
import io
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis import numbers
from analysis.judge import modelled
from analysis.judge.compare import Comparison
from analysis.show.groups import Group
from harness.metrics.catalogue import MetricKind
from harness.store.spec import DeviceKind

Look = dict[str, Any]  # keyword arguments of matplotlib
# Placeholders that become CSS after drawing, so that one SVG serves light and dark pages.
INK, GRID = "#010203", "#020304"
_PAPER = {INK: "#000000", GRID: "#dddddd"}
_COLORED = ("color", "facecolor", "edgecolor", "hatchcolor", "markerfacecolor", "markeredgecolor")
WIDTH = 4.6  # inches; narrow enough for a phone at full width
SECONDS = "seconds since the run began"
# Inches of a legend: its width beside the vertical axis' names, a sample with gaps, a letter, a
# row.
_BESIDE_AXIS, _SAMPLE, _LETTER, _LEGEND_ROW = 3.8, 0.52, 0.06, 0.17
_FOOTER = 0.15  # inches of a line below the axes
_FEW_ROWS = 3  # a figure has room for a legend of these rows
# More points or lines of a group than these overlap, and take megabytes.
MOST_POINTS, MOST_RUNS = 200, 50
_EMULATED = {True: "emulated: not a result", False: "emulated device"}
_KEPT: ContextVar[bool] = ContextVar("_KEPT", default=False)
# Ratios of an axis' ends. From 100 on there are two powers of ten, from 5 on two of 1, 2, 5, 10.
_LONG, _SHORT = 100, 5
_LOUD = 30  # characters of a watermark that fits in large type

# Words with at most a % behind them, and one separator between them.
_PLAIN = re.compile(r"(\w+%?([.-]|, | \(| ))*\w+%?\)?", re.ASCII)

_STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure and its caption; without ``svg``, ``sentence`` gives the reason.

    ``figure`` is what ``svg`` shows; only :func:`keeping_figures` has it, for other formats.
    """

    name: str
    title: str
    sentence: str = ""
    svg: str | None = None
    figure: Figure | None = field(default=None, repr=False, compare=False)

    def captioned(self, sentence: str) -> Plot:
        """Return the figure with another caption."""
        return dataclasses.replace(self, sentence=sentence)


def style() -> AbstractContextManager[None]:
    """Return the context in which all figures are drawn."""
    return mpl.rc_context(_STYLE)


@contextmanager
def keeping_figures() -> Iterator[None]:
    """Keep the figures of plots drawn inside the block; a page does not, to save memory."""
    token = _KEPT.set(True)
    try:
        yield
    finally:
        _KEPT.reset(token)


def canvas(height: float) -> tuple[Figure, Axes]:
    """Return an empty figure with one pair of axes; ``height`` in inches."""
    figure, (axes,) = panels(height, 1)
    return figure, axes


def panels(
    height: float, count: int, ratios: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with axes below each other that share the horizontal axis."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(count, 1, sharex=True, squeeze=False, height_ratios=ratios)
    return figure, list(axes[:, 0])


def name_rows(axes: Axes, labels: Sequence[str], **text: Any) -> None:
    """Label rows 0, 1, … on the vertical axis, the first on top."""
    axes.set_yticks(range(len(labels)), labels, **text)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def latency_axis(axes: Axes) -> None:
    """Label a vertical axis of microseconds with readable units.

    A short logarithmic axis also has labels between its powers of ten, so that it has at least two.
    """

    def between(value: float, _: float) -> str:
        low, high = axes.get_ylim()
        digits = "" if high >= _LONG * low else "25" if high >= _SHORT * low else "123456789"
        return numbers.human(value, "us") if f"{value:.0e}"[0] in digits else ""

    axes.yaxis.set_major_formatter(lambda value, _: numbers.human(value, "us"))
    axes.yaxis.set_minor_formatter(between)


def dots(
    axes: Axes, x: Sequence[float], y: Sequence[float], marker: str, color: str, **look: Any
) -> None:
    """Draw points, with a line between them when ``marker`` contains a line style."""
    look = {"markersize": 5, "alpha": 0.75, "markeredgewidth": 0} | look
    axes.plot(x, y, marker, color=color, **look)


def stacked_bar(axes: Axes, y: float, parts: Iterable[tuple[float, Mapping[str, Any]]]) -> float:
    """Draw (width, look) parts of a bar from left to right; return the bar's end."""
    end = 0.0
    for width, look in parts:
        axes.barh(y, width, 0.65, left=end, linewidth=0, **look)
        end += width
    return end


def legend(axes: Axes) -> None:
    """Put the legend above the axes; a long one makes the figure higher."""
    names = axes.get_legend_handles_labels()[1]
    columns = _make_room(axes.get_figure(root=True), names, _BESIDE_AXIS)
    look: Look = {"loc": "lower left", "fontsize": 8, "borderaxespad": 0.2}
    axes.legend(bbox_to_anchor=(0, 1), ncols=columns, **look)


def shared_legend(figure: Figure) -> None:
    """Put one legend for all panels above the figure; a long one makes the figure higher."""
    names = [name for axes in figure.axes for name in axes.get_legend_handles_labels()[1]]
    columns = _make_room(figure, names, WIDTH)
    figure.legend(loc="outside upper left", ncols=columns, fontsize=8, borderaxespad=0.2)


def _make_room(figure: Figure | None, names: Sequence[str], width: float) -> int:
    """Make a figure higher for its legend; return how many columns, at most 3, fit ``width``."""
    column = _SAMPLE + _LETTER * max(map(len, names), default=0)
    columns = min(3, max(1, int(width / column)))
    if figure is not None:
        rows = math.ceil(len(names) / columns)
        figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * max(0, rows - _FEW_ROWS))
    return columns


def finish(comparison: Comparison, figure: Figure, plot: Plot, kind: MetricKind) -> Plot:
    """Add the campaign's watermark and convert the figure to SVG text."""
    return stamped(figure, plot, kind, mark=mark_of(comparison, kind))


def mark_of(comparison: Comparison, kind: MetricKind) -> str:
    """Return the watermark of a figure of this campaign, '' for none."""
    if comparison.campaign.replayed:
        return "replayed, not run"
    if not comparison.campaign.not_hardware:
        return ""
    if comparison.campaign.kinds == {DeviceKind.IMPORTED}:
        return "imported: measured by others"
    if comparison.campaign.kinds == {DeviceKind.MODELLED}:
        return modelled.label([comparison.campaign])
    return _EMULATED[kind is MetricKind.TIME]


def stamped(figure: Figure, plot: Plot, kind: MetricKind, *, mark: str) -> Plot:
    """Write the watermark and convert the figure to SVG text.

    A short watermark of times lies large over the figure: nobody may take them for results. Any
    other stands below the axes, where it hides nothing.
    """
    if mark and kind is MetricKind.TIME and len(mark) <= _LOUD:
        centre: Look = {"ha": "center", "va": "center"}
        figure.text(0.56, 0.5, mark, alpha=0.2, fontsize=15, rotation=16, **centre)
    elif mark:
        figure.set_figheight(figure.get_figheight() + _FOOTER)
        figure.supxlabel(mark, x=0.99, ha="right", alpha=0.6, fontsize=7)
    out = io.StringIO()
    # One salt per figure: ids on a page never clash and stay the same between runs.
    with mpl.rc_context({"svg.hashsalt": f"zonelab {plot.name}"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    kept = figure if _KEPT.get() else None
    return dataclasses.replace(plot, svg=_themed(out.getvalue(), plot.title), figure=kept)


@contextmanager
def on_paper(figure: Figure) -> Iterator[None]:
    """Give a drawn figure the colours of white paper; the block can save it in other formats."""
    for artist in figure.findobj():
        for part in _COLORED:
            if (read := getattr(artist, f"get_{part}", None)) and (new := _PAPER.get(_hex(read()))):
                getattr(artist, f"set_{part}")(new)
        if isinstance(artist, Patch) and artist.get_hatch():
            artist.set_edgecolor(_PAPER[INK])  # Chromium draws no hatch if the edge is transparent
    replaced = {key: _PAPER[value] for key, value in _STYLE.items() if value in _PAPER}
    with mpl.rc_context(_STYLE | replaced):  # for ticks that another size of text adds
        yield


def _hex(color: Any) -> str:
    return to_hex(color) if is_color_like(color) else ""


def _themed(svg: str, title: str) -> str:
    """Give ink the page's text colour; remove what only a stand-alone file needs."""
    svg = svg[svg.index("<svg") :]
    svg = svg.replace(INK, "currentColor").replace(GRID, "var(--grid, #dddddd)")
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", svg)  # matplotlib repeats them in each figure
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(title)}" ', 1)


def joined(
    lines: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> tuple[list[float], list[float]]:
    """Return many lines as one with gaps: one artist per line would take seconds."""
    xs: list[float] = []
    ys: list[float] = []
    for x, y in lines:
        xs += [*x, math.nan]
        ys += [*y, math.nan]
    return xs, ys


def by_rank(values: Sequence[float]) -> list[float]:
    """Return at most MOST_POINTS values, evenly by rank with both ends, in their given order."""
    if len(values) <= MOST_POINTS:
        return list(values)
    order = sorted(range(len(values)), key=values.__getitem__)
    last, steps = len(values) - 1, MOST_POINTS - 1
    chosen = sorted(order[round(step * last / steps)] for step in range(MOST_POINTS))
    return [values[index] for index in chosen]


def by_rank_note(groups: Sequence[Group]) -> str:
    """Return the caption's sentence about omitted points, '' when all are drawn."""
    if all(len(group.runs) <= MOST_POINTS for group in groups):
        return ""
    return f" Larger groups show {MOST_POINTS} runs, evenly by rank, including both ends."


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 for an empty sequence."""
    return sum(values) / len(values) if values else 0.0


def slug(key: str) -> str:
    """Return ``key`` as a valid file name.

    With other separators than names, values and metrics have, the name ends with the key's
    checksum. So a factor's values -1 and 1 have two files.
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "-", key).strip("-")
    plain = not key or _PLAIN.fullmatch(key)
    return name if plain else f"{name}-{zlib.crc32(key.encode()):08x}"
