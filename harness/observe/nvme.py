"""NVMe admin commands by ioctl, for what the kernel does not show in sysfs: size, SMART."""

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
_GET_LOG_PAGE = 0x02
_SMART = 0x02
_SMART_SIZE = 512
_ALL_NAMESPACES = 0xFFFFFFFF
_SMART_FIELDS = {  # first and last byte, same specification
    "critical_warning": (0, 0),
    "temperature_kelvin": (1, 2),
    "available_spare_pct": (3, 3),
    "percentage_used": (5, 5),
    "data_units_read": (32, 47),
    "data_units_written": (48, 63),
    "host_reads": (64, 79),
    "host_writes": (80, 95),
    "controller_busy_minutes": (96, 111),
    "power_on_hours": (128, 143),
    "media_errors": (160, 175),
    "error_log_entries": (176, 191),
}


def total_capacity(name: str, dev: Path = Path("/dev")) -> int | None:
    """Return TNVMCAP in bytes, None for other drivers or a drive that does not tell (0)."""
    found = _admin(name, dev, _IDENTIFY, nsid=0, dword10=_CONTROLLER, size=_SIZE)
    if found is None:
        return None
    return int.from_bytes(found[_TNVMCAP : _TNVMCAP + 16], "little") or None


def smart(name: str, dev: Path = Path("/dev")) -> dict[str, int] | None:
    """Return the SMART log of a drive, None for other drivers or a drive that refuses.

    Data units are 512,000 B (NVMe base specification, figure "SMART / Health Information").
    """
    dword = _SMART | (_SMART_SIZE // 4 - 1) << 16  # the page, and how many dwords of it
    log = _admin(name, dev, _GET_LOG_PAGE, nsid=_ALL_NAMESPACES, dword10=dword, size=_SMART_SIZE)
    if log is None:
        return None
    return {
        field: int.from_bytes(log[first : last + 1], "little")
        for field, (first, last) in _SMART_FIELDS.items()
    }


def _admin(
    name: str, dev: Path, opcode: int, *, nsid: int, dword10: int, size: int
) -> bytes | None:
    """Send an admin command that reads; None where there is no such controller or it refuses."""
    match = re.match(r"^(nvme\d+)n\d+", name)
    if match is None:
        return None
    buffer = array.array("B", bytes(size))
    address, _ = buffer.buffer_info()
    command = bytearray(
        _COMMAND.pack(opcode, 0, 0, nsid, 0, 0, 0, address, 0, size, dword10, 0, 0, 0, 0, 0, 0, 0)
    )
    try:
        fd = os.open(dev / match[1], os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # A positive result is the drive's own status.
        refused = fcntl.ioctl(fd, _NVME_IOCTL_ADMIN_CMD, command)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None if refused else buffer.tobytes()
