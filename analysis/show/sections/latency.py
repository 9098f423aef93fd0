"""Latency of operations, and their cost in CPU time."""

from __future__ import annotations

from analysis.judge.compare import times
from analysis.show import figures
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

ORDER = 50
ID, TITLE = "latency", "Latency"


def section(data: ReportData) -> Section | None:
    """Return one figure per phase, and the table of costs where there is one; None for neither."""
    if none := without_runs(ID, TITLE, data):
        return none
    comparison = data.comparison
    plots = [figures.percentiles(comparison, data.groups, phase) for phase in data.phases]
    parts: list[Part] = [Plots(plots)]
    costs = Grid("costs", *data.tables["costs"], folded="Every run and phase", method="cpu")
    if costs.rows:
        note = "".join(f"; {text}" for text in times([comparison.campaign]))
        text = (
            f"Per phase{note}. Reads get no verdict when caches served different shares on the two "
            "sides."
        )
        parts += [
            Heading("costs", "CPU time, caches, bandwidth"),
            Paragraph(text, soft=True),
            costs,
        ]
    return Section(ID, TITLE, parts) if plots or costs.rows else None
