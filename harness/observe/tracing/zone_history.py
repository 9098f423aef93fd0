"""Records of tracing: commands, bytes per zone and zone transitions, as counts and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness import nulls
from harness.observe.tracing import bpf_program as program
from harness.observe.zone_reports import Zone, ZoneCondition
from harness.store.ledger import Commands, Snapshot, Trace

_OPCODES = {
    program.FLUSH: "flush",
    program.WRITE: "write",
    program.READ: "read",
    program.WRITE_ZEROES: "write-zeroes",
    program.DSM: "dataset-management",
    program.ZONE_RECEIVE: "zone-receive",
    program.ZONE_APPEND: "append",
}
_ACTIONS = {
    program.CLOSE: "close",
    program.FINISH: "finish",
    program.OPEN: "open",
    program.RESET: "reset",
    program.OFFLINE: "offline",
    program.FIRST: "first-write",
    program.LAST: "last-write",
}
_ALL = "-all"
WRITES = frozenset({"write", "write-zeroes", "append"})
MANAGEMENT = frozenset({"close", "finish", "open", "reset", "offline"})

ASKED = MANAGEMENT | {name + _ALL for name in MANAGEMENT}
K = TypeVar("K")
ZoneLife = tuple[int, int]  # resets of the zone, resets of all zones


@dataclass(frozen=True, slots=True)
class Transition:
    """A zone management command, or the first or last write of a zone."""

    time: float  # of completion, CLOCK_MONOTONIC, in seconds
    device: str  # kernel name
    zone: int | None  # null: all zones
    action: str  # finish, reset, reset-all, first-write …
    life: ZoneLife  # resets before it
    seconds: float | None  # latency; null for writes, and where it was not measured
    error: int  # status of the block layer; 0: success
    by: str  # kernel name of the thread that submitted it


@dataclass(frozen=True, slots=True)
class TraceTotals:
    """Counts since tracing began.

    ``commands`` and ``bytes`` are by (device, command, status of the block layer). ``zones`` holds
    the bytes of successful writes by (device, zone, life of the zone, command).
    """

    commands: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    bytes: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    zones: Mapping[tuple[str, int, ZoneLife, str], int] = field(default_factory=dict)
    transitions: tuple[Transition, ...] = ()  # since the last snapshot
    problems: tuple[str, ...] = ()  # why the counts may be too low; empty: they are exact
    kernel_seconds: float | None = None  # CPU time of the BPF programs; null: not measured
    answers: int = 0  # complete answers in raw/trace.jsonl; 0 without that file


@dataclass(frozen=True, slots=True)
class Traced:
    """What happened between two barriers; keys as in ``TraceTotals``."""

    zoned: str | None  # traced zoned device of the level
    conventional: str | None  # traced conventional device of the level
    commands: Mapping[tuple[str, str, int], int]
    bytes: Mapping[tuple[str, str, int], int]
    finishes: int  # that changed a data zone
    pad: Mapping[str, int]  # capacity that finishes gave up, by cause (P of docs/methods.md)
    problems: tuple[str, ...]  # why the counts may be too low
    kernel_seconds: float | None  # CPU time of the BPF programs

    @property
    def complete(self) -> bool:
        """Whether every command was counted."""
        return not self.problems

    def submitted(self, device: str) -> int:
        """Return the bytes of all writes, failed ones included, as the kernel counts them."""
        return sum(count for (name, *_), count in self.bytes.items() if name == device)

    def appended(self, device: str) -> int:
        """Return the bytes that zone appends wrote."""
        return self.bytes.get((device, "append", 0), 0)

    def zeroed(self, device: str) -> int:
        """Return the part of ``submitted`` of Write Zeroes, which carry no data."""
        return sum(
            count
            for (name, command, _), count in self.bytes.items()
            if (name, command) == (device, "write-zeroes")
        )

    def done(self, device: str, *commands: str) -> int:
        """Return how many commands of these kinds succeeded."""
        return sum(
            count
            for (name, command, status), count in self.commands.items()
            if name == device and command in commands and status == 0
        )

    def attempted(self, device: str) -> int:
        """Return how many writes and zone management commands completed, failed ones included."""
        return sum(
            count
            for (name, command, _), count in self.commands.items()
            if name == device and command in WRITES | ASKED
        )


def command_name(code: int) -> str:
    """Return the name of a packed command: ``write``, ``finish``, ``reset-all``, ``0x82``."""
    opcode, action = code & 0xFF, code >> program.ACTION_SHIFT & 0xFF
    if opcode != program.ZONE_SEND:
        return _OPCODES.get(opcode, f"{opcode:#04x}")
    name = _ACTIONS.get(action, f"zone-send-{action}")
    return name + _ALL if code >> program.ALL_BIT & 1 else name


def transition(key: Sequence[int], value: Sequence[Any], devices: Sequence[str]) -> Transition:
    """Parse an entry of the program's map of transitions; ``devices`` are numbered from 1.

    Raises:
        ValueError: the entry has another form.
    """
    time, zone, _ = key
    device, code, life, lives, latency, error, by = value
    every = bool(code >> program.ALL_BIT & 1)
    name = _ACTIONS.get(code >> program.ACTION_SHIFT & 0xFF, f"{code:#x}")
    asked = code & 0xFF == program.ZONE_SEND
    return Transition(
        time=time / 1e9,
        device=devices[device - 1],
        zone=None if every else zone,
        action=name + _ALL if every else name,
        life=(life, lives),
        seconds=latency / 1e9 if asked and latency else None,
        error=error,
        by=str(by),
    )


class History:
    """Zone transitions since tracing began, and the bytes that each zone held at each of them.

    Args:
        device: kernel name of the zoned device.
        seed: its zones when tracing began; the bytes in them belong to their first life.
        skip: number of metadata zones at the start, whose finishes are not counted.
    """

    def __init__(self, device: str, seed: Sequence[Zone], skip: int = 0) -> None:
        self._device = device
        self._seed = tuple(seed)
        self._all: list[Transition] = []
        self._reset: set[int] = set()  # zones whose initial content is gone
        self._all_reset = False
        self._rows: list[str] = []
        self._skip = skip
        self._in_place: dict[int, int] = {}  # bytes given up in zones not reset since
        self.finishes = 0  # that changed a data zone
        self.pad: Counter[str] = Counter()  # bytes of capacity that finishes gave up, by cause

    @property
    def pad_held(self) -> int:
        """The part of ``pad`` in zones that have not been reset since."""
        return sum(self._in_place.values())

    def extend(self, totals: TraceTotals, began: float) -> None:
        """Add the device's transitions of a snapshot; ``began`` is the start time of the run."""
        held: dict[tuple[int, ZoneLife], int] = {}
        for (device, zone, life, _), count in totals.zones.items():
            if device == self._device:
                held[zone, life] = held.get((zone, life), 0) + count
        for item in totals.transitions:
            if item.device == self._device:
                self._all.append(item)
                self._rows.append(self._row(item, held, began))

    def timeline(self) -> str:
        """Return ``series/zone_commands.csv``: one line per transition, in order of completion.

        ``written`` are the bytes that the zone held, ``unwritten`` those that a finish gave up.
        """
        header = "t,device,zone,action,latency_us,status,by,written,unwritten"
        return "\n".join([header, *self._rows]) + "\n"

    def table(self, totals: TraceTotals) -> str:
        """Return ``raw/zones_traced.csv``: bytes and commands of each zone that was used."""
        names = ("write", "write-zeroes", "append", "open", "close", "finish", "reset")
        counts: dict[int, dict[str, int]] = {}
        for (device, zone, _, command), count in totals.zones.items():
            if device == self._device:
                row = counts.setdefault(zone, dict.fromkeys(names, 0))
                row[command] += count
        for item in self._all:
            if item.error or item.action not in names or item.zone is None:
                continue
            counts.setdefault(item.zone, dict.fromkeys(names, 0))[item.action] += 1
        rows = [
            ",".join(map(str, (zone, *(counts[zone][name] for name in names))))
            for zone in sorted(counts)
        ]
        header = "zone,written,zeroed,appended,opens,closes,finishes,resets"
        return "\n".join([header, *rows]) + "\n"

    def _row(self, item: Transition, held: Mapping[tuple[int, ZoneLife], int], began: float) -> str:
        written = self._written(item, held)
        given_up = self._given_up(item, written)
        self._follow_reset(item)
        latency = "" if item.seconds is None else f"{item.seconds * 1e6:.1f}"
        cells = [f"{item.time - began:.6f}", item.device]
        cells += [nulls.text(item.zone), item.action, latency]
        cells += [str(item.error), item.by.replace(",", " ")]
        cells += [nulls.text(written), nulls.text(given_up)]
        return ",".join(cells)

    def _written(self, item: Transition, held: Mapping[tuple[int, ZoneLife], int]) -> int | None:
        """Return the bytes in a zone; null if it was already full when tracing began."""
        if item.zone is None or item.action in {"first-write", "last-write"}:
            return None
        before = 0
        if not self._all_reset and item.zone not in self._reset:
            zone = self._seed[item.zone]
            if zone.condition is ZoneCondition.FULL:
                return None
            before = zone.allocated
        return before + held.get((item.zone, item.life), 0)

    def _given_up(self, item: Transition, written: int | None) -> int | None:
        """Return the capacity that a finish gave up; null for other actions."""
        if item.action != "finish" or item.error or item.zone is None or written is None:
            return None
        again = item.zone in self._in_place
        given_up = 0 if again else max(self._seed[item.zone].capacity - written, 0)
        if given_up:
            self._in_place[item.zone] = given_up
            metadata = item.zone < self._skip
            self.finishes += not metadata
            self.pad["metadata-roll" if metadata else "unknown"] += given_up
        return given_up

    def _follow_reset(self, item: Transition) -> None:
        if item.error:
            return
        if item.action == "reset" and item.zone is not None:
            self._reset.add(item.zone)
            self._in_place.pop(item.zone, None)
        elif item.action == "reset-all":
            self._all_reset = True
            self._in_place.clear()


def traced(before: Snapshot, after: Snapshot) -> Traced | None:
    """Return what happened between two barriers, or None unless both were traced."""
    first, last = before.trace, after.trace
    if first is None or last is None:
        return None
    return Traced(
        zoned=after.zoned if after.zoned in last.devices else None,
        conventional=after.conventional if after.conventional in last.devices else None,
        commands=difference(_by_kind(first, "count"), _by_kind(last, "count")),
        bytes=difference(_by_kind(first, "bytes"), _by_kind(last, "bytes")),
        finishes=last.finishes - first.finishes,
        pad=difference(first.pad, last.pad),
        problems=last.problems,
        kernel_seconds=nulls.difference(first.kernel_seconds, last.kernel_seconds),
    )


def record(devices: Sequence[str], totals: TraceTotals, history: History) -> Trace:
    """Return the stored record of a snapshot whose transitions ``history`` already has."""
    return Trace(
        devices=tuple(devices),
        commands=tuple(
            Commands(*key, count, totals.bytes.get(key, 0))
            for key, count in sorted(totals.commands.items())
        ),
        finishes=history.finishes,
        pad=dict(history.pad),
        pad_held=history.pad_held,
        problems=totals.problems,
        kernel_seconds=totals.kernel_seconds,
        answers=totals.answers,
    )


def _by_kind(trace: Trace, what: str) -> dict[tuple[str, str, int], int]:
    return {
        (kind.device, kind.command, kind.status): getattr(kind, what) for kind in trace.commands
    }


def difference(earlier: Mapping[K, int], later: Mapping[K, int]) -> dict[K, int]:
    """Return the non-zero differences between two sets of counts."""
    return {
        key: count - earlier.get(key, 0)
        for key, count in later.items()
        if count != earlier.get(key, 0)
    }
