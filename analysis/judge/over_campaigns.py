"""One comparison over several campaigns of a study: the campaign is the unit of replication."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from analysis import numbers
from analysis.judge import campaigns, stats, timing
from analysis.judge.compare import Comparison
from analysis.judge.rows import Row
from analysis.judge.stats import Estimate, Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import Pool
from harness.errors import UsageError
from harness.store.spec import Claim


def compare_over(whole: Comparison) -> Comparison:
    """Pool the ratios of a comparison within each campaign with random effects over campaigns.

    Raises:
        UsageError: there is one campaign only, or campaigns are the contrast.
    """
    pool, contrast = whole.pool, whole.contrast
    if not pool.several or contrast == "campaign":
        raise UsageError(
            "--over campaigns needs at least two campaigns, and another contrast",
            hint="zonelab compare A B C --over campaigns --contrast level",
            code="over-campaigns",
        )
    speeds = timing.speeds(pool, contrast, whole.baseline)
    groups: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
    for row in whole.rows:
        campaign, stratum = _split(row.stratum, pool)
        groups[row.metric, row.level, stratum][campaign] = row
    rows = [_pooled(members, stratum, pool, speeds) for (_, _, stratum), members in groups.items()]
    return dataclasses.replace(whole, rows=tuple(_claimed(rows, pool, contrast)))


def _split(stratum: str, pool: Pool) -> tuple[str, str]:
    """Return the campaign of a stratum, and the stratum without it."""
    parts = stratum.split(", ")
    for campaign in pool.campaigns:
        part = f"campaign {campaign.label}"
        if part in parts:
            return campaign.label, ", ".join(text for text in parts if text != part)
    return "", stratum


def _pooled(rows: Mapping[str, Row], stratum: str, pool: Pool, speeds: Mapping[str, float]) -> Row:
    """Return the row over all campaigns that have a ratio."""
    first = next(iter(rows.values()))
    usable = {name: row for name, row in rows.items() if _has_ratio(row)}
    parts = [f"{name} {numbers.ratio(row.estimate.center)}" for name, row in usable.items()]
    notes = [f"campaigns: {', '.join(parts)}"] if parts else []
    notes += [f"{name}: {row.verdict}" for name, row in rows.items() if name not in usable]
    notes += [f"{c.label}: no row" for c in pool.campaigns if c.label not in rows]
    floor = max(row.floor for row in rows.values())
    if len(usable) < stats.MINIMUM_RUNS:
        word = first.verdict if not usable and len(rows) > 1 else Verdict.TOO_FEW
        nothing = dataclasses.replace(
            first.estimate, low=None, high=None, p_value=None, error=None, method=Method.NONE
        )
        return dataclasses.replace(
            first, stratum=stratum, estimate=nothing, verdict=word, notes=tuple(notes)
        )
    found, share = _estimate(list(usable.values()))
    notes.append(f"{share:.0%} of the variance is between campaigns")
    word = stats.verdict(found, first.info.better, noise_floor=floor, claimed=False)
    if any(row.verdict is Verdict.TIMING_DEPENDENT for row in usable.values()) and (
        reason := _disagreement(usable, speeds)
    ):
        word = Verdict.TIMING_DEPENDENT
        notes.append(reason)
    return dataclasses.replace(
        first,
        stratum=stratum,
        estimate=found,
        verdict=word,
        notes=tuple(notes),
        floor=floor,
        steady=("", ""),
        shown=None,
    )


_WITHOUT_RATIO = (
    Verdict.NOT_COMPARABLE,
    Verdict.NOTHING,
    Verdict.NOT_A_RESULT,
    Verdict.HOST_BOUND,
    Verdict.TOO_FEW,
)


def _has_ratio(row: Row) -> bool:
    estimate = row.estimate
    return (
        row.verdict not in _WITHOUT_RATIO
        and estimate.is_ratio
        and estimate.method is not Method.NONE
    )


def _estimate(rows: Sequence[Row]) -> tuple[Estimate, float]:
    centers = np.log([row.estimate.center or 1.0 for row in rows])
    errors = np.array([row.estimate.error or 0.0 for row in rows])
    pooled = campaigns.random_effects(centers, errors)
    interval, count = pooled.interval, len(rows)
    base = stats.geometric_mean([row.estimate.base_mean or 1.0 for row in rows])
    level = stats.geometric_mean([row.estimate.mean or 1.0 for row in rows])
    exact = float(interval.error) == 0
    found = Estimate(
        is_ratio=True,
        center=math.exp(float(interval.center)),
        low=None if exact else math.exp(float(interval.low)),
        high=None if exact else math.exp(float(interval.high)),
        p_value=float(interval.p),
        n_base=count,
        n_level=count,
        method=Method.EXACT if exact else Method.CAMPAIGNS,
        base_mean=base,
        mean=level,
        error=float(interval.error),
        df=float(interval.df),
    )
    return found, float(pooled.share)


def _disagreement(rows: Mapping[str, Row], speeds: Mapping[str, float]) -> str:
    """Return why ratios depend on the guest's speed; empty if they are shown not to."""
    estimates = {name: row.estimate for name, row in rows.items()}
    return timing.disagreement(estimates, speeds, max(row.floor for row in rows.values()))


def _claimed(rows: Sequence[Row], pool: Pool, contrast: str) -> list[Row]:
    """Return the rows; claims that every campaign declared get words of victory after Holm."""
    claims = _common(pool) if contrast == pool.first.plan.contrast else []
    places: dict[int, Claim] = {}
    p_values: dict[int | str, float] = {}
    for claim in claims:
        mine = [
            index
            for index, row in enumerate(rows)
            if (row.metric, row.level, row.baseline) == (claim.metric, claim.level, claim.baseline)
        ]
        for index in mine:
            row = rows[index]
            places[index] = claim
            if row.verdict is not Verdict.NOT_A_RESULT:
                p = stats.p_beyond(row.estimate, row.floor) if row.verdict.is_judged else None
                p_values[index] = 1.0 if p is None else p
        if not mine:
            p_values[claim.id] = 1.0
    adjusted = dict(zip(p_values, stats.holm(list(p_values.values())), strict=True))
    found = list(rows)
    for index, claim in places.items():
        row, p_holm = rows[index], adjusted.get(index)
        word = row.verdict
        if word.is_judged and p_holm is not None:
            word = stats.verdict(row.estimate, row.info.better, p_value=p_holm)
        found[index] = dataclasses.replace(
            row, verdict=word, claim=claim.id, expect=claim.expect, p_holm=p_holm
        )
    return found


def _common(pool: Pool) -> list[Claim]:
    declared = [set(campaign.plan.claims) for campaign in pool.campaigns]
    return [claim for claim in pool.first.plan.claims if all(claim in one for one in declared)]
