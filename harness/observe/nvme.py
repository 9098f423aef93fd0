"""Identify Controller by ioctl: the one field the kernel does not show in sysfs."""

from __future__ import annotations

import array
import fcntl
import os
import re
import struct
from pathlib import Path

_NVME_IOCTL_ADMIN_CMD = 0xC0484E41  # _IOWR('N', 0x41, struct nvme_passthru_cmd)
_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")  # linux/nvme_ioctl.h, 72 bytes
_IDENTIFY = 0x06
_CONTROLLER = 1  # CNS of Identify Controller
_SIZE = 4096
_TNVMCAP = 280  # bytes 295:280 of the structure (NVMe base specification)


def total_capacity(name: str, dev: Path = Path("/dev")) -> int | None:
    """Return TNVMCAP in bytes, None for other drivers or a drive that does not tell (0)."""
    match = re.match(r"^(nvme\d+)n\d+", name)
    if match is None:
        return None
    buffer = array.array("B", bytes(_SIZE))
    address, _ = buffer.buffer_info()
    command = bytearray(
        _COMMAND.pack(
            _IDENTIFY, 0, 0, 0, 0, 0, 0, address, 0, _SIZE, _CONTROLLER, 0, 0, 0, 0, 0, 0, 0
        )
    )
    try:
        fd = os.open(dev / match[1], os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.ioctl(fd, _NVME_IOCTL_ADMIN_CMD, command)
    except OSError:
        return None
    finally:
        os.close(fd)
    return int.from_bytes(buffer[_TNVMCAP : _TNVMCAP + 16].tobytes(), "little") or None
