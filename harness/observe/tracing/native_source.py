"""The commands of a modelled drive in files, as the drive itself counted them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.observe.native_drive import NativeDrive, ZoneNote
from harness.observe.tracing.zone_history import TraceTotals, Transition, ZoneLife
from harness.store import packed

# Commands, and the counts of them.
_COMMANDS = {
    "read": "reads",
    "write": "writes",
    "open": "opens",
    "close": "closes",
    "finish": "finishes",
    "reset": "resets",
}
# Stored notes of a run, in raw/.
NOTES = "native.zones"

_NOTED = ("finish", "reset")
_ON_WRITES = ("first-write", "last-write")


class NotedZones:
    """The zone history in the notes of a drive, whose name is ``device``."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.seen: Counter[str] = Counter()  # finishes and resets
        self.resets: Counter[int] = Counter()  # by zone
        self.held: dict[tuple[int, ZoneLife], int] = {}  # bytes that the host wrote

    def take(self, notes: Sequence[ZoneNote]) -> list[Transition]:
        """Return the transitions in further notes, in the order of time."""
        return [self._taken(note) for note in sorted(notes, key=lambda note: note.ended)]

    def totals(self, transitions: Sequence[Transition] = ()) -> TraceTotals:
        """Return the bytes by zone and life, and these transitions."""
        zones = {(self._device, zone, life, "write"): n for (zone, life), n in self.held.items()}
        return TraceTotals(zones=zones, transitions=tuple(transitions))

    def _taken(self, note: ZoneNote) -> Transition:
        life = (self.resets[note.zone], 0)
        if note.action in _NOTED:
            self.seen[note.action] += 1
            self.held.setdefault((note.zone, life), note.written)
        if note.action == "reset":
            self.resets[note.zone] += 1
        return Transition(
            time=note.ended / 1e9,
            device=self._device,
            zone=note.zone,
            action=note.action,
            life=life,
            seconds=None if note.action in _ON_WRITES else note.took / 1e9,
            error=0,
            by="",
        )


class NativeSource:
    """A ``TraceSource``. It reads files, so it costs the run nothing."""

    name = "libzlfs.so"

    def __init__(self, drive: NativeDrive) -> None:
        self._drive = drive
        self._offset = 0
        self._first: dict[str, int] = {}
        self._zones = NotedZones(drive.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The drive."""
        return (self._drive.name,)

    def begin(self) -> None:
        """Count from now on."""
        self._first = dict(self._drive.counts())
        self._offset = self._drive.notes(0)[1]

    def tick(self) -> None:
        """Do nothing: the drive's files keep every command."""

    def snapshot(self) -> TraceTotals:
        """Return the counts so far."""
        name, noted = self._drive.name, self._zones
        notes, self._offset = self._drive.notes(self._offset)
        totals = noted.totals(noted.take(notes))
        counts = self._drive.counts()
        since = {key: value - self._first[key] for key, value in counts.items()}
        return replace(
            totals,
            commands={(name, one, 0): since[key] for one, key in _COMMANDS.items()},
            bytes={(name, "write", 0): since["write_bytes"]},
            zones={**self._in_place(), **totals.zones},
            problems=tuple(
                f"{since[_COMMANDS[one]]} {one} commands, {noted.seen[one]} notes"
                for one in _NOTED
                if since[_COMMANDS[one]] != noted.seen[one]
            ),
        )

    def end(self, raw: Path) -> None:
        """Store the notes."""
        if self._drive.zones_file.is_file():
            packed.copy(self._drive.zones_file, raw / f"{NOTES}{packed.SUFFIX}")

    def _in_place(self) -> dict[tuple[str, int, ZoneLife, str], int]:
        """Return the bytes in each zone now; for a finished zone, from the note of its finish."""
        return {
            (self._drive.name, number, (self._zones.resets[number], 0), "write"): zone.allocated
            for number, zone in enumerate(self._drive.report())
            if zone.allocated
        }
