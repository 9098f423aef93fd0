"""Skipped levels, issues of runs, and whether the layers' byte counts agree."""

from __future__ import annotations

from analysis.show import flow_tables
from analysis.show.parts import Grid, Heading, Paragraph, Part, ReportData, Section

ORDER = 110


def section(data: ReportData) -> Section:
    """Return the skipped levels, the issues of all runs, and the closures."""
    parts: list[Part] = []
    skipped = Grid("skipped", *data.tables["skipped"])
    if skipped.rows:
        parts += [Paragraph("Skipped, with the reason:"), skipped]
    issues = Grid("issues", *data.tables["issues"])
    parts += [issues] if issues.rows else [Paragraph("No run has an issue.")]
    closures = data.tables["closures"]
    if closures.rows:
        text = (
            "A closure compares two adjacent layers that count the same bytes. "
            f"{flow_tables.count_states(closures)}. A broken closure makes its run invalid. "
            "An unexplained one belongs to a layer that does not report its work."
        )
        table = Grid(
            "closures",
            *closures,
            folded=f"Closures: {len(closures.rows)} pairs of layers",
            opened="broken" in closures.column("state"),
            source="ledger.json",
            method="closures",
        )
        parts += [Heading("closures", "Closures"), Paragraph(text), table]
    return Section("issues", "Issues", parts)
