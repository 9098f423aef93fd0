"""Fits the numbers of a model that are marked ``fitted`` to measured points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from analysis.model import validation
from analysis.model.validation import CurveError
from analysis.read.points import MeasuredPoint
from harness.errors import UsageError
from harness.plan.curve_models import CurveSet
from harness.plan.drive_models import DriveModel
from harness.plan.drive_values import BANDWIDTHS, BYTES, TIMES, number, sourced
from harness.plan.load import build, nearest

# A parameter changes by at most this factor. The search's step exceeds the rounding to ns.
_RANGE, _STEP = 4.0, 0.02
# Errors are in units of tolerances; above this many, an error counts linearly.
_SOFT = 2.0
_US = 1000
# Pairs whose first number is at most the second; zonemodel refuses others.
_ORDERED = (
    ("flash.read_spread", "flash.read_4k"),
    ("flash.read_4k", "flash.read_page"),
    ("flash.suspend_min", "flash.suspend_max"),
    ("flash.program_spread", "flash.program"),
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted model: its data, the values before and after, and the errors."""

    data: dict[str, Any]
    before: dict[str, str]
    after: dict[str, str]
    errors: list[CurveError]


def parameters(model: DriveModel) -> list[str]:
    """Return the names of numbers marked ``fitted`` that are times or bandwidths."""
    return [
        name
        for name, leaf in sourced(model.model_dump(mode="json", exclude_none=True))
        if leaf["origin"] == "fitted" and _unit(leaf["value"]) is not None
    ]


def fit(
    model: DriveModel,
    curves: CurveSet,
    points: Sequence[MeasuredPoint],
    *,
    names: Collection[str],
    source: str,
    threads: int,
    rounds: int,
    on_progress: Callable[[int, float], None] = lambda _evaluations, _mean: None,
) -> Fitted:
    """Change the named numbers so that the model's core curves fit the points.

    ``source`` is written beside each changed value.

    Raises:
        UsageError: a name is not a fitted number.
    """
    data: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    known = parameters(model)
    for name in names:
        if name not in known:
            raise UsageError(f"{name} is not a fitted number", hint=nearest(name, known))
    leaves = dict(sourced(data))
    chosen = [leaf for name, leaf in leaves.items() if name in names]
    start = [_magnitude(leaf["value"]) for leaf in chosen]
    core = [p for p in points if _is_core(curves, p)]
    count = 0

    def residuals(factors: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal count
        count += 1
        _set(chosen, start, factors)
        _keep_order(leaves, names)
        errors = validation.validate(build(DriveModel, data, model.name), curves, core, threads)
        on_progress(count, validation.core_mean(errors))
        return np.array([_residual(one) for curve in errors for one in curve.points])

    before = {name: leaf["value"] for name, leaf in leaves.items() if name in names}
    solved = least_squares(
        residuals,
        np.ones(len(chosen)),
        bounds=(1 / _RANGE, _RANGE),
        diff_step=np.full(len(chosen), _STEP),
        x_scale=1.0,
        loss="soft_l1",
        f_scale=_SOFT,
        max_nfev=rounds,
    )
    _set(chosen, start, solved.x)
    _keep_order(leaves, names)
    for leaf in chosen:
        leaf["source"] = source
    errors = validation.validate(build(DriveModel, data, model.name), curves, points, threads)
    after = {name: leaves[name]["value"] for name in before}
    return Fitted(data, before, after, errors)


def _is_core(curves: CurveSet, point: MeasuredPoint) -> bool:
    curve = curves.curves[point.curve]
    return point.tolerance is not None and curve.statistics.get(point.statistic) == "core"


def _residual(one: validation.Compared) -> float:
    tolerance = one.point.tolerance or 1.0
    return (1.0 if one.error is None else one.error) / tolerance


def _unit(value: Any) -> dict[str, int] | None:
    if not isinstance(value, str):
        return None
    for units in (BANDWIDTHS, TIMES):
        if any(value.endswith(unit) for unit in units) and not value.endswith(tuple(BYTES)):
            return units
    return None


def _magnitude(value: str) -> float:
    units = _unit(value)
    assert units is not None  # noqa: S101 - only such values are chosen
    return float(number(value, units, "value"))


def _set(
    leaves: Sequence[dict[str, Any]], start: Sequence[float], factors: NDArray[np.float64]
) -> None:
    for leaf, first, factor in zip(leaves, start, factors, strict=True):
        leaf["value"] = _text(first * float(factor), _unit(leaf["value"]) is BANDWIDTHS)


def _keep_order(leaves: Mapping[str, dict[str, Any]], names: Collection[str]) -> None:
    """Move a number that the search changed back to the limit that another number sets."""
    for low, high in _ORDERED:
        if low not in leaves or high not in leaves:
            continue
        if _magnitude(leaves[low]["value"]) > _magnitude(leaves[high]["value"]):
            moves, stays = (high, low) if high in names else (low, high)
            leaves[moves]["value"] = leaves[stays]["value"]


def _text(magnitude: float, bandwidth: bool) -> str:
    if bandwidth:
        return f"{magnitude / BANDWIDTHS['MiB/s']:.1f}MiB/s"
    if magnitude >= 10**9:
        return f"{round(magnitude)}ns"
    microseconds = f"{round(magnitude) / _US:.3f}"
    return f"{microseconds.rstrip('0').rstrip('.')}us"
