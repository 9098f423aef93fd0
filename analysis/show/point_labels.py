"""Labels beside points of a figure, placed so that none covers another label or a point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.read.arrays import FloatArray
from analysis.show.drawing import INK, Look

_FONT = 7
# All lengths are in pt.
_MARK = 3.0  # half the width of a point's mark
_LINE = 0.5  # half the width of a line
_STEP = 3.0  # between the places of a line that labels avoid
_GAP = 1.0  # between a mark and its label
_RADII = (0.0, 5.0, 10.0, 16.0, 24.0, 34.0, 46.0)  # further from the mark
_ANGLES = (45, 135, -45, -135, 0, 90, 180, -90, 20, 70, 110, 160, -20, -70, -110, -160)
_NEAR = 6.0  # a label that is further away has a line to its point


def label_points(axes: Axes, labels: Sequence[tuple[str, tuple[float, float]]]) -> None:
    """Write each text beside its point, in data coordinates; labels also avoid the lines drawn.

    The limits of the axes, the legend and the size of the figure must be final.
    """
    figure = axes.get_figure(root=True)
    if figure is None:
        return
    figure.draw_without_rendering()
    pt = 72 / figure.dpi
    frame = np.asarray(axes.get_window_extent().extents) * pt
    places = [np.asarray(axes.transData.transform(place)) * pt for _, place in labels]
    taken = [_box(place, (2 * _MARK, 2 * _MARK)) for place in places]
    taken += [_box(place, (2 * _LINE, 2 * _LINE)) for place in _line_places(axes, pt)]
    for (text, place), at in zip(labels, places, strict=True):
        look: Look = {"xytext": (0, 0), "fontsize": _FONT, "ha": "center", "va": "center"}
        label = axes.annotate(text, place, textcoords="offset points", **look)
        extent = label.get_window_extent()
        size = extent.width * pt, extent.height * pt
        covered = np.array(taken)
        costs = [
            (_overlap(box, covered) - _overlap(box, frame[None]), radius, offset, box)
            for radius, offset in _offsets(*size)
            for box in [_box(at + offset, size)]
        ]
        _, radius, offset, box = min(costs, key=lambda one: round(one[0], 3))
        label.set_position(offset)
        taken.append(box)
        if radius > _NEAR:
            line: Look = {"arrowstyle": "-", "linewidth": 0.4, "color": INK, "shrinkA": 0}
            axes.annotate("", place, xytext=offset, textcoords="offset points", arrowprops=line)


def _line_places(axes: Axes, pt: float) -> Iterator[FloatArray]:
    """Yield places on all lines, a few pt from each other."""
    for line in axes.lines:
        for begin, end in itertools.pairwise(axes.transData.transform(line.get_xydata()) * pt):
            count = max(2, math.ceil(math.dist(begin, end) / _STEP))
            yield from np.linspace(begin, end, count)


def _offsets(width: float, height: float) -> Iterator[tuple[float, tuple[float, float]]]:
    """Yield the centre of a label relative to its point, nearest first, after its radius."""
    for radius, angle in itertools.product(_RADII, _ANGLES):
        across, up = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        near = (_MARK + _GAP + radius) / max(abs(across), abs(up))
        yield (
            radius,
            (
                across * near + round(across) * width / 2,
                up * near + round(up) * height / 2,
            ),
        )


def _box(center: FloatArray, size: tuple[float, float]) -> FloatArray:
    """Return left, bottom, right and top."""
    half = np.asarray(size) / 2
    return np.concatenate([center - half, center + half])


def _overlap(box: FloatArray, others: FloatArray) -> float:
    """Return the area that a box has in common with the others, of shape (..., 4)."""
    common = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return float(np.prod(np.maximum(common, 0.0), axis=-1).sum())
