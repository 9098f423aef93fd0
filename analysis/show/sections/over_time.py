"""Series, zones, steady state, drift and bottlenecks."""

from __future__ import annotations

from collections import Counter

from analysis.show import series_figure, zones_figure
from analysis.show.parts import (
    Grid,
    Heading,
    Paragraph,
    Part,
    Plots,
    ReportData,
    Section,
    without_runs,
)
from harness.tables import Table

ORDER = 90
ID, TITLE = "series", "Over time"


def section(data: ReportData) -> Section:
    """Return one figure per group, its zones where they were traced, and the tables."""
    if none := without_runs(ID, TITLE, data):
        return none
    comparison, groups = data.comparison, data.groups
    parts: list[Part] = [Plots(series_figure.every(comparison, groups))]
    zones = [zones_figure.timeline(comparison, group) for group in groups]
    if any(plot.svg for plot in zones):
        parts += [Heading("zones", "Zones"), Plots(zones)]
    rounds = Grid(
        "rounds",
        *data.tables["rounds"],
        folded="Spread of throughput between runs and within them",
        method="rounds",
    )
    return Section(ID, TITLE, [*parts, *_steady(data), rounds, _drift(data), *_bottlenecks(data)])


def _steady(data: ReportData) -> list[Part]:
    table = data.tables["steady"]
    heading = Heading("steady", "Steady state")
    if not table.rows:
        return [heading, Paragraph("No ok run has a measured phase.")]
    every = Grid(
        "steady",
        *table,
        folded="Every phase",
        source="series/{phase}.csv",
        method="steady-state",
    )
    return [heading, Paragraph(_count_labels(table)), every]


def _drift(data: ReportData) -> Grid:
    table = data.tables["drift"]
    shown = table.column("verdict").count("drift")
    title = f"Drift over the campaign: {shown} of {len(table.rows)} metrics"
    return Grid("drift", *table, folded=title, opened=shown > 0, method="drift")


def _bottlenecks(data: ReportData) -> list[Part]:
    table = data.tables["bottlenecks"]
    if not table.rows:
        return []
    return [
        Heading("bottlenecks", "Bottlenecks"),
        Paragraph("Derived from each phase's own numbers. No verdict depends on them.", soft=True),
        Paragraph(_count_labels(table)),
        Grid("bottlenecks", *table, folded="Every run and phase", method="bottleneck"),
    ]


def _count_labels(table: Table) -> str:
    """Return how many rows have each label, phase by phase."""
    phases: dict[str, Counter[str]] = {}
    for phase, label in zip(table.column("phase"), table.column("label"), strict=True):
        phases.setdefault(phase, Counter())[label] += 1
    return "; ".join(
        f"{phase}: {', '.join(f'{count} {label}' for label, count in labels.most_common())}"
        for phase, labels in phases.items()
    )
