"""The report's figures as SVG text: all points shown, one colour and marker per level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from analysis import units
from analysis.compare import Comparison
from analysis.drawing import GRID, INK, WIDTH, Plot, canvas, finish, legend, level_axis, mean, slug
from analysis.groups import PALETTE, Group
from analysis.select import metric_info
from analysis.series import Series, read_bytes_written, read_throughput
from analysis.stats import geometric_mean
from harness.metrics import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILES = (("p50", "latency_p50"), ("p99", "latency_p99"), ("p99.9", "latency_p99_9"),
             ("p99.99", "latency_p99_99"))  # fmt: skip


def strip(comparison: Comparison, groups: Sequence[Group], key: str) -> Plot:
    """Every run's value as a point, the geometric mean as a bar."""
    title = f"{key.partition('.')[0]}: {metric_info(key).name.replace('_', ' ')}"
    shown = [group for group in groups if group.values(key)]
    if not shown:
        return Plot(slug(key), title, None, f"No ok run measured {key}.")
    info = metric_info(key)
    factor, unit = units.scale(max(v for g in shown for v in g.values(key)), info.unit)
    figure, axes = canvas(0.9 + 0.34 * len(shown))
    for y, group in enumerate(shown):
        values = [value / factor for value in group.values(key)]
        spread = [y + 0.12 * (i - (len(values) - 1) / 2) / max(1, len(values)) * 2
                  for i in range(len(values))]  # fmt: skip
        axes.plot(values, spread, group.marker, color=group.color, markersize=5, alpha=0.75,
                  markeredgewidth=0)  # fmt: skip
        if min(values) > 0:
            axes.plot([geometric_mean(values)] * 2, [y - 0.32, y + 0.32], color=INK, linewidth=1.6)
    level_axis(axes, shown)
    axes.set_xlim(0, 1.06 * max(v for g in shown for v in g.values(key)) / factor or 1)
    axes.set_xlabel(unit or info.name)
    sentence = "One point per run; the bar is the geometric mean."
    return finish(comparison, figure, Plot(slug(key), title, None, sentence), info.kind)


def percentiles(comparison: Comparison, groups: Sequence[Group], phase: str) -> Plot:
    """Latency percentiles, one line per run: percentiles are never averaged over runs."""
    name, title = f"{phase}-latency", f"{phase}: latency percentiles"
    shown = [q for q in QUANTILES if any(g.values(f"{phase}.{q[1]}") for g in groups)]
    if not shown:
        why = f"No ok run has a latency percentile for {phase} (each needs n(1-q) >= 100 samples)."
        return Plot(name, title, None, why)
    figure, axes = canvas(2.9)
    for index, group in enumerate(groups):
        shift = 0.5 * ((index + 0.5) / len(groups) - 0.5)
        for number, run in enumerate(group.runs):
            values = [run.value(f"{phase}.{metric}") for _, metric in shown]
            points = [(x + shift, v) for x, v in enumerate(values) if v is not None and v > 0]
            if points:
                axes.plot(
                    *zip(*points, strict=True), f"{group.marker}-", color=group.color,
                    markersize=4.5, linewidth=0.8, alpha=0.8, markeredgewidth=0,
                    label="_" if number else group.label,
                )  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: units.human(value, "us"))
    axes.yaxis.set_minor_formatter(lambda _value, _: "")
    axes.set_xticks(range(len(shown)), [label for label, _ in shown])
    axes.margins(x=0.08)
    legend(axes)
    sentence = "One line per run. Percentiles come from its merged histogram, never from averages."
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.TIME)


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
        for run in group.runs:
            values = [run.value(key) for _, key, _, _ in layers]
            axes.plot(sum(v or 0 for v in values) / factor, y, "o", color=INK, markersize=2.5)
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
    )
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.BYTES)


def utilisation(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """Utilisation achieved by every run, with its target and tolerance."""
    name, title = "utilisation", "Utilisation before the measured phases (V / capacity)"
    points = [
        (y, run.result.utilisation) for y, group in enumerate(groups) for run in group.runs
        if run.result.utilisation and run.result.utilisation.u_ns is not None
    ]  # fmt: skip
    if not points:
        return Plot(name, title, None, "No ok run measured its utilisation.")
    figure, axes = canvas(1.1 + 0.34 * len(groups))
    for target, tolerance in sorted({(u.target, u.tolerance) for _, u in points}):
        axes.axvspan(100 * (target - tolerance), 100 * (target + tolerance), color=GRID, alpha=0.9)
        axes.axvline(100 * target, color=INK, linestyle="--", linewidth=1)
    for index, (y, found) in enumerate(points):
        group = groups[y]
        axes.plot(100 * (found.u_ns or 0), y + 0.12 * (index % 3 - 1), group.marker,
                  color=group.color, markersize=5, alpha=0.85, markeredgewidth=0)  # fmt: skip
    level_axis(axes, groups)
    axes.margins(x=0.15)
    axes.set_xlabel("% of zone capacity")
    sentence = "One point per run; dashed: target, band: tolerance."
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.RATIO)


def series(comparison: Comparison, group: Group, limits: tuple[float, float, float]) -> Plot:
    """Interval throughput and cumulative device bytes of a level's runs over time.

    ``limits``: right edge in seconds, top in operations/s and in bytes, shared by all levels.
    """
    name, title = f"series-{slug(group.label)}", group.label
    speed = [found for run in group.runs if (found := read_throughput(run))]
    written = [found for run in group.runs if (found := read_bytes_written(run))]
    if not speed and not written:
        return Plot(name, title, None, f"The runs of {group.label} have no time series.")
    right, top_speed, top_bytes = limits
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    factor, unit = units.scale(top_speed, "ops/s")
    _lines(upper, speed, factor, group.color, {})
    upper.set_ylabel(unit)
    upper.set_ylim(0, 1.05 * top_speed / factor or 1)
    factor, unit = units.scale(top_bytes, "B")
    _lines(lower, written, factor, group.color, {"conventional": "--"})
    lower.set_ylabel(unit)
    lower.set_ylim(0, 1.05 * top_bytes / factor or 1)
    lower.set_xlim(0, right or 1)
    lower.set_xlabel("seconds since the run began")
    sentence = (
        "Above: operations per interval. Below: bytes written to the zoned (solid) and "
        "the conventional device (dashed). One line per run."
    )
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.TIME)


def series_limits(groups: Iterable[Group]) -> tuple[float, float, float]:
    """Return common axis limits of all levels' series: seconds, operations/s, bytes."""
    runs = [run for group in groups for run in group.runs]
    speed = [s for run in runs for s in read_throughput(run)]
    written = [s for run in runs for s in read_bytes_written(run)]
    right = max((t for s in speed + written for t in s.t), default=0.0)
    tops = [max((v for s in part for v in s.values), default=0.0) for part in (speed, written)]
    return right, tops[0], tops[1]


def _lines(
    axes: Axes, runs: Sequence[Sequence[Series]], factor: float, color: str, styles: dict[str, str]
) -> None:
    for run in runs:
        for line in run:
            values = [value / factor for value in line.values]
            axes.plot(line.t, values, styles.get(line.name, "-"), color=color, linewidth=1,
                      alpha=0.75)  # fmt: skip
