"""A toy level in one file, as CONTRIBUTING describes it: a folder used as a file system.

Tests copy it into a folder of levels; it is part of zonelab nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from harness.levels.level import Kind, Level, LevelContext, LevelUp, LevelUsage, Needs, Progress
from harness.levels.options import OneOf, Option
from harness.store.spec import Bytes, Device, Reason
from harness.tools import zone_reset


class Toy(Level):
    """``mkdir``, and little else."""

    name: ClassVar[str] = "toy"
    summary: ClassVar[str] = "a folder"
    kind: ClassVar[Kind] = Kind.FILE_SYSTEM
    needs: ClassVar[Needs] = Needs(4, 2, "as the test has it")
    packages: ClassVar[tuple[str, ...]] = ("toy-tools",)
    options: ClassVar[Mapping[str, Option]] = {"colour": OneOf(("red", "green"))}

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:
        """Any zoned device will do."""
        return None if device.zoned else Reason("not-zoned", "the toy wants zones", "name some")

    def room(self, device: Device) -> Bytes:
        """All but a zone."""
        return Bytes(device.capacity - (device.zone_capacity or 0))

    def up(self, context: LevelContext) -> LevelUp:
        """Make the folders."""
        self.check_options(context.options)
        context.check_devices()
        zone_reset.reset_all(Path(context.device.path), context.device.size)
        target = context.scratch / "mnt"
        for name in ("db", "cold"):
            (target / name).mkdir(parents=True)
        return LevelUp(target / "db", None, target / "cold", (context.device,))

    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: Progress) -> int:
        """One sparse file."""
        assert up.cold_dir is not None
        with (up.cold_dir / "cold").open("wb") as file:
            file.truncate(size)
        progress(size, size)
        return size

    def usage(self, up: LevelUp) -> LevelUsage:
        """Only that zone is reserved."""
        return LevelUsage(self.room(up.devices[0]), None, None, "none: it is a toy")

    def database_bytes(self, up: LevelUp) -> int:
        """Sum the lengths of the files."""
        assert up.db is not None
        return sum(path.stat().st_size for path in up.db.iterdir())

    def sync(self, up: LevelUp) -> None:
        """Nothing is held back."""

    def down(self, up: LevelUp) -> None:
        """Remove the folders."""
        assert up.db is not None
        for path in sorted(up.db.parent.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if up.db.parent.exists():
            up.db.parent.rmdir()
