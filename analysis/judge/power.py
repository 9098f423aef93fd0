"""Computes the smallest difference that could be shown, and the repetitions for a given one.

Both use the spread of the recorded runs as the true one. Three runs determine it only to a factor
of 0.5 to 6.3 (95 %, chi-square with 2 degrees of freedom). The results are orders of magnitude.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache

from scipy import optimize
from scipy import stats as scipy_stats

from analysis.judge.stats import CONFIDENCE, Estimate, Method

POWER = 0.8  # convention, Cohen 1988
# Beyond this shift a t test of any size has a power above 99.8 %. Slightly further out scipy's
# noncentral t is NaN.
_FAR = 40.0
MOST_REPETITIONS = 1000  # more are not practical


def power(shift: float, df: float) -> float:
    """Return the chance that a t test shows a true mean of ``shift`` standard errors and its sign.

    P(T > t(1-a/2, df)) for T noncentral t with df and ``shift`` (Johnson & Welch 1940).
    """
    critical = scipy_stats.t.ppf((1 + CONFIDENCE) / 2, df)
    return float(scipy_stats.nct.sf(critical, df, min(shift, _FAR)))


@cache
def shift_needed(df: float) -> float:
    """Return how far from zero, in standard errors, a mean must be to be shown with POWER."""
    return float(optimize.brentq(lambda shift: power(shift, df) - POWER, 0.0, _FAR, xtol=1e-6))


def detectable(found: Estimate, floor: float = 0.0) -> float | None:
    """Return the smallest relative difference that these runs would show with POWER.

    (1 + floor) · exp(shift · standard error) - 1 for ratios, as the whole interval must lie beyond
    the noise floor. None without an interval or without a ratio.
    """
    if found.error is None or found.df is None or not found.is_ratio or found.error == 0:
        return None
    shift = math.log1p(floor) + shift_needed(round(found.df, 2)) * found.error
    return math.expm1(min(shift, 50.0))


def planned(found: Estimate, n: int) -> tuple[float, float]:
    """Return the standard error with ``n`` blocks, by the spread of these runs, and its df.

    The spread of one within-block log ratio is s = error·√runs, with the harmonic mean of both
    sides' runs: with Welch's t the sides can differ. Welch's t has 2n - 2 degrees of freedom. More
    repetitions do not reduce the part between cells.
    """
    runs = 2 * found.n_base * found.n_level / (found.n_base + found.n_level)
    spread = math.sqrt(max(0.0, (found.error or 0.0) ** 2 - found.between_cells) * runs)
    error = math.sqrt(spread**2 / n + found.between_cells)
    df = float(n - 1 if found.method is Method.PAIRED else 2 * n - 2)
    return error, min(df, found.df) if found.between_cells and found.df is not None else df


def repetitions(found: Estimate, effect: float, floor: float = 0.0) -> int | None:
    """Return the smallest n with which a relative difference of ``effect`` is shown with POWER.

    None if the spread is not known, the effect is within the noise floor, or n would exceed
    MOST_REPETITIONS.
    """
    if found.error is None or not found.is_ratio or effect <= floor:
        return None
    wanted = math.log1p(effect) - math.log1p(floor)

    def enough(n: int) -> bool:
        error, df = planned(found, n)
        return error == 0 or power(wanted / error, df) >= POWER

    choices = range(2, MOST_REPETITIONS + 1)
    first = bisect_left(choices, True, key=enough)
    return choices[first] if first < len(choices) else None
