"""Utilisation of every run's device, and the highest that its level can reach."""

from __future__ import annotations

from analysis.show import figures
from analysis.show.parts import Grid, Plots, ReportData, Section, without_runs

ORDER = 80
ID, TITLE = "utilisation", "Utilisation"
_MOST = "run.max_utilisation"


def section(data: ReportData) -> Section:
    """Return the achieved utilisation, the maximum if it was measured, and the table."""
    if none := without_runs(ID, TITLE, data):
        return none
    comparison, groups = data.comparison, data.groups
    plots = [figures.utilisation(comparison, groups)]
    if any(group.values(_MOST) for group in groups):
        plots.append(figures.strip(comparison, groups, _MOST))
    table = data.tables["utilisation"]
    grid = Grid("utilisation", *table, folded="Every run", method="the-ledger")
    return Section(ID, TITLE, [Plots(plots), grid])
