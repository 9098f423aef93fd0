"""Keeps checks of ``zonelab verify`` apart: a damaged file ends only those that read it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import ZonelabError

# What reading a damaged file raises.
DAMAGE = (ZonelabError, AttributeError, IndexError, KeyError, TypeError, ValueError)


def check(lines: Iterator[str], file: str) -> Iterator[str]:
    """Yield the lines of one check, and a last one if ``file``, which it reads, is damaged."""
    try:
        yield from lines
    except DAMAGE as error:
        yield line(error, file)


def line(error: Exception, file: str) -> str:
    """Return the line about a damaged file."""
    if isinstance(error, ZonelabError):
        return error.message
    return f"{file}: is damaged: {type(error).__name__}: {error}"
