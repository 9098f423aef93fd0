"""Labels beside points of a figure, where they cover least of other labels and points."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.read.arrays import FloatArray
from analysis.show.drawing import Look

_FONT = 7
_MARK = 4.0  # half the width of a point's mark in pt, with a gap
_SIDES = [side for side in itertools.product((1, 0, -1), repeat=2) if any(side)]
_DISTANCES = (0.0, 5.0, 10.0)  # between mark and label, in pt


def label_points(axes: Axes, labels: Sequence[tuple[str, tuple[float, float]]]) -> None:
    """Write each text beside its point, in data coordinates.

    The limits of the axes and the size of the figure must be final.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101 - axes of a figure
    figure.draw_without_rendering()
    pt = 72 / figure.dpi
    places = [np.asarray(axes.transData.transform(place)) * pt for _, place in labels]
    taken = [_box(place, np.full(2, _MARK)) for place in places]
    for (text, place), at in zip(labels, places, strict=True):
        look: Look = {"xytext": (0, 0), "fontsize": _FONT, "ha": "center", "va": "center"}
        label = axes.annotate(text, place, textcoords="offset points", **look)
        half = np.asarray(label.get_window_extent().size) * pt / 2
        offsets = [
            np.asarray(side) * (half + _MARK + distance)
            for distance, side in itertools.product(_DISTANCES, _SIDES)
        ]
        covered = np.array(taken)
        costs = [_overlap(_box(at + one, half), covered) for one in offsets]
        offset = offsets[costs.index(min(costs))]
        label.set_position((offset[0], offset[1]))
        taken.append(_box(at + offset, half))


def _box(center: FloatArray, half: FloatArray) -> FloatArray:
    """Return left, bottom, right and top."""
    return np.concatenate([center - half, center + half])


def _overlap(box: FloatArray, others: FloatArray) -> float:
    """Return the area that a box has in common with others, of shape (n, 4)."""
    common = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return round(float(np.prod(np.maximum(common, 0.0), axis=1).sum()), 3)
