"""xfs in zoned mode: data on the zoned device as its realtime device, metadata on a slice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from harness.levels.filesystem import (
    MIB,
    MKFS_TIMEOUT_SECONDS,
    XFS_ERRORS,
    XFS_MOUNTED,
    XFS_SIGNATURE,
    FileSystemLevel,
    text,
)
from harness.levels.level import LevelContext, LevelUp, LevelUsage, Needs
from harness.levels.options import PERCENT, Option, Switch, Text, Whole, is_on
from harness.observe.gauges import Gauge, Values, number
from harness.observe.signatures import Probe
from harness.store.spec import Bytes, Device, Reason
from harness.tools import mkfs_xfs, mount, proc, xfs_stats, zone_reset

# The first versions of Linux and xfsprogs that support zones: Documentation/admin-guide/xfs.rst,
# and xfsprogs' changelog.
_SINCE = (6, 15)
# fs/xfs/Kconfig: zoned devices are realtime devices; off by default before Linux 6.18.
_REALTIME = "CONFIG_XFS_RT"
# mkfs.xfs refuses data devices below 300 MiB; metadata of a zoned file system takes about 1 %.
_LEAST_SLICE = 320 * MIB
_SLICE_SHARE = 50

_STATE = ("max_open_zones", "nr_open_zones", "zonegc_low_space")


class Xfs(FileSystemLevel):
    """``mkfs.xfs -r rtdev=<zoned> <slice>``, mounted by the slice."""

    name: ClassVar[str] = "xfs"
    # It needs a newer kernel and xfsprogs than other levels have.
    owns: ClassVar[tuple[str, ...]] = ("host.kernel", "host.os", "manifest.packages.")
    summary: ClassVar[str] = "xfs on the zoned device with a small conventional slice for metadata"
    timed_collection: ClassVar[bool] = True
    counters: ClassVar[tuple[str, ...]] = xfs_stats.COLUMNS
    gc_columns: ClassVar[tuple[str, ...]] = ("gc_write_calls", "gc_bytes")
    modules: ClassVar[tuple[str, ...]] = ("xfs",)
    filesystem: ClassVar[str] = "xfs"
    needs: ClassVar[Needs] = Needs(16, 2, "XFS_MIN_OPEN_ZONES: one for data, one for the collector")
    needs_conventional: ClassVar[bool] = True
    programs: ClassVar[tuple[str, ...]] = (mkfs_xfs.PROGRAM, "dmsetup")
    signatures: ClassVar[tuple[Probe, ...]] = (XFS_SIGNATURE,)
    kernel_errors: ClassVar[str] = XFS_ERRORS
    kernel_mounted: ClassVar[str] = XFS_MOUNTED
    packages: ClassVar[tuple[str, ...]] = ("xfsprogs", "dmsetup")
    options: ClassVar[Mapping[str, Option]] = {
        "max_open_zones": Whole(1),
        "lifetime": Switch(),
        "zonegc_low_space": PERCENT,
        "m": Text(),
        "mount_options": Text(),
    }
    active_option: ClassVar[str] = "max_open_zones"

    def probe_zoned(self, device: Device) -> Reason | None:
        """Check that xfs can derive the zone size, and that kernel and xfsprogs support zones."""
        # xfs_compute_rgblklog(): the file system stores only the capacity.
        capacity = device.zone_capacity or 0
        if 1 << (capacity - 1).bit_length() != device.zone_size:
            return Reason(
                "zone-size",
                f"xfs rounds the zone capacity of {capacity // MIB} MiB up to a power of two, not "
                f"to the zone size of {(device.zone_size or 0) // MIB} MiB",
                "use a namespace whose capacity is more than half of the zone size; the rig xfs "
                "has one",
            )
        if self.kernel.version() < _SINCE:
            major, minor = self.kernel.version()
            return Reason(
                "kernel-too-old",
                f"xfs supports zones from Linux 6.15 on, this is {major}.{minor}",
                "boot a kernel from 6.15 on",
            )
        if self.kernel.configured(_REALTIME) is False:  # unknown: mount fails if it is missing
            return Reason(
                "kernel-config",
                f"the running kernel ({os.uname().release}) was built without {_REALTIME}, which "
                "xfs needs for zones",
                f"boot a kernel that has {_REALTIME}=y",
            )
        version = mkfs_xfs.version()
        if version < _SINCE:
            return Reason(
                "xfsprogs-too-old",
                f"mkfs.xfs supports zones from version 6.15 on, this is {version[0]}.{version[1]}",
                "install xfsprogs 6.15 or newer; the rig xfs has one",
            )
        return None

    def minimum_conventional(self, device: Device) -> Bytes:
        """Return the slice for metadata."""
        return Bytes(max(_LEAST_SLICE, device.capacity // _SLICE_SHARE // MIB * MIB))

    def make(self, context: LevelContext, target: Path) -> None:
        """Cut the slice, reset zones, format, mount, set the collector's threshold when asked."""
        zoned = Path(context.device.path)
        context.check_devices()
        source = self.slice(context, self.minimum_conventional(context.device))
        zone_reset.reset_all(zoned, context.device.size)
        argv = mkfs_xfs.argv(
            source, label=context.label, m=text(context.options, "m"), r=f"rtdev={zoned}"
        )
        proc.run(argv, timeout=MKFS_TIMEOUT_SECONDS)
        mount.mount(source, target, "xfs", mount_options(zoned, context))
        if "zonegc_low_space" in context.options:
            # The share (%) of unused space that is kept writable.
            names = ("fs", "xfs", self.kernel.block_name(source), "zoned", "zonegc_low_space")
            hint = "0 to 100, on a kernel that has the setting"
            self.kernel.set(*names, value=context.options["zonegc_low_space"], hint=hint)

    def gc(self, up: LevelUp) -> LevelUsage:
        """Read the collector's counters (Linux 7.0 and newer) and the zones' state from sysfs.

        An event is a piece of data that was moved. Resets are not events: they include zones that
        became empty without the collector.
        """
        device = self.device_of(up)
        stats = self.kernel.sys("fs", "xfs", device, "stats", "stats")
        counts = xfs_stats.parse(stats.read_text(encoding="ascii"))
        state = self.kernel.counters("fs", "xfs", device, "zoned", names=_STATE)
        source = f"/sys/fs/xfs/{device}/stats/stats: zoned, gc xpc"
        return LevelUsage(
            free_bytes=None,
            gc_events=counts["gc_write_calls"] if counts else None,
            gc_bytes=counts["gc_bytes"] if counts else None,
            gc_source=source if counts else f"{source}; this kernel does not have them",
            raw={**(counts or {}), **state},
        )

    def gauges(self, up: LevelUp) -> tuple[Gauge, ...]:
        """Read the same counters."""
        device = self.device_of(up)
        names = xfs_stats.COLUMNS

        def parse(data: bytes) -> Values:
            counts = xfs_stats.parse(data.decode("ascii"))
            return [counts[name] if counts else None for name in names]

        stats = Gauge(self.kernel.sys("fs", "xfs", device, "stats", "stats"), names, parse)
        zoned = [self.kernel.sys("fs", "xfs", device, "zoned", name) for name in _STATE]
        return (stats, *(number(path, path.name) for path in zoned))


def mount_options(zoned: Path, context: LevelContext) -> str:
    """Return mount's -o: the realtime device, then the study's options (mount(8), xfs.rst)."""
    options = [f"rtdev={zoned}"]
    if "max_open_zones" in context.options:
        options.append(f"max_open_zones={context.options['max_open_zones']}")
    if "lifetime" in context.options:
        options.append("lifetime" if is_on(context.options["lifetime"]) else "nolifetime")
    more = text(context.options, "mount_options")
    return ",".join([*options, more] if more else options)
