"""The integration levels. A new one is one module and one line here."""

from __future__ import annotations

from harness.levels.base import Level
from harness.levels.btrfs import Btrfs
from harness.levels.conventional import ConventionalExt4, ConventionalXfs
from harness.levels.f2fs import F2fs
from harness.levels.zlfs import Zlfs

LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        ConventionalExt4(),
        ConventionalXfs(),
        F2fs(),
        Btrfs(),
        Zlfs(),
    )
}

__all__ = ["LEVELS", "Level"]
