"""Numbers for people. json and csv carry the raw values instead."""

from __future__ import annotations

import math

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
DASH = "-"
_SMALL, _LARGE = 1e-3, 1000


def human(value: float | None, unit: str) -> str:
    """Format one value: bytes in powers of 1024, rates in powers of 1000, null as a dash."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else DASH
    factor, name = scale(abs(value), unit)
    return f"{digits(value / factor)} {name}".rstrip()


def scale(largest: float, unit: str) -> tuple[float, str]:
    """Return (divisor, unit name) that make ``largest`` readable, also for a plot axis."""
    if unit in ("B", "B/s"):
        power = min(len(_BINARY) - 1, int(math.log2(largest) // 10)) if largest >= 1 else 0
        return float(1024**power), _BINARY[power] + unit[1:]
    if unit == "ops/s":
        return _decimal(largest, ((1e6, "Mops/s"), (1e3, "Kops/s")), "ops/s")
    if unit == "us":
        return _decimal(largest, ((1e6, "s"), (1e3, "ms")), "µs")
    return 1.0, "" if unit == "1" else unit


def digits(value: float) -> str:
    """Format with about three significant digits and never an exponent for usual sizes."""
    size = abs(value)
    if value == 0 or (size >= _LARGE and value == int(value)):
        return f"{value:,.0f}"
    if size < _SMALL:
        return f"{value:.2g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(size)))}f}"


def ratio(value: float | None) -> str:
    """Format a ratio: three decimals near 1, else three significant digits."""
    if value is None or not math.isfinite(value):
        return DASH if value is None else "∞"
    return f"{value:.3f}" if value < 10 else digits(value)  # noqa: PLR2004 - layout only


def _decimal(largest: float, steps: tuple[tuple[float, str], ...], base: str) -> tuple[float, str]:
    return next(((f, name) for f, name in steps if largest >= f), (1.0, base))
