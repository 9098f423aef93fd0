"""How small a difference could have been shown, and how many repetitions another one takes.

Both hold the spread of the runs at hand for the true one. From three runs it is known to a factor
of 0.5 to 6.3 only (95 %, chi-square with 2 degrees of freedom): orders of magnitude, not promises.
"""

from __future__ import annotations

import math
from functools import cache

from scipy import optimize
from scipy import stats as scipy_stats

from analysis.stats import CONFIDENCE, Estimate, Method

POWER = 0.8  # convention, Cohen 1988
# From here on a t test of any size shows it in more than 99.8 % of all cases, and not much further
# out scipy's noncentral t is NaN.
_FAR = 40.0
MOST_REPETITIONS = 1000  # beyond this nobody repeats; a larger effect has to be asked for


def power(shift: float, df: float, confidence: float = CONFIDENCE) -> float:
    """Return the chance that a t test shows a true mean of ``shift`` standard errors, its sign too.

    P(T > t(1-a/2, df)) for T noncentral t with df and ``shift`` (Johnson & Welch 1940).
    """
    critical = scipy_stats.t.ppf((1 + confidence) / 2, df)
    return float(scipy_stats.nct.sf(critical, df, min(shift, _FAR)))


@cache
def shift_needed(df: float) -> float:
    """Return how many standard errors from zero a mean must be to be shown with POWER."""
    return float(optimize.brentq(lambda shift: power(shift, df) - POWER, 0.0, _FAR, xtol=1e-6))


def detectable(found: Estimate) -> float | None:
    """Return the smallest relative difference that these runs would show with POWER.

    exp(shift · standard error) - 1 of ratios; None where there is no interval, or no ratio.
    """
    if found.error is None or found.df is None or not found.is_ratio or found.error == 0:
        return None
    return math.expm1(min(shift_needed(round(found.df, 2)) * found.error, 50.0))


def repetitions(found: Estimate, effect: float) -> int | None:
    """Return the smallest n with which a relative difference of ``effect`` is shown with POWER.

    The spread of one within-block log ratio is s = error·√n (for Welch's t: n is the harmonic
    mean of both sides, and there are 2n - 2 degrees of freedom). None: no spread is known, or
    more than MOST_REPETITIONS.
    """
    if found.error is None or not found.is_ratio or effect <= 0:
        return None
    paired = found.method is Method.PAIRED
    n = 2 * found.n_base * found.n_level / (found.n_base + found.n_level)
    spread, wanted = found.error * math.sqrt(n), math.log1p(effect)

    def enough(n: int) -> bool:
        df = n - 1 if paired else 2 * n - 2
        return spread == 0 or power(wanted * math.sqrt(n) / spread, df) >= POWER

    low, high = 2, MOST_REPETITIONS
    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
