"""Differences between two records, field by field, as lines of text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from harness.store.codec import encode

_ABSENT = object()


def differences(
    where: str,
    stored: Any,
    wanted: Any,
    *,
    source: str = "the study gives",
    without: Collection[str] = (),
) -> Iterator[str]:
    """Yield ``<where>: <field>: has …, <source> …`` for each value that differs.

    ``source`` names the origin of ``wanted``, with a verb. The fields ``without``, at any depth,
    may differ.
    """
    for path, value, other in _pairs("", encode(stored), encode(wanted), frozenset(without)):
        name = f"{where}: {path}" if path else where
        yield f"{name}: has {_text(value)}, {source} {_text(other)}"


def _pairs(
    path: str, stored: Any, wanted: Any, without: frozenset[str]
) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for name in {**wanted, **stored}:
            if name not in without:
                inside = f"{path}.{name}" if path else name
                first, second = stored.get(name, _ABSENT), wanted.get(name, _ABSENT)
                yield from _pairs(inside, first, second, without)
    elif isinstance(stored, list) and isinstance(wanted, list) and len(stored) == len(wanted):
        for index, (first, second) in enumerate(zip(stored, wanted, strict=True)):
            yield from _pairs(f"{path}[{index}]", first, second, without)
    elif stored is _ABSENT or wanted is _ABSENT or stored != wanted:
        yield path, stored, wanted


def _text(value: Any) -> str:
    return "nothing" if value is _ABSENT else f"{value!r}"[:200]
