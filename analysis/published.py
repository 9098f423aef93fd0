"""Published numbers, and whether a campaign agrees with them: first the direction, then the ratio.

A time is held against hardware only; bytes and counts against any device, because an emulated one
counts them as a drive does. What is published is data: ``analysis/references/*.toml``.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from analysis import render
from analysis.compare import Row, compare
from analysis.load import CampaignData
from analysis.stats import Method, Verdict
from harness.errors import ConfigError, UsageError
from harness.metrics import CATALOGUE
from harness.store.codec import decode

FOLDER = Path(__file__).parent / "references"
_SILENT = {
    Verdict.NOT_A_RESULT: "a time, on an emulated device",
    Verdict.NOT_COMPARABLE: "not comparable",
    Verdict.TOO_FEW: "too few runs",
    Verdict.SKIPPED: "skipped",
}


class Direction(StrEnum):
    """How the level compares with the baseline, whatever is better."""

    MORE = "more"
    LESS = "less"
    EQUAL = "equal"


class Agreement(StrEnum):
    """What a campaign says of a published point."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Point:
    """A published ratio or, without one, direction of ``level`` to ``baseline``."""

    metric: str
    level: str
    baseline: str
    ratio: float | None = None
    direction: Direction | None = None
    note: str = ""

    @property
    def expected(self) -> Direction:
        """The direction, that of the ratio where only this was published."""
        if self.direction is not None or self.ratio is None:
            return self.direction or Direction.EQUAL
        return _direction(self.ratio)


@dataclass(frozen=True, slots=True)
class Reference:
    """A publication. ``within``: ratios agree up to this factor, up or down; null: no band."""

    title: str
    hardware: str
    caveats: str
    studies: tuple[str, ...]
    point: tuple[Point, ...]
    within: float | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A point and what the campaign says: ``found`` is ratio and interval for people."""

    reference: Reference
    point: Point
    sides: str
    agreement: Agreement
    found: str
    why: str


def references(folder: Path = FOLDER) -> tuple[Reference, ...]:
    """Read all references, sorted by file name.

    Raises:
        ConfigError: one is no TOML, incomplete, has an unknown key or metric, or neither ratio nor
            direction.
    """
    return tuple(_read(path) for path in sorted(folder.glob("*.toml")))


def _read(path: Path) -> Reference:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}", hint="TOML, see the others there") from None
    reference = decode(Reference, document, str(path))
    for point in reference.point:
        if point.metric.rpartition(".")[2] not in CATALOGUE:
            raise ConfigError(f"{path}: no metric {point.metric!r}", hint="harness/metrics.py")
        if (point.ratio is None) == (point.direction is None):
            raise ConfigError(
                f"{path}: {point.metric} needs ratio or direction", hint="one of both"
            )
    return reference


def hold(campaign: CampaignData, folder: Path = FOLDER) -> tuple[list[Held], int]:
    """Hold a campaign against everything published.

    Returns:
        What it has something to say of, and how many points are of levels or phases that
        it does not have.

    Raises:
        ConfigError: a reference is wrong.
    """
    ran = {run.spec.row for run in campaign.latest if run.ok}
    points = [(one, point) for one in references(folder) for point in one.point]
    found = [
        held
        for one, point in points
        if {point.level, point.baseline} <= ran
        for held in _held(campaign, one, point)
    ]
    told = {(id(one.reference), id(one.point)) for one in found}
    return found, sum((id(one), id(point)) not in told for one, point in points)


def _held(campaign: CampaignData, reference: Reference, point: Point) -> Iterator[Held]:
    try:
        compared = compare(
            campaign, contrast="level", baseline=point.baseline, against=[point.level],
            metrics=[point.metric],
        )  # fmt: skip
    except UsageError:  # the campaign has no such metric
        return
    for row in compared.rows:
        if row.metric == point.metric and row.values != (None, None):
            yield _judged(campaign, reference, point, row)


def _judged(campaign: CampaignData, reference: Reference, point: Point, row: Row) -> Held:
    name = f"{row.level} / {row.baseline}" + (f" ({row.stratum})" if row.stratum else "")
    _, _, _, ratio, interval, *_ = render.cells(row)
    agreement, why = _agreement(reference, point, row)
    notes = [why, point.note]
    if campaign.plan.study not in reference.studies:
        notes.append("another workload than published")
    text = "; ".join(note for note in notes if note)
    return Held(reference, point, name, agreement, f"{ratio} ({interval})", text)


def _agreement(reference: Reference, point: Point, row: Row) -> tuple[Agreement, str]:
    """Judge the direction first: where it is wrong, the ratio says nothing more."""
    if row.verdict in _SILENT:
        return Agreement.NOT_SHOWN, _SILENT[row.verdict]
    shown = shown_direction(row)
    if point.ratio is not None and reference.within is not None:
        return _in_band(point.ratio, reference.within, row, shown)
    if shown is None:
        return Agreement.NOT_SHOWN, "no difference shown"
    return (Agreement.AGREES if shown is point.expected else Agreement.DISAGREES), f"it is {shown}"


def _in_band(
    ratio: float, within: float, row: Row, shown: Direction | None
) -> tuple[Agreement, str]:
    found = row.estimate
    if not found.is_ratio or found.center is None:
        return Agreement.NOT_SHOWN, "there is no ratio"
    expected = _direction(ratio)
    if shown is not None and Direction.EQUAL not in (expected, shown) and shown is not expected:
        return Agreement.DISAGREES, f"it is {shown}"
    low, high = ratio / within, ratio * within
    exact = found.method is Method.EXACT
    ends = (found.center, found.center) if exact else (found.low, found.high)
    if ends[0] is None or ends[1] is None:
        return Agreement.NOT_SHOWN, "there is no interval"
    band = f"published {ratio:g}, band {low:.2f} .. {high:.2f}"
    if ends[1] < low or ends[0] > high:
        return Agreement.DISAGREES, f"outside: {band}"
    if expected is not Direction.EQUAL and shown is None:
        return Agreement.NOT_SHOWN, f"no difference shown; {band}"
    inside = low <= ends[0] and ends[1] <= high
    return (Agreement.AGREES, f"inside: {band}") if inside else (
        Agreement.NOT_SHOWN, f"the direction agrees, the interval reaches over an edge: {band}"
    )  # fmt: skip


def shown_direction(row: Row) -> Direction | None:
    """Return which side has more where the interval leaves out "equal"; else None.

    Unlike a verdict this needs no better side: descriptive metrics have a direction, too.
    """
    found = row.estimate
    equal = 1.0 if found.is_ratio else 0.0
    if found.center is None:
        return None
    if found.method is Method.EXACT:
        return _direction(found.center, equal)
    if found.low is None or found.high is None or found.low <= equal <= found.high:
        return None
    if found.is_ratio and abs(math.log(found.center)) <= math.log1p(row.floor):
        return None
    return _direction(found.center, equal)


def _direction(value: float, equal: float = 1.0) -> Direction:
    if value == equal:
        return Direction.EQUAL
    return Direction.MORE if value > equal else Direction.LESS
