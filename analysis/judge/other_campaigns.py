"""Campaigns on other rigs, each compared with its own baseline and with nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.judge.compare import Comparison, compare
from analysis.judge.rows import Row
from analysis.judge.select import label, select_metrics
from analysis.read.load import CampaignData, Pool, RunRecord

MEDIA, DEVICE = "wa_total", "write_amplification"


@dataclass(frozen=True, slots=True)
class OtherCampaign:
    """A campaign's own comparison of bytes per user byte.

    Attributes:
        metric: the compared metric; None if no ok run has one.
        media_unknown: values of the contrasted factor without media bytes, if ``metric`` counts
            device writes for that reason.
    """

    comparison: Comparison
    metric: str | None
    media_unknown: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the metric; its claims are judged in the family of this campaign."""
        return tuple(row for row in self.comparison.rows if row.metric == self.metric)


def compare_alone(campaign: CampaignData, *, different_code: bool = False) -> OtherCampaign:
    """Compare a campaign's media bytes per user byte, or its device writes where these are unknown.

    One metric serves all levels, because ratios of two metrics cannot stand in one table.
    """
    pool, contrast = Pool((campaign,)), campaign.plan.contrast
    ok = [run for run in campaign.latest if run.ok]
    for phase in _phases(pool):
        lacking = {name: _lacking(ok, f"{phase}.{name}", contrast) for name in (MEDIA, DEVICE)}
        name = min(lacking, key=lambda one: len(lacking[one]))
        key = f"{phase}.{name}"
        if any(run.value(key) is not None for run in ok):
            comparison = compare(pool, metrics=[key], different_code=different_code)
            return OtherCampaign(comparison, key, lacking[MEDIA] if name == DEVICE else ())
    return OtherCampaign(compare(pool, different_code=different_code), None)


def _phases(pool: Pool) -> Iterable[str]:
    """Return the phases of claims, then of the study's metrics, then measured ones, then all."""
    plan = pool.first.plan
    known = select_metrics(pool, ())
    named = [*(claim.metric for claim in plan.claims), *(known if plan.metrics else ())]
    measured = (phase.name for run in pool.latest for phase in run.measured)
    return dict.fromkeys((*map(_phase, named), *measured, *map(_phase, known)))


def _phase(metric: str) -> str:
    return metric.rpartition(".")[0]


def _lacking(runs: Sequence[RunRecord], key: str, contrast: str) -> tuple[str, ...]:
    """Return the values of the contrasted factor for which no run has the metric."""
    having = {label(run, contrast) for run in runs if run.value(key) is not None}
    return tuple(dict.fromkeys(one for run in runs if (one := label(run, contrast)) not in having))
