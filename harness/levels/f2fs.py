"""f2fs in zoned mode: data on the zoned device, metadata on a small conventional slice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from harness import nulls
from harness.errors import ToolFailed
from harness.levels.filesystem import MIB, FileSystemLevel, text
from harness.levels.level import LevelContext, LevelUp, LevelUsage, Needs
from harness.levels.options import OneOf, Option, Text
from harness.observe.gauges import Gauge, number
from harness.observe.signatures import Probe
from harness.observe.tracing.time_between import TimeBetween
from harness.quantities import SECTOR
from harness.store.spec import Bytes, Device, Reason, Scalar
from harness.tools import mkfs_f2fs, mount, zone_reset
from harness.tools.kernel import Kernel

# Hot, warm and cold for data and for nodes each write to their own zone (f2fs active_logs=6).
_ACTIVE_LOGS = 6
# A segment; sections (zones' capacities) must consist of whole ones or f2fs dies with EIO.
_SEGMENT = 2 * MIB
_BLOCK = 4096
_MINOR_BITS = 20
# f2fs puts all data on a large conventional device, so use the smallest slice that formats and
# mounts. It grows with the zoned device (metadata tables) and with the zone size.
_SLICES = tuple(Bytes(mib * MIB) for mib in (16, 24, 32, 48, 64, 96, 128, 192, 256))
_LARGER_SLICE_FACTORS = (1.5, 2.0)
_LARGEST_SLICE = Bytes(64 << 30)

# Moved blocks, not calls of GC: a call without a victim moves nothing.
_GC_BLOCKS = ("moved_blocks_foreground", "moved_blocks_background")
_GC_CALLS = ("gc_foreground_calls", "gc_background_calls")
# Sleeps of background work (Documentation/ABI/testing/sysfs-fs-f2fs), in seconds or milliseconds.
_SLEEPS = (
    "gc_min_sleep_time",
    "gc_max_sleep_time",
    "gc_no_gc_sleep_time",
    "cp_interval",
    "idle_interval",
    "gc_idle_interval",
    "discard_idle_interval",
    "min_discard_issue_time",
    "mid_discard_issue_time",
    "max_discard_issue_time",
)
_STATE = (*_GC_CALLS, "free_segments", "dirty_segments", "ovp_segments")


def slice_sizes() -> list[Bytes]:
    """Return the conventional slices to try, ascending: 16 MiB … 256 MiB, 384, 512, 768, … ."""
    sizes = list(_SLICES)
    while sizes[-1] < _LARGEST_SLICE:
        base = sizes[-1]
        sizes += [Bytes(int(base * factor)) for factor in _LARGER_SLICE_FACTORS]
    return sizes


class F2fs(FileSystemLevel):
    """``mkfs.f2fs -m -c <zoned> <slice>``, mounted by the slice."""

    name: ClassVar[str] = "f2fs"
    summary: ClassVar[str] = "f2fs on the zoned device with a small conventional slice"
    timed_collection: ClassVar[bool] = True
    counters: ClassVar[tuple[str, ...]] = (*_GC_BLOCKS, *_GC_CALLS)
    gc_columns: ClassVar[tuple[str, ...]] = _GC_BLOCKS
    modules: ClassVar[tuple[str, ...]] = ("f2fs",)
    filesystem: ClassVar[str] = "f2fs"
    needs: ClassVar[Needs] = Needs(16, _ACTIVE_LOGS, "f2fs keeps six logs open")
    needs_conventional: ClassVar[bool] = True
    programs: ClassVar[tuple[str, ...]] = (mkfs_f2fs.PROGRAM, "dmsetup")
    signatures: ClassVar[tuple[Probe, ...]] = (
        Probe("f2fs", 0x400, b"\x10\x20\xf5\xf2", 0x47C, 1024, utf16=True),
    )
    kernel_errors: ClassVar[str] = r"F2FS-fs .*(?:error|shutdown)"
    kernel_mounted: ClassVar[str] = r"F2FS-fs .*Mounted with checkpoint"
    packages: ClassVar[tuple[str, ...]] = ("f2fs-tools", "dmsetup")
    options: ClassVar[Mapping[str, Option]] = {
        "o": Text(),
        "active_logs": OneOf((2, 4, 6)),  # Documentation/filesystems/f2fs.rst
        "mount_options": Text(),
    }
    active_option: ClassVar[str] = "active_logs"

    def __init__(self, kernel: Kernel | None = None) -> None:
        super().__init__(kernel)
        # By zoned device and mkfs's options, so that a campaign searches once: each attempt resets
        # and formats a whole drive.
        self._smallest: dict[tuple[str, int, str], Bytes] = {}

    def opens(self, device: Device, options: Mapping[str, Scalar]) -> int | None:
        """Return the number of logs: each fills one zone at a time."""
        logs = int(options.get(self.active_option, _ACTIVE_LOGS))
        most = super().opens(device, {})
        return logs if most is None else min(most, logs)

    def probe_zoned(self, device: Device) -> Reason | None:
        """Check that all logs can be open, and that zones consist of whole segments."""
        if device.max_open_zones and device.max_open_zones < _ACTIVE_LOGS:
            return Reason(
                "zones-open-limit",
                f"f2fs writes {_ACTIVE_LOGS} zones at once, "
                f"{device.path} allows {device.max_open_zones}",
                "use a namespace with more open zones",
            )
        if device.zone_capacity is None or device.zone_capacity % _SEGMENT:
            return Reason(
                "zone-capacity",
                f"f2fs needs a zone capacity that is a multiple of {_SEGMENT} B, "
                f"{device.path} has {device.zone_capacity} B",
                "use a namespace whose zone capacity is a multiple of 2 MiB",
            )
        return None

    def minimum_conventional(self, device: Device) -> Bytes:  # noqa: ARG002 - same for all
        """Return the smallest slice that is tried."""
        return _SLICES[0]

    def make(self, context: LevelContext, target: Path) -> None:
        """Try slices upward until one formats and mounts; later runs begin with that one.

        mkfs prints how much a slice lacks; smaller sizes are skipped.
        """
        if context.conventional is None:
            raise ToolFailed("f2fs needs a conventional device", code="missing-device")
        device = context.device
        key = (device.identity.key, device.size, text(context.options, "o"))
        least = self._smallest.get(key, _SLICES[0])
        last: ToolFailed | None = None
        for size in slice_sizes():
            if size < least:
                continue
            if size > context.conventional.size:
                break
            try:
                self._try(context, target, size)
            except ToolFailed as error:
                last = error
                least = Bytes(size + mkfs_f2fs.lacking(error.message))
                self.down(self._describe(context))
                target.mkdir(exist_ok=True)
            else:
                self._smallest[key] = size
                self._slow_down(context)
                self._collecting(context.device).start()
                return
        raise ToolFailed(
            f"no conventional slice up to {context.conventional.size} B makes f2fs format and "
            f"mount: {last.message if last else 'the device is too small'}",
            hint=last.hint if last else "-e conventional_device=<a larger device>",
            code="f2fs-slice",
        )

    def gc(self, up: LevelUp) -> LevelUsage:
        """Read the blocks (4 KiB each) that GC moved from /sys/fs/f2fs/<slice>/."""
        device = self.device_of(up)
        raw = self.kernel.counters("fs", "f2fs", device, names=(*_GC_BLOCKS, *_STATE))
        moved = nulls.total(raw.get(name) for name in _GC_BLOCKS)
        source = f"/sys/fs/f2fs/{device}/{{{','.join(_GC_BLOCKS)}}}"
        missing = [name for name in _GC_BLOCKS if name not in raw]
        if missing:
            source += f"; this kernel has no {', '.join(missing)}"
        slice_size = self.kernel.counter("class", "block", device, "size")
        if slice_size is not None:
            raw["conventional_slice_bytes"] = slice_size * SECTOR
        return LevelUsage(
            free_bytes=None,
            gc_events=moved,
            gc_bytes=None if moved is None else moved * _BLOCK,
            gc_source=f"f2fs_gc_begin, f2fs_gc_end; {source}",
            raw=raw,
            gc_seconds=self._collecting(up.devices[0]).seconds(self._number(up)),
        )

    def down(self, up: LevelUp) -> None:
        """Take the file system down, then stop timing its collection."""
        super().down(up)
        self._collecting(up.devices[0]).stop()

    def gauges(self, up: LevelUp) -> tuple[Gauge, ...]:
        """Read the same counters, and the segments."""
        device = self.device_of(up)
        names = (*_GC_BLOCKS, *_STATE)
        return tuple(number(self.kernel.sys("fs", "f2fs", device, name), name) for name in names)

    def _collecting(self, zoned: Device) -> TimeBetween:
        """Measure the times of collections; a file system runs one at a time."""
        return TimeBetween(
            self.kernel.sys("kernel", "tracing"),
            f"zonelab-gc-{zoned.name}",
            "f2fs/f2fs_gc_begin",
            "f2fs/f2fs_gc_end",
            "dev",
        )

    def _number(self, up: LevelUp) -> int:
        """Return the file system's device number as the kernel's events have it (MKDEV)."""
        major, minor = map(int, self.mounted(up).device.split(":"))
        return major << _MINOR_BITS | minor

    def _slow_down(self, context: LevelContext) -> None:
        """Let background work sleep longer where the drive is modelled and dilated.

        A second of the drive takes ``dilation`` seconds of the kernel's clock.
        """
        factor = context.device.dilation
        if factor == 1:
            return
        folder = ("fs", "f2fs", self.device_of(self._describe(context)))
        for name, usual in self.kernel.counters(*folder, names=_SLEEPS).items():
            self.kernel.set(*folder, name, value=usual * factor, hint="a lower dilation")

    def _try(self, context: LevelContext, target: Path, size: Bytes) -> None:
        zoned = Path(context.device.path)
        context.check_devices()
        source = self.slice(context, size)
        zone_reset.reset_all(zoned, context.device.size)
        mkfs_f2fs.make(source, zoned, label=context.label, o=text(context.options, "o"))
        mount.mount(source, target, "f2fs", mount_options(context.options))


def mount_options(options: Mapping[str, Scalar]) -> str:
    """Return mount's -o: the number of open logs, then the study's options."""
    logs = f"active_logs={options['active_logs']}" if "active_logs" in options else ""
    return ",".join(part for part in (logs, text(options, "mount_options")) if part)
