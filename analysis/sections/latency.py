"""How long operations took, and what they cost in CPU time."""

from __future__ import annotations

from analysis import figures
from analysis.compare import WATERMARK
from analysis.sections.base import Context, Grid, Heading, Part, Plots, Section, Text, without_runs

ID, TITLE = "latency", "Latency"


def section(context: Context) -> Section:
    """Return one figure per phase, and the table of costs where there is one."""
    none = without_runs(ID, TITLE, context)
    if none is not None:
        return none
    parts: list[Part] = [
        Plots([
            figures.percentiles(context.comparison, context.groups, phase)
            for phase in context.phases
        ])
    ]  # fmt: skip
    header, rows = context.tables["costs"]
    if rows:
        note = f"; {WATERMARK}" if context.comparison.campaign.emulated else ""
        parts += [
            Heading("costs", "CPU time, caches, bandwidth"),
            Text(f"Per phase{note}. Reads that caches served unlike on two sides get no verdict.",
                 soft=True),
            Grid("costs", header, rows, folded="Of every run and phase", method="cpu"),
        ]  # fmt: skip
    return Section(ID, TITLE, parts)
