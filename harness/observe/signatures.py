"""Whose data is on a device: signatures at their offsets, and the label inside, if any.

Levels declare their own signatures; this module has those of other programs. Offsets are those of
libblkid's probes (util-linux, libblkid/src). This module only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Read = Callable[[int, int], bytes]  # offset, length -> bytes (short at the end of the device)

KIB = 1024
MIB = 1024 * KIB
HEAD = 2 * MIB  # every signature at the start of a device lies within
_ANYWHERE = 64 * KIB


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature on a device; ``label`` is '' where the format has none."""

    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Probe:
    """How to recognise a format, and where its label lies (offsets in bytes).

    A format with ``zones`` has a log of superblocks: the signature is at the start of one of that
    many first zones, and the label is the last component of a path. ``anywhere``: magic numbers
    that prove the format (without a label) anywhere in the first 64 KiB.
    """

    kind: str
    offset: int
    magic: bytes
    label_offset: int = 0
    label_size: int = 0
    utf16: bool = False
    zones: int = 0
    anywhere: tuple[bytes, ...] = ()


FOREIGN = (
    Probe("lvm2", 0x200, b"LABELONE"),
    Probe("lvm2", 0, b"LABELONE"),
    Probe("luks", 0, b"LUKS\xba\xbe"),
    Probe("md", 0, b"\xfc\x4e\x2b\xa9"),
    Probe("md", 0x1000, b"\xfc\x4e\x2b\xa9"),
    Probe("gpt", 512, b"EFI PART"),
    Probe("gpt", 4096, b"EFI PART"),
    Probe("swap", 4086, b"SWAPSPACE2"),
    Probe("swap", 4086, b"SWAP-SPACE"),
    Probe("zfs", 0x20000 + 0x400, b"\x0c\xb1\xba\x00"),
    Probe("bcachefs", 0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    Probe("bluestore", 0, b"bluestore block device"),
)
# File systems carry the boot-sector mark too, so it counts only where nothing else is found.
_BOOT_SECTOR = Probe("mbr", 510, b"\x55\xaa")


def find(read: Read, zone_size: int | None, probes: Iterable[Probe]) -> list[Signature]:
    """Return the signatures at the start of a device, each kind once, logs of superblocks first.

    Args:
        read: reads the device.
        zone_size: zone size of a zoned device in bytes; null for a conventional one.
        probes: signatures of the levels; ``FOREIGN`` is always looked for.
    """
    probes = sorted((*probes, *FOREIGN), key=lambda probe: not probe.zones)
    head = read(0, HEAD)
    signatures: dict[str, Signature] = {}
    for probe in probes:
        for start in _starts(probe, head, read, zone_size):
            if _matches(probe, start):
                signatures.setdefault(probe.kind, Signature(probe.kind, _label(probe, start)))
    if not signatures and _matches(_BOOT_SECTOR, head):
        signatures[_BOOT_SECTOR.kind] = Signature(_BOOT_SECTOR.kind, "")
    for probe in probes:
        if any(magic in head[:_ANYWHERE] for magic in probe.anywhere):
            signatures.setdefault(probe.kind, Signature(probe.kind, ""))
    return list(signatures.values())


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


def _starts(probe: Probe, head: bytes, read: Read, zone_size: int | None) -> Iterator[bytes]:
    """Yield the places to look at: the device's start, or the start of each zone of a log."""
    if not probe.zones:
        yield head
    elif zone_size:
        yield head
        for number in range(1, probe.zones):
            yield read(number * zone_size, 4 * KIB)


def _matches(probe: Probe, start: bytes) -> bool:
    return start[probe.offset : probe.offset + len(probe.magic)] == probe.magic


def _label(probe: Probe, start: bytes) -> str:
    raw = start[probe.label_offset : probe.label_offset + probe.label_size]
    text = raw.decode("utf-16-le" if probe.utf16 else "utf-8", errors="replace")
    label = text.split("\0", 1)[0]
    return label.rstrip("/").rpartition("/")[2] if probe.zones else label
