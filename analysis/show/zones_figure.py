"""The state of every zone of a run over time, and counts of filled, finished and reset zones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from analysis.judge.compare import Comparison
from analysis.read import zones
from analysis.read.load import RunRecord
from analysis.read.series import read_throughput
from analysis.read.zones import StateChange, ZoneState
from analysis.show.drawing import INK, SECONDS, Look, Plot, finish, panels, shared_legend, slug
from analysis.show.groups import PALETTE, Group
from harness.metrics.catalogue import MetricKind

_MOMENTS, _MOST_ROWS = 460, 512  # pixels of the picture; if there are more zones, they share rows
_COLORS = {ZoneState.ACTIVE: PALETTE[3], ZoneState.FULL: PALETTE[5], ZoneState.FINISHED: PALETTE[1]}
_NAMES = {
    ZoneState.ACTIVE: "being written",
    ZoneState.FULL: "full",
    ZoneState.FINISHED: "finished early",
}
_COUNTED = {
    ZoneState.FULL: ("filled", "-"),
    ZoneState.FINISHED: ("finished", "--"),
    ZoneState.EMPTY: ("reset", ":"),
}


def timeline(comparison: Comparison, group: Group) -> Plot:
    """Draw the zones of a group's first traced run."""
    name, title = f"zones-{slug(group.label)}", group.label
    traced = ((run, changes) for run in group.runs if (changes := zones.read_changes(run)))
    run, changes = next(traced, (None, ()))
    if run is None:
        return Plot(name, title, f"No zone command of {group.label} was traced.")
    figure, (upper, lower) = panels(4.4, 2, (3, 1))
    _picture(upper, changes, run.result.device.zones or 0)
    _counts(lower, changes)
    _phases(upper, run)
    shared_legend(figure)
    total = zones.count(changes)
    sentence = (
        f"{run.name}. Top: state of each zone. Below: cumulative number of zones filled "
        f"({total[ZoneState.FULL]}), finished early ({total[ZoneState.FINISHED]}) and reset "
        f"({total[ZoneState.EMPTY]}). Thin lines: beginning of a phase."
    )
    return finish(comparison, figure, Plot(name, title, sentence), MetricKind.TIME)


def _picture(axes: Axes, changes: Sequence[StateChange], count: int) -> None:
    """Draw the states; a state shorter than a pixel gets one pixel, so that it is visible."""
    zones_per_row = -(-count // _MOST_ROWS)
    end = changes[-1].t or 1.0
    pixels = np.zeros((-(-count // zones_per_row), _MOMENTS, 4))
    spans = zones.spans(changes)
    # Later states cover earlier ones, and short active states cover long states.
    spans.sort(key=lambda span: (span.state is ZoneState.ACTIVE, span.begin))
    for span in spans:
        first = int(span.begin / end * (_MOMENTS - 1))
        last = max(first + 1, int(span.end / end * _MOMENTS))
        pixels[span.zone // zones_per_row, first:last] = (*to_rgb(_COLORS[span.state]), 1.0)
    axes.imshow(pixels, extent=(0, end, count, 0), aspect="auto", interpolation="none")
    axes.set_ylabel("zone")
    axes.grid(visible=False)
    seen = {span.state for span in spans}
    for state, color in _COLORS.items():
        if state in seen:
            axes.plot([], [], "s", color=color, label=_NAMES[state])


def _counts(axes: Axes, changes: Sequence[StateChange]) -> None:
    end = changes[-1].t
    steps = np.linspace(0, end, _MOMENTS)
    for state, (label, style) in _COUNTED.items():
        times = np.array([change.t for change in changes if change.state is state])
        if times.size:
            counts = np.searchsorted(times, steps, side="right")
            axes.plot(steps, counts, style, color=INK, linewidth=1.1, label=label)
    axes.set_ylabel("zones so far")
    axes.set_xlabel(SECONDS)
    axes.set_xlim(0, end or 1)
    axes.set_ylim(bottom=0)


def _phases(axes: Axes, run: RunRecord) -> None:
    end = axes.get_xlim()[1]
    look: Look = {"va": "top", "fontsize": 7, "rotation": 90}
    look |= {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
    for line in read_throughput(run):
        if line.t[0] >= end:  # after the last change of a zone
            break
        axes.axvline(line.t[0], color=INK, linewidth=0.6)
        axes.annotate(line.name, (line.t[0], 1), xytext=(2, -2), **look)
