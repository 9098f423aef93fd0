"""Figures of bytes per user byte, over device writes and by layer."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.compare import Comparison
from analysis.read.block import has_points
from analysis.show import amplification_figure, utilisation_figure
from analysis.show.drawing import Plot
from analysis.show.groups import Group
from analysis.show.parts import Plots, ReportData, Section
from analysis.tenants import mix

ORDER = 15


def section(data: ReportData) -> Section | None:
    """Return the figures that the campaign has data for; None without any."""
    plots = plots_of(data.comparison, data.groups)
    if not any(plot.svg for plot in plots):
        return None
    return Section("amplification", "Bytes per user byte", [Plots(plots)])


def plots_of(comparison: Comparison, groups: Sequence[Group]) -> list[Plot]:
    """Return the figures for the page or a paper; none for mixes and sweeps of fio."""
    if comparison.contrast == mix.FACTOR or has_points(comparison.runs):
        return []
    plots = [
        amplification_figure.over_writes(comparison, groups),
        amplification_figure.by_layer(comparison, groups),
    ]
    if utilisation_figure.is_varied(groups):
        plots.append(utilisation_figure.over_utilisation(comparison, groups))
    return plots
