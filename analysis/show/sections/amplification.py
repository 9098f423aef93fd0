"""The answer as a picture: bytes per user byte over device writes, and by layer."""

from __future__ import annotations

from analysis.read.block import points_of
from analysis.show import amplification_figure, utilisation_figure
from analysis.show.parts import Plots, ReportData, Section
from analysis.tenants import mix

ORDER = 15


def section(data: ReportData) -> Section | None:
    """Return the figures that the campaign has data for; None for mixes and sweeps of fio."""
    comparison, groups = data.comparison, data.groups
    if comparison.contrast == mix.FACTOR or points_of(comparison.runs):
        return None
    plots = [
        amplification_figure.over_writes(comparison, groups),
        amplification_figure.by_layer(comparison, groups),
    ]
    if utilisation_figure.is_varied(groups):
        plots.append(utilisation_figure.over_utilisation(comparison, groups))
    if not any(plot.svg for plot in plots):
        return None
    return Section("amplification", "Bytes per user byte", [Plots(plots)])
