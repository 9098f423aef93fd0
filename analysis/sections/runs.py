"""Every cell, run and attempt."""

from __future__ import annotations

from analysis.sections.base import Context, Grid, Section


def section(context: Context) -> Section:
    """Return the table of cells and that of runs."""
    return Section("runs", "Runs", [
        Grid("cells", *context.tables["cells"]),
        Grid("runs", *context.tables["runs"], folded="Every run and attempt"),
    ])  # fmt: skip
