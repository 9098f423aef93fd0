"""A modelled drive in files: its counts, zones and notes, and which files it removes."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import GuardRefused, ToolFailed
from harness.levels import LEVELS
from harness.machine.native_claim import NativeClaim
from harness.machine.native_host import NativeHost
from harness.observe import native_drive, zone_states
from harness.observe.native_drive import MAGIC, NativeDrive
from harness.observe.sysfs import kind_of
from harness.observe.tracing.native_source import NOTES, NativeSource
from harness.observe.tracing.tracer import Tracer
from harness.observe.zone_reports import ZoneCondition
from harness.plan.requirements import choose_scheduler
from harness.store.spec import Device, DeviceKind
from tests.fixtures.planner import rig

BLOCK, CAPACITY, ZONES = 4096, 1 << 20, 4
SHAPE = {
    "block_size": BLOCK,
    "zones": ZONES,
    "zone_size": CAPACITY,
    "zone_capacity": CAPACITY,
    "max_open": 2,
    "max_active": 2,
}
# The order of the class DriveCounts.
COUNTS = {
    "version": 1,
    "stores": 7,
    "stored_bytes": 5 * BLOCK,
    "loads": 2,
    "loaded_bytes": 2 * BLOCK,
    "reads": 2,
    "read_bytes": 2 * BLOCK,
    "writes": 5,
    "write_bytes": 5 * BLOCK,
    "reports": 1,
    "opens": 0,
    "closes": 0,
    "finishes": 1,
    "resets": 1,
    "host_bytes": 5 * BLOCK,
    "pad_bytes": 3 * BLOCK,
    "requests": 10,
    "on_time": 9,
    "late": 20,
    "latency": 1000,
    "busy": 5_000_000,
}


def make(folder: Path, **counts: int) -> Device:
    """Return a synthetic drive with the files that libzlfs.so would have left."""
    device = native_drive.device(folder / "small", "small-12345678", 8, SHAPE)
    words = struct.pack(f"<{len(COUNTS)}Q", *(COUNTS | counts).values())
    NativeDrive(device).counts_file.write_bytes(words)
    return device


def fill(device: Device, *zones: tuple[int, int]) -> None:
    """Write the contents' header and zone table: condition and blocks of each zone."""
    head = struct.pack("<10Q", MAGIC, 1, 5, BLOCK, ZONES, CAPACITY, CAPACITY, 2, 2, 0)
    table = b"".join(struct.pack("<QQ", blocks << 8 | state, 0) for state, blocks in zones)
    Path(device.path).write_bytes(head.ljust(4096, b"\0") + table)


def note(device: Device, *lines: str) -> None:
    with NativeDrive(device).zones_file.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_its_record(tmp_path: Path) -> None:
    device = make(tmp_path)
    assert device.native
    assert device.kind is DeviceKind.MODELLED is kind_of("small", device.model)
    assert device.dilation == 8
    assert device.identity.key.startswith("model.")
    assert device.capacity == ZONES * CAPACITY
    other = native_drive.device(tmp_path / "small", "small-12345678", 16, SHAPE)
    assert other.identity.key != device.identity.key
    assert not rig().device.native
    spec = NativeDrive(device).specification
    assert spec == (
        f"model:{tmp_path}/small-12345678.json?dilation=8&contents={tmp_path}/small"
        f"&counts={tmp_path}/small.counts"
    )


def test_the_host_counts_by_contents_and_by_model(tmp_path: Path) -> None:
    device = make(tmp_path, write_bytes=4 * BLOCK)
    host = NativeHost([device])
    disk = host.disk_counters(["small"])["small"]
    assert (disk.reads, disk.read_bytes, disk.writes, disk.write_bytes) == (2, 8192, 7, 20480)
    assert (disk.in_flight, disk.busy_ms) == (0, 5)
    witness, media = host.witness(["small"]), host.media(["small"])
    assert witness is not None
    assert media is not None
    assert (witness.accepted, witness.read) == ({"small": 4 * BLOCK}, {"small": 2 * BLOCK})
    assert media.accepted == {"small": 8 * BLOCK}
    done = host.completions(["small"])["small"]
    assert (done.count, done.on_time_share, done.late_share) == (10, 0.9, 0.02)
    series = host.disk_series(["small"])
    assert next(iter(series.columns)) == "small.read_bytes"
    assert list(series.read()) == [8192, 20480, 2, 7, 0]
    assert host.media_series(["small"]).read() == [8 * BLOCK]
    assert host.sysfs.names() == []


def test_a_drive_that_is_not_there(tmp_path: Path) -> None:
    device = make(tmp_path)
    host = NativeHost([device])
    for other in (
        replace(device, path=f"{tmp_path}/other"),
        native_drive.device(tmp_path / "small", "small-87654321", 8, SHAPE),
    ):
        with pytest.raises(GuardRefused) as refused:
            host.find(other)
        assert refused.value.code == "missing"
    assert host.find(device) == device


@pytest.mark.parametrize("data", [b"", b"\0" * 8, struct.pack("<21Q", 2, *range(20))])
def test_counts_of_another_release(tmp_path: Path, data: bytes) -> None:
    device = make(tmp_path)
    NativeDrive(device).counts_file.write_bytes(data)
    with pytest.raises(ToolFailed):
        NativeDrive(device).counts()


def test_zones(tmp_path: Path) -> None:
    device = make(tmp_path)
    host = NativeHost([device])
    assert [zone.condition for zone in host.zones(device.path)] == [ZoneCondition.EMPTY] * ZONES
    fill(device, (4, 3), (1, 5), (3, 2), (0, 0))
    zones = host.zones(device.path)
    assert [zone.allocated for zone in zones] == [CAPACITY, 5 * BLOCK, 2 * BLOCK, 0]
    assert [zone.condition.name for zone in zones] == ["FULL", "IMPLICIT_OPEN", "CLOSED", "EMPTY"]
    assert [zone.start for zone in zones] == [number * CAPACITY for number in range(ZONES)]
    assert len(host.zones(device.path, 1)) == 1
    row = dict(zip(zone_states.COLUMNS, host.zone_series("zones", device).read(), strict=True))
    assert (row["full"], row["empty"], row["active"], row["open"]) == (1, 1, 2, 1)


def test_contents_of_another_shape(tmp_path: Path) -> None:
    device = make(tmp_path)
    fill(device, *[(0, 0)] * ZONES)
    wrong = replace(device, zones=ZONES + 1)
    with pytest.raises(ToolFailed, match="not the drive of the plan"):
        NativeHost([wrong]).zones(wrong.path)
    assert NativeHost([wrong]).zone_series("zones", wrong).read() == [None] * len(
        zone_states.COLUMNS
    )


def test_a_file_of_others_is_refused_and_stays(tmp_path: Path) -> None:
    device = make(tmp_path)
    Path(device.path).write_text("a letter, longer than a header of an emulated device has " * 4)
    claim = NativeClaim([device])
    with pytest.raises(GuardRefused, match="nothing was written"):
        claim.require_allowed()
    with pytest.raises(GuardRefused), claim.exclusively(), claim.held():
        pass
    assert Path(device.path).read_text().startswith("a letter")
    assert NativeDrive(device).counts_file.exists()


def test_each_run_has_a_new_drive_and_leaves_none(tmp_path: Path) -> None:
    device = make(tmp_path)
    fill(device, *[(4, 9)] * ZONES)
    note(device, "5 0 reset 3 0")
    (tmp_path / "neighbour").write_text("stays")
    claim = NativeClaim([device])
    with claim.exclusively(), claim.held():
        assert sorted(path.name for path in tmp_path.iterdir()) == ["neighbour"]
        fill(device, *[(0, 0)] * ZONES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["neighbour"]


def source(device: Device) -> NativeSource:
    found = NativeSource(NativeDrive(device))
    found.begin()
    return found


def test_the_timeline_has_what_each_zone_held(tmp_path: Path) -> None:
    device = make(tmp_path, finishes=0, resets=0)
    host = NativeHost([device])
    tracer = Tracer(
        source(device),
        reports={"small": lambda: host.zones(device.path)},
        metadata_zones={},
        began=1.0,
        plain=True,
    )
    make(tmp_path, finishes=1, resets=1)
    note(
        device,
        "2000000000 0 first-write 1000 0",
        "3000000000 0 finish 2000 12288",
        f"4000000000 0 reset 7000000 {CAPACITY}",
        "5000000000 0 first-write 1000 0",
    )
    fill(device, (1, 5), (0, 0), (0, 0), (0, 0))
    trace = tracer.of("small")()
    assert trace.problems == ()
    assert trace.pad == {"unknown": CAPACITY - 12288}
    assert trace.finishes == 1
    files: dict[str, str] = {}
    tracer.end(tmp_path, files.__setitem__)
    assert files["series/zone_commands.csv"].splitlines()[1:] == [
        "1.000000,small,0,first-write,,0,,,",
        f"2.000000,small,0,finish,2.0,0,,12288,{CAPACITY - 12288}",
        "3.000000,small,0,reset,7000.0,0,,12288,",
        "4.000000,small,0,first-write,,0,,,",
    ]
    assert (tmp_path / f"{NOTES}.xz").exists()


def test_a_lost_note_is_a_problem(tmp_path: Path) -> None:
    device = make(tmp_path, finishes=0, resets=0)
    found = source(device)
    make(tmp_path, finishes=1, resets=0)
    assert found.snapshot().problems == ("1 finish commands, 0 notes",)
    note(device, "3000000000 0 finish 2000 12288")
    assert found.snapshot().problems == ()


def test_notes_from_before_and_half_lines_are_left_out(tmp_path: Path) -> None:
    device = make(tmp_path)
    note(device, "1000000000 0 reset 5 0")
    found = source(device)
    assert found.snapshot().transitions == ()
    with NativeDrive(device).zones_file.open("a") as file:
        file.write("2000000000 1 first-wri")
    assert found.snapshot().transitions == ()
    with NativeDrive(device).zones_file.open("a") as file:
        file.write("te 5 0\n")
    (one,) = found.snapshot().transitions
    assert (one.zone, one.action, one.time) == (1, "first-write", 2.0)
    note(device, "not a note")
    with pytest.raises(ToolFailed, match="damaged"):
        found.snapshot()


def test_only_levels_without_the_kernel_can_use_it(tmp_path: Path) -> None:
    device = make(tmp_path)
    able = {name for name, level in LEVELS.items() if level.probe_kernel(device) is None}
    assert able == {"zlfs"}
    reason = LEVELS["f2fs"].probe_kernel(device)
    assert reason is not None
    assert reason.code == "needs-kernel-device"
    assert all(level.probe_kernel(rig().device) is None for level in LEVELS.values())


def test_no_kernel_is_too_old_for_it(tmp_path: Path) -> None:
    inspection = rig()
    old = replace(inspection, host=replace(inspection.host, kernel="6.1.0-13-amd64"))
    assert choose_scheduler("zlfs", None, old) == "mq-deadline"
    assert choose_scheduler("zlfs", None, replace(old, device=make(tmp_path))) == "none"
