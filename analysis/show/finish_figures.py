"""Figures of finish threshold and zone size; each threshold is labelled in both conventions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from analysis import numbers
from analysis.judge.directions import (
    FinishSetting,
    SettingValue,
    mean,
    thresholds,
    values_of,
    zone_sizes,
)
from analysis.show.drawing import INK, Look, Plot, canvas, dots, legend, panels, slug, stamped
from analysis.show.groups import PALETTE, marker_of
from analysis.show.point_labels import label_points
from harness.metrics.catalogue import MetricKind

_HEIGHT = 3.1


@dataclass(frozen=True, slots=True)
class Label:
    """Subject of a set of figures, and its watermarks ('' for none)."""

    what: str
    mark: str = ""
    mark_of_times: str = ""

    def of(self, kind: MetricKind) -> str:
        """Return the watermark of a figure."""
        return self.mark_of_times if kind is MetricKind.TIME else self.mark

    def plot(self, name: str, title: str) -> Plot:
        """Return an empty figure with this subject in its name and title."""
        return Plot(f"finish-{slug(f'{name}-{self.what}')}", f"{self.what}: {title}")


@dataclass(frozen=True, slots=True)
class Axis:
    """A metric as an axis: key, readable name, unit."""

    metric: str
    name: str
    unit: str
    kind: MetricKind = MetricKind.BYTES

    def label(self, unit: str) -> str:
        """Return the axis label with the unit that its values are scaled to."""
        return f"{self.name} ({unit})" if unit else self.name


def against_threshold(
    points: Sequence[SettingValue],
    axis: Axis,
    label: Label,
    infeasible: Collection[FinishSetting] = (),
) -> Plot:
    """Draw a metric against the threshold: a dot per run, a line through means per zone size.

    ``infeasible`` settings cannot hold the data; each becomes a cross at the bottom.
    """
    plot = label.plot(f"threshold-{axis.metric}", f"{axis.name} against finish threshold")
    table = values_of(points, axis.metric)
    if not table:
        return plot.captioned(f"No ok run has {axis.metric}.")
    every = [value for values in table.values() for value in values]
    factor, unit = numbers.scale(max(every), axis.unit)
    figure, axes = canvas(_HEIGHT)
    for number, (size, color, marker) in enumerate(_looks(zone_sizes(table))):
        own = {at: values for (zone_size, at), values in sorted(table.items()) if zone_size == size}
        x, y = zip(*((at, v / factor) for at, values in own.items() for v in values), strict=True)
        dots(axes, x, y, marker, color, markersize=4, alpha=0.7)
        means = [mean(values) / factor for values in own.values()]
        name = numbers.human(size, "B")
        axes.plot([*own], means, "-", color=color, linewidth=1.2, label=name)
        crossed = [at for zone_size, at in infeasible if zone_size == size]
        heights = [0.03 * (1 + number)] * len(crossed)
        look: Look = {"color": color, "markersize": 6, "transform": axes.get_xaxis_transform()}
        axes.plot(crossed, heights, "x", **look)
    if min(every) >= 0:  # an amplification begins at 1
        axes.set_ylim(bottom=1 if axis.unit == "1" and min(every) >= 1 else 0)
    axes.set_ylabel(axis.label(unit))
    _threshold_axis(axes)
    legend(axes)
    sentence = "One dot per run; lines: means; one colour per zone size."
    if infeasible:
        sentence += " Crosses: the setting could not hold the data."
    return stamped(figure, plot.captioned(sentence), axis.kind, mark=label.of(axis.kind))


def pareto(points: Sequence[SettingValue], x: Axis, y: Axis, label: Label) -> Plot:
    """Draw two costs of each setting, means over runs, with the Pareto front."""
    plot = label.plot(f"pareto-{x.metric}-{y.metric}", f"{x.name} against {y.name}")
    costs = _costs(points, x, y)
    if not costs:
        return plot.captioned(f"No ok run has {x.metric} and {y.metric}.")
    x_factor, x_unit = numbers.scale(max(cost[0] for cost in costs.values()), x.unit)
    y_factor, y_unit = numbers.scale(max(cost[1] for cost in costs.values()), y.unit)
    scaled = {setting: (a / x_factor, b / y_factor) for setting, (a, b) in costs.items()}
    figure, axes = canvas(_HEIGHT + 0.4)
    for size, color, marker in _looks(zone_sizes(costs)):
        own = {setting: scaled[setting] for setting in sorted(scaled) if setting[0] == size}
        look: Look = {"alpha": 1, "linewidth": 0.7, "label": numbers.human(size, "B")}
        across, up = zip(*own.values(), strict=True)
        dots(axes, across, up, f"{marker}:", color, **look)
    across, up = zip(*sorted(scaled[setting] for setting in front(costs)), strict=True)
    axes.plot(across, up, "-", color=INK, linewidth=1.4, alpha=0.6, label="front")
    axes.set_xlabel(x.label(x_unit))
    axes.set_ylabel(y.label(y_unit))
    axes.margins(0.1)
    legend(axes)
    label_points(axes, [(f"{threshold:g}", place) for (_, threshold), place in scaled.items()])
    sentence = (
        "Means over runs. Numbers: finish threshold in % occupied. On the front, no other setting "
        "costs less in both."
    )
    return stamped(figure, plot.captioned(sentence), MetricKind.BYTES, mark=label.mark)


def front(costs: Mapping[FinishSetting, tuple[float, float]]) -> list[FinishSetting]:
    """Return the settings for which no other is at least as good in both costs."""

    def beaten(mine: tuple[float, float]) -> bool:
        return any(
            cost != mine and cost[0] <= mine[0] and cost[1] <= mine[1] for cost in costs.values()
        )

    return [setting for setting, cost in costs.items() if not beaten(cost)]


def occupancies(samples: Mapping[FinishSetting, Sequence[float]], label: Label) -> Plot:
    """Draw the occupancy of zones at their finish: boxes by threshold, one row per zone size.

    ``samples`` in % of the zone's capacity, all runs of a setting together.
    """
    plot = label.plot("occupancy-at-finish", "Occupancy at finish")
    shown = {setting: values for setting, values in samples.items() if values}
    if not shown:
        return plot.captioned("No zone was finished before it was full.")
    sizes, steps = zone_sizes(shown), thresholds(shown)
    figure, rows = panels(0.7 + 1.25 * len(sizes), len(sizes))
    for axes, (size, color, _) in zip(rows, _looks(sizes), strict=True):
        own = {at: shown[size, at] for at in steps if (size, at) in shown}
        line = {"color": color}
        axes.boxplot(
            list(own.values()),
            positions=list(own),
            widths=4,
            manage_ticks=False,
            boxprops=line,
            whiskerprops=line,
            capprops=line,
            medianprops={"color": INK},
            flierprops={"marker": ".", "markersize": 3, "markeredgecolor": color},
        )
        look: Look = {
            "ha": "center",
            "va": "top",
            "fontsize": 6,
            "xycoords": ("data", "axes fraction"),
        }
        for at, values in own.items():
            axes.annotate(str(len(values)), (at, 1), **look)
        axes.plot([0, 100], [0, 100], ":", color=INK, linewidth=0.8)
        axes.set_ylim(0, 112)
        axes.set_ylabel(f"{numbers.human(size, 'B')}\n% written")
    _threshold_axis(rows[-1])
    sentence = (
        "Boxes: quartiles; whiskers: 1.5 times their distance; numbers: finishes. Below the dotted "
        "line the threshold finishes no zone."
    )
    return stamped(figure, plot.captioned(sentence), MetricKind.COUNT, mark=label.mark)


def wear(points: Sequence[SettingValue], label: Label) -> Plot:
    """Draw resets per zone against the threshold: median as a line, extremes as a band."""
    plot = label.plot("wear", "Resets per zone against finish threshold")
    least, middle, most = (
        values_of(points, f"run.wear_{which}") for which in ("min", "median", "max")
    )
    if not middle:
        return plot.captioned("Resets were not traced zone by zone.")
    figure, axes = canvas(_HEIGHT)
    for size, color, marker in _looks(zone_sizes(middle)):
        steps = [step for step in thresholds(middle) if (size, step) in middle]
        low = [min(least[size, step]) for step in steps]
        high = [max(most[size, step]) for step in steps]
        axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)
        medians = [mean(middle[size, step]) for step in steps]
        look: Look = {
            "markersize": 4,
            "alpha": 1,
            "linewidth": 1.2,
            "label": numbers.human(size, "B"),
        }
        dots(axes, steps, medians, f"{marker}-", color, **look)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("resets per zone")
    _threshold_axis(axes)
    legend(axes)
    sentence = "Line: median over data zones; band: from the fewest to the most resets of a zone."
    return stamped(figure, plot.captioned(sentence), MetricKind.COUNT, mark=label.mark)


def _looks(sizes: Sequence[int]) -> Iterable[tuple[int, str, str]]:
    """Return each zone size with its colour and marker, which no other one has."""
    return [(size, PALETTE[i % len(PALETTE)], marker_of(i)) for i, size in enumerate(sizes)]


def _costs(
    points: Sequence[SettingValue], x: Axis, y: Axis
) -> dict[FinishSetting, tuple[float, float]]:
    first, second = values_of(points, x.metric), values_of(points, y.metric)
    return {
        setting: (mean(values), mean(second[setting]))
        for setting, values in first.items()
        if setting in second
    }


def _threshold_axis(axes: Axes) -> None:
    """Label each threshold in both conventions."""
    steps = range(0, 101, 20)
    axes.set_xlim(-4, 104)
    axes.set_xticks(steps, [f"{step}\n({100 - step})" for step in steps])
    axes.set_xlabel("finish threshold: % occupied (ZenFS: % remaining)")
