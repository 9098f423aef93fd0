"""Bytes from the user to the media, layer by layer, one panel per group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from analysis import numbers
from analysis.judge.compare import Comparison
from analysis.read.flow import read_wholes
from analysis.show.drawing import (
    INK,
    Look,
    Plot,
    by_rank,
    by_rank_note,
    finish,
    mean,
    name_rows,
    panels,
    shared_legend,
    stacked_bar,
)
from analysis.show.groups import PALETTE, Group
from harness.metrics.catalogue import MetricKind
from harness.store.ledger import LedgerEntry

TITLE = "All measured and fill phases: bytes from user to media"
# Origin of a layer's bytes → colour and hatch.
_LOOKS: dict[str, Look] = {
    "user": {"color": PALETTE[6]},
    "WAL": {"color": PALETTE[5]},
    "flush": {"color": PALETTE[0]},
    "compaction": {"color": PALETTE[2]},
    "from above": {"color": "#B8B8B8"},
    "garbage collection": {"color": PALETTE[3]},
    "metadata, filling": {"color": PALETTE[4]},
    "pad": {"color": PALETTE[1], "hatch": "////"},
    "inside the drive": {"color": PALETTE[3], "hatch": "////"},
    "not separated": {"color": PALETTE[7]},
}
_BAR, _HEAD = 0.2, 0.4  # inches: one layer's bar; a group's name and axis


# The bytes of a layer by origin.
Parts = Mapping[str, float]


def layers(entry: LedgerEntry) -> dict[str, Parts | None]:
    """Return layer → its bytes, from top to bottom; null where they were not counted."""
    submitted, accepted = sum(entry.submitted.values()), sum(entry.accepted.values())
    above = {"WAL": entry.wal, "flush": entry.flush, "compaction": entry.compaction}
    known = {name: float(size) for name, size in above.items() if size is not None}
    return {
        "user": None if entry.user is None else {"user": float(entry.user)},
        "RocksDB": known if len(known) == len(above) else None,
        "kernel": _submitted(entry, submitted),
        "device": {"from above": float(accepted)} if entry.accepted else None,
        "media": _media(entry, submitted),
    }


def from_user_to_media(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """Draw one panel per group and one bar per layer: mean over runs, a dot per run."""
    name = "user-to-media"
    entries = [read_wholes(group.runs) for group in groups]
    shown = [
        (group, [layers(entry) for entry in own])
        for group, own in zip(groups, entries, strict=True)
        if own
    ]
    if not shown:
        return Plot(name, TITLE, "No ok run has a ledger.")
    bars = [_counted(runs) for _, runs in shown]
    every = [parts for own in bars for members in own.values() for parts in members]
    most = max((sum(parts.values()) for parts in every), default=0.0)
    factor, unit = numbers.scale(most, "B")
    heights = [len(own) * _BAR + _HEAD for own in bars]
    figure, stack = panels(0.6 + sum(heights), len(shown), heights)
    for axes, (group, runs), own in zip(stack, shown, bars, strict=True):
        user = mean([sum((run["user"] or {}).values()) for run in runs])
        for y, members in enumerate(own.values()):
            _bar(axes, y, members, user=user, factor=factor)
        axes.set_title(group.label, loc="left", fontsize=9, fontweight="bold", pad=2)
        name_rows(axes, list(own))
    stack[-1].set_xlim(0, 1.14 * most / factor or 1)  # room for the multiple of U
    stack[-1].set_xlabel(unit)
    for part, look in _LOOKS.items():
        if any(part in parts for parts in every):
            stack[0].barh(0, 0, label=part, linewidth=0, **look)
    shared_legend(figure)
    sentence = (
        "Bars: mean over runs; dots: each run; numbers: multiple of the user's bytes (U). "
        "The cold fill is not included. If a drive does not report its media bytes, they are "
        "modelled as written bytes plus pad."
        f"{_uncounted(shown, bars)}{by_rank_note(groups)}"
    )
    without = [group.label for group, own in zip(groups, entries, strict=True) if not own]
    if without:
        sentence += f" No ledger: {', '.join(without)}."
    return finish(comparison, figure, Plot(name, TITLE, sentence), MetricKind.BYTES)


def _counted(runs: Sequence[Mapping[str, Parts | None]]) -> dict[str, list[Parts]]:
    """Return the layers that at least one run counted, by name, from top to bottom."""
    return {
        name: known
        for name in runs[0]
        if (known := [parts for run in runs if (parts := run[name]) is not None])
    }


def _uncounted(
    shown: Sequence[tuple[Group, Sequence[Mapping[str, object]]]],
    bars: Sequence[Mapping[str, object]],
) -> str:
    """Return the caption's sentence about layers that are not drawn, '' for none."""
    missing: dict[str, list[str]] = {}
    for (group, runs), own in zip(shown, bars, strict=True):
        for name in runs[0]:
            if name not in own:
                missing.setdefault(name, []).append(group.label)
    parts = [f"{name} of {', '.join(labels)}" for name, labels in missing.items()]
    return f" Not drawn, because no counter reports it: {'; '.join(parts)}." if parts else ""


def _submitted(entry: LedgerEntry, submitted: int) -> Parts:
    own = {"garbage collection": entry.gc, "metadata, filling": entry.overhead}
    known = {name: float(size) for name, size in own.items() if size is not None}
    # The rest includes the metadata of a level that does not count its own.
    rest = "from above" if entry.overhead is not None else "not separated"
    return {rest: submitted - sum(known.values()), **known}


def _media(entry: LedgerEntry, submitted: int) -> Parts | None:
    media = entry.media_bytes
    if media is None:
        return None
    padded = entry.media_source.startswith("modelled") and entry.pad is not None
    more = "pad" if padded else "inside the drive"
    return {"from above": float(min(media, submitted)), more: float(max(media - submitted, 0))}


def _bar(axes: Axes, y: int, runs: Sequence[Parts], *, user: float, factor: float) -> None:
    names = dict.fromkeys(name for parts in runs for name in parts)
    bars = [
        (mean([parts.get(name, 0.0) for parts in runs]) / factor, _LOOKS[name]) for name in names
    ]
    end = stacked_bar(axes, y, bars)
    sizes = [sum(parts.values()) / factor for parts in runs]
    shown = by_rank(sizes)
    axes.plot(shown, [y] * len(shown), "o", color=INK, markersize=2.2)
    if user and y:
        place: Look = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        text = f"{end * factor / user:.2f} U"
        axes.annotate(text, (max(end, *sizes), y), fontsize=7.5, **place)
