"""btrfs in zoned mode: one zoned device, no companion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from harness import nulls
from harness.errors import ToolFailed
from harness.levels.filesystem import MIB, MKFS_TIMEOUT_SECONDS, FileSystemLevel, text
from harness.levels.level import LevelContext, LevelUp, LevelUsage, Needs
from harness.levels.options import PERCENT, Option, Text
from harness.observe.gauges import Gauge, number
from harness.observe.signatures import Probe
from harness.store.spec import Device, Reason
from harness.tools import mkfs_btrfs, mount, proc, zone_reset

# fs/btrfs/zoned.c: BTRFS_MIN_ZONE_SIZE, BTRFS_MAX_ZONE_SIZE, BTRFS_MIN_ACTIVE_ZONES.
_MIN_ZONE_SIZE = 4 * MIB
_MAX_ZONE_SIZE = 8 << 30
_MIN_ACTIVE_ZONES = 8
# From this version on, btrfs caps metadata reservations at half of what the open metadata zones can
# still take. With small zones, fsync then fails with EAGAIN: measured in docs/levels.md, "btrfs".
_CAPPED_SINCE = (7, 0)
_CAPPED_CAPACITY = 256 * MIB  # the largest that failed; a short campaign passed on 288 MiB

_SPACES = ("data", "metadata")
# All groups of zones; older kernels lack the two sub-groups.
_ALLOCATED = ("data", "data-reloc", "metadata", "metadata-treelog", "system")
# Superblock logs of two zones each: at the start, and at these offsets where the device has them.
_SUPER_LOG_ZONES = 2
_SUPER_MIRRORS = (512 << 30, 4096 << 30)
_RECLAIM = ("reclaim_count", "reclaim_bytes", "reclaim_errors")
# bytes_zone_unusable includes the gap between a zone's size and its capacity.
_TAKEN = ("bytes_used", "bytes_zone_unusable")
_STATE = ("total_bytes", "bytes_used", "bytes_zone_unusable", "bg_reclaim_threshold")


class Btrfs(FileSystemLevel):
    """``mkfs.btrfs -O zoned -m single -d single``."""

    name: ClassVar[str] = "btrfs"
    summary: ClassVar[str] = "btrfs on the zoned device alone"
    timed_collection: ClassVar[bool] = True
    counters: ClassVar[tuple[str, ...]] = tuple(f"{s}.{n}" for s in _SPACES for n in _RECLAIM)
    gc_columns: ClassVar[tuple[str, ...]] = tuple(f"{space}_reclaim_count" for space in _SPACES)
    modules: ClassVar[tuple[str, ...]] = ("btrfs",)
    filesystem: ClassVar[str] = "btrfs"
    needs: ClassVar[Needs] = Needs(
        16,
        _MIN_ACTIVE_ZONES,
        "BTRFS_MIN_ACTIVE_ZONES: 3 superblock, 3 block groups, log, relocation",
    )
    programs: ClassVar[tuple[str, ...]] = (mkfs_btrfs.PROGRAM,)
    signatures: ClassVar[tuple[Probe, ...]] = (
        Probe("btrfs", 0x10040, b"_BHRfS_M", 0x1012B, 256),
        Probe("btrfs", 0x40, b"_BHRfS_M", 0x12B, 256),  # zoned: the log of superblocks is at 0
    )
    kernel_errors: ClassVar[str] = r"BTRFS:? (?:error|critical)"
    packages: ClassVar[tuple[str, ...]] = ("btrfs-progs",)
    options: ClassVar[Mapping[str, Option]] = {
        "bg_reclaim_threshold": PERCENT,
        "mount_options": Text(),
    }

    def probe_zoned(self, device: Device) -> Reason | None:
        """Check the zone size, the number of zones and the limit of active zones."""
        size = device.zone_size or 0
        if not _MIN_ZONE_SIZE <= size <= _MAX_ZONE_SIZE:
            return Reason(
                "zone-size",
                f"btrfs needs zones of 4 MiB to 8 GiB, {device.path} has {size} B",
                "use a namespace with such zones",
            )
        if (reason := self.require_zones(device)) is not None:
            return reason
        if device.max_active_zones and device.max_active_zones < _MIN_ACTIVE_ZONES:
            return Reason(
                "zones-active-limit",
                f"btrfs needs {_MIN_ACTIVE_ZONES} active zones, "
                f"{device.path} allows {device.max_active_zones}",
                "use a namespace with more active zones",
            )
        capacity = device.zone_capacity or size
        if capacity <= _CAPPED_CAPACITY and self.kernel.version() >= _CAPPED_SINCE:
            return Reason(
                "zones-too-small",
                f"btrfs on Linux 7.0 and newer fails fsync with EAGAIN on zones of "
                f"{capacity // MIB} MiB: they limit the reservations of its metadata",
                "use a namespace with zones of more than 256 MiB, or a kernel before 7.0",
            )
        return None

    def make(self, context: LevelContext, target: Path) -> None:
        """Reset all zones, format, mount, set the reclaim threshold when asked."""
        zoned = Path(context.device.path)
        context.check_devices()
        zone_reset.reset_all(zoned, context.device.size)
        proc.run(mkfs_btrfs.argv(zoned, label=context.label), timeout=MKFS_TIMEOUT_SECONDS)
        mount.mount(zoned, target, "btrfs", text(context.options, "mount_options"))
        threshold = context.options.get("bg_reclaim_threshold")
        if threshold is not None:  # reclaim block groups used less than this share (%)
            names = (*self._allocation(zoned), "data", "bg_reclaim_threshold")
            hint = "0 to 100, on a kernel that has the setting"
            self.kernel.set(*names, value=threshold, hint=hint)

    def usage(self, up: LevelUp) -> LevelUsage:
        """Return the counters of ``gc`` and free bytes from the allocation, not from statvfs.

        statvfs counts zones with their size and promises more than the device's capacity (132 %
        of it if zones of 8 MiB hold 6 MiB). Free is what data can still take: unallocated zones
        times zone capacity, plus what is left in the zones that belong to data.
        """
        usage = super().usage(up)
        free = self._free_bytes(up.devices[0])
        raw = {**usage.raw, "statvfs.f_bavail_bytes": usage.free_bytes or 0}
        return replace(usage, free_bytes=free, raw=raw)

    def gc(self, up: LevelUp) -> LevelUsage:
        """Read the reclaim counters of /sys/fs/btrfs/<uuid>/allocation/{data,metadata}/."""
        folder = self._allocation(Path(up.devices[0].path))
        names = [f"{space}/{name}" for space in _SPACES for name in (*_RECLAIM, *_STATE)]
        found = self.kernel.counters(*folder, names=names)
        raw = {name.replace("/", "."): value for name, value in found.items()}
        counts = [raw.get(f"{space}.reclaim_count") for space in _SPACES]
        sizes = [raw.get(f"{space}.reclaim_bytes") for space in _SPACES]
        source = f"/sys/{'/'.join(folder)}/{{data,metadata}}/reclaim_{{count,bytes}}"
        if None in counts or None in sizes:
            source += "; this kernel does not have them"
        return LevelUsage(
            free_bytes=None,
            gc_events=nulls.total(counts),
            gc_bytes=nulls.total(sizes),
            gc_source=source,
            raw=raw,
        )

    def gauges(self, up: LevelUp) -> tuple[Gauge, ...]:
        """Read the same counters."""
        folder = self._allocation(Path(up.devices[0].path))
        return tuple(
            number(self.kernel.sys(*folder, space, name), f"{space}_{name}")
            for space in _SPACES
            for name in (*_RECLAIM, *_STATE)
        )

    def _free_bytes(self, device: Device) -> int | None:
        """Return free bytes for data; None where sysfs lacks a counter."""
        folder = self._allocation(Path(device.path))
        names = ("total_bytes", *_TAKEN)
        data = [self.kernel.counter(*folder, "data", name) for name in names]
        if None in data or not (device.zones and device.zone_size and device.zone_capacity):
            return None
        total, *taken = (value for value in data if value is not None)
        totals = (self.kernel.counter(*folder, space, "total_bytes") for space in _ALLOCATED)
        allocated = sum(size or 0 for size in totals)
        logs = 1 + sum(offset < device.size for offset in _SUPER_MIRRORS)
        unallocated = device.zones - logs * _SUPER_LOG_ZONES - allocated // device.zone_size
        return max(0, unallocated) * device.zone_capacity + max(0, total - sum(taken))

    def _allocation(self, device: Path) -> tuple[str, ...]:
        """Return the folder of sysfs with the counters of the file system on ``device``."""
        name = self.kernel.block_name(device)
        for link in self.kernel.sys("fs", "btrfs").glob(f"*/devices/{name}"):
            return ("fs", "btrfs", link.parent.parent.name, "allocation")
        raise ToolFailed(f"no btrfs on {device} is mounted", code="not-mounted")
