"""mkfs.ext4 (e2fsprogs)."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "mkfs.ext4"


def argv(device: Path, *, label: str, m: int = 0, features: str = "") -> list[str]:
    """Return the argument list.

    ``m`` is the share (%) reserved for root; 0 instead of upstream's 5 because db_bench runs as
    root and would use it anyway, while statvfs would call it taken. ``features`` is -O.
    """
    extra = ["-O", features] if features else []
    return [PROGRAM, "-q", "-F", "-m", str(m), *extra, "-L", label[:16], str(device)]
