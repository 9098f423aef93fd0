"""Arithmetic with numbers that may be null: a result that needs a null is null."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

Number = TypeVar("Number", int, float)


def difference(before: Number | None, after: Number | None) -> Number | None:
    """Return after - before, or None if either is None."""
    return None if before is None or after is None else after - before


def total(values: Iterable[Number | None]) -> Number | None:
    """Return the sum, or None if any value is None; an empty sum is 0."""
    known = list(values)
    return None if None in known else cast("Number", sum(value or 0 for value in known))


def ratio(above: float | None, below: float | None) -> float | None:
    """Return above / below, or None if either is None or ``below`` is 0."""
    return above / below if above is not None and below else None


def text(value: object) -> str:
    """Return a value as text; null is empty."""
    return "" if value is None else str(value)
