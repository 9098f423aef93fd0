"""One comparison over several campaigns of a study: the campaign is the unit of replication."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from analysis import numbers
from analysis.judge import campaigns, family, stats, timing
from analysis.judge.compare import Comparison
from analysis.judge.family import Key, KeyedRow
from analysis.judge.pairs import Judge
from analysis.judge.rows import Row
from analysis.judge.stats import Estimate, Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import Pool
from harness.errors import UsageError
from harness.store.spec import Claim

# Campaigns of one study have its seed, unless the user sets another one.
SAME_KEYS = "campaigns share seeds, so their keys are equal; --set seed=N plans others"


def compare_over(whole: Comparison) -> Comparison:
    """Pool the ratios of a comparison within each campaign with random effects over campaigns.

    Raises:
        UsageError: there is only one campaign, or campaigns are the contrast. A cell is of one
            campaign.
    """
    pool, contrast = whole.pool, whole.contrast
    if not pool.several or contrast in ("campaign", "cell"):
        raise UsageError(
            "--over campaigns needs at least two campaigns, and another contrast",
            hint="zonelab compare A B C --over campaigns --contrast level",
            code="over-campaigns",
        )
    claimed = _claimed(whole.judge)
    declared = family.adjusted(claimed, (Verdict.NOT_A_RESULT,))
    rows, claims = (
        tuple(family.victory(row, declared.get(keys)) for keys, row in found)
        for found in (
            _pool_rows(whole.judge, whole.baseline, whole.judged),
            [one for _, own in claimed for one in own],
        )
    )
    return dataclasses.replace(whole, rows=rows, claims=claims, over_campaigns=True)


def _pool_rows(
    judge: Judge, baseline: str, rows: Iterable[KeyedRow]
) -> list[tuple[frozenset[Key], Row]]:
    """Pool rows with one baseline that differ only in the campaign.

    Each row over all campaigns has the keys of the comparisons in each.
    """
    pool = judge.pool
    speeds = timing.speeds(pool, judge.contrast, baseline)
    common = [SAME_KEYS] * _share_seeds(pool)
    groups: dict[tuple[str, str, str], dict[str, KeyedRow]] = defaultdict(dict)
    for one in rows:
        campaign, stratum = _split(one.row.stratum, pool)
        groups[one.row.metric, one.row.level, stratum][campaign] = one
    pooled = []
    for (_, _, stratum), members in groups.items():
        alone = {name: one.row for name, one in members.items()}
        keys = frozenset(one.key for one in members.values())
        pooled.append((keys, _pooled(alone, stratum, pool, speeds, common)))
    return pooled


def _share_seeds(pool: Pool) -> bool:
    """Return whether two campaigns have a seed in common."""
    seeds = [{run.result.seed for run in campaign.runs} for campaign in pool.campaigns]
    return any(one & other for one, other in itertools.combinations(seeds, 2))


def _split(stratum: str, pool: Pool) -> tuple[str, str]:
    """Return the campaign of a stratum, and the stratum without it."""
    parts = stratum.split(", ")
    for campaign in pool.campaigns:
        part = f"campaign {campaign.label}"
        if part in parts:
            return campaign.label, ", ".join(text for text in parts if text != part)
    return "", stratum


def _pooled(
    rows: Mapping[str, Row],
    stratum: str,
    pool: Pool,
    speeds: Mapping[str, float],
    common: Sequence[str],
) -> Row:
    """Return the row over all campaigns that have a ratio; ``common`` are notes of all rows."""
    first = next(iter(rows.values()))
    usable = {name: row for name, row in rows.items() if _has_ratio(row)}
    parts = [f"{name} {numbers.ratio(row.estimate.center)}" for name, row in usable.items()]
    notes = [f"campaigns: {', '.join(parts)}"] if parts else []
    notes += [f"{name}: {row.verdict}" for name, row in rows.items() if name not in usable]
    notes += [f"{c.label}: no row" for c in pool.campaigns if c.label not in rows]
    floor = max(row.floor for row in rows.values())
    if len(usable) < stats.MINIMUM_RUNS:
        word = first.verdict if not usable and len(rows) > 1 else Verdict.TOO_FEW
        first = next(iter(usable.values()), first)
        nothing = dataclasses.replace(
            first.estimate,
            center=first.estimate.center if usable else None,
            low=None,
            high=None,
            p_value=None,
            error=None,
            n_base=len(usable),
            n_level=len(usable),
            method=Method.NONE,
        )
        return dataclasses.replace(
            first, stratum=stratum, estimate=nothing, verdict=word, notes=tuple(notes)
        )
    found, share = _estimate(list(usable.values()))
    notes.append(f"{share:.0%} of the variance is between campaigns")
    notes += common
    word = stats.verdict(found, first.info.better, noise_floor=floor, claimed=False)
    if any(row.verdict is Verdict.TIMING_DEPENDENT for row in usable.values()):
        estimates = {name: row.estimate for name, row in usable.items()}
        least = max(row.floor for row in usable.values())
        if reason := timing.disagreement(estimates, speeds, least):
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


def _has_ratio(row: Row) -> bool:
    # Campaigns can show together that bytes do not depend on the guest's speed.
    usable = row.verdict is Verdict.TIMING_DEPENDENT or not row.verdict.is_silent
    return usable and row.estimate.is_ratio and row.estimate.method is not Method.NONE


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


def _claimed(judge: Judge) -> list[tuple[Claim, list[tuple[frozenset[Key], Row]]]]:
    """Return each claim that every campaign's study declares, with its rows, shown or not."""
    pool = judge.pool
    if judge.contrast != pool.first.plan.contrast:
        return []
    declared = [set(campaign.plan.claims) for campaign in pool.campaigns]
    common = [claim for claim in pool.first.plan.claims if all(claim in one for one in declared)]
    return [
        (claim, _pool_rows(judge, claim.baseline, filter(_has_level, family.rows_of(judge, claim))))
        for claim in common
    ]


def _has_level(one: KeyedRow) -> bool:
    return any(run.ok for run in one.key.level)
