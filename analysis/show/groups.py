"""Runs that are drawn together, with their colour and marker."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.judge import wording
from analysis.judge.compare import Comparison, group_label
from analysis.judge.select import label
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
        value: the level, or other contrasted value.
        stratum: values of the other factors that vary; '' if none varies.
    """

    value: str
    stratum: str
    color: str
    marker: str
    runs: tuple[RunRecord, ...]

    @property
    def place(self) -> tuple[str, str]:
        """Value and stratum, as rows have them."""
        return self.value, self.stratum

    @property
    def label(self) -> str:
        """Value and stratum as text."""
        return wording.level_in(self.value, self.stratum)

    @property
    def short(self) -> str:
        """The same for an axis or a legend."""
        return wording.short(self.value, self.stratum)

    def values(self, key: str) -> list[float]:
        """Return the measured values of a metric."""
        return [value for run in self.runs if (value := run.value(key)) is not None]


def groups_of(comparison: Comparison) -> list[Group]:
    """Group the latest ok runs, sorted by stratum and in the order of the plan."""
    ok = (run for run in comparison.runs if run.ok)
    by_label = grouped(ok, lambda run: group_label(run, comparison))
    looks = looks_of(comparison)
    places = list(looks)
    ordered = sorted(by_label.items(), key=lambda item: (item[0][1], places.index(item[0][0])))
    return [Group(*place, *looks[place[0]], tuple(runs)) for place, runs in ordered]


def looks_of(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Return value → its colour and marker in every figure, in the order of the plan.

    Values without an ok run take no colour, because the default study has more levels than colours.
    """
    drawn = {label(run, comparison.contrast) for run in comparison.runs if run.ok}
    values = [value for value in comparison.values if value in drawn]
    return {value: (PALETTE[i % len(PALETTE)], marker_of(i)) for i, value in enumerate(values)}


def marker_of(index: int) -> str:
    """Return a marker that differs between groups of the same colour."""
    return MARKERS[(index + index // len(PALETTE)) % len(MARKERS)]
