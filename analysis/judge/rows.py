"""One row of a comparison: a metric of a level against the baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.judge import between_cells, cache, media_sources, modelled, stats, timing, wal, worked
from analysis.judge.between_cells import CellSpread
from analysis.judge.comparability import Difference
from analysis.judge.select import metric_info
from analysis.judge.side import Side
from analysis.judge.stats import Estimate, Method
from analysis.judge.verdicts import Verdict
from analysis.read import percentiles
from analysis.read.load import CampaignData, Pool
from harness.metrics.catalogue import Better, MetricInfo, MetricKind
from harness.store.result import Severity
from harness.tools import histogram

# A note for rows in which the quotient of the shown values is not the ratio.
_STATISTIC = (
    "values: the percentile of all runs' operations together; ratio and interval: the geometric "
    "mean of each run's own percentile"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one level against the baseline, within one stratum of the other factors.

    Attributes:
        stratum: values of the other factors; empty if none varies.
        steady: the labels of the phase on both sides; empty if the metric belongs to no measured
            phase.
        floor: the relative difference that a verdict must exceed.
        shown: both sides' values if they are not means over runs: percentiles come from merged
            histograms.
    """

    metric: str
    info: MetricInfo
    stratum: str
    baseline: str
    level: str
    estimate: Estimate
    verdict: Verdict
    notes: tuple[str, ...]
    steady: tuple[str, str] = ("", "")
    claim: str | None = None
    expect: str | None = None
    p_holm: float | None = None
    floor: float = stats.NOISE_FLOOR
    shown: tuple[float | None, float | None] | None = None

    @property
    def is_loss(self) -> bool:
        """Whether a difference is shown and its direction is the worse one."""
        losing = Verdict.LOWER if self.info.better is Better.HIGHER else Verdict.HIGHER
        return self.verdict in (Verdict.WORSE, losing)

    @property
    def values(self) -> tuple[float | None, float | None]:
        """The baseline's and the level's value as text."""
        return self.shown or (self.estimate.base_mean, self.estimate.mean)


def judge_row(
    key: str,
    stratum: str,
    base: Side,
    level: Side,
    *,
    contrast: str,
    diff: Sequence[Difference],
    floor: float,
    cells: CellSpread | None,
    slower: Sequence[CampaignData],
) -> Row:
    """Compare a metric of a level with the baseline within a stratum."""
    info = metric_info(key)
    left, right = base.by_block(key, contrast), level.by_block(key, contrast)
    found = stats.estimate(left, right, exact_allowed=info.kind is not MetricKind.TIME)
    found = between_cells.widened(found, cells)
    notes = _notes(key, base, level, found, alone=len(left.keys() ^ right.keys()))
    if any(d.declared for d in diff):
        notes.append("on another rig, as declared (below)")
    obstacles = [*_obstacles(key, info, base, level, diff), *_pooled(base.pool, contrast, found)]
    word, reasons = _refusal(key, base, level, found=found, obstacles=obstacles, slower=slower)
    if word is None:
        explained = modelled.percentile_floor(key, base, level, slower)
        if explained > floor:
            floor = explained
            notes.append(f"the processor can explain a difference of {floor:.2%}")
        word = stats.verdict(found, info.better, noise_floor=floor, claimed=False)
        reasons = worked.uncounted(key, base, level)
        if warning := wal.uncounted(key, info, base, level):
            reasons = [*reasons, warning]
    phase = key.rpartition(".")[0]
    states = (base.once(_steady, phase), level.once(_steady, phase))
    notes += [
        *reasons,
        *(
            f"{side.name}: {state}"
            for side, state in zip((base, level), states, strict=True)
            if state
        ),
    ]
    shown = _whole_percentiles(info.name, phase, base, level)
    if shown is not None:
        notes.append(_STATISTIC)
    return Row(
        key,
        info,
        stratum,
        base.name,
        level.name,
        found,
        word,
        tuple(notes),
        states,
        floor=floor,
        shown=shown,
    )


def _refusal(
    key: str,
    base: Side,
    level: Side,
    *,
    found: Estimate,
    obstacles: Sequence[str],
    slower: Sequence[CampaignData],
) -> tuple[Verdict | None, Sequence[str]]:
    """Return the verdict of a row that must not be tested, and why; None if it may be tested."""
    info = metric_info(key)
    is_time = info.kind is MetricKind.TIME
    if is_time and (refused := modelled.refusal(key, base, level, slower)):
        return refused.verdict, [refused.reason] if refused.reason else []
    if obstacles:
        return Verdict.NOT_COMPARABLE, obstacles
    if info.better is not Better.NONE and (reasons := worked.idle(key, base, level)):
        return Verdict.NOTHING, reasons
    if found.method is not Method.NONE and (levels := timing.dependent(info, base, level)):
        return Verdict.TIMING_DEPENDENT, [f"the bytes of {levels} depend on the guest's speed"]
    return None, ()


def _whole_percentiles(
    name: str, phase: str, base: Side, level: Side
) -> tuple[float | None, float | None] | None:
    """Return both sides' percentile of all runs' operations together; None for other metrics."""
    if percentiles.per_myriad(name) is None:
        return None
    intended = percentiles.is_intended(name)
    left, right = (side.once(_histogram, phase, intended) for side in (base, level))
    return percentiles.percentile(left, name), percentiles.percentile(right, name)


def _obstacles(
    key: str, info: MetricInfo, base: Side, level: Side, diff: Sequence[Difference]
) -> list[str]:
    """Return the reasons against a verdict, as phrases for the notes."""
    if missing := [f"{side.name} has no ok run" for side in (base, level) if not side.ok]:
        return missing
    if blocking := [d.label for d in diff if d.blocking]:
        return blocking
    guards = (cache.unlike, wal.unlike, media_sources.unlike)
    return [reason for guard in guards if (reason := guard(key, info, base, level))]


def _pooled(pool: Pool, contrast: str, found: Estimate) -> list[str]:
    """Return why runs of different hosts cannot be compared, if they share too few blocks."""
    differ = any(campaign.plan.hosts_differ for campaign in pool.campaigns)
    if not differ or contrast == "host" or found.method is not Method.WELCH:
        return []
    return ["hosts differ, and few blocks are common"]


def _steady(side: Side, phase: str) -> str:
    """Return the label of a phase of a side; '' if it is not measured or has no series."""
    found = (one.steady.label.value for one in side.labels if one.phase == phase and one.recorded)
    return next(found, "")


def _histogram(side: Side, phase: str, intended: bool) -> histogram.Histogram | None:
    return percentiles.together(side.ok, phase, intended=intended)


def _warned(side: Side, phase: str) -> Counter[str]:
    return Counter(
        issue.code
        for run in side.ok
        for issue in run.result.issues
        if issue.severity is not Severity.INFO and issue.phase in (None, phase)
    )


def _notes(key: str, base: Side, level: Side, found: Estimate, *, alone: int) -> list[str]:
    notes = []
    for side in (base, level):
        nulls = side.nulls(key)
        if nulls:
            notes.append(f"{side.name}: {nulls} null")
    if not found.is_ratio and found.center is not None:
        notes.append("has zeros: difference of means")
    if found.method is Method.NONE and found.n >= stats.MINIMUM_RUNS:
        notes.append("no spread: an exact verdict needs 3 runs a side")
    if found.method is Method.WELCH:
        notes.append("few common blocks: Welch t")
    elif found.method is Method.PAIRED and alone:
        notes.append(f"{found.n} common blocks; without a partner: {alone}")
    if found.between_cells:
        spread = f"{math.sqrt(found.between_cells / 2):.2%}"
        cells = f"equal cells (twins) differ by a standard deviation of {spread}"
        notes.append(f"{cells}; the interval includes this")
    warned = level.once(_warned, key.rpartition(".")[0])
    notes += [f"{code} x{count}" for code, count in sorted(warned.items())]
    return notes
