"""bpftrace: its command line, and a parser of its output with ``-f json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ToolFailed

PROGRAM = "bpftrace"
PACKAGE = "bpftrace"


@dataclass(frozen=True, slots=True)
class Printed:
    """One line of ``printf`` output."""

    line: str


@dataclass(frozen=True, slots=True)
class Map:
    """A printed map: values by key; keys are split at commas."""

    name: str
    values: dict[tuple[int, ...], Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """Events that bpftrace lost."""

    events: int


Record = Printed | Map | Lost


def argv(program: Path, text: Path, keys: int) -> list[str]:
    """Return the argument list that runs the program in file ``text`` until SIGINT.

    Each map holds up to ``keys`` keys and allocates their memory at the start.
    """
    limit = f"BPFTRACE_MAX_MAP_KEYS={keys}"
    return ["env", limit, str(program), "-q", "-f", "json", str(text)]


def parse(lines: Iterable[str]) -> list[Record]:
    """Parse complete lines.

    Raises:
        ToolFailed: a line is not a bpftrace record.
    """
    return [record for line in lines if line.strip() for record in _records(line)]


def _records(line: str) -> list[Record]:
    try:
        record = json.loads(line)
        kind, data = record["type"], record["data"]
        if kind == "printf":
            return [Printed(text) for text in data.splitlines()]
        if kind == "map":
            return [Map(name, _values(values)) for name, values in data.items()]
        if kind == "lost_events":
            return [Lost(int(data["events"]))]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ToolFailed(
            f"bpftrace printed {line.strip()[:120]!r}", code="output-malformed"
        ) from None
    return []  # "attached_probes" and the like


def _values(values: Any) -> dict[tuple[int, ...], Any]:
    """Return the values of a map; bpftrace prints a map without keys as its value."""
    if not isinstance(values, dict):
        return {(): values}
    return {tuple(int(part) for part in key.split(",")): value for key, value in values.items()}
