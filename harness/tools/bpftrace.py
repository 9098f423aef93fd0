"""bpftrace: how it is started, and what it prints with ``-f json``."""

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
    """What ``printf`` printed: one line."""

    line: str


@dataclass(frozen=True, slots=True)
class Map:
    """A map that was printed: its keys, split at the commas, and their values."""

    name: str
    values: dict[tuple[int, ...], Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """So many lines never arrived."""

    events: int


Record = Printed | Map | Lost


def argv(program: Path, text: Path, keys: int) -> list[str]:
    """Return the argument list that runs the program in a file until SIGINT.

    Each of its maps holds ``keys`` keys, and takes the memory for them when it starts.
    """
    limit = f"BPFTRACE_MAX_MAP_KEYS={keys}"
    return ["env", limit, str(program), "-q", "-f", "json", str(text)]


def parse(lines: Iterable[str]) -> list[Record]:
    """Read whole lines.

    Raises:
        ToolFailed: a line is not what bpftrace prints.
    """
    return [record for line in lines if line.strip() for record in _records(line)]


def _records(line: str) -> list[Record]:
    try:
        told = json.loads(line)
        kind, data = told["type"], told["data"]
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
    """Return a map's values; one without keys is printed as its value alone."""
    if not isinstance(values, dict):
        return {(): values}
    return {tuple(int(part) for part in key.split(",")): value for key, value in values.items()}
