"""What a section of the report is made of. A section is one module with one function, ``section``.

It returns what to show, not how it looks: the page, its tables as CSV and its figures as SVG are
made of the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.compare import Comparison
from analysis.drawing import Plot
from analysis.groups import Group
from analysis.tables import Table


@dataclass(frozen=True, slots=True)
class Context:
    """What all sections are made from. ``groups`` are the ok runs that are drawn together.

    ``tables`` are those of :func:`analysis.tables.tables_of`; ``noise_floor`` is a fraction.
    """

    comparison: Comparison
    groups: tuple[Group, ...]
    tables: Mapping[str, Table]
    noise_floor: float

    @property
    def phases(self) -> list[str]:
        """Names of all runs' phases, in the order of the plan."""
        runs = self.comparison.campaign.runs
        return list(dict.fromkeys(phase.name for run in runs for phase in run.spec.phases))


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading below the section's own; ``id`` is its anchor."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph of plain text; ``soft``: in smaller print."""

    text: str
    soft: bool = False


@dataclass(frozen=True, slots=True)
class Plots:
    """Figures side by side, where there is room."""

    plots: Sequence[Plot]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: sortable on the page, and ``tables/<name>.csv`` beside it.

    Args:
        name: of the CSV file; unique on the page.
        header: one text per column. Cells of a column ``run`` become links to the run's files.
        rows: texts for people, as long as the header; none: nothing is shown on the page.
        folded: the line to click on when the table is to be unfolded; empty: it stands open.
        opened: a folded table is unfolded from the start.
        source: the file that its numbers are from, below the run's directory; ``{phase}`` (or
            any other column) is taken from the row.
        method: anchor of the part of the methods that explains it, as in docs/methods.md.
    """

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: str = ""
    opened: bool = False
    source: str = "result.json"
    method: str = ""


@dataclass(frozen=True, slots=True)
class Special:
    """A part with a template of its own in ``analysis/templates``, for what no other part shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)


Part = Heading | Text | Plots | Grid | Special


@dataclass(frozen=True, slots=True)
class Section:
    """``id`` is its anchor, ``title`` its heading and its name in the list of contents."""

    id: str
    title: str
    parts: Sequence[Part]

    @property
    def plots(self) -> list[Plot]:
        """All figures."""
        return [plot for part in self.parts if isinstance(part, Plots) for plot in part.plots]

    @property
    def grids(self) -> list[Grid]:
        """All tables."""
        return [part for part in self.parts if isinstance(part, Grid)]


def without_runs(id_: str, title: str, context: Context) -> Section | None:
    """Return the section of a campaign that has no ok run; None when it has one."""
    if context.groups:
        return None
    none = Plot("none", "No figure", None, "No run of this campaign is ok.")
    return Section(id_, title, [Plots([none])])
