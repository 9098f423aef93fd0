"""Runs that are drawn together, with their colour and marker."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.compare import Comparison, group_label
from analysis.load import RunRecord

# Okabe & Ito 2008, distinguishable with every usual colour blindness; black and yellow left out
# because they vanish on a dark or a white page.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8A7A00", "#7F7F7F")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")


@dataclass(frozen=True, slots=True)
class Group:
    """The ok runs of one level (or other contrasted value) within one stratum."""

    label: str
    value: str
    color: str
    marker: str
    runs: tuple[RunRecord, ...]

    def values(self, key: str) -> list[float]:
        """Return the values that were measured."""
        found = (run.value(key) for run in self.runs)
        return [value for value in found if value is not None]


def groups_of(comparison: Comparison) -> list[Group]:
    """Group the latest ok runs; colours follow the order of the plan, not of the data.

    What is skipped takes no colour: the default study has more levels than there are colours.
    """
    found: dict[tuple[str, str], list[RunRecord]] = {}
    for run in comparison.runs:
        if run.ok:
            found.setdefault(group_label(run, comparison), []).append(run)
    drawn = {value for value, _ in found}
    colors = {value: i for i, value in enumerate(v for v in comparison.values if v in drawn)}
    return [
        Group(
            f"{value} ({stratum})" if stratum else value, value,
            PALETTE[colors[value] % len(PALETTE)], _marker(colors[value]),
            tuple(runs),
        )
        for (value, stratum), runs in sorted(
            found.items(), key=lambda item: (item[0][1], colors[item[0][0]])
        )
    ]  # fmt: skip


def _marker(index: int) -> str:
    """Return another marker for the second group of a colour."""
    return MARKERS[(index + index // len(PALETTE)) % len(MARKERS)]
