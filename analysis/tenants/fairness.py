"""Loss of each tenant against running alone, and fairness; formulas in docs/methods.md.

Every number is computed per block, because solo and shared runs of a block have the same seed.
Intervals are over blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.judge import stats
from analysis.judge.stats import Estimate
from analysis.tenants import usage
from analysis.tenants.mix import FACTOR, Mix, TenantRun

THROUGHPUT = "throughput"
# Column of the slowdown matrix → metric. The latency of an open loop counts from the intended
# start, which includes the time an operation waits for its predecessor.
COLUMNS = {
    "throughput": THROUGHPUT,
    "p50": "latency_p50",
    "p99": "latency_p99",
    "p99.9": "latency_p99_9",
}
_INTENDED = "intended_"
TAIL = "intended_latency_p99"  # the goal of a tenant with a fixed rate
MAXIMUM, FAIRNESS = "maximum slowdown (by goal)", "fairness (Jain, weighted, by goal)"
SOLO_RUNS, DEVICE = "throughput, in solo runs", "device against the best solo"


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A tenant's loss in one metric; ``estimate`` is a ratio, above 1 if the tenant loses.

    Throughput: alone / shared. Latency: shared / alone.
    """

    tenant: str
    column: str
    metric: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Index:
    """A number of the whole mix, by block; ``low`` and ``high`` are null with fewer than two."""

    name: str
    values: Mapping[str, float]
    center: float | None
    low: float | None
    high: float | None

    @property
    def n(self) -> int:
        """Number of blocks with a value."""
        return len(self.values)


def slowdowns(mix: Mix) -> list[Slowdown]:
    """Return every tenant's slowdown in every column measured alone and shared.

    A tenant without an operation in a block has no slowdown; :func:`starved` counts these blocks.
    """
    losses = []
    for tenant in mix.tenants:
        for column, metric in COLUMNS.items():
            open_loop = metric != THROUGHPUT and all(mix.values(tenant, _INTENDED + metric))
            used = _INTENDED + metric if open_loop else metric
            alone, shared = mix.values(tenant, used)
            if alone and shared:
                sides = (shared, alone) if metric == THROUGHPUT else (alone, shared)
                estimate = stats.estimate(*sides, exact_allowed=False)
                if estimate.is_ratio:
                    losses.append(Slowdown(tenant.name, column, used, estimate))
    return losses


def starved(mix: Mix, tenant: TenantRun) -> tuple[int, int]:
    """Return the number of blocks in which a tenant did no operation in the mix, and all blocks."""
    _, shared = mix.values(tenant, THROUGHPUT)
    return sum(value <= 0 for value in shared.values()), len(shared)


def goal(mix: Mix, tenant: TenantRun) -> str:
    """Return the metric that matters for a tenant: its rate, or its p99 if the rate is fixed.

    The program of an open loop measures latency from the intended start, in every run.
    """
    return TAIL if all(mix.values(tenant, TAIL)) else THROUGHPUT


def indexes(mix: Mix) -> list[Index]:
    """Return the numbers of the whole mix; slowdown and fairness by each tenant's goal."""
    shares = by_block(mix, {tenant.name: goal(mix, tenant) for tenant in mix.tenants})
    weights = {tenant.name: tenant.weight for tenant in mix.tenants}
    fair = {
        b: jain([x[name] / share for name, share in entitled(x, weights).items()])
        for b, x in shares.items()
    }
    return [
        maximum(shares),
        _jain(fair, len(weights)),
        _ratio(SOLO_RUNS, {b: sum(x.values()) for b, x in by_block(mix).items()}),
        _ratio(DEVICE, usage.against_best_solo(mix)),
    ]


def maximum(shares: Mapping[str, Mapping[str, float]]) -> Index:
    """Return the largest true slowdown of a tenant.

    The center is the geometric mean of :func:`largest`. The interval has the largest of the lower
    and of the upper ends of all tenants' intervals, which hold together with 95 % (Bonferroni).
    It is infinite, without an interval, if a tenant did no operation in any of the blocks.
    """
    values = largest(shares)
    if not values:
        return Index(MAXIMUM, values, None, None, None)
    if any(0 in own.values() for own in shares.values()):
        return Index(MAXIMUM, values, math.inf, None, None)
    names = sorted(next(iter(shares.values())))
    logs = np.array([[-math.log(own[name]) for own in shares.values()] for name in names])
    each = stats.paired_t(logs, 1 - (1 - stats.CONFIDENCE) / len(names))
    center = float(np.mean(np.log(list(values.values()))))
    low, high = min(center, float(each.low.max())), max(center, float(each.high.max()))
    return Index(MAXIMUM, values, *(math.exp(edge) for edge in (center, low, high)))


def largest(shares: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return block → slowdown of the tenant that loses most in the other blocks.

    The largest of noisy values is too large. So the tenant is chosen without the block's own value,
    which then cannot be the reason for the choice. Empty with fewer than two blocks.
    """
    logs = {
        block: {name: -math.log(x) if x else math.inf for name, x in own.items()}
        for block, own in shares.items()
    }
    found = {}
    for block, own in logs.items():
        others = [other for b, other in logs.items() if b != block]
        if others:
            worst = max(own, key=lambda name: sum(other[name] for other in others))
            found[block] = math.exp(own[worst])
    return found


def by_block(mix: Mix, goals: Mapping[str, str] | None = None) -> dict[str, dict[str, float]]:
    """Return block → tenant → its share of running alone, for blocks with values of all tenants.

    The share is shared / alone of a rate, and alone / shared of a latency. Without ``goals`` it is
    the share of throughput. It is 0 for a tenant that did no operation in the mix. Blocks in which
    no tenant did an operation are left out.
    """
    shares: dict[str, dict[str, float]] = {run.block_key(FACTOR): {} for run in mix.shared}
    for tenant in mix.tenants:
        metric = (goals or {}).get(tenant.name, THROUGHPUT)
        alone, shared = mix.values(tenant, metric)
        for block in alone.keys() & shared.keys():
            if alone[block] > 0 and shared[block] > 0:
                ratio = shared[block] / alone[block]
                shares[block][tenant.name] = ratio if metric == THROUGHPUT else 1 / ratio
        alone, shared = mix.values(tenant, THROUGHPUT)
        for block in alone.keys() & shared.keys():
            if alone[block] > 0 >= shared[block]:
                shares[block][tenant.name] = 0.0
    return {
        block: x for block, x in shares.items() if len(x) == len(mix.tenants) and any(x.values())
    }


def entitled(shares: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the tenants' shares if their total were divided fairly.

    The sum of ``shares`` is divided by weight, but no tenant gets more than 1, its rate alone. The
    rest goes to the others (weighted max-min fairness, Bertsekas & Gallager 1992, 6.5.2).
    """
    left, waiting, fair = sum(shares.values()), dict(weights), {}
    for name in sorted(weights, key=lambda name: -weights[name]):  # heaviest reaches 1 first
        fair[name] = min(1.0, left * waiting[name] / sum(waiting.values()))
        left -= fair[name]
        del waiting[name]
    return fair


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index of non-negative shares: (Σx)² / (n Σx²), from 1/n to 1 (all equal).

    Source: Jain, Chiu & Hawe 1984.
    """
    x = np.asarray(shares, dtype=np.float64)
    return float(x.sum() ** 2 / (x.size * np.sum(x**2)))


def _ratio(name: str, values: Mapping[str, float]) -> Index:
    """Return the geometric mean over blocks, with Student's t on logs."""
    logs = np.log([values[block] for block in sorted(values)])
    if len(logs) < stats.MINIMUM_RUNS:
        return Index(name, values, float(np.exp(logs[0])) if len(logs) else None, None, None)
    interval = stats.paired_t(logs)
    center, low, high = (
        float(np.exp(edge)) for edge in (interval.center, interval.low, interval.high)
    )
    return Index(name, values, center, low, high)


def _jain(values: Mapping[str, float], tenants: int) -> Index:
    """Return the mean over blocks, with Student's t, clipped to the index's range."""
    numbers = np.array([values[block] for block in sorted(values)])
    if len(numbers) < stats.MINIMUM_RUNS:
        return Index(FAIRNESS, values, float(numbers[0]) if len(numbers) else None, None, None)
    interval = stats.paired_t(numbers)
    low, high = max(1 / tenants, float(interval.low)), min(1.0, float(interval.high))
    return Index(FAIRNESS, values, float(interval.center), low, high)
