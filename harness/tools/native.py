"""Where zonelab's own native programs (harness/native) are on a system under test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import HostError, ToolFailed
from harness.tools import proc

_Summary = TypeVar("_Summary")

# docs/architecture.md, "On the system under test".
INSTALLED = Path("/usr/local/lib/zonelab/native/bin")


def program(name: str) -> Path:
    """Return a native program: in $ZONELAB_NATIVE (a directory), where it is installed, or on PATH.

    Raises:
        HostError: it is in none of these.
    """
    for folder in _folders():
        if os.access(folder / name, os.X_OK):
            return folder / name
    found = proc.which(name)
    if found is None:
        raise _missing(name)
    return found


def library(name: str) -> Path:
    """Return a shared object: beside the programs, or in ``lib`` beside their ``bin``.

    Raises:
        HostError: it is in none of these.
    """
    for folder in _folders():
        for path in (folder / name, folder.parent / "lib" / name):
            if path.is_file():
                return path
    raise _missing(name)


def summary(
    name: str, version: int, stdout: str, read: Callable[[dict[str, Any]], _Summary]
) -> _Summary | None:
    """Read the line of JSON that a program ends with; None when there is none: it failed.

    Args:
        name: the program.
        version: of its summary.
        stdout: what it printed.
        read: makes a record of the parsed line.

    Raises:
        ToolFailed: it is damaged.
    """
    if not stdout:
        return None
    try:
        told = json.loads(stdout)
        if (told["program"], told["schema_version"]) != (name, version):
            raise malformed(name, f"{told['program']} {told['schema_version']} is not ours")
        return read(told)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise malformed(name, f"{type(error).__name__} {error}") from None


def malformed(name: str, what: str) -> ToolFailed:
    """Return the error of a program's damaged output."""
    return ToolFailed(
        f"{name}'s output is damaged: {what}",
        hint="see the raw output of the phase",
        code="output-malformed",
    )


def foreign(name: str, printed: str) -> ToolFailed:
    """Return the error of a program that printed what this release's does not."""
    return ToolFailed(
        f"{name} printed {printed.strip()[:120]!r}",
        hint="program and zonelab belong to one release: build harness/native again",
        code="output-malformed",
    )


def _folders() -> list[Path]:
    named = os.environ.get("ZONELAB_NATIVE")
    return [Path(named).absolute(), INSTALLED] if named else [INSTALLED]


def _missing(name: str) -> HostError:
    return HostError(
        f"{name} is not installed",
        hint=f"install it in {INSTALLED.parent}, or set ZONELAB_NATIVE to the folder that has it",
        code="program-missing",
    )
