"""Base of levels that mount a file system: probe, mount, cold data, barriers, unmount."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from harness.errors import HostError, ToolFailed
from harness.levels.bring_up import bring_up
from harness.levels.level import (
    FillCallback,
    Level,
    LevelContext,
    LevelKind,
    LevelUp,
    LevelUsage,
)
from harness.levels.options import OneOf, Option, Text
from harness.observe.signatures import Probe
from harness.store.spec import Bytes, Device, Reason, Scalar
from harness.tools import coldfill, direct_io, dmsetup, mkfs_ext4, mkfs_xfs, mount, native, proc
from harness.tools.direct_io import DirectIo
from harness.tools.kernel import Kernel, Mount

MIB = 1 << 20
# coldfill writes whole blocks of this size.
COLD_BLOCK = 4096
# Time to write back all dirty pages, which can fill the memory.
_SYNC_TIMEOUT_SECONDS = 600.0
MKFS_TIMEOUT_SECONDS = 600.0
_COMMIT_SECONDS = 5  # ext4's default (Documentation/admin-guide/ext4.rst)

# xfs and conventional-xfs make the same file system.
XFS_SIGNATURE = Probe("xfs", 0, b"XFSB", 108, 12)
XFS_MOUNTED = r"XFS .*Mounting V\d Filesystem"
XFS_ERRORS = r"XFS .*(?:Corruption|shutdown)"


def sync(target: Path) -> None:
    """Sync the file system mounted at ``target`` alone (syncfs)."""
    proc.run(["sync", "-f", target], timeout=_SYNC_TIMEOUT_SECONDS)


def free_bytes(target: Path) -> int:
    """Return the bytes that files can still take in the file system at ``target``."""
    space = os.statvfs(target)
    return space.f_bavail * space.f_frsize


class FileSystemLevel(Level):
    """A file system mounted below the run's scratch directory: ``mnt/db`` and ``mnt/cold``."""

    filesystem: ClassVar[str]
    kind: ClassVar[LevelKind] = LevelKind.FILE_SYSTEM

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel or Kernel()

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:
        """Check programs, the kernel, the zoned device and the conventional one, in this order."""
        return (
            self._probe_programs()
            or self._probe_kernel()
            or (self.probe_zoned(device) if self.uses_zoned else None)
            or (
                self.require_conventional(conventional, self.minimum_conventional(device))
                if self.needs_conventional
                else None
            )
        )

    def probe_zoned(self, device: Device) -> Reason | None:  # noqa: ARG002 - for subclasses
        """Return the reason why the zoned device does not suit this level."""
        return None

    def minimum_conventional(self, device: Device) -> Bytes:  # noqa: ARG002 - for subclasses
        """Return the least size of the conventional device in bytes."""
        return Bytes(0)

    def up(self, context: LevelContext) -> LevelUp:
        """Format and mount; on a failure, take everything down again."""
        self.check_options(context.options)
        up = self._describe(context)
        with bring_up(self, context, up):
            self.mount_point(up).mkdir(parents=True, exist_ok=True)
            self.make(context, self.mount_point(up))
            mounted = self.kernel.mount_at(self.mount_point(up))
            if mounted is None:
                raise ToolFailed(f"{self.mount_point(up)} is not mounted after mount succeeded")
            for folder in (up.db, up.cold_dir):
                if folder is not None:
                    folder.mkdir()
            self.sync(up)
        return replace(up, mount_options=mounted.options)

    @abstractmethod
    def make(self, context: LevelContext, target: Path) -> None:
        """Format the devices (after ``context.check_devices()``) and mount at ``target``."""

    @abstractmethod
    def gc(self, up: LevelUp) -> LevelUsage:
        """Return the level's garbage-collection counters; ``free_bytes`` is filled in later."""

    def own_files(self) -> tuple[Path, ...]:
        """Return coldfill."""
        return (native.program(coldfill.PROGRAM),)

    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: FillCallback) -> int:
        """Write one cold file, synced; less than ``size`` when the file system is full."""
        if up.cold_dir is None:
            raise ValueError("a file system has a directory for cold data")
        whole = size - size % COLD_BLOCK
        if whole == 0:
            return 0
        file = up.cold_dir / "cold"
        stored = coldfill.write(file, whole, seed, lambda done: progress(done, size))
        self.sync(up)
        return stored

    def usage(self, up: LevelUp) -> LevelUsage:
        """Return free bytes (statvfs f_bavail) and the counters of ``gc``."""
        free = free_bytes(self.mount_point(up))
        return replace(self.gc(up), free_bytes=free)

    def direct_io(self, up: LevelUp) -> DirectIo:
        """Write and read a small file with O_DIRECT, and check the page cache."""
        found = direct_io.probe(self.mount_point(up), self.kernel)
        self.sync(up)
        return found

    def sync(self, up: LevelUp) -> None:
        """Sync this file system alone (syncfs), which commits and flushes its devices."""
        sync(self.mount_point(up))

    def down(self, up: LevelUp) -> None:
        """Unmount, unmap and remove the mount point, as far as they exist."""
        target = self.mount_point(up)
        while self.kernel.mount_at(target) is not None:
            mount.umount(target)
        for name in up.mapped:
            uuid = self.kernel.mapped().get(name)
            if uuid is not None and dmsetup.is_ours(name, uuid, up.mapped):
                dmsetup.remove(name)
        if target.exists():
            target.rmdir()

    def mount_point(self, up: LevelUp) -> Path:
        """Return where the file system is mounted: the parent of the database's directory."""
        if up.db is None:
            raise ValueError("a file system has a database directory")
        return up.db.parent

    def slice(self, context: LevelContext, size: Bytes) -> Path:
        """Return the first ``size`` bytes of the conventional device as a block device."""
        if context.conventional is None:
            raise ToolFailed(f"{self.name} needs a conventional device", code="missing-device")
        path = Path(context.conventional.path)
        if context.conventional.size == size:
            return path
        return dmsetup.map_to(dmsetup.name_for(path), size, "linear", f"{path} 0")

    def mapped(self, context: LevelContext) -> tuple[str, ...]:
        """Return the device-mapper names that ``make`` may create, topmost first."""
        if context.conventional is None or not self.needs_conventional:
            return ()
        return (dmsetup.name_for(Path(context.conventional.path)),)

    def device_of(self, up: LevelUp) -> str:
        """Return the block device that is mounted; sysfs lists most file systems by its name."""
        return self.kernel.block_name(Path(self.mounted(up).source))

    def mounted(self, up: LevelUp) -> Mount:
        """Return the mount of the file system.

        Raises:
            ToolFailed: it is not mounted.
        """
        mounted = self.kernel.mount_at(self.mount_point(up))
        if mounted is None:
            raise ToolFailed(f"{self.mount_point(up)} is not mounted", code="not-mounted")
        return mounted

    def mount_options(self, context: LevelContext, filesystem: str) -> str:
        """Return mount's -o; on a modelled drive, with ext4's commit interval on its clock."""
        asked, factor = text(context.options, "mount_options"), self._describe(context).dilation
        slower = ""
        if filesystem == "ext4" and factor > 1:
            slower = f"commit={_COMMIT_SECONDS * factor}"
        return ",".join(part for part in (slower, asked) if part)

    def _describe(self, context: LevelContext) -> LevelUp:
        target = context.scratch / "mnt"
        devices = (
            context.device if self.uses_zoned else None,
            context.conventional if self.needs_conventional else None,
        )
        return LevelUp(
            db=target / "db",
            cold_dir=target / "cold",
            devices=tuple(device for device in devices if device is not None),
            database_log=target / "db" / "LOG",
            mapped=self.mapped(context),
        )

    def _probe_programs(self) -> Reason | None:
        for program in self.programs:
            if proc.which(program) is None:
                return Reason(
                    "program-missing",
                    f"{self.name} needs {program}, which is not installed",
                    f"apt-get install {' '.join(self.packages)}",
                )
        return None

    def _probe_kernel(self) -> Reason | None:
        if self.kernel.filesystem_available(self.filesystem):
            return None
        return Reason(
            "kernel-filesystem",
            f"the running kernel ({os.uname().release}) has no {self.filesystem}",
            "boot a kernel that has it as a module or built in",
        )


class TranslatedLevel(FileSystemLevel):
    """ext4 or xfs over a device-mapper target that hides the zones (option ``filesystem``)."""

    kind: ClassVar[LevelKind] = LevelKind.BLOCK
    filesystem: ClassVar[str] = "ext4"
    target: ClassVar[str]
    module: ClassVar[str]
    programs: ClassVar[tuple[str, ...]] = ("dmsetup", mkfs_ext4.PROGRAM, mkfs_xfs.PROGRAM)
    options: ClassVar[Mapping[str, Option]] = {
        "filesystem": OneOf(("ext4", "xfs")),
        "mount_options": Text(),
    }

    def probe_zoned(self, device: Device) -> Reason | None:
        """Check the target, then what every translation layer needs: capacity equal to size."""
        if device.zone_capacity != device.zone_size:
            return Reason(
                "capacity-below-size",
                f"{self.name} writes whole zones: zones of {device.path} hold "
                f"{device.zone_capacity} B of {device.zone_size} B",
                "use a namespace whose zone capacity equals its zone size",
            )
        return self.probe_target()

    def probe_target(self) -> Reason | None:
        """Check that the kernel has the target, loaded or as a module."""
        try:
            loaded = self.target in dmsetup.targets()
        except (HostError, ToolFailed):
            loaded = False
        if loaded or self.kernel.module_available(self.module):
            return None
        return Reason(
            "kernel-target",
            f"the running kernel ({os.uname().release}) has no device-mapper target {self.target}",
            self.where_from(),
        )

    def where_from(self) -> str:
        """Return the hint that makes the target available."""
        return f"boot a kernel that has the module {self.module}"

    def format(self, device: Path, context: LevelContext, target: Path) -> None:
        """Make the file system on the translated device and mount it."""
        filesystem = text(context.options, "filesystem") or self.filesystem
        mkfs = mkfs_xfs if filesystem == "xfs" else mkfs_ext4
        proc.run(mkfs.argv(device, label=context.label), timeout=MKFS_TIMEOUT_SECONDS)
        mount.mount(device, target, filesystem, self.mount_options(context, filesystem))


def text(options: Mapping[str, Scalar], name: str) -> str:
    """Return an option as text for a command line, empty when it is not set."""
    return str(options.get(name, ""))
