"""Purge what can be written in place: discard it, and read all of it back.

That is a conventional device, or the conventional zones of a zoned one, which no reset empties. A
drive may return old data after a discard. The data is then overwritten with zeros and read again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HostError
from harness.machine.device_contents import Say
from harness.machine.host import Host
from harness.observe.direct_reads import Range
from harness.store.files import descriptor
from harness.store.spec import Device

_STEP = 1 << 30  # bytes of one command: an interrupt waits for at most these


def purge(host: Host, device: Device, node: Path, say: Say) -> None:
    """Make every byte zero that can be written in place.

    ``node`` is its node, which this process has open exclusively.

    Raises:
        HostError: data remains (code ``purge-incomplete``).
        OSError: the device cannot be written or read.
    """
    ranges = host.writable_in_place(device)
    if not ranges:
        return
    with descriptor(node, os.O_WRONLY) as handle:
        # Every part is tried: a drive can refuse a part.
        discarded = [host.discard(handle, *part) for part in _parts(ranges)]
        if _data(host, node, ranges) is not None:
            for part in _parts(ranges):
                host.zero(handle, *part)
            os.fsync(handle)
            discarded = []
            if (offset := _data(host, node, ranges)) is not None:
                raise HostError(
                    f"{device.path} still has data at byte {offset} after it was zeroed",
                    hint="the drive does not erase: nvme format --ses=1, or another drive",
                    code="purge-incomplete",
                )
    how = "discarded" if discarded and all(discarded) else "zeroed"
    what = f"the conventional zones of {device.path} were" if device.zoned else f"{device.path} was"
    say(f"{what} {how}, and every byte was read back as zero")


def _data(host: Host, node: Path, ranges: Sequence[Range]) -> int | None:
    return host.first_data(str(node), ranges, lambda _: None)


def _parts(ranges: Sequence[Range]) -> list[Range]:
    return [
        (start + done, min(_STEP, length - done))
        for start, length in ranges
        for done in range(0, length, _STEP)
    ]
