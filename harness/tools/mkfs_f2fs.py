"""mkfs.f2fs (f2fs-tools) for a conventional device plus a zoned one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from harness.store.spec import Bytes
from harness.tools import proc

PROGRAM = "mkfs.f2fs"
_TIMEOUT_SECONDS = 600.0
_LACKING = re.compile(r"is too small, \((\d+) MiB needed\)")


def argv(conventional: Path, zoned: Path, *, label: str, o: str = "") -> list[str]:
    """Return the argument list: -m zoned block device support, -c the zoned device.

    ``o`` is mkfs.f2fs's -o, the over-provision ratio in percent; empty: its own choice. Not -q,
    which keeps reasons back as well.
    """
    extra = ["-o", o] if o else []
    return [PROGRAM, "-f", "-m", "-c", str(zoned), *extra, "-l", label, str(conventional)]


def make(conventional: Path, zoned: Path, *, label: str, o: str = "") -> None:
    """Make the file system.

    Raises:
        ToolFailed: it was refused; the message has the first reason, not the last line.
    """
    command = argv(conventional, zoned, label=label, o=o)
    done = proc.run(command, timeout=_TIMEOUT_SECONDS, check=False)
    if not done.ok:
        raise proc.failure(replace(done, stderr=_complaint(done.stdout) or done.stderr))


def lacking(message: str) -> Bytes:
    """Return by how much the conventional device is too small, as mkfs tells it; else 0."""
    found = _LACKING.search(message)
    return Bytes(int(found[1]) << 20) if found else Bytes(0)


def _complaint(stdout: str) -> str:
    """Return the first line that is an error: those behind it say what could not be done then."""
    return next((line for line in stdout.splitlines() if "Error:" in line), "")
