"""Figures of what zones went through: cost of resets and finishes, and the writes behind them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from matplotlib.ticker import MaxNLocator

from analysis import units, zn540
from analysis.compare import Comparison
from analysis.drawing import GRID, Plot, canvas, finish, legend
from analysis.groups import MARKERS, PALETTE
from analysis.history import Command, Probed, commands
from analysis.zn540 import Curve
from harness.metrics import Kind
from harness.tools.zoneprobe import Treatment

_US_PER_MS = 1000
_NS_PER_US = 1000
_STEPS = 200


def by_occupancy(comparison: Comparison, runs: Sequence[Probed]) -> Plot:
    """Mean latency against how much of the zone was written; the ZN540's on top."""
    plot = Plot(
        "history-commands", "Resets and finishes by what was written", None,
        "One point per run: the mean. Lines: the means published for a ZN540.",
    )  # fmt: skip
    series: tuple[tuple[str, str, bool, Curve], ...] = (
        ("reset", "reset", False, zn540.RESET),
        ("reset after finish", "reset", True, zn540.RESET_AFTER_FINISH),
        ("finish", "finish", True, zn540.FINISH),
    )
    figure, axes = canvas(3.2)
    for index, (label, command, finished, curve) in enumerate(series):
        points = [
            (one.percent(treatment), found.mean)
            for one in runs
            for treatment in one.summary.treatments if treatment.finish is finished
            for found in _named(commands(one, treatment), command)
        ]  # fmt: skip
        color = PALETTE[index]
        if points:
            axes.plot(*zip(*points, strict=True), MARKERS[index], color=color, markersize=5,
                      alpha=0.75, markeredgewidth=0, label=label)  # fmt: skip
        axes.plot(*_line(curve), "--", color=color, linewidth=1, alpha=0.8, label="_")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: units.human(value, "us"))
    axes.yaxis.set_minor_formatter(lambda _value, _: "")
    axes.set_xlabel("percent of the zone's capacity written before")
    legend(axes)
    return finish(comparison, figure, plot, Kind.TIME)


def behind_resets(comparison: Comparison, runs: Sequence[Probed]) -> Plot:
    """Latency of each of the first writes: the median over the cycles of a run."""
    plot = Plot(
        "history-writes", "First writes by what the zone went through", None,
        "One line per run: the median over its zones. Across: a ZN540's write to an open zone.",
    )  # fmt: skip
    figure, axes = canvas(2.9)
    for index, name in enumerate(shown(runs[0].summary.treatments)):
        for number, one in enumerate(runs):
            treatment = one.named(name)
            if treatment is None:
                continue
            places = list(zip(*treatment.writes, strict=True))
            axes.plot(
                range(1, len(places) + 1),
                [median(place) / _NS_PER_US for place in places],
                f"{MARKERS[index]}-", color=PALETTE[index], markersize=3, linewidth=0.8,
                alpha=0.8, markeredgewidth=0, label="_" if number else name,
            )  # fmt: skip
    axes.axhline(zn540.LATER_WRITE * _US_PER_MS, color=GRID, linewidth=1.4, zorder=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: units.human(value, "us"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("write behind the reset")
    legend(axes)
    return finish(comparison, figure, plot, Kind.TIME)


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


def _line(curve: Curve) -> tuple[list[float], list[float]]:
    """Return percents and microseconds: straight between points, which a log axis would bend.

    From one block on: what an empty zone takes is a jump.
    """
    places, times = zip(*curve[1:], strict=True)
    percents = np.linspace(places[0], places[-1], _STEPS)
    return list(percents), list(np.interp(percents, places, times) * _US_PER_MS)


def _named(found: Sequence[Command], name: str) -> list[Command]:
    return [command for command in found if command.name == name]
