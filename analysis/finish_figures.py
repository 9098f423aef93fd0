"""Figures of finish threshold and zone size, over a table of points (analysis/finish_points.py).

The threshold is shown in both conventions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from analysis import units
from analysis.drawing import INK, WIDTH, Plot, canvas, legend, slug, stamped
from analysis.finish_points import Point, Setting, mean, of_metric, thresholds, zone_sizes
from analysis.groups import MARKERS, PALETTE
from harness.metrics import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 3.1


@dataclass(frozen=True, slots=True)
class Label:
    """What every figure of a table says: of what it is, and its watermarks ('' for none)."""

    what: str
    mark: str = ""
    mark_of_times: str = ""

    def of(self, kind: Kind) -> str:
        """Return the watermark of a figure."""
        return self.mark_of_times if kind is Kind.TIME else self.mark


@dataclass(frozen=True, slots=True)
class Axis:
    """A metric as an axis: its key, what people call it, its unit."""

    metric: str
    name: str
    unit: str
    kind: Kind = Kind.BYTES


def against_threshold(
    points: Sequence[Point], axis: Axis, label: Label, infeasible: Collection[Setting] = ()
) -> Plot:
    """A value against the threshold: a dot for each run, a line through the means, by zone size.

    ``infeasible`` are settings that could not hold the data; each is a cross at the bottom.
    """
    name, title = _names(f"threshold-{axis.metric}", f"{axis.name} against finish threshold", label)
    found = of_metric(points, axis.metric)
    if not found:
        return Plot(name, title, None, f"No ok run has {axis.metric}.")
    factor, unit = units.scale(max(v for values in found.values() for v in values), axis.unit)
    figure, axes = canvas(_HEIGHT)
    for number, size in enumerate(zone_sizes(found)):
        mine = {at: values for (one, at), values in found.items() if one == size}
        dots = [(at, value / factor) for at, values in mine.items() for value in values]
        axes.plot(*zip(*dots, strict=True), MARKERS[number], color=PALETTE[number], markersize=4,
                  alpha=0.7, markeredgewidth=0)  # fmt: skip
        line = [(at, mean(mine[at]) / factor) for at in sorted(mine)]
        axes.plot(*zip(*line, strict=True), "-", color=PALETTE[number], linewidth=1.2,
                  label=units.human(size, "B"))  # fmt: skip
        crossed = [at for one, at in infeasible if one == size]
        axes.plot(crossed, [0.03 * (1 + number)] * len(crossed), "x", color=PALETTE[number],
                  markersize=6, transform=axes.get_xaxis_transform())  # fmt: skip
    least = min(value for values in found.values() for value in values)
    if least >= 0:  # an amplification begins at 1
        axes.set_ylim(bottom=1 if axis.unit == "1" and least >= 1 else 0)
    axes.set_ylabel(_with_unit(axis, unit))
    _threshold_axis(axes)
    legend(axes)
    sentence = "One dot per run, lines through the means, one colour per zone size."
    if infeasible:
        sentence += " Crosses: the setting could not hold the data."
    return stamped(figure, Plot(name, title, None, sentence), axis.kind, mark=label.of(axis.kind))


def pareto(points: Sequence[Point], x: Axis, y: Axis, label: Label) -> Plot:
    """Both costs of each setting, means over runs; the front is of settings none is better than."""
    name, title = _names(f"pareto-{x.metric}-{y.metric}", f"{x.name} against {y.name}", label)
    costs = _costs(points, x, y)
    if not costs:
        return Plot(name, title, None, f"No ok run has {x.metric} and {y.metric}.")
    factors = [units.scale(max(cost[i] for cost in costs.values()), a.unit)
               for i, a in enumerate((x, y))]  # fmt: skip
    figure, axes = canvas(_HEIGHT + 0.4)
    for number, size in enumerate(zone_sizes(costs)):
        mine = [setting for setting in sorted(costs) if setting[0] == size]
        across, up = ([costs[s][i] / factors[i][0] for s in mine] for i in (0, 1))
        axes.plot(across, up, f"{MARKERS[number]}:", color=PALETTE[number], markersize=5,
                  linewidth=0.7, markeredgewidth=0, label=units.human(size, "B"))  # fmt: skip
        for setting, left, top in zip(mine, across, up, strict=True):
            axes.annotate(f"{setting[1]:g}", (left, top), xytext=(3, 3), fontsize=7,
                          textcoords="offset points")  # fmt: skip
    best = sorted(costs[setting] for setting in front(costs))
    axes.plot([c[0] / factors[0][0] for c in best], [c[1] / factors[1][0] for c in best], "-",
              color=INK, linewidth=1.4, alpha=0.6, label="front")  # fmt: skip
    axes.set_xlabel(_with_unit(x, factors[0][1]))
    axes.set_ylabel(_with_unit(y, factors[1][1]))
    axes.margins(0.1)
    legend(axes)
    sentence = ("Means over runs; numbers: finish occupancy threshold in % (100 less it remains). "
                "On the front, no other setting has less of both.")  # fmt: skip
    return stamped(figure, Plot(name, title, None, sentence), Kind.BYTES, mark=label.mark)


def front(costs: Mapping[Setting, tuple[float, float]]) -> list[Setting]:
    """Return the settings of which none is at least as good in both and better in one."""

    def beaten(mine: tuple[float, float]) -> bool:
        return any(
            one != mine and one[0] <= mine[0] and one[1] <= mine[1] for one in costs.values()
        )

    return [setting for setting, cost in costs.items() if not beaten(cost)]


def occupancies(samples: Mapping[Setting, Sequence[float]], label: Label) -> Plot:
    """How full zones were when they were finished, as boxes by threshold, a row per zone size.

    ``samples`` in % of the zone's capacity, all runs of a setting together.
    """
    name, title = _names("occupancy-at-finish", "Occupancy at finish", label)
    shown = {setting: values for setting, values in samples.items() if values}
    if not shown:
        return Plot(name, title, None, "No zone was finished before it was full.")
    sizes, steps = zone_sizes(shown), thresholds(shown)
    figure = Figure(figsize=(WIDTH, 0.7 + 1.25 * len(sizes)), layout="constrained")
    rows = figure.subplots(len(sizes), 1, sharex=True, squeeze=False)[:, 0]
    for number, (axes, size) in enumerate(zip(rows, sizes, strict=True)):
        mine = [at for at in steps if (size, at) in shown]
        color = PALETTE[number]
        line = {"color": color}
        axes.boxplot(
            [shown[size, at] for at in mine], positions=mine, widths=4, manage_ticks=False,
            boxprops=line, whiskerprops=line, capprops=line, medianprops={"color": INK},
            flierprops={"marker": ".", "markersize": 3, "markeredgecolor": color},
        )  # fmt: skip
        for at in mine:
            axes.annotate(str(len(shown[size, at])), (at, 1), ha="center", va="top", fontsize=6,
                          xycoords=("data", "axes fraction"))  # fmt: skip
        axes.plot([0, 100], [0, 100], ":", color=INK, linewidth=0.8)
        axes.set_ylim(0, 112)
        axes.set_ylabel(f"{units.human(size, 'B')}\n% written")
    _threshold_axis(rows[-1])
    sentence = ("Boxes: quartiles; whiskers: 1.5 times their distance; on top: how many finishes. "
                "Below the dotted line the threshold finishes nothing.")  # fmt: skip
    return stamped(figure, Plot(name, title, None, sentence), Kind.COUNT, mark=label.mark)


def wear(points: Sequence[Point], label: Label) -> Plot:
    """Resets per zone against the threshold: the median as a line, fewest and most as a band."""
    name, title = _names("wear", "Resets per zone against finish threshold", label)
    least, middle, most = (of_metric(points, f"run.wear_{which}")
                           for which in ("min", "median", "max"))  # fmt: skip
    if not middle:
        return Plot(name, title, None, "Resets were not traced zone by zone.")
    figure, axes = canvas(_HEIGHT)
    for number, size in enumerate(zone_sizes(middle)):
        at = [step for step in thresholds(middle) if (size, step) in middle]
        low, high = ([pick(of[size, s]) for s in at] for pick, of in ((min, least), (max, most)))
        axes.fill_between(at, low, high, color=PALETTE[number], alpha=0.18, linewidth=0)
        axes.plot(at, [mean(middle[size, step]) for step in at], f"{MARKERS[number]}-",
                  color=PALETTE[number], markersize=4, linewidth=1.2,
                  label=units.human(size, "B"))  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_ylabel("resets per zone")
    _threshold_axis(axes)
    legend(axes)
    sentence = "Line: median over data zones; band: from the least to the most reset zone."
    return stamped(figure, Plot(name, title, None, sentence), Kind.COUNT, mark=label.mark)


def _with_unit(axis: Axis, unit: str) -> str:
    return f"{axis.name} ({unit})" if unit else axis.name


def _costs(points: Sequence[Point], x: Axis, y: Axis) -> dict[Setting, tuple[float, float]]:
    first, second = of_metric(points, x.metric), of_metric(points, y.metric)
    return {
        setting: (mean(values), mean(second[setting]))
        for setting, values in first.items()
        if setting in second
    }


def _names(name: str, title: str, label: Label) -> tuple[str, str]:
    return f"finish-{slug(f'{name}-{label.what}')}", f"{label.what}: {title}"


def _threshold_axis(axes: Axes) -> None:
    """Label each threshold in both conventions."""
    steps = range(0, 101, 20)
    axes.set_xlim(-4, 104)
    axes.set_xticks(steps, [f"{step}\n({100 - step})" for step in steps])
    axes.set_xlabel("finish threshold: % occupied (% remaining, as ZenFS says it)")
