"""How far apart identical cells are (A/A), metric by metric: no smaller difference is a verdict.

A study has identical cells where it lists a level twice with the same options, once as a variant:
``levels: [f2fs, {name: f2fs, variant: again}]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from analysis import stats
from analysis.load import RunRecord
from analysis.select import by_block, metric_info
from harness.metrics import Kind


@dataclass(frozen=True, slots=True)
class Floor:
    """The smallest relative difference of a metric that may be a verdict.

    ``twins``: the identical cells that set it, and how far apart they were; none: the default.
    """

    metric: str
    floor: float
    twins: tuple[str, ...] = ()


def twins_of(runs: Sequence[RunRecord]) -> list[tuple[str, list[RunRecord], list[RunRecord]]]:
    """Return pairs of cells that differ in nothing but the name of their variant.

    Each is a phrase and the runs of both, in one campaign; hosts may be several.
    """
    cells: dict[str, dict[str, list[RunRecord]]] = {}
    for run in runs:
        spec = run.spec
        same = (run.campaign, spec.level, sorted(spec.level_options.items()),
                sorted(spec.factors.items()))  # fmt: skip
        cells.setdefault(repr(same), {}).setdefault(run.cell, []).append(run)
    return [
        (f"{one} and {other}", members[one], members[other])
        for members in cells.values()
        for one, other in combinations(sorted(members), 2)
    ]


def are_twins(base: Sequence[RunRecord], level: Sequence[RunRecord]) -> bool:
    """Return whether two groups are identical cells."""
    if {run.cell for run in base} & {run.cell for run in level}:
        return False
    return bool(base and level) and len(twins_of([*base, *level])) > 0


def floors(runs: Sequence[RunRecord], keys: Sequence[str], default: float) -> dict[str, Floor]:
    """Return for each metric the largest difference between twins, at least ``default``.

    max over pairs of |ratio of geometric means - 1|, the ratio as everywhere (paired where blocks
    are the same). One pair tells little: it is a floor, not an interval.
    """
    pairs = twins_of([run for run in runs if run.ok])
    return {key: _floor(key, pairs, default) for key in keys}


def _floor(
    key: str, pairs: Sequence[tuple[str, list[RunRecord], list[RunRecord]]], default: float
) -> Floor:
    exact = metric_info(key).kind is not Kind.TIME
    largest, told = default, []
    for name, one, other in pairs:
        left, right = by_block(one, key, "level"), by_block(other, key, "level")
        found = stats.estimate(left, right, exact_allowed=exact)
        if found.n < stats.MINIMUM_RUNS:
            continue
        apart = abs(stats.relative_change(found))
        largest = max(largest, apart)
        told.append(f"{name}: {apart:.2%}")
    return Floor(key, largest, tuple(told))
