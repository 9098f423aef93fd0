"""Parse and print sizes, times and shares: ``6MiB``, ``400MB``, ``2 GiB``, ``10min``, ``80%``.

Binary units are powers of 1024 (MiB = 2**20), decimal units powers of 1000 (MB = 10**6). A number
without a unit is in bytes, in seconds, or a plain share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

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
# The unit of the kernel's sizes, whatever the block size of the device.
SECTOR = 512
TIMES = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([^\s\d.]\S*)?\s*", re.ASCII)

# No device, file or timeout needs more. Larger numbers are typing errors, and floats round them.
LARGEST = 2**63


def number(value: object, units: Mapping[str, int], what: str) -> Decimal:
    """Return the number that ``value`` stands for, in the unit whose factor is 1.

    Args:
        value: an integer, or a number of 0 or more and a unit as text.
        units: factor of each unit; with an empty name, a number without a unit is accepted.
        what: for messages, such as ``size``.

    Raises:
        ConfigError: no such number, or too large.
    """
    hint = f"known {what} units: {', '.join(filter(None, units))}"
    match = _NUMBER.fullmatch(str(value)) if isinstance(value, int | str) else None
    if match is None or isinstance(value, bool) or (not match[2] and "" not in units):
        raise ConfigError(f"{value!r} is not a {what}", hint=hint, code="unknown-unit")
    factor = units.get(match[2] or "")
    if factor is None:
        raise ConfigError(f"unknown unit {match[2]!r} in {value!r}", hint=hint, code="unknown-unit")
    found = Decimal(match[1]) * factor
    if found >= LARGEST:
        raise ConfigError(
            f"{what} {str(value)[:40]} is too large",
            hint=f"at most {LARGEST - 1}",
            code="too-large",
        )
    return found


def parse_size(value: object) -> int:
    """Return a size in bytes.

    Raises:
        ConfigError: not a number with a known size unit, or not a whole number of bytes.
    """
    return _whole(value, {"": 1, **SIZES}, "size", "B")


def parse_qemu_size(value: object) -> int:
    """Return a size in bytes as QEMU reads it: ``8M`` is 8 MiB. Raises like ``parse_size``."""
    return _whole(value, {"": 1, **BINARY_PREFIXES}, "size", "B")


def parse_seconds(value: object) -> int:
    """Return a time in seconds. Raises like ``parse_size``."""
    return _whole(value, {"": 1, **TIMES}, "time", "s")


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


def _whole(value: object, units: Mapping[str, int], what: str, unit: str) -> int:
    found = number(value, units, what)
    if found != int(found):
        raise ConfigError(
            f"{value!r} is not a whole number of {unit}",
            hint="use a smaller unit, without a fraction",
        )
    return int(found)


def format_size(value: float) -> str:
    """Format bytes in binary units: ``2304.0 MiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        if abs(value) >= 10 * SIZES[unit]:
            return f"{value / SIZES[unit]:.1f} {unit}"
    return f"{value:.0f} B"
