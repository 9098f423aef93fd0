"""The ledger that zlfs keeps of itself (docs/zlfs.md), one line a second and one at each close."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ToolFailed

_CLOSE = '"event":"close"'
_NOTHING_RETIRED = '"retired":[]'
_MOUNTED = re.compile(r'"mounted":(\d{1,12})\b')


@dataclass(frozen=True, slots=True)
class Totals:
    """What all mounts did to the device so far; bytes by cause.

    ``payload`` and ``filling`` were written, ``given_up`` is capacity that finishing lost, and
    ``given_up_now`` the part of it in zones that have not been reset since.
    """

    payload: Mapping[str, int]
    filling: Mapping[str, int]
    given_up: Mapping[str, int]
    finishes: int
    resets: int
    given_up_now: int
    finishes_by: Mapping[str, int]


def read(path: Path, zone_capacity: int) -> Totals:
    """Read the file of a level that is up; zeros before the first mount makes it.

    Raises:
        ToolFailed: as ``parse``.
    """
    if not path.exists():
        return parse((), zone_capacity)
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        return parse(lines, zone_capacity)


def parse(lines: Iterable[str], zone_capacity: int) -> Totals:
    """Add up the last line of every mount; a line without its end is left out.

    Only lines that say something are decoded, so that hours of samples cost little.

    Raises:
        ToolFailed: a line is not zlfs'; the message names it.
    """
    reader = _Reader(zone_capacity)
    for number, line in enumerate(lines, 1):
        if line.endswith("\n"):
            reader.take(line, number)
    return reader.totals()


class _Reader:
    def __init__(self, zone_capacity: int) -> None:
        self._capacity = zone_capacity
        self._open: tuple[str, int] | None = None  # the last line of a mount that has not closed
        self._payload: Counter[str] = Counter()
        self._filling: Counter[str] = Counter()
        self._given_up: Counter[str] = Counter()
        self._finishes: Counter[str] = Counter()
        self._resets = 0
        self._in_place: dict[int, int] = {}

    def take(self, line: str, number: int) -> None:
        if self._open is not None and _mount(*self._open) != _mount(line, number):
            self._add(*self._open)  # that process was killed
        self._open = (line, number)
        if _NOTHING_RETIRED not in line:
            self._retire(line, number)
        if _CLOSE in line:
            self._add(line, number)
            self._open = None

    def totals(self) -> Totals:
        if self._open is not None:
            self._add(*self._open)
            self._open = None
        return Totals(
            dict(self._payload), dict(self._filling), dict(self._given_up),
            self._finishes.total(), self._resets, sum(self._in_place.values()),
            dict(self._finishes),
        )  # fmt: skip

    def _add(self, line: str, number: int) -> None:
        try:
            record = _decode(line)
            for cause, part in record["written"].items():
                self._payload[cause] += _count(part["payload"])
                self._filling[cause] += _count(part["pad"])
            for cause, part in record["finishes"].items():
                self._given_up[cause] += _count(part["given_up"])
                self._finishes[cause] += _count(part["count"])
            self._resets += sum(_count(count) for count in record["resets"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _damaged(line, number) from None

    def _retire(self, line: str, number: int) -> None:
        """Follow the zones: what finishing gave up is gone until the zone is reset."""
        try:
            for zone, what, occupied, *_ in _decode(line)["retired"]:
                if what == "finish":
                    self._in_place[zone] = self._capacity - _count(occupied)
                else:
                    self._in_place.pop(zone, None)
        except (ValueError, KeyError, TypeError):
            raise _damaged(line, number) from None


def _mount(line: str, number: int) -> str:
    found = _MOUNTED.search(line)
    if found is None:
        raise _damaged(line, number)
    return found[1]


def _decode(line: str) -> dict[str, Any]:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise TypeError
    return record


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _damaged(line: str, number: int) -> ToolFailed:
    return ToolFailed(
        f"line {number} of zlfs' ledger is damaged: {line.strip()[:120]}",
        hint="see raw/ledger.jsonl.xz",
        code="output-malformed",
    )
