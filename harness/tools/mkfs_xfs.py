"""mkfs.xfs (xfsprogs)."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "mkfs.xfs"


def argv(device: Path, *, label: str, m: str = "") -> list[str]:
    """Return the argument list; ``m`` is mkfs.xfs's -m (metadata options)."""
    extra = ["-m", m] if m else []
    return [PROGRAM, "-q", "-f", *extra, "-L", label[:12], str(device)]
