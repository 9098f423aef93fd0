"""Latency of resets, finishes and first writes by the history of the zone."""

from __future__ import annotations

from analysis.judge import zone_history
from analysis.show import zone_history_figure
from analysis.show.parts import Grid, Paragraph, Plots, ReportData, Section
from harness.store.spec import DeviceKind

ORDER = 60
_EMULATED = (
    "Times of an emulated device are not a result. They show the behaviour of the emulator only."
)
_MODELLED = "Times of a modelled device are results of its model and get no verdict."
_HARDWARE = "The lines and the column ZN540 show published values of that drive, not a verdict."


def section(data: ReportData) -> Section | None:
    """Return figures, directions and every latency; None for campaigns without zoneprobe."""
    comparison = data.comparison
    runs = zone_history.probed(comparison)
    if not runs:
        return None
    not_hardware = comparison.campaign.not_hardware
    directions = Grid(
        "history-directions",
        *zone_history.order_table(runs, not_hardware=not_hardware),
        source="raw/probe.stdout",
        method="prior-history",
    )
    every = Grid(
        "history",
        *zone_history.latency_table(runs),
        source="raw/probe.stdout",
        method="prior-history",
        folded="Every run, treatment and command",
    )
    plots = [
        zone_history_figure.by_occupancy(comparison, runs),
        zone_history_figure.behind_resets(comparison, runs),
    ]
    modelled = comparison.campaign.kinds == {DeviceKind.MODELLED}
    text = Paragraph(_MODELLED if modelled else _EMULATED if not_hardware else _HARDWARE)
    return Section("history", "Zone history", [text, Plots(plots), directions, every])
