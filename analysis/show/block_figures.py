"""Figures of block-level sweeps: a dot per run, a line through geometric means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from analysis import numbers
from analysis.judge.stats import geometric_mean
from analysis.read.block import BlockPoint
from analysis.show.drawing import Plot, canvas, dots, legend, slug, stamped
from analysis.show.groups import PALETTE, marker_of
from harness.metrics.catalogue import MetricKind

_HEIGHT = 3.2
_SENTENCE = "One dot per run; lines: geometric means."


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One line: its name, and the runs' values at each x."""

    label: str
    values: dict[int, list[float]]
    dashed: bool = False


def line(
    label: str,
    points: Iterable[BlockPoint],
    place: Callable[[BlockPoint], int],
    value: Callable[[BlockPoint], float | None],
    *,
    dashed: bool = False,
) -> SweepLine:
    """Return the line through points; unknown values are left out."""
    found: dict[int, list[float]] = defaultdict(list)
    for point in points:
        one = value(point)
        if one is not None and one > 0:
            found[place(point)].append(one)
    return SweepLine(label, dict(sorted(found.items())), dashed)


def throughput(name: str, lines: Sequence[SweepLine], mark: str) -> Plot:
    """Draw IOPS against commands in flight."""
    plot = Plot(f"block-iops-{slug(name)}", f"{name}: IOPS over commands in flight")
    return _drawn(plot, lines, "commands in flight", "ops/s", mark)


def bandwidth(name: str, lines: Sequence[SweepLine], mark: str) -> Plot:
    """Draw bytes per second against the size of a command."""
    plot = Plot(f"block-bandwidth-{slug(name)}", f"{name}: bandwidth over command size")
    return _drawn(plot, lines, "", "B/s", mark)


def latency(name: str, lines: Sequence[SweepLine], mark: str) -> Plot:
    """Draw median and p95 of latency against commands in flight."""
    plot = Plot(f"block-latency-{slug(name)}", f"{name}: latency by scheduler")
    drawn = _drawn(plot, lines, "commands in flight", "us", mark)
    return drawn.captioned(f"{_SENTENCE} Solid: median; dashed: p95.") if drawn.svg else drawn


def _drawn(plot: Plot, lines: Sequence[SweepLine], x_label: str, unit: str, mark: str) -> Plot:
    own = [one for one in lines if one.values]
    if all(len(one.values) == 1 for one in own):
        return plot.captioned("No line has more than one place.")
    figure, axes = canvas(_HEIGHT)
    most = max(value for one in own for values in one.values.values() for value in values)
    factor, shown = numbers.scale(most, unit)
    # A dashed line shares the colour of the solid one before it.
    colours = {label: index for index, label in enumerate(dict.fromkeys(one.label for one in own))}
    for one in own:
        index = colours[one.label]
        _draw(axes, one, PALETTE[index % len(PALETTE)], marker_of(index), factor)
    places = sorted({place for one in own for place in one.values})
    axes.set_xscale("log", base=2)
    names = [numbers.block_size(at) if not x_label else str(at) for at in places]
    axes.set_xticks(places, names, fontsize=8)
    axes.set_xticks([], minor=True)
    axes.set_xlabel(x_label)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(shown)
    legend(axes)
    return stamped(figure, plot.captioned(_SENTENCE), MetricKind.TIME, mark=mark)


def _draw(axes: Axes, one: SweepLine, colour: str, marker: str, factor: float) -> None:
    x = [place for place, values in one.values.items() for _ in values]
    y = [value / factor for values in one.values.values() for value in values]
    dots(axes, x, y, marker, colour, markersize=4, alpha=0.6)
    means = [geometric_mean(values) / factor for values in one.values.values()]
    style = "--" if one.dashed else "-"
    label = None if one.dashed else one.label
    axes.plot([*one.values], means, style, color=colour, linewidth=1.2, label=label)
