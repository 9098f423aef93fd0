"""Every cell, run and attempt."""

from __future__ import annotations

from analysis.show.parts import Grid, ReportData, Section

ORDER = 120


def section(data: ReportData) -> Section:
    """Return the tables of cells and of runs."""
    cells = Grid("cells", *data.tables["cells"])
    runs = Grid("runs", *data.tables["runs"], folded="Every run and attempt")
    return Section("runs", "Runs", [cells, runs])
