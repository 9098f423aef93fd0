"""``nvme`` with a stateful drive and the output format of nvme-cli 2.3; synthetic.

It stands in for the one function that starts programs, and keeps /sys and /dev in step.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.machine.host import Host
from harness.observe.direct_reads import Range, ReadCallback
from harness.observe.openers import Node
from harness.observe.sysfs import Sysfs
from harness.observe.zone_reports import Zone, ZoneCondition, ZoneType
from harness.tools import nvme_cli, proc
from harness.tools.nvme_cli import COMMON, ZNS
from harness.tools.proc import Completed
from tests.runner.fakes import show_all_processes, write_tree

_REAL_RUN = proc.run
MIB, GIB = 1 << 20, 1 << 30
MESSAGES = {
    0x400B: "Invalid Namespace or Format: The namespace or the format of that namespace is invalid",
    0x2115: "Namespace Insufficient Capacity: Creating the namespace requires more free space than"
    " is currently available",
}


class Killed(BaseException):
    """The caller is killed here."""


class _Refusal(Exception):
    pass


@dataclass
class Space:
    """A namespace. Bytes."""

    size: int
    format: int
    zoned: bool
    attached: bool = True
    active: int = 14
    name: str = ""  # EUI-64; '': the drive makes it of the number


@dataclass
class FakeDrive:
    """A drive; by default of the geometry of a ZN540 (904 zones of 2048 MiB that hold 1077 MiB).

    ``fail`` is (step, how): the step-th command that changes something, counted from 1, is refused
    ("refuse"). Or the caller is killed before it took effect ("before") or behind it ("after"), or
    gets ^C behind it ("interrupt").
    """

    root: Path
    zone_size: int = 2048 * MIB
    zone_capacity: int = 1077 * MIB
    total: int = 904 * 1077 * MIB + 4 * GIB
    blocks: tuple[int, ...] = (512, 4096)
    metadata: tuple[int, ...] = (0, 0)
    manages: bool = True
    most: int = 32
    serial: str = "SYNTHETIC"
    boot_id: str = "boot-1"
    active_total: int | None = None
    common: bool = True
    reports_allocated: bool = True
    old_cli: bool = False
    rounds: bool = False
    shared: bool = False
    numbers_disks: bool = True  # the kernel has diskseq
    spaces: dict[int, Space] = field(default_factory=dict)
    fail: tuple[int, str] | None = None
    steps: list[str] = field(default_factory=list)
    disks: int = 0  # block devices since boot

    def run(self, argv: Sequence[str], **more: Any) -> Completed:
        """Stand in for ``proc.run``; other programs than nvme are real."""
        if argv[0] != nvme_cli.PROGRAM:
            return _REAL_RUN(argv, **more)
        words = [word for word in argv[1:] if not word.startswith("--")]
        options = dict(word[2:].partition("=")[::2] for word in argv if word.startswith("--"))
        try:
            return Completed(tuple(argv), 0, None, self._answer(words, options), "")
        except _Refusal as refusal:
            return Completed(tuple(argv), 1, None, "", str(refusal))

    def _answer(self, words: list[str], options: dict[str, str]) -> str:
        nsid = int(options.get("namespace-id", 0))
        if "help" in options:
            return "Usage" if self.old_cli else "Usage\n  [  --rar=<NUM>, -r <NUM> ]"
        if words[0] == "zns":
            return json.dumps(self._zoned(nsid))
        if words[0] in ("id-ctrl", "list-ns", "list-ctrl", "id-ns"):
            ask = getattr(self, "_" + words[0].replace("-", "_"))
            return json.dumps(ask(nsid, options))
        return "" if words[0] == "ns-rescan" else self._change(words[0], nsid, options)

    def _id_ctrl(self, _: int, __: dict[str, str]) -> Any:
        return {
            "sn": self.serial.ljust(20),
            "mn": "Synthetic ZN540",
            "fr": "R5110000",
            "cntlid": 0,
            "oacs": 8 * self.manages,
            "tnvmcap": str(self.total),
            "unvmcap": str(self.free),
            "nn": self.most,
        }

    def _list_ns(self, _: int, options: dict[str, str]) -> Any:
        found = [n for n, one in self.spaces.items() if "all" in options or one.attached]
        return {"nsid_list": [{"nsid": n} for n in found]} if found else {}

    def _list_ctrl(self, nsid: int, _: dict[str, str]) -> Any:
        attached = [0] * self.spaces[nsid].attached + [1] * self.shared
        return {"num_ctrl": len(attached), "ctrl_list": [{"ctrl_id": n} for n in attached]}

    def _id_ns(self, nsid: int, options: dict[str, str]) -> Any:
        formats = [
            {"ms": metadata, "ds": (block - 1).bit_length(), "rp": 0}
            for block, metadata in zip(self.blocks, self.metadata, strict=False)
        ]
        if nsid == COMMON:
            if not self.common:
                raise refusal(0x400B)
            return {"nsze": 0, "ncap": 0, "nvmcap": "0", "flbas": 0, "lbafs": formats}
        space = self._space(nsid)
        if not space.attached and "force" not in options:
            return {"nsze": 0, "ncap": 0, "nvmcap": 0, "flbas": 0, "lbafs": [{"ms": 0, "ds": 0}]}
        blocks = space.size // self.blocks[space.format]
        allocated = self.cost(space) if self.reports_allocated else 0
        return {
            "nsze": blocks,
            "ncap": blocks,
            "nvmcap": str(allocated),
            "flbas": space.format,
            "lbafs": formats,
            "eui64": space.name or f"001b448b4a00000{nsid}",
            "nguid": "0" * 32,
        }

    def _zoned(self, nsid: int) -> Any:
        if nsid == COMMON and not self.common:
            raise refusal(0x400B)
        if nsid != COMMON and not self._space(nsid).zoned:
            raise refusal(0x400B)
        limit = (self.spaces[nsid].active if nsid != COMMON else 0) - 1 & 0xFFFFFFFF
        lbafe = [{"zsze": self.zone_size // block, "zdes": 0} for block in self.blocks]
        return {"mar": limit, "mor": limit, "lbafe": lbafe}

    def _change(self, command: str, nsid: int, options: dict[str, str]) -> str:
        step, how = self.fail or (0, "")
        failing = step == len(self.steps) + 1
        if failing and how == "refuse":
            raise refusal(0x400B)
        if failing and how == "before":
            raise Killed
        self.steps.append(command)
        if command == "create-ns":
            nsid = self._create(options)
        elif command == "delete-ns":
            self._space(nsid)
            del self.spaces[nsid]
        else:
            self._space(nsid).attached = command == "attach-ns"
        self.publish()
        if failing and how == "after":
            raise Killed
        if failing and how == "interrupt":
            signal.raise_signal(signal.SIGINT)
        done = {"create-ns": "created ", "delete-ns": "deleted "}.get(command, "")
        return f"{command}: Success, {done}nsid:{nsid}\n"

    def _create(self, options: dict[str, str]) -> int:
        if "rar" in options and (self.active_total is None or self.old_cli):
            raise _Refusal("create-ns: unrecognized option '--rar=12'\nUsage: nvme create-ns")
        form = int(options["flbas"])
        zoned = int(options["csi"]) == ZNS
        size = int(options["nsze"]) * self.blocks[form]
        size -= self.zone_size if self.rounds and zoned else 0
        space = Space(size, form, zoned, attached=False, active=int(options.get("rar", 14)))
        if self.free < self.cost(space):
            raise refusal(0x2115)
        nsid = next(n for n in range(1, 99) if n not in self.spaces)
        self.spaces[nsid] = space
        return nsid

    def _space(self, nsid: int) -> Space:
        if nsid not in self.spaces:
            raise refusal(0x400B)
        return self.spaces[nsid]

    def cost(self, space: Space) -> int:
        """Return the bytes that a namespace takes of the drive."""
        return space.size // self.zone_size * self.zone_capacity if space.zoned else space.size

    @property
    def free(self) -> int:
        """Bytes that are not allocated."""
        return self.total - sum(self.cost(space) for space in self.spaces.values())

    def publish(self) -> None:
        """Update /sys and /dev as the kernel would."""
        blocks = self.root / "sys/class/block"
        (self.root / "sys/class/nvme/nvme0").mkdir(parents=True, exist_ok=True)
        blocks.mkdir(parents=True, exist_ok=True)
        (self.root / "dev").mkdir(exist_ok=True)
        for nsid in range(1, 9):
            name, space = f"nvme0n{nsid}", self.spaces.get(nsid)
            node, folder = self.root / "dev" / name, blocks / name
            if space is None or not space.attached:
                node.unlink(missing_ok=True)
                if folder.exists():
                    folder.rename(self.root / f"gone-{name}-{len(self.steps)}-{self.disks}")
            elif not folder.exists():
                self._appear(nsid, folder, node, space)

        self.count_writes({})
        write_tree(self.root / "proc/sys/kernel/random", {"boot_id": self.boot_id})

    def replace(self, nsid: int, **changes: Any) -> None:
        """Delete a namespace and create one like it with its number, as another program does."""
        space = self.spaces.pop(nsid)
        self.publish()
        self.spaces[nsid] = dataclasses.replace(space, **changes)
        self.publish()

    def count_writes(self, written: Mapping[str, int]) -> None:
        """Show the bytes written to each namespace since boot."""
        lines = [
            f" 259 {nsid} nvme0n{nsid} 1 0 8 0 9 0 {written.get(f'nvme0n{nsid}', 0) // 512}"
            " 0 0 0 0 0 0 0 0 0 0\n"
            for nsid in self.spaces
        ]
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/diskstats").write_text("".join(lines))

    def _appear(self, nsid: int, folder: Path, node: Path, space: Space) -> None:
        attributes = {
            "nsid": str(nsid),
            "dev": f"259:{nsid}",
            "ro": "0",
            "size": str(space.size // 512),
            "eui": f"00 1b 44 8b 4a 00 00 0{nsid}",
            "queue/zoned": "host-managed" if space.zoned else "none",
            "queue/chunk_sectors": str(self.zone_size // 512),
            "queue/nr_zones": str(space.size // self.zone_size),
            "queue/logical_block_size": str(self.blocks[space.format]),
        }
        self.disks += 1
        if self.numbers_disks:
            attributes["diskseq"] = str(self.disks)
        write_tree(folder, attributes)
        (folder / "holders").mkdir()
        (folder / "device").symlink_to(self.root / "sys/class/nvme/nvme0")
        with node.open("wb") as file:
            file.truncate(min(space.size, 64 * GIB))


class DriveHost(Host):
    """The machine of a drive: zones are empty, but for those that ``filled`` names by node."""

    def __init__(self, drive: FakeDrive) -> None:
        super().__init__(Sysfs(drive.root / "sys", drive.root / "dev"), drive.root / "proc")
        show_all_processes(self.proc)
        self.drive = drive
        self.filled: set[str] = set()
        self.busy: set[str] = set()
        self.paused: Callable[[], None] = lambda: None

    def zones(self, path: str, limit: int | None = None) -> list[Zone]:
        full = Path(path).name in self.filled
        condition = ZoneCondition.FULL if full else ZoneCondition.EMPTY
        sizes = self.drive.zone_size, self.drive.zone_capacity
        return [Zone(0, *sizes, 0, condition, ZoneType.SEQUENTIAL_REQUIRED)]

    def reservation(self, name: str) -> None:
        """The drive is a file, which has no reservations."""
        del name

    def open_exclusively(self, path: str) -> int | None:
        return None if Path(path).name in self.busy else super().open_exclusively(path)

    def node(self, path: Path) -> Node | None:
        """A plain file stands for a block device."""
        number = self.sysfs.text(Path(os.path.realpath(path)).name, "dev")
        major, _, minor = number.partition(":")
        return Node(block=True, number=os.makedev(int(major), int(minor))) if number else None

    def pause(self, seconds: float) -> None:
        """Another program gets its turn."""
        del seconds
        self.paused()

    def first_data(self, path: str, ranges: Sequence[Range], progress: ReadCallback) -> int | None:
        """Read only what a sparse file holds: to read gigabytes of holes takes a second."""
        del ranges
        with Path(path).open("rb") as file:
            try:
                start = file.seek(0, os.SEEK_DATA)
            except OSError:
                return None
        return super().first_data(path, [(start, MIB)], progress)


def refusal(status: int) -> _Refusal:
    return _Refusal(f"NVMe status: {MESSAGES[status]}({status:#x})")
