"""Clocks of a run on a modelled drive.

Files of a run have the times of its machine, on which a second of the drive's model takes
``dilation`` seconds. Results have the times of the model. On other drives both are the same.
"""

from __future__ import annotations

from harness.metrics.catalogue import CATALOGUE, MetricKind
from harness.tools.histogram import Histogram, make

_DURATIONS = frozenset({"s", "us"})


def model_time(key: str, value: float, unit: str, dilation: int) -> float:
    """Return a metric on the model's clock: durations are shorter, rates are higher.

    Counts, bytes and ratios stay the same, and so do times that are computed from a model's
    numbers. The processor is no slower, so its times stay, too.
    """
    info = CATALOGUE.get(key.rpartition(".")[2])
    if info is not None and (info.kind is not MetricKind.TIME or info.of_processor):
        return value
    if unit in _DURATIONS:
        return value / dilation
    return value * dilation if unit.endswith("/s") else value


def on_model_clock(histogram: Histogram, dilation: int) -> Histogram:
    """Return a histogram of latencies on the model's clock."""
    if dilation == 1 or histogram["count"] == 0:
        return histogram
    return make(
        histogram["count"],
        histogram["sum"] / dilation,
        histogram["min"] / dilation,
        histogram["max"] / dilation,
        [[low / dilation, high / dilation, count] for low, high, count in histogram["buckets"]],
    )
