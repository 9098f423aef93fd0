"""Figures have room for their axes, whatever the number and length of their names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from analysis.judge import wording
from analysis.judge.compare import compare
from analysis.read.load import load
from analysis.show import figures
from analysis.show.drawing import (
    WIDTH,
    Plot,
    keeping_figures,
    latency_axis,
    legend,
    name_rows,
    panels,
    shared_legend,
    stamped,
    style,
)
from analysis.show.groups import groups_of
from harness.metrics.catalogue import MetricKind
from tests.fixtures.campaigns import write_campaign

LEAST = 0.45  # of the figure's width


def named(count: int, length: int) -> list[str]:
    return [f"{index} conventional-ext4-discard"[:length] for index in range(count)]


def drawn(count: int, length: int, *, shared: bool, rows: bool = False) -> Figure:
    """Draw lines with such names in two panels, or in one."""
    figure, axes = panels(2.9, 2 if shared else 1)
    names = named(count, length)
    for name in names:
        axes[0].plot([0, 1], [0, 1], label=name)
    if rows:
        name_rows(axes[0], names)
    else:
        (shared_legend(figure) if shared else legend(axes[0]))
    figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("count", "length"), [(2, 8), (4, 20), (12, 27), (16, 16)])
def test_a_legend_leaves_room_for_the_axes(count: int, length: int, shared: bool) -> None:
    with style():
        figure = drawn(count, length, shared=shared)
        width, height = figure.get_size_inches()
        renderer = figure._get_renderer()  # type: ignore[attr-defined]
    assert width == WIDTH
    for axes in figure.axes:
        box = axes.get_position()
        assert box.width >= LEAST
        assert box.height * height >= (0.8 if shared else 1.5)
    (found,) = figure.legends if shared else [figure.axes[0].get_legend()]
    assert found is not None
    end = found.get_window_extent(renderer).x1 / figure.dpi
    assert end <= WIDTH


def test_names_of_rows_leave_room_for_the_axes() -> None:
    with style():
        longest = wording.short("conventional-ext4-twin", "target_utilisation 40%")
        figure = drawn(12, len(longest), shared=False, rows=True)
    assert figure.axes[0].get_position().width >= LEAST


def test_long_names_of_rows_do_not_cut_the_legend_of_device_bytes(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c", repetitions=2, series=False)))
    groups = [
        dataclasses.replace(group, value="conventional-ext4-discard-twin")
        for group in groups_of(comparison)
    ]
    with style(), keeping_figures():
        figure = figures.device_bytes(comparison, groups, "overwrite").figure
    assert figure is not None
    renderer = figure._get_renderer()  # type: ignore[attr-defined]
    figure.draw_without_rendering()
    legends = [*figure.legends, *filter(None, (axes.get_legend() for axes in figure.axes))]
    (found,) = legends
    assert found.get_window_extent(renderer).x1 / figure.dpi <= WIDTH


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (310, 350, "310 µs 315 µs 320 µs 325 µs 330 µs 335 µs 340 µs 345 µs 350 µs"),
        (210, 490, "300 µs 400 µs"),
        (150, 900, "200 µs 500 µs"),
        (800, 9000, "1 ms 2 ms 5 ms"),
        (8, 90000, "10 µs 100 µs 1 ms 10 ms"),
    ],
)
def test_a_logarithmic_axis_of_latencies_has_two_labels(low: int, high: int, shown: str) -> None:
    figure, (axes,) = panels(2.9, 1)
    axes.set_yscale("log")
    latency_axis(axes)
    axes.set_ylim(low, high)
    figure.draw_without_rendering()
    ticks = [*axes.yaxis.get_major_ticks(), *axes.yaxis.get_minor_ticks()]
    labels = {tick.get_loc(): tick.label1.get_text() for tick in ticks}
    found = [labels[at] for at in sorted(labels) if low <= at <= high and labels[at]]
    assert " ".join(found).replace(".00", "").replace(".0", "") == shown


def test_figures_name_values_without_their_factors() -> None:
    assert wording.short("f2fs", "") == "f2fs"
    assert wording.short("f2fs", "target_utilisation 40%") == "f2fs, 40%"
    assert wording.short("50", "zlfs, zone_size 4mib") == "50, zlfs, 4mib"


def test_a_title_may_have_any_character() -> None:
    title = 'reads & writes <64 KiB of "a"'
    with style():
        plot = stamped(panels(2.9, 1)[0], Plot("name", title), MetricKind.TIME, mark="")
    root = ElementTree.fromstring(plot.svg or "")  # noqa: S314 - we wrote it
    assert root.get("aria-label") == title
