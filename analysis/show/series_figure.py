"""Throughput and device bytes of a group's runs over time, with events of its first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from matplotlib.axes import Axes

from analysis import numbers
from analysis.judge.compare import Comparison
from analysis.read.events import read_events
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord
from analysis.read.series import PlotSeries, read_bytes_written, read_throughput
from analysis.show import drawing
from analysis.show.drawing import GRID, INK, SECONDS, Plot, finish, joined, name_rows, panels, slug
from analysis.show.groups import Group
from harness.metrics.catalogue import MetricKind

_SHADES = (0.35, 0.8)  # opacity of neighbouring phases
_MARKS = 400  # more marks would overlap


@dataclass(frozen=True, slots=True)
class Lines:
    """Series of a group's first runs: operations per second, and bytes written so far."""

    speed: Sequence[Sequence[PlotSeries]]
    written: Sequence[Sequence[PlotSeries]]

    @classmethod
    def of(cls, group: Group) -> Self:
        """Read the series of at most MOST_RUNS runs."""
        runs = group.runs[: drawing.MOST_RUNS]
        return cls(
            [series for run in runs if (series := read_throughput(run))],
            [series for run in runs if (series := read_bytes_written(run))],
        )


@dataclass(frozen=True, slots=True)
class AxisEnds:
    """Ends of the axes, shared by all groups: seconds, operations per second, bytes."""

    seconds: float
    speed: float
    written: float

    @classmethod
    def of(cls, groups: Sequence[Lines]) -> Self:
        """Return limits with room for every series."""
        speed = [line for lines in groups for run in lines.speed for line in run]
        written = [line for lines in groups for run in lines.written for line in run]
        return cls(
            max((t for line in speed + written for t in line.t), default=0.0),
            max((value for line in speed for value in line.values), default=0.0),
            max((value for line in written for value in line.values), default=0.0),
        )


def every(comparison: Comparison, groups: Sequence[Group]) -> list[Plot]:
    """Draw one figure per group, all with the same axes."""
    lines = [Lines.of(group) for group in groups]
    limits = AxisEnds.of(lines)
    return [
        series(comparison, group, own, limits) for group, own in zip(groups, lines, strict=True)
    ]


def series(comparison: Comparison, group: Group, lines: Lines, limits: AxisEnds) -> Plot:
    """Draw throughput per interval and cumulative device bytes of a group's runs."""
    name, title = f"series-{slug(group.label)}", group.label
    if not lines.speed and not lines.written:
        return Plot(name, title, f"The runs of {group.label} have no time series.")
    events = read_events(group.runs[0])
    strip = 0.12 + 0.16 * len(events)
    ratios = (1.3, 1.3, strip) if events else (1.3, 1.3)
    figure, (upper, lower, *rest) = panels(3.1 + (strip if events else 0), len(ratios), ratios)
    _draw(upper, lines.speed, (limits.speed, "ops/s"), group.color, {})
    _draw(lower, lines.written, (limits.written, "B"), group.color, {"conventional": "--"})
    lower.set_xlim(0, limits.seconds or 1)
    _shade_phases(upper, lower, group.runs[0])
    sentence = (
        "Top: operations per second. Below: bytes written to the zoned device (solid) and "
        "the conventional device (dashed). One line per run. Shaded: phases of "
        f"{group.runs[0].name}."
    )
    if len(group.runs) > drawing.MOST_RUNS:
        sentence += f" The first {drawing.MOST_RUNS} of {len(group.runs)} runs are drawn."
    for axes in rest:
        _events(axes, events)
        sentence += f" Marks: events of {group.runs[0].name}."
    (rest or [lower])[-1].set_xlabel(SECONDS)
    return finish(comparison, figure, Plot(name, title, sentence), MetricKind.TIME)


def _shade_phases(upper: Axes, lower: Axes, run: RunRecord) -> None:
    """Shade every second phase of a run, and write the names above the upper panel."""
    for index, phase in enumerate(run.result.phases):
        begin = run.seconds(run.start_of(phase))
        end = begin + run.seconds(phase.seconds)
        for axes in (upper, lower):
            axes.axvspan(begin, end, color=GRID, alpha=_SHADES[index % 2])
        place = upper.get_xaxis_transform()
        upper.text(
            begin, 1.02 + 0.13 * (index % 2), phase.name, transform=place, fontsize=7, va="bottom"
        )


def _draw(
    axes: Axes,
    runs: Sequence[Sequence[PlotSeries]],
    top: tuple[float, str],
    color: str,
    styles: Mapping[str, str],
) -> None:
    """Draw the series of all runs; ``top`` is the axis' end and its unit."""
    factor, unit = numbers.scale(*top)
    every_line = (line for run in runs for line in run)
    by_style = grouped(every_line, lambda line: styles.get(line.name, "-"))
    for style, lines in by_style.items():
        x, y = joined([(line.t, [value / factor for value in line.values]) for line in lines])
        axes.plot(x, y, style, color=color, linewidth=1, alpha=0.75)
    axes.set_ylabel(unit)
    axes.set_ylim(0, 1.05 * top[0] / factor or 1)


def _events(axes: Axes, events: Mapping[str, Sequence[float]]) -> None:
    """Draw one row of marks per kind of event; dense events share a mark."""
    end = axes.get_xlim()[1]
    for y, times in enumerate(events.values()):
        marks = sorted({round(t / end * _MARKS) for t in times if t <= end})
        places = [mark * end / _MARKS for mark in marks]
        axes.plot(places, [y] * len(places), "|", color=INK, markersize=7, markeredgewidth=0.7)
    name_rows(axes, [f"{name} ({len(times)})" for name, times in events.items()], fontsize=7)
