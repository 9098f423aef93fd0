"""NVMe commands by ioctl, for data that sysfs lacks: capacity, endurance, SMART.

Commands sent here only read. Offsets and codes are those of the NVMe base specification.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import struct
from pathlib import Path

from harness.store.files import descriptor

# _IOWR('N', 0x41 and 0x43, struct nvme_passthru_cmd), and _IO('N', 0x40)
ADMIN_COMMAND, IO_COMMAND = 0xC0484E41, 0xC0484E43
_NVME_IOCTL_ID = 0x4E40
_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")  # linux/nvme_ioctl.h, 72 bytes
_NAMESPACE = re.compile(r"^(?P<controller>nvme\d+)(n\d+)?")

_IDENTIFY = 0x06
_CONTROLLER = 1  # CNS of Identify Controller
_IDENTIFY_SIZE = 4096
_LPA = 261  # log page attributes; bit 0: SMART per namespace
_TNVMCAP = slice(280, 296)
# "I/O Command Set specific Identify Controller" of the Zoned Namespace Command Set: total active
# resources, which only newer versions of nvme-cli print. Bits 31:24 of word 11: the command set.
_ZONED_CONTROLLER = 6
_ZONED_SET = 2 << 24
_TAR = slice(8, 12)

# "Identify Namespace": ENDGID, the endurance group; 0: none.
_NAMESPACE_DATA = 0
_ENDGID = slice(102, 104)
_WCTEMP = slice(266, 268)  # of Identify Controller: warning composite temperature, kelvin

_GET_LOG_PAGE = 0x02
# "Endurance Group Information": bits 31:16 of word 11 are the group. The Endurance Estimate is the
# bytes that may be written over the whole life, in units of 10^9; 0: not reported.
_ENDURANCE = 0x09
_ENDURANCE_ESTIMATE = slice(32, 48)
_BILLION = 10**9
_SMART = 0x02
_SMART_SIZE = 512
_ALL_NAMESPACES = 0xFFFFFFFF
_SMART_FIELDS = {  # bytes of the log
    "critical_warning": slice(0, 1),
    "temperature_kelvin": slice(1, 3),
    "available_spare_pct": slice(3, 4),
    "percentage_used": slice(5, 6),
    "data_units_read": slice(32, 48),
    "data_units_written": slice(48, 64),
    "host_reads": slice(64, 80),
    "host_writes": slice(80, 96),
    "controller_busy_minutes": slice(96, 112),
    "power_on_hours": slice(128, 144),
    "media_errors": slice(160, 176),
    "error_log_entries": slice(176, 192),
}

# "SMART / Health Information Extended" of the OCP Datacenter NVMe SSD Specification: bytes written
# to the media, the controller's own included, and the GUID that identifies this log.
_OCP_SMART = 0xC0
_MEDIA_WRITTEN = slice(0, 16)
_OCP_GUID = slice(496, 512)
_IS_OCP = 0xAFD514C97C6F4F9CA4F2BFEA2810AFC5
# "Data Units Written … in thousands of units of 512 bytes, rounded up".
DATA_UNIT = 512_000


def total_capacity(name: str, dev: Path) -> int | None:
    """Return the drive's capacity (TNVMCAP) in bytes, or None if it reports none."""
    return _number(_identify(name, dev), _TNVMCAP) or None


def divisible_zones(name: str, dev: Path) -> int | None:
    """Return the active zones that a drive can divide between namespaces, or None."""
    return _number(_identify(name, dev, _ZONED_CONTROLLER, _ZONED_SET), _TAR) or None


def endurance(name: str, nsid: int, dev: Path = Path("/dev")) -> int | None:
    """Return the bytes that may be written in the drive's life, or None if it reports none."""
    data = _admin(name, dev, _IDENTIFY, _NAMESPACE_DATA, _IDENTIFY_SIZE, nsid=nsid)
    group = _number(data, _ENDGID)
    log = _log_page(name, dev, _ENDURANCE, 0, group << 16) if group else b""
    return _number(log, _ENDURANCE_ESTIMATE) * _BILLION or None


def warning_temperature(name: str, dev: Path = Path("/dev")) -> int | None:
    """Return the drive's warning temperature in kelvin, or None if it reports none."""
    return _number(_identify(name, dev), _WCTEMP) or None


def smart_by_namespace(name: str, dev: Path) -> bool:
    """Whether the drive has a SMART log per namespace."""
    data = _identify(name, dev)
    return bool(data) and bool(data[_LPA] & 1)


def smart(name: str, nsid: int | None = None, dev: Path = Path("/dev")) -> dict[str, int] | None:
    """Return the SMART log of a namespace, or of the whole drive for None.

    None for other drivers and if the drive refuses. Data units are ``DATA_UNIT`` bytes.
    """
    log = _log_page(name, dev, _SMART, _ALL_NAMESPACES if nsid is None else nsid)
    if not log:
        return None
    return {field: _number(log, where) for field, where in _SMART_FIELDS.items()}


def data_written(name: str, nsid: int | None, dev: Path) -> int | None:
    """Return SMART's Data Units Written in bytes; arguments as for ``smart``.

    None for other drivers and if the drive does not count (0 units).
    """
    log = smart(name, nsid, dev)
    return log["data_units_written"] * DATA_UNIT or None if log else None


def media_written(name: str, dev: Path) -> int | None:
    """Return the bytes that the whole drive wrote to its media, or None if it reports none."""
    log = _log_page(name, dev, _OCP_SMART, _ALL_NAMESPACES)
    return _number(log, _MEDIA_WRITTEN) or None if _number(log, _OCP_GUID) == _IS_OCP else None


def _number(data: bytes, where: slice) -> int:
    """Return a field of the drive's answer; 0 without an answer."""
    return int.from_bytes(data[where], "little")


def _log_page(name: str, dev: Path, page: int, nsid: int, word11: int = 0) -> bytes:
    """Return a log page of 512 bytes, or b'' like ``_admin``."""
    # NUMDL (dwords, counted from 0) is above the identifier of the log page.
    dwords = (_SMART_SIZE // 4 - 1) << 16 | page
    return _admin(name, dev, _GET_LOG_PAGE, dwords, _SMART_SIZE, nsid=nsid, word11=word11)


def _identify(name: str, dev: Path, cns: int = _CONTROLLER, word11: int = 0) -> bytes:
    return _admin(name, dev, _IDENTIFY, cns, _IDENTIFY_SIZE, word11=word11)


def _admin(
    name: str, dev: Path, opcode: int, word10: int, size: int, *, nsid: int = 0, word11: int = 0
) -> bytes:
    """Return the data of a read-only command, or b'' if the drive refuses it or is not NVMe."""
    match = _NAMESPACE.match(name)
    if match is None:
        return b""
    try:
        status, data = send(
            dev / match["controller"],
            ADMIN_COMMAND,
            opcode=opcode,
            nsid=nsid,
            size=size,
            word10=word10,
            word11=word11,
        )
    except OSError:
        return b""
    return b"" if status else data


def namespace_of(node: Path) -> int:
    """Return the number of the namespace that a node stands for.

    Raises:
        OSError: the node is not an NVMe device.
    """
    with descriptor(node, os.O_RDONLY) as fd:
        return int(fcntl.ioctl(fd, _NVME_IOCTL_ID))


def packed(
    *, opcode: int, nsid: int, address: int, size: int, words: tuple[int, int, int]
) -> bytearray:
    """Return a command for the ioctl; ``words`` are 10 to 12, ``size`` bytes of data in memory."""
    data = (0, address, 0, size)
    return bytearray(_COMMAND.pack(opcode, 0, 0, nsid, 0, 0, *data, *words, 0, 0, 0, 0, 0))


def send(
    node: Path, request: int, *, opcode: int, nsid: int, size: int, word10: int, word11: int = 0
) -> tuple[int, bytes]:
    """Send a command that reads; return the drive's status (0: success) and the data.

    Raises:
        OSError: the kernel refuses the command, or the node is not an NVMe device.
    """
    buffer = array.array("B", bytes(size))
    address, _ = buffer.buffer_info()
    words = (word10, word11, 0)
    command = packed(opcode=opcode, nsid=nsid, address=address, size=size, words=words)
    with descriptor(node, os.O_RDONLY) as fd:
        status = fcntl.ioctl(fd, request, command)
    return status, buffer.tobytes()
