"""The baseline: ext4 or xfs on a conventional device cut to the zoned device's capacity."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from harness.levels.filesystem import (
    COLD_BLOCK,
    MKFS_TIMEOUT_SECONDS,
    XFS_ERRORS,
    XFS_MOUNTED,
    XFS_SIGNATURE,
    FileSystemLevel,
    free_bytes,
    sync,
    text,
)
from harness.levels.level import FillCallback, LevelContext, LevelKind, LevelUp, LevelUsage
from harness.levels.options import Option, Switch, Text, is_on
from harness.observe.signatures import Probe
from harness.store.spec import Bytes, Device, Scalar
from harness.tools import coldfill, mkfs_ext4, mkfs_xfs, mount, proc


class Conventional(FileSystemLevel):
    """A file system without zones; a conventional drive hides its own GC."""

    kind: ClassVar[LevelKind] = LevelKind.BASELINE
    needs_conventional: ClassVar[bool] = True
    uses_zoned: ClassVar[bool] = False

    def minimum_conventional(self, device: Device) -> Bytes:
        """The baseline needs as much room as the levels that are compared with it."""
        return device.capacity

    def make(self, context: LevelContext, target: Path) -> None:
        """Cut the device, format, mount, and precondition on request."""
        context.check_devices()
        source = self.slice(context, context.device.capacity)
        proc.run(self.mkfs(source, context), timeout=MKFS_TIMEOUT_SECONDS)
        options = self.mount_options(context, self.filesystem)
        mount.mount(source, target, self.filesystem, options)
        if self.prepares(context.device, context.options):
            precondition(target, context.progress)

    def prepares(self, device: Device, options: Mapping[str, Scalar]) -> Bytes:
        """Return the capacity if the file system is preconditioned."""
        return device.capacity if is_on(options.get("precondition", False)) else Bytes(0)

    @abstractmethod
    def mkfs(self, source: Path, context: LevelContext) -> list[str]:
        """Return the argument list that formats ``source``."""

    def gc(self, up: LevelUp) -> LevelUsage:  # noqa: ARG002 - nothing to ask
        """Return no counters: garbage collection happens inside the drive."""
        return LevelUsage(None, None, None, f"none: {self.filesystem} collects nothing itself")


def precondition(target: Path, progress: FillCallback) -> None:
    """Fill a mounted file system with one file, and delete the file.

    A drive then maps every block, as after long use. After mkfs, which discards the drive, it would
    have spare blocks, and its write amplification would rise during several device writes. With
    the mount option ``discard`` the deletion returns the blocks.
    """
    size = free_bytes(target) // COLD_BLOCK * COLD_BLOCK
    file = target / "precondition"
    coldfill.write(file, size, 0, lambda done: progress(done, size))
    file.unlink()
    sync(target)


class ConventionalExt4(Conventional):
    """ext4 as mkfs.ext4 makes it, without blocks reserved for root."""

    name: ClassVar[str] = "conventional-ext4"
    summary: ClassVar[str] = "ext4 on a conventional device of the same capacity"
    filesystem: ClassVar[str] = "ext4"
    programs: ClassVar[tuple[str, ...]] = (mkfs_ext4.PROGRAM, "dmsetup")
    signatures: ClassVar[tuple[Probe, ...]] = (Probe("ext", 0x438, b"\x53\xef", 0x478, 16),)
    kernel_errors: ClassVar[str] = r"EXT4-fs error"
    kernel_mounted: ClassVar[str] = r"EXT4-fs .*mounted filesystem"
    packages: ClassVar[tuple[str, ...]] = ("e2fsprogs", "dmsetup")
    options: ClassVar[Mapping[str, Option]] = {
        "O": Text(),
        "mount_options": Text(),
        "precondition": Switch(),
    }

    def mkfs(self, source: Path, context: LevelContext) -> list[str]:
        """Return mkfs.ext4's argument list."""
        return mkfs_ext4.argv(source, label=context.label, features=text(context.options, "O"))


class ConventionalXfs(Conventional):
    """xfs as mkfs.xfs makes it."""

    name: ClassVar[str] = "conventional-xfs"
    summary: ClassVar[str] = "xfs on a conventional device of the same capacity"
    filesystem: ClassVar[str] = "xfs"
    programs: ClassVar[tuple[str, ...]] = (mkfs_xfs.PROGRAM, "dmsetup")
    signatures: ClassVar[tuple[Probe, ...]] = (XFS_SIGNATURE,)
    kernel_errors: ClassVar[str] = XFS_ERRORS
    kernel_mounted: ClassVar[str] = XFS_MOUNTED
    packages: ClassVar[tuple[str, ...]] = ("xfsprogs", "dmsetup")
    options: ClassVar[Mapping[str, Option]] = {
        "m": Text(),
        "l": Text(),
        "unsupported": Switch(),
        "mount_options": Text(),
        "precondition": Switch(),
    }

    def mkfs(self, source: Path, context: LevelContext) -> list[str]:
        """Return mkfs.xfs's argument list."""
        return mkfs_xfs.argv(
            source,
            label=context.label,
            m=text(context.options, "m"),
            log=text(context.options, "l"),
            unsupported=is_on(context.options.get("unsupported", False)),
        )
