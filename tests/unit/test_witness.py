"""The devices' own counts of written bytes: the rig's witness, and SMART (synthetic answers)."""

from __future__ import annotations

import ctypes
import fcntl
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import ToolFailed
from harness.observe import nvme_ioctl
from harness.store.ledger import Witness
from tests.runner.fakes import FakeHost, make_machine

Listen = Callable[[bytes], int]
DRIVES = [
    {"serial": "other", "nsid": 2, "wr_bytes": 1, "rd_bytes": 2},
    {"serial": "fake0", "nsid": 1, "wr_bytes": 10, "rd_bytes": 3},
    {"serial": "fake0", "nsid": 2, "wr_bytes": 20, "rd_bytes": 4},
]


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    make_machine(tmp_path)
    return FakeHost(tmp_path)


@pytest.fixture
def listen() -> Iterator[Listen]:
    """A server that sends its text to each client and closes."""
    server = socket.create_server(("127.0.0.1", 0))
    threads = []

    def serve(text: bytes) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(text)

    def start(text: bytes) -> int:
        threads.append(threading.Thread(target=serve, args=(text,)))
        threads[-1].start()
        return int(server.getsockname()[1])

    yield start
    server.close()
    for thread in threads:
        thread.join()


def named(host: FakeHost, port: int) -> None:
    (host.root / "proc" / "cmdline").write_text(f"quiet zonelab.witness=127.0.0.1:{port} rw\n")


def test_the_rigs_witness_knows_devices_by_serial_and_number(
    host: FakeHost, listen: Listen
) -> None:
    named(host, listen(json.dumps({"drives": DRIVES}).encode() + b"\n"))
    assert host.witness(["nvme0n2", "nvme0n1"]) == Witness(
        "QEMU query-blockstats wr_bytes",
        0,
        {"nvme0n2": 20, "nvme0n1": 10},
        {"nvme0n2": ("nvme0n2",), "nvme0n1": ("nvme0n1",)},
        read={"nvme0n2": 4, "nvme0n1": 3},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "does not answer"),
        (b"Traceback (most recent call last):\n", "does not answer"),
        (b"[]\n", r"answered \[\]"),
        (b'{"drives": []}\n', r"does not list nvme0n2 \(fake0:2\)"),
        (b'{"drives": [{"serial": "fake0", "nsid": 2}]}\n', "does not list nvme0n2"),
    ],
)
def test_a_witness_without_usable_counters(
    host: FakeHost, listen: Listen, text: bytes, message: str
) -> None:
    named(host, listen(text))
    with pytest.raises(ToolFailed, match=message) as first:
        host.witness(["nvme0n2"])
    assert first.value.code == "witness"
    # Nobody listens any more: it is not asked twice, and no run waits for it.
    with pytest.raises(ToolFailed, match=message):
        host.witness(["nvme0n2"])


class Drive:
    """An NVMe controller behind ``ioctl``: identify and SMART log pages."""

    def __init__(self, *, by_namespace: bool, written: dict[int, int]) -> None:
        self.identify = bytearray(4096)
        self.identify[261] = int(by_namespace)
        self.written = written
        self.asked: list[int] = []
        self.media = 12345
        self.guid = "c5af1028eabff2a49c4f6f7cc914d5af"

    def ioctl(self, _fd: int, request: int, command: bytearray) -> int:
        assert request == 0xC0484E41
        opcode, nsid = command[0], struct.unpack_from("<I", command, 4)[0]
        address, length, word10 = struct.unpack_from("<Q4xII", command, 24)
        if opcode == 0x06:
            answer = bytearray(self.identify)
        else:
            page = word10 & 0xFF
            assert (opcode, word10 >> 16, page in {0x02, 0xC0}) == (0x02, 512 // 4 - 1, True)
            answer = bytearray(512)
            if page == 0xC0:
                answer[0:16] = self.media.to_bytes(16, "little")
                answer[496:512] = bytes.fromhex(self.guid)
                ctypes.memmove(address, bytes(answer), length)
                return 0
            self.asked.append(nsid)
            answer[32:48] = (99).to_bytes(16, "little")  # data units read
            answer[48:64] = self.written[nsid].to_bytes(16, "little")
        assert len(answer) == length
        ctypes.memmove(address, bytes(answer), length)
        return 0


@pytest.fixture
def drive(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> Callable[[Drive], Drive]:
    (host.root / "dev" / "nvme0").touch()

    def use(one: Drive) -> Drive:
        monkeypatch.setattr(fcntl, "ioctl", one.ioctl)
        return one

    return use


def test_smart_by_namespace(host: FakeHost, drive: Callable[[Drive], Drive]) -> None:
    one = drive(Drive(by_namespace=True, written={1: 3, 2: 5}))
    assert host.witness(["nvme0n2"]) == Witness(
        "SMART data units written", 512_000, {"nvme0n2": 5 * 512_000}, {"nvme0n2": ("nvme0n2",)}
    )
    assert one.asked == [2]


def test_smart_of_a_drive_covers_all_its_namespaces(
    host: FakeHost, drive: Callable[[Drive], Drive]
) -> None:
    one = drive(Drive(by_namespace=False, written={0xFFFFFFFF: 8}))
    both = "nvme0n1+nvme0n2"
    found = host.witness(["nvme0n2", "nvme0n1"])
    assert found is not None
    assert (dict(found.accepted), dict(found.covers)) == (
        {both: 8 * 512_000},
        {both: ("nvme0n1", "nvme0n2")},
    )
    assert one.asked == [0xFFFFFFFF]


def test_a_drive_without_counters_is_not_a_witness(
    host: FakeHost, drive: Callable[[Drive], Drive]
) -> None:
    drive(Drive(by_namespace=True, written={1: 3, 2: 0}))
    assert host.witness(["nvme0n1", "nvme0n2"]) is None


def test_no_witness_on_other_devices(host: FakeHost) -> None:
    assert host.witness(["nvme0n2"]) is None  # there is no /dev/nvme0
    assert nvme_ioctl.data_written("sda", None, host.sysfs.dev) is None


def test_devices_that_take_write_zeroes(host: FakeHost) -> None:
    assert not host.zeroes("nvme0n1")  # a kernel without the file
    for name in ("nvme0n1", "nvme0n2"):
        queue = host.root / "sys" / "class" / "block" / name / "queue"
        (queue / "write_zeroes_max_bytes").write_text("131072\n")
    assert host.zeroes("nvme0n1")
    assert not host.zeroes("nvme0n2")  # zones are reset instead


@pytest.mark.parametrize(
    ("guid", "count", "model", "reported"),
    [
        ("c5af1028eabff2a49c4f6f7cc914d5af", 12345, "WZS4C8T1TDSP303", True),
        ("00af1028eabff2a49c4f6f7cc914d5af", 12345, "WZS4C8T1TDSP303", False),  # a vendor's own
        ("c5af1028eabff2a49c4f6f7cc914d5af", 0, "WZS4C8T1TDSP303", False),
        ("c5af1028eabff2a49c4f6f7cc914d5af", 12345, "QEMU NVMe Ctrl", False),
    ],
)
def test_media_bytes_come_from_the_drives_log(
    host: FakeHost,
    drive: Callable[[Drive], Drive],
    guid: str,
    count: int,
    model: str,
    *,
    reported: bool,
) -> None:
    one = drive(Drive(by_namespace=True, written={}))
    one.guid, one.media = guid, count
    for name in ("nvme0n1", "nvme0n2"):
        (host.sysfs.block(name) / "device/model").write_text(f"{model}\n")
    both = "nvme0n1+nvme0n2"
    expected = Witness(
        "OCP physical media units written", 1, {both: 12345}, {both: ("nvme0n1", "nvme0n2")}
    )
    assert host.media(["nvme0n2"]) == (expected if reported else None)
