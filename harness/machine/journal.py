"""Ownership journal: one entry per claim and release, synced before the first write to a device."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, HostError
from harness.store.codec import decode, encode
from harness.store.files import descriptor, sync


class JournalEvent(StrEnum):
    """An event in the life of a run."""

    # Before and after the clearing: the fingerprint proves ownership until the next write.
    CLAIM = "claim"
    ERASE = "erase"  # a consent is used: the clearing that it permits comes next
    UP = "up"  # formatted: the level's label is on the device from now on
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of the journal. ``fingerprint`` is the device's digest; null once it is formatted.

    ``partner`` is the identity of the other device of the same run, '' if there is none. Some
    levels write their label to that device only.
    """

    event: JournalEvent
    identity: str
    campaign: str
    run: str
    level: str
    label: str
    partner: str
    fingerprint: str | None
    time: str
    boot_id: str
    consent: str = ""  # digest of the consent that an erase uses
    whole: str = ""  # digest of every byte that can be written in place; '': not computed


class Journal:
    """An append-only file. The last entry of an identity is the valid one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entry: JournalEntry) -> None:
        """Add an entry; it is on stable storage when this returns.

        Raises:
            HostError: only a part of the entry could be written; that part is removed again.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = (json.dumps(encode(entry)) + "\n").encode()
        with descriptor(self._path, os.O_RDWR | os.O_CREAT) as fd:
            # A crash during an append leaves an incomplete line, which has no effect.
            whole = _whole_lines(self._path.read_bytes())
            os.ftruncate(fd, whole)
            written = os.pwrite(fd, line, whole)
            if written != len(line):
                os.ftruncate(fd, whole)
                raise HostError(
                    f"only {written} of {len(line)} bytes of an entry fit into {self._path}",
                    hint="free space on its disk and repeat the command; completed runs are kept",
                    code="disk-full",
                )
            os.fsync(fd)
        sync(self._path.parent)

    def entries(self) -> list[JournalEntry]:
        """Return all entries, oldest first.

        Raises:
            HostError: a line is damaged, so ownership cannot be proved.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        lines = data[: _whole_lines(data)].decode("utf-8", errors="replace").splitlines()
        return [_parse(line, f"{self._path}:{number}") for number, line in enumerate(lines, 1)]

    def last(self, identity: str) -> JournalEntry | None:
        """Return the newest entry of a device; null if zonelab never wrote to it."""
        entries = [entry for entry in self.entries() if entry.identity == identity]
        return entries[-1] if entries else None

    def erasures(self, identity: str) -> list[str]:
        """Return the digests of the consents that were used for a device, oldest first."""
        mine = [entry for entry in self.entries() if entry.identity == identity]
        return [entry.consent for entry in mine if entry.event is JournalEvent.ERASE]

    def unfinished(self) -> list[JournalEntry]:
        """Return the last entry of each device of the newest run; [] if the run ended cleanly.

        A run releases all of its devices at once, so one release entry is enough.
        """
        entries = self.entries()
        if not entries:
            return []
        newest = entries[-1]
        last = {entry.identity: entry for entry in entries}
        run = [e for e in last.values() if (e.campaign, e.run) == (newest.campaign, newest.run)]
        return [] if any(entry.event is JournalEvent.RELEASE for entry in run) else run


def _whole_lines(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def _parse(line: str, where: str) -> JournalEntry:
    try:
        data: Any = json.loads(line)
        return decode(JournalEntry, data, where)
    except (ValueError, ConfigError) as error:
        raise HostError(
            f"{where} is damaged: {error}",
            hint="move it away; devices that are not empty then need -e erase=IDENTITY@DIGEST",
            code="journal-damaged",
        ) from None
