"""dm-zoned: random writes go to a conventional slice, and are copied to zones later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from harness.errors import ToolFailed
from harness.levels.filesystem import TranslatedLevel
from harness.levels.level import LevelContext, LevelUp, LevelUsage, Needs
from harness.levels.options import Option, Whole
from harness.observe.signatures import Probe
from harness.store.result import Issue, IssueInfo, Severity
from harness.store.spec import Bytes, Device, Scalar
from harness.tools import dmsetup, dmzadm, zone_reset

_BLOCK = 4096
# dm-zoned-metadata.c: entries of 8 B in a block of the chunk table, and bits in a bitmap's block.
_ENTRIES = _BLOCK // 8
_BITS = _BLOCK * 8
# Two sets of metadata, one of which is written as a log.
_SETS = 2


class DmZoned(TranslatedLevel):
    """``dmzadm --format``, ``--start``, then ext4 or xfs on the mapped device."""

    name: ClassVar[str] = "dm-zoned"
    summary: ClassVar[str] = "ext4 or xfs over dm-zoned, with a conventional slice as its buffer"
    timed_collection: ClassVar[bool] = True
    target: ClassVar[str] = "zoned"
    module: ClassVar[str] = "dm-zoned"
    modules: ClassVar[tuple[str, ...]] = ("dm_zoned",)
    needs: ClassVar[Needs] = Needs(16, 0, "dm-zoned keeps no count of active zones")
    needs_conventional: ClassVar[bool] = True
    buffers_conventional: ClassVar[bool] = True
    programs: ClassVar[tuple[str, ...]] = (dmzadm.PROGRAM, *TranslatedLevel.programs)
    signatures: ClassVar[tuple[Probe, ...]] = (Probe("dm-zoned", 0, b"DBZD", 48, 32),)
    issues: ClassVar[tuple[IssueInfo, ...]] = (
        IssueInfo(
            "active-limit-ignored",
            (Severity.WARNING, Severity.INFO),
            "the level is dm-zoned; a warning where the device limits active zones",
            "dm-zoned does not count its active zones",
        ),
    )
    packages: ClassVar[tuple[str, ...]] = ("dm-zoned-tools", "dmsetup", "e2fsprogs", "xfsprogs")
    options: ClassVar[Mapping[str, Option]] = {
        **TranslatedLevel.options,
        "seq": Whole(1),
        "conventional_zones": Whole(1),
    }

    def minimum_conventional(self, device: Device) -> Bytes:
        """Return the slice that the default options ask for."""
        return _slice(device, {})

    def caveats(self, device: Device) -> tuple[Issue, ...]:
        """Report that dm-zoned does not limit its active zones."""
        limit = device.max_active_zones or 0
        where = f"this device allows {limit}" if limit else "this device has no limit"
        return (
            Issue(
                "active-limit-ignored",
                Severity.WARNING if limit else Severity.INFO,
                f"dm-zoned ignores the limit of active zones ({where})",
                expected=limit,
            ),
        )

    def mapped(self, context: LevelContext) -> tuple[str, ...]:
        """Return the target, which has the label's name, then the slice under it."""
        return (context.label, *super().mapped(context))

    def make(self, context: LevelContext, target: Path) -> None:
        """Cut the slice, reset zones, format and start the target, then the file system on it."""
        zoned = Path(context.device.path)
        context.check_devices()
        # dmzadm looks for the node's own name in sysfs: /dev/dm-0, not /dev/mapper/….
        source = Path(
            os.path.realpath(self.slice(context, _slice(context.device, context.options)))
        )
        zone_reset.reset_all(zoned, context.device.size)
        dmzadm.format_(source, zoned, label=context.label, seq=_seq(context.options))
        dmzadm.start(source, zoned)
        self.format(dmsetup.node(context.label), context, target)

    def gc(self, up: LevelUp) -> LevelUsage:
        """Read free zones by kind; dm-zoned does not count what reclaim copies."""
        counts = parse_status(dmsetup.status(up.mapped[0]))
        return LevelUsage(None, None, None, "none: dm-zoned counts no reclaimed zones", counts)


def parse_status(text: str) -> dict[str, Scalar]:
    """Read ``96 zones 14/30 cache 0/0 random 34/47 sequential``: zones in all, free/all by kind.

    Raises:
        ToolFailed: it has another form.
    """
    fields = text.split()
    try:
        total, word, *rest = fields
        counts: dict[str, Scalar] = {"zones": int(total)}
        for pair, kind in zip(rest[::2], rest[1::2], strict=True):
            free, all_ = pair.split("/")
            counts |= {f"{kind}.free": int(free), f"{kind}.all": int(all_)}
    except ValueError:
        word = ""
    if word != "zones" or "sequential.free" not in counts:
        raise ToolFailed(f"dm-zoned's status is {text!r}", code="output-malformed")
    return counts


def _seq(options: Mapping[str, Scalar]) -> int:
    return int(options.get("seq", dmzadm.DEFAULT_SEQ))


def _slice(device: Device, options: Mapping[str, Scalar]) -> Bytes:
    """Return the size of the slice that gives the target exactly the zoned device's capacity.

    The target has one chunk for every zone that is neither metadata nor reserved for reclaim; so
    the slice holds two sets of metadata and as many zones as are reserved (dmzadm: dmz_lib.c).
    """
    zone, zones, seq = device.zone_size or 0, device.zones or 0, _seq(options)
    blocks = max(1, zone // _BLOCK)
    set_zones = 1  # of one set of metadata
    while _metadata_blocks(zones + seq + _SETS * set_zones, blocks) > set_zones * blocks:
        set_zones += 1
    return Bytes(int(options.get("conventional_zones", _SETS * set_zones + seq)) * zone)


def _metadata_blocks(zones: int, zone_blocks: int) -> int:
    """Return the blocks of one set: superblock, chunk table, a bitmap for every zone."""
    return 1 + -(-zones // _ENTRIES) + zones * max(1, zone_blocks // _BITS)
