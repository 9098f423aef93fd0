"""The kernel log: records read while the run goes on, lost ones counted, names of devices."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

import pytest

from harness.observe import kernel_names, kmsg
from harness.observe.kmsg import KernelLog
from harness.observe.sysfs import Sysfs

CAPTURE = Path(__file__).parents[1] / "fixtures" / "observe" / "rig-guest.json"


class Ring:
    """/dev/kmsg as Documentation/ABI/testing/dev-kmsg describes it, with room for few records."""

    def __init__(self, room: int) -> None:
        self._records: deque[tuple[int, bytes]] = deque(maxlen=room)
        self._written = 0
        self._next = 0

    def write(self, message: str, priority: int = 6) -> None:
        number, self._written = self._written, self._written + 1
        record = f"{priority},{number},{number}000000,-;{message}\n SUBSYSTEM=block\n"
        self._records.append((number, record.encode()))

    def read(self, fd: int, size: int) -> bytes:
        assert fd >= 0
        if self._next == self._written:
            raise BlockingIOError
        oldest = self._records[0][0]
        if self._next < oldest:
            self._next = oldest
            raise BrokenPipeError
        self._next += 1
        return self._records[self._next - 1 - oldest][1][:size]


@pytest.fixture
def ring() -> Ring:
    return Ring(4)


@pytest.fixture
def log(ring: Ring, tmp_path: Path) -> KernelLog:
    (tmp_path / "kmsg").touch()
    return KernelLog(tmp_path / "kmsg", ring.read)


def test_nothing_is_lost_if_the_log_is_drained_in_time(ring: Ring, log: KernelLog) -> None:
    for number in range(12):
        ring.write(f"message {number}")
        if number % 3 == 2:
            log.drain()
    found = kmsg.parse(log.text(["nvme0n2", "nvme0"]))
    assert found.lines == tuple(f"{number}.000000 message {number}" for number in range(12))
    assert found.lost == 0
    assert found.devices == {"nvme0", "nvme0n2"}


def test_lost_records_are_counted(ring: Ring, log: KernelLog) -> None:
    ring.write("first")
    log.drain()
    for number in range(10):  # numbers 1 to 10; room is for 7 to 10
        ring.write(f"flood {number}")
    log.drain()
    found = kmsg.parse(log.text([]))
    assert found.lost == 6
    assert [line.split(" ", 1)[1] for line in found.lines] == [
        "first",
        *(f"flood {number}" for number in range(6, 10)),
    ]


def test_records_lost_before_the_first_one_are_reported(ring: Ring, log: KernelLog) -> None:
    for number in range(10):
        ring.write(f"flood {number}")
    log.drain()
    assert kmsg.parse(log.text([])).lost == 1  # the kernel does not tell how many: at least one


def test_a_gap_without_an_error_is_a_loss() -> None:
    chunks = [b"6,7,1000000,-;a\n", b"6,9,2000000,-;b\n"]

    def read(_: int, __: int) -> bytes:
        return chunks.pop(0) if chunks else b""

    log = KernelLog(Path("/dev/null"), read)
    log.drain()
    assert kmsg.parse(log.text([])).lost == 1


def test_lines_of_programs_are_kept_and_not_judged(ring: Ring, log: KernelLog) -> None:
    ring.write("nvme0n2: a line of the kernel", priority=3)
    ring.write("sshd[1]: write failed", priority=(1 << 3) + 3)
    log.drain()
    text = log.text([])
    assert "user space: sshd[1]: write failed" in text
    assert kmsg.parse(text).lines == ("0.000000 nvme0n2: a line of the kernel",)


def test_only_records_since_the_start_are_read(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("6,1,1000000,-;old\n")
    log = KernelLog(path)
    with path.open("a") as file:
        file.write("3,2,2500000,-;nvme0n2: I/O Error\n SUBSYSTEM=block\n")
    log.drain()
    log.drain()
    log.close()
    assert kmsg.parse(log.text([])).lines == ("2.500000 nvme0n2: I/O Error",)


def test_a_log_without_permission(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "absent")
    assert not log.available
    log.drain()


def test_an_old_record_names_no_devices() -> None:
    found = kmsg.parse("2.500000 nvme9n9: I/O Error\n")
    assert found.devices is None
    assert found.concerns_run(found.lines[0])


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("I/O error, dev nvme0c0n1, sector 218630656 op 0x1:(WRITE)", {"nvme0c0n1"}),
        ("nvme nvme0: I/O 12 QID 3 timeout, aborting", {"nvme0"}),
        ("nvme 0000:01:00.0: enabling device (0000 -> 0002)", {"0000:01:00.0"}),
        ("nvme 10000:e1:00.0: PCI INT A: not connected", {"10000:e1:00.0"}),
        ("sd 8:0:0:0: [sdg] tag#8 FAILED Result: hostbyte=DID_OK", {"8:0:0:0", "sdg"}),
        ("ata9.00: failed command: WRITE FPDMA QUEUED", {"ata9"}),
        ("Buffer I/O error on dev sda8, logical block 8388772", {"sda8"}),
        ("JBD2: Error -5 detected when updating journal superblock for dm-0-8.", {"dm-0"}),
        ("device-mapper: zoned metadata: (253:0): Using 3233664 B", {"253:0"}),
        ("device-mapper: zoned metadata: (dmz-sdi): DM-Zoned metadata version 2", {"sdi"}),
        ("Write-error on swap-device (254:1:39256632)", {"254:1"}),
        ("BTRFS error (device nvme0n1p3: state EA): failed to run", {"nvme0n1p3"}),
        ("watchdog: BUG: soft lockup - CPU#2 stuck for 23s! [kworker/2:1:25629]", set()),
        ("INFO: task kworker/u8:0:5 blocked for more than 120 seconds.", set()),
    ],
)
def test_devices_that_a_line_names(line: str, names: set[str]) -> None:
    assert kmsg.names_in(line) == names


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def node(sys: Path, folder: str, number: str, device: str = "") -> None:
    """Add a block device. Paths are as on Linux 6.1 and 7.2 (synthetic)."""
    real = sys / "devices" / folder
    real.mkdir(parents=True)
    (real / "dev").write_text(f"{number}\n")
    link(sys / "class" / "block" / real.name, real)
    if device:
        (sys / "devices" / device).mkdir(parents=True, exist_ok=True)
        link(real / "device", sys / "devices" / device)


def test_names_of_a_namespace_and_what_lies_on_it(tmp_path: Path) -> None:
    controller = "pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0"
    node(tmp_path, f"{controller}/nvme0n1", "259:0", controller)
    node(tmp_path, f"{controller}/nvme0n2", "259:1", controller)
    node(tmp_path, f"{controller}/nvme0n2/nvme0n2p1", "259:2")
    (tmp_path / "devices" / controller / "nvme0n2/nvme0n2p1/partition").write_text("1")
    node(tmp_path, "virtual/block/dm-3", "253:3")
    link(tmp_path / "class/block/nvme0n2/holders/dm-3", tmp_path / "devices/virtual/block/dm-3")
    link(tmp_path / "class/block/dm-3/slaves/nvme0n2", tmp_path / "class/block/nvme0n2")
    whole = {"nvme0n2", "259:1", "nvme0", "0000:01:00.0"}
    sysfs = Sysfs(tmp_path)
    names = kernel_names.of_device(sysfs, "nvme0n2")
    assert names == whole | {"nvme0n2p1", "259:2", "dm-3", "253:3"}
    assert kernel_names.of_device(sysfs, "dm-3") == whole | {"dm-3", "253:3"}
    assert kernel_names.of_device(sysfs, "nvme0n2p1") == whole | {"nvme0n2p1", "259:2"}


def test_names_of_a_multipath_head(tmp_path: Path) -> None:
    subsystem = "virtual/nvme-subsystem/nvme-subsys0"
    node(tmp_path, f"{subsystem}/nvme0n1", "259:1", subsystem)
    controllers = ("pci0000:00/0000:00:04.0/nvme/nvme0", "pci0000:00/0000:00:05.0/nvme/nvme1")
    for number, path in enumerate(controllers):
        node(tmp_path, f"{path}/nvme0c{number}n1", f"259:{number + 2}", path)
        name = path.rpartition("/")[2]
        link(tmp_path / "devices" / subsystem / name, tmp_path / "devices" / path)
    assert kernel_names.of_device(Sysfs(tmp_path), "nvme0n1") == {
        *("nvme0n1", "nvme0c0n1", "nvme0c1n1", "nvme0", "nvme1", "0000:00:04.0", "0000:00:05.0"),
        *("259:1", "259:2", "259:3"),
    }


def test_names_of_a_sata_drive(tmp_path: Path) -> None:
    scsi = "pci0000:00/0000:00:17.0/ata9/host8/target8:0:0/8:0:0:0"
    node(tmp_path, f"{scsi}/block/sdg", "8:96", scsi)
    assert kernel_names.of_device(Sysfs(tmp_path), "sdg") == {
        *("sdg", "8:96", "8:0:0:0", "ata9", "0000:00:17.0"),
    }


def test_names_in_a_captured_guest(tmp_path: Path) -> None:
    controller = json.loads(CAPTURE.read_text())["links"]["nvme0n2"].removeprefix("/sys/devices/")
    node(tmp_path, f"{controller}/nvme0n2", "259:1", controller)
    names = kernel_names.of_device(Sysfs(tmp_path), "nvme0n2")
    assert names == {"nvme0n2", "259:1", "nvme0", "0000:00:04.0"}
