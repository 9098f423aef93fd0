"""Every probe on every geometry, from sysfs tree to reason, against one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.levels import LEVELS
from harness.levels.filesystem import FileSystemLevel
from harness.levels.zenfs import ZenFs
from harness.machine.guard import Guard
from harness.machine.journal import Journal
from harness.observe.zone_reports import Zone, ZoneCondition, ZoneType
from harness.rig.model import EmulatedNamespace
from harness.run.inspection import inspect
from harness.store.spec import Inspection
from harness.tools import db_bench, native, proc, zenfs
from harness.tools.kernel import Kernel
from tests.fixtures.geometry import GEOMETRIES, KERNEL, Geometry, uncovered
from tests.fixtures.level_host import Host
from tests.runner.fakes import FakeHost, show_all_processes, write_tree

EACH = pytest.mark.parametrize("case", GEOMETRIES, ids=[case.name for case in GEOMETRIES])


class Drive(FakeHost):
    """A host with one drive of one geometry, and with everything else that probes read."""

    def __init__(self, root: Path, case: Geometry) -> None:
        super().__init__(root)
        self.case = case
        controller = root / "sys/devices" / ("nvme-subsys0" if case.head else "nvme0")
        write_tree(controller, {"model": "QEMU NVMe Ctrl", "serial": case.name})
        for ns in case.drive.namespaces:
            self._namespace(ns, controller)
        write_tree(
            root / "proc",
            {
                "self/mountinfo": "1 0 254:0 / / rw - ext4 /dev/vda rw\n",
                "swaps": "Filename\n",
                "meminfo": "MemTotal: 2048 kB\n",
                "filesystems": "\text4\n\txfs\n\tf2fs\n\tbtrfs\n",
            },
        )
        show_all_processes(root / "proc")

    def zones(self, path: str, limit: int | None = None) -> list[Zone]:
        zone = self.case.zoned
        size, capacity = zone.zone_size or 0, zone.zone_capacity or 0
        kind, empty = ZoneType.SEQUENTIAL_REQUIRED, ZoneCondition.EMPTY
        found = [
            Zone(i * size, size, capacity, i * size, empty, kind) for i in range(zone.zones or 0)
        ]
        return found[:limit]

    def _namespace(self, ns: EmulatedNamespace, controller: Path) -> None:
        """Write a node, and for a head (as captured under Linux 7.2) its path node."""
        name = f"nvme0n{ns.nsid}"
        queue = {"zoned": "none", "logical_block_size": str(ns.logical_block_size)}
        if ns.zoned:
            queue = queue | {
                "zoned": "host-managed",
                "nr_zones": str(ns.zones),
                "chunk_sectors": str((ns.zone_size or 0) // 512),
                "max_open_zones": str(ns.max_open),
                "max_active_zones": str(ns.max_active),
            }
        folder = self.sysfs.root / "class/block" / name
        about = {"dev": f"259:{ns.nsid}", "nsid": str(ns.nsid), "ro": "0", "eui": ns.eui}
        write_tree(folder, about | {"size": str(ns.length // 512)})
        write_tree(folder / "queue", queue)
        (folder / "holders").mkdir()
        (folder / "device").symlink_to(controller)
        self.sysfs.dev.mkdir(exist_ok=True)
        with (self.sysfs.dev / name).open("wb") as file:
            file.truncate(min(ns.length, 64 << 20) if ns.zoned else ns.length)
        queues = folder / "queue"
        if self.case.head:
            queues = folder.parent / f"nvme0c0n{ns.nsid}" / "queue"
            write_tree(queues, queue)
            write_tree(queues.parent, about | {"size": str(ns.length // 512)})
        write_tree(queues, {"scheduler": "[none] mq-deadline"})


def hide_limits(drive: Drive) -> None:
    """A multipath head as under Linux 6.1: limits are 0, and the only scheduler is ``none``."""
    for ns in drive.case.drive.namespaces:
        queue = drive.sysfs.root / f"class/block/nvme0n{ns.nsid}/queue"
        write_tree(queue, {"scheduler": "none"})
        if ns.zoned:
            write_tree(queue, {"max_open_zones": "0", "max_active_zones": "0"})


def inspected(drive: Drive) -> Inspection:
    """Return what ``zonelab inspect`` shows of a drive whose host has everything."""
    kernel = Kernel(drive.root)
    levels = {
        name: type(level)(kernel) if isinstance(level, FileSystemLevel | ZenFs) else level
        for name, level in LEVELS.items()
    }
    return inspect(
        drive,
        Guard(drive, Journal(drive.root / "journal.jsonl")),
        levels,
        path=f"/dev/nvme0n{drive.case.zoned.nsid}",
        conventional=None,
        host_name="rig",
    )


@pytest.fixture
def complete(host: Host, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a host that has every requirement."""
    host.boot(KERNEL)
    for what in ("program", "library"):
        monkeypatch.setattr(native, what, lambda name: Path("/lib", name))
    monkeypatch.setattr(db_bench, "find", lambda: Path("/usr/bin/db_bench"))
    monkeypatch.setattr(zenfs, "find", lambda name: Path("/lib", name))
    for name in ("zlfs", "zenfs"):  # which RocksDB a program is linked with has tests of its own
        monkeypatch.setattr(type(LEVELS[name]), "probe_program", lambda *_: None)
    assert proc.which("modprobe") is not None  # and finds every module
    return host.root


@EACH
def test_every_level_answers_as_in_the_table(case: Geometry, complete: Path) -> None:
    found = inspected(Drive(complete, case))
    assert {probe.level: probe.reason.code if probe.reason else None for probe in found.levels} == (
        case.answers
    )
    assert list(case.answers) == list(LEVELS)
    for probe in found.levels:
        assert probe.reason is None or (probe.reason.message and probe.reason.hint)


@EACH
def test_inspection_matches_the_namespace(case: Geometry, complete: Path) -> None:
    found, zoned = inspected(Drive(complete, case)), case.zoned
    device = found.device
    assert (device.max_active_zones, device.max_open_zones) == (case.limit, case.limit)
    assert (device.zones, device.zone_size) == (zoned.zones, zoned.zone_size)
    assert (device.capacity, device.logical_block_size) == (zoned.capacity, case.block)
    assert device.schedulers == ("none", "mq-deadline")
    assert (found.conventional is not None) == case.conventional
    assert found.refusals == ()


@pytest.mark.parametrize("case", [c for c in GEOMETRIES if c.head], ids=lambda case: case.name)
def test_older_heads_get_the_same_answers(case: Geometry, complete: Path) -> None:
    """Limits and scheduler, which a head hides, are read from its path node."""
    drive = Drive(complete, case)
    hide_limits(drive)
    found = inspected(drive)
    assert (found.device.max_active_zones, found.device.max_open_zones) == (case.limit, case.limit)
    assert {p.level: p.reason.code if p.reason else None for p in found.levels} == case.answers


@EACH
def test_the_drives_of_the_rigs_are_as_in_the_table(case: Geometry) -> None:
    zoned, companion = case.zoned, case.companion
    assert (zoned.max_active, zoned.max_open) == (case.limit, case.limit)
    assert (zoned.capacity == zoned.length) == case.full
    assert {ns.logical_block_size for ns in case.drive.namespaces} == {case.block}
    assert (companion is not None) == case.conventional
    assert companion is None or companion.capacity == zoned.capacity
    assert case.drive.subsys == case.head


def test_the_set_covers_every_pair_and_no_more() -> None:
    assert uncovered() == set()
    assert len(GEOMETRIES) == 3 * 2  # the two largest factors: fewer cannot cover their pairs
    for left_out in GEOMETRIES:  # each is needed
        rest = [case.factors for case in GEOMETRIES if case is not left_out]
        assert any(
            all((p[i], p[j]) != (left_out.factors[i], left_out.factors[j]) for p in rest)
            for i in range(5)
            for j in range(i)
        )


def test_every_code_of_the_table_is_explained() -> None:
    page = Path(__file__).parents[2].joinpath("docs/levels.md").read_text()
    codes = {code for case in GEOMETRIES for code in case.in_guest.values() if code}
    assert {code for code in codes if f"`{code}`" not in page} == set()
