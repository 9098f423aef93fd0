"""Were reads served alike on both sides? What a page cache answers says nothing of a level."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.load import RunRecord
from harness.metrics import Kind, MetricInfo

# Shares of RocksDB's reads that caches below it served may differ by this much.
MARGIN = 0.10


def unlike(
    key: str,
    info: MetricInfo,
    base: tuple[str, list[RunRecord]],
    level: tuple[str, list[RunRecord]],
) -> str | None:
    """Return why a metric of a phase that only reads cannot be compared; None when it can.

    Bytes that the devices were asked for are such a metric as well as times. Where a side was not
    measured, nothing can be said against it.
    """
    phase = key.rpartition(".")[0]
    if info.kind is not Kind.TIME and info.name != "device_read":
        return None
    if not all(_only_reads(run, phase) for run in (*base[1], *level[1])):
        return None
    shares = [_mean(runs, f"{phase}.cache_served_share") for _, runs in (base, level)]
    left, right = shares
    if left is None or right is None or abs(left - right) <= MARGIN:
        return None
    return f"caches served {left:.0%} of {base[0]}'s reads, {right:.0%} of {level[0]}'s"


def _only_reads(run: RunRecord, phase: str) -> bool:
    return any(
        spec.name == phase and spec.user_bytes_per_operation == 0 for spec in run.spec.phases
    )


def _mean(runs: Iterable[RunRecord], key: str) -> float | None:
    values = [value for run in runs if run.ok and (value := run.value(key)) is not None]
    return sum(values) / len(values) if values else None
