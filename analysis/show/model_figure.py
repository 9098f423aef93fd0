"""Figure of a model (lines) over measured points of the drive (dots)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis.model.validation import CurveError
from analysis.show import drawing
from analysis.show.drawing import Plot
from harness.metrics.catalogue import MetricKind

_COLORS = ("#2a78d6", "#eb6834", "#1b9e77")
_SIZE = 7.4, 7.0  # inches


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves in one pair of axes: (curve, statistic, label)."""

    title: str
    x: str
    y: str
    curves: tuple[tuple[str, str, str], ...]
    scale: float = 1.0
    log: bool = True


_MS = 1e-3
PANELS = (
    Panel(
        "Writes and appends, depth 1",
        "KiB",
        "µs, mean",
        (("spdk_write_qd1", "mean", "write"), ("spdk_append_qd1", "mean", "append")),
    ),
    Panel(
        "4 KiB in several zones",
        "zones",
        "thousand/s",
        (("write4k_inter_zone", "kiops", "write"), ("append4k_inter_zone", "kiops", "append")),
    ),
    Panel(
        "Random reads",
        "depth",
        "thousand/s",
        tuple((f"randread{size}k", "kiops", f"{size} KiB") for size in (4, 8, 16)),
    ),
    Panel(
        "Reads of 4 KiB under writes, depth 1",
        "MiB/s written",
        "µs",
        tuple(("read_under_write_qd1", name, name) for name in ("mean", "p95", "p99")),
        log=False,
    ),
    Panel(
        "Reset",
        "% written",
        "ms, mean",
        (
            ("reset_unfinished", "mean", "not finished"),
            ("reset_after_finish", "mean", "finished"),
        ),
        _MS,
        log=False,
    ),
    Panel("Finish", "% written", "ms, mean", (("finish", "mean", "finish"),), _MS, log=False),
)


def draw(name: str, errors: Sequence[CurveError]) -> str:
    """Return the figure as SVG text; ``name`` is the model's."""
    by_name = {(one.curve, one.statistic): one for one in errors}
    with drawing.style():
        figure = Figure(figsize=_SIZE, layout="constrained")
        grid = figure.subplots(3, 2, squeeze=False)
        for panel, axes in zip(PANELS, grid.flat, strict=True):
            _panel(axes, panel, by_name)
        plot = drawing.stamped(
            figure, Plot(f"model-{name}", f"{name}: model over points"), MetricKind.COUNT, mark=""
        )
    return plot.svg or ""


def _panel(axes: Axes, panel: Panel, errors: dict[tuple[str, str], CurveError]) -> None:
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    ticks: set[float] = set()
    for color, (curve, statistic, label) in zip(_COLORS, panel.curves, strict=False):
        error = errors.get((curve, statistic))
        if error is None:
            continue
        ordered = sorted(error.points, key=lambda one: one.point.x)
        x = [one.point.x for one in ordered]
        ticks.update(x)
        drawing.dots(axes, x, [panel.scale * one.point.value for one in ordered], "o", color)
        known = [(one.point.x, panel.scale * one.modelled) for one in ordered if one.modelled]
        axes.plot([a for a, _ in known], [b for _, b in known], "-", color=color, label=label)
    if panel.log:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=0)
    if ticks:
        axes.legend(fontsize=8)
