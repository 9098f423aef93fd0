"""zonelab's own native programs (harness/native): where they are, and parsing their output."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import HostError, ToolFailed
from harness.tools import proc

_Summary = TypeVar("_Summary")

# docs/architecture.md, "On the machine under test".
INSTALLED = Path("/usr/local/lib/zonelab/native/bin")
_BUILT = Path(__file__).parents[2] / "build" / "native-release"  # by make, in a checkout


def program(name: str) -> Path:
    """Return a native program in $ZONELAB_NATIVE (a folder), in INSTALLED, or on PATH.

    Raises:
        HostError: it is in none of these.
    """
    for folder in _folders():
        if os.access(folder / name, os.X_OK):
            return folder / name
    path = proc.which(name)
    if path is None:
        raise _missing(name)
    return path


def program_or_built(name: str, folder: str = "bin") -> Path:
    """Return a program as :func:`program` does, else from this folder of the checkout's build.

    Raises:
        HostError: it is in neither.
    """
    try:
        return program(name)
    except HostError as error:
        built = _BUILT / folder / name
        if built.is_file():
            return built
        hint = "make build/native-release; or set ZONELAB_NATIVE to its folder"
        raise HostError(error.message, hint=hint, code=error.code) from None


def library(name: str) -> Path:
    """Return a shared object beside the programs, or in ``lib`` beside their ``bin``.

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
    """Parse the JSON line that a program prints at its end; None without one: the program failed.

    ``version`` is the schema version of its summary, ``read`` makes a record of the parsed line.

    Raises:
        ToolFailed: the line is damaged.
    """
    if not stdout:
        return None
    try:
        line = json.loads(stdout)
        if (line["program"], line["schema_version"]) != (name, version):
            raise malformed(name, f"unknown summary {line['program']} {line['schema_version']}")
        return read(line)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise malformed(name, f"{type(error).__name__} {error}") from None


def document(name: str, version: int, stdout: str) -> Any:
    """Parse the JSON document that a program prints.

    Raises:
        ToolFailed: it is not a document of this schema version.
    """
    try:
        found = json.loads(stdout)
        known = found["schema_version"] == version
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise foreign(name, stdout)
    return found


def whole(value: object) -> int:
    """Return a count from parsed JSON; TypeError if it is not an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a count")
    return value


def complaint(name: str, done: proc.Completed) -> tuple[str, str]:
    """Return the message and hint of a failed program: its lines ``<name>: …`` and ``hint: …``.

    Raises:
        ToolFailed: it was killed, or printed no such line.
    """
    lines = dict(line.partition(": ")[::2] for line in done.stderr.splitlines())
    if done.signal is not None or name not in lines:
        raise proc.failure(done)
    return lines[name], lines.get("hint", "")


def malformed(name: str, what: str) -> ToolFailed:
    """Return the error for damaged output of a program."""
    return ToolFailed(
        f"{name}'s output is damaged: {what}",
        hint="see the raw output of the phase",
        code="output-malformed",
    )


def foreign(name: str, printed: str) -> ToolFailed:
    """Return the error for output of another release of a program."""
    return ToolFailed(
        f"{name} printed {printed.strip()[:120]!r}",
        hint="the program and zonelab are of different releases: build harness/native again",
        code="output-malformed",
    )


def _folders() -> list[Path]:
    named = os.environ.get("ZONELAB_NATIVE")
    return [Path(named).absolute(), INSTALLED] if named else [INSTALLED]


def _missing(name: str) -> HostError:
    return HostError(
        f"the file {name} is not installed",
        hint=f"install it in {INSTALLED.parent}, or set ZONELAB_NATIVE to its folder",
        code="program-missing",
    )
