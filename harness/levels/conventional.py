"""The baseline: ext4 or xfs on a conventional device cut to the zoned device's capacity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from harness.levels.base import Kind, LevelContext, LevelUp, LevelUsage
from harness.levels.filesystem import FileSystemLevel, text
from harness.levels.options import Option, Text
from harness.store.spec import Bytes, Device
from harness.tools import mkfs_ext4, mkfs_xfs, mount, proc

_MKFS_TIMEOUT_SECONDS = 600.0


class Conventional(FileSystemLevel):
    """A file system that knows nothing of zones; a conventional drive hides its own GC."""

    kind: ClassVar[Kind] = Kind.BASELINE
    needs_conventional: ClassVar[bool] = True
    uses_zoned: ClassVar[bool] = False

    def minimum_conventional(self, device: Device) -> Bytes:
        """The baseline must not have less room than the levels it is compared with."""
        return device.capacity

    def make(self, context: LevelContext, target: Path) -> None:
        """Cut the device, format and mount."""
        context.check_devices()
        source = self.slice(context, context.device.capacity)
        proc.run(self.mkfs(source, context), timeout=_MKFS_TIMEOUT_SECONDS)
        mount.mount(source, target, self.filesystem, text(context.options, "mount_options"))

    def mkfs(self, source: Path, context: LevelContext) -> list[str]:
        """Return the argument list that formats ``source``."""
        raise NotImplementedError

    def gc(self, up: LevelUp) -> LevelUsage:  # noqa: ARG002 - nothing to ask
        """No counters: collection happens inside the drive, where nobody counts."""
        return LevelUsage(None, None, None, f"none: {self.filesystem} collects nothing itself")


class ConventionalExt4(Conventional):
    """ext4 as mkfs.ext4 makes it, without blocks reserved for root."""

    name: ClassVar[str] = "conventional-ext4"
    summary: ClassVar[str] = "ext4 on a conventional device of the same capacity"
    filesystem: ClassVar[str] = "ext4"
    programs: ClassVar[tuple[str, ...]] = (mkfs_ext4.PROGRAM, "dmsetup")
    packages: ClassVar[tuple[str, ...]] = ("e2fsprogs", "dmsetup")
    options: ClassVar[Mapping[str, Option]] = {"O": Text(), "mount_options": Text()}

    def mkfs(self, source: Path, context: LevelContext) -> list[str]:
        """Return mkfs.ext4's argument list."""
        return mkfs_ext4.argv(source, label=context.label, features=text(context.options, "O"))


class ConventionalXfs(Conventional):
    """xfs as mkfs.xfs makes it."""

    name: ClassVar[str] = "conventional-xfs"
    summary: ClassVar[str] = "xfs on a conventional device of the same capacity"
    filesystem: ClassVar[str] = "xfs"
    programs: ClassVar[tuple[str, ...]] = (mkfs_xfs.PROGRAM, "dmsetup")
    packages: ClassVar[tuple[str, ...]] = ("xfsprogs", "dmsetup")
    options: ClassVar[Mapping[str, Option]] = {"m": Text(), "mount_options": Text()}

    def mkfs(self, source: Path, context: LevelContext) -> list[str]:
        """Return mkfs.xfs's argument list."""
        return mkfs_xfs.argv(source, label=context.label, m=text(context.options, "m"))
