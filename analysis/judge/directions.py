"""Judges published directions of the finish threshold and of the zone size.

Page's test for ordered alternatives ranks the settings in each block and compares the ranks with
the expected order. A block is a repetition at one value of the other factor.

A direction holds if the order is shown (p < 0.05) and the ends differ by more than the noise floor.
It does not hold if the opposite order is shown. Otherwise it is not shown.
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

from analysis import numbers
from analysis.judge.stats import CONFIDENCE, NOISE_FLOOR

_ALPHA = 1 - CONFIDENCE
# The fewest settings and blocks for Page's test.
_SETTINGS, _BLOCKS = 3, 2


Setting = tuple[int, float]  # zone size in bytes, finish_occupancy_pct


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a metric at one setting.

    ``occupancy`` is the threshold in %. ``block`` names the repetition.
    """

    zone_size: int
    occupancy: float
    metric: str
    value: float
    block: str = ""

    @property
    def setting(self) -> Setting:
        """Zone size and threshold."""
        return self.zone_size, self.occupancy


def values_of(points: Iterable[SettingValue], metric: str) -> dict[Setting, list[float]]:
    """Return the values of a metric by setting."""
    found: dict[Setting, list[float]] = defaultdict(list)
    for point in points:
        if point.metric == metric:
            found[point.setting].append(point.value)
    return dict(found)


def zone_sizes(values: Mapping[Setting, object]) -> list[int]:
    """Return the zone sizes, largest first."""
    return sorted({size for size, _ in values}, reverse=True)


def thresholds(values: Mapping[Setting, object]) -> list[float]:
    """Return the thresholds in ascending order."""
    return sorted({occupancy for _, occupancy in values})


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value."""
    return sum(values) / len(values)


class Along(StrEnum):
    """The factor that rises."""

    THRESHOLD = "finish_occupancy_pct"
    ZONE_SIZE = "zone_size"

    def sides(self, point: SettingValue) -> tuple[float, float]:
        """Return a point's value of this factor, and of the other one."""
        size, occupancy = point.setting
        return (occupancy, size) if self is Along.THRESHOLD else (size, occupancy)


class Word(StrEnum):
    """The outcome of a published direction."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Direction:
    """The claim that ``metric``, in ``unit``, rises or falls as a factor rises."""

    id: str
    text: str
    metric: str
    unit: str
    along: Along
    rises: bool


# From [S4] (docs/methods.md). These are byte counts, which are valid on any device.
PUBLISHED = (
    Direction(
        "pad-by-threshold",
        "A higher finish occupancy gives up less capacity (pad)",
        "run.pad_bytes",
        "B",
        Along.THRESHOLD,
        rises=False,
    ),
    Direction(
        "garbage-by-threshold",
        "A higher finish occupancy leaves more garbage (sa_host)",
        "run.sa_host",
        "1",
        Along.THRESHOLD,
        rises=True,
    ),
    Direction(
        "pad-by-zone-size",
        "Smaller zones give up less capacity (pad), with files of equal bytes",
        "run.pad_bytes",
        "B",
        Along.ZONE_SIZE,
        rises=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on a direction.

    ``p`` belongs to the observed order; None without a test. ``evidence`` has the means at both
    ends, for each value of the other factor.
    """

    direction: Direction
    word: Word
    p: float | None
    blocks: int
    evidence: str


def judge_all(points: Sequence[SettingValue]) -> list[Finding]:
    """Return a finding for each published direction."""
    return [judge(points, direction) for direction in PUBLISHED]


def judge(points: Sequence[SettingValue], direction: Direction) -> Finding:
    """Judge one direction.

    Settings that most blocks lack are not compared: they could not hold the data. Blocks without a
    value at every compared setting are left out.
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


def _blocks(
    points: Iterable[SettingValue], along: Along
) -> dict[tuple[float, str], dict[float, float]]:
    """Return the value by setting for each block. All else is equal in a block."""
    found: dict[tuple[float, str], dict[float, float]] = defaultdict(dict)
    for point in points:
        mine, other = along.sides(point)
        found[other, point.block][mine] = point.value
    return dict(found)


def _compared(blocks: Mapping[tuple[float, str], Mapping[float, float]]) -> list[float]:
    """Return the settings of at least half of the blocks, in ascending order."""
    counts = Counter(setting for values in blocks.values() for setting in values)
    return sorted(setting for setting, count in counts.items() if 2 * count >= len(blocks))


def _change(table: NDArray[np.float64]) -> float:
    """Return the relative change of the mean from the first to the last setting."""
    first, last = float(table[:, 0].mean()), float(table[:, -1].mean())
    if first == last:
        return 0.0
    return (last - first) / abs(first) if first else math.copysign(math.inf, last)


def _evidence(points: Sequence[SettingValue], direction: Direction) -> str:
    """Return the means at both ends of the factor, for each value of the other."""
    along = direction.along
    found: dict[float, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        if point.metric == direction.metric:
            mine, other = along.sides(point)
            found[other][mine].append(point.value)
    parts = []
    for other in sorted(found):
        if len(found[other]) == 1:  # a single setting has no ends
            continue
        ends = [min(found[other]), max(found[other])]
        means = [numbers.human(mean(found[other][end]), direction.unit) for end in ends]
        names = [_name(end, along) for end in ends]
        where = _name(other, Along.ZONE_SIZE if along is Along.THRESHOLD else Along.THRESHOLD)
        parts.append(f"{where}: {means[0]} at {names[0]}, {means[1]} at {names[1]}")
    return "; ".join(parts)


def _name(value: float, factor: Along) -> str:
    return numbers.human(value, "B") if factor is Along.ZONE_SIZE else f"{value:g} %"
