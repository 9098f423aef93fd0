"""Finds metrics that are the same measurement in two units.

With equal user bytes in all runs, device bytes and write amplification are the same measurement.
Two rows would look like two findings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from analysis.judge.select import metric_info
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord
from harness.metrics.catalogue import MetricKind

_DIGITS = 9  # digits in which quotients of proportional values agree


def others_of(
    keys: Sequence[str], strata: Mapping[str, Sequence[RunRecord]], claimed: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the metrics that get a row → those that are proportional to it in every stratum.

    Of proportional metrics, a claimed one is kept, else the first. No claimed metric is left out.
    """
    groups = grouped(keys, lambda key: _identity(key, strata) or key)
    found: dict[str, tuple[str, ...]] = {}
    for members in groups.values():
        stays = [key for key in members if key in claimed] or members[:1]
        rest = tuple(key for key in members if key not in stays)
        found |= {key: rest if key == stays[0] else () for key in stays}
    return {key: found[key] for key in keys if key in found}


def _identity(key: str, strata: Mapping[str, Sequence[RunRecord]]) -> object:
    """Return what proportional metrics of a phase share; None where values do not vary."""
    shape = []
    for runs in strata.values():
        values = [run.value(key) for run in runs if run.ok]
        first = next((value for value in values if value), None)
        shape += [v / first if v is not None and first else v for v in values]
    rounded = tuple(None if v is None else round(v, _DIGITS) for v in shape)
    if len({v for v in rounded if v is not None}) <= 1:
        return None
    info = metric_info(key)
    return key.rpartition(".")[0], info.kind is MetricKind.TIME, info.better, rounded
