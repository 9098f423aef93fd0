"""The report's figures as SVG text: all points shown, one colour and marker per level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from matplotlib.figure import Figure

from analysis import units
from analysis.compare import Comparison
from analysis.drawing import (
    BY_RANK,
    GRID,
    INK,
    MOST_POINTS,
    WIDTH,
    Plot,
    by_rank,
    canvas,
    finish,
    legend,
    level_axis,
    mean,
    slug,
)
from analysis.events import read_events
from analysis.groups import PALETTE, Group
from analysis.load import RunRecord
from analysis.percentiles import together
from analysis.select import metric_info
from analysis.series import Series, read_bytes_written, read_throughput
from analysis.stats import geometric_mean
from harness.metrics import Kind
from harness.tools.histogram import quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILES = ((5000, "latency_p50"), (9900, "latency_p99"), (9990, "latency_p99_9"),
             (9999, "latency_p99_99"))  # fmt: skip


# More runs of a group than this, drawn over each other, are a blot.
MOST_RUNS = 50


def strip(comparison: Comparison, groups: Sequence[Group], key: str) -> Plot:
    """Every run's value as a point, the geometric mean as a bar."""
    title = f"{key.rpartition('.')[0]}: {metric_info(key).name.replace('_', ' ')}"
    measured = {group.label: group.values(key) for group in groups}
    shown = [group for group in groups if measured[group.label]]
    if not shown:
        return Plot(slug(key), title, None, f"No ok run measured {key}.")
    info = metric_info(key)
    most = max(max(measured[group.label]) for group in shown)
    factor, unit = units.scale(most, info.unit)
    figure, axes = canvas(0.9 + 0.34 * len(shown))
    for y, group in enumerate(shown):
        values = [value / factor for value in measured[group.label]]
        points = by_rank(values)
        spread = [y + 0.12 * (i - (len(points) - 1) / 2) / max(1, len(points)) * 2
                  for i in range(len(points))]  # fmt: skip
        axes.plot(points, spread, group.marker, color=group.color, markersize=5, alpha=0.75,
                  markeredgewidth=0)  # fmt: skip
        if min(values) > 0:
            axes.plot([geometric_mean(values)] * 2, [y - 0.32, y + 0.32], color=INK, linewidth=1.6)
    level_axis(axes, shown)
    axes.set_xlim(0, 1.06 * most / factor or 1)
    axes.set_xlabel(unit or info.name)
    sentence = f"One point per run; the bar is the geometric mean.{_thinned(groups)}"
    return finish(comparison, figure, Plot(slug(key), title, None, sentence), info.kind)


def percentiles(comparison: Comparison, groups: Sequence[Group], phase: str) -> Plot:
    """Latency against the share of operations that were faster, one line per run."""
    name, title = f"{phase}-latency", f"{phase}: latency percentiles"
    curves = {group.label: [one for run in _spread(group) if (one := _curve(run, phase))]
              for group in groups}  # fmt: skip
    if not any(curves.values()):
        why = f"No ok run has a latency percentile for {phase} (each needs n(1-q) >= 100 samples)."
        return Plot(name, title, None, why)
    figure, axes = canvas(2.9)
    for group in groups:
        if own := curves[group.label]:
            broken = _joined([([_nines(q) for q, _ in one], [v for _, v in one]) for one in own])
            axes.plot(*broken, f"{group.marker}-", color=group.color, markersize=3.5,
                      linewidth=0.9, alpha=0.8, markeredgewidth=0, label=group.label)  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: units.human(value, "us"))
    axes.yaxis.set_minor_formatter(lambda _value, _: "")
    most = max(per_myriad for own in curves.values() for one in own for per_myriad, _ in one)
    shown = [one for one in _NAMED if one <= most]
    axes.set_xticks([_nines(one) for one in shown], [f"p{one / 100:g}" for one in shown])
    axes.set_xlim(0, _nines(most) + 0.1)
    legend(axes)
    sentence = (
        "One line per run, from its merged histogram; a point needs at least 100 slower operations."
    )
    if any(len(group.runs) > MOST_RUNS for group in groups):
        sentence += f" Of a group with more runs, every n-th is drawn, at most {MOST_RUNS}."
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.TIME)


# Quantiles in ten-thousandths: those that are drawn, and those that the axis names.
_DRAWN = (1000, 2500, 5000, 7500, 9000, 9500, 9750, 9900, 9950, 9975, 9990, 9995, 9999)
_NAMED = (5000, 9000, 9900, 9990, 9999)


def _nines(per_myriad: int) -> float:
    """Place a quantile: 1 is p90, 2 is p99, 3 is p99.9."""
    return -math.log10(1 - per_myriad / 10_000)


def _curve(run: RunRecord, phase: str) -> list[tuple[int, float]]:
    """Return (quantile in ten-thousandths, microseconds), those metrics where no histogram is."""
    whole = together([run], phase)
    found = [(one, quantile(whole, one) if whole else None) for one in _DRAWN]
    if not any(value for _, value in found):
        found = [(one, run.value(f"{phase}.{metric}")) for one, metric in QUANTILES]
    return [(one, value) for one, value in found if value]


def _spread(group: Group) -> Sequence[RunRecord]:
    """Return at most MOST_RUNS of the runs, evenly over their order."""
    return group.runs[:: -(-len(group.runs) // MOST_RUNS)]


def _thinned(groups: Sequence[Group]) -> str:
    return BY_RANK if any(len(group.runs) > MOST_POINTS for group in groups) else ""


def device_bytes(comparison: Comparison, groups: Sequence[Group], phase: str) -> Plot:
    """Bytes written to each device, mean over runs, and the user's bytes as a mark."""
    name, title = f"{phase}-bytes", f"{phase}: bytes to each device"
    layers = (("zoned", f"{phase}.zoned_written", 1.0, ""),
              ("conventional", f"{phase}.conventional_written", 0.45, "////"))  # fmt: skip
    total = [sum(mean(g.values(key)) for _, key, _, _ in layers) for g in groups]
    if not any(total):
        return Plot(name, title, None, f"No ok run wrote to a device during {phase}.")
    user = [mean(group.values(f"{phase}.user_bytes")) for group in groups]
    factor, unit = units.scale(max(total + user), "B")
    figure, axes = canvas(1.5 + 0.34 * len(groups))
    for y, group in enumerate(groups):
        left = 0.0
        for _, key, alpha, hatch in layers:
            width = mean(group.values(key)) / factor
            axes.barh(y, width, 0.62, left=left, color=group.color, alpha=alpha, hatch=hatch,
                      edgecolor=INK if hatch else "none", linewidth=0)  # fmt: skip
            left += width
        totals = by_rank(
            [sum(run.value(key) or 0 for _, key, _, _ in layers) for run in group.runs]
        )
        axes.plot([size / factor for size in totals], [y] * len(totals), "o", color=INK,
                  markersize=2.5)  # fmt: skip
        if user[y]:
            axes.plot([user[y] / factor] * 2, [y - 0.42, y + 0.42], "--", color=INK, linewidth=1.4)
    for label, _, alpha, hatch in layers:
        axes.barh(0, 0, color=PALETTE[-1], alpha=alpha, hatch=hatch, label=label, linewidth=0)
    axes.plot([], [], "--", color=INK, label="user bytes")
    level_axis(axes, groups)
    axes.set_xlabel(unit)
    legend(axes)
    sentence = (
        "Bars: mean over runs, stacked by device; dots: each run's total; dashed: user bytes."
        f"{_thinned(groups)}"
    )
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.BYTES)


def utilisation(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """Utilisation achieved by every run, with its target and tolerance."""
    name, title = "utilisation", "Utilisation before the measured phases (V / capacity)"
    found = [
        [u for run in group.runs if (u := run.result.utilisation) and u.u_ns is not None]
        for group in groups
    ]
    if not any(found):
        return Plot(name, title, None, "No ok run measured its utilisation.")
    figure, axes = canvas(1.1 + 0.34 * len(groups))
    for target, tolerance in sorted({(u.target, u.tolerance) for own in found for u in own}):
        axes.axvspan(100 * (target - tolerance), 100 * (target + tolerance), color=GRID, alpha=0.9)
        axes.axvline(100 * target, color=INK, linestyle="--", linewidth=1)
    for y, group in enumerate(groups):
        points = by_rank([100 * (u.u_ns or 0) for u in found[y]])
        places = [y + 0.12 * (index % 3 - 1) for index in range(len(points))]
        axes.plot(points, places, group.marker, color=group.color, markersize=5, alpha=0.85,
                  markeredgewidth=0)  # fmt: skip
    level_axis(axes, groups)
    axes.margins(x=0.15)
    axes.set_xlabel("% of zone capacity")
    sentence = f"One point per run; dashed: target, band: tolerance.{_thinned(groups)}"
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.RATIO)


@dataclass(frozen=True, slots=True)
class Lines:
    """The series of a group's first runs: operations per interval, and bytes written so far."""

    speed: Sequence[Sequence[Series]]
    written: Sequence[Sequence[Series]]

    @classmethod
    def of(cls, group: Group) -> Self:
        """Read them."""
        shown = group.runs[:MOST_RUNS]
        return cls(
            [found for run in shown if (found := read_throughput(run))],
            [found for run in shown if (found := read_bytes_written(run))],
        )


def series(
    comparison: Comparison, group: Group, lines: Lines, limits: tuple[float, float, float]
) -> Plot:
    """Interval throughput and cumulative device bytes of a level's runs over time.

    ``limits``: right edge in seconds, top in operations/s and in bytes, shared by all levels.
    """
    name, title = f"series-{slug(group.label)}", group.label
    speed, written = lines.speed, lines.written
    if not speed and not written:
        return Plot(name, title, None, f"The runs of {group.label} have no time series.")
    right, top_speed, top_bytes = limits
    events = read_events(group.runs[0])
    strip = 0.12 + 0.16 * len(events)
    figure = Figure(figsize=(WIDTH, 3.1 + (strip if events else 0)), layout="constrained")
    ratios = (1.3, 1.3, strip)[: 3 if events else 2]
    upper, lower, *rest = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
    factor, unit = units.scale(top_speed, "ops/s")
    _lines(upper, speed, factor, group.color, {})
    upper.set_ylabel(unit)
    upper.set_ylim(0, 1.05 * top_speed / factor or 1)
    factor, unit = units.scale(top_bytes, "B")
    _lines(lower, written, factor, group.color, {"conventional": "--"})
    lower.set_ylabel(unit)
    lower.set_ylim(0, 1.05 * top_bytes / factor or 1)
    lower.set_xlim(0, right or 1)
    sentence = (
        "Above: operations per interval. Below: bytes written to the zoned (solid) and "
        "the conventional device (dashed). One line per run."
    )
    if len(group.runs) > MOST_RUNS:
        sentence += f" The first {MOST_RUNS} of {len(group.runs)} runs are drawn."
    for axes in rest:
        _events(axes, events)
        sentence += f" Marks: what happened in {group.runs[0].name}."
    (rest or [lower])[-1].set_xlabel("seconds since the run began")
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.TIME)


# More marks than this are drawn over each other on the width of a figure.
_MARKS = 400


def _events(axes: Axes, events: Mapping[str, Sequence[float]]) -> None:
    """Draw a mark per event, one line per kind; where they are dense, one per mark's width."""
    end = axes.get_xlim()[1]
    for y, times in enumerate(events.values()):
        seen = sorted({round(t / end * _MARKS) for t in times if t <= end})
        places = [place * end / _MARKS for place in seen]
        axes.plot(places, [y] * len(places), "|", color=INK, markersize=7, markeredgewidth=0.7)
    axes.set_yticks(range(len(events)), [f"{name} ({len(t)})" for name, t in events.items()],
                    fontsize=7)  # fmt: skip
    axes.set_ylim(len(events) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def series_limits(groups: Sequence[Lines]) -> tuple[float, float, float]:
    """Return common axis limits of all levels' series: seconds, operations/s, bytes."""
    speed = [s for lines in groups for run in lines.speed for s in run]
    written = [s for lines in groups for run in lines.written for s in run]
    right = max((t for s in speed + written for t in s.t), default=0.0)
    tops = [max((v for s in part for v in s.values), default=0.0) for part in (speed, written)]
    return right, tops[0], tops[1]


def _lines(
    axes: Axes, runs: Sequence[Sequence[Series]], factor: float, color: str, styles: dict[str, str]
) -> None:
    by_style: dict[str, list[Series]] = {}
    for line in (line for run in runs for line in run):
        by_style.setdefault(styles.get(line.name, "-"), []).append(line)
    for style, lines in by_style.items():
        broken = _joined([(one.t, [value / factor for value in one.values]) for one in lines])
        axes.plot(*broken, style, color=color, linewidth=1, alpha=0.75)


def _joined(
    lines: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> tuple[list[float], list[float]]:
    """Return many lines as one that is broken between them: an artist each would take seconds."""
    xs: list[float] = []
    ys: list[float] = []
    for x, y in lines:
        xs += [*x, math.nan]
        ys += [*y, math.nan]
    return xs, ys
