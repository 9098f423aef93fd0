"""When block-level points on modelled drives get a verdict: by the rules of ``compare``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from analysis.judge import modelled
from analysis.judge.guideline import BlockMetric
from analysis.judge.side import Side
from analysis.read.block import BlockPoint
from analysis.read.grouping import grouped
from analysis.read.load import CampaignData, Pool, RunRecord

_KEYS = {
    BlockMetric.IOPS: "throughput",
    BlockMetric.BANDWIDTH: "throughput",
    BlockMetric.P50: "latency_p50",
    BlockMetric.P95: "latency_p95",
}


@dataclass(frozen=True)
class ModelRules:
    """The rules for a campaign; ``slower`` are those of ``compare``."""

    campaign: CampaignData
    slower: Sequence[CampaignData]

    def refusal(self, points: Sequence[BlockPoint], metric: BlockMetric) -> str:
        """Return why one of the points has no verdict; '' if all can have one."""
        none = Side("", Pool((self.campaign,)))
        for key, side in self._sides(points, metric):
            if found := modelled.refusal(key, none, side, self.slower):
                return found.reason or found.verdict
        return ""

    def explained(
        self, side: Sequence[BlockPoint], base: Sequence[BlockPoint], metric: BlockMetric
    ) -> float:
        """Return the difference between two sides that the processor can explain."""
        left, right = (
            fmean(modelled.log_change(key, runs, self.slower) for key, runs in sides)
            for sides in (self._sides(side, metric), self._sides(base, metric))
        )
        return modelled.explained(left, right)

    def _sides(
        self, points: Sequence[BlockPoint], metric: BlockMetric
    ) -> Iterator[tuple[str, Side]]:
        """Yield the metric's key and the runs of each phase of each cell."""
        pool = Pool((self.campaign,))
        for cell, phase in dict.fromkeys((point.cell, point.phase) for point in points):
            side = Side(f"{cell}, {phase}", pool, self._runs[cell])
            yield f"{phase}.{_KEYS[metric]}", side

    @cached_property
    def _runs(self) -> dict[str, list[RunRecord]]:
        """The latest runs by cell."""
        return grouped(self.campaign.latest, lambda run: run.cell)
