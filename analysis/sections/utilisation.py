"""How full each run's device was, and how full it could have been."""

from __future__ import annotations

from analysis import figures
from analysis.sections.base import Context, Grid, Plots, Section, without_runs

ID, TITLE = "utilisation", "Utilisation"
_MOST = "run.max_utilisation"


def section(context: Context) -> Section:
    """Return a figure (two, where each level's possible maximum was measured) and the table."""
    none = without_runs(ID, TITLE, context)
    if none is not None:
        return none
    comparison, groups = context.comparison, context.groups
    shown = [figures.utilisation(comparison, groups)]
    if any(group.values(_MOST) for group in groups):
        shown.append(figures.strip(comparison, groups, _MOST))
    table = Grid("utilisation", *context.tables["utilisation"], folded="Table", method="bytes")
    return Section(ID, TITLE, [Plots(shown), table])
