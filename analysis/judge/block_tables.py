"""Tables of block-level points: groups of points that are alike, and their values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from analysis.judge import stats
from analysis.judge.guideline import BlockMetric, Guideline, SweepAxis
from analysis.read.block import BlockPoint
from analysis.read.grouping import grouped

# Settings in common → block → value. A block is a repetition, whose runs share a seed.
BlockTable = Mapping[Hashable, Mapping[str, float]]


def table(points: Sequence[BlockPoint], metric: BlockMetric, names: Sequence[str]) -> BlockTable:
    """Return the geometric means of points that are alike in the named fields."""
    values: dict[Hashable, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        value = metric.of(point)
        if value is not None and value > 0:
            key = tuple(getattr(point, name) for name in names)
            values[key][point.block].append(value)
    return {
        key: {block: _mean(own) for block, own in blocks.items()} for key, blocks in values.items()
    }


def by_device(points: Sequence[BlockPoint]) -> dict[tuple[str, ...], list[BlockPoint]]:
    """Return the points of each device and setting: only points of one are compared."""
    return grouped(points, lambda point: (point.row, *point.others))


def alike(guideline: Guideline) -> tuple[str, ...]:
    """Return the fields in which both sides of a contrast must be equal: those it does not name."""
    sides = (guideline.side, guideline.base)
    named = {name for side in sides if side is not None for name in side.conditions}
    fields = ("row", "rw", "overwrites", "scheduler", "others", "bs", "in_flight")
    spread = () if "spread" in named else ("iodepth",)
    return (*(name for name in fields if name not in named), *spread)


def ratios(side: BlockTable, base: BlockTable) -> tuple[dict[str, float], dict[str, float]]:
    """Return both sides by block: geometric means over the points that both have in it."""
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for key in side.keys() & base.keys():
        for block in side[key].keys() & base[key].keys():
            pairs[block].append((side[key][block], base[key][block]))
    ours = {block: _mean([one for one, _ in own]) for block, own in pairs.items()}
    theirs = {block: _mean([two for _, two in own]) for block, own in pairs.items()}
    return ours, theirs


def curves(
    points: Sequence[BlockPoint], metric: BlockMetric, along: SweepAxis
) -> list[tuple[list[BlockPoint], dict[float, Mapping[str, float]]]]:
    """Return each curve with more than one x, and its points."""
    fixed = ("row", "rw", "overwrites", "scheduler", "others")
    other = ("iodepth", "jobs") if along is SweepAxis.BS else ("bs",)
    groups = grouped(points, lambda point: tuple(getattr(point, name) for name in (*fixed, *other)))
    found = []
    for own in groups.values():
        curve: dict[float, Mapping[str, float]] = {}
        for place in sorted({float(getattr(point, along.value)) for point in own}):
            here = [point for point in own if getattr(point, along.value) == place]
            curve[place] = table(here, metric, ()).get((), {})
        if len(curve) > 1:
            found.append((own, curve))
    return found


def peaks(points: Sequence[BlockPoint], metric: BlockMetric) -> dict[Hashable, dict[str, float]]:
    """Return settings in common → block → the largest value."""
    found: dict[Hashable, dict[str, float]] = defaultdict(dict)
    for point in points:
        value = metric.of(point)
        if value is not None and math.isfinite(value) and value > 0:
            own = found[point.row]
            own[point.block] = max(value, own.get(point.block, 0.0))
    return dict(found)


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean; a single value unchanged."""
    return values[0] if len(values) == 1 else stats.geometric_mean(values)
