"""Figures of a mix: slowdowns, coincidence of peaks and events, all tenants on one clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis import numbers
from analysis.judge.compare import Comparison
from analysis.judge.stats import Estimate
from analysis.read.arrays import FloatArray
from analysis.read.load import RunRecord
from analysis.show.drawing import (
    INK,
    SECONDS,
    Look,
    Plot,
    canvas,
    finish,
    latency_axis,
    panels,
    slug,
)
from analysis.show.groups import PALETTE
from analysis.tenants import aligned
from analysis.tenants.aligned import Line
from analysis.tenants.attribution import Suspect, peaks
from analysis.tenants.fairness import COLUMNS, Slowdown
from analysis.tenants.mix import Mix, SharedSpan, read
from harness.metrics.catalogue import MetricKind

_STRONGEST = 4.0  # slowdown with the strongest colour
_LOSS, _GAIN = PALETTE[3], PALETTE[0]
_ROW = 0.42  # inches


def slowdown_matrix(comparison: Comparison, mix: Mix, slowdowns: Sequence[Slowdown]) -> Plot:
    """Draw tenants by metric: the slowdown against running alone, with its interval."""
    plot = _plot("slowdown", "Slowdown of each tenant", mix)
    cells = {(one.tenant, one.column): one.estimate for one in slowdowns}
    columns = [column for column in COLUMNS if any(one.column == column for one in slowdowns)]
    if not columns:
        return plot.captioned("No tenant was measured both alone and with the others.")
    figure, axes = canvas(0.75 + _ROW * len(mix.tenants))
    _matrix(axes, mix.names, columns)
    for y, tenant in enumerate(mix.names):
        for x, column in enumerate(columns):
            _slowdown(axes, (x, y), cells.get((tenant, column)))
    sentence = (
        "Factor lost against running alone. Throughput: alone / shared; latency: shared / alone. "
        "Second line: interval. Above 1, sharing costs."
    )
    return finish(comparison, figure, plot.captioned(sentence), MetricKind.TIME)


def blame_matrix(comparison: Comparison, mix: Mix, suspects: Sequence[Suspect]) -> Plot:
    """Draw tenants by tenants: latency peaks that coincide with events, expected count and p."""
    plot = _plot("blame", "Latency peaks and others' events", mix)
    cells = {
        (finding.tenant, finding.suspect): finding
        for suspect in suspects
        for finding in suspect.findings
    }
    if not cells:
        return plot.captioned(
            "No shared run has a series of every tenant, so peaks are not tested."
        )
    figure, axes = canvas(0.95 + _ROW * len(mix.tenants))
    _matrix(axes, mix.names, mix.names)
    axes.set_title("whose events", fontsize=8, pad=16)
    axes.set_ylabel("whose peaks", fontsize=8)
    for y, tenant in enumerate(mix.names):
        for x, suspect in enumerate(mix.names):
            finding = cells.get((tenant, suspect))
            if finding is None:
                _cell(axes, (x, y), "")
            elif finding.p_value is None:
                _cell(axes, (x, y), numbers.DASH, f"peaks: {finding.peaks}")
            else:
                text = f"{finding.with_events} of {finding.peaks} ({finding.expected:.1f})"
                fill = (_LOSS, 0.5 if finding.named else 0.0)
                _cell(axes, (x, y), text, f"p {finding.p_holm:.2g}", fill)
    sentence = (
        "Peaks with an event in their window, with the number expected by chance in brackets; "
        "p after Holm. Coloured: more than chance explains."
    )
    return finish(comparison, figure, plot.captioned(sentence), MetricKind.TIME)


def timeline(comparison: Comparison, mix: Mix) -> Plot:
    """Draw all tenants of the first shared run with series: latency, peaks, others' events."""
    plot = _plot("series", "All tenants on one clock", mix)
    for run in mix.shared:
        together = read(run)
        lines = {} if together is None else aligned.read_lines(run, together)
        if together is not None and lines:
            return _timeline(comparison, run, together, lines, plot)
    return plot.captioned("No shared run has a series of any tenant.")


def _timeline(
    comparison: Comparison,
    run: RunRecord,
    together: SharedSpan,
    lines: Mapping[str, Line],
    plot: Plot,
) -> Plot:
    names = [tenant.name for tenant in together.tenants]
    colors = {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(names)}
    events = aligned.events(run, together)
    second = run.seconds(1.0)  # on the clock of the drive's model
    figure, stack = panels(0.7 + 1.15 * len(names), len(names))
    for axes, name in zip(stack, names, strict=True):
        if name in lines:
            _latency(axes, lines[name], together, colors[name], second)
        _ticks(axes, {other: colors[other] for other in names if other != name}, events, second)
        axes.set_title(name, fontsize=8, loc="left", color=colors[name], fontweight="bold", pad=2)
    stack[-1].set_xlabel(SECONDS)
    stack[-1].set_xlim(together.began * second, together.ended * second)
    sources = " or ".join(sorted({line.source for line in lines.values()}))
    sentence = (
        f"{run.name}. Line: {sources}; rings: peaks. Ticks: zone resets, finishes, opens and "
        "closes, and garbage collection of the other tenants, each in its tenant's colour."
    )
    return finish(comparison, figure, plot.captioned(sentence), MetricKind.TIME)


def _latency(axes: Axes, line: Line, together: SharedSpan, color: str, second: float) -> None:
    timed = np.isfinite(line.latency)  # false in intervals without operations
    axes.plot(line.t[timed] * second, line.latency[timed] * second, color=color, linewidth=1.1)
    axes.set_yscale("log")
    latency_axis(axes)
    axes.tick_params(axis="y", labelsize=7)
    inside = timed & (line.t > together.began + aligned.WARM_UP) & (line.t <= together.ended)
    t, latency = line.t[inside] * second, line.latency[inside] * second
    highest = [peak.highest for peak in peaks(latency)]
    axes.plot(t[highest], latency[highest], "o", markersize=5, color=INK, markerfacecolor="none")


def _ticks(
    axes: Axes,
    others: Mapping[str, str],
    events: Mapping[str, Mapping[str, FloatArray]],
    second: float,
) -> None:
    """Draw one row of ticks per other tenant (name → colour) below the line."""
    room = 0.09 * len(others)
    low, high = axes.get_ylim()
    if low > 0 and axes.get_yscale() == "log":
        axes.set_ylim(10 ** (np.log10(low) - room / (1 - room) * np.log10(high / low)), high * 1.2)
    for row, (other, color) in enumerate(others.items()):
        height = 0.045 + 0.09 * row
        look: Look = {"color": color, "markersize": 5, "markeredgewidth": 0.7}
        look |= {"transform": axes.get_xaxis_transform()}
        for times in events[other].values():
            axes.plot(times * second, np.full(len(times), height), "|", **look)


def _matrix(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _slowdown(axes: Axes, at: tuple[int, int], estimate: Estimate | None) -> None:
    if estimate is None or estimate.center is None:
        _cell(axes, at, numbers.DASH)
        return
    strength = float(np.clip(np.log(estimate.center) / np.log(_STRONGEST), -1, 1))
    interval = ""
    if estimate.low is not None:
        interval = f"{numbers.ratio(estimate.low)} .. {numbers.ratio(estimate.high)}"
    fill = (_LOSS if strength > 0 else _GAIN, 0.6 * abs(strength))
    _cell(axes, at, numbers.ratio(estimate.center), interval, fill)


def _cell(
    axes: Axes,
    at: tuple[int, int],
    text: str,
    below: str = "",
    fill: tuple[str, float] = (INK, 0.0),
) -> None:
    """Write into the cell (column, row); ``fill`` is its colour and opacity."""
    x, y = at
    color, alpha = fill
    sides = [x - 0.47, x + 0.47]
    axes.fill_between(sides, y - 0.45, y + 0.45, color=color, alpha=alpha, linewidth=0)
    shift = 0.13 if below else 0.0
    axes.text(x, y - shift, text, ha="center", va="center", fontsize=8.5)
    if below:
        axes.text(x, y + 0.25, below, ha="center", va="center", fontsize=6.5)


def _plot(name: str, title: str, mix: Mix) -> Plot:
    if not mix.label:
        return Plot(f"tenants-{name}", title)
    return Plot(f"tenants-{name}-{slug(mix.label)}", f"{title} ({mix.label})")
