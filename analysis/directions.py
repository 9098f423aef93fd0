"""Published directions of a finish threshold and of the zone size, judged on a table of points.

Page's test for ordered alternatives: in each block (a repetition at one value of the other factor)
the settings are ranked, and the ranks are held against the expected order. A direction holds when
the order is shown (p < 0.05) and the ends differ by more than the noise floor; it does not when the
opposite order is; otherwise it is not shown.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.stats import page_trend_test

from analysis import units
from analysis.finish_points import Point, mean
from analysis.stats import CONFIDENCE, NOISE_FLOOR

_ALPHA = 1 - CONFIDENCE
# Page's test needs this many settings and blocks.
_SETTINGS, _BLOCKS = 3, 2


class Along(StrEnum):
    """Which factor rises."""

    THRESHOLD = "finish_occupancy_pct"
    ZONE_SIZE = "zone_size"


class Word(StrEnum):
    """What became of a published direction."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Direction:
    """``metric`` (of unit ``unit``) rises, or falls, as a factor rises."""

    id: str
    text: str
    metric: str
    unit: str
    along: Along
    rises: bool


# [S4], of which byte counts can say something on any device (docs/methods.md).
PUBLISHED = (
    Direction(
        "pad-by-threshold", "A higher finish occupancy gives up less capacity (pad)",
        "run.pad_bytes", "B", Along.THRESHOLD, rises=False,
    ),
    Direction(
        "garbage-by-threshold", "A higher finish occupancy leaves more garbage (sa_host)",
        "run.sa_host", "1", Along.THRESHOLD, rises=True,
    ),
    Direction(
        "pad-by-zone-size", "Smaller zones give up less capacity (pad), with files of equal bytes",
        "run.pad_bytes", "B", Along.ZONE_SIZE, rises=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on a direction. ``p`` is that of the order that was found, null without a test.

    ``evidence`` has the means at both ends, for each value of the other factor.
    """

    direction: Direction
    word: Word
    p: float | None
    blocks: int
    evidence: str


def judge_all(points: Sequence[Point]) -> list[Finding]:
    """Return a finding for each published direction."""
    return [judge(points, direction) for direction in PUBLISHED]


def judge(points: Sequence[Point], direction: Direction) -> Finding:
    """Judge one direction; blocks without a value at every compared setting are left out.

    Settings that most blocks lack (they could not hold the data) are not compared.
    """
    blocks = _blocks((p for p in points if p.metric == direction.metric), direction.along)
    settings = _compared(blocks)
    table = np.array(
        [
            [values[setting] for setting in settings]
            for values in blocks.values()
            if values.keys() >= set(settings)
        ]
    )
    evidence = _evidence(points, direction)
    if len(settings) < _SETTINGS or len(table) < _BLOCKS:
        return Finding(direction, Word.NOT_SHOWN, None, len(table), evidence)
    rising, falling = (float(page_trend_test(one).pvalue) for one in (table, -table))
    rises = rising < falling
    p, change = min(rising, falling), _change(table)
    if p >= _ALPHA or abs(change) <= NOISE_FLOOR or (change > 0) != rises:
        word = Word.NOT_SHOWN
    else:
        word = Word.HOLDS if rises == direction.rises else Word.FAILS
    return Finding(direction, word, p, len(table), evidence)


def _blocks(points: Iterable[Point], along: Along) -> dict[tuple[float, str], dict[float, float]]:
    """Return value by setting of the factor, of each block: all else is equal in one."""
    found: dict[tuple[float, str], dict[float, float]] = defaultdict(dict)
    for point in points:
        size, occupancy = point.setting
        mine, other = (occupancy, size) if along is Along.THRESHOLD else (size, occupancy)
        found[other, point.block][mine] = point.value
    return dict(found)


def _compared(blocks: Mapping[tuple[float, str], Mapping[float, float]]) -> list[float]:
    """Return the settings that at least half of the blocks have, rising."""
    counts = Counter(setting for values in blocks.values() for setting in values)
    return sorted(setting for setting, count in counts.items() if 2 * count >= len(blocks))


def _change(table: NDArray[np.float64]) -> float:
    """Return the relative change of the mean from the first to the last setting."""
    first, last = float(table[:, 0].mean()), float(table[:, -1].mean())
    if first == last:
        return 0.0
    return (last - first) / abs(first) if first else math.copysign(math.inf, last)


def _evidence(points: Sequence[Point], direction: Direction) -> str:
    """Return the means at both ends of the factor, for each value of the other."""
    found: dict[float, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        if point.metric == direction.metric:
            size, occupancy = point.setting
            along = direction.along is Along.THRESHOLD
            mine, other = (occupancy, size) if along else (size, occupancy)
            found[other][mine].append(point.value)
    parts = []
    for other in sorted(found):
        if len(found[other]) == 1:  # no ends to speak of
            continue
        ends = [min(found[other]), max(found[other])]
        means = [units.human(mean(found[other][end]), direction.unit) for end in ends]
        names = [_name(end, direction.along) for end in ends]
        where = _name(other, Along.ZONE_SIZE if along else Along.THRESHOLD)
        parts.append(f"{where}: {means[0]} at {names[0]}, {means[1]} at {names[1]}")
    return "; ".join(parts)


def _name(value: float, factor: Along) -> str:
    return units.human(value, "B") if factor is Along.ZONE_SIZE else f"{value:g} %"
