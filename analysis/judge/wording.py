"""The words of a row's numbers: its level, ratio, interval and shares, in tables and sentences."""

from __future__ import annotations

import math

from analysis import numbers
from analysis.judge.rows import Row
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict


def level(row: Row) -> str:
    """Return the level and its stratum."""
    return level_in(row.level, row.stratum)


def level_in(name: str, stratum: str) -> str:
    """Return a level and its stratum, '' if there is only one."""
    return f"{name} ({stratum})" if stratum else name


def short(name: str, stratum: str) -> str:
    """Return a level and the values of its stratum without their factors, for figures."""
    parts = stratum.split(", ") if stratum else []
    return ", ".join([name, *(part.rpartition(" ")[2] for part in parts)])


def ratio(row: Row) -> str:
    """Return the ratio, or the difference if a value is zero; a dash without a result."""
    if has_only_values(row):
        return numbers.DASH
    estimate = row.estimate
    if estimate.is_ratio or estimate.center is None:
        return numbers.ratio(estimate.center)
    return f"diff {numbers.human(estimate.center, row.info.unit)}"


def interval(row: Row) -> str:
    """Return the interval; ``exact`` if values do not vary, a dash if there is none."""
    estimate = row.estimate
    if estimate.method is Method.NONE or has_only_values(row):
        return numbers.DASH
    if estimate.method is Method.EXACT:
        return "exact"
    if estimate.is_ratio:
        return f"{numbers.ratio(estimate.low)} .. {numbers.ratio(estimate.high)}"
    unit = row.info.unit
    return f"{numbers.human(estimate.low, unit)} .. {numbers.human(estimate.high, unit)}"


def has_only_values(row: Row) -> bool:
    """Return whether a row shows no ratio; with too few runs it still shows one."""
    return row.verdict.is_silent and row.verdict is not Verdict.TOO_FEW


def share(value: float) -> str:
    """Return a relative difference: a percentage below 100 %, else a factor."""
    if math.isinf(value):
        return "∞"
    return f"{_two_digits(100 * value)} %" if value < 1 else f"x{_two_digits(1 + value)}"


def _two_digits(value: float) -> str:
    # From 99.5 on, the format g writes an exponent.
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"  # noqa: PLR2004
