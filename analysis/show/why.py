"""Names the layers that make media bytes differ, because M / U is a product of three factors.

M / U = L / U (RocksDB) * H / L (level) * M / H (device), see docs/methods.md#the-ledger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from analysis.judge import stats
from analysis.judge.compare import Comparison
from analysis.judge.rows import Row
from analysis.show.groups import Group, groups_of
from analysis.show.sentences import by_gain

_PRODUCT = "wa_total"
_LAYERS = {
    "RocksDB": "wa_lsm",
    "the level": "level_write_amplification",
    "the device": "wa_dev",
}

# Layer → geometric mean of its factor over runs.
_Factors = Mapping[str, float]


def why(comparison: Comparison, rows: Sequence[Row], best: Row) -> str:
    """Return the layers in which the best value differs most from the next one and the baseline.

    The text is empty for a metric other than ``wa_total``, or if a factor of the best value or of
    its baseline is unknown.
    """
    phase, _, name = best.metric.rpartition(".")
    if name != _PRODUCT:
        return ""
    groups = {
        group.value: group for group in groups_of(comparison) if group.stratum == best.stratum
    }
    near = [row.level for row in by_gain(rows) if row.stratum == best.stratum]
    factors = {
        level: found
        for level in [*near, best.baseline]
        if level in groups and (found := _factors(groups[level], phase)) is not None
    }
    own = factors.pop(best.level, None)
    if own is None or best.baseline not in factors:
        return ""
    # The next value, and the baseline if it is another one.
    others = dict.fromkeys((next(iter(factors)), best.baseline))
    parts = [f"{other} mostly in {_largest(own, factors[other])}" for other in others]
    return (
        f"RocksDB, level and device multiply the bytes. {best.level} leads {', and '.join(parts)}."
    )


def _factors(group: Group, phase: str) -> _Factors | None:
    values = {layer: group.values(f"{phase}.{metric}") for layer, metric in _LAYERS.items()}
    if not all(found and min(found) > 0 for found in values.values()):
        return None
    return {layer: stats.geometric_mean(found) for layer, found in values.items()}


def _largest(best: _Factors, other: _Factors) -> str:
    """Return the layers in which the best value gains most, with both factors.

    A layer with at least half of the largest gain is named too; gains are logs of ratios.
    """
    gains = {layer: math.log(other[layer] / best[layer]) for layer in _LAYERS}
    most = max(gains.values())
    named = sorted((name for name in gains if gains[name] >= most / 2), key=lambda x: -gains[x])
    return " and ".join(f"{name} (x{best[name]:.2f} against x{other[name]:.2f})" for name in named)
