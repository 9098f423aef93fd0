"""Parse RocksDB's LOG: table files written, write stalls, and the shape of the tree (7.8, 9.10).

The tickers of ``--statistics`` are printed before the database is closed, so they miss the flush at
close and compactions that end during it. The LOG has both, to the byte.
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
_OPTION = re.compile(r" Options\.(\w+): (\S+)$", re.MULTILINE)
_CREATED = '"event": "table_file_creation"'
_COMPACTION = '"event": "compaction_started"'
_COMPACTED = '"event": "compaction_finished"'
# The event of a compaction lists all its input files. RocksDB cuts lines at 64 KiB, so a long event
# is not valid JSON; the job is at its beginning.
_JOB = re.compile(r'"job": (\d{1,18}),')
_TIME = re.compile(r'\{"time_micros": (\d{1,18}),')

# "[default] Level summary: files[6 3 0 0 0 0 0] max score 0.25" after a flush, "[default]
# compacted to: files[…" after a compaction; 9.10 adds the pending compaction bytes.
_STATE = re.compile(
    r"files\[(?P<files>\d{1,9}(?: \d{1,9})*)\] max score [^ ,]+"
    r"(?:, estimated pending compaction bytes (?P<pending>\d{1,20}))?"
)
# Printed each time RocksDB decides to slow or stop writers; its "Write Stall (count)" counts these.
_STALL = re.compile(
    r"\[WARN\].* (?:Stopping|Stalling) writes because "
    r"(?:we have \d+ (?P<what>immutable memtables|level-0 files)|of estimated pending compaction)"
)
_CAUSES = {"immutable memtables": "memtable", "level-0 files": "level0", None: "pending"}
CAUSES = tuple(_CAUSES.values())


@dataclass(frozen=True, slots=True)
class TableBytes:
    """Bytes of table files written.

    An aborted compaction counts, including its unfinished file: no event reports that file, but
    the compaction's own total includes it (in 30 recorded phases, zlfs counted the same bytes).
    """

    flush: int  # includes flushes during recovery
    compaction: int


@dataclass(frozen=True, slots=True)
class LsmShape:
    """The shape of the LSM tree after a flush or compaction."""

    micros: int  # time since the epoch, from the preceding event
    files: tuple[int, ...]  # number of files per level, level 0 first
    pending: int | None  # pending compaction bytes; null in 7.8, which does not print them


@dataclass(frozen=True, slots=True)
class Log:
    """The LOG of one process."""

    tables: TableBytes
    stalls: Mapping[str, int]  # how often writers were slowed or stopped, by cause
    points: tuple[LsmShape, ...]
    contradictions: tuple[str, ...] = ()  # compactions whose files do not add up to their total


def parse(lines: Iterable[str]) -> Log | None:
    """Parse a LOG line by line in little memory; return None if it is empty.

    A last line without a newline is incomplete and ignored.

    Raises:
        ToolFailed: it is not a LOG, or an event is damaged; the message names the line.
    """
    reader, number = _LogReader(), 0
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


def options(text: str) -> dict[str, str]:
    """Return the options that RocksDB prints at the beginning of its LOG, by their name."""
    return dict(_OPTION.findall(text))


class _LogReader:
    """The state of parsing; ``begun`` is set once the version line was seen."""

    def __init__(self) -> None:
        self.begun = False
        self._micros = 0
        self._flushed = 0
        self._created: dict[int, int] = {}  # bytes of completed files, by job of the compaction
        self._totals: dict[int, int] = {}  # bytes as the compaction reports them at its end
        self._files: Counter[int] = Counter()  # completed files, by job of the compaction
        self._reported: dict[int, object] = {}  # files as the compaction reports them at its end
        self._stalls: Counter[str] = Counter()
        self._points: list[LsmShape] = []

    def take(self, line: str, number: int) -> None:
        """Parse a complete line; most are irrelevant."""
        _, is_event, text = line.partition(_EVENT)
        if is_event:
            self._event(text, number)
        elif "] max score " in line:
            self._state(line, number)
        elif " writes because " in line:
            cause = _STALL.search(line)
            if cause is None:
                raise _damaged(line, number)
            self._stalls[_CAUSES[cause["what"]]] += 1

    def log(self) -> Log:
        """Return the parsed LOG."""
        return Log(
            TableBytes(self._flushed, sum(self._compacted(job) for job in self._created)),
            {cause: self._stalls[cause] for cause in CAUSES},
            tuple(self._points),
            tuple(self._contradictions()),
        )

    def _contradictions(self) -> Iterable[str]:
        """Yield compactions whose total differs from the sum of their files.

        Only an aborted compaction reports more, because its total includes its unfinished file.
        """
        for job, total in self._totals.items():
            created = self._created.get(job, 0)
            same_files = self._reported[job] == self._files[job]
            if total < created or (total != created and same_files):
                yield (
                    f"job {job}: total_output_size is {total}, "
                    f"its {self._files[job]} files have {created} B"
                )

    def _event(self, text: str, number: int) -> None:
        time = _TIME.match(text)
        self._micros = int(time[1]) if time else self._micros
        if _CREATED in text:
            event = _parse(text, number)
            job, size = (_number(event, name, number) for name in ("job", "file_size"))
            if job in self._created:
                self._created[job] += size
                self._files[job] += 1
            else:
                self._flushed += size
        elif _COMPACTED in text:
            event = _parse(text, number)
            job, size = (_number(event, name, number) for name in ("job", "total_output_size"))
            self._totals[job] = size
            self._reported[job] = event.get("num_output_files")
        elif _COMPACTION in text:
            match = _JOB.search(text)
            if match is None:
                raise _damaged(text, number)
            self._created[int(match[1])] = 0

    def _compacted(self, job: int) -> int:
        """Return the bytes that a compaction wrote; if it never ended, those of completed files."""
        return max(self._created[job], self._totals.get(job, 0))

    def _state(self, line: str, number: int) -> None:
        state = _STATE.search(line)
        if state is None:
            raise _damaged(line, number)
        files = tuple(int(count) for count in state["files"].split())
        pending = int(state["pending"]) if state["pending"] is not None else None
        self._points.append(LsmShape(self._micros, files, pending))


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
