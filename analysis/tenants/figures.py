"""Pictures of a mix: who loses how much, who is to blame, and all tenants on one clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from analysis import units
from analysis.compare import Comparison
from analysis.drawing import INK, WIDTH, Plot, canvas, finish, slug
from analysis.groups import PALETTE
from analysis.load import RunRecord
from analysis.tenants import aligned
from analysis.tenants.aligned import Events, Line
from analysis.tenants.attribution import Suspect, peaks
from analysis.tenants.fairness import COLUMNS, Slowdown
from analysis.tenants.mix import Mix, Together, read
from harness.metrics import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A slowdown of this factor has the strongest colour; a tenant that gains has the other colour.
_STRONGEST = 4.0
_LOSS, _GAIN, _NAMED = PALETTE[3], PALETTE[0], PALETTE[3]
_ROW = 0.42  # inches


def slowdown_matrix(comparison: Comparison, mix: Mix, found: Sequence[Slowdown]) -> Plot:
    """Tenants by metric: how many times worse it is than alone, with its interval."""
    name, title = f"tenants-slowdown{_suffix(mix)}", f"Slowdown of each tenant{_of(mix)}"
    cells = {(one.tenant, one.column): one for one in found}
    columns = [column for column in COLUMNS if any(one.column == column for one in found)]
    if not columns:
        why = "No tenant was measured both alone and with the others."
        return Plot(name, title, None, why)
    figure, axes = canvas(0.75 + _ROW * len(mix.tenants))
    _matrix(axes, mix.names, columns)
    for y, tenant in enumerate(mix.names):
        for x, column in enumerate(columns):
            one = cells.get((tenant, column))
            if one is None or one.estimate.center is None:
                _cell(axes, (x, y), units.DASH)
                continue
            e = one.estimate
            strength = float(np.clip(np.log(one.estimate.center) / np.log(_STRONGEST), -1, 1))
            color = _LOSS if strength > 0 else _GAIN
            spread = "" if e.low is None else f"{units.ratio(e.low)} .. {units.ratio(e.high)}"
            _cell(axes, (x, y), units.ratio(e.center), spread, (color, 0.6 * abs(strength)))
    sentence = (
        "Times worse than alone: throughput alone / shared, latency shared / alone; below it the "
        "interval. Above 1, sharing costs."
    )
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.TIME)


def blame_matrix(comparison: Comparison, mix: Mix, found: Sequence[Suspect]) -> Plot:
    """Whose latency peaks come with whose events: counted, expected, and p."""
    name, title = f"tenants-blame{_suffix(mix)}", f"Latency peaks and others' events{_of(mix)}"
    cells = {(one.tenant, one.suspect): one for who in found for one in who.findings}
    if not cells:
        why = "Not every tenant of a shared run has a series, so there is nothing to hold together."
        return Plot(name, title, None, why)
    figure, axes = canvas(0.95 + _ROW * len(mix.tenants))
    _matrix(axes, mix.names, mix.names)
    axes.set_title("whose events", fontsize=8, pad=16)
    axes.set_ylabel("whose peaks", fontsize=8)
    for y, tenant in enumerate(mix.names):
        for x, suspect in enumerate(mix.names):
            one = cells.get((tenant, suspect))
            if one is None:
                _cell(axes, (x, y), "")
            elif one.p_value is None:
                _cell(axes, (x, y), units.DASH, f"peaks: {one.peaks}")
            else:
                _cell(
                    axes, (x, y), f"{one.with_events} of {one.peaks} ({one.expected:.1f})",
                    f"p {one.p_holm:.2g}", (_NAMED, 0.5 if one.named else 0.0),
                )  # fmt: skip
    sentence = (
        "Peaks with an event in their window, in brackets how many by chance; p after Holm. "
        "Coloured: more than chance explains."
    )
    return finish(comparison, figure, Plot(name, title, None, sentence), Kind.TIME)


def timeline(comparison: Comparison, mix: Mix) -> Plot:
    """Every tenant of the first shared run with series: latency, peaks, everybody's events."""
    name, title = f"tenants-series{_suffix(mix)}", f"All tenants on one clock{_of(mix)}"
    for run in mix.shared:
        together = read(run)
        lines = {} if together is None else _lines(run, together)
        if together is not None and lines:
            return _timeline(comparison, run, together, lines, Plot(name, title, None, ""))
    return Plot(name, title, None, "No shared run has a series of any tenant.")


def _timeline(
    comparison: Comparison, run: RunRecord, together: Together, lines: Mapping[str, Line],
    plot: Plot,
) -> Plot:  # fmt: skip
    names = [one.name for one in together.tenants]
    events = {one.tenant: one for one in aligned.events(run, together)}
    figure = Figure(figsize=(WIDTH, 0.7 + 1.15 * len(names)), layout="constrained")
    rows = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for index, (axes, name) in enumerate(zip(rows, names, strict=True)):
        color = PALETTE[index % len(PALETTE)]
        if name in lines:
            _latency(axes, lines[name], together, color)
        _ticks(axes, [other for other in names if other != name], names, events)
        axes.set_title(name, fontsize=8, loc="left", color=color, fontweight="bold", pad=2)
    rows[-1].set_xlabel("seconds since the run began")
    rows[-1].set_xlim(together.began, together.ended)
    sources = sorted({one.source for one in lines.values()})
    sentence = (
        f"{run.name}. Line: {' or '.join(sources)}; rings: peaks. Ticks below: when the others' "
        "zones were reset, finished, opened or closed, or their levels collected garbage, in the "
        "colour of whose they are."
    )
    return finish(comparison, figure, Plot(plot.name, plot.title, None, sentence), Kind.TIME)


def _latency(axes: Axes, one: Line, together: Together, color: str) -> None:
    axes.plot(one.t, one.latency, color=color, linewidth=1.1)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: units.human(value, "us"))
    axes.yaxis.set_minor_formatter(lambda _value, _: "")
    axes.tick_params(axis="y", labelsize=7)
    inside = (one.t > together.began + aligned.WARM_UP) & (one.t <= together.ended)
    t, latency = one.t[inside], one.latency[inside]
    found = [peak.highest for peak in peaks(latency)]
    axes.plot(t[found], latency[found], "o", markersize=5, color=INK, markerfacecolor="none")


def _ticks(
    axes: Axes, others: Sequence[str], names: Sequence[str], events: Mapping[str, Events]
) -> None:
    """Draw the others' events below the line, a row for each tenant."""
    room = 0.09 * len(others)
    low, high = axes.get_ylim()
    if low > 0 and axes.get_yscale() == "log":
        axes.set_ylim(10 ** (np.log10(low) - room / (1 - room) * np.log10(high / low)), high * 1.2)
    for row, other in enumerate(others):
        color, height = PALETTE[names.index(other) % len(PALETTE)], 0.045 + 0.09 * row
        for times in events[other].times.values() if other in events else ():
            axes.plot(
                times, np.full(len(times), height), "|", markersize=5, color=color,
                transform=axes.get_xaxis_transform(), markeredgewidth=0.7,
            )  # fmt: skip


def _lines(run: RunRecord, together: Together) -> dict[str, Line]:
    found = (aligned.line(run, tenant) for tenant in together.tenants)
    return {one.tenant: one for one in found if one is not None}


def _matrix(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, labelsize=8)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)


def _cell(
    axes: Axes, at: tuple[int, int], text: str, below: str = "",
    fill: tuple[str, float] = (INK, 0.0),
) -> None:  # fmt: skip
    """Write into a cell of a matrix, (column, row); ``fill`` is its colour and how strong it is."""
    x, y = at
    color, alpha = fill
    sides = [x - 0.47, x + 0.47]
    axes.fill_between(sides, y - 0.45, y + 0.45, color=color, alpha=alpha, linewidth=0)
    shift = 0.13 if below else 0.0
    axes.text(x, y - shift, text, ha="center", va="center", fontsize=8.5)
    if below:
        axes.text(x, y + 0.25, below, ha="center", va="center", fontsize=6.5)


def _suffix(mix: Mix) -> str:
    return f"-{slug(mix.label)}" if mix.label else ""


def _of(mix: Mix) -> str:
    return f" ({mix.label})" if mix.label else ""
