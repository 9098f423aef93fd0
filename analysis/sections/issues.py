"""What went wrong, what could not run, and whether the layers agree."""

from __future__ import annotations

from analysis import flow
from analysis.sections.base import Context, Grid, Heading, Part, Section, Text


def section(context: Context) -> Section:
    """Return levels that were skipped, the issues of all runs, and the closures."""
    parts: list[Part] = []
    skipped = Grid("skipped", *context.tables["skipped"])
    if skipped.rows:
        parts += [Text("Skipped, and why:"), skipped]
    issues = Grid("issues", *context.tables["issues"])
    parts += [issues] if issues.rows else [Text("No run has an issue.")]
    header, rows = context.tables["closures"]
    if rows:
        broken = any(row[flow.CLOSURE_HEADER.index("state")] == "broken" for row in rows)
        parts += [
            Heading("closures", "Closures"),
            Text("Do adjacent layers that count the same bytes agree? "
                 f"{flow.states(rows)}. A broken one makes its run invalid; an unexplained one is "
                 "of a layer that hides what it does."),
            Grid("closures", header, rows, folded=f"Closures: {len(rows)} pairs of layers",
                 opened=broken, source="ledger.json", method="ledger-and-closures"),
        ]  # fmt: skip
    return Section("issues", "Issues", parts)
