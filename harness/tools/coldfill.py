"""coldfill, the native program that writes and verifies cold data (harness/native/coldfill)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from harness.errors import ToolFailed
from harness.tools import native, proc

PROGRAM = "coldfill"

_FULL = 28  # exit status: errno ENOSPC
# The slowest device worth measuring; a slower fill counts as hung.
_SLOWEST_BYTES_PER_SECOND = 2_000_000
_GRACE_SECONDS = 120.0


def write_argv(program: Path, file: Path, size: int, seed: int) -> list[str]:
    """Return the argument list of a fill; the seed is taken modulo 2^64."""
    return [
        str(program),
        "write",
        "--file",
        str(file),
        "--bytes",
        str(size),
        "--seed",
        str(seed % 2**64),
        "--direct",
    ]


def write(file: Path, size: int, seed: int, progress: Callable[[int], None]) -> int:
    """Write a file of ``size`` bytes, a multiple of 4 KiB; ``progress`` receives bytes so far.

    Return the bytes written: less than ``size`` when the file system is full.

    Raises:
        HostError: coldfill is not installed.
        TimedOut: the fill is slower than 2 MB/s.
        ToolFailed: it failed, other than by a full file system.
    """

    def on_line(line: str) -> None:
        if line.startswith("{"):
            progress(_field(json.loads(line), "bytes"))

    timeout = _GRACE_SECONDS + size / _SLOWEST_BYTES_PER_SECOND
    done = proc.stream(
        write_argv(native.program(PROGRAM), file, size, seed), on_line, timeout=timeout
    )
    if not done.ok and done.exit_code != _FULL:
        raise proc.failure(done)
    return parse(done.stdout)


def parse(stdout: str) -> int:
    """Return the bytes that ``coldfill write`` wrote.

    Raises:
        ToolFailed: it is not coldfill's JSON object.
    """
    try:
        return _field(json.loads(stdout), "bytes")
    except ValueError:
        raise _malformed(stdout) from None


def _field(result: object, name: str) -> int:
    value = result.get(name) if isinstance(result, dict) else None
    if not isinstance(value, int):
        raise _malformed(str(result))
    return value


def _malformed(text: str) -> ToolFailed:
    return ToolFailed(f"coldfill printed {text.strip()[:80]!r}", code="output-malformed")
