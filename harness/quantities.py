"""Parse and print sizes, times and shares: ``6MiB``, ``400MB``, ``2 GiB``, ``10min``, ``80%``.

Binary units are powers of 1024 (MiB = 2**20), decimal units powers of 1000 (MB = 10**6). A number
without a unit is in bytes, in seconds, or a plain share.
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
# Prefixes as QEMU and RocksDB write them: always powers of 1024.
BINARY_PREFIXES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
TIMES = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_QEMU_SIZE = re.compile(r"(\d+)([KMGT]?)", re.ASCII)
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+|%)?\s*", re.ASCII)

# No device, file or timeout needs more. Larger numbers are typing errors, and floats round them.
LARGEST = 2**63


def parse_size(value: object) -> int:
    """Return a size in bytes.

    Raises:
        ConfigError: not a number with a known size unit, or not a whole number of bytes.
    """
    return _parse(value, SIZES, "size")


def parse_qemu_size(value: object) -> int:
    """Return a size in bytes as QEMU reads it: ``8M`` is 8 MiB.

    Raises:
        ConfigError: not a whole number with an optional K, M, G or T.
    """
    match = None if isinstance(value, bool) else _QEMU_SIZE.fullmatch(str(value))
    if match is None:
        raise ConfigError(
            f"expected a size such as 8M (units K, M, G, T), got {value!r}", code="unknown-unit"
        )
    return int(match[1]) * BINARY_PREFIXES.get(match[2], 1)


def parse_seconds(value: object) -> int:
    """Return a time in seconds. Raises ConfigError like ``parse_size``."""
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
    """Format bytes in binary units: ``2304.0 MiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        if abs(value) >= 10 * SIZES[unit]:
            return f"{value / SIZES[unit]:.1f} {unit}"
    return f"{value:.0f} B"
