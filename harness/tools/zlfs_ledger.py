"""Parse zlfs' own ledger (docs/zlfs.md): one line per second and one at each close."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.errors import ToolFailed
from harness.store.ledger import OwnCounts
from harness.tools.native import whole

METADATA_ZONES = 3  # in which the metadata log goes round
_CLOSE = '"event":"close"'
_NOTHING_RETIRED = '"retired":[]'
_MOUNTED = re.compile(r'"mounted":(\d{1,12})\b')


def read(path: Path, zone_capacity: int) -> tuple[OwnCounts, float | None]:
    """Parse the ledger of a level that is up; all is zero before the first mount creates it.

    Raises:
        ToolFailed: as for ``parse``.
    """
    if not path.exists():
        return parse((), zone_capacity)
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        return parse(lines, zone_capacity)


def parse(lines: Iterable[str], zone_capacity: int) -> tuple[OwnCounts, float | None]:
    """Add up the last line of every mount; an incomplete line is ignored.

    Returns the counts, and the seconds while garbage was collected (null: not counted). The only
    known space is ``pad``: what was given up in zones that were not reset since.

    Lines that change nothing are not decoded, so hours of samples cost little.

    Raises:
        ToolFailed: a line is malformed; the message names it.
    """
    reader = _LedgerReader(zone_capacity)
    for number, line in enumerate(lines, 1):
        if line.endswith("\n"):
            reader.take(line, number)
    return reader.totals()


class _LedgerReader:
    def __init__(self, zone_capacity: int) -> None:
        self._capacity = zone_capacity
        self._open: tuple[str, int] | None = None  # the last line of a mount that has not closed
        self._payload: Counter[str] = Counter()
        self._filling: Counter[str] = Counter()
        self._given_up: Counter[str] = Counter()
        self._finishes: Counter[str] = Counter()
        self._resets = 0
        self._collecting_ns: int | None = 0
        self._in_place: dict[int, int] = {}

    def take(self, line: str, number: int) -> None:
        if self._open is not None and _mount(*self._open) != _mount(line, number):
            self._add(*self._open)  # the process of that mount was killed
        self._open = (line, number)
        if _NOTHING_RETIRED not in line:
            self._retire(line, number)
        if _CLOSE in line:
            self._add(line, number)
            self._open = None

    def totals(self) -> tuple[OwnCounts, float | None]:
        if self._open is not None:
            self._add(*self._open)
            self._open = None
        counts = OwnCounts(
            payload=dict(self._payload),
            filling=dict(self._filling),
            given_up=dict(self._given_up),
            finishes=self._finishes.total(),
            resets=self._resets,
            space={"pad": sum(self._in_place.values())},
            metadata_zones=METADATA_ZONES,
            finishes_by=dict(self._finishes),
        )
        return counts, None if self._collecting_ns is None else self._collecting_ns / 1e9

    def _add(self, line: str, number: int) -> None:
        try:
            record = _decode(line)
            for cause, part in record["written"].items():
                self._payload[cause] += whole(part["payload"])
                self._filling[cause] += whole(part["pad"])
            for cause, part in record["finishes"].items():
                self._given_up[cause] += whole(part["given_up"])
                self._finishes[cause] += whole(part["count"])
            self._resets += sum(whole(count) for count in record["resets"].values())
            if self._collecting_ns is not None:
                spent = record.get("collecting_ns")
                self._collecting_ns = None if spent is None else self._collecting_ns + whole(spent)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _damaged(line, number) from None

    def _retire(self, line: str, number: int) -> None:
        """Track capacity that finishes gave up, until the zone is reset."""
        try:
            for zone, what, occupied, *_ in _decode(line)["retired"]:
                if what == "finish":
                    self._in_place[zone] = self._capacity - whole(occupied)
                else:
                    self._in_place.pop(zone, None)
        except (ValueError, KeyError, TypeError):
            raise _damaged(line, number) from None


def _mount(line: str, number: int) -> str:
    match = _MOUNTED.search(line)
    if match is None:
        raise _damaged(line, number)
    return match[1]


def _decode(line: str) -> dict[str, Any]:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise TypeError
    return record


def _damaged(line: str, number: int) -> ToolFailed:
    return ToolFailed(
        f"line {number} of zlfs' ledger is damaged: {line.strip()[:120]}",
        hint="see raw/ledger.jsonl.xz",
        code="output-malformed",
    )
