"""Published guidelines of block-level studies as records.

They are data in ``analysis/references/*.toml``, as tables ``[[guideline]]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from analysis.judge.agreement import Relation
from analysis.read.block import BlockPoint
from harness.errors import ConfigError


class GuidelineTest(StrEnum):
    """How a guideline is tested."""

    CONTRAST = "contrast"  # two sides, at equal block size and commands in flight
    PEAKS = "peaks"  # the peaks of two sides
    KNEE = "knee"  # the smallest x at nearly the peak
    VALUE = "value"  # the peak itself: a number of one drive
    NONE = "none"  # not asked: ``why`` is the reason


class BlockMetric(StrEnum):
    """What is compared."""

    IOPS = "iops"
    BANDWIDTH = "bandwidth"
    P50 = "p50"
    P95 = "p95"

    def of(self, point: BlockPoint) -> float | None:
        """Return a point's value."""
        value: float | None = getattr(point, self.value)
        return value


class Spread(StrEnum):
    """Over what the commands in flight are spread."""

    DEPTH = "depth"  # one job, in one zone at a time
    ZONES = "zones"  # one command in each of several jobs


class SweepAxis(StrEnum):
    """The axis of a knee."""

    IN_FLIGHT = "in_flight"
    BS = "bs"


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions on the points of a side; null: any value."""

    zoned: bool | None = None
    rw: str | None = None
    reads: bool | None = None
    sequential: bool | None = None
    overwrites: bool | None = None
    scheduler: str | None = None
    spread: Spread | None = None
    bs: int | None = None
    bs_from: int | None = None
    in_flight: int | None = None
    in_flight_to: int | None = None

    @property
    def conditions(self) -> dict[str, Any]:
        """The wanted values by name, without those that can be any."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: wanted for name, wanted in values.items() if wanted is not None}

    def select(self, points: Iterable[BlockPoint]) -> list[BlockPoint]:
        """Return the points that meet every condition."""
        wanted = self.conditions.items()
        return [point for point in points if all(_meets(point, *one) for one in wanted)]


def _meets(point: BlockPoint, name: str, wanted: Any) -> bool:
    if name == "spread":
        return (point.jobs if wanted is Spread.DEPTH else point.iodepth) == 1
    if name == "bs_from":
        return bool(point.bs >= wanted)
    if name == "in_flight_to":
        return bool(point.in_flight <= wanted)
    return bool(getattr(point, name) == wanted)


@dataclass(frozen=True, slots=True)
class Guideline:
    """A published guideline. ``published`` is its number as text.

    ``where`` applies to both sides. Without ``expected``, a contrast is measured, but not judged:
    ``why`` is the reason. ``at`` is the published knee, ``value`` the published peak.
    """

    id: str
    text: str
    published: str
    test: GuidelineTest
    metric: BlockMetric = BlockMetric.IOPS
    where: Where = field(default_factory=Where)
    side: Where | None = None
    base: Where | None = None
    expected: Relation | None = None
    along: SweepAxis | None = None
    at: float | None = None
    value: float | None = None
    drive: str = ""
    why: str = ""

    def check(self, path: str) -> None:
        """Refuse a guideline that lacks what its test needs (ConfigError)."""
        for name in _NEEDS[self.test]:
            given = getattr(self, name) not in (None, "")
            if not given and not (name == "expected" and self.why):
                raise ConfigError(
                    f"{path}: guideline {self.id} of test {self.test.value} has no {name}",
                    hint=f"it needs {', '.join(_NEEDS[self.test])}",
                )


_NEEDS: Mapping[GuidelineTest, tuple[str, ...]] = {
    GuidelineTest.CONTRAST: ("side", "base", "expected"),
    GuidelineTest.PEAKS: ("side", "base", "expected"),
    GuidelineTest.KNEE: ("along", "at"),
    GuidelineTest.VALUE: ("value", "drive"),
    GuidelineTest.NONE: ("why",),
}
