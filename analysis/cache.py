"""Were reads served alike on both sides? What a page cache answers says nothing of a level."""

from __future__ import annotations

from analysis.load import RunRecord
from analysis.side import Side
from harness.metrics import Kind, MetricInfo

# Shares of RocksDB's reads that caches below it served may differ by this much.
MARGIN = 0.10


def unlike(key: str, info: MetricInfo, base: Side, level: Side) -> str | None:
    """Return why a metric of a phase that only reads cannot be compared; None when it can.

    Bytes that the devices were asked for are such a metric as well as times. Where a side was not
    measured, nothing can be said against it.
    """
    phase = key.rpartition(".")[0]
    if info.kind is not Kind.TIME and info.name != "device_read":
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
