"""mkfs.xfs (xfsprogs)."""

from __future__ import annotations

import re
from pathlib import Path

from harness.errors import ToolFailed
from harness.tools import proc

PROGRAM = "mkfs.xfs"
_TIMEOUT_SECONDS = 60.0


def argv(
    device: Path, *, label: str, m: str = "", r: str = "", log: str = "", unsupported: bool = False
) -> list[str]:
    """Return the argument list.

    ``m`` is -m (metadata options), ``r`` -r (realtime device), ``log`` -l (log options).
    ``unsupported`` permits logs below 64 MiB.
    """
    extra = ["--unsupported"] if unsupported else []
    extra += ["-m", m] if m else []
    extra += ["-l", log] if log else []
    extra += ["-r", r] if r else []
    return [PROGRAM, "-q", "-f", *extra, "-L", label[:12], str(device)]


def version() -> tuple[int, int]:
    """Return the installed version.

    Raises:
        HostError: mkfs.xfs is not installed.
        ToolFailed: its output is unexpected.
    """
    done = proc.run([PROGRAM, "-V"], timeout=_TIMEOUT_SECONDS)
    return parse_version(done.stdout + done.stderr)


def parse_version(text: str) -> tuple[int, int]:
    """Parse ``mkfs.xfs version 6.1.0``. Raises the errors of ``version``."""
    match = re.search(r"^mkfs\.xfs version (\d+)\.(\d+)", text, re.MULTILINE)
    if match is None:
        raise ToolFailed(f"mkfs.xfs -V printed {text.strip()!r}", code="output-malformed")
    return int(match[1]), int(match[2])
