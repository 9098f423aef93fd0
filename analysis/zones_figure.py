"""Every zone of a run over time, and how often zones were filled, finished and reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis import zones
from analysis.compare import Comparison
from analysis.drawing import INK, WIDTH, Plot, finish, slug
from analysis.groups import PALETTE, Group
from analysis.load import RunRecord
from analysis.series import read_throughput
from analysis.zones import Change, State
from harness.metrics import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Picture of the zones: so many moments, and zones are drawn together where there are more of them.
_MOMENTS, _MOST_ROWS = 460, 512
_COLORS = {State.ACTIVE: PALETTE[3], State.FULL: PALETTE[5], State.FINISHED: PALETTE[1]}
_NAMES = {State.ACTIVE: "being written", State.FULL: "full", State.FINISHED: "finished early"}
_COUNTED = {State.FULL: ("filled", "-"), State.FINISHED: ("finished", "--"),
            State.EMPTY: ("reset", ":")}  # fmt: skip


def timeline(comparison: Comparison, group: Group) -> Plot:
    """The zones of a level's first run that was traced; the sentence says why there is none."""
    name, title = f"zones-{slug(group.label)}", group.label
    traced = ((run, found) for run in group.runs if (found := zones.read_changes(run)))
    run, changes = next(traced, (None, ()))
    if run is None:
        return Plot(name, title, None, f"No zone command of {group.label} was traced.")
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _picture(upper, changes, run.result.device.zones or 0)
    _counts(lower, changes)
    _phases(upper, run)
    figure.legend(loc="outside upper left", ncols=3, fontsize=8, borderaxespad=0.2)
    total = zones.count(changes)
    sentence = (
        f"{run.name}. Above: each zone's state; below: how often zones were filled "
        f"({total[State.FULL]}), finished early ({total[State.FINISHED]}) and reset "
        f"({total[State.EMPTY]}), counted up. Thin lines: where phases begin."
    )
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.TIME)


def _picture(axes: Axes, changes: Sequence[Change], count: int) -> None:
    """Draw the states. What is shorter than a moment takes one: every life of a zone is seen."""
    together = -(-count // _MOST_ROWS)
    end = changes[-1].t or 1.0
    pixels = np.zeros((-(-count // together), _MOMENTS, 4))
    shown = zones.spans(changes)
    # Later ones over earlier ones, and what passes quickly over what stays.
    shown.sort(key=lambda span: (span.state is State.ACTIVE, span.begin))
    for span in shown:
        first = int(span.begin / end * (_MOMENTS - 1))
        last = max(first + 1, int(span.end / end * _MOMENTS))
        pixels[span.zone // together, first:last] = (*to_rgb(_COLORS[span.state]), 1.0)
    axes.imshow(pixels, extent=(0, end, count, 0), aspect="auto", interpolation="none")
    axes.set_ylabel("zone")
    axes.grid(visible=False)
    seen = {span.state for span in shown}
    for state, color in _COLORS.items():
        if state in seen:
            axes.plot([], [], "s", color=color, label=_NAMES[state])


def _counts(axes: Axes, changes: Sequence[Change]) -> None:
    end = changes[-1].t
    steps = np.linspace(0, end, _MOMENTS)
    for state, (label, style) in _COUNTED.items():
        times = np.array([change.t for change in changes if change.state is state])
        if times.size:
            counted = np.searchsorted(times, steps, side="right")
            axes.plot(steps, counted, style, color=INK, linewidth=1.1, label=label)
    axes.set_ylabel("zones so far")
    axes.set_xlabel("seconds since the run began")
    axes.set_xlim(0, end or 1)
    axes.set_ylim(bottom=0)


def _phases(axes: Axes, run: RunRecord) -> None:
    end = axes.get_xlim()[1]
    for line in read_throughput(run):
        if line.t[0] >= end:  # no zone changed any more
            break
        axes.axvline(line.t[0], color=INK, linewidth=0.6)
        axes.annotate(
            line.name, (line.t[0], 1), xycoords=("data", "axes fraction"), xytext=(2, -2),
            textcoords="offset points", va="top", fontsize=7, rotation=90,
        )  # fmt: skip
