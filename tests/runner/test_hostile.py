"""Devices that must not be overwritten: each case at each moment; no byte is written.

A situation arises at one of these moments:

- ``plan``: before the campaign is planned; ``run``: between plan and run;
- ``resume``: a killed run's claim is in the journal and its label on the device;
- ``formatting``: the same, but its label is not there yet;
- ``cooling``: behind the guard's first look, while a warm drive cools;
- ``claimed``: behind its second look, right before the first write.

Write counters are those of the node (its modification time, set to the epoch beforehand), the
zones' write pointers and the calls that write. The machine is synthetic (tests/runner/fakes.py);
tests/rig/test_guard.py asks a real kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.drive import health
from harness.errors import GuardRefused
from harness.levels.level import Level
from harness.machine.claim import run_label
from harness.machine.guard import Guard, companion
from harness.machine.journal import Journal, JournalEntry, JournalEvent
from harness.machine.paths import Paths
from harness.observe import signatures
from harness.run.execute import Request, execute_plan
from harness.run.inspection import inspect
from harness.store.rundir import load_result
from harness.store.spec import Device
from tests.runner import fakes
from tests.runner.conftest import Machine

ZONED, COMPANION = "nvme0n2", "nvme0n1"
BOTH = (ZONED, COMPANION)
MOMENTS = ("plan", "run", "resume", "formatting")


class CountingHost(fakes.FakeHost):
    """Counts the calls that write to devices."""

    writes = 0

    def reset_zones(self, device: Device, held: Path | None = None) -> None:
        self.writes += 1
        super().reset_zones(device, held)

    def wipe(self, device: Device, held: Path | None = None) -> None:
        self.writes += 1
        super().wipe(device, held)


@dataclass(frozen=True)
class Hostile:
    """A case: the change to a device, and the code of the refusal.

    ``behind`` is the code once a device was found as planned: identity or contents have changed.
    """

    name: str
    do: Callable[[Machine, str], None]
    code: str
    nodes: Sequence[str] = BOTH
    moments: Sequence[str] = MOMENTS
    behind: str = ""


def block(machine: Machine, name: str) -> Path:
    return machine.root / "sys/class/block" / name


def proc(machine: Machine, name: str, line: str) -> None:
    path = machine.root / "proc" / name
    path.write_text(path.read_text() + line + "\n")


def number(machine: Machine, node: str) -> str:
    return (block(machine, node) / "dev").read_text()


def stack(machine: Machine, node: str, name: str, uuid: str) -> None:
    """Put a device-mapper device on top."""
    fakes.write_tree(block(machine, "dm-0"), {"dev": "253:0", "dm/name": name, "dm/uuid": uuid})
    (block(machine, node) / "holders" / "dm-0").mkdir()


def poke(offset: int, magic: bytes) -> Callable[[Machine, str], None]:
    def write(machine: Machine, node: str) -> None:
        with (machine.root / "dev" / node).open("r+b") as file:
            file.seek(offset)
            file.write(magic)

    return write


def mounted(machine: Machine, node: str) -> None:
    proc(machine, "self/mountinfo", f"9 1 {number(machine, node)} / /srv rw - f2fs /dev/x rw")


def mounted_by_source(machine: Machine, node: str) -> None:
    source = machine.root / "dev" / node
    proc(machine, "self/mountinfo", f"9 1 0:44 / /srv rw - btrfs {source} rw")


def root(machine: Machine, node: str) -> None:
    proc(machine, "self/mountinfo", f"9 1 {number(machine, node)} / / rw - ext4 /dev/x rw")


def swap(machine: Machine, node: str) -> None:
    proc(machine, "swaps", f"{machine.root}/dev/{node} partition 1 0 -2")


def swap_in_volume(machine: Machine, node: str) -> None:
    stack(machine, node, "vg-swap", "LVM-1")
    proc(machine, "swaps", f"{machine.root}/dev/dm-0 partition 1 0 -2")


def lvm(machine: Machine, node: str) -> None:
    stack(machine, node, "vg-data", "LVM-1")


def crypt(machine: Machine, node: str) -> None:
    stack(machine, node, "vault", "CRYPT-LUKS2-1")


def mounted_volume(machine: Machine, node: str) -> None:
    lvm(machine, node)
    proc(machine, "self/mountinfo", "9 1 253:0 / /srv rw - ext4 /dev/dm-0 rw")


def raid(machine: Machine, node: str) -> None:
    fakes.write_tree(block(machine, "md0"), {"dev": "9:0"})
    (block(machine, node) / "holders" / "md0").mkdir()


def partition(machine: Machine, node: str) -> None:
    fakes.write_tree(block(machine, node) / f"{node}p1", {"partition": "1", "dev": "259:9"})


def mounted_partition(machine: Machine, node: str) -> None:
    partition(machine, node)
    block(machine, f"{node}p1").symlink_to(block(machine, node) / f"{node}p1")
    proc(machine, "self/mountinfo", "9 1 259:9 / /srv rw - ext4 /dev/x rw")


def busy(machine: Machine, node: str) -> None:
    (machine.root / f"busy-{node}").touch()


def read_only(machine: Machine, node: str) -> None:
    (block(machine, node) / "ro").write_text("1")


def twin(machine: Machine, node: str) -> None:
    """A second path to the drive, without a multipath head above both."""
    eui = (block(machine, node) / "eui").read_text()
    fakes.write_tree(block(machine, "nvme1n1"), {"eui": eui, "dev": "259:30", "nsid": "1"})


def filled_zones(machine: Machine, node: str) -> None:
    """Another program reset the zones and wrote data without a signature."""
    machine.host.reset_zones(machine.host.device(node))
    fakes.set_zones(machine.root, {5: 4096, 6: fakes.ZONE_CAPACITY})


def data_in_the_middle(machine: Machine, node: str) -> None:
    size = machine.host.device(node).size
    poke(0, bytes(signatures.HEAD))(machine, node)  # a label of ours is gone
    poke(signatures.samples(size)[20][0], b"\1")(machine, node)


def other_eui(machine: Machine, node: str) -> None:
    (block(machine, node) / "eui").write_text("52 54 00 00 00 00 00 77")


def other_serial(machine: Machine, node: str) -> None:
    """Drives without EUI-64 are identified by serial number and namespace."""
    other_eui(machine, node)
    fakes.write_tree(machine.root / "sys/devices/nvme0", {"serial": "another"})


def gone(machine: Machine, node: str) -> None:
    block(machine, node).rename(machine.root / f"pulled-{node}")


def names_swapped(machine: Machine, node: str) -> None:
    """Discovery assigned new names, and the planned device is not among them."""
    gone(machine, node)
    spare = {"eui": "52 54 00 00 00 00 00 99", "dev": "259:40", "nsid": "9"}
    zoned = {"queue/zoned": "host-managed" if node == ZONED else "none", "size": "262144"}
    fakes.write_tree(block(machine, node), spare | zoned)


def zones_gone(machine: Machine, node: str) -> None:
    (block(machine, node) / "queue/zoned").write_text("none")


def another_size(machine: Machine, node: str) -> None:
    (block(machine, node) / "size").write_text("8192")


LATER = ("run", "resume", "formatting")
CHANGED = "identity-changed"
CONTENTS = frozenset({"foreign-signature", "not-empty", "not-blank"})
TABLE = (
    Hostile("mounted", mounted, "mounted"),
    Hostile("mounted-by-source", mounted_by_source, "mounted"),
    Hostile("root", root, "root"),
    Hostile("swap", swap, "swap"),
    Hostile("swap-in-a-volume", swap_in_volume, "swap"),
    Hostile("lvm-holder", lvm, "held"),
    Hostile("crypt-holder", crypt, "held"),
    Hostile("mounted-volume", mounted_volume, "mounted"),
    Hostile("md-holder", raid, "held"),
    Hostile("partition-table", partition, "partitioned"),
    Hostile("mounted-partition", mounted_partition, "mounted"),
    Hostile("opened-exclusively", busy, "busy"),
    Hostile("read-only", read_only, "read-only"),
    Hostile("second-path", twin, "identity-ambiguous"),
    Hostile("ext4", poke(0x438, b"\x53\xef"), "foreign-signature"),
    Hostile("xfs", poke(0, b"XFSB"), "foreign-signature"),
    Hostile("btrfs", lambda m, n: fakes.put_btrfs(m.root / "dev" / n, "home"), "foreign-signature"),
    Hostile("f2fs", poke(0x400, b"\x10\x20\xf5\xf2"), "foreign-signature"),
    Hostile("zenfs", poke(8, b"FNEZ"), "foreign-signature"),
    Hostile("zenfs-of-another-version", poke(0, b"ZENF"), "foreign-signature"),
    Hostile("lvm-physical-volume", poke(0x200, b"LABELONE"), "foreign-signature"),
    Hostile("luks", poke(0, b"LUKS\xba\xbe"), "foreign-signature"),
    Hostile("gpt-without-partitions", poke(512, b"EFI PART"), "foreign-signature"),
    Hostile("swap-signature", poke(4086, b"SWAPSPACE2"), "foreign-signature"),
    Hostile("filled-zones", filled_zones, "not-empty", nodes=(ZONED,)),
    # Not "resume": a label on the partner proves a companion full of data to be that run's.
    Hostile(
        "data-in-the-middle",
        data_in_the_middle,
        "not-blank",
        nodes=(COMPANION,),
        moments=("plan", "run", "formatting"),
    ),
    Hostile(
        "data-unnamed",
        data_in_the_middle,
        "not-blank",
        nodes=(COMPANION,),
        moments=("plan", "run", "formatting"),
    ),
    Hostile("gone", gone, "missing", behind=CHANGED),
    Hostile("wrong-eui", other_eui, "missing", moments=LATER, behind=CHANGED),
    Hostile("wrong-serial", other_serial, "missing", moments=LATER, behind=CHANGED),
    Hostile("another-device-of-that-name", names_swapped, "missing", moments=LATER, behind=CHANGED),
    Hostile("no-zones-any-more", zones_gone, "not-zoned", nodes=(ZONED,)),
    Hostile("another-geometry", another_size, "geometry-changed", moments=LATER),
)
CASES = [
    pytest.param(line, node, moment, id=f"{line.name}-{node}-{moment}")
    for line in TABLE
    for node in line.nodes
    for moment in line.moments
] + [
    pytest.param(line, node, moment, id=f"{line.name}-{node}-{moment}")
    for line in TABLE
    for node in line.nodes
    for moment in ("cooling", "claimed")
    # The runner has it open exclusively then, so that nobody else can.
    if (line.name, moment) != ("opened-exclusively", "claimed")
]


class Bed:
    """The machine with a plan of both devices, its counters, and the ways in.

    Args:
        machine: the fake machine.
        named: whether the user names the companion; it has to be blank in both cases.
    """

    def __init__(self, machine: Machine, *, named: bool) -> None:
        machine.use_conventional()
        self.machine = machine
        self.host = CountingHost(machine.root)
        self.named = named
        self.journal = Journal(machine.root / "state" / "journal.jsonl")

    def arm(self) -> None:
        """Set the counters: any write(2) moves a modification time."""
        for node in BOTH:
            os.utime(self.machine.root / "dev" / node, ns=(0, 0))
        self._zones = (self.machine.root / "zones.json").read_text()
        self.host.writes = 0

    def written(self) -> list[str]:
        """Return the files written to since ``arm``."""
        nodes = [n for n in BOTH if (self.machine.root / "dev" / n).stat().st_mtime_ns]
        zones = (self.machine.root / "zones.json").read_text() != self._zones
        return [*nodes, *["zones"] * zones, *["calls"] * bool(self.host.writes)]

    def killed(self, *, formatted: bool) -> None:
        """Leave the traces of a killed run: claims in the journal, a label on the zoned device."""
        run = self.machine.plan.hosts[0].runs[0]
        pair = [run.device, run.conventional]
        for event in (JournalEvent.CLAIM, JournalEvent.UP)[: 1 + formatted]:
            for own, other in (pair, pair[::-1]):
                assert own is not None and other is not None  # noqa: PT018 - as planned above
                self.journal.append(
                    JournalEntry(
                        event,
                        own.identity.key,
                        "c",
                        run.run,
                        "fake",
                        run_label(run),
                        other.identity.key,
                        None,
                        "t",
                        "b",
                    )
                )
        if not formatted:
            return
        fakes.put_btrfs(self.machine.root / "dev" / ZONED, run_label(run))
        fakes.set_zones(self.machine.root, {0: 4096})

    def look(self) -> None:
        """Inspect as ``zonelab inspect --require-allowed`` does, and demand the companion."""
        guard = Guard(self.host, self.journal)
        named = COMPANION if self.named else None
        levels: dict[str, Level] = {"fake": fakes.FakeLevel(self.machine.root)}
        found = inspect(self.host, guard, levels, path=ZONED, conventional=named, host_name="h")
        _, reason = companion(self.host, guard, found.device, named)
        for refusal in (*found.refusals, *([reason] if reason else [])):
            raise GuardRefused(refusal.message, hint=refusal.hint, code=refusal.code)

    def run(self) -> None:
        """Execute the plan in this process."""
        request = Request(
            host_name="h",
            program=Path(fakes.__file__).parent / "fake_db_bench.py",
            paths=Paths(self.machine.root / "state", self.machine.root / "run"),
        )
        levels: dict[str, Level] = {"fake": fakes.FakeLevel(self.machine.root)}
        execute_plan(self.machine.plan, request, host=self.host, levels=levels, say=lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize(("line", "node", "moment"), CASES)
def test_nothing_is_written(
    machine: Machine, line: Hostile, node: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = Bed(machine, named=line.name != "data-unnamed")
    if moment in ("resume", "formatting"):
        bed.killed(formatted=moment == "resume")
    late = {"cooling": (health, "wait_cool"), "claimed": (Journal, "append")}

    def happens() -> None:
        line.do(machine, node)
        if moment == "claimed" and node == ZONED and line.code in CONTENTS:
            fakes.set_zones(machine.root, {0: 4096})  # any write to a zone moves its pointer
        bed.arm()

    if moment in late:
        before_first(monkeypatch, *late[moment], happens)
    else:
        happens()
    with pytest.raises(GuardRefused) as caught:
        bed.look() if moment == "plan" else bed.run()
    if (line.name, moment) == ("gone", "claimed"):
        assert caught.value.code == "missing"
    elif moment == "claimed":  # this run reports what happened; the next one is refused
        reason = load_result(machine.runs / "fake--r01").reason
        assert reason is not None
        changed = "contents-changed" if line.code in CONTENTS else line.code
        assert reason.code == (line.behind or changed)
    else:
        assert caught.value.code == ((moment == "cooling" and line.behind) or line.code)
    assert caught.value.exit_code == 3
    assert caught.value.hint or line.code in ("root", "read-only")
    assert bed.written() == []


def before_first(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, do: Callable[[], None]
) -> None:
    """Run an action before the first call of a function."""
    waiting, function = [do], getattr(owner, name)

    def first(*arguments: object) -> object:
        while waiting:
            waiting.pop()()
        return function(*arguments)

    monkeypatch.setattr(owner, name, first)


def test_the_table_is_as_large_as_promised() -> None:
    assert len({param.id for param in CASES}) == len(CASES) >= 250


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["run", "resume", "formatting"])
def test_without_hostility_the_counters_move(machine: Machine, moment: str) -> None:
    """The same entry points on allowed devices: proves that the tests above can fail."""
    bed = Bed(machine, named=True)
    if moment != "run":
        bed.killed(formatted=moment == "resume")
    bed.arm()
    bed.look()
    assert bed.written() == []
    bed.run()
    assert {ZONED, COMPANION, "calls"} <= set(bed.written())
