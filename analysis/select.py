"""What of a campaign is compared: metrics, values of the contrasted factor, strata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from analysis.load import CampaignData, RunRecord
from harness.errors import UsageError
from harness.metrics import Better, Kind, MetricInfo, lookup
from harness.store.spec import Scalar


def select_metrics(campaign: CampaignData, patterns: Sequence[str]) -> list[str]:
    """Return metric keys matching the patterns (``overwrite.*``, ``throughput``), plan order.

    Without patterns: the metrics the study lists, else all that have a direction.
    """
    known = list(dict.fromkeys(key for run in campaign.runs for key in run.result.metrics))

    def matching(pattern: str) -> list[str]:
        return [
            key for key in known
            if fnmatchcase(key, pattern) or fnmatchcase(key.rpartition(".")[2], pattern)
        ]  # fmt: skip

    for pattern in patterns:
        if not matching(pattern):
            raise UsageError(
                f"no metric {pattern!r} in this campaign",
                hint=f"metrics: {', '.join(known)}" if known else "no run has any metric yet",
                code="unknown-metric",
            )
    wanted = patterns or campaign.plan.metrics
    if wanted:
        chosen = [key for pattern in wanted for key in matching(pattern)]
        claimed = [claim.metric for claim in campaign.plan.claims if not patterns]
        return list(dict.fromkeys([*chosen, *(key for key in claimed if key in known)]))
    return [key for key in known if metric_info(key).better is not Better.NONE]


def metric_info(key: str, unit: str = "") -> MetricInfo:
    """Return the catalogue entry; an unknown metric describes only and counts as a time."""
    try:
        return lookup(key)
    except KeyError:
        return MetricInfo(key.rpartition(".")[2], unit, Kind.TIME, Better.NONE, "not in catalogue")


def values_of(campaign: CampaignData, contrast: str) -> list[str]:
    """Return the values of a factor, in an order that does not depend on the plan's shuffling.

    Raises:
        UsageError: there is no such factor.
    """
    specs = [spec for host in campaign.plan.hosts for spec in host.runs]
    names = {"level", *(name for spec in specs for name in spec.factors)}
    if contrast not in names:
        raise UsageError(
            f"no factor {contrast!r} in this campaign",
            hint=f"factors: {', '.join(sorted(names))}",
            code="unknown-factor",
        )
    planned = [
        str(spec.row if contrast == "level" else spec.factors.get(contrast)) for spec in specs
    ]
    found = {*planned, *(label(run, contrast) for run in campaign.runs)}
    if contrast == "level":
        return sorted(found, key=campaign.level_order)
    return sorted(found, key=_numbers_first)


def choose_baseline(
    campaign: CampaignData, contrast: str, values: Sequence[str], wanted: str | None
) -> str:
    """Return the wanted baseline, else the study's, else the first value."""
    if wanted is not None and wanted not in values:
        raise UsageError(
            f"no {contrast} {wanted!r} in this campaign",
            hint=f"choose one of: {', '.join(values)}",
            code="unknown-baseline",
        )
    if wanted is None:
        wanted = campaign.plan.baseline if campaign.plan.baseline in values else values[0]
    return wanted


def label(run: RunRecord, contrast: str) -> str:
    """Return a run's value of the contrasted factor."""
    return _scalar(run.factor(contrast))


def _scalar(value: Scalar | None) -> str:
    return str(value)


def strata(runs: Iterable[RunRecord], contrast: str) -> dict[str, list[RunRecord]]:
    """Group runs by all factors but the contrasted one; the key names those that vary."""
    runs = list(runs)
    varying = varying_factors(runs, contrast)
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(stratum_of(run, varying), []).append(run)
    return dict(sorted(groups.items()))


def varying_factors(runs: Sequence[RunRecord], contrast: str) -> list[str]:
    """Return the other factors that take more than one value, sorted."""
    names = sorted({"level", *(name for run in runs for name in run.result.factors)} - {contrast})
    return [name for name in names if len({_scalar(run.factor(name)) for run in runs}) > 1]


def stratum_of(run: RunRecord, varying: Sequence[str]) -> str:
    """Name the values of a run's varying factors; empty when there are none."""
    return ", ".join(
        _scalar(run.factor(name)) if name == "level" else f"{name} {_scalar(run.factor(name))}"
        for name in varying
    )


def _numbers_first(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
