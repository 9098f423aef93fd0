"""Users of a device that the kernel does not list: openers, mappings, exports, second paths."""

from __future__ import annotations

import mmap
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.errors import GuardRefused
from harness.machine.guard import Guard
from harness.machine.journal import Journal
from harness.observe import loops, openers
from harness.observe.openers import Node
from harness.tools import proc
from tests.runner.fakes import FakeHost, make_machine, write_tree

READ, WRITE, BOTH = "0100000", "0100001", "02100002"  # octal flags of fdinfo, as proc(5) has them
PID = 4_000_001  # above pid_max of a 32-bit system, so never the test's own


class Lab:
    """The fake machine, and one process beside the test."""

    def __init__(self, root: Path) -> None:
        make_machine(root)
        self.root = root
        self.host = FakeHost(root)
        self.device = self.host.device("nvme0n2")
        self.process = root / "proc" / str(PID)
        write_tree(self.process, {"comm": "writer\n", "maps": ""})
        for folder in ("fd", "fdinfo", "map_files"):
            (self.process / folder).mkdir()

    def code(self, path: str = "nvme0n2") -> str:
        guard = Guard(self.host, Journal(self.root / "journal.jsonl"))
        reasons = guard.examine(self.host.device(path))
        return reasons[0].code if reasons else ""

    def open(self, path: str, flags: str, descriptor: int = 7) -> None:
        """Let the process open a file below the machine's root."""
        (self.process / "fd" / str(descriptor)).symlink_to(self.root / path)
        text = f"pos:\t0\nflags:\t{flags}\nmnt_id:\t27\n"
        (self.process / "fdinfo" / str(descriptor)).write_text(text)

    def map(self, path: str, permissions: str) -> None:
        """Let the process map a file; the address has a leading zero, as in a 32-bit program."""
        line = f"08048000-08049000 {permissions} 00000000 00:05 300 {self.root / path}\n"
        (self.process / "maps").write_text(f"7f00-7f01 rw-p 00000000 00:00 0 \n{line}")
        (self.process / "map_files" / "8048000-8049000").symlink_to(self.root / path)

    def make_node(self, path: str, text: str) -> None:
        """Make a device node: ``b 259:2``, or ``c 242:0`` for a character device."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.with_name(f"{file.name}.node").write_text(text)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def generic(lab: Lab, flags: str) -> None:
    """Open the namespace's character node."""
    write_tree(lab.root / "sys/class/nvme-generic/ng0n2", {"dev": "242:1"})
    lab.make_node("dev/ng0n2", "c 242:1")
    lab.open("dev/ng0n2", flags)


def controller(lab: Lab, flags: str) -> None:
    write_tree(lab.root / "sys/devices/nvme0", {"dev": "241:0"})
    lab.make_node("dev/nvme0", "c 241:0")
    lab.open("dev/nvme0", flags)


def path_of_subsystem(lab: Lab, flags: str) -> None:
    """With multipath the namespace belongs to a subsystem, which lists its controllers."""
    write_tree(lab.root / "sys/devices/nvme0/nvme3", {"dev": "241:3"})
    lab.make_node("dev/nvme3", "c 241:3")
    lab.open("dev/nvme3", flags)


def scsi_generic(lab: Lab, flags: str) -> None:
    write_tree(lab.root / "sys/devices/nvme0/scsi_generic/sg2", {"dev": "21:2"})
    lab.make_node("dev/sg2", "c 21:2")
    lab.open("dev/sg2", flags)


def made_elsewhere(lab: Lab, flags: str) -> None:
    lab.make_node("srv/jail/disk", "b 259:2")
    lab.open("srv/jail/disk", flags)


def same_number_of_another_kind(lab: Lab, flags: str) -> None:
    lab.make_node("dev/harmless", "c 259:2")
    lab.open("dev/harmless", flags)


def target(lab: Lab, enabled: str) -> None:
    space = lab.root / "sys/kernel/config/nvmet/subsystems/s/namespaces/1"
    write_tree(space, {"enable": enabled, "device_path": str(lab.root / "dev/nvme0n2")})


def in_a_container(lab: Lab, number: str) -> None:
    link = lab.root / "proc/self/ns/pid"
    link.unlink()
    link.symlink_to(f"pid:[{number}]")


def beside_one_that_is_closed_now(lab: Lab, flags: str) -> None:
    for descriptor in (5, 7, 9):
        lab.open("dev/nvme0n2", flags, descriptor)
    for descriptor in (5, 9):
        (lab.process / "fdinfo" / str(descriptor)).unlink()


def itself(lab: Lab, flags: str) -> None:
    lab.process.rename(lab.process.with_name(str(os.getpid())))
    lab.process = lab.process.with_name(str(os.getpid()))
    lab.open("dev/nvme0n2", flags)


def ended(lab: Lab, _: str) -> None:
    (lab.process / "fd").rmdir()


SITUATIONS: dict[str, tuple[Callable[[Lab, str], None], str, str]] = {
    "writer": (lambda lab, flags: lab.open("dev/nvme0n2", flags), WRITE, "opened"),
    "reader and writer": (lambda lab, flags: lab.open("dev/nvme0n2", flags), BOTH, "opened"),
    "reader": (lambda lab, flags: lab.open("dev/nvme0n2", flags), READ, ""),
    "writer that opens and closes": (beside_one_that_is_closed_now, WRITE, "opened"),
    "writer of another device": (lambda lab, flags: lab.open("dev/nvme0n1", flags), WRITE, ""),
    "writer through a node made elsewhere": (made_elsewhere, WRITE, "opened"),
    "character device of that number": (same_number_of_another_kind, WRITE, ""),
    "reader of the generic node": (generic, READ, "opened"),
    "writer of the generic node": (generic, BOTH, "opened"),
    "writer of the controller": (controller, BOTH, "opened"),
    "smartd at the controller": (controller, "0104000", ""),  # O_RDONLY | O_NONBLOCK
    "writer of a path": (path_of_subsystem, BOTH, "opened"),
    "writer of sg": (scsi_generic, BOTH, "opened"),
    "reader of sg": (scsi_generic, READ, ""),
    "mapping to write": (lambda lab, mode: lab.map("dev/nvme0n2", mode), "rw-s", "opened"),
    "shared mapping": (lambda lab, mode: lab.map("dev/nvme0n2", mode), "r--s", "opened"),
    "private mapping": (lambda lab, mode: lab.map("dev/nvme0n2", mode), "rw-p", ""),
    "mapping of a file": (lambda lab, mode: lab.map("journal.jsonl", mode), "rw-s", ""),
    "NVMe target": (target, "1", "exported"),
    "NVMe target that is off": (target, "0", ""),
    "container": (in_a_container, "4026532201", "openers-unknown"),
    "zonelab itself": (itself, BOTH, ""),
    "process that ended": (ended, "", ""),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_users_that_take_no_lock(lab: Lab, name: str) -> None:
    do, how, code = SITUATIONS[name]
    do(lab, how)
    assert lab.code() == code


def test_the_refusal_names_program_and_node(lab: Lab) -> None:
    made_elsewhere(lab, BOTH)
    guard = Guard(lab.host, Journal(lab.root / "journal.jsonl"))
    with pytest.raises(GuardRefused) as caught:
        guard.require(lab.device)
    node = lab.root / "srv/jail/disk"
    assert caught.value.message == f"{node} is open for writing by writer (pid {PID})"


def test_a_writer_of_the_disk_uses_its_partitions_and_the_other_way_round(lab: Lab) -> None:
    block = lab.root / "sys/class/block"
    write_tree(block / "nvme0n1/nvme0n1p1", {"partition": "1", "dev": "259:9", "size": "2048"})
    (block / "nvme0n1p1").symlink_to(block / "nvme0n1/nvme0n1p1")
    (lab.root / "dev/nvme0n1p1").write_bytes(bytes(1 << 20))
    assert lab.code("nvme0n1p1") == ""
    lab.open("dev/nvme0n1", BOTH)
    assert lab.code("nvme0n1p1") == "opened"
    assert lab.host.sysfs.block_nodes("nvme0n1") == ["259:1", "259:9"]


def test_a_program_that_only_looks_is_waited_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.open("dev/nvme0n2", BOTH)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            (lab.process / "fd/7").unlink()

    monkeypatch.setattr(lab.host, "pause", pause)
    assert lab.code() == ""
    assert len(pauses) == 2


def test_a_process_that_cannot_be_looked_at_is_not_ignored(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.open("dev/nvme0n2", READ)

    def node(path: Path) -> Node | None:
        if "fd" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return FakeHost.node(lab.host, path)

    monkeypatch.setattr(lab.host, "node", node)
    assert lab.code() == "openers-unknown"


def test_a_loop_device_on_the_device_or_its_partition(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(lab.root / "sys/class/block/loop0", {"loop/backing_file": "/gone (deleted)"})
    below = {"loop0": Node(block=True, number=os.makedev(259, 1))}
    monkeypatch.setattr(lab.host, "loop_source", below.get)
    assert lab.code() == ""
    below["loop0"] = Node(block=True, number=os.makedev(259, 2))
    assert lab.code() == "exported"


# Opens or maps a file, reports it, and waits for the end of its input.
_CHILD = """
import mmap, os, sys
handle = os.open(sys.argv[1], int(sys.argv[2]))
if sys.argv[3]:
    mapped = mmap.mmap(handle, 4096, getattr(mmap, sys.argv[3]))
    os.close(handle)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("flags", "kind", "counts"),
    [(os.O_RDWR, "", True), (os.O_RDONLY, "", False), (os.O_RDWR, "MAP_SHARED", True)],
)
def test_a_real_process(tmp_path: Path, flags: int, kind: str, *, counts: bool) -> None:
    """A plain file stands for the device, under a second name; /proc is the kernel's."""
    file, link = tmp_path / "disk", tmp_path / "link"
    file.write_bytes(bytes(mmap.PAGESIZE))
    os.link(file, link)
    inode = file.stat().st_ino

    def node(path: Path) -> Node | None:
        try:
            return Node(block=True, number=7) if path.stat().st_ino == inode else None
        except PermissionError:
            raise
        except OSError:
            return None

    with child(link, flags, kind) as pid:
        found = openers.find(Path("/proc"), {Node(block=True, number=7): False}, node)
    assert [(one.pid, one.path) for one in found.seen] == ([(pid, str(link))] if counts else [])


def test_nodes_of_the_real_machine() -> None:
    assert openers.node_of(Path("/dev/null")) == Node(block=False, number=os.makedev(1, 3))
    assert openers.node_of(Path(__file__)) is None
    assert openers.node_of(Path("/proc/self/fd/4711")) is None


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    """A block device of the real kernel; only root can make one."""
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    done = proc.run(["losetup", "--find", "--show", tmp_path / "file"], timeout=30, check=False)
    if not done.ok:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    yield Path(done.stdout.strip())
    proc.run(["losetup", "--detach", done.stdout.strip()], timeout=30)


@contextmanager
def child(path: Path, flags: int, kind: str) -> Iterator[int]:
    """Let another process open or map a file; yield its number."""
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(path), str(flags), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process.pid
        process.communicate()


@pytest.mark.needs("losetup")
@pytest.mark.parametrize(
    ("flags", "kind", "counts"),
    [
        (os.O_WRONLY, "", True),
        (os.O_RDWR, "", True),
        (os.O_RDONLY, "", False),
        (os.O_RDWR, "MAP_SHARED", True),
    ],
)
def test_openers_of_a_real_block_device(
    loop: Path, tmp_path: Path, flags: int, kind: str, *, counts: bool
) -> None:
    """Opened through a node that was made elsewhere: the name is no evidence, the number is."""
    number = loop.stat().st_rdev
    node = tmp_path / "node"
    try:
        os.mknod(node, 0o600 | stat.S_IFBLK, number)
    except PermissionError:
        pytest.skip("nodes cannot be made here")
    with child(node, flags, kind) as pid:
        found = openers.find(Path("/proc"), {Node(block=True, number=number): False})
    assert [(one.pid, one.path) for one in found.seen] == ([(pid, str(node))] if counts else [])


@pytest.mark.needs("losetup")
def test_a_real_loop_device_on_a_block_device(loop: Path) -> None:
    done = proc.run(["losetup", "--find", "--show", loop], timeout=30)
    upper = Path(done.stdout.strip())
    try:
        assert loops.source(upper) == loop.stat().st_rdev
        assert loops.source(loop) is None  # a plain file is below it
    finally:
        proc.run(["losetup", "--detach", upper], timeout=30)
