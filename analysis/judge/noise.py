"""Measures the difference between identical cells (A/A). Smaller differences get no verdict.

A study gets identical cells if it lists a level twice with the same options, once as a variant:
``levels: [f2fs, {name: f2fs, variant: twin}]``. With ``twin: true`` the planner repeats one cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from analysis.judge import between_cells, stats
from analysis.judge.between_cells import CellSpread
from analysis.judge.select import by_block, label
from analysis.read.load import RunRecord
from harness.levels import LEVELS


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise floor of a metric: the relative difference that a verdict must exceed.

    ``twins`` has the measured pairs of identical cells with their differences as text, ``cells``
    the spread between identical cells.
    """

    metric: str
    floor: float
    twins: tuple[str, ...] = ()
    cells: CellSpread | None = None


class Twins(NamedTuple):
    """The runs of two identical cells of one campaign, on any hosts."""

    name: str
    left: list[RunRecord]
    right: list[RunRecord]


def find_twins(runs: Sequence[RunRecord]) -> list[Twins]:
    """Return the pairs of cells that differ only in the name of their variant."""
    return [
        Twins(f"{one} and {other}", members[one], members[other])
        for members in identical_cells(runs)
        for one, other in combinations(sorted(members), 2)
    ]


def identical_cells(runs: Sequence[RunRecord]) -> list[dict[str, list[RunRecord]]]:
    """Return the groups of cells that differ only in the name of their variant: cell → runs."""
    cells: dict[tuple[str, str, str], dict[str, list[RunRecord]]] = {}
    for run in runs:
        same = (run.campaign, run.settings, _device_alone(run))
        cells.setdefault(same, {}).setdefault(run.cell, []).append(run)
    return [members for members in cells.values() if len(members) > 1]


def _device_alone(run: RunRecord) -> str:
    """Return the conventional device that a level measures alone; '' for all other levels.

    The planner makes a variant of such a level for each further device of a host.
    """
    level = LEVELS.get(run.spec.level)
    if level is None or not level.measures_conventional:
        return ""
    return level.main_device(run.spec.device, run.spec.conventional).identity.key


def repeated_cells(runs: Sequence[RunRecord], baseline: str) -> frozenset[str]:
    """Return the cells that repeat another one: all but the baseline, or the first, of a group."""
    repeated: set[str] = set()
    for group in identical_cells(runs):
        repeated |= group.keys() - {baseline if baseline in group else min(group)}
    return frozenset(repeated)


def floor_cells(runs: Sequence[RunRecord], contrast: str, baseline: str) -> frozenset[str]:
    """Return the cells that serve only for the noise floor: the planner's twins of a baseline.

    Such a cell repeats another one, and its row has no other value of the contrasted factor.
    """
    if contrast in ("level", "cell"):
        return frozenset()
    rows: dict[str, set[str]] = {}
    for run in runs:
        rows.setdefault(run.spec.row, set()).add(label(run, contrast))
    repeated = {cell for group in identical_cells(runs) for cell in group}
    return frozenset(
        run.cell
        for run in runs
        if run.spec.is_twin and run.cell in repeated and rows[run.spec.row] == {baseline}
    )


def are_twins(base: Sequence[RunRecord], level: Sequence[RunRecord]) -> bool:
    """Return whether two groups are identical cells."""
    if {run.cell for run in base} & {run.cell for run in level}:
        return False
    return bool(base and level) and bool(find_twins([*base, *level]))


def floors(runs: Sequence[RunRecord], keys: Sequence[str], default: float) -> dict[str, Floor]:
    """Return the noise floor of each metric: the largest difference of twins or ``default``.

    The difference is the ratio of the larger to the smaller geometric mean, minus 1, paired where
    blocks are the same. Twins are few, so this is a floor and not an interval.
    """
    pairs, groups = find_twins(runs), identical_cells(runs)
    return {key: _floor(key, pairs, groups, default) for key in keys}


def _floor(
    key: str,
    pairs: Sequence[Twins],
    groups: Sequence[Mapping[str, list[RunRecord]]],
    default: float,
) -> Floor:
    largest = default
    measured = []
    for pair in pairs:
        left, right = by_block(pair.left, key, "level"), by_block(pair.right, key, "level")
        # Only their centers are used. No twin is the baseline, so the larger change counts.
        both = [
            stats.estimate(one, other, exact_allowed=False)
            for one, other in ((left, right), (right, left))
        ]
        if both[0].n >= stats.MINIMUM_RUNS:
            difference = max(abs(stats.relative_change(one)) for one in both)
            largest = max(largest, difference)
            measured.append(f"{pair.name}: {difference:.2%}")
    cells = [[by_block(runs, key, "level") for runs in group.values()] for group in groups]
    return Floor(key, largest, tuple(measured), between_cells.measure(cells))
