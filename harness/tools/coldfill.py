"""coldfill, the native program that writes and verifies cold data (harness/native/coldfill)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from harness.errors import ToolFailed
from harness.tools import native, proc
from harness.tools.native import whole

PROGRAM = "coldfill"

_FULL = 28  # exit status: errno ENOSPC
# No measured device is slower, so a slower fill counts as hung.
_SLOWEST_BYTES_PER_SECOND = 2_000_000
_GRACE_SECONDS = 120.0


def timeout(size: int) -> float:
    """Return the time limit of writing ``size`` bytes of cold data, in seconds."""
    return _GRACE_SECONDS + size / _SLOWEST_BYTES_PER_SECOND


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

    Return the bytes written, which are less than ``size`` if the file system is full. ``progress``
    is also called while coldfill is silent, and may end it with an exception.

    Raises:
        HostError: coldfill is not installed.
        TimedOut: the fill is slower than 2 MB/s.
        ToolFailed: it failed for another reason than a full file system.
    """
    argv = write_argv(native.program(PROGRAM), file, size, seed)
    on_line = progress_reader(progress, lambda line: parse(line) if line.startswith("{") else None)
    done = proc.stream(argv, on_line, timeout=timeout(size))
    if not done.ok and done.exit_code != _FULL:
        raise proc.failure(done)
    return parse(done.stdout)


def progress_reader(
    progress: Callable[[int], None], bytes_in: Callable[[str], int | None]
) -> Callable[[str], None]:
    """Return the reader for ``proc.stream`` that passes the bytes so far to ``progress``.

    ``bytes_in`` returns null for a line without progress. In silence, the bytes are the last ones.
    """
    written = 0

    def on_line(line: str) -> None:
        nonlocal written
        found = bytes_in(line) if line else written
        if found is not None:
            written = found
            progress(found)

    return on_line


def parse(printed: str) -> int:
    """Return the bytes written so far, from the result or a progress line.

    Raises:
        ToolFailed: it is not coldfill's JSON object.
    """
    try:
        return whole(json.loads(printed)["bytes"])
    except (ValueError, KeyError, TypeError):
        raise ToolFailed(
            f"coldfill printed {printed.strip()[:80]!r}", code="output-malformed"
        ) from None
