"""Judges published guidelines of block-level studies on a campaign's phases of fio.

A contrast pairs its sides at equal operation, block size and commands in flight, within a
repetition. The interval is a paired t on logs over the repetitions. Devices side by side are
judged one by one, and share the level of 5 % (Bonferroni). Times are judged on drives, on modelled
drives by the rules of ``compare``, and in imported campaigns as the files report them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import numbers
from analysis.judge import block_tables, knee, stats
from analysis.judge.agreement import Agreement, Relation
from analysis.judge.block_model import ModelRules
from analysis.judge.block_tables import BlockTable
from analysis.judge.guideline import BlockMetric, Guideline, GuidelineTest, SweepAxis
from analysis.judge.knee import Knee
from analysis.judge.published import Reference, references
from analysis.judge.stats import Estimate
from analysis.read.block import BlockPoint, points_of
from analysis.read.load import CampaignData
from harness import known_drives
from harness.store.spec import DeviceKind

# Sides are alike if the whole interval of their ratio lies within this share.
ALIKE = 0.05
# A measured peak agrees with the published one within this factor.
WITHIN = 1.25
_UNTIMED = frozenset({DeviceKind.EMULATED, DeviceKind.REPLAYED})
_NO_PHASE = "no such phase was measured"
_UNITS = {
    BlockMetric.IOPS: "ops/s",
    BlockMetric.BANDWIDTH: "B/s",
    BlockMetric.P50: "us",
    BlockMetric.P95: "us",
}
_AXES = {SweepAxis.IN_FLIGHT: "depth", SweepAxis.BS: "block size"}


@dataclass(frozen=True, slots=True)
class GuidelineOutcome:
    """A campaign's result for a guideline. ``where``: the device or curve, if there are several."""

    agreement: Agreement
    why: str
    found: str = numbers.DASH
    interval: str = numbers.DASH
    runs: int = 0
    where: str = ""


@dataclass(frozen=True, slots=True)
class GuidelineEvidence:
    """The measurements on which guidelines are judged.

    ``exact``: equal repetitions are valid, because a deterministic program is the drive. ``rules``
    are those of a campaign on modelled drives.
    """

    points: Sequence[BlockPoint]
    kinds: Collection[DeviceKind]
    exact: bool = False
    rules: ModelRules | None = None


@dataclass(frozen=True, slots=True)
class JudgedGuideline:
    """A guideline of a publication, and its outcome."""

    reference: Reference
    guideline: Guideline
    outcome: GuidelineOutcome


def judge(campaign: CampaignData, slower: Sequence[CampaignData] = ()) -> list[JudgedGuideline]:
    """Return a line for each guideline, or several for several curves; [] without phases of fio.

    ``slower`` are those of ``compare``.

    Raises:
        ConfigError: a reference file is wrong.
    """
    points = points_of(campaign.latest)
    if not points:
        return []
    kinds = campaign.kinds
    rules = ModelRules(campaign, slower) if DeviceKind.MODELLED in kinds else None
    return judge_on(GuidelineEvidence(points, kinds, rules=rules))


def judge_on(evidence: GuidelineEvidence) -> list[JudgedGuideline]:
    """Return a line for each guideline, or several for several curves.

    Raises:
        ConfigError: a reference file is wrong.
    """
    return [
        JudgedGuideline(reference, guideline, outcome)
        for reference in references()
        for guideline in reference.guideline
        for outcome in outcomes(guideline, evidence)
    ]


def outcomes(guideline: Guideline, evidence: GuidelineEvidence) -> list[GuidelineOutcome]:
    """Return the outcomes of a guideline: one, or one for each device or curve."""
    found = _TESTS[guideline.test](guideline, evidence)
    return [_timed(guideline, evidence, *one) for one in found]


def _timed(
    guideline: Guideline,
    evidence: GuidelineEvidence,
    outcome: GuidelineOutcome,
    used: Sequence[BlockPoint],
) -> GuidelineOutcome:
    """Keep the values without a verdict, if a time of the used points can have none."""
    if outcome.agreement is Agreement.NOT_ASKED:
        return outcome
    why = ""
    if _UNTIMED & {*evidence.kinds}:
        why = "a time, on an emulated device"
    elif evidence.rules:
        why = evidence.rules.refusal(used, guideline.metric)
    return dataclasses.replace(outcome, agreement=Agreement.NOT_SHOWN, why=why) if why else outcome


# An outcome, and the points that it used.
_Found = Iterator[tuple[GuidelineOutcome, Sequence[BlockPoint]]]


def _contrast(guideline: Guideline, evidence: GuidelineEvidence) -> _Found:
    names = block_tables.alike(guideline)
    return _compared(
        guideline, evidence, lambda own: block_tables.table(own, guideline.metric, names)
    )


def _peaks(guideline: Guideline, evidence: GuidelineEvidence) -> _Found:
    return _compared(guideline, evidence, lambda own: block_tables.peaks(own, guideline.metric))


def _compared(
    guideline: Guideline,
    evidence: GuidelineEvidence,
    table: Callable[[Sequence[BlockPoint]], BlockTable],
) -> _Found:
    """Yield a line for each device that has both sides, or the reason why none has."""
    devices = block_tables.by_device(guideline.where.select(evidence.points))
    sides = {device: tuple(_sides(guideline, own)) for device, own in devices.items()}
    tables = {device: tuple(map(table, both)) for device, both in sides.items()}
    pairs = {device: block_tables.ratios(*both) for device, both in tables.items()}
    found = {
        device: stats.estimate(theirs, ours, exact_allowed=evidence.exact)
        for device, (ours, theirs) in pairs.items()
        if ours
    }
    if not found:
        missing = _missing([tuple(map(bool, both)) for both in tables.values()])
        yield GuidelineOutcome(Agreement.NOT_ASKED, missing), ()
    for device, estimate in found.items():
        side, base = sides[device]
        rules = evidence.rules
        explained = rules.explained(side, base, guideline.metric) if rules else 0.0
        outcome = _of_ratio(guideline, estimate, lines=len(found), explained=explained)
        where = ", ".join(device) if len(found) > 1 else ""
        yield dataclasses.replace(outcome, where=where), (*side, *base)


def _sides(guideline: Guideline, points: Sequence[BlockPoint]) -> Iterator[list[BlockPoint]]:
    for where in (guideline.side, guideline.base):
        yield where.select(points) if where is not None else [*points]


def _missing(measured: Sequence[tuple[bool, ...]]) -> str:
    """Return why no device has both sides at one point; each has a flag for either side."""
    if any(map(all, measured)):
        return "the two sides have no point in common"
    return "one of the two sides was not measured" if any(map(any, measured)) else _NO_PHASE


def _of_ratio(
    guideline: Guideline, found: Estimate, *, lines: int, explained: float
) -> GuidelineOutcome:
    """Judge a device's ratio, one of ``lines``; without a published direction it has no verdict.

    ``explained`` is the difference that the processor of a modelled drive can explain.
    """
    if found.method is stats.Method.EXACT:
        found = dataclasses.replace(found, low=found.center, high=found.center)
    elif found.center is not None and found.error is not None and found.df is not None:
        level = 1 - (1 - stats.CONFIDENCE) / lines
        center, error, df = map(np.asarray, (found.center, found.error, found.df))
        wide = stats.t_interval(np.log(center), error, df, level)
        low, high = (float(np.exp(one)) for one in (wide.low, wide.high))
        found = dataclasses.replace(found, low=low, high=high)
    agreement, why = Agreement.NOT_ASKED, guideline.why
    if guideline.expected is not None:
        agreement, why = _relation(guideline.expected, found, lines, explained)
    bounds = [_change(one) for one in (found.low, found.high)]
    return GuidelineOutcome(agreement, why, _change(found.center), _interval(bounds), found.n)


def _relation(
    expected: Relation, found: Estimate, lines: int, explained: float
) -> tuple[Agreement, str]:
    """Judge a ratio. The noise floor is the same for all comparisons on drives."""
    if found.low is None or found.high is None:
        return Agreement.NOT_SHOWN, _no_interval(found.n)
    if expected is Relation.EQUAL:
        words = ("within 5 %", "beyond 5 %", "the interval reaches over 5 %")
        wider = math.log1p(explained)
        low, high = math.log(found.low) - wider, math.log(found.high) + wider
        return _in_band(low, high, math.log1p(ALIKE), words)
    p = stats.p_beyond(found, max(stats.NOISE_FLOOR, explained))
    if p is None or lines * p >= stats.ALPHA or found.center is None:
        return Agreement.NOT_SHOWN, "no difference shown"
    shown = Relation.MORE if found.center > 1 else Relation.LESS
    return (Agreement.AGREES if shown is expected else Agreement.DISAGREES), f"it is {shown.value}"


def _in_band(
    low: float, high: float, edge: float, words: tuple[str, str, str]
) -> tuple[Agreement, str]:
    """Judge the interval of a log ratio by the band ± ``edge``: inside, outside, neither."""
    if -edge <= low and high <= edge:
        return Agreement.AGREES, words[0]
    if high < -edge or low > edge:
        return Agreement.DISAGREES, words[1]
    return Agreement.NOT_SHOWN, words[2]


def _knee(guideline: Guideline, evidence: GuidelineEvidence) -> _Found:
    along = guideline.along or SweepAxis.IN_FLIGHT
    own = guideline.where.select(evidence.points)
    curves = block_tables.curves(own, guideline.metric, along)
    if not curves:
        why = f"no sweep over {_AXES[along]}" if own else _NO_PHASE
        yield GuidelineOutcome(Agreement.NOT_ASKED, why), ()
    for used, curve in curves:
        where = _name(used[0], along) if len(curves) > 1 else ""
        yield dataclasses.replace(_of_curve(guideline, along, curve), where=where), used


def _of_curve(guideline: Guideline, along: SweepAxis, curve: knee.SweepCurve) -> GuidelineOutcome:
    found, at = knee.find(curve), guideline.at or 0.0
    if found is None:
        return GuidelineOutcome(Agreement.NOT_SHOWN, "no repetition measured the whole sweep")
    if at not in curve:
        why = f"{_place(at, along)} was not measured"
        return GuidelineOutcome(Agreement.NOT_ASKED, why, _place(found.at, along))
    agreement, why = _of_knee(found, at, f"the peak is at {_place(found.peak, along)}")
    bounds = [_place(one, along) for one in (found.low, found.high)]
    return GuidelineOutcome(
        agreement, why, _place(found.at, along), _interval(bounds), found.blocks
    )


def _of_knee(found: Knee, at: float, peak: str) -> tuple[Agreement, str]:
    """Return agreement if the interval is the published place and no other."""
    if found.low is None or found.high is None:
        return Agreement.NOT_SHOWN, _no_interval(found.blocks)
    if not found.low <= at <= found.high:
        return Agreement.DISAGREES, peak
    if found.low == found.high:
        return Agreement.AGREES, peak
    return Agreement.NOT_SHOWN, f"the interval holds other places too; {peak}"


def _value(guideline: Guideline, evidence: GuidelineEvidence) -> _Found:
    """Judge the highest peak, if the drive is the published one; else show it only."""
    points = guideline.where.select(evidence.points)
    published = [one for one in points if known_drives.is_drive(one.model, guideline.drive)]
    rows = block_tables.by_device(published or points).values()
    peaks = [block_tables.peaks(own, guideline.metric) for own in rows]
    every = [[*peak.values()] for own in peaks for peak in own.values()]
    if not every or guideline.value is None:
        yield GuidelineOutcome(Agreement.NOT_ASKED, _NO_PHASE), ()
        return
    values = max(every, key=stats.geometric_mean)
    unit, runs = _UNITS[guideline.metric], len(values)
    found = numbers.human(stats.geometric_mean(values), unit)
    if not published:
        why = f"a number of the {guideline.drive}, and this is another drive"
        yield GuidelineOutcome(Agreement.NOT_ASKED, why, found, runs=runs), ()
        return
    if runs < stats.MINIMUM_RUNS:
        why = _no_interval(runs)
        yield GuidelineOutcome(Agreement.NOT_SHOWN, why, found, runs=runs), published
        return
    logs = stats.paired_t(np.log(np.array(values) / guideline.value))
    low, high = float(logs.low), float(logs.high)
    text = f"a factor of {WITHIN:g}"
    words = (f"within {text}", f"beyond {text}", f"the interval reaches over {text}")
    agreement, why = _in_band(low, high, math.log(WITHIN), words)
    bounds = [numbers.human(guideline.value * math.exp(one), unit) for one in (low, high)]
    yield GuidelineOutcome(agreement, why, found, _interval(bounds), runs), published


def _not_asked(guideline: Guideline, _: GuidelineEvidence) -> _Found:
    yield GuidelineOutcome(Agreement.NOT_ASKED, guideline.why), ()


_Test = Callable[[Guideline, GuidelineEvidence], _Found]
_TESTS: Mapping[GuidelineTest, _Test] = {
    GuidelineTest.CONTRAST: _contrast,
    GuidelineTest.PEAKS: _peaks,
    GuidelineTest.KNEE: _knee,
    GuidelineTest.VALUE: _value,
    GuidelineTest.NONE: _not_asked,
}


def _no_interval(runs: int) -> str:
    return "one repetition" if runs < stats.MINIMUM_RUNS else "no spread, so no interval"


def _change(ratio: float | None) -> str:
    """Return a ratio as a signed percentage."""
    return numbers.DASH if ratio is None else f"{100 * (ratio - 1):+.2f} %"


def _place(value: float | None, along: SweepAxis) -> str:
    if value is None:
        return numbers.DASH
    return numbers.block_size(value) if along is SweepAxis.BS else f"{value:g}"


def _interval(bounds: Sequence[str]) -> str:
    low, high = bounds
    return low if low == high else f"{low} .. {high}"


def _name(point: BlockPoint, along: SweepAxis) -> str:
    """Name a curve by what can differ between the curves of a guideline."""
    size = "" if along is SweepAxis.BS else numbers.block_size(point.bs)
    return ", ".join(
        filter(None, (point.row, point.operation, size, point.scheduler, *point.others))
    )
