"""Compares a campaign with published numbers: first the direction, then the ratio.

Times are compared on hardware and on modelled drives. Bytes and counts are compared on any device,
because an emulated device counts them as a drive does.
Published numbers are data in ``analysis/references/*.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.judge import stats, wording
from analysis.judge.agreement import Agreement, Relation
from analysis.judge.compare import compare
from analysis.judge.guideline import Guideline
from analysis.judge.rows import Row
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import CampaignData
from harness.errors import ConfigError, UsageError
from harness.metrics.catalogue import CATALOGUE
from harness.store.codec import decode

FOLDER = Path(__file__).parents[1] / "references"
_SILENT = {
    Verdict.NOT_A_RESULT: "a time without a verdict",
    Verdict.HOST_BOUND: "a time that depends on the machine",
    Verdict.NOT_COMPARABLE: "not comparable",
    Verdict.TIMING_DEPENDENT: "the bytes depend on the guest's speed",
    Verdict.NOTHING: "nothing to compare",
    Verdict.TOO_FEW: "too few runs",
}


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """A published ratio of ``level`` to ``baseline``, or only its direction.

    ``stratum`` limits it to some runs, for example ``target_utilisation 40%``; '' allows all.
    """

    metric: str
    level: str
    baseline: str
    stratum: str = ""
    ratio: float | None = None
    direction: Relation | None = None
    note: str = ""

    @property
    def expected(self) -> Relation:
        """The published direction; without one, the direction of the published ratio."""
        if self.direction is not None or self.ratio is None:
            return self.direction or Relation.EQUAL
        return _direction(self.ratio)


@dataclass(frozen=True, slots=True)
class Reference:
    """A publication. Ratios agree up to a factor ``within``; None: only directions count.

    ``guideline`` has the results of block-level studies, which compare phases of fio.
    """

    title: str
    hardware: str
    caveats: str
    studies: tuple[str, ...]
    point: tuple[PublishedResult, ...] = ()
    within: float | None = None
    guideline: tuple[Guideline, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgedResult:
    """A published result and its agreement; ``found`` is the campaign's ratio and interval."""

    reference: Reference
    point: PublishedResult
    sides: str
    agreement: Agreement
    found: str
    why: str


def references(folder: Path = FOLDER) -> tuple[Reference, ...]:
    """Read all references, sorted by file name.

    Raises:
        ConfigError: a file is not TOML, is incomplete, has an unknown key or metric, or a result
            has not exactly one of ratio and direction.
    """
    return tuple(_read(path) for path in sorted(folder.glob("*.toml")))


def _read(path: Path) -> Reference:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}", hint="see the other files in this folder") from None
    reference = decode(Reference, document, str(path))
    for point in reference.point:
        if point.metric.rpartition(".")[2] not in CATALOGUE:
            raise ConfigError(
                f"{path}: no metric {point.metric!r}", hint="harness/metrics/catalogue.py"
            )
        if (point.ratio is None) == (point.direction is None):
            raise ConfigError(
                f"{path}: {point.metric} needs ratio or direction", hint="give exactly one of them"
            )
    for guideline in reference.guideline:
        guideline.check(str(path))
    return reference


def judge(
    campaign: CampaignData,
    folder: Path = FOLDER,
    *,
    different_code: bool = False,
    slower: Sequence[CampaignData] = (),
) -> tuple[list[JudgedResult], int]:
    """Compare a campaign with all published results.

    ``different_code`` and ``slower`` are those of ``compare``.

    Returns:
        The judged results, and the number of results about levels or phases that the campaign
        does not have.

    Raises:
        ConfigError: a reference file is wrong.
    """
    ran = {run.spec.row for run in campaign.latest if run.ok}
    judged: list[JudgedResult] = []
    others = 0
    for reference in references(folder):
        for point in reference.point:
            has_levels = {point.level, point.baseline} <= ran
            rows = _rows(campaign, point, slower, different_code=different_code)
            found = [_judged(campaign, reference, point, row) for row in rows] if has_levels else []
            judged += found
            others += not found
    return judged, others


def _rows(
    campaign: CampaignData,
    point: PublishedResult,
    slower: Sequence[CampaignData],
    *,
    different_code: bool,
) -> Iterator[Row]:
    """Yield the row of each stratum that a published result is about."""
    try:
        compared = compare(
            campaign,
            contrast="level",
            baseline=point.baseline,
            against=[point.level],
            metrics=[point.metric],
            different_code=different_code,
            slower=slower,
        )
    except UsageError:  # the campaign has no such metric
        return
    for row in compared.rows:
        wanted = row.metric == point.metric and point.stratum in ("", row.stratum)
        if wanted and row.values != (None, None):
            yield row


def _judged(
    campaign: CampaignData, reference: Reference, point: PublishedResult, row: Row
) -> JudgedResult:
    name = f"{row.level} / {row.baseline}" + (f" ({row.stratum})" if row.stratum else "")
    agreement, why = _agreement(reference, point, row)
    notes = [why, point.note]
    if campaign.plan.study not in reference.studies:
        notes.append("another workload than published")
    text = "; ".join(note for note in notes if note)
    found = f"{wording.ratio(row)} ({wording.interval(row)})"
    return JudgedResult(reference, point, name, agreement, found, text)


def _agreement(reference: Reference, point: PublishedResult, row: Row) -> tuple[Agreement, str]:
    """Judge the direction first. A ratio with the wrong direction is not judged further."""
    if row.verdict in _SILENT:
        known = row.notes if row.verdict is Verdict.NOT_A_RESULT else ()
        return Agreement.NOT_SHOWN, "; ".join([_SILENT[row.verdict], *known])
    shown = shown_direction(row)
    if point.ratio is not None and reference.within is not None:
        return _in_band(point.ratio, reference.within, row, shown)
    if shown is None:
        return Agreement.NOT_SHOWN, "no difference shown"
    if shown is point.expected:
        return Agreement.AGREES, f"it is {shown}"
    opposite = Relation.EQUAL not in (shown, point.expected)
    return (Agreement.DISAGREES if opposite else Agreement.NOT_SHOWN), f"it is {shown}"


def _in_band(
    ratio: float, within: float, row: Row, shown: Relation | None
) -> tuple[Agreement, str]:
    found = row.estimate
    if not found.is_ratio or found.center is None:
        return Agreement.NOT_SHOWN, "there is no ratio"
    expected = _direction(ratio)
    if shown is not None and Relation.EQUAL not in (expected, shown) and shown is not expected:
        return Agreement.DISAGREES, f"it is {shown}"
    low, high = ratio / within, ratio * within
    first, last = found.bounds
    if first is None or last is None:
        return Agreement.NOT_SHOWN, "there is no interval"
    band = f"published {ratio:g}, band {low:.2f} .. {high:.2f}"
    if last < low or first > high:
        return Agreement.DISAGREES, f"outside: {band}"
    if expected is not Relation.EQUAL and shown is None:
        return Agreement.NOT_SHOWN, f"no difference shown; {band}"
    why = f"the direction agrees, the interval reaches over an edge: {band}"
    inside = low <= first and last <= high
    return (Agreement.AGREES, f"inside: {band}") if inside else (Agreement.NOT_SHOWN, why)


def shown_direction(row: Row) -> Relation | None:
    """Return the direction that a row's verdict shows; equal for equal exact values; else None.

    A descriptive metric has no such verdict, so its whole interval must lie beyond the noise floor.
    """
    found = row.estimate
    equal = 1.0 if found.is_ratio else 0.0
    if found.center is None:
        return None
    if found.method is Method.EXACT and found.center == equal:
        return Relation.EQUAL
    differs = row.verdict.differs
    if row.verdict is Verdict.DESCRIPTIVE:
        p = stats.p_beyond(found, row.floor)
        differs = p is not None and p < stats.ALPHA
    return _direction(found.center, equal) if differs else None


def _direction(value: float, equal: float = 1.0) -> Relation:
    if value == equal:
        return Relation.EQUAL
    return Relation.MORE if value > equal else Relation.LESS
