"""From the user's bytes to those on the media, layer by layer, for each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from analysis import units
from analysis.compare import Comparison
from analysis.drawing import BY_RANK, INK, MOST_POINTS, WIDTH, Plot, by_rank, finish, mean
from analysis.flow import of_runs
from analysis.groups import PALETTE, Group
from harness.metrics import Kind
from harness.nulls import total
from harness.store.ledger import Entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "All measured and fill phases: bytes from user to media"
# Where a layer's bytes come from; the colour of each, and whether it is hatched.
_PARTS = {
    "user": (PALETTE[6], ""),
    "WAL": (PALETTE[5], ""),
    "flush": (PALETTE[0], ""),
    "compaction": (PALETTE[2], ""),
    "from above": ("#B8B8B8", ""),
    "garbage collection": (PALETTE[3], ""),
    "metadata, filling": (PALETTE[4], ""),
    "pad": (PALETTE[1], "////"),
    "inside the drive": (PALETTE[3], "////"),
    "not told apart": (PALETTE[7], ""),
}
_BAR, _HEAD = 0.2, 0.4  # inches: a layer's bar, and what a level's name and axis take


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a level: bytes by part, or null where nobody counted them."""

    name: str
    parts: Mapping[str, float] | None

    @property
    def size(self) -> float:
        """All of its bytes."""
        return sum(self.parts.values()) if self.parts else 0.0


def layers(entry: Entry) -> tuple[Layer, ...]:
    """Return a ledger's entry from top to bottom, in bytes."""
    submitted, accepted = sum(entry.submitted.values()), sum(entry.accepted.values())
    above = {"WAL": entry.wal, "flush": entry.flush, "compaction": entry.compaction}
    known = {name: float(size) for name, size in above.items() if size is not None}
    return (
        Layer("user", None if entry.user is None else {"user": float(entry.user)}),
        Layer("RocksDB", known if len(known) == len(above) else None),
        Layer("kernel", _submitted(entry, submitted)),
        Layer("device", {"from above": float(accepted)} if entry.accepted else None),
        Layer("media", _media(entry, submitted)),
    )


def _submitted(entry: Entry, submitted: int) -> Mapping[str, float]:
    own = {"garbage collection": entry.gc, "metadata, filling": entry.overhead}
    known = {name: float(size) for name, size in own.items() if size is not None}
    # A level that does not count its metadata has them in what is left.
    rest = "from above" if entry.overhead is not None else "not told apart"
    return {rest: submitted - sum(known.values()), **known}


def _media(entry: Entry, submitted: int) -> Mapping[str, float] | None:
    media = total(entry.media.values()) if entry.media else None
    if media is None:
        return None
    more = "pad" if entry.media_source.startswith("modelled") else "inside the drive"
    return {"from above": float(min(media, submitted)), more: float(max(media - submitted, 0))}


def from_user_to_media(comparison: Comparison, groups: Sequence[Group]) -> Plot:
    """One panel per level, one bar per layer: mean over its runs, a dot for each run."""
    name = "user-to-media"
    flows = [of_runs(comparison.campaign, group.runs) for group in groups]
    found = [
        (group, [flow.whole for flow in own if flow.whole is not None])
        for group, own in zip(groups, flows, strict=True)
    ]
    shown = [(group, [layers(one) for one in entries]) for group, entries in found if entries]
    if not shown:
        return Plot(name, TITLE, None, "No ok run has a ledger.")
    most = max(layer.size for _, runs in shown for run in runs for layer in run)
    factor, unit = units.scale(most, "B")
    names = [layer.name for layer in shown[0][1][0]]
    height = 0.6 + len(shown) * (len(names) * _BAR + _HEAD)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (group, runs) in zip(panels, shown, strict=True):
        for y in range(len(names)):
            _bar(axes, y, [run[y] for run in runs], user=mean([run[0].size for run in runs]),
                 factor=factor)  # fmt: skip
        axes.set_title(group.label, loc="left", fontsize=9, fontweight="bold", pad=2)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    panels[-1].set_xlim(0, 1.14 * most / factor or 1)  # room for the factor behind the bar
    panels[-1].set_xlabel(unit)
    for part, (color, hatch) in _PARTS.items():
        if any(part in (layer.parts or ()) for _, runs in shown for run in runs for layer in run):
            panels[0].barh(0, 0, color=color, hatch=hatch, label=part, linewidth=0)
    figure.legend(loc="outside upper left", ncols=3, fontsize=8, borderaxespad=0.2)
    without = [group.label for group, entries in found if not entries]
    sentence = (
        "Bars: mean over runs; dots: each run; behind them the multiple of U. Without "
        "the cold fill. A layer without a bar is not counted by anyone. What reached the media is "
        "modelled with the pad where drives do not tell it."
    )
    if any(len(group.runs) > MOST_POINTS for group in groups):
        sentence += BY_RANK
    if without:
        sentence += f" No ledger: {', '.join(without)}."
    return finish(comparison, figure, Plot(name, TITLE, None, sentence), Kind.BYTES)


def _bar(axes: Axes, y: int, runs: Sequence[Layer], *, user: float, factor: float) -> None:
    known = [layer for layer in runs if layer.parts is not None]
    if not known:
        axes.text(0, y, " not counted", va="center", fontsize=8, style="italic", alpha=0.7)
        return
    left = 0.0
    names = dict.fromkeys(name for layer in known for name in layer.parts or ())
    for name in names:
        color, hatch = _PARTS[name]
        width = mean([(layer.parts or {}).get(name, 0.0) for layer in known]) / factor
        axes.barh(y, width, 0.7, left=left, color=color, hatch=hatch, linewidth=0)
        left += width
    dots = by_rank([layer.size / factor for layer in known])
    axes.plot(dots, [y] * len(dots), "o", color=INK, markersize=2.2)
    if user and y:
        axes.annotate(
            f"{left * factor / user:.2f} U", (max(left, *(x.size / factor for x in known)), y),
            xytext=(4, 0), textcoords="offset points", va="center", fontsize=7.5,
        )  # fmt: skip
