"""What it ran on."""

from __future__ import annotations

from analysis.sections.base import Context, Grid, Section


def section(context: Context) -> Section:
    """Return the hosts, and every value that was recorded of the runs."""
    header, rows = context.tables["recorded"]
    return Section("environment", "Environment", [
        Grid("environment", *context.tables["environment"]),
        Grid("recorded", header, rows, method="comparability",
             folded=f"Recorded of the runs: {len(rows)} values"),
    ])  # fmt: skip
