"""Where zonelab's own native programs (harness/native) are on a system under test."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import HostError
from harness.tools import proc

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


def _folders() -> list[Path]:
    named = os.environ.get("ZONELAB_NATIVE")
    return [Path(named).absolute(), INSTALLED] if named else [INSTALLED]


def _missing(name: str) -> HostError:
    return HostError(
        f"{name} is not installed",
        hint=f"install it in {INSTALLED.parent}, or set ZONELAB_NATIVE to the folder that has it",
        code="program-missing",
    )
