"""mkfs.btrfs (btrfs-progs) for one zoned device."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "mkfs.btrfs"


def argv(device: Path, *, label: str) -> list[str]:
    """Return the argument list: profiles are single, which all versions of zoned mode support."""
    profiles = ["-m", "single", "-d", "single"]
    return [PROGRAM, "-q", "-f", "-O", "zoned", *profiles, "-L", label, str(device)]
