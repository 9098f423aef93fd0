"""Figures that compare all groups: every run as a point, one colour and marker per group."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis import numbers
from analysis.judge.compare import Comparison
from analysis.judge.select import metric_info
from analysis.judge.stats import geometric_mean
from analysis.read.load import RunRecord
from analysis.read.percentiles import together
from analysis.show import drawing
from analysis.show.drawing import (
    GRID,
    INK,
    Look,
    Plot,
    by_rank,
    by_rank_note,
    canvas,
    dots,
    finish,
    joined,
    latency_axis,
    legend,
    mean,
    name_rows,
    shared_legend,
    slug,
    stacked_bar,
)
from analysis.show.groups import PALETTE, Group
from harness.metrics.catalogue import MetricKind
from harness.tools.histogram import quantile

QUANTILES = (
    (5000, "latency_p50"),
    (9900, "latency_p99"),
    (9990, "latency_p99_9"),
    (9999, "latency_p99_99"),
)
# Quantiles in ten-thousandths: the drawn ones, and those with a label on the axis.
_DRAWN = (1000, 2500, 5000, 7500, 9000, 9500, 9750, 9900, 9950, 9975, 9990, 9995, 9999)
_NAMED = (5000, 9000, 9900, 9990, 9999)
_DEVICES: tuple[tuple[str, Look], ...] = (
    ("zoned", {"alpha": 1.0, "edgecolor": "none"}),
    ("conventional", {"alpha": 0.45, "hatch": "////", "edgecolor": INK}),
)


def strip(comparison: Comparison, groups: Sequence[Group], key: str) -> Plot:
    """Draw one metric: every run's value as a point, the geometric mean as a bar."""
    info = metric_info(key)
    name, title = slug(key), f"{key.rpartition('.')[0]}: {info.name.replace('_', ' ')}"
    shown = [(group, values) for group in groups if (values := group.values(key))]
    if not shown:
        return Plot(name, title, f"No ok run measured {key}.")
    most = max(max(values) for _, values in shown)
    factor, unit = numbers.scale(most, info.unit)
    figure, axes = canvas(0.9 + 0.34 * len(shown))
    for y, (group, measured) in enumerate(shown):
        values = [value / factor for value in measured]
        points = by_rank(values)
        middle, step = (len(points) - 1) / 2, 0.24 / len(points)
        places = [y + step * (index - middle) for index in range(len(points))]
        dots(axes, points, places, group.marker, group.color)
        if min(values) > 0:
            axes.plot([geometric_mean(values)] * 2, [y - 0.32, y + 0.32], color=INK, linewidth=1.6)
    name_rows(axes, [group.short for group, _ in shown])
    axes.set_xlim(0, 1.06 * most / factor or 1)
    axes.set_xlabel(unit or info.name)
    sentence = f"One point per run; bar: geometric mean.{by_rank_note(groups)}"
    return finish(comparison, figure, Plot(name, title, sentence), info.kind)


def percentiles(comparison: Comparison, groups: Sequence[Group], phase: str) -> Plot:
    """Draw latency against the share of faster operations, one line per run."""
    name, title = f"{phase}-latency", f"{phase}: latency percentiles"
    curves = {
        group.label: [curve for run in _sample(group) if (curve := _curve(run, phase))]
        for group in groups
    }
    if not any(curves.values()):
        why = f"No ok run has a latency percentile for {phase} (each needs n(1-q) >= 100 samples)."
        return Plot(name, title, why)
    figure, axes = canvas(2.9)
    for group in groups:
        if own := curves[group.label]:
            x, y = joined(
                [([_nines(at) for at, _ in curve], [us for _, us in curve]) for curve in own]
            )
            look: Look = {"markersize": 3.5, "linewidth": 0.9, "alpha": 0.8, "label": group.short}
            dots(axes, x, y, f"{group.marker}-", group.color, **look)
    axes.set_yscale("log")
    latency_axis(axes)
    most = max(per_myriad for own in curves.values() for curve in own for per_myriad, _ in curve)
    named = [per_myriad for per_myriad in _NAMED if per_myriad <= most]
    axes.set_xticks([_nines(at) for at in named], [f"p{at / 100:g}" for at in named])
    axes.set_xlim(0, _nines(most) + 0.1)
    legend(axes)
    sentence = (
        "One line per run, from its merged histogram. Every point has at least 100 slower "
        "operations."
    )
    if any(len(group.runs) > drawing.MOST_RUNS for group in groups):
        sentence += f" Larger groups show at most {drawing.MOST_RUNS} runs, at equal steps."
    return finish(comparison, figure, Plot(name, title, sentence), MetricKind.TIME)


def device_bytes(comparison: Comparison, groups: Sequence[Group], phase: str) -> Plot:
    """Draw the mean bytes written to each device as bars, the user's bytes as a mark."""
    name, title = f"{phase}-bytes", f"{phase}: bytes to each device"
    keys = [f"{phase}.{device}_written" for device, _ in _DEVICES]
    totals = [sum(mean(group.values(key)) for key in keys) for group in groups]
    if not any(totals):
        return Plot(name, title, f"No ok run wrote to a device during {phase}.")
    user = [mean(group.values(f"{phase}.user_bytes")) for group in groups]
    factor, unit = numbers.scale(max(totals + user), "B")
    figure, axes = canvas(1.5 + 0.34 * len(groups))
    for y, group in enumerate(groups):
        looks = ({"color": group.color} | look for _, look in _DEVICES)
        widths = (mean(group.values(key)) / factor for key in keys)
        stacked_bar(axes, y, zip(widths, looks, strict=True))
        written = by_rank([sum(run.value(key) or 0 for key in keys) / factor for run in group.runs])
        axes.plot(written, [y] * len(written), "o", color=INK, markersize=2.5)
        if user[y]:
            axes.plot([user[y] / factor] * 2, [y - 0.42, y + 0.42], "--", color=INK, linewidth=1.4)
    for device, look in _DEVICES:
        axes.barh(0, 0, color=PALETTE[-1], label=device, linewidth=0, **look)
    axes.plot([], [], "--", color=INK, label="user bytes")
    name_rows(axes, [group.short for group in groups])
    axes.set_xlabel(unit)
    shared_legend(figure)  # names of rows can leave too little width beside them
    sentence = (
        "Bars: mean over runs, stacked by device; dots: total of each run; dashed: user bytes."
        f"{by_rank_note(groups)}"
    )
    return finish(comparison, figure, Plot(name, title, sentence), MetricKind.BYTES)


def utilisation(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """Draw the utilisation that every run achieved, with its target and tolerance."""
    name, title = "utilisation", "Utilisation before the measured phases (V / capacity)"
    achieved = [
        [u for run in group.runs if (u := run.result.utilisation) and u.u_ns is not None]
        for group in groups
    ]
    if not any(achieved):
        return Plot(name, title, "No ok run measured its utilisation.")
    figure, axes = canvas(1.1 + 0.34 * len(groups))
    for target, tolerance in sorted({(u.target, u.tolerance) for own in achieved for u in own}):
        axes.axvspan(100 * (target - tolerance), 100 * (target + tolerance), color=GRID, alpha=0.9)
        axes.axvline(100 * target, color=INK, linestyle="--", linewidth=1)
    for y, (group, own) in enumerate(zip(groups, achieved, strict=True)):
        points = by_rank([100 * (u.u_ns or 0) for u in own])
        places = [y + 0.12 * (index % 3 - 1) for index in range(len(points))]
        dots(axes, points, places, group.marker, group.color, alpha=0.85)
    name_rows(axes, [group.short for group in groups])
    axes.margins(x=0.15)
    axes.set_xlabel("% of zone capacity")
    sentence = f"One point per run; dashed: target; band: tolerance.{by_rank_note(groups)}"
    return finish(comparison, figure, Plot(name, title, sentence), MetricKind.RATIO)


def _nines(per_myriad: int) -> float:
    """Return a quantile's place on the axis: 1 for p90, 2 for p99, 3 for p99.9."""
    return -math.log10(1 - per_myriad / 10_000)


def _curve(run: RunRecord, phase: str) -> list[tuple[int, float]]:
    """Return (quantile in ten-thousandths, microseconds) from histograms, else from metrics."""
    histogram = together([run], phase)
    points = [(at, quantile(histogram, at) if histogram else None) for at in _DRAWN]
    if not any(value for _, value in points):
        points = [(at, run.value(f"{phase}.{metric}")) for at, metric in QUANTILES]
    return [(at, value) for at, value in points if value]


def _sample(group: Group) -> Sequence[RunRecord]:
    """Return at most MOST_RUNS runs, at equal steps."""
    return group.runs[:: -(-len(group.runs) // drawing.MOST_RUNS)]
