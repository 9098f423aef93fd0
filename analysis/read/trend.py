"""The change of a noisy series over its length, and the error of that change.

A series is given as means of equal blocks. Arrays have shape (..., blocks): leading axes are
independent series.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from analysis.read.arrays import FloatArray

BLOCKS = 20
FEWEST = 5  # blocks left after merging; three degrees of freedom
# A change up to this share of the mean is not a drift: SNIA's limit for the fitted line.
TOLERATED = 0.10
# A steady series excludes a change of this share with 95 %. A line that doubles changes by 2/3.
EXCLUDED = 0.60
_ONE_SIDED, _TWO_SIDED = 0.95, 0.975


class LinearTrend(NamedTuple):
    """The change of the least-squares line from start to end, its standard error and its df."""

    center: FloatArray
    error: FloatArray
    df: FloatArray

    @property
    def drifts(self) -> NDArray[np.bool_]:
        """Whether the change exceeds TOLERATED by more than its error."""
        return np.abs(self.center) - _quantile(_TWO_SIDED, self.df) * self.error > TOLERATED

    @property
    def largest(self) -> FloatArray:
        """The largest change that the series does not exclude."""
        return np.abs(self.center) + _quantile(_ONE_SIDED, self.df) * self.error

    @property
    def steady(self) -> NDArray[np.bool_]:
        """Whether the series shows no drift, and is long enough to exclude a large one."""
        return ~self.drifts & (self.largest <= EXCLUDED)


def change(blocks: FloatArray) -> LinearTrend:
    """Return the change of a series over all its blocks, in units of the values.

    Neighbouring blocks are averaged while residuals correlate at lag 1, so that the error holds
    for series with memory (blocking, Flyvbjerg & Petersen 1989).
    """
    center, error, memory = _line(blocks)
    df = np.full_like(center, blocks.shape[-1] - 2)
    merged = blocks
    correlated = memory > 1 / math.sqrt(blocks.shape[-1])
    while merged.shape[-1] >= 2 * FEWEST and np.any(correlated):
        merged = _halved(merged)
        count = merged.shape[-1]
        own, own_error, memory = _line(merged)
        center = np.where(correlated, own, center)
        error = np.where(correlated, own_error, error)
        df = np.where(correlated, count - 2, df)
        correlated &= memory > 1 / math.sqrt(count)
    return LinearTrend(center, error, df)


def _line(blocks: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the line's change, its error with independent residuals, and their correlation."""
    count = blocks.shape[-1]
    place = np.arange(count) - (count - 1) / 2
    spread = float(np.sum(place**2))
    mean = np.mean(blocks, axis=-1, keepdims=True)
    slope = np.sum(blocks * place, axis=-1) / spread
    rest = blocks - mean - slope[..., None] * place
    squares = np.sum(rest**2, axis=-1)
    error = np.sqrt(squares / (count - 2) / spread)
    products = np.sum(rest[..., 1:] * rest[..., :-1], axis=-1)
    memory = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    return slope * count, error * count, memory


def _halved(blocks: FloatArray) -> FloatArray:
    """Return the means of neighbours; an odd first block is left out."""
    even = blocks[..., blocks.shape[-1] % 2 :]
    return np.asarray((even[..., ::2] + even[..., 1::2]) / 2, dtype=np.float64)


def _quantile(share: float, df: FloatArray) -> FloatArray:
    return np.asarray(scipy_stats.t.ppf(share, df), dtype=np.float64)
