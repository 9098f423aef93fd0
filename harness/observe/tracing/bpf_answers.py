"""Add up the answers of bpftrace, during a run and again in ``zonelab verify``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.errors import ToolFailed
from harness.observe.tracing.zone_history import (
    ASKED,
    TraceTotals,
    Transition,
    ZoneLife,
    command_name,
    difference,
    transition,
)
from harness.tools.bpftrace import Map, Printed, Record

Maps = dict[str, dict[tuple[int, ...], Any]]
Counts = Mapping[tuple[str, str, int], int]


class Grouping:
    """Collects the printed maps of an answer. bpftrace does not print empty maps."""

    def __init__(self) -> None:
        self._maps: Maps = {}

    def take(self, record: Record) -> Maps | None:
        """Add the next record; return the answer if this record completes one."""
        if isinstance(record, Map):
            self._maps[record.name] = record.values
        elif record == Printed("snapshot"):
            self._maps = {}
        elif record == Printed("end"):
            return self._maps
        return None


def grouped(records: Iterable[Record]) -> Iterator[Maps]:
    """Yield every complete answer."""
    grouping = Grouping()
    for record in records:
        maps = grouping.take(record)
        if maps is not None:
            yield maps


class Answers:
    """Adds up answers. The first is the starting point and counts as zero.

    ``@commands`` and ``@bytes`` are totals; ``@zones`` and ``@changes`` are new since the last
    answer. The program numbers the devices, ``names``, from 1.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._before: tuple[Counts, Counts] | None = None
        self._commands: Counts = {}
        self._bytes: Counts = {}
        self._zones: Counter[tuple[str, int, ZoneLife, str]] = Counter()
        self._transitions: list[Transition] = []
        self._seen: Counter[tuple[str, str, int]] = Counter()
        self.taken = 0

    def take(self, maps: Maps) -> None:
        """Add the next answer.

        Raises:
            ToolFailed: the answer has another form.
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
            if item.action in ASKED:
                self._seen[item.device, item.action, item.error] += 1

    def totals(self) -> TraceTotals:
        """Return the counts, with the transitions since the last call."""
        fresh, self._transitions = tuple(self._transitions), []
        return TraceTotals(
            commands=self._commands,
            bytes=self._bytes,
            zones=dict(self._zones),
            transitions=fresh,
            problems=tuple(self._missing()),
            answers=self.taken,
        )

    def _missing(self) -> Iterator[str]:
        """Yield losses in the zones or the timeline, because a map was full."""
        for device in sorted({device for device, *_ in self._zones}):
            by_zone = sum(size for (name, *_), size in self._zones.items() if name == device)
            written = sum(
                size
                for (name, _, status), size in self._bytes.items()
                if (name, status) == (device, 0)
            )
            if by_zone != written:
                yield f"{device}: {written - by_zone} B have no zone"
        if {key: n for key, n in self._commands.items() if key[1] in ASKED} != dict(self._seen):
            yield "zone commands that were counted are missing from the timeline"

    def _counts(self, maps: Maps, name: str) -> dict[tuple[str, str, int], int]:
        return {
            (self._names[device - 1], command_name(command), status): int(count)
            for (device, command, status), count in maps.get(name, {}).items()
        }

    def _changes(self, maps: Maps) -> list[Transition]:
        try:
            changes = [transition(*item, self._names) for item in maps.get("@changes", {}).items()]
        except (ValueError, IndexError, TypeError) as error:
            raise ToolFailed(f"bpftrace's map @changes: {error}", code="output-malformed") from None
        return sorted(changes, key=lambda change: change.time)
