"""RocksDB's LOG: what a process wrote, why it stalled, how its tree stood (7.8 and 9.10).

The tickers of ``--statistics`` are printed before the database is closed. What closing it flushes,
and compactions that end meanwhile, are in none of them; they are here, to the byte.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ToolFailed

# Among the first lines of every LOG.
_HEADER = "RocksDB version: "
_HEADER_WITHIN = 10
_EVENT = "EVENT_LOG_v1 "
_CREATED = '"event": "table_file_creation"'
_COMPACTION = '"event": "compaction_started"'
_COMPACTED = '"event": "compaction_finished"'
# Near the beginning of a compaction's event, which goes on with every file it reads: RocksDB cuts
# lines of more than 64 KiB, and such an event is no JSON.
_JOB = re.compile(r'"job": (\d{1,18}),')
_TIME = re.compile(r'\{"time_micros": (\d{1,18}),')

# "[default] Level summary: files[6 3 0 0 0 0 0] max score 0.25" behind a flush, "[default]
# compacted to: files[…" behind a compaction; 9.10 adds what its compactions are behind.
_STATE = re.compile(
    r"files\[(?P<files>\d{1,9}(?: \d{1,9})*)\] max score [^ ,]+"
    r"(?:, estimated pending compaction bytes (?P<pending>\d{1,20}))?"
)
# Written each time RocksDB looks whether to hold writers back, and finds that it has to; these
# lines are what its own "Write Stall (count)" counts.
_STALL = re.compile(
    r"\[WARN\].* (?:Stopping|Stalling) writes because "
    r"(?:we have \d+ (?P<what>immutable memtables|level-0 files)|of estimated pending compaction)"
)
_CAUSES = {"immutable memtables": "memtable", "level-0 files": "level0", None: "pending"}
CAUSES = tuple(_CAUSES.values())


@dataclass(frozen=True, slots=True)
class TableBytes:
    """Lengths of the table files that were written, in bytes, by what wrote them.

    What a compaction wrote before it was given up is among them, also of the file it was at, which
    no event tells of: a compaction's own total has it (to the byte: zlfs counted the same in 30
    recorded phases). Flushes include those of recovery.
    """

    flush: int
    compaction: int


@dataclass(frozen=True, slots=True)
class Point:
    """The tree behind a flush or compaction.

    ``micros`` since the epoch, by the event before it; ``files`` per level, level 0 first;
    ``pending`` compaction bytes, null where RocksDB does not tell (7.8).
    """

    micros: int
    files: tuple[int, ...]
    pending: int | None


@dataclass(frozen=True, slots=True)
class Log:
    """One process. ``stalls``: how often writers had to be slowed or stopped, by cause."""

    tables: TableBytes
    stalls: Mapping[str, int]
    points: tuple[Point, ...]


def parse(lines: Iterable[str]) -> Log | None:
    """Read a LOG line by line, hours of it in little memory; None when it is empty.

    A last line without its newline was being written when the process ended and is left out.

    Raises:
        ToolFailed: this is no LOG, or an event in it is damaged; the message names the line.
    """
    reader, number = _Reader(), 0
    for number, line in enumerate(lines, 1):
        if number <= _HEADER_WITHIN:
            reader.begun |= _HEADER in line
        if line.endswith("\n"):
            reader.take(line, number)
    if number and not reader.begun:
        raise ToolFailed(
            "RocksDB's LOG does not begin with its version",
            hint="see the phase's LOG in raw/",
            code="output-malformed",
        )
    return reader.log() if number else None


class _Reader:
    """What is known so far; ``begun`` once the version was seen."""

    def __init__(self) -> None:
        self.begun = False
        self._micros = 0
        self._flushed = 0
        self._created: dict[int, int] = {}  # by the job of a compaction: lengths of its files
        self._totals: dict[int, int] = {}  # the same as it says at its end
        self._stalls: Counter[str] = Counter()
        self._points: list[Point] = []

    def take(self, line: str, number: int) -> None:
        """Take a complete line; most are of no interest."""
        _, found, text = line.partition(_EVENT)
        if found:
            self._event(text, number)
        elif "] max score " in line:
            self._state(line, number)
        elif " writes because " in line:
            cause = _STALL.search(line)
            if cause is None:
                raise _damaged(line, number)
            self._stalls[_CAUSES[cause["what"]]] += 1

    def log(self) -> Log:
        """Return everything."""
        return Log(
            TableBytes(self._flushed, sum(self._compacted(job) for job in self._created)),
            {cause: self._stalls[cause] for cause in CAUSES},
            tuple(self._points),
        )

    def _event(self, text: str, number: int) -> None:
        time = _TIME.match(text)
        self._micros = int(time[1]) if time else self._micros
        if _CREATED in text:
            event = _parse(text, number)
            job, size = (_number(event, name, number) for name in ("job", "file_size"))
            if job in self._created:
                self._created[job] += size
            else:
                self._flushed += size
        elif _COMPACTED in text:
            event = _parse(text, number)
            job, size = (_number(event, name, number) for name in ("job", "total_output_size"))
            self._totals[job] = size
        elif _COMPACTION in text:
            found = _JOB.search(text)
            if found is None:
                raise _damaged(text, number)
            self._created[int(found[1])] = 0

    def _compacted(self, job: int) -> int:
        """Return what a compaction wrote; of one that never ended, the files it completed."""
        return max(self._created[job], self._totals.get(job, 0))

    def _state(self, line: str, number: int) -> None:
        state = _STATE.search(line)
        if state is None:
            raise _damaged(line, number)
        files = tuple(int(count) for count in state["files"].split())
        pending = int(state["pending"]) if state["pending"] is not None else None
        self._points.append(Point(self._micros, files, pending))


def _parse(text: str, number: int) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise _damaged(text, number)
    return event


def _number(event: dict[str, Any], name: str, number: int) -> int:
    value = event.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _damaged(f"no {name} in {json.dumps(event)}", number)
    return value


def _damaged(text: str, number: int) -> ToolFailed:
    return ToolFailed(
        f"line {number} of RocksDB's LOG is damaged: {text.strip()[:120]}",
        hint="see the phase's LOG in raw/",
        code="output-malformed",
    )
