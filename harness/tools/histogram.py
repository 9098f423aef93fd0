"""Latency histograms in RocksDB's buckets: merging and quantiles.

A histogram is the dict stored as ``histograms/<phase>.<operation>.json``: ``count`` samples;
``sum``, ``min`` and ``max`` in microseconds; and ``buckets``, a list of ``[low, high, count]`` with
the samples in the interval (low, high].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from harness.store.codec import SCHEMA_VERSION

Histogram = dict[str, Any]

# A quantile is reported only if at least this many samples lie above it (docs/methods.md).
SAMPLES_ABOVE = 100


def make(
    count: int, total: float, low: float, high: float, buckets: Sequence[Sequence[float]]
) -> Histogram:
    """Return the stored form; ``total`` is the sum of all samples in microseconds."""
    return {
        "schema_version": SCHEMA_VERSION,
        "unit": "us",
        "count": count,
        "sum": total,
        "min": low,
        "max": high,
        "buckets": buckets,
    }


def merge(histograms: Iterable[Histogram]) -> Histogram | None:
    """Add histograms bucket by bucket; return None if they hold no sample."""
    parts = [part for part in histograms if part["count"] > 0]
    if not parts:
        return None
    counts: dict[tuple[int, int], int] = {}
    for part in parts:
        for low, high, count in part["buckets"]:
            counts[low, high] = counts.get((low, high), 0) + count
    return make(
        sum(part["count"] for part in parts),
        math.fsum(part["sum"] for part in parts),
        min(part["min"] for part in parts),
        max(part["max"] for part in parts),
        [[low, high, counts[low, high]] for low, high in sorted(counts)],
    )


def mean(histogram: Histogram) -> float:
    """Return the mean in microseconds."""
    return float(histogram["sum"] / histogram["count"])


def enough(count: int, per_myriad: int) -> bool:
    """Whether at least SAMPLES_ABOVE of ``count`` samples lie above a quantile."""
    return count * (10_000 - per_myriad) >= SAMPLES_ABOVE * 10_000


def quantile(histogram: Histogram, per_myriad: int) -> float | None:
    """Return the quantile ``per_myriad`` / 10,000 in microseconds.

    Like RocksDB's HistogramStat::Percentile it interpolates linearly inside a bucket and clamps to
    the smallest and largest sample. None if fewer than SAMPLES_ABOVE samples lie above it.
    """
    n = histogram["count"]
    if not enough(n, per_myriad):
        return None
    threshold = n * per_myriad / 10_000
    below = 0
    for low, high, count in histogram["buckets"]:
        if count and below + count >= threshold:
            value = low + (high - low) * (threshold - below) / count
            return float(min(max(value, histogram["min"]), histogram["max"]))
        below += count
    return float(histogram["max"])
