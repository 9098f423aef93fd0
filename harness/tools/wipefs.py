"""wipefs (util-linux): the signatures that libblkid knows. Here it never writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.errors import ToolFailed
from harness.tools import proc

PROGRAM = "wipefs"
_TIMEOUT_SECONDS = 120.0
_COLUMNS = "TYPE,LABEL"


@dataclass(frozen=True, slots=True)
class Magic:
    """A signature on a device: libblkid's name of the format, and its label."""

    kind: str
    label: str


def argv(path: str) -> list[str]:
    """Return the argument list: ``--no-act`` opens the device for reading only."""
    return [PROGRAM, "--no-act", "--json", "--output", _COLUMNS, path]


def read(path: str) -> list[Magic]:
    """Return every signature of a device, in the order of the tool.

    Raises:
        HostError: wipefs is not installed.
        ToolFailed: it failed, or its output has another form.
    """
    return parse(proc.run(argv(path), timeout=_TIMEOUT_SECONDS).stdout)


def parse(stdout: str) -> list[Magic]:
    """Parse the JSON output. Some versions print nothing if there is no signature.

    Raises:
        ToolFailed: the output has another form.
    """
    if not stdout.strip():
        return []
    try:
        rows: list[dict[str, Any]] = json.loads(stdout)["signatures"]
        return [Magic(str(row["type"]), str(row["label"] or "")) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise ToolFailed(f"wipefs printed {stdout[:60]!r}", code="output-malformed") from error
