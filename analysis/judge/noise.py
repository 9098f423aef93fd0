"""Measures the difference between identical cells (A/A). Smaller differences get no verdict.

A study gets identical cells if it lists a level twice with the same options, once as a variant:
``levels: [f2fs, {name: f2fs, variant: twin}]``. With ``twin: true`` the planner repeats one cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from analysis.judge import between_cells, stats
from analysis.judge.between_cells import CellSpread
from analysis.judge.select import by_block, label
from analysis.read.load import Pool, RunRecord
from harness.levels import LEVELS
from harness.store.result import Status, empty


class IdenticalCells(NamedTuple):
    """One metric in one group of identical cells.

    ``level`` is the level with its options, ``differences`` has the measured pairs with their
    relative differences, ``cells`` the values of each cell by block.
    """

    level: str
    differences: Mapping[str, float]
    cells: Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Floor:
    """The noise floor of a metric, from groups of identical cells.

    ``default`` is the smallest floor.
    """

    metric: str
    default: float
    groups: tuple[IdenticalCells, ...]

    @property
    def floor(self) -> float:
        """The relative difference that a verdict must exceed.

        Twins are few, so this is their largest difference and no interval.
        """
        return max([self.default, *(d for one in self.groups for d in one.differences.values())])

    @property
    def twins(self) -> tuple[str, ...]:
        """The measured pairs of identical cells with their differences as text."""
        found = (pair for one in self.groups for pair in one.differences.items())
        return tuple(f"{name}: {share:.2%}" for name, share in found)

    @property
    def cells(self) -> CellSpread | None:
        """The spread between identical cells."""
        return between_cells.measure([one.cells for one in self.groups])

    def between(self, *sides: Collection[str]) -> Floor:
        """Return the floor of two sides: from their own identical cells, if both measured some.

        ``sides`` are the levels of each side, with their options.

        The variance of a ratio of two cells is the sum of theirs. Levels differ in it by orders of
        magnitude, so the cells of a third level would hide a difference, or invent one.
        """
        measured = [one for one in self.groups if one.differences]
        own = tuple(one for one in measured if any(one.level in side for side in sides))
        both = all(any(one.level in side for one in own) for side in sides)
        return replace(self, groups=own) if both else self


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


def planned_twins(pool: Pool) -> list[str]:
    """Return all cells that have an identical one, also those without any stored run."""
    missing = [
        RunRecord(
            one.host,
            campaign.path,
            one.spec,
            empty(one.spec, Status.ABORTED, started="", finished="", seconds=0.0),
            campaign.label,
        )
        for campaign in pool.campaigns
        for one in campaign.missing
    ]
    return [cell for group in identical_cells([*pool.latest, *missing]) for cell in group]


def repeated_cells(runs: Sequence[RunRecord], contrast: str, baseline: str) -> frozenset[str]:
    """Return the cells that repeat another one: all of a group but one.

    That one is the baseline's, else the one with the shortest name: a variant has a longer name.
    """
    repeated: set[str] = set()
    for group in identical_cells(runs):
        others = {cell for cell, own in group.items() if label(own[0], contrast) != baseline}
        stays = min(group, key=lambda cell: (cell in others, len(cell), cell))
        repeated |= group.keys() - {stays}
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
    return bool(base and level) and bool(identical_cells([*base, *level]))


def floors(runs: Sequence[RunRecord], keys: Sequence[str], default: float) -> dict[str, Floor]:
    """Return the noise floor of each metric.

    A difference is the ratio of the larger to the smaller geometric mean, minus 1, paired where
    blocks are the same.
    """
    groups = identical_cells(runs)
    return {
        key: Floor(key, default, tuple(_measured(key, members) for members in groups))
        for key in keys
    }


def _measured(key: str, members: Mapping[str, list[RunRecord]]) -> IdenticalCells:
    cells = {cell: by_block(runs, key, "level") for cell, runs in members.items()}
    differences = {}
    for one, other in combinations(sorted(cells), 2):
        # Only their centers are used. No twin is the baseline, so the larger change counts.
        both = [
            stats.estimate(cells[left], cells[right], exact_allowed=False)
            for left, right in ((one, other), (other, one))
        ]
        if both[0].n >= stats.MINIMUM_RUNS:
            changes = (abs(stats.relative_change(estimate)) for estimate in both)
            differences[f"{one} and {other}"] = max(changes)
    (first, *_), *_ = members.values()
    return IdenticalCells(first.configured, differences, [*cells.values()])
