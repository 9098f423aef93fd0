"""Signatures on a device, which show whose data it holds, and the label inside, if any.

Levels declare their own signatures; ``harness/observe/foreign.py`` has those of other programs.
libblkid knows more formats (``harness/tools/wipefs.py``). This module only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Read = Callable[[int, int], bytes]  # offset, length -> bytes (short at the end of the device)

KIB = 1024
MIB = 1024 * KIB
HEAD = 4 * MIB  # contains every signature at the start; VMFS's is at 2 MiB
TAIL = 2 * MIB  # contains every signature at the end; Promise's RAID begins 1.5 MiB before it
_ANYWHERE = 64 * KIB
_SAMPLE = 4 * KIB
_MOST_SAMPLES = 4096


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
    that prove the format (without a label) anywhere in the first 64 KiB. ``count``: the magic can
    be at that many places, ``step`` apart. With ``back``, ``offset`` counts from ``back`` bytes
    before the device's size, rounded down to a multiple of ``align``.
    """

    kind: str
    offset: int
    magic: bytes
    label_offset: int = 0
    label_size: int = 0
    utf16: bool = False
    zones: int = 0
    anywhere: tuple[bytes, ...] = ()
    count: int = 1
    step: int = 0
    back: int = 0
    align: int = 1


def find(
    read: Read, zone_size: int | None, probes: Iterable[Probe], size: int = 0
) -> list[Signature]:
    """Return the signatures of a device, each kind once, logs of superblocks first.

    ``read`` reads the device, ``zone_size`` is null for a conventional one, ``probes`` are the
    formats to look for. Without ``size``, signatures at the end of the device are not found.
    """
    probes = sorted(probes, key=lambda probe: not probe.zones)
    head = read(0, HEAD)
    tail_start = max(size - TAIL, 0)
    tail = read(tail_start, TAIL) if size else b""
    signatures: dict[str, Signature] = {}
    for probe in probes:
        if probe.back:
            start = size // probe.align * probe.align - probe.back - tail_start
            places: Iterable[bytes] = (tail[start:],) if tail and start >= 0 else ()
        else:
            places = _starts(probe, head, read, zone_size)
        for place in places:
            if _matches(probe, place):
                signatures.setdefault(probe.kind, Signature(probe.kind, _label(probe, place)))
    for probe in probes:
        if any(magic in head[:_ANYWHERE] for magic in probe.anywhere):
            signatures.setdefault(probe.kind, Signature(probe.kind, ""))
    return list(signatures.values())


def samples(size: int) -> list[tuple[int, int]]:
    """Return the (offset, length) ranges that stand for the contents of a conventional device.

    Both ends, and 4 KiB of each MiB between them; at most 4096 places.
    """
    step = max(-(-size // _MOST_SAMPLES) // _SAMPLE * _SAMPLE, MIB)
    return [*wipe_spots(size), *((place, _SAMPLE) for place in range(step, size - step, step))]


def wipe_spots(size: int) -> list[tuple[int, int]]:
    """Return the (offset, length) ranges to zero so that no signature is left."""
    return [(0, min(HEAD, size)), (max(size - TAIL, 0), min(TAIL, size))]


def wipe_spots_of_zones(zones: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges to zero in zones (start, size) that a reset does not empty.

    Adjacent zones are wiped like a device. A copy of a superblock can also be at a zone's start.
    """
    rows: list[tuple[int, int]] = []
    spots: list[tuple[int, int]] = []
    for start, size in zones:
        spots.append((start, min(_SAMPLE, size)))
        if rows and sum(rows[-1]) == start:
            rows[-1] = (rows[-1][0], rows[-1][1] + size)
        else:
            rows.append((start, size))
    return spots + [
        (start + offset, length) for start, size in rows for offset, length in wipe_spots(size)
    ]


def _starts(probe: Probe, head: bytes, read: Read, zone_size: int | None) -> Iterator[bytes]:
    """Yield the places to look at: the device's start, or the start of each zone of a log."""
    if not probe.zones:
        yield head
    elif zone_size:
        yield head
        for number in range(1, probe.zones):
            yield read(number * zone_size, 4 * KIB)


def _matches(probe: Probe, start: bytes) -> bool:
    offsets = (probe.offset + number * probe.step for number in range(probe.count))
    return any(start[o : o + len(probe.magic)] == probe.magic for o in offsets)


def _label(probe: Probe, start: bytes) -> str:
    raw = start[probe.label_offset : probe.label_offset + probe.label_size]
    text = raw.decode("utf-16-le" if probe.utf16 else "utf-8", errors="replace")
    label = text.split("\0", 1)[0]
    return label.rstrip("/").rpartition("/")[2] if probe.zones else label
