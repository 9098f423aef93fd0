"""Discard or zero ranges of a conventional device (linux/fs.h: BLKDISCARD, BLKZEROOUT)."""

from __future__ import annotations

import errno
import fcntl
import struct

_BLKDISCARD = 0x1277  # _IO(0x12, 119)
_BLKZEROOUT = 0x127F  # _IO(0x12, 127)


def discard(handle: int, start: int, length: int) -> bool:
    """Tell the drive that a range is unused; False if the device has no discard.

    The drive decides what a later read returns. Raises OSError.
    """
    try:
        fcntl.ioctl(handle, _BLKDISCARD, struct.pack("=QQ", start, length))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return False
        raise
    return True


def zero(handle: int, start: int, length: int) -> None:
    """Write zeros to a range. Raises OSError."""
    fcntl.ioctl(handle, _BLKZEROOUT, struct.pack("=QQ", start, length))
