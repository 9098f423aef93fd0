"""Sizes, times and shares as people write them: ``6MiB``, ``400MB``, ``2 GiB``, ``10min``, ``80%``.

Binary units are powers of 1024 (MiB = 2**20), decimal ones powers of 1000 (MB = 10**6); a number
without a unit is bytes, seconds or a plain share.
"""

from __future__ import annotations

import re

from harness.errors import ConfigError

SIZES = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
TIMES = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+|%)?\s*", re.ASCII)

# No device, file or timeout needs more; larger numbers are typing errors and would not be exact.
LARGEST = 2**63


def parse_size(value: object) -> int:
    """Return a size in bytes.

    Raises:
        ConfigError: not a number with a known size unit, or not a whole number of bytes.
    """
    return _parse(value, SIZES, "size")


def parse_seconds(value: object) -> int:
    """Return a time in seconds; raises ConfigError as ``parse_size`` does."""
    return _parse(value, TIMES, "time")


def parse_share(value: object) -> float:
    """Return ``80%`` or ``0.8`` as 0.8.

    Raises:
        ConfigError: neither a number nor a percentage.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in {"%", None}:
        raise ConfigError(f"{value!r} is not a share", hint="write 80% or 0.8", code="unknown-unit")
    return float(match[1]) / 100 if match[2] else float(match[1])


def _parse(value: object, units: dict[str, int], what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value, value, what)
    hint = f"known {what} units: {', '.join(units)}"
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(f"{value!r} is not a {what}", hint=hint, code="unknown-unit")
    unit = match[2] or next(iter(units))
    if unit not in units:
        raise ConfigError(f"unknown unit {unit!r} in {value!r}", hint=hint, code="unknown-unit")
    number = float(match[1]) * units[unit]
    _bounded(number, value, what)
    if number != int(number):
        raise ConfigError(f"{value!r} is not a whole number of {next(iter(units))}", hint=hint)
    return int(number)


def _bounded(number: float, value: object, what: str) -> int:
    if number >= LARGEST:
        raise ConfigError(
            f"{what} {str(value)[:40]} is too large",
            hint=f"at most {LARGEST - 1}",
            code="too-large",
        )
    return int(number)


def format_size(value: float) -> str:
    """Return bytes as people read them, in binary units: ``2304.0 MiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        if abs(value) >= 10 * SIZES[unit]:
            return f"{value / SIZES[unit]:.1f} {unit}"
    return f"{value:.0f} B"
