"""Whose data is on a device: known signatures at their offsets, and the label inside, if any.

Offsets are those of libblkid's probes (util-linux, libblkid/src), those of zlfs and
zoneprobe our own (harness/native: zlfs/format/superblock.h, zoneprobe/label.h). Reading is all this
module does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Read = Callable[[int, int], bytes]  # offset, length -> bytes (short at the end of the device)

KIB = 1024
MIB = 1024 * KIB
HEAD = 2 * MIB  # everything the probes below look at near the start lies within


@dataclass(frozen=True, slots=True)
class Signature:
    """Something recognisable on a device; ``label`` is '' where the format has none."""

    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Probe:
    """How a format is recognised, and where its label lies (offsets in bytes)."""

    kind: str
    offset: int
    magic: bytes
    label_offset: int = 0
    label_size: int = 0
    utf16: bool = False


_PROBES = (
    Probe("ext", 0x438, b"\x53\xef", 0x478, 16),
    Probe("xfs", 0, b"XFSB", 108, 12),
    Probe("btrfs", 0x10040, b"_BHRfS_M", 0x1012B, 256),
    Probe("btrfs", 0x40, b"_BHRfS_M", 0x12B, 256),  # zoned: the log of superblocks starts at 0
    Probe("f2fs", 0x400, b"\x10\x20\xf5\xf2", 0x47C, 1024, utf16=True),
    Probe("lvm2", 0x200, b"LABELONE"),
    Probe("lvm2", 0, b"LABELONE"),
    Probe("luks", 0, b"LUKS\xba\xbe"),
    Probe("md", 0, b"\xfc\x4e\x2b\xa9"),
    Probe("md", 0x1000, b"\xfc\x4e\x2b\xa9"),
    Probe("gpt", 512, b"EFI PART"),
    Probe("gpt", 4096, b"EFI PART"),
    Probe("swap", 4086, b"SWAPSPACE2"),
    Probe("swap", 4086, b"SWAP-SPACE"),
    Probe("dm-zoned", 0, b"DBZD", 48, 32),
    Probe("zoneprobe", 0, b"ZLPROBE1", 8, 32),
    Probe("zfs", 0x20000 + 0x400, b"\x0c\xb1\xba\x00"),
    Probe("bcachefs", 0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    Probe("bluestore", 0, b"bluestore block device"),
    Probe("mbr", 510, b"\x55\xaa"),
)

# Their superblocks begin one of the first zones: the metadata log lives in them in turn.
ZLFS = Probe("zlfs", 0, b"ZLFSSB01", 328, 32)
# A record's header (checksum, length), then the superblock: magic, UUID of 37 bytes, six numbers,
# and the auxiliary path, whose last folder is what stands for a label here.
ZENFS = Probe("zenfs", 8, b"FNEZ", 8 + 4 + 37 + 6 * 4, 256)
_LOGS = (ZLFS, ZENFS)
_LOG_ZONES = 3  # ZenFS has three, zlfs two


def find(read: Read, zone_size: int | None = None) -> list[Signature]:
    """Return the signatures at the start, strongest first, each kind once.

    Args:
        read: reads the device.
        zone_size: of a zoned device, in bytes; null for a conventional one.
    """
    head = read(0, HEAD)
    found: dict[str, Signature] = {}
    for start in _log_zones(head, read, zone_size):
        for log in _LOGS:
            if start[log.offset : log.offset + len(log.magic)] == log.magic:
                label = _label(log, start).rstrip("/").rpartition("/")[2]
                found.setdefault(log.kind, Signature(log.kind, label))
    for probe in _PROBES:
        if head[probe.offset : probe.offset + len(probe.magic)] != probe.magic:
            continue
        if probe.kind == "mbr" and found:
            continue  # file systems carry the boot-sector mark too
        found.setdefault(probe.kind, Signature(probe.kind, _label(probe, head)))
    if any(magic in head[: 64 * KIB] for magic in (b"ZENF", b"FNEZ")):  # of another version
        found.setdefault("zenfs", Signature("zenfs", ""))
    return list(found.values())


def zero_spots(size: int) -> list[tuple[int, int]]:
    """Return the (offset, length) ranges that read as zeros on a blank device.

    The first 2 MiB, the last MiB (md 0.90/1.0, backup GPT) and 64 places of 4 KiB between them.
    """
    step = max(size // 65, 4 * KIB)
    spots = [(0, min(HEAD, size)), (max(size - MIB, 0), min(MIB, size))]
    spots += [(place // (4 * KIB) * 4 * KIB, 4 * KIB) for place in range(step, size - step, step)]
    return spots


def wipe_spots(size: int) -> list[tuple[int, int]]:
    """Return the (offset, length) ranges to zero so that no signature is left."""
    return [(0, min(HEAD, size)), (max(size - MIB, 0), min(MIB, size))]


def is_blank(read: Read, size: int) -> bool:
    """Return whether every sampled range reads as zeros."""
    return not any(read(offset, length).strip(b"\0") for offset, length in zero_spots(size))


def _log_zones(head: bytes, read: Read, zone_size: int | None) -> list[bytes]:
    if not zone_size:
        return []
    return [head, *(read(number * zone_size, 4 * KIB) for number in range(1, _LOG_ZONES))]


def _label(probe: Probe, head: bytes) -> str:
    if not probe.label_size:
        return ""
    raw = head[probe.label_offset : probe.label_offset + probe.label_size]
    text = raw.decode("utf-16-le" if probe.utf16 else "utf-8", errors="replace")
    return text.split("\0", 1)[0]
