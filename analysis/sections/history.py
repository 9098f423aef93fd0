"""What resets, finishes and first writes took by what zones went through before."""

from __future__ import annotations

from analysis import history, history_figure
from analysis.sections.base import Context, Grid, Plots, Section, Text


def section(context: Context) -> Section | None:
    """Return figures, directions and every latency; None for campaigns without zoneprobe."""
    comparison = context.comparison
    runs = history.probed(comparison)
    if not runs:
        return None
    directions = history.directions(runs, emulated=comparison.campaign.emulated)
    return Section("history", "What zones went through before", [
        Text("Times of emulated devices are not a result, whatever they look like: they tell what "
             "the emulator does." if comparison.campaign.emulated else
             "Lines and the column ZN540 are what was published for that drive, and no verdict."),
        Plots([
            history_figure.by_occupancy(comparison, runs),
            history_figure.behind_resets(comparison, runs),
        ]),
        Grid("history-directions", history.DIRECTIONS_HEADER, directions,
             source="raw/probe.stdout", method="prior-history"),
        Grid("history", history.HEADER, history.rows(runs), source="raw/probe.stdout",
             method="prior-history", folded="Every run, treatment and command"),
    ])  # fmt: skip
