"""Selects the parts of a comparison: metrics, values of the contrasted factor, strata."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from analysis.read.grouping import grouped
from analysis.read.load import CampaignData, Pool, RunRecord
from harness.errors import UsageError
from harness.metrics.catalogue import RESULT, Better, MetricInfo, MetricKind, lookup

_MOST_HINTS = 5


def select_metrics(pool: Pool, patterns: Sequence[str]) -> list[str]:
    """Return the metric keys that match the patterns (``overwrite.*``, ``throughput``).

    Without patterns these are the first study's metrics, or else all metrics with a direction.
    """
    plan = pool.first.plan
    known = list(dict.fromkeys(key for run in pool.runs for key in run.result.metrics))

    def matching(pattern: str) -> list[str]:
        return [
            key
            for key in known
            if fnmatchcase(key, pattern) or fnmatchcase(key.rpartition(".")[2], pattern)
        ]

    for pattern in patterns:
        if not matching(pattern):
            raise UsageError(
                f"no metric {pattern!r} in this campaign",
                hint=_metrics_like(pattern, known),
                code="unknown-metric",
            )
    wanted = patterns or plan.metrics
    if wanted:
        chosen = [key for pattern in wanted for key in matching(pattern)]
        claimed = [claim.metric for claim in plan.claims if not patterns]
        return list(dict.fromkeys([*chosen, *(key for key in claimed if key in known)]))
    return [key for key in known if metric_info(key).better is not Better.NONE]


def _metrics_like(pattern: str, known: Sequence[str]) -> str:
    """Return a hint with a few names that resemble a pattern, not all of the hundreds."""
    if not known:
        return "no run has any metric yet"
    names = sorted({key.rpartition(".")[2] for key in known})
    word = pattern.rpartition(".")[2].strip("*")
    containing = [name for name in names if word and word in name]
    close = (containing or difflib.get_close_matches(word, names))[:_MOST_HINTS]
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{guess}--metric '*' --format csv lists all"


def metric_info(key: str) -> MetricInfo:
    """Return the catalogue entry. An unknown metric is descriptive and counts as a time."""
    try:
        return lookup(key)
    except KeyError:
        name = key.rpartition(".")[2]
        return MetricInfo(
            name, Better.NONE, "not in catalogue", (RESULT,), "", kind=MetricKind.TIME
        )


def values_of(pool: Pool, contrast: str) -> list[str]:
    """Return the values of a factor, in an order that does not depend on the plan's shuffling.

    Raises:
        UsageError: the factor does not exist.
    """
    if contrast not in (names := factors_of(pool)):
        several = "" if pool.several else "; name two campaigns to compare these"
        raise UsageError(
            f"no factor {contrast!r} in this campaign",
            hint=f"factors: {', '.join(names)}{several}",
            code="unknown-factor",
        )
    if contrast == "campaign":
        return [campaign.label for campaign in pool.campaigns]
    found = {value for campaign in pool.campaigns for value in _planned(campaign, contrast)}
    found |= {label(run, contrast) for run in pool.runs}
    if contrast == "level":
        return sorted(found, key=pool.first.level_order)
    return sorted(found, key=_numbers_first)


def factors_of(pool: Pool) -> list[str]:
    """Return the factors that can be contrasted, sorted."""
    specs = [s for campaign in pool.campaigns for host in campaign.plan.hosts for s in host.runs]
    names = {"level", "cell", "host", *(name for spec in specs for name in spec.factors)}
    return sorted(names | {"campaign"} if pool.several else names)


def _planned(campaign: CampaignData, contrast: str) -> Iterable[str]:
    for host in campaign.plan.hosts:
        for spec in host.runs:
            cell = f"{campaign.label}/{spec.cell}" if campaign.label else spec.cell
            identity = {"level": spec.row, "cell": cell, "host": host.host}
            yield str(identity.get(contrast) or spec.factors.get(contrast))


def only_where(pool: Pool, runs: Sequence[RunRecord], where: Mapping[str, str]) -> list[RunRecord]:
    """Return the runs whose factors have the given values.

    Raises:
        UsageError: a factor or a value does not exist.
    """
    kept = list(runs)
    for name, value in where.items():
        known = values_of(pool, name)
        if value not in known:
            raise UsageError(
                f"no {name} {value!r} in this campaign",
                hint=f"choose one of: {', '.join(known)}",
                code="unknown-value",
            )
        kept = [run for run in kept if label(run, name) == value]
    return kept


def choose_baseline(pool: Pool, contrast: str, values: Sequence[str], wanted: str | None) -> str:
    """Return the wanted baseline, else the study's, else the first value."""
    if wanted is not None and wanted not in values:
        raise UsageError(
            f"no {contrast} {wanted!r} in this campaign",
            hint=f"choose one of: {', '.join(values)}",
            code="unknown-baseline",
        )
    if wanted is None:
        planned = pool.first.plan.baseline
        wanted = planned if planned in values else values[0]
    return wanted


def choose_values(
    contrast: str, values: Sequence[str], baseline: str, against: Sequence[str]
) -> list[str]:
    """Return the baseline and the values to compare with it; by default all others."""
    for value in against:
        if value not in values or value == baseline:
            raise UsageError(
                f"no other {contrast} {value!r} in this campaign",
                hint=f"choose from: {', '.join(v for v in values if v != baseline)}",
                code="unknown-value",
            )
    return [value for value in values if value == baseline or not against or value in against]


def label(run: RunRecord, contrast: str) -> str:
    """Return a run's value of the contrasted factor."""
    return str(run.factor(contrast))


def by_block(runs: Iterable[RunRecord], key: str, contrast: str) -> dict[str, float]:
    """Return block → value, from the ok runs that measured the metric."""
    return {
        run.block_key(contrast): value
        for run in runs
        if run.ok and (value := run.value(key)) is not None
    }


def strata(runs: Iterable[RunRecord], contrast: str) -> dict[str, list[RunRecord]]:
    """Group runs by all factors except the contrasted one. The key names the varying factors."""
    runs = list(runs)
    varying = varying_factors(runs, contrast)
    return dict(sorted(grouped(runs, lambda run: stratum_of(run, varying)).items()))


def varying_factors(runs: Sequence[RunRecord], contrast: str) -> list[str]:
    """Return the other factors with more than one value, sorted.

    If cells are contrasted, no factor varies within one. Hosts form no strata, because blocks are
    spread over them.
    """
    if contrast == "cell":
        return []
    names = {"level", "campaign", *(name for run in runs for name in run.result.factors)}
    return [
        name
        for name in sorted(names - {contrast})
        if len({str(run.factor(name)) for run in runs}) > 1
    ]


def stratum_of(run: RunRecord, varying: Sequence[str]) -> str:
    """Return the values of a run's varying factors as text; empty if none varies."""
    return ", ".join(
        str(run.factor(name)) if name == "level" else f"{name} {run.factor(name)}"
        for name in varying
    )


def _numbers_first(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
