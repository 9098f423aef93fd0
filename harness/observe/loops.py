"""Loop devices: which block device is below one (LOOP_GET_STATUS64)."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from harness.store.files import descriptor

_LOOP_GET_STATUS64 = 0x4C05
_SIZE = 232  # struct loop_info64, linux/loop.h: it begins with lo_device, lo_inode, lo_rdevice
_NUMBERS = struct.Struct("=QQQ")


def source(node: Path) -> int | None:
    """Return the device number below a loop device; null if it has a plain file or nothing.

    A loop device takes no exclusive lock on what is below it.
    """
    data = bytearray(_SIZE)
    try:
        with descriptor(node, os.O_RDONLY) as handle:
            fcntl.ioctl(handle, _LOOP_GET_STATUS64, data)
    except OSError:
        return None
    _, _, number = _NUMBERS.unpack_from(data)
    return int(number) or None
