"""Reset zones (BLKRESETZONE): mkfs.f2fs does not always reset them."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from harness.errors import ToolFailed
from harness.quantities import SECTOR
from harness.store.files import descriptor
from harness.store.spec import Bytes

# _IOW(0x12, 131, struct blk_zone_range), linux/blkzoned.h; {u64 sector, u64 nr_sectors}.
_BLKRESETZONE = 0x40101283


def reset_all(device: Path, size: Bytes, held: Path | None = None) -> None:
    """Reset every zone, which destroys all data on the device.

    The device is opened exclusively, so the kernel refuses a mounted or held device. If the caller
    already has it open exclusively, ``held`` is its node.

    Raises:
        ToolFailed: the device is in use, or the kernel refused.
    """
    try:
        lock = os.O_EXCL if held is None else 0
        with descriptor(held or device, os.O_RDWR | lock) as handle:
            reset(handle, 0, size)
    except OSError as error:
        raise ToolFailed(
            f"cannot reset the zones of {device}: {error.strerror}", code="zone-reset"
        ) from None


def reset(handle: int, start: int, length: int) -> None:
    """Reset the zones in a range, in bytes, of an open device. Raises OSError."""
    fcntl.ioctl(handle, _BLKRESETZONE, struct.pack("=QQ", start // SECTOR, length // SECTOR))
