"""Operations per second of every run."""

from __future__ import annotations

from analysis.show import figures
from analysis.show.parts import Plots, ReportData, Section, without_runs

ORDER = 40
ID, TITLE = "throughput", "Throughput"


def section(data: ReportData) -> Section | None:
    """Return one figure per phase; None if there are no such phases."""
    if data.groups and not data.phases:
        return None
    plots = [
        figures.strip(data.comparison, data.groups, f"{phase}.throughput") for phase in data.phases
    ]
    return without_runs(ID, TITLE, data) or Section(ID, TITLE, [Plots(plots)])
