"""sysfs, zone reports, diskstats and the kernel log, on files captured in a rig's guest."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import GuardRefused, HostError, ToolFailed
from harness.observe import diskstats, zone_reports
from harness.observe.sampler import SampledSeries, Sampler, disks, interval
from harness.observe.sysfs import Sysfs
from harness.observe.zone_reports import Zone, ZoneCondition, ZoneType
from harness.store.spec import DeviceKind

CAPTURE = Path(__file__).parents[1] / "fixtures" / "observe" / "rig-guest.json"
MIB = 1 << 20


@pytest.fixture
def capture() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(CAPTURE.read_text())
    return data


def build(root: Path, capture: dict[str, Any]) -> Sysfs:
    """Rebuild the captured tree below ``root``."""
    block = root / "sys/class/block"
    for path, text in capture["files"].items():
        name, _, attribute = path.partition("/")
        if attribute.startswith("device/"):
            controller = root / "sys" / capture["links"][name].lstrip("/")
            controller.mkdir(parents=True, exist_ok=True)
            (controller / attribute.removeprefix("device/")).write_text(text)
            link = block / name / "device"
            if not link.is_symlink():
                link.symlink_to(controller)
        elif attribute == "holders":
            for holder in text:
                (block / name / "holders" / holder).mkdir(parents=True)
        else:
            (block / path).parent.mkdir(parents=True, exist_ok=True)
            (block / path).write_text(text)
    (root / "dev").mkdir()
    return Sysfs(root / "sys", root / "dev")


@pytest.fixture
def sysfs(tmp_path: Path, capture: dict[str, Any]) -> Sysfs:
    return build(tmp_path, capture)


def test_zoned_namespace(sysfs: Sysfs) -> None:
    assert sysfs.kind("nvme0n3") is DeviceKind.EMULATED
    assert sysfs.model("nvme0n3") == "QEMU NVMe Ctrl"
    assert sysfs.identity("nvme0n3").key == "zonelab0:3"  # this guest had no EUI set
    assert sysfs.limit("nvme0n3", "max_active_zones") == 14
    assert sysfs.schedulers("nvme0n3") == ("none", ("none", "mq-deadline"))
    assert sysfs.siblings("nvme0n3") == ["nvme0n1", "nvme0n2"]


@pytest.mark.parametrize("given", ["nvme0n3", "/dev/nvme0n3"])
def test_resolve(sysfs: Sysfs, given: str) -> None:
    assert sysfs.resolve(given.replace("/dev", str(sysfs.dev))) == "nvme0n3"


def test_resolve_by_id(sysfs: Sysfs) -> None:
    (sysfs.dev / "nvme0n3").touch()
    link = sysfs.dev / "nvme-QEMU_NVMe_Ctrl_zonelab0-ns-3"
    link.symlink_to("nvme0n3")
    assert sysfs.resolve(str(link)) == "nvme0n3"


def test_missing_device(sysfs: Sysfs) -> None:
    with pytest.raises(GuardRefused, match="no block device nvme9n9") as caught:
        sysfs.resolve("nvme9n9")
    assert (caught.value.code, caught.value.exit_code) == ("missing", 3)


def test_eui_wins_over_serial(sysfs: Sysfs) -> None:
    (sysfs.block("nvme0n3") / "eui").write_text("52 54 00 00 00 00 00 03\n")
    assert sysfs.identity("nvme0n3").key == "eui.5254000000000003"
    (sysfs.block("nvme0n3") / "eui").write_text("00 00 00 00 00 00 00 00\n")
    assert sysfs.identity("nvme0n3").key == "zonelab0:3"


def test_multipath_head_hides_the_limits(sysfs: Sysfs) -> None:
    head, path = sysfs.block("nvme0n3"), sysfs.block("nvme0c1n3")
    (path / "queue").mkdir(parents=True)
    (path / "queue/max_active_zones").write_text("14")
    (path / "queue/scheduler").write_text("none [mq-deadline]")
    (head / "queue/max_active_zones").write_text("0")
    (head / "queue/scheduler").unlink()
    assert sysfs.limit("nvme0n3", "max_active_zones") == 14
    assert sysfs.schedulers("nvme0n3")[0] == "mq-deadline"
    sysfs.set_scheduler("nvme0n3", "none")
    assert (path / "queue/scheduler").read_text() == "none"
    assert not (head / "queue/scheduler").exists()


def test_scheduler_that_is_not_there(sysfs: Sysfs) -> None:
    with pytest.raises(HostError, match="has no scheduler 'bfq', only none, mq-deadline"):
        sysfs.set_scheduler("nvme0n3", "bfq")


def test_scheduler_that_is_not_taken(sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sysfs, "write", lambda *_: None)
    with pytest.raises(HostError, match="ignored scheduler"):
        sysfs.set_scheduler("nvme0n3", "mq-deadline")


def test_partition_is_its_disk_and_a_number(sysfs: Sysfs) -> None:
    part = sysfs.block("nvme0n1") / "nvme0n1p2"
    part.mkdir()
    (part / "partition").write_text("2\n")
    sysfs.block("nvme0n1p2").symlink_to(part)
    assert sysfs.partitions("nvme0n1") == ["nvme0n1p2"]
    assert sysfs.identity("nvme0n1p2").key == "zonelab0:1-part2:0"
    assert sysfs.kind("nvme0n1p2") is DeviceKind.EMULATED
    assert "nvme0n1p2" not in sysfs.whole_devices()


def test_hardware_and_null_blk(sysfs: Sysfs, tmp_path: Path) -> None:
    (sysfs.block("nvme0n3") / "device/model").write_text("WZS4C8T1TDSP303 \n")
    assert sysfs.kind("nvme0n3") is DeviceKind.HARDWARE
    (sysfs.block("nullb0") / "queue").mkdir(parents=True)
    assert sysfs.kind("nullb0") is DeviceKind.EMULATED
    assert sysfs.identity("nullb0").key == "kernel-name.nullb0:0"
    assert not sysfs.identity("nullb0").stable
    boot = sysfs.root.parent / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True, exist_ok=True)
    for number in (1, 2):  # contents of null_blk do not survive a boot, so its name does not
        boot.write_text(f"00000000-{number}\n")
        assert sysfs.identity("nullb0").key == f"null_blk.nullb0.00000000-{number}:0"
        assert sysfs.identity("nullb0").stable
    (sysfs.block("loop0") / "queue").mkdir(parents=True, exist_ok=True)
    assert not sysfs.identity("loop0").stable


def test_zone_report_of_the_kernel(capture: dict[str, Any]) -> None:
    found = zone_reports.parse_report(base64.b64decode(capture["zone_report_first4"]))
    assert [zone.start for zone in found] == [0, 8 * MIB, 16 * MIB, 24 * MIB]
    assert {(zone.size, zone.capacity) for zone in found} == {(8 * MIB, 6 * MIB)}
    assert {zone.type for zone in found} == {ZoneType.SEQUENTIAL_REQUIRED}


def zone(condition: ZoneCondition, written: int = 0) -> Zone:
    return Zone(8 * MIB, 8 * MIB, 6 * MIB, 8 * MIB + written, condition, ZoneType(2))


def test_zone_counts() -> None:
    report = [
        zone(ZoneCondition.EMPTY),
        zone(ZoneCondition.FULL, 8 * MIB),  # a full zone's write pointer has no meaning
        zone(ZoneCondition.IMPLICIT_OPEN, 4096),
        zone(ZoneCondition.EXPLICIT_OPEN),
        zone(ZoneCondition.CLOSED, 8192),
        zone(ZoneCondition.READ_ONLY),
    ]
    counts = zone_reports.count(report)
    assert (counts.active, counts.full) == (3, 1)
    assert counts.allocated == 6 * MIB + 4096 + 8192


def test_digest_sees_a_write() -> None:
    before, after = [zone(ZoneCondition.CLOSED, 4096)], [zone(ZoneCondition.CLOSED, 8192)]
    assert zone_reports.digest(before) == zone_reports.digest(list(before))
    assert zone_reports.digest(before) != zone_reports.digest(after)


def test_diskstats(capture: dict[str, Any]) -> None:
    found = diskstats.parse(capture["diskstats"], ["nvme0n2", "nvme0n3"])
    fields = next(ln for ln in capture["diskstats"].splitlines() if " nvme0n2 " in ln).split()
    assert found["nvme0n2"].write_bytes == int(fields[9]) * 512
    assert found["nvme0n2"].read_bytes == int(fields[5]) * 512
    assert found["nvme0n2"].in_flight == int(fields[11])
    change = diskstats.delta(found, found)["nvme0n3"]
    assert (change.read_bytes, change.write_bytes) == (0, 0)


def test_diskstats_without_the_device(capture: dict[str, Any]) -> None:
    with pytest.raises(ToolFailed, match="no line for nvme7n7"):
        diskstats.parse(capture["diskstats"], ["nvme7n7"])


@pytest.mark.parametrize(
    ("dilation", "seconds"), [(1, 1.0), (8, 1.0), (32, 1.0), (128, 4.0), (256, 8.0), (1000, 8.0)]
)
def test_samples_are_farther_apart_where_the_drives_clock_is_slow(
    tmp_path: Path, dilation: int, seconds: float
) -> None:
    assert interval(dilation) == seconds
    clock = iter([0.0, 0.9 * seconds, 0.96 * seconds, 1.8 * seconds, 2.0 * seconds])
    sampler = Sampler(
        tmp_path,
        [SampledSeries("one", ["x"], lambda: [1])],
        clock=lambda: next(clock),
        began=0.0,
        interval=interval(dilation),
    )
    for _ in range(5):
        sampler.tick()
    sampler.close()
    _, *rows = (tmp_path / "one.csv").read_text().splitlines()
    assert [float(row.split(",")[0]) for row in rows] == [
        pytest.approx(at * seconds, abs=1e-3) for at in (0, 0.96, 2.0)
    ]


def test_sampler_writes_one_line_a_second(tmp_path: Path, capture: dict[str, Any]) -> None:
    clock = iter([100.0, 100.4, 101.2])
    line = next(line for line in capture["diskstats"].splitlines() if " nvme0n3 " in line)
    (tmp_path / "nvme0n3").mkdir()
    (tmp_path / "nvme0n3" / "stat").write_text(" ".join(line.split()[3:]))  # the same numbers
    sampler = Sampler(
        tmp_path / "series",
        [disks(["nvme0n3"], lambda name: tmp_path / name)],
        clock=lambda: next(clock),
        began=90.0,
    )
    for _ in range(3):
        sampler.tick()
    sampler.close()
    header, *rows = (tmp_path / "series" / "diskstats.csv").read_text().splitlines()
    assert header.startswith("t,nvme0n3.read_bytes,nvme0n3.write_bytes,")
    assert [row.split(",")[0] for row in rows] == ["10.000", "11.200"]
    (found,) = diskstats.parse(capture["diskstats"], ["nvme0n3"]).values()
    assert [int(value) for value in rows[0].split(",")[1:]] == [
        getattr(found, column) for column in diskstats.COLUMNS
    ]
