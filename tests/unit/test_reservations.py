"""A drive that another host reserved is refused.

The answers are synthetic: built from the fields of the NVMe base specification and of SPC. QEMU's
drives have no reservations.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.observe import nvme_ioctl, reservations
from harness.observe.reservations import Reservation, read
from tests.runner import fakes
from tests.runner.fakes import FakeHost, make_machine

NVME = struct.Struct("<BBHIIIQQIIIIIIIIII")
NSID = 7
DO_NOT_RETRY = 0x4000
INVALID_OPCODE, INTERNAL, OTHER_FORMAT, INVALID_SET = 0x01, 0x06, 0x18, 0x2C


@dataclass
class Nvme:
    """A namespace; ``status`` is the answer to Reservation Report, by the form it asks for."""

    oncs: int = 1 << 5
    rescap: int = 0xFF
    type: int = 0
    registrants: int = 0
    identify: int = 0  # status of Identify Namespace
    status: dict[int, int] = field(default_factory=dict)
    reports: list[int] = field(default_factory=list)

    def ioctl(self, _: int, request: int, command: bytearray | None = None) -> int:
        if request == 0x4E40:
            return NSID
        assert command is not None
        opcode, _, _, nsid, _, _, _, address, _, size, word10, word11, *_ = NVME.unpack(command)
        data = bytearray(size)
        if request == 0xC0484E41:
            assert (opcode, nsid) == (0x06, {1: 0, 0: NSID}[word10])
            if word10 == 1:
                data[520:522] = self.oncs.to_bytes(2, "little")
            elif self.identify:
                return self.identify | DO_NOT_RETRY
            else:
                data[31] = self.rescap
        else:
            assert (request, opcode, nsid, word10) == (0xC0484E43, 0x0E, NSID, size // 4 - 1)
            self.reports.append(word11)
            if status := self.status.get(word11, 0):
                return status | DO_NOT_RETRY
            data[0:7] = struct.pack("<IBH", 1, self.type, self.registrants)
        ctypes.memmove(address, bytes(data), size)
        return 0


KEYS, HELD = 0, 1
NOTHING = struct.pack(">II", 3, 0)


def keys(count: int) -> bytes:
    return struct.pack(">II", 3, 8 * count) + b"key-key-" * count


def held(kind: int) -> bytes:
    return struct.pack(">II8s4xBBH", 3, 16, b"key-key-", 0, kind, 0)


def fixed(key: int) -> bytes:
    return bytes([0x70, 0, key, *bytes(9), 0x20])


def descriptor(key: int) -> bytes:
    return bytes([0x72, key, 0x20])


@dataclass
class Scsi:
    """A disk. An answer is data, or status, host status and sense data."""

    answers: dict[int, list[bytes | tuple[int, int, bytes]]]

    def ioctl(self, _: int, request: int, header: bytearray) -> int:
        assert (request, len(header)) == (0x2285, 88)
        interface, direction, length, room, _, size = struct.unpack_from("@iiBBHI", header)
        data, command, sense = struct.unpack_from("@PPP", header, 16)
        assert (interface, direction, length) == (ord("S"), -3, 10)
        opcode, action, allocated = struct.unpack(">BB5xHx", ctypes.string_at(command, 10))
        assert (opcode, allocated) == (0x5E, size)
        answers = self.answers[action]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, bytes):
            ctypes.memmove(data, answer, len(answer))
            return 0
        header[64], sense_data = answer[0], answer[2]
        struct.pack_into("@H", header, 68, answer[1])
        assert len(sense_data) <= room
        ctypes.memmove(sense, sense_data, len(sense_data))
        return 0


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    for name in ("nvme0n1", "sda", "vda"):
        (tmp_path / name).touch()
    return tmp_path


def plug(monkeypatch: pytest.MonkeyPatch, drive: Nvme | Scsi) -> None:
    """Answer the ioctl calls as a drive; both modules share ``fcntl``."""
    assert nvme_ioctl.fcntl is reservations.fcntl
    monkeypatch.setattr(reservations.fcntl, "ioctl", drive.ioctl)


@pytest.mark.parametrize(
    ("drive", "expected", "reports"),
    [
        (Nvme(oncs=0xFFFF & ~(1 << 5), type=1), None, []),
        (Nvme(rescap=0, type=1), None, []),
        (Nvme(), None, [1]),
        (Nvme(type=5, registrants=2), Reservation(5, 2), [1]),
        (Nvme(registrants=300), Reservation(0, 300), [1]),
        (Nvme(type=1, registrants=1, status={1: OTHER_FORMAT}), Reservation(1, 1), [1, 0]),
        (Nvme(type=1, status={1: INVALID_OPCODE}), None, [1]),
        (Nvme(type=1, registrants=1, identify=INVALID_SET), Reservation(1, 1), [1]),
    ],
)
def test_nvme(
    monkeypatch: pytest.MonkeyPatch,
    dev: Path,
    drive: Nvme,
    expected: Reservation | None,
    reports: list[int],
) -> None:
    plug(monkeypatch, drive)
    assert read("nvme0n1", dev) == expected
    assert drive.reports == reports


@pytest.mark.parametrize("status", [{1: INTERNAL}, {1: OTHER_FORMAT, 0: OTHER_FORMAT}])
def test_a_status_of_nvme_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, dev: Path, status: dict[int, int]
) -> None:
    plug(monkeypatch, Nvme(status=status))
    with pytest.raises(OSError, match=r"Reservation Report: NVMe status 0x(6|18)$"):
        read("nvme0n1", dev)


UNSUPPORTED: list[bytes | tuple[int, int, bytes]] = [(2, 0, fixed(5))]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({KEYS: [NOTHING], HELD: [NOTHING]}, None),
        ({KEYS: [keys(2)], HELD: [held(5)]}, Reservation(5, 2)),
        ({KEYS: [keys(1)], HELD: [held(0x03)]}, Reservation(3, 1)),
        ({KEYS: [keys(3)], HELD: [NOTHING]}, Reservation(0, 3)),
        ({KEYS: UNSUPPORTED}, None),
        ({KEYS: [(2, 0, descriptor(5))]}, None),
        ({KEYS: [(2, 0, fixed(6)), keys(1)], HELD: [held(1)]}, Reservation(1, 1)),
    ],
)
def test_scsi(
    monkeypatch: pytest.MonkeyPatch,
    dev: Path,
    answers: dict[int, list[bytes | tuple[int, int, bytes]]],
    expected: Reservation | None,
) -> None:
    plug(monkeypatch, Scsi(answers))
    assert read("sda", dev) == expected


@pytest.mark.parametrize(
    "answer",
    [(0x18, 0, b""), (2, 0, fixed(4)), (2, 0, fixed(6)), (0, 7, b""), (2, 0, descriptor(3))],
    ids=["conflict", "hardware", "attention", "transport", "medium"],
)
def test_a_scsi_error_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, dev: Path, answer: tuple[int, int, bytes]
) -> None:
    plug(monkeypatch, Scsi({KEYS: [answer], HELD: [answer]}))
    with pytest.raises(OSError, match="PERSISTENT RESERVE IN: "):
        read("sda", dev)


def test_a_plain_file_is_no_nvme(dev: Path) -> None:
    """The kernel's own answer: a node that has not the command is not taken for a free drive."""
    with pytest.raises(OSError, match="Inappropriate ioctl") as caught:
        read("nvme0n1", dev)
    assert caught.value.errno == errno.ENOTTY


@pytest.mark.parametrize("name", ["vda", "loop0", "nullb0", "nvme0c0n1", "dm-0", "sr0"])
def test_other_devices_are_not_asked(dev: Path, name: str) -> None:
    assert read(name, dev) is None


class Asking(FakeHost):
    """A host that asks its drives."""

    reservation = Host.reservation


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (None, "", ""),
        (Reservation(5, 2), "reserved", "persistent reservation of type 5, 2 registered hosts"),
        (Reservation(0, 1), "reserved", "type 0, 1 registered hosts"),
        (OSError(errno.EIO, "no"), "reservation-unknown", "nvme0n2 is unknown: no"),
    ],
)
def test_the_guard(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answer: Reservation | OSError | None,
    code: str,
    words: str,
) -> None:
    def answered(name: str, dev: Path) -> Reservation | None:
        assert (name, dev) == ("nvme0n2", tmp_path / "dev")
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(reservations, "read", answered)
    make_machine(tmp_path)
    host = Asking(tmp_path)
    reasons = Guard(host, Journal(tmp_path / "journal")).examine(host.device("nvme0n2"))
    assert [reason.code for reason in reasons] == ([code] if code else [])
    assert not reasons or words in reasons[0].message


@pytest.mark.parametrize("reserved", ["nvme0n1", "nvme0n2", ""])
def test_the_drives_below_partitions_and_mapped_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserved: str
) -> None:
    make_machine(tmp_path)
    host = Asking(tmp_path)
    blocks = tmp_path / "sys/class/block"
    fakes.write_tree(blocks / "nvme0n1/nvme0n1p4", {"partition": "4"})
    (blocks / "nvme0n1p4").symlink_to(blocks / "nvme0n1/nvme0n1p4")
    for name, below in (("dm-0", ["nvme0n1p4", "nvme0n2"]), ("dm-1", ["dm-0"])):
        for part in below:
            (blocks / name / "slaves" / part).mkdir(parents=True)
    assert host.sysfs.drives("nvme0n1p4") == ["nvme0n1"]
    assert host.sysfs.drives("dm-1") == ["nvme0n1", "nvme0n2"]
    assert host.sysfs.drives("nvme0n2") == ["nvme0n2"]
    held = Reservation(1, 1)
    monkeypatch.setattr(reservations, "read", lambda name, _: held if name == reserved else None)
    assert host.reservation("dm-1") == (held if reserved else None)
