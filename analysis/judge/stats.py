"""Statistics of a comparison: pure functions on numbers. docs/methods.md has the formulas.

The unit of replication is the run. Logs are natural. All intervals are two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy import stats as scipy_stats

from analysis.judge.verdicts import Verdict
from analysis.read.arrays import FloatArray
from harness.metrics.catalogue import Better

CONFIDENCE = 0.95
ALPHA = 0.05  # not 1 - CONFIDENCE, which rounds to more: a p of exactly 0.05 shows nothing
# Smallest relative difference that gets a verdict. On a quiet machine, bytes written by A/A cells
# differ by about this much. The option --noise-floor changes it.
NOISE_FLOOR = 0.01
MINIMUM_RUNS = 2  # fewer runs have no spread, so no interval and no verdict
# If a count takes two values at random, it is constant on each side, but different between the
# sides, in at most 2 / 4^n of all comparisons: 12.5 % with 2 runs a side, 3.1 % with 3.
MINIMUM_EXACT = 3
# Spreads up to this share of the values count as rounding errors.
_ROUNDING = 1e-12
# With fewer runs Satterthwaite's degrees of freedom are too high: 95 % intervals cover 90 %
# (docs/simulations.md, "Coverage").
MINIMUM_SATTERTHWAITE = 3


class Method(StrEnum):
    """The method of an interval."""

    PAIRED = "paired t"
    WELCH = "Welch t"
    EXACT = "exact"
    CELLS = "identical cells"
    CAMPAIGNS = "random effects"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A level against its baseline.

    ``center`` is a ratio of geometric means if ``is_ratio``, else a difference of means in the
    metric's unit. ``low`` and ``high`` bound it; None without an interval. ``error`` is the
    standard error of the mean log ratio or of the difference, ``df`` its degrees of freedom.
    ``between_cells`` is the part of error² that more repetitions do not reduce.
    """

    is_ratio: bool
    center: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n_base: int
    n_level: int
    method: Method
    base_mean: float | None
    mean: float | None
    error: float | None = None
    df: float | None = None
    between_cells: float = 0.0

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The interval's ends; both are the center of an exact estimate."""
        exact = self.method is Method.EXACT
        return (self.center, self.center) if exact else (self.low, self.high)

    @property
    def n(self) -> int:
        """Runs of the smaller side; the number of blocks when paired."""
        return min(self.n_base, self.n_level)


def estimate(
    base: Mapping[str, float],
    level: Mapping[str, float],
    *,
    exact_allowed: bool,
) -> Estimate:
    """Compare two groups of runs, given as block → value.

    Blocks that both sides have get a paired t on within-block log ratios; other runs are then
    left out. If fewer than half of the larger side have a partner, all runs get Welch's t on logs.
    If a value is zero or negative, the same tests on the raw values give a difference. Values that
    do not vary are exact from three runs a side, if ``exact_allowed`` (bytes, counts). With fewer
    runs, and for times, there is no interval.
    """
    x, y = _values(base, sorted(base)), _values(level, sorted(level))
    smaller = min(len(x), len(y))
    exact = exact_allowed and smaller >= MINIMUM_EXACT and np.ptp(x) == np.ptp(y) == 0
    common = sorted(base.keys() & level.keys())
    paired = len(common) >= max(MINIMUM_RUNS, max(len(x), len(y)) / 2)
    if paired and not exact:
        x, y = _values(base, common), _values(level, common)
    is_ratio = bool(np.all(x > 0) and np.all(y > 0))
    base_mean, mean = _mean(x, is_ratio), _mean(y, is_ratio)
    center = None
    if base_mean is not None and mean is not None:
        center = mean / base_mean if is_ratio else mean - base_mean

    def result(method: Method, found: Interval | None = None, p: float | None = None) -> Estimate:
        bounds: tuple[float | None, float | None] = (None, None)
        if found is not None:
            edges = float(found.low), float(found.high)
            bounds = (_exp(edges[0]), _exp(edges[1])) if is_ratio else edges
            p = float(found.p)
        return Estimate(
            is_ratio,
            center,
            *bounds,
            p,
            len(x),
            len(y),
            method,
            base_mean,
            mean,
            float(found.error) if found else None,
            float(found.df) if found else None,
        )

    if smaller < MINIMUM_RUNS:
        return result(Method.NONE)
    if exact:
        return result(Method.EXACT, p=0.0 if x[0] != y[0] else 1.0)
    if is_ratio:
        x, y = np.log(x), np.log(y)
    found = paired_t(y - x) if paired else welch_t(x, y)
    rounding = _ROUNDING * max(1.0, float(np.abs(x).max()), float(np.abs(y).max()))
    if found.error <= rounding < abs(found.center):
        return result(Method.NONE)  # without spread the uncertainty is unknown
    return result(Method.PAIRED if paired else Method.WELCH, found)


class Interval(NamedTuple):
    """Bounds of a mean, p for a true mean of zero, standard error and degrees of freedom.

    Arrays have the leading axes of the input: one entry per experiment.
    """

    center: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    error: FloatArray
    df: FloatArray


def paired_t(differences: FloatArray, confidence: float = CONFIDENCE) -> Interval:
    """Return Student's t on differences, shape (..., n), n >= 2.

    Source: Student 1908; mean ± t(1-a/2, n-1)·s/√n.
    """
    n = differences.shape[-1]
    error = np.std(differences, axis=-1, ddof=1) / math.sqrt(n)
    df = np.full_like(error, n - 1)
    return t_interval(np.mean(differences, axis=-1), error, df, confidence)


def welch_t(x: FloatArray, y: FloatArray) -> Interval:
    """Return Welch's t of mean(y) - mean(x), shapes (..., n) and (..., m), n, m >= 2.

    Source: Welch 1947, degrees of freedom after Satterthwaite 1946. If a side has only two
    values, the degrees of freedom are those of the smaller side. This is conservative (Welch 1938:
    they lie between min(n, m) - 1 and n + m - 2).
    """
    n, m = x.shape[-1], y.shape[-1]
    vx, vy = np.var(x, axis=-1, ddof=1) / n, np.var(y, axis=-1, ddof=1) / m
    df = np.full_like(vx, min(n, m) - 1)
    if min(n, m) >= MINIMUM_SATTERTHWAITE:
        spread = vx**2 / (n - 1) + vy**2 / (m - 1)
        np.divide((vx + vy) ** 2, spread, out=df, where=spread > 0)
    return t_interval(np.mean(y, axis=-1) - np.mean(x, axis=-1), np.sqrt(vx + vy), df)


def t_interval(
    center: FloatArray, error: FloatArray, df: FloatArray, confidence: float = CONFIDENCE
) -> Interval:
    """Return center ± t(1-a/2, df)·error. If the error is 0, p is 1 for a center of 0, else 0."""
    half = scipy_stats.t.ppf((1 + confidence) / 2, df) * error
    size = np.abs(center)
    quotient = np.divide(size, error, out=np.where(size > 0, np.inf, 0.0), where=error > 0)
    p = np.asarray(2 * scipy_stats.t.sf(quotient, df), dtype=np.float64)
    return Interval(center, center - half, center + half, p, error, df)


def geometric_mean(values: Sequence[float] | FloatArray) -> float:
    """Return exp(mean(log v)) of positive values."""
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=np.float64)))))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p values in the order given (Holm 1979, step-down)."""
    count = len(p_values)
    adjusted = [0.0] * count
    running = 0.0
    for rank, index in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def verdict(
    found: Estimate,
    better: Better,
    *,
    noise_floor: float = NOISE_FLOOR,
    p_value: float | None = None,
    claimed: bool = True,
) -> Verdict:
    """Return the verdict on an estimate.

    A difference is shown if its whole interval lies beyond the noise floor. For a claim, the
    Holm-adjusted ``p_value`` decides instead. Rows that are not claims are lower or higher.
    """
    if found.method is Method.NONE or found.center is None:
        return Verdict.TOO_FEW
    if better is Better.NONE:
        return Verdict.DESCRIPTIVE
    p = p_beyond(found, noise_floor) if p_value is None else p_value
    if p is None or p >= ALPHA:
        return Verdict.NO_DIFFERENCE
    rises = found.center > (1.0 if found.is_ratio else 0.0)
    if not claimed:
        return Verdict.HIGHER if rises else Verdict.LOWER
    return Verdict.BETTER if rises == (better is Better.HIGHER) else Verdict.WORSE


def p_beyond(found: Estimate, floor: float) -> float | None:
    """Return p for a true difference within the noise floor; null without an interval.

    For ratios, logs are compared and the floor is log(1 + floor). An infinite floor covers all.
    """
    if found.method is Method.NONE or found.center is None or found.base_mean is None:
        return None
    if math.isinf(floor):  # one of two identical cells is always 0
        return 1.0
    if found.is_ratio:
        center, floor = math.log(found.center), math.log1p(floor)
    else:
        center, floor = found.center, floor * abs(found.base_mean)
    if not found.error or found.df is None:  # exact
        return 0.0 if abs(center) > floor else 1.0
    return float(minimum_effect(np.float64(center), found.error, found.df, floor))


def minimum_effect(
    center: FloatArray | float,
    error: FloatArray | float,
    df: FloatArray | float,
    floor: FloatArray | float,
) -> FloatArray:
    """Return p for |true center| <= floor: 2 * P(T > (|center| - floor) / error), at most 1.

    It is below 0.05 exactly if the 95 % interval lies beyond the floor. Shapes are those of center.
    Source: minimum-effect test, Murphy and Myors 1999.
    """
    beyond = (np.abs(center) - floor) / error
    return np.asarray(np.minimum(1.0, 2 * scipy_stats.t.sf(beyond, df)))


def relative_change(found: Estimate) -> float:
    """Return (level - baseline) / baseline; infinite if the baseline's mean is zero."""
    if found.center is None or found.base_mean is None:
        return 0.0
    if found.is_ratio:
        return found.center - 1.0
    if found.center == 0:
        return 0.0
    return (
        found.center / abs(found.base_mean)
        if found.base_mean
        else math.copysign(math.inf, found.center)
    )


def _values(group: Mapping[str, float], blocks: Sequence[str]) -> FloatArray:
    return np.array([group[block] for block in blocks], dtype=np.float64)


def _mean(values: FloatArray, geometric: bool) -> float | None:
    if len(values) == 0:
        return None
    if geometric:
        # exp(log v) can differ from v in its last digit, so values that do not vary stay unchanged.
        return float(values[0]) if np.ptp(values) == 0 else geometric_mean(values)
    return float(np.mean(values))


def _exp(value: float) -> float:
    return math.exp(value) if value < math.log(1e300) else math.inf
