"""A machine without devices: a sysfs tree, counters and zones as files, and a directory as level.

Synthetic, except for the db_bench output, which comes from tests/fixtures/db_bench (captured).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from harness.errors import HostError, ToolFailed
from harness.levels.level import FillCallback, Level, LevelContext, LevelUp, LevelUsage
from harness.machine.host import Host
from harness.observe.kmsg import KernelLog
from harness.observe.openers import Node
from harness.observe.reservations import Reservation
from harness.observe.sysfs import Sysfs
from harness.observe.zone_reports import Zone, ZoneCondition, ZoneType
from harness.store.spec import Device, PhaseRole, PhaseSpec, Reason
from harness.store.write_records import Kind, WriteCommand

MIB = 1 << 20
ZONES, ZONE_SIZE, ZONE_CAPACITY = 16, 8 * MIB, 6 * MIB
CONTROLLER = {"model": "QEMU NVMe Ctrl", "serial": "fake0"}


def make_machine(root: Path) -> None:
    """Lay out /sys, /dev and /proc: nvme0n1 conventional and nvme0n2 zoned, one controller."""
    controller = root / "sys" / "devices" / "nvme0"
    write_tree(controller, CONTROLLER)
    namespace(root, 1, {"queue/zoned": "none", "size": str(32 * MIB // 512)})
    namespace(
        root,
        2,
        {
            "queue/zoned": "host-managed",
            "queue/chunk_sectors": str(ZONE_SIZE // 512),
            "queue/nr_zones": str(ZONES),
            "queue/max_open_zones": "14",
            "queue/max_active_zones": "14",
            "size": str(ZONES * ZONE_SIZE // 512),
        },
    )
    write_tree(
        root / "proc",
        {
            "self/mountinfo": "1 0 254:0 / / rw - ext4 /dev/vda rw\n",
            "self/cgroup": "0::/\n",
            "swaps": "Filename Type Size Used Priority\n",
            "cpuinfo": "model name\t: synthetic\n",
            "meminfo": "MemTotal: 2048 kB\n",
            "cmdline": "quiet",
            "sys/kernel/random/boot_id": "00000000-0000-0000-0000-000000000001",
            "sys/kernel/osrelease": "6.18.0-synthetic\n",
            "filesystems": "\text4\n\txfs\n",
        },
    )
    show_all_processes(root / "proc")
    (root / "kmsg").write_text("")
    set_zones(root, {})
    set_diskstats(root, 0, 0)


def namespace(root: Path, number: int, attributes: dict[str, str]) -> None:
    """Add a namespace; its node is a plain sparse file of the same size."""
    name = f"nvme0n{number}"
    block = root / "sys" / "class" / "block" / name
    common = {
        "dev": f"259:{number}",
        "nsid": str(number),
        "eui": f"52 54 00 00 00 00 00 0{number}",
        "ro": "0",
        "queue/scheduler": "[none] mq-deadline",
        "queue/logical_block_size": "4096",
    }
    write_tree(block, common | attributes)
    (block / "holders").mkdir()
    (block / "device").symlink_to(root / "sys" / "devices" / "nvme0")
    node = root / "dev" / name
    node.parent.mkdir(exist_ok=True)
    with node.open("wb") as file:
        file.truncate(int(attributes["size"]) * 512)


def write_tree(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def show_all_processes(proc: Path) -> None:
    """Be outside of containers: in the PID namespace of the machine's first process."""
    (proc / "self/ns").mkdir(parents=True, exist_ok=True)
    (proc / "self/ns/pid").symlink_to("pid:[4026531836]")


def set_zones(root: Path, written: dict[int, int]) -> None:
    """Set the bytes written in each zone, by the zone's number."""
    (root / "zones.json").write_text(json.dumps(written))


def set_diskstats(root: Path, conventional: int, zoned: int) -> None:
    """Set the bytes written to both devices since boot."""
    lines = [
        f" 259 {n} nvme0n{n} 1 0 8 0 9 0 {written // 512} 0 0 0 0 0 0 0 0 0 0\n"
        for n, written in ((1, conventional), (2, zoned))
    ]
    (root / "proc" / "diskstats").write_text("".join(lines))


class FakeSysfs(Sysfs):
    """Marks the chosen scheduler among the choices, as the kernel does."""

    def write(self, name: str, attribute: str, text: str) -> None:
        _, choices = self.schedulers(name)
        words = [f"[{choice}]" if choice == text else choice for choice in choices]
        super().write(name, attribute, " ".join(words))


class FakeHost(Host):
    """The machine below ``root``. Its pauses take no time."""

    pauses = 0

    def __init__(self, root: Path) -> None:
        super().__init__(FakeSysfs(root / "sys", root / "dev"), root / "proc")
        self.root = root
        self._exclusive: dict[str, int] = {}
        self.cgroups = root / "no-cgroups"
        self.tracing = root / "tracing"  # a test that traces makes it

    def zones(self, path: str, limit: int | None = None) -> list[Zone]:
        # Programs write to the zones of one namespace; a further one keeps its own empty.
        further = Path(path).name.startswith("nvme0n") and Path(path).name != "nvme0n2"
        written = {} if further else json.loads((self.root / "zones.json").read_text())
        zones = [_zone(index, written.get(str(index), 0)) for index in range(ZONES)]
        return zones[:limit]

    def reset_zones(self, device: Device, held: Path | None = None) -> None:
        set_zones(self.root, {})
        with Path(device.path).open("r+b") as file:
            file.truncate(0)
            file.truncate(device.size)

    def record_writes(self, device: Device, folder: Path) -> Any:
        if (self.root / "no-tracing").exists():
            raise HostError("commands cannot be traced: no tracefs", code="tracing-missing")
        return FakeRecorder(self.root / "commands")

    def pause(self, seconds: float) -> None:
        self.pauses += 1

    def node(self, path: Path) -> Node | None:
        """A plain file stands for a node: of a block device, or as ``<file>.node`` describes."""
        file = Path(os.path.realpath(path))
        marker = file.with_name(f"{file.name}.node")
        if marker.exists():
            kind, number = marker.read_text().split()
        else:
            kind, number = "b", self.sysfs.text(file.name, "dev")
            if not number or file.parent != self.sysfs.dev:
                return None
        major, minor = number.split(":")
        return Node(kind == "b", os.makedev(int(major), int(minor)))

    def open_exclusively(self, path: str) -> int | None:
        """The kernel gives a device to one exclusive opener at a time; files know no such lock."""
        holder = Path(f"/proc/self/fd/{self._exclusive.get(path, -1)}")
        held = os.path.realpath(holder) == os.path.realpath(path)
        if held or (self.root / f"busy-{Path(path).name}").exists():
            return None
        handle = super().open_exclusively(path)
        if handle is not None:
            self._exclusive[path] = handle
        return handle

    def discard(self, handle: int, start: int, length: int) -> bool:
        if (self.root / "no-discard").exists():
            return False
        os.pwrite(handle, bytes(length), start)
        return True

    def zero(self, handle: int, start: int, length: int) -> None:
        os.pwrite(handle, bytes(length), start)

    def kernel_log(self) -> KernelLog:
        return KernelLog(self.root / "kmsg", self._read_kmsg)

    def _read_kmsg(self, fd: int, size: int) -> bytes:
        chunk = os.read(fd, size)
        # So that fake_db_bench.py knows what was read.
        (self.root / "kmsg-read").write_text(str(os.lseek(fd, 0, os.SEEK_CUR)))
        return chunk

    def reservation(self, name: str) -> Reservation | None:
        return None

    def drive_capacity(self, name: str) -> int | None:
        return None


class FakeRecorder:
    """Reads the commands that fake_db_bench.py notes beside the counters that it raises."""

    def __init__(self, file: Path) -> None:
        self.seconds = 0.25
        self.refused: list[WriteCommand] = []
        self._file = file
        file.touch()
        self._before = len(file.read_text().splitlines())

    def stop(self) -> None:
        """Nothing runs."""

    def commands(self) -> Iterator[WriteCommand]:
        for line in self._file.read_text().splitlines()[self._before :]:
            moment, sector, sectors, kind = map(int, line.split())
            yield WriteCommand(moment, sector, sectors, Kind(kind))


class FakeLevel(Level):
    """A directory; its label goes where btrfs keeps it, so that ownership is proved as usual."""

    name: ClassVar[str] = "fake"
    summary: ClassVar[str] = "a directory"
    environment: ClassVar[dict[str, str]] = {}

    def __init__(self, root: Path) -> None:
        self.root = root
        # A class attribute in real levels; here a test decides.
        self.needs_conventional = (root / "needs-conventional").exists()  # type: ignore[misc]

    def probe(self, device: Device, conventional: Device | None) -> Reason | None:
        if (self.root / "unavailable").exists():
            return Reason("program-missing", "mkfs.fake is not installed", "install it")
        return None

    def up(self, context: LevelContext) -> LevelUp:
        context.check_devices()
        if (self.root / "explode").exists():
            (self.root / "explode").unlink()
            raise ValueError("a fault")
        labelled = context.device
        if (self.root / "label-on-companion").exists():
            assert context.conventional is not None
            labelled = context.conventional
        put_btrfs(Path(labelled.path), context.label)
        if self.uses_zoned:
            set_zones(self.root, {0: 4096})
        mount = context.scratch / "mnt"
        (mount / "db").mkdir(parents=True)
        (mount / "cold").mkdir()
        return LevelUp(
            db=mount / "db",
            fs_uri=None,
            cold_dir=mount / "cold",
            devices=(context.device,),
            environment={"FAKE_ROOT": str(self.root)} | self.environment,
            mount_options="rw",
            database_log=mount / "db" / "LOG",
        )

    def fill_cold(self, up: LevelUp, size: int, seed: int, progress: FillCallback) -> int:
        assert up.cold_dir is not None
        with (up.cold_dir / "cold").open("wb") as file:
            file.truncate(size)
        progress(size, size)
        return size

    def usage(self, up: LevelUp) -> LevelUsage:
        events = self.root / "gc-events"
        count = int(events.read_text()) if events.exists() else 0
        return LevelUsage(int(ZONES * ZONE_CAPACITY * 0.95), count, count * 4096, "a file")

    def database_bytes(self, up: LevelUp) -> int:
        assert up.db is not None
        return sum(path.stat().st_size for path in up.db.iterdir())

    def sync(self, up: LevelUp) -> None:
        fails = self.root / "sync-fails"
        if fails.exists() and fails.read_text() in _text(self.root / "started"):
            raise ToolFailed("sync failed (exit 1): Input/output error")
        if (self.root / "enospc").exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    def down(self, up: LevelUp) -> None:
        assert up.db is not None
        shutil.rmtree(up.db.parent, ignore_errors=True)
        (self.root / "downs").open("a").write("down\n")
        if (self.root / "down-fails").exists():
            raise ToolFailed("umount failed (exit 32): target is busy")


class FakeBaseline(FakeLevel):
    """A directory that belongs to the conventional device alone."""

    name: ClassVar[str] = "baseline"
    uses_zoned: ClassVar[bool] = False
    environment: ClassVar[dict[str, str]] = {"FAKE_BASELINE": "1"}


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def put_btrfs(node: Path, label: str) -> None:
    """Write a btrfs super block's magic and label as zoned btrfs does."""
    with node.open("r+b") as file:
        file.seek(0x40)
        file.write(b"_BHRfS_M")
        file.seek(0x12B)
        file.write(label.encode() + b"\0")


def phase(name: str, role: PhaseRole, **changes: Any) -> PhaseSpec:
    values: dict[str, Any] = {
        "name": name,
        "benchmark": name,
        "role": role,
        "flags": {"num": 20000},
        "operations": 20000,
        "user_bytes_per_operation": 416,
        "expects_gc": name == "overwrite",
        "timeout_seconds": 60,
    }
    return PhaseSpec(**(values | changes))


def _zone(index: int, written: int) -> Zone:
    start = index * ZONE_SIZE
    condition = ZoneCondition.CLOSED if written else ZoneCondition.EMPTY
    if written >= ZONE_CAPACITY:
        condition = ZoneCondition.FULL
    return Zone(
        start, ZONE_SIZE, ZONE_CAPACITY, start + written, condition, ZoneType.SEQUENTIAL_REQUIRED
    )
