"""How much each tenant loses against being alone, and how evenly: formulas in docs/methods.md.

Every number is of a block first: a tenant's run alone and the shared run share its seed. Intervals
are over blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import stats
from analysis.stats import Estimate
from analysis.tenants import usage
from analysis.tenants.mix import FACTOR, Mix, Tenant

THROUGHPUT = "throughput"
# Column of the slowdown matrix → metric. Of an open loop the latency counts from the intended
# start: an operation that has to wait for the one before it is late all the same.
COLUMNS = {
    "throughput": THROUGHPUT,
    "p50": "latency_p50",
    "p99": "latency_p99",
    "p99.9": "latency_p99_9",
}
_INTENDED = "intended_"
MAXIMUM, FAIRNESS = "maximum slowdown (throughput)", "fairness (Jain, weighted)"
SOLO_RUNS, DEVICE = "throughput, in solo runs", "device against the best solo"


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A tenant's loss in one metric; ``estimate`` is a ratio, above 1 where sharing costs.

    Throughput: alone / shared. Latency: shared / alone.
    """

    tenant: str
    column: str
    metric: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Index:
    """A number of a whole mix, by block; ``low`` and ``high`` are null with fewer than two."""

    name: str
    values: Mapping[str, float]
    center: float | None
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        """Blocks in which it could be computed."""
        return len(self.values)


def slowdowns(mix: Mix) -> list[Slowdown]:
    """Return every tenant's slowdown in every column that both sides measured."""
    found = []
    for tenant in mix.tenants:
        for column, metric in COLUMNS.items():
            used = _INTENDED + metric if _open_loop(mix, tenant, metric) else metric
            alone, shared = mix.values(tenant, used)
            if alone and shared:
                sides = (shared, alone) if metric == THROUGHPUT else (alone, shared)
                estimate = stats.estimate(*sides, exact_allowed=False)
                found.append(Slowdown(tenant.name, column, used, estimate))
    return found


def indexes(mix: Mix) -> list[Index]:
    """Return the numbers of the whole mix."""
    shares = by_block(mix)
    count = len(mix.tenants)
    return [
        _ratio(MAXIMUM, {block: 1 / min(x.values()) for block, x in shares.items()}),
        _jain({block: jain(_weighted(mix, x)) for block, x in shares.items()}, count),
        _ratio(SOLO_RUNS, {b: sum(x.values()) for b, x in shares.items()}),
        _ratio(DEVICE, usage.against_best_solo(mix)),
    ]


def by_block(mix: Mix) -> dict[str, dict[str, float]]:
    """Return block → tenant → shared / alone, of the blocks that have it of every tenant."""
    found: dict[str, dict[str, float]] = {run.block_key(FACTOR): {} for run in mix.shared}
    for tenant in mix.tenants:
        alone, shared = mix.values(tenant, THROUGHPUT)
        for block in alone.keys() & shared.keys():
            if alone[block] > 0 and shared[block] > 0:
                found[block][tenant.name] = shared[block] / alone[block]
    return {block: x for block, x in found.items() if len(x) == len(mix.tenants)}


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index of non-negative shares: (Σx)² / (n Σx²), 1/n to 1 (all alike).

    Source: Jain, Chiu & Hawe 1984.
    """
    x = np.asarray(shares, dtype=np.float64)
    return float(x.sum() ** 2 / (x.size * np.sum(x**2)))


def _weighted(mix: Mix, shares: Mapping[str, float]) -> list[float]:
    return [shares[tenant.name] / tenant.weight for tenant in mix.tenants]


def _open_loop(mix: Mix, tenant: Tenant, metric: str) -> bool:
    return metric != THROUGHPUT and all(mix.values(tenant, _INTENDED + metric))


def _ratio(name: str, values: Mapping[str, float]) -> Index:
    """Geometric mean over blocks, Student's t on logs."""
    logs = np.log([values[block] for block in sorted(values)])
    if len(logs) < stats.MINIMUM_RUNS:
        return Index(name, values, float(np.exp(logs[0])) if len(logs) else None, None, None)
    found = stats.paired_t(logs)
    center, low, high = (float(np.exp(edge)) for edge in (found.center, found.low, found.high))
    return Index(name, values, center, low, high)


def _jain(values: Mapping[str, float], tenants: int) -> Index:
    """Mean over blocks, Student's t, cut to what the index can be."""
    numbers = np.array([values[block] for block in sorted(values)])
    if len(numbers) < stats.MINIMUM_RUNS:
        return Index(FAIRNESS, values, float(numbers[0]) if len(numbers) else None, None, None)
    found = stats.paired_t(numbers)
    low, high = max(1 / tenants, float(found.low)), min(1.0, float(found.high))
    return Index(FAIRNESS, values, float(found.center), low, high)
