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
    """Return the argument list: -m enables zoned devices, -c names the zoned device.

    ``o`` is -o, the over-provision ratio in percent; empty: the default. There is no -q, because
    it also suppresses error messages.
    """
    extra = ["-o", o] if o else []
    return [PROGRAM, "-f", "-m", "-c", str(zoned), *extra, "-l", label, str(conventional)]


def make(conventional: Path, zoned: Path, *, label: str, o: str = "") -> None:
    """Make the file system.

    Raises:
        ToolFailed: mkfs refused; the message is its first error, not its last line.
    """
    command = argv(conventional, zoned, label=label, o=o)
    done = proc.run(command, timeout=_TIMEOUT_SECONDS, check=False)
    if not done.ok:
        # Later errors are consequences of the first.
        errors = [line for line in done.stdout.splitlines() if "Error:" in line]
        raise proc.failure(replace(done, stderr=errors[0] if errors else done.stderr))


def lacking(message: str) -> Bytes:
    """Return the missing size of the conventional device from mkfs's message, else 0."""
    match = _LACKING.search(message)
    return Bytes(int(match[1]) << 20) if match else Bytes(0)
