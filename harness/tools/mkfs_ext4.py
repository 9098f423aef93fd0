"""mkfs.ext4 (e2fsprogs)."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "mkfs.ext4"


def argv(device: Path, *, label: str, m: int = 0, features: str = "") -> list[str]:
    """Return the argument list.

    ``m`` is the share (%) reserved for root: 0 instead of upstream's 5, because db_bench runs as
    root and could use it, while statvfs reports it as used. ``features`` is -O. Here mkfs writes
    inode tables and journal. By default the kernel writes them after the mount, during the
    measurement (25 MB of Write Zeroes in a cold fill of 1.5 GiB).
    """
    extra = ["-O", features] if features else []
    now = ["-E", "lazy_itable_init=0,lazy_journal_init=0"]
    return [PROGRAM, "-q", "-F", "-m", str(m), *now, *extra, "-L", label[:16], str(device)]
