"""Judges how metrics depend on the finish threshold and on the zone size.

Page's test for ordered alternatives ranks the settings in each block and compares the ranks with
the expected order. Blocks are seeds: runs with equal keys are not independent. Each value of the
other factor is a stratum. A direction holds if the order is shown over all strata (p < 0.05) and
the ends differ by more than the noise floor. It does not hold if the opposite order is shown. It
depends on the other factor if strata have opposite orders and their difference is shown. Otherwise
it is not shown. Without a published direction the test is two-sided.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.stats import chi2, page_trend_test, rankdata

from analysis import numbers
from analysis.judge.stats import ALPHA, NOISE_FLOOR, holm
from analysis.read.arrays import FloatArray

# The fewest settings and blocks for Page's test.
_SETTINGS, _BLOCKS = 3, 2
_STRATA = 2  # an interaction needs at least this many

FinishSetting = tuple[int, float]  # zone size in bytes, finish_occupancy_pct


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a metric at one setting.

    ``occupancy`` is the threshold in %. ``block`` is the seed; blocks are independent.
    """

    zone_size: int
    occupancy: float
    metric: str
    value: float
    block: str = ""

    @property
    def setting(self) -> FinishSetting:
        """Zone size and threshold."""
        return self.zone_size, self.occupancy


def values_of(points: Iterable[SettingValue], metric: str) -> dict[FinishSetting, list[float]]:
    """Return the values of a metric by setting."""
    found: dict[FinishSetting, list[float]] = defaultdict(list)
    for point in points:
        if point.metric == metric:
            found[point.setting].append(point.value)
    return dict(found)


def zone_sizes(values: Mapping[FinishSetting, object]) -> list[int]:
    """Return the zone sizes, largest first."""
    return sorted({size for size, _ in values}, reverse=True)


def thresholds(values: Mapping[FinishSetting, object]) -> list[float]:
    """Return the thresholds in ascending order."""
    return sorted({occupancy for _, occupancy in values})


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value."""
    return sum(values) / len(values)


class Along(StrEnum):
    """The factor along which settings are ordered."""

    THRESHOLD = "finish_occupancy_pct"
    ZONE_SIZE = "zone_size"

    def sides(self, point: SettingValue) -> tuple[float, float]:
        """Return a point's value of this factor, and of the other one."""
        size, occupancy = point.setting
        return (occupancy, size) if self is Along.THRESHOLD else (size, occupancy)

    @property
    def other(self) -> Along:
        """The factor of the strata."""
        return Along.ZONE_SIZE if self is Along.THRESHOLD else Along.THRESHOLD


class Word(StrEnum):
    """The outcome of a direction. Without a published one, the order found: rises or falls."""

    HOLDS = "holds"
    FAILS = "does not hold"
    RISES = "rises"
    FALLS = "falls"
    NOT_SHOWN = "not shown"
    DEPENDS = "depends"  # on the other factor


@dataclass(frozen=True, slots=True)
class Direction:
    """The claim that ``metric``, in ``unit``, rises or falls as a factor rises.

    ``rises`` is None without a published claim.
    """

    text: str
    metric: str
    unit: str
    along: Along
    rises: bool | None


# From [S4] (docs/methods.md). These are byte counts, which are valid on any device.
PUBLISHED = (
    Direction(
        "A higher finish occupancy gives up less capacity (pad)",
        "run.pad_bytes",
        "B",
        Along.THRESHOLD,
        rises=False,
    ),
    Direction(
        "A higher finish occupancy leaves more garbage (sa_host)",
        "run.sa_host",
        "1",
        Along.THRESHOLD,
        rises=True,
    ),
    Direction(
        "Smaller zones give up less capacity (pad), with files of equal bytes",
        "run.pad_bytes",
        "B",
        Along.ZONE_SIZE,
        rises=True,
    ),
)


@dataclass(frozen=True, slots=True)
class DirectionVerdict:
    """The verdict on a direction: over all strata, in one stratum, or on the strata's difference.

    ``p`` belongs to the observed order; None without a test. In a stratum it is Holm-adjusted over
    the strata. ``blocks`` are independent. ``evidence`` has the means at both ends, for each value
    of the other factor. ``where`` names the stratum or the interaction; '' for all strata.
    """

    direction: Direction
    word: Word
    p: float | None
    blocks: int
    evidence: str
    where: str = ""

    @property
    def text(self) -> str:
        """The direction and the stratum."""
        return f"{self.direction.text}: {self.where}" if self.where else self.direction.text


def judge(points: Sequence[SettingValue], direction: Direction) -> list[DirectionVerdict]:
    """Judge one direction: over all strata, in each of several strata, and their interaction.

    Settings that most blocks lack are not compared, because most runs could not hold the data
    there. Blocks without a value at every compared setting are left out.
    """
    own = [point for point in points if point.metric == direction.metric]
    blocks = _blocks(own, direction.along)
    settings = _compared(blocks)
    tables = _tables(blocks, settings)
    whole = _whole(tables, settings, direction, _evidence(own, direction))
    if len(tables) < _STRATA:
        return [whole]
    parts = _in_strata(own, tables, direction)
    interaction = _interaction(tables, direction)
    if interaction.word is Word.DEPENDS:
        whole = dataclasses.replace(whole, word=Word.DEPENDS)
    return [whole, *parts, interaction]


def _tables(
    blocks: Mapping[tuple[float, str], Mapping[float, float]], settings: Sequence[float]
) -> dict[float, dict[str, FloatArray]]:
    """Return stratum → block → values at the settings, of the blocks that have all."""
    found: dict[float, dict[str, FloatArray]] = defaultdict(dict)
    for (other, block), values in sorted(blocks.items()):
        if settings and values.keys() >= set(settings):
            found[other][block] = np.array([values[setting] for setting in settings])
    return dict(found)


def _whole(
    tables: Mapping[float, Mapping[str, FloatArray]],
    settings: Sequence[float],
    direction: Direction,
    evidence: str,
) -> DirectionVerdict:
    """Judge all strata together: a block has the mean ranks over its strata."""
    ranks: dict[str, list[FloatArray]] = defaultdict(list)
    for stratum in tables.values():
        for block, values in stratum.items():
            ranks[block].append(rankdata(values))
    means = np.array([np.mean(own, axis=0) for own in ranks.values()])
    values = np.array([row for stratum in tables.values() for row in stratum.values()])
    if len(settings) < _SETTINGS or len(means) < _BLOCKS:
        return DirectionVerdict(direction, Word.NOT_SHOWN, None, len(means), evidence)
    p, rises = _page(means, direction)
    return DirectionVerdict(direction, _word(direction, p, rises, values), p, len(means), evidence)


def _in_strata(
    points: Sequence[SettingValue],
    tables: Mapping[float, Mapping[str, FloatArray]],
    direction: Direction,
) -> list[DirectionVerdict]:
    """Judge each stratum by its own blocks, Holm-corrected over the strata."""
    orders = {}
    for other, stratum in tables.items():
        values = np.array(list(stratum.values()))
        if values.shape[0] >= _BLOCKS and values.shape[1] >= _SETTINGS:
            orders[other] = _page(values, direction)
    adjusted = dict(zip(orders, holm([p for p, _ in orders.values()]), strict=True))
    found = []
    for other, stratum in tables.items():
        where = _name(other, direction.along.other)
        own = [point for point in points if direction.along.sides(point)[1] == other]
        evidence, p = _evidence(own, direction), adjusted.get(other)
        word = Word.NOT_SHOWN
        if p is not None:
            word = _word(direction, p, orders[other][1], np.array(list(stratum.values())))
        found.append(DirectionVerdict(direction, word, p, len(stratum), evidence, f"at {where}"))
    return found


def _interaction(
    tables: Mapping[float, Mapping[str, FloatArray]], direction: Direction
) -> DirectionVerdict:
    """Test whether the order depends on the stratum.

    Page's L of each stratum is standardised [Page 1963]. Equal trends give a sum of squares around
    the mean with at most the chi-square distribution of strata - 1 degrees of freedom.
    """
    scores = np.array([_standard(np.array(list(one.values()))) for one in tables.values()])
    square = float(np.sum((scores - scores.mean()) ** 2))
    p = float(chi2.sf(square, len(scores) - 1))
    blocks = len({block for stratum in tables.values() for block in stratum})
    opposite = bool(scores.min() < 0 < scores.max())
    shown = p < ALPHA and opposite and blocks >= _BLOCKS
    word = Word.DEPENDS if shown else Word.NOT_SHOWN
    signs = [
        f"{_name(other, direction.along.other)}: {'rises' if score > 0 else 'falls'}"
        for other, score in zip(tables, scores, strict=True)
        if score
    ]
    where = f"interaction with {direction.along.other.value}"
    return DirectionVerdict(direction, word, p, blocks, "; ".join(signs), where)


def _page(table: FloatArray, direction: Direction) -> tuple[float, bool]:
    """Return p of the observed order of columns, and whether it rises.

    Without a published direction the values choose the order, so p is two-sided.
    """
    rising, falling = (float(page_trend_test(one).pvalue) for one in (table, -table))
    p = min(rising, falling)
    return (min(1.0, 2 * p) if direction.rises is None else p), rising < falling


def _standard(table: FloatArray) -> float:
    """Return Page's L, standardised: E = m n (n + 1)² / 4, var = m n² (n + 1) (n² - 1) / 144."""
    m, n = table.shape
    ranks = np.array([rankdata(row) for row in table])
    mean, variance = m * n * (n + 1) ** 2 / 4, m * n**2 * (n + 1) * (n**2 - 1) / 144
    excess = float(np.sum(ranks * np.arange(1, n + 1))) - mean
    return excess / math.sqrt(variance) if variance else 0.0


def _word(direction: Direction, p: float, rises: bool, table: FloatArray) -> Word:
    change = _change(table)
    if p >= ALPHA or abs(change) <= NOISE_FLOOR or (change > 0) != rises:
        return Word.NOT_SHOWN
    if direction.rises is None:
        return Word.RISES if rises else Word.FALLS
    return Word.HOLDS if rises == direction.rises else Word.FAILS


def _blocks(
    points: Iterable[SettingValue], along: Along
) -> dict[tuple[float, str], dict[float, float]]:
    """Return the mean by setting for each stratum and block, in which all else is equal."""
    found: dict[tuple[float, str], dict[float, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for point in points:
        mine, other = along.sides(point)
        found[other, point.block][mine].append(point.value)
    return {
        key: {mine: mean(values) for mine, values in by_setting.items()}
        for key, by_setting in found.items()
    }


def _compared(blocks: Mapping[tuple[float, str], Mapping[float, float]]) -> list[float]:
    """Return the settings of at least half of the blocks, in ascending order."""
    counts = Counter(setting for values in blocks.values() for setting in values)
    return sorted(setting for setting, count in counts.items() if 2 * count >= len(blocks))


def _change(table: FloatArray) -> float:
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
        mine, other = along.sides(point)
        found[other][mine].append(point.value)
    parts = []
    for other in sorted(found):
        if len(found[other]) == 1:  # a single setting has no ends
            continue
        ends = [min(found[other]), max(found[other])]
        means = [numbers.human(mean(found[other][end]), direction.unit) for end in ends]
        names = [_name(end, along) for end in ends]
        where = _name(other, along.other)
        parts.append(f"{where}: {means[0]} at {names[0]}, {means[1]} at {names[1]}")
    return "; ".join(parts)


def _name(value: float, factor: Along) -> str:
    return numbers.human(value, "B") if factor is Along.ZONE_SIZE else f"{value:g} %"
