"""RocksDB's LOG: the table files that a process wrote, by its event log (7.8 and 9.10).

The tickers of ``--statistics`` are printed before the database is closed. What closing it flushes,
and compactions that end meanwhile, are in none of them; they are here, to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.errors import ToolFailed

# Among the first lines of every LOG.
_HEADER = "RocksDB version: "
_EVENT = "EVENT_LOG_v1 "
_HEADER_WITHIN = 10


@dataclass(frozen=True, slots=True)
class TableBytes:
    """Lengths of the table files that were written, in bytes, by what wrote them.

    Files of a compaction that was given up are among them: they had been written. Flushes include
    those of recovery.
    """

    flush: int
    compaction: int


def table_bytes(lines: Iterable[str]) -> TableBytes:
    """Add up the table files of one process.

    A last line without its newline was being written when the process ended and is left out.

    Raises:
        ToolFailed: this is no LOG, or an event in it is damaged.
    """
    begun = False
    compactions: set[int] = set()
    flushed = compacted = 0
    for number, line in enumerate(lines):
        begun = begun or (number < _HEADER_WITHIN and _HEADER in line)
        _, found, text = line.partition(_EVENT)
        if not found or not line.endswith("\n"):
            continue
        event = _parse(text)
        kind = event.get("event")
        if kind == "compaction_started":
            compactions.add(_number(event, "job"))
        elif kind == "table_file_creation":
            size = _number(event, "file_size")
            if _number(event, "job") in compactions:
                compacted += size
            else:
                flushed += size
    if not begun:
        raise ToolFailed(
            "RocksDB's LOG does not begin with its version",
            hint="see the phase's LOG in raw/",
            code="output-malformed",
        )
    return TableBytes(flushed, compacted)


def _parse(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise _damaged(text)
    return event


def _number(event: dict[str, Any], name: str) -> int:
    value = event.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _damaged(f"no {name} in {json.dumps(event)}")
    return value


def _damaged(text: str) -> ToolFailed:
    return ToolFailed(
        f"an event in RocksDB's LOG is damaged: {text.strip()[:120]}",
        hint="see the phase's LOG in raw/",
        code="output-malformed",
    )
