"""Runs that are drawn together, with their colour and marker."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.judge import wording
from analysis.judge.compare import Comparison, group_label
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord

# Okabe & Ito 2008, safe for the common forms of colour blindness. Black and yellow are left out
# because they are invisible on a dark or a white page.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8A7A00", "#7F7F7F")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")


@dataclass(frozen=True, slots=True)
class Group:
    """The ok runs of one level (or other contrasted value) within one stratum.

    Attributes:
        label: value and stratum.
        short: the same for an axis or a legend.
        value: the level, or other contrasted value.
    """

    label: str
    short: str
    value: str
    color: str
    marker: str
    runs: tuple[RunRecord, ...]

    def values(self, key: str) -> list[float]:
        """Return the measured values of a metric."""
        return [value for run in self.runs if (value := run.value(key)) is not None]


def groups_of(comparison: Comparison) -> list[Group]:
    """Group the latest ok runs; colours follow the order of the plan.

    Values without an ok run take no colour, because the default study has more levels than colours.
    """
    ok = (run for run in comparison.runs if run.ok)
    by_label = grouped(ok, lambda run: group_label(run, comparison))
    drawn = {value for value, _ in by_label}
    values = (value for value in comparison.values if value in drawn)
    indexes = {value: index for index, value in enumerate(values)}
    ordered = sorted(by_label.items(), key=lambda item: (item[0][1], indexes[item[0][0]]))
    return [
        Group(
            label=wording.level_in(value, stratum),
            short=wording.short(value, stratum),
            value=value,
            color=PALETTE[indexes[value] % len(PALETTE)],
            marker=_marker(indexes[value]),
            runs=tuple(runs),
        )
        for (value, stratum), runs in ordered
    ]


def _marker(index: int) -> str:
    """Return a marker that differs between groups of the same colour."""
    return MARKERS[(index + index // len(PALETTE)) % len(MARKERS)]
