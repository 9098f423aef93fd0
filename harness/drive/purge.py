"""Purge a conventional device: discard it, and read all of it back.

A drive may return old data after a discard. The device is then zeroed and read again.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import HostError
from harness.machine.device_contents import Say
from harness.machine.host import Host
from harness.store.files import descriptor
from harness.store.spec import Device

_STEP = 1 << 30  # bytes of one command: an interrupt waits for at most these


def purge(host: Host, device: Device, node: Path, say: Say) -> None:
    """Make every byte of a conventional device zero.

    ``node`` is its node, which this process has open exclusively.

    Raises:
        HostError: data remains (code ``purge-incomplete``).
        OSError: the device cannot be written or read.
    """
    with descriptor(node, os.O_WRONLY) as handle:
        # Every part is tried: a drive can refuse a part.
        discarded = [host.discard(handle, *part) for part in _parts(device.size)]
        if _data(host, device, node) is not None:
            for part in _parts(device.size):
                host.zero(handle, *part)
            os.fsync(handle)
            discarded = []
            if (offset := _data(host, device, node)) is not None:
                raise HostError(
                    f"{device.path} still has data at byte {offset} after it was zeroed",
                    hint="the drive does not erase: nvme format --ses=1, or another drive",
                    code="purge-incomplete",
                )
    how = "discarded" if discarded and all(discarded) else "zeroed"
    say(f"{device.path} was {how}, and every byte was read back as zero")


def _data(host: Host, device: Device, node: Path) -> int | None:
    return host.first_data(str(node), [(0, device.size)], lambda _: None)


def _parts(size: int) -> list[tuple[int, int]]:
    return [(start, min(_STEP, size - start)) for start in range(0, size, _STEP)]
