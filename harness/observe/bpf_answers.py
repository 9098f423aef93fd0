"""What bpftrace's answers add up to: for the run that asks, and for ``zonelab verify``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.errors import ToolFailed
from harness.observe.zone_trace import (
    ASKED,
    Life,
    Totals,
    Transition,
    command_name,
    difference,
    transition,
)
from harness.tools.bpftrace import Map, Printed, Record

Maps = dict[str, dict[tuple[int, ...], Any]]
Counts = Mapping[tuple[str, str, int], int]


class Grouping:
    """Puts the maps of an answer together, as they are printed; empty ones are not printed."""

    def __init__(self) -> None:
        self._maps: Maps = {}

    def take(self, record: Record) -> Maps | None:
        """Take in the next record; return the answer that it ends."""
        if isinstance(record, Map):
            self._maps[record.name] = record.values
        elif record == Printed("snapshot"):
            self._maps = {}
        elif record == Printed("end"):
            return self._maps
        return None


def grouped(records: Iterable[Record]) -> Iterator[Maps]:
    """Yield every whole answer."""
    grouping = Grouping()
    for record in records:
        maps = grouping.take(record)
        if maps is not None:
            yield maps


class Answers:
    """Adds up answers. The first tells what was counted before, and counts for nothing.

    ``@commands`` and ``@bytes`` are totals; ``@zones`` and ``@changes`` have what is new.

    Args:
        names: of the devices, which the program numbers from 1.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._before: tuple[Counts, Counts] | None = None
        self._commands: Counts = {}
        self._bytes: Counts = {}
        self._zones: Counter[tuple[str, int, Life, str]] = Counter()
        self._transitions: list[Transition] = []
        self._seen: Counter[tuple[str, str, int]] = Counter()
        self.taken = 0

    def take(self, maps: Maps) -> None:
        """Take in the next answer.

        Raises:
            ToolFailed: it is not what the program stores.
        """
        commands, sizes = self._counts(maps, "@commands"), self._counts(maps, "@bytes")
        self.taken += 1
        if self._before is None:
            self._before = (commands, sizes)
            return
        self._commands = difference(self._before[0], commands)
        self._bytes = difference(self._before[1], sizes)
        for (device, zone, life, lives, command), count in maps.get("@zones", {}).items():
            key = (self._names[device - 1], zone, (life, lives), command_name(command))
            self._zones[key] += int(count)
        fresh = self._changes(maps)
        self._transitions += fresh
        for item in fresh:
            if item.seconds is not None:
                self._seen[item.device, item.action, item.error] += 1

    def totals(self) -> Totals:
        """Return the counts, with the transitions that were not returned before."""
        fresh, self._transitions = tuple(self._transitions), []
        return Totals(
            commands=self._commands,
            bytes=self._bytes,
            zones=dict(self._zones),
            transitions=fresh,
            problems=tuple(self._missing()),
            answers=self.taken,
        )

    def _missing(self) -> Iterator[str]:
        """Say what was counted and is in no zone, or not in the timeline: a map was full."""
        for name in sorted({name for name, *_ in self._zones}):
            by_zone = sum(count for (of, *_), count in self._zones.items() if of == name)
            done = sum(n for (of, _, status), n in self._bytes.items() if (of, status) == (name, 0))
            if by_zone != done:
                yield f"{name}: {done - by_zone} B have no zone"
        if {key: n for key, n in self._commands.items() if key[1] in ASKED} != dict(self._seen):
            yield "zone commands that were counted are missing from the timeline"

    def _counts(self, maps: Maps, name: str) -> dict[tuple[str, str, int], int]:
        return {
            (self._names[device - 1], command_name(command), status): int(count)
            for (device, command, status), count in maps.get(name, {}).items()
        }

    def _changes(self, maps: Maps) -> list[Transition]:
        try:
            found = [transition(*item, self._names) for item in maps.get("@changes", {}).items()]
        except (ValueError, IndexError, TypeError) as error:
            raise ToolFailed(f"bpftrace's map @changes: {error}", code="output-malformed") from None
        return sorted(found, key=lambda item: item.time)
