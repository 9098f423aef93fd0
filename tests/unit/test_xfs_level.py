"""xfs on zones: versions, options, counters of the collector."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import ToolFailed
from harness.levels.level import LevelUp
from harness.levels.xfs import Xfs
from harness.observe.gauges import Reader
from harness.store.spec import Bytes
from harness.tools import mkfs_xfs, xfs_stats
from harness.tools.kernel import Kernel
from tests.fixtures.level_host import (
    CONVENTIONAL,
    FIXTURES,
    MIB,
    ZONED,
    Host,
    assert_up_and_down_leave_nothing,
    context,
)

STATS = (FIXTURES / "xfs-stats.txt").read_text()


@pytest.mark.parametrize(
    ("kernel", "mkfs", "code"),
    [
        ("6.15.0", "mkfs.xfs version 6.15.0", None),
        ("7.2.13+deb14-amd64", "mkfs.xfs version 7.2.0", None),
        ("6.14.11", "mkfs.xfs version 7.2.0", "kernel-too-old"),
        ("7.3.4+deb13-amd64", "mkfs.xfs version 6.13.0", "xfsprogs-too-old"),
    ],
)
def test_versions(host: Host, kernel: str, mkfs: str, code: str | None) -> None:
    host.boot(kernel)
    host.mkfs_xfs = mkfs
    reason = Xfs(Kernel(host.root)).probe(ZONED, CONVENTIONAL)
    assert (reason.code if reason else None) == code


CONFIGURED = "CONFIG_XFS_FS=m\nCONFIG_XFS_RT=y\n"
NOT_SET = "CONFIG_XFS_FS=m\n# CONFIG_XFS_RT is not set\n"


@pytest.mark.parametrize("packed", [False, True], ids=["boot", "proc"])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CONFIGURED, None),
        (NOT_SET, "kernel-config"),
        ("CONFIG_XFS_FS=m\nCONFIG_XFS_RT_DEBUG=y\n", "kernel-config"),
        ("", None),  # it does not tell: no refusal
    ],
)
def test_the_kernel_needs_realtime_devices(
    host: Host, packed: bool, text: str, code: str | None
) -> None:
    host.boot("6.15.2-own")
    if packed:
        (host.root / "proc/config.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (host.root / "boot").mkdir()
        (host.root / "boot/config-6.15.2-own").write_text(text)
        (host.root / "boot/config-7.0.0").write_text(NOT_SET)  # of another kernel
    reason = Xfs(Kernel(host.root)).probe(ZONED, CONVENTIONAL)
    assert (reason.code if reason else None) == code
    if reason is not None:
        assert reason.hint == "boot a kernel that has CONFIG_XFS_RT=y"


def test_a_damaged_configuration_is_ignored(host: Host) -> None:
    packed = gzip.compress(NOT_SET.encode() * 100)
    for damaged in (b"no gzip", packed[:-20], packed[:12] + b"\xff\xff\xff" + packed[15:]):
        (host.root / "proc/config.gz").write_bytes(damaged)
        assert Xfs(Kernel(host.root)).probe(ZONED, CONVENTIONAL) is None


@pytest.mark.parametrize(
    ("size", "capacity", "code"),
    [(8, 6, None), (8, 8, None), (8, 5, None), (8, 4, "zone-size"), (8, 3, "zone-size")],
)
def test_the_size_follows_from_the_capacity(
    host: Host, size: int, capacity: int, code: str | None
) -> None:
    host.boot("7.3.4")
    host.mkfs_xfs = "mkfs.xfs version 7.2.0"
    device = replace(ZONED, zone_size=Bytes(size * MIB), zone_capacity=Bytes(capacity * MIB))
    reason = Xfs(Kernel(host.root)).probe(device, CONVENTIONAL)
    assert (reason.code if reason else None) == code


def test_up_and_down_leave_nothing(host: Host, tmp_path: Path) -> None:
    assert_up_and_down_leave_nothing(Xfs, host, tmp_path)


def test_versions_as_captured() -> None:
    lines = (FIXTURES / "mkfs.xfs-version.txt").read_text().splitlines()
    assert [mkfs_xfs.parse_version(line) for line in lines] == [(6, 1), (7, 2)]
    with pytest.raises(ToolFailed, match="printed 'xfs_admin"):
        mkfs_xfs.parse_version("xfs_admin version 1")


def test_metadata_gets_a_slice_and_the_zones_are_the_realtime_device(
    host: Host, tmp_path: Path
) -> None:
    level = Xfs(Kernel(host.root))
    level.up(context(host, tmp_path, max_open_zones=5, lifetime=False, mount_options="noatime"))
    assert host.slices == {"zonelab-nvme0n1": 320 * MIB}
    mkfs = next(call for call in host.calls if call[0] == "mkfs.xfs")
    assert mkfs[mkfs.index("-r") + 1] == "rtdev=/dev/nvme0n3"
    options = next(call for call in host.calls if call[0] == "mount")[4]
    assert options == "rtdev=/dev/nvme0n3,max_open_zones=5,nolifetime,noatime"


def test_the_collectors_threshold_is_set(host: Host, tmp_path: Path) -> None:
    file = host.root / "sys/fs/xfs/zonelab-nvme0n1/zoned/zonegc_low_space"
    file.parent.mkdir(parents=True)
    Xfs(Kernel(host.root)).up(context(host, tmp_path, zonegc_low_space=20, lifetime=True))
    assert file.read_text() == "20\n"
    assert "rtdev=/dev/nvme0n3,lifetime" in host.calls[-3] + host.calls[-2]


def test_a_kernel_without_the_threshold_gives_a_reason(host: Host, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="cannot set zonegc_low_space to 20"):
        Xfs(Kernel(host.root)).up(context(host, tmp_path, zonegc_low_space=20))
    assert host.slices == {}


@pytest.fixture
def mounted(host: Host) -> tuple[Xfs, LevelUp, Path]:
    host.mounts.append(("/dev/mapper/zonelab-nvme0n1", "/mnt/lv", "xfs"))
    host.run(["true"])  # writes mountinfo
    zoned = host.root / "sys/fs/xfs/zonelab-nvme0n1/zoned"
    zoned.mkdir(parents=True)
    for name, value in (("max_open_zones", 13), ("nr_open_zones", 2), ("zonegc_low_space", 0)):
        (zoned / name).write_text(f"{value}\n")
    stats = zoned.parent / "stats/stats"
    stats.parent.mkdir()
    stats.write_text(STATS)
    up = LevelUp(Path("/mnt/lv/db"), None, Path("/mnt/lv/cold"), (ZONED, CONVENTIONAL))
    return Xfs(Kernel(host.root)), up, stats


def test_counters(mounted: tuple[Xfs, LevelUp, Path]) -> None:
    level, up, _ = mounted
    usage = level.gc(up)
    assert (usage.gc_events, usage.gc_bytes) == (11, MIB)
    assert usage.raw == {
        "gc_read_calls": 12,
        "gc_write_calls": 11,
        "gc_zone_reset_calls": 4,
        "gc_bytes": MIB,
        "max_open_zones": 13,
        "nr_open_zones": 2,
        "zonegc_low_space": 0,
    }


def test_a_kernel_without_counters_gives_no_counts(mounted: tuple[Xfs, LevelUp, Path]) -> None:
    level, up, stats = mounted
    lines = STATS.splitlines()
    stats.write_text("\n".join(line for line in lines if line[:2] not in ("zo", "gc")) + "\n")
    usage = level.gc(up)
    assert (usage.gc_events, usage.gc_bytes) == (None, None)
    assert usage.gc_source.endswith("this kernel does not have them")
    assert usage.raw["max_open_zones"] == 13


def test_series_are_the_counters(mounted: tuple[Xfs, LevelUp, Path]) -> None:
    level, up, stats = mounted
    reader = Reader(level.gauges(up))
    assert dict(zip(reader.columns, reader.read(), strict=True)) == level.gc(up).raw
    stats.write_text("zoned 1 2 3\n")  # damaged: null, and the run goes on
    assert reader.read()[:4] == [None] * 4
    reader.close()


@pytest.mark.parametrize("text", ["zoned 1 2 3\n", "gc xpc 4\n", "zoned 1 2\ngc xpc 4\n"])
def test_damaged_counters_are_an_error(text: str) -> None:
    with pytest.raises(ToolFailed, match="xfs' statistics"):
        xfs_stats.parse(text)
