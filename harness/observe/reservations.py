"""Persistent reservations, with which hosts that share a drive keep others from writing.

Both commands only read: Reservation Report of NVMe, and PERSISTENT RESERVE IN of SCSI (SPC). The
kernel passes them on to the drive. Its own calls in linux/pr.h can reserve, but in older kernels
they cannot report.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from harness.observe import nvme_ioctl
from harness.store.files import descriptor

_NVME = re.compile(r"^nvme\d+n\d+$")
_SCSI = re.compile(r"^sd[a-z]+$")

_IDENTIFY, _IDENTIFY_SIZE = 0x06, 4096
_NAMESPACE, _CONTROLLER = 0, 1  # CNS
_ONCS, _RESERVATIONS = slice(520, 522), 1 << 5
_RESCAP = 31  # of Identify Namespace: the types of reservation that it can hold
_REPORT, _REPORT_SIZE = 0x0E, 4096
_RTYPE, _REGCTL = 4, slice(5, 7)  # of the status, in both of its forms
_INVALID_OPCODE, _INCONSISTENT_FORMAT = 0x01, 0x18
_STATUS = 0x7FF  # type and code; the bits above advise about retries

_SG_IO = 0x2285  # scsi/sg.h
_HEADER = struct.Struct("@iiBBHIPPPIIiPBBBBHHiII0P")  # struct sg_io_hdr
_INTERFACE, _FROM_DEVICE = ord("S"), -3
_RESERVE_IN = 0x5E
_READ_KEYS, _READ_RESERVATION = 0, 1
_SCSI_SIZE, _SENSE_SIZE, _MILLISECONDS = 4096, 64, 20_000
_TYPE = 21  # of READ RESERVATION, bits 3:0; bits 7:4 are the scope
_KEY_BYTES = 8
_CHECK_CONDITION = 0x02
_ILLEGAL_REQUEST, _UNIT_ATTENTION = 5, 6  # sense keys
_ATTENTIONS = 3  # tries; each unit attention reports one earlier event


@dataclass(frozen=True, slots=True)
class Reservation:
    """A drive's report. Type 0: hosts are registered, but none holds a reservation."""

    type: int
    registrants: int


def read(name: str, dev: Path = Path("/dev")) -> Reservation | None:
    """Return the reservation of a whole device; None if it has none, or cannot have one.

    Raises:
        OSError: the drive does not answer, so it may be reserved.
    """
    found = None
    if _NVME.match(name):
        found = _nvme(dev / name)
    elif _SCSI.match(name):
        found = _scsi(dev / name)
    return found if found and (found.type or found.registrants) else None


def _nvme(node: Path) -> Reservation | None:
    status, controller = _identify(node, _CONTROLLER)
    if status:
        raise OSError(errno.EIO, f"Identify Controller: NVMe status {status & _STATUS:#x}")
    if not int.from_bytes(controller[_ONCS], "little") & _RESERVATIONS:
        return None
    nsid = nvme_ioctl.namespace_of(node)
    status, namespace = _identify(node, _NAMESPACE, nsid)
    if not status and not namespace[_RESCAP]:  # a zoned namespace can refuse this structure
        return None
    data = b""
    for extended in (1, 0):  # the form depends on the size of the host's identifier
        status, data = nvme_ioctl.send(
            node,
            nvme_ioctl.IO_COMMAND,
            opcode=_REPORT,
            nsid=nsid,
            size=_REPORT_SIZE,
            word10=_REPORT_SIZE // 4 - 1,
            word11=extended,
        )
        if status & _STATUS != _INCONSISTENT_FORMAT:
            break
    if status & _STATUS == _INVALID_OPCODE:
        return None
    if status:
        raise OSError(errno.EIO, f"Reservation Report: NVMe status {status & _STATUS:#x}")
    return Reservation(data[_RTYPE], int.from_bytes(data[_REGCTL], "little"))


def _identify(node: Path, structure: int, nsid: int = 0) -> tuple[int, bytes]:
    return nvme_ioctl.send(
        node,
        nvme_ioctl.ADMIN_COMMAND,
        opcode=_IDENTIFY,
        nsid=nsid,
        size=_IDENTIFY_SIZE,
        word10=structure,
    )


def _scsi(node: Path) -> Reservation | None:
    with descriptor(node, os.O_RDONLY | os.O_NONBLOCK) as fd:
        keys = _reserve_in(fd, _READ_KEYS)
        held = _reserve_in(fd, _READ_RESERVATION) if keys is not None else None
    if keys is None or held is None:
        return None
    kind = held[_TYPE] & 0xF if _length(held) else 0
    return Reservation(kind, _length(keys) // _KEY_BYTES)


def _length(data: bytes) -> int:
    """Return the length of the list behind the header."""
    return int.from_bytes(data[4:8], "big")


def _reserve_in(fd: int, action: int) -> bytes | None:
    """Return the answer to PERSISTENT RESERVE IN; None if the drive does not have the command."""
    for _ in range(_ATTENTIONS):
        status, transport, sense, data = _send(
            fd, struct.pack(">BB5xHx", _RESERVE_IN, action, _SCSI_SIZE)
        )
        if transport:
            raise OSError(errno.EIO, f"PERSISTENT RESERVE IN: transport error {transport:#x}")
        if not status:
            return data
        key = _sense_key(sense) if status == _CHECK_CONDITION else 0
        if key == _ILLEGAL_REQUEST:
            return None
        if key != _UNIT_ATTENTION:
            raise OSError(errno.EIO, f"PERSISTENT RESERVE IN: status {status:#x}, sense key {key}")
    raise OSError(errno.EIO, "PERSISTENT RESERVE IN: unit attention again and again")


def _send(fd: int, command: bytes) -> tuple[int, int, bytes, bytes]:
    """Return status, the transport's error, sense data, and data."""
    buffers = [array.array("B", part) for part in (bytes(_SCSI_SIZE), command, bytes(_SENSE_SIZE))]
    data, text, sense = (buffer.buffer_info()[0] for buffer in buffers)
    header = bytearray(
        _HEADER.pack(
            *(_INTERFACE, _FROM_DEVICE, len(command), _SENSE_SIZE, 0, _SCSI_SIZE),
            *(data, text, sense, _MILLISECONDS, 0, 0, 0),
            *(0, 0, 0, 0, 0, 0, 0, 0, 0),
        )
    )
    fcntl.ioctl(fd, _SG_IO, header)
    status, _, _, _, host, driver = _HEADER.unpack(header)[13:19]
    # The lower bits of the driver's status only repeat that there is sense data.
    return status, host or driver & 0x7, buffers[2].tobytes(), buffers[0].tobytes()


def _sense_key(sense: bytes) -> int:
    """Return the key of sense data in fixed or descriptor form."""
    descriptor = sense[0] & 0x7F in (0x72, 0x73)
    return sense[1 if descriptor else 2] & 0xF
