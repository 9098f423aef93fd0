"""mkfs.f2fs (f2fs-tools) for a conventional device plus a zoned one."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "mkfs.f2fs"


def argv(conventional: Path, zoned: Path, *, label: str, o: str = "") -> list[str]:
    """Return the argument list: -m zoned block device support, -c the zoned device.

    ``o`` is mkfs.f2fs's -o, the over-provision ratio in percent; empty: its own choice.
    """
    extra = ["-o", o] if o else []
    return [
        PROGRAM, "-q", "-f", "-m", "-c", str(zoned), *extra, "-l", label, str(conventional),
    ]  # fmt: skip
