"""Checks that caches served similar shares of the reads on both sides.

A read that a page cache serves does not measure the level.
"""

from __future__ import annotations

from analysis.judge.side import Side
from analysis.read.load import RunRecord
from harness.metrics.catalogue import MetricInfo, MetricKind

# The largest accepted difference between the shares of RocksDB's reads that caches served.
MARGIN = 0.10


def unlike(key: str, info: MetricInfo, base: Side, level: Side) -> str | None:
    """Return why a metric of a read-only phase cannot be compared; None if it can.

    Only times and bytes read from devices are refused, and only if both sides' shares are known.
    """
    phase = key.rpartition(".")[0]
    if info.kind is not MetricKind.TIME and not info.includes_reads:
        return None
    if not all(side.once(_only_reads, phase) for side in (base, level)):
        return None
    left, right = (side.mean(_served, phase) for side in (base, level))
    if left is None or right is None or abs(left - right) <= MARGIN:
        return None
    return f"caches served {left:.0%} of {base.name}'s reads, {right:.0%} of {level.name}'s"


def _only_reads(side: Side, phase: str) -> bool:
    return all(
        any(spec.name == phase and spec.user_bytes_per_operation == 0 for spec in run.spec.phases)
        for run in side.runs
    )


def _served(run: RunRecord, phase: str) -> float | None:
    return run.value(f"{phase}.cache_served_share")
