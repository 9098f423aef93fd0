"""Figures of zone history: latency of resets and finishes, and of the writes after them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from matplotlib.ticker import MaxNLocator

from analysis.judge import latencies
from analysis.judge.compare import Comparison
from analysis.judge.latencies import LatencyCurve
from analysis.judge.zone_history import Probed, commands
from analysis.show.drawing import GRID, Look, Plot, canvas, dots, finish, latency_axis, legend
from analysis.show.groups import MARKERS, PALETTE
from harness.metrics.catalogue import MetricKind
from harness.tools.zoneprobe import Treatment

_US_PER_MS = 1000
_NS_PER_US = 1000
_STEPS = 200
# Label, command, whether the zone was finished, published curve.
_CURVES: tuple[tuple[str, str, bool, LatencyCurve], ...] = (
    ("reset", "reset", False, latencies.RESET),
    ("reset after finish", "reset", True, latencies.RESET_AFTER_FINISH),
    ("finish", "finish", True, latencies.FINISH),
)


def by_occupancy(comparison: Comparison, runs: Sequence[Probed]) -> Plot:
    """Draw mean latency against the written share of the zone, with the curves of a ZN540."""
    figure, axes = canvas(3.2)
    for (label, command, finished, curve), color, marker in zip(
        _CURVES, PALETTE, MARKERS, strict=False
    ):
        points = [
            (run.percent(treatment), result.mean)
            for run in runs
            for treatment in run.summary.treatments
            if treatment.finish is finished
            for result in commands(run, treatment)
            if result.name == command
        ]
        if points:
            x, y = zip(*points, strict=True)
            dots(axes, x, y, marker, color, label=label)
        axes.plot(*_line(curve), "--", color=color, linewidth=1, alpha=0.8, label="_")
    axes.set_yscale("log")
    latency_axis(axes)
    axes.set_xlabel("% of the zone's capacity written before")
    legend(axes)
    sentence = "One point per run: the mean. Dashed: published means of a ZN540."
    plot = Plot("history-commands", "Resets and finishes by written share", sentence)
    return finish(comparison, figure, plot, MetricKind.TIME)


def behind_resets(comparison: Comparison, runs: Sequence[Probed]) -> Plot:
    """Draw the latency of the first writes after a reset, the median over a run's cycles."""
    figure, axes = canvas(2.9)
    for name, color, marker in zip(
        shown(runs[0].summary.treatments), PALETTE, MARKERS, strict=False
    ):
        label = name
        for treatment in filter(None, (run.named(name) for run in runs)):
            times = [median(place) / _NS_PER_US for place in zip(*treatment.writes, strict=True)]
            look: Look = {"markersize": 3, "linewidth": 0.8, "alpha": 0.8, "label": label}
            dots(axes, range(1, len(times) + 1), times, f"{marker}-", color, **look)
            label = "_"  # only one legend entry per treatment
    axes.axhline(latencies.LATER_WRITE * _US_PER_MS, color=GRID, linewidth=1.4, zorder=0)
    axes.set_ylim(bottom=0)
    latency_axis(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("number of the write after the reset")
    legend(axes)
    sentence = (
        "One line per run: the median over its zones. Horizontal line: write to an open zone of a "
        "ZN540."
    )
    plot = Plot("history-writes", "First writes by history of the zone", sentence)
    return finish(comparison, figure, plot, MetricKind.TIME)


def shown(treatments: Sequence[Treatment]) -> list[str]:
    """Return the treatments that differ most: fresh, the fullest reset, the emptiest finish."""
    resets = [one for one in treatments if one.resets and not one.finish]
    finishes = [one for one in treatments if one.finish and one.occupied]
    names = [one.name for one in treatments if not one.resets]
    if resets:
        names.append(max(resets, key=lambda one: one.occupied).name)
    if finishes:
        names.append(min(finishes, key=lambda one: one.occupied).name)
    return names


def _line(curve: LatencyCurve) -> tuple[list[float], list[float]]:
    """Return percents and microseconds, interpolated so that a log axis shows straight segments.

    The curve begins at one block, because the latency jumps between an empty zone and one block.
    """
    places, times = zip(*curve[1:], strict=True)
    percents = np.linspace(places[0], places[-1], _STEPS)
    return list(percents), list(np.interp(percents, places, times) * _US_PER_MS)
