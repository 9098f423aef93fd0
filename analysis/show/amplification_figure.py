"""Media bytes per user byte against device writes, and their final value by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter

from matplotlib.axes import Axes

from analysis.judge.compare import Comparison, repeated_groups
from analysis.read import amplification
from analysis.read.amplification import Amplification
from analysis.read.flow import read_wholes
from analysis.show import drawing
from analysis.show.drawing import (
    GRID,
    INK,
    Look,
    Plot,
    by_rank,
    by_rank_note,
    canvas,
    finish,
    joined,
    mean,
    name_rows,
    panels,
    shared_legend,
    stacked_bar,
)
from analysis.show.groups import PALETTE, Group
from harness.metrics.catalogue import MetricKind
from harness.nulls import total
from harness.store.ledger import LedgerEntry

OVER_WRITES, BY_LAYER = "amplification", "amplification-by-layer"
MEDIA_TITLE = "Media bytes per user byte against device writes"
DEVICE_TITLE = "Device bytes per user byte against device writes"
_SPLIT_TITLE = "Bytes per user byte at the end, by the layer that adds them"
_SHADES = (0.0, 0.6)  # opacity of neighbouring phases
_NARROW = 0.02  # phases with a smaller share of the axis have no name
_STYLES = ("-", (0, (1, 1.2)), (0, (4, 1, 1, 1)))  # by stratum
_DASHED = (0, (4, 2))  # without media bytes
_ROOM = 1.6  # end of the axis, in multiples of the largest last value
_NAME_HEIGHT = 0.1  # of a panel
_MOST_NAMES = 6  # beside a panel; more groups get a legend
# The layer that adds the bytes → colour and hatch.
_PARTS: dict[str, Look] = {
    "RocksDB": {"color": PALETTE[2]},
    "level": {"color": PALETTE[4]},
    "device": {"color": PALETTE[3], "hatch": "////"},
}


def over_writes(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """Draw one line per run: since the first fill above, over half of the capacity below."""
    repeated = repeated_groups(comparison)
    groups = [group for group in groups if group.place not in repeated]
    lines = {
        group.label: [
            line
            for run in group.runs[: drawing.MOST_RUNS]
            if (line := amplification.read(run)) is not None
        ]
        for group in groups
    }
    every = [line for own in lines.values() for line in own]
    without = [
        group.label for group in groups if not all(line.media for line in lines[group.label])
    ]
    title = MEDIA_TITLE if any(line.media for line in every) else DEVICE_TITLE
    if not every:
        return Plot(OVER_WRITES, title, "No ok run has a ledger and series of device writes.")
    figure, (upper, lower) = panels(4.2, 2)
    strata = list(dict.fromkeys(group.stratum for group in groups))
    for group in groups:
        style = _STYLES[strata.index(group.stratum) % len(_STYLES)]
        _draw((upper, lower), lines[group.label], group, style)
    _scale(upper, "since the first fill", every, windows=False)
    _scale(lower, "last half of capacity", every, windows=True)
    lower.set_xlabel("device writes since the first fill, in capacities")
    _shade((upper, lower), amplification.mean_ends(every))
    drawn = [group for group in groups if lines[group.label]]
    if len(drawn) <= _MOST_NAMES:
        _name_lines(upper, [(group, _last_cumulative(lines[group.label])) for group in drawn])
        _name_lines(lower, [(group, _last_window(lines[group.label])) for group in drawn])
    else:
        shared_legend(figure)
    sentence = (
        "One line per run; one colour per value of the contrasted factor; marks: ends of phases. "
        "Cells that repeat another one are left out. "
        "Above: all bytes since the first fill. Below: bytes of the last half of the capacity. "
        "Shaded: phases, at the mean of all runs. Series divide the bytes of a phase over its time."
        f"{_sources(groups)}"
    )
    if without:
        sentence += f" Dashed, device bytes, because media bytes are unknown: {', '.join(without)}."
    if missing := [group.label for group in groups if not lines[group.label]]:
        sentence += f" No line: {', '.join(missing)}."
    return finish(comparison, figure, Plot(OVER_WRITES, title, sentence), MetricKind.BYTES)


def by_layer(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """Draw one bar per group: what RocksDB, the level and the device add to a user byte."""
    shown = []
    for group in groups:
        wholes = read_wholes(group.runs)
        parts = [split for entry in wholes if (split := split_of(entry)) is not None]
        if parts:
            shown.append((group, parts))
    if not shown:
        return Plot(BY_LAYER, _SPLIT_TITLE, "No ok run has a ledger with bytes of every layer.")
    figure, axes = canvas(1.2 + 0.34 * len(shown))
    most = max(sum(split.values()) for _, parts in shown for split in parts)
    for y, (_, parts) in enumerate(shown):
        names = [name for name in _PARTS if all(name in split for split in parts)]
        bars = [(mean([split[name] for split in parts]), _PARTS[name]) for name in names]
        end = stacked_bar(axes, y, bars)
        sums = by_rank([sum(split.values()) for split in parts])
        axes.plot(sums, [y] * len(sums), "o", color=INK, markersize=2.2)
        note = "" if "device" in names else " + device"
        place: Look = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(f"{end:.2f}{note}", (max(end, *sums), y), fontsize=7.5, **place)
    axes.axvline(1, color=INK, linestyle="--", linewidth=1)
    for name, look in _PARTS.items():
        if any(name in split for _, parts in shown for split in parts):
            axes.barh(0, 0, label=name, linewidth=0, **look)
    name_rows(axes, [group.short for group, _ in shown])
    axes.set_xlim(0, 1.22 * most)
    axes.set_xlabel("bytes per user byte")
    shared_legend(figure)
    sentence = (
        "Bars: mean over runs, from the first fill to the end; dots: each run; dashed: the user's "
        "own bytes. RocksDB: log, flushes and compactions. Level: its collection and metadata, "
        "and what it never wrote is not drawn. Device: collection inside the drive and pad. "
        "'+ device': nothing counted or modelled the medium."
        f"{_sources(groups)}{by_rank_note(groups)}"
    )
    return finish(comparison, figure, Plot(BY_LAYER, _SPLIT_TITLE, sentence), MetricKind.BYTES)


def split_of(entry: LedgerEntry) -> dict[str, float] | None:
    """Return what each layer adds to a user byte; None if RocksDB's or the user's are unknown.

    The sum is the write amplification of the medium, or of the device where M is unknown. Deleted
    files that a file system never wrote are not counted in RocksDB's bytes.
    """
    above = (entry.wal, entry.flush, entry.compaction)
    if not entry.user or any(size is None for size in above):
        return None
    rocksdb, device = sum(size or 0 for size in above), sum(entry.submitted.values())
    parts = {"RocksDB": min(rocksdb, device), "level": max(0, device - rocksdb)}
    media = entry.media_bytes
    if media is not None:
        parts["device"] = max(0, media - device)
    return {name: size / entry.user for name, size in parts.items()}


def _draw(
    stack: tuple[Axes, Axes], lines: Sequence[Amplification], group: Group, style: object
) -> None:
    for media in (True, False):
        own = [line for line in lines if line.media is media]
        if not own:
            continue
        look: Look = {"color": group.color, "linewidth": 0.8, "alpha": 0.8}
        look["linestyle"] = style if media else _DASHED
        paths = [
            [[value if value is not None else math.nan for value in column] for column in columns]
            for columns in (zip(*line.points, strict=True) for line in own)
        ]
        above, below = (joined([(path[0], path[which]) for path in paths]) for which in (1, 2))
        stack[0].plot(*above, label=group.short, **look)
        stack[1].plot(*below, **look)
        _mark_ends(stack[0], own, group)


def _mark_ends(axes: Axes, lines: Sequence[Amplification], group: Group) -> None:
    marks = [
        (place, min(line.points, key=lambda point: abs(point.turnover - place)).cumulative)
        for line in lines
        for place in sorted(set(line.ends.values()))
    ]
    x, y = zip(*marks, strict=True)
    axes.plot(x, y, group.marker, color=group.color, markersize=3, markeredgewidth=0)


def _scale(axes: Axes, title: str, lines: Sequence[Amplification], *, windows: bool) -> None:
    """Name and limit the axes, so that single windows do not hide the rest."""
    last = _last_window(lines) if windows else _last_cumulative(lines)
    axes.set_ylim(0, _ROOM * max(last) or 1)
    axes.set_ylabel(f"bytes per user byte,\n{title}", fontsize=8)
    axes.set_xlim(0, max(line.points[-1].turnover for line in lines))


def _last_cumulative(lines: Sequence[Amplification]) -> list[float]:
    return [line.points[-1].cumulative for line in lines]


def _last_window(lines: Sequence[Amplification]) -> list[float]:
    return [
        next((point.window for point in reversed(line.points) if point.window is not None), 0.0)
        for line in lines
    ]


def _name_lines(axes: Axes, ends: Sequence[tuple[Group, Sequence[float]]]) -> None:
    """Write the group's name beside the mean end of its lines; names move up to stay apart."""
    gap = _NAME_HEIGHT * axes.get_ylim()[1]
    place = axes.get_yaxis_transform()
    y = -gap
    for end, group in sorted(((mean(own), group) for group, own in ends), key=itemgetter(0)):
        y = max(end, y + gap)
        sample: Look = {"color": group.color, "markersize": 5, "markeredgewidth": 0}
        axes.plot([1.03], [y], group.marker, transform=place, clip_on=False, **sample)
        axes.text(1.05, y, group.short, transform=place, fontsize=7.5, va="center")


def _shade(stack: tuple[Axes, Axes], ends: Mapping[str, float]) -> None:
    """Shade every second phase, and write the names above the upper panel."""
    edges = list(pairwise([0.0, *ends.values()]))
    width = stack[0].get_xlim()[1]
    wide = [
        (name, a, b) for name, (a, b) in zip(ends, edges, strict=True) if b - a > _NARROW * width
    ]
    for index, (name, begin, end) in enumerate(wide):
        for axes in stack:
            axes.axvspan(begin, end, color=GRID, alpha=_SHADES[index % 2], linewidth=0)
            axes.axvline(end, color=INK, linewidth=0.6, alpha=0.4)
        place = stack[0].get_xaxis_transform()
        y = 1.01 + 0.09 * (index % 2)  # names of short phases would overlap
        stack[0].text(begin, y, name, transform=place, fontsize=7, va="bottom")


def _sources(groups: Sequence[Group]) -> str:
    """Return the caption's sentence about the source of media bytes; '' without a source."""
    sources = dict.fromkeys(
        entry.media_source
        for group in groups
        for entry in read_wholes(group.runs)
        if entry.media_source and total(entry.media.values()) is not None
    )
    return f" Media bytes: {'; '.join(sources)}." if sources else ""
