"""Utilisation of every run's device, the highest that its level can reach, and the scale."""

from __future__ import annotations

from analysis.show import figures
from analysis.show.parts import Grid, Paragraph, Plots, ReportData, Section, without_runs

ORDER = 80
ID, TITLE = "utilisation", "Utilisation"
_MOST = "run.max_utilisation"
_SCALE = (
    "These ratios carry over to a drive of another size, the capacity does not. "
    "Small drives have fewer zones and fewer levels of the LSM tree. Zones are of the zoned drive."
)


def section(data: ReportData) -> Section:
    """Return the achieved utilisation, the maximum if it was measured, and the tables."""
    if none := without_runs(ID, TITLE, data):
        return none
    comparison, groups = data.comparison, data.groups
    plots = [figures.utilisation(comparison, groups)]
    if any(group.values(_MOST) for group in groups):
        plots.append(figures.strip(comparison, groups, _MOST))
    table = data.tables["utilisation"]
    grid = Grid("utilisation", *table, folded="Every run", method="the-ledger")
    scale = Grid("scale", *data.tables["scale"])
    return Section(ID, TITLE, [Plots(plots), grid, Paragraph(_SCALE), scale])
