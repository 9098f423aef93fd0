"""dm-zap: a research target that the user supplies (roles/dm_zap builds or loads it)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from harness.errors import ConfigError, HostError, ToolFailed
from harness.levels.filesystem import TranslatedLevel
from harness.levels.level import LevelContext, LevelUp, LevelUsage
from harness.levels.options import Option, Whole
from harness.quantities import SECTOR
from harness.store.result import Issue, IssueInfo, Severity
from harness.store.spec import Bytes, Device, Reason, Scalar
from harness.tools import dm_zap, dmsetup, zone_reset

# Upstream's target fails writes that cross a zone, unless they come in blocks of its own size.
_BLOCK_SECTORS = 8
_MODULE = "dm_zap"  # in sysfs
# In sysfs. Upstream's target creates this folder and never removes it; patches/dm-zap corrects it.
_FOLDER = ("kernel", "zap")
_TRACE = ("kernel", "tracing", "trace")


class DmZap(TranslatedLevel):
    """``dmsetup create`` with the target ``zap``, then ext4 or xfs on the mapped device."""

    name: ClassVar[str] = "dm-zap"
    # It builds only against a few kernels, so these conditions can differ from the baseline's.
    owns: ClassVar[tuple[str, ...]] = ("host.kernel", "host.os", "manifest.packages.")
    summary: ClassVar[str] = "ext4 or xfs over dm-zap, an out-of-tree research module"
    timed_collection: ClassVar[bool] = True
    target: ClassVar[str] = dm_zap.TARGET
    module: ClassVar[str] = "dm-zap"
    modules: ClassVar[tuple[str, ...]] = ("dm_zap",)
    issues: ClassVar[tuple[IssueInfo, ...]] = (
        IssueInfo(
            "mapping-volatile",
            (Severity.INFO,),
            "the level is dm-zap",
            "dm-zap keeps its mapping in memory only",
        ),
    )
    packages: ClassVar[tuple[str, ...]] = ("dmsetup", "e2fsprogs", "xfsprogs")
    options: ClassVar[Mapping[str, Option]] = {
        **TranslatedLevel.options,
        "split_sectors": Whole(),
        **dict.fromkeys(dm_zap.DEFAULTS, Whole()),
    }

    def check_options(self, options: Mapping[str, Scalar]) -> None:
        """Refuse values that dm-zap refuses."""
        super().check_options(options)
        dm_zap.values(options)
        split_sectors(options)

    def probe_target(self) -> Reason | None:
        """Check the target, then the folder in sysfs, which can exist only once."""
        reason = super().probe_target()
        if reason is None and self.kernel.sys(*_FOLDER).is_dir():
            return self._folder_is_taken()
        return reason

    def _folder_is_taken(self) -> Reason:
        try:
            mapped = dmsetup.mapped_to(self.target)
        except (HostError, ToolFailed):
            mapped = []
        if mapped:
            return Reason(
                "target-in-use",
                f"{mapped[0]} is mapped to zap, and dm-zap works for one device at a time",
                f"if nothing needs it: dmsetup remove {mapped[0]}",
            )
        return Reason(
            "reboot-needed",
            "dm-zap was mapped before in this boot and kept /sys/kernel/zap, so the kernel refuses"
            " to map it again",
            "reboot this host; -e dm_zap_source=FOLDER builds a module that releases the folder"
            " (docs/levels.md)",
        )

    def where_from(self) -> str:
        """Return the hint: only the user can supply the module."""
        return (
            "load one: -e dm_zap_module=FILE.ko, or have it built: -e dm_zap_source=FOLDER"
            " (docs/levels.md)"
        )

    def caveats(self, device: Device) -> tuple[Issue, ...]:  # noqa: ARG002 - the same everywhere
        """Warn that the mapping is in memory only."""
        return (
            Issue(
                "mapping-volatile",
                Severity.INFO,
                "dm-zap keeps its mapping in memory: removing the target loses all data, and"
                " flushes make nothing durable",
            ),
        )

    def mapped(self, context: LevelContext) -> tuple[str, ...]:
        """Return the layer that splits requests, then the target under it."""
        name = context.device.name
        return (f"{dmsetup.PREFIX}split-{name}", f"{dmsetup.PREFIX}zap-{name}")

    def make(self, context: LevelContext, target: Path) -> None:
        """Reset zones, map the target, map the layer that splits, make the file system on top."""
        device = context.device
        upper, lower = self.mapped(context)
        table = dm_zap.arguments(Path(device.path), context.options)
        sectors = split_sectors(context.options)
        context.check_devices()
        zone_reset.reset_all(Path(device.path), device.size)
        dm_zap.clear(self.kernel.sys(*_TRACE))
        node = dmsetup.map_to(lower, device.size, self.target, table)
        if sectors:
            # One stripe as wide as the device: dm-stripe passes on at most one chunk at a time.
            room = self._size(node)
            node = dmsetup.map_to(upper, room, "striped", f"1 {sectors} {node} 0")
        self.format(node, context, target)

    def up(self, context: LevelContext) -> LevelUp:
        """Record the build of the loaded module, where the kernel shows it."""
        up = super().up(context)
        build = self.kernel.module_build_id(_MODULE)
        return replace(up, facts={**up.facts, "module_build_id": build}) if build else up

    def gc(self, up: LevelUp) -> LevelUsage:
        """Read the counters that the module traces every five seconds, and its status."""
        raw: dict[str, Scalar] = {}
        status = dmsetup.status(up.mapped[1])
        if status:
            raw["status"] = status
        written = dm_zap.last_written(self.kernel.sys(*_TRACE))
        if written is not None:
            raw |= {"user_written_bytes": written.user, "gc_written_bytes": written.gc}
        source = "/sys/kernel/tracing/trace: GC written sectors"
        return LevelUsage(
            free_bytes=None,
            gc_events=None,
            gc_bytes=None if written is None else written.gc,
            gc_source=source if written else f"{source}; nothing was traced",
            raw=raw,
        )

    def _size(self, node: Path) -> Bytes:
        """Return the size that the target took: the device's without over-provisioning."""
        sectors = self.kernel.counter("class", "block", self.kernel.block_name(node), "size")
        return Bytes((sectors or 0) * SECTOR)


def split_sectors(options: Mapping[str, Scalar]) -> int:
    """Return the longest bio (sectors of 512 B) that reaches the target; 0: any.

    Raises:
        ConfigError: it is not a whole number of the target's blocks.
    """
    sectors = int(options.get("split_sectors", _BLOCK_SECTORS))
    if sectors < 0 or sectors % _BLOCK_SECTORS:
        raise ConfigError(
            f"split_sectors {sectors} is not a multiple of {_BLOCK_SECTORS}",
            hint="8 splits at 4 KiB; 0 does not split, for modules that do it themselves",
            code="unknown-level-option",
        )
    return sectors
