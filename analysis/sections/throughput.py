"""Operations per second of every run."""

from __future__ import annotations

from analysis import figures
from analysis.sections.base import Context, Plots, Section, without_runs

ID, TITLE = "throughput", "Throughput"


def section(context: Context) -> Section:
    """Return one figure per phase."""
    return without_runs(ID, TITLE, context) or Section(ID, TITLE, [
        Plots([
            figures.strip(context.comparison, context.groups, f"{phase}.throughput")
            for phase in context.phases
        ])
    ])  # fmt: skip
