"""A neutral table of what finish thresholds and zone sizes did: one point per run and metric.

Figures and verdicts know nothing else, so that runs and replayed traces can share them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Setting = tuple[int, float]  # zone size in bytes, finish_occupancy_pct


@dataclass(frozen=True, slots=True)
class Point:
    """One value. ``occupancy`` is the threshold, in %; ``block`` tells repetitions apart."""

    zone_size: int
    occupancy: float
    metric: str
    value: float
    block: str = ""

    @property
    def setting(self) -> Setting:
        """Where it was measured."""
        return self.zone_size, self.occupancy


def of_metric(points: Iterable[Point], metric: str) -> dict[Setting, list[float]]:
    """Return the values of a metric by setting."""
    found: dict[Setting, list[float]] = defaultdict(list)
    for point in points:
        if point.metric == metric:
            found[point.setting].append(point.value)
    return dict(found)


def zone_sizes(values: Mapping[Setting, object]) -> list[int]:
    """Return the zone sizes, the largest first."""
    return sorted({size for size, _ in values}, reverse=True)


def thresholds(values: Mapping[Setting, object]) -> list[float]:
    """Return the thresholds, rising."""
    return sorted({occupancy for _, occupancy in values})


def mean(values: Sequence[float]) -> float:
    """Return the mean of values that are there."""
    return sum(values) / len(values)
