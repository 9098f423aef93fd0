"""Formats numbers for people. JSON and CSV carry the raw values instead."""

from __future__ import annotations

import math

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
DASH = "-"
_SMALL, _LARGE = 1e-3, 1000


def finite(value: float | None) -> float | None:
    """Return null for infinity and NaN, which JSON cannot hold."""
    return value if value is not None and math.isfinite(value) else None


def human(value: float | None, unit: str) -> str:
    """Format a value with its unit; None is a dash.

    Bytes are scaled by powers of 1024, rates by powers of 1000.
    """
    if value is None:
        return DASH
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else DASH
    factor, name = scale(abs(value), unit)
    return f"{digits(value / factor)} {name}".rstrip()


def scale(largest: float, unit: str) -> tuple[float, str]:
    """Return the divisor and unit name that make ``largest`` readable. Plot axes use it too."""
    if unit in ("B", "B/s"):
        power = min(len(_BINARY) - 1, int(math.log2(largest) // 10)) if largest >= 1 else 0
        return float(1024**power), _BINARY[power] + unit[1:]
    if unit == "ops/s":
        return _decimal(largest, ((1e6, "Mops/s"), (1e3, "Kops/s")), "ops/s")
    if unit == "us":
        return _decimal(largest, ((1e6, "s"), (1e3, "ms")), "µs")
    return 1.0, "" if unit == "1" else unit


def digits(value: float) -> str:
    """Format with about three significant digits. Only values below 0.001 may get an exponent."""
    size = abs(value)
    if value == 0 or (size >= _LARGE and value == int(value)):
        return f"{value:,.0f}"
    if size < _SMALL:
        return f"{value:.2g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(size)))}f}"


def block_size(value: float) -> str:
    """Format the size of a command: whole KiB without decimals."""
    return f"{value / 1024:g} KiB" if value % 1024 == 0 else f"{value:g} B"


def formatted(value: float | None, form: str) -> str:
    """Format by a format specification; None is a dash."""
    return DASH if value is None else format(value, form)


def ratio(value: float | None) -> str:
    """Format a ratio: three decimals from 0.01 to 10, else about three significant digits."""
    if value is None or not math.isfinite(value):
        return DASH if value is None else "∞"
    return f"{value:.3f}" if 0.01 <= value < 10 else digits(value)  # noqa: PLR2004 - layout only


def _decimal(largest: float, steps: tuple[tuple[float, str], ...], base: str) -> tuple[float, str]:
    return next(((f, name) for f, name in steps if largest >= f), (1.0, base))
