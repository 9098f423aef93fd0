"""Hosts, devices and every recorded setting."""

from __future__ import annotations

from analysis.show.parts import Grid, ReportData, Section

ORDER = 130


def section(data: ReportData) -> Section:
    """Return the hosts, and every recorded value of the ok runs."""
    header, rows = data.tables["recorded"]
    title = f"Recorded settings of the runs: {len(rows)} values"
    recorded = Grid("recorded", header, rows, folded=title, method="comparability")
    hosts = Grid("environment", *data.tables["environment"])
    return Section("environment", "Environment", [hosts, recorded])
