"""Parts of the report's sections.

A section returns content without layout. The page, the CSV tables and the SVG figures are all made
from the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.judge.compare import Comparison
from analysis.judge.other_campaigns import OtherCampaign
from analysis.show.drawing import Plot
from analysis.show.groups import Group
from harness.tables import Table
from harness.tools import fio


@dataclass(frozen=True, slots=True)
class ReportData:
    """Input of every section.

    Args:
        comparison: the campaign and its verdicts.
        groups: the ok runs, grouped as figures draw them.
        tables: by name, from :func:`analysis.show.tables.tables_of`.
        others: campaigns on other rigs, which the page shows beside this one.
    """

    comparison: Comparison
    groups: tuple[Group, ...]
    tables: Mapping[str, Table]
    others: tuple[OtherCampaign, ...] = ()

    @property
    def phases(self) -> list[str]:
        """Names of the phases of all runs except fio's, in the order of the plan.

        A sweep of fio has a hundred phases; its own section draws them as curves.
        """
        specs = [phase for run in self.comparison.campaign.runs for phase in run.spec.phases]
        return list(dict.fromkeys(one.name for one in specs if one.program != fio.PROGRAM))


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a section; ``id`` is its anchor."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of plain text; smaller if ``soft``."""

    text: str
    soft: bool = False


@dataclass(frozen=True, slots=True)
class Plots:
    """Figures, side by side where the page is wide enough."""

    plots: Sequence[Plot]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: sortable on the page, and ``tables/<name>.csv`` beside it.

    Args:
        name: name of the CSV file, unique on the page.
        header: one text per column. Cells of a column ``run`` link to the run's files.
        rows: readable texts, as many as the header has. The page omits a table without rows.
        folded: title of a table that the reader unfolds; empty for a table that is always open.
        opened: unfold the table from the start.
        source: file of the numbers, relative to the run's directory. ``{phase}`` or another column
            name is replaced from the row.
        method: anchor of the heading in docs/methods.md that explains the table.
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
    """A part with its own template in ``analysis/show/templates``."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)


Part = Heading | Paragraph | Plots | Grid | Special


@dataclass(frozen=True, slots=True)
class Section:
    """A section; ``id`` is its anchor, ``title`` its heading and its name in the navigation."""

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


def without_runs(id_: str, title: str, data: ReportData) -> Section | None:
    """Return a section that reports a campaign without ok runs; None when a run is ok."""
    plot = Plot("none", "No figure", "No run of this campaign is ok.")
    return None if data.groups else Section(id_, title, [Plots([plot])])
