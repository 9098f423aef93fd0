"""Bytes that depend on the speed of the guest of an emulated or modelled device.

Some levels collect garbage in the background, and the amount depends on the time that the load
leaves them. An emulated device has no true time. A modelled device has one, but the guest's
processor keeps up with it only if the time of the whole rig is virtual.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

from analysis import numbers
from analysis.judge import stats
from analysis.judge.select import label
from analysis.judge.side import Side
from analysis.judge.stats import Estimate
from analysis.read.load import Pool, RunRecord
from harness.levels import LEVELS
from harness.metrics.catalogue import Better, MetricInfo, MetricKind
from harness.store.spec import DeviceKind

# Two guests have different speeds if the baseline's throughput differs by this factor.
SPEEDS = 1.25
# Beginnings of the files that hold bytes of the level and of the device.
_OF_LEVEL = ("ledger.json", "raw/{phase}.counters", "raw/{phase}.usage", "series/zone_commands")


def dependent(info: MetricInfo, base: Side, level: Side) -> str:
    """Return a phrase with the levels whose bytes depend on the guest's speed; empty for none."""
    if info.kind is MetricKind.TIME or info.better is Better.NONE:
        return ""
    if not any(source.startswith(_OF_LEVEL) for source in info.sources):
        return ""
    names = {*base.once(_timed), *level.once(_timed)}
    return ", ".join(sorted(names))


def _timed(side: Side) -> tuple[str, ...]:
    """Return the levels of a side that collect in the background without a true time."""
    return tuple(
        run.spec.level
        for run in side.ok
        if not _has_time(run)
        and (known := LEVELS.get(run.spec.level)) is not None
        and known.timed_collection
    )


def _has_time(run: RunRecord) -> bool:
    """Return whether a run's time is true, or virtual and so the same in each repetition."""
    kind = run.result.device.kind
    if kind is DeviceKind.MODELLED:
        return run.has_virtual_clock
    return kind is not DeviceKind.EMULATED


def speeds(pool: Pool, contrast: str, baseline: str) -> dict[str, float]:
    """Return the geometric mean of the baseline's throughputs that all campaigns have.

    A phase that only one campaign measured would look like another speed.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for campaign in pool.campaigns:
        values: dict[str, list[float]] = defaultdict(list)
        for run in campaign.latest:
            if run.ok and label(run, contrast) == baseline:
                for key in run.result.metrics:
                    if key.endswith(".throughput") and (value := run.value(key)):
                        values[key].append(value)
        if values:
            found[campaign.label] = values
    common = sorted(set.intersection(*(set(one) for one in found.values()))) if found else []
    if not common:
        return {}
    return {
        name: stats.geometric_mean([stats.geometric_mean(values[key]) for key in common])
        for name, values in found.items()
    }


def disagreement(
    ratios: Mapping[str, Estimate], speeds_of: Mapping[str, float], floor: float
) -> str:
    """Return why ratios of campaigns depend on the guest's speed; empty if they are shown not to.

    At least two campaigns must differ in speed by the factor SPEEDS. For every such pair, the
    interval of the difference between their ratios must not lie beyond the noise floor.
    """
    known = {name: speeds_of[name] for name in ratios if name in speeds_of}
    fastest = max(known.values(), default=0.0)
    pairs = [
        (one, other)
        for one, other in combinations(known, 2)
        if max(known[one], known[other]) >= SPEEDS * min(known[one], known[other])
    ]
    if not pairs:
        return "all campaigns ran at one guest speed"
    for pair in pairs:
        if _differ(*(ratios[name] for name in pair), floor=floor):
            texts = (
                f"{numbers.ratio(ratios[name].center)} at {known[name] / fastest:.0%}"
                for name in pair
            )
            return f"guest speeds disagree: {', '.join(texts)} of the fastest guest's speed"
    return ""


def _differ(one: Estimate, other: Estimate, *, floor: float) -> bool:
    """Return whether the interval of two log ratios' difference lies beyond the floor."""
    if not one.center or not other.center:
        return True
    apart = abs(math.log(one.center) - math.log(other.center))
    error = math.hypot(one.error or 0.0, other.error or 0.0)
    if error == 0:
        return apart > math.log1p(floor)
    df = min(found.df for found in (one, other) if found.df is not None)
    p = stats.minimum_effect(apart, error, df, math.log1p(floor))
    return bool(p < stats.ALPHA)
