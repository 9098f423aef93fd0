"""Levels: probes, counters on captured sysfs trees, and the order of steps on a simulated host."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import levels
from harness.errors import ConfigError, GuardRefused, ToolFailed
from harness.levels.btrfs import Btrfs
from harness.levels.conventional import ConventionalExt4, ConventionalXfs
from harness.levels.f2fs import F2fs, slice_sizes
from harness.levels.filesystem import FileSystemLevel
from harness.levels.level import LevelUp
from harness.observe.gauges import Reader
from harness.store.spec import Bytes, DeviceKind
from harness.tools import coldfill, proc, xfs_stats, zlfs
from harness.tools.kernel import Kernel
from tests.fixtures.level_host import (
    CONVENTIONAL,
    FIXTURES,
    MIB,
    UUID,
    ZONED,
    Host,
    assert_up_and_down_leave_nothing,
    context,
)


@pytest.mark.parametrize("kind", [ConventionalExt4, ConventionalXfs, F2fs, Btrfs])
def test_up_and_down_leave_nothing(kind: type[FileSystemLevel], host: Host, tmp_path: Path) -> None:
    assert_up_and_down_leave_nothing(kind, host, tmp_path)


def test_conventional_is_cut_to_the_zoned_capacity(host: Host, tmp_path: Path) -> None:
    ConventionalExt4(Kernel(host.root)).up(context(host, tmp_path))
    assert host.slices == {"zonelab-nvme0n1": 384 * 6 * MIB}


def test_conventional_of_equal_size_is_used_whole(host: Host, tmp_path: Path) -> None:
    same = replace(CONVENTIONAL, size=ZONED.capacity)
    ConventionalXfs(Kernel(host.root)).up(replace(context(host, tmp_path), conventional=same))
    assert host.slices == {}
    assert host.mounts[0][0] == "/dev/nvme0n1"


@pytest.mark.parametrize("fills", [0, 1])
@pytest.mark.parametrize("kind", [ConventionalExt4, ConventionalXfs])
def test_a_preconditioned_file_system_was_full_once(
    kind: type[FileSystemLevel],
    fills: int,
    host: Host,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = []

    def write(file: Path, size: int, _: int, progress: Callable[[int], None]) -> int:
        progress(size // 2)
        written.append((file, size, [mount[1] for mount in host.mounts]))
        file.write_bytes(b"")
        return size

    space = os.statvfs_result((4096, 4096, 1000, 900, 800, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: space)
    monkeypatch.setattr(coldfill, "write", write)
    shares: list[float] = []
    options = {"precondition": "on"} if fills else {}
    given = replace(
        context(host, tmp_path, **options), progress=lambda done, of: shares.append(done / of)
    )
    up = kind(Kernel(host.root)).up(given)
    assert up.db is not None
    target = up.db.parent
    assert shares == [0.5] * fills
    assert written == [(target / "precondition", 800 * 4096, [str(target)])] * fills
    assert sorted(path.name for path in target.iterdir()) == ["cold", "db"]
    assert host.programs().count("sync") == 1 + fills


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"l": "size=16m", "unsupported": "on"}, ["--unsupported", "-l", "size=16m"]),
        ({"l": "size=64m", "unsupported": "off"}, ["-l", "size=64m"]),
        ({}, []),
    ],
)
def test_xfs_gets_the_options_of_its_log(
    options: dict[str, str], words: list[str], host: Host, tmp_path: Path
) -> None:
    ConventionalXfs(Kernel(host.root)).up(context(host, tmp_path, **options))
    made = next(call for call in host.calls if call[0] == "mkfs.xfs" and "-L" in call)
    assert made[3 : made.index("-L")] == words


def test_f2fs_takes_the_smallest_slice_that_formats(host: Host, tmp_path: Path) -> None:
    F2fs(Kernel(host.root)).up(context(host, tmp_path))
    assert host.slices == {"zonelab-nvme0n1": 48 * MIB}
    assert host.programs().count("mkfs.f2fs") == 4  # 16, 24, 32, 48 MiB
    assert host.programs().count("check_devices") == 4


def test_f2fs_tries_no_slice_that_mkfs_called_too_small(host: Host, tmp_path: Path) -> None:
    host.smallest_f2fs = 40 * MIB
    host.f2fs_prints_missing = True
    F2fs(Kernel(host.root)).up(context(host, tmp_path))
    assert host.slices == {"zonelab-nvme0n1": 48 * MIB}
    assert host.programs().count("mkfs.f2fs") == 2  # 16 MiB, of which 24 are missing; 48 MiB


@pytest.mark.parametrize(
    "name",
    [
        "gc_min_sleep_time",
        "gc_max_sleep_time",
        "gc_no_gc_sleep_time",
        "gc_idle_interval",
        "cp_interval",
        "idle_interval",
        "discard_idle_interval",
        "min_discard_issue_time",
        "mid_discard_issue_time",
        "max_discard_issue_time",
    ],
)
@pytest.mark.parametrize(("model", "slept"), [("zoneblk drive x8", "240000"), ("QEMU", "30000")])
def test_f2fs_sleeps_as_long_on_the_clock_of_a_modelled_drive(
    host: Host, tmp_path: Path, name: str, model: str, slept: str
) -> None:
    file = host.root / "sys/fs/f2fs/zonelab-nvme0n1" / name
    file.parent.mkdir(parents=True)
    file.write_text("30000\n")
    drive = replace(ZONED, kind=DeviceKind.MODELLED, model=model)
    F2fs(Kernel(host.root)).up(replace(context(host, tmp_path), device=drive))
    assert file.read_text().strip() == slept


@pytest.mark.parametrize(
    ("model", "asked", "given"),
    [
        ("zoneblk drive x8", "", "-o commit=40"),
        ("zoneblk drive x8", "discard,commit=1", "-o commit=40,discard,commit=1"),
        ("QEMU", "", ""),
        ("QEMU", "discard", "-o discard"),
    ],
)
def test_ext4_commits_on_the_clock_of_a_modelled_drive(
    host: Host, tmp_path: Path, model: str, asked: str, given: str
) -> None:
    given_context = context(host, tmp_path, **({"mount_options": asked} if asked else {}))
    assert given_context.conventional is not None
    drive = replace(given_context.conventional, kind=DeviceKind.MODELLED, model=model)
    ConventionalExt4(Kernel(host.root)).up(replace(given_context, conventional=drive))
    (mounted,) = [" ".join(call) for call in host.calls if call[0] == "mount"]
    assert re.findall("-o [^ ]+", mounted) == ([given] if given else [])


def test_f2fs_searches_once_for_a_device(host: Host, tmp_path: Path) -> None:
    level = F2fs(Kernel(host.root))
    tries = []
    for run, smallest in enumerate((48 * MIB, 48 * MIB, 64 * MIB)):
        host.smallest_f2fs = smallest
        level.up(context(host, tmp_path / str(run)))
        assert host.slices == {"zonelab-nvme0n1": smallest}
        tries.append(host.programs().count("mkfs.f2fs"))
        host.calls.clear()
        host.slices.clear()
        host.mounts.clear()
    assert tries == [4, 1, 2]


def test_f2fs_reports_why_no_slice_works(host: Host, tmp_path: Path) -> None:
    host.smallest_f2fs = 1 << 40
    with pytest.raises(ToolFailed, match="Device size is not sufficient"):
        F2fs(Kernel(host.root)).up(context(host, tmp_path))
    assert host.slices == {}


def test_f2fs_slices_ascend() -> None:
    sizes = slice_sizes()
    assert sizes == sorted(set(sizes))
    assert [size // MIB for size in sizes[:4]] == [16, 24, 32, 48]


def test_a_failed_mount_is_taken_down_again(host: Host, tmp_path: Path) -> None:
    host.fail["mount"] = "mount: wrong fs type"
    with pytest.raises(ToolFailed, match="wrong fs type"):
        ConventionalExt4(Kernel(host.root)).up(context(host, tmp_path))
    assert host.slices == {}
    assert not (tmp_path / "scratch/mnt").exists()


def test_nothing_is_formatted_when_the_device_changed(host: Host, tmp_path: Path) -> None:
    def refuse() -> None:
        raise GuardRefused("another device")

    with pytest.raises(GuardRefused):
        Btrfs(Kernel(host.root)).up(replace(context(host, tmp_path), check_devices=refuse))
    assert {"reset", "mkfs.btrfs", "mount"}.isdisjoint(host.programs())


def test_options_reach_the_command_line(host: Host, tmp_path: Path) -> None:
    F2fs(Kernel(host.root)).up(context(host, tmp_path, o=5, mount_options="noatime"))
    mkfs = next(call for call in host.calls if call[0] == "mkfs.f2fs")
    assert mkfs[mkfs.index("-o") + 1] == "5"
    assert next(c for c in host.calls if c[0] == "mount")[3:5] == ["-o", "noatime"]


def test_unknown_option_is_refused_before_anything_happens(host: Host, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no option 'overprovision'"):
        F2fs(Kernel(host.root)).up(context(host, tmp_path, overprovision=5))
    assert host.calls == []


@pytest.mark.parametrize(
    ("level", "change", "code"),
    [
        (F2fs, {"max_open_zones": 5}, "zones-open-limit"),
        (F2fs, {"zone_capacity": Bytes(7 * MIB)}, "zone-capacity"),
        (Btrfs, {"zone_size": Bytes(2 * MIB)}, "zone-size"),
        (Btrfs, {"zones": 9}, "zones-too-few"),
        (Btrfs, {"max_active_zones": 7}, "zones-active-limit"),
    ],
)
def test_zoned_devices_a_level_cannot_use(
    level: type[FileSystemLevel], change: dict[str, Any], code: str, host: Host
) -> None:
    reason = level(Kernel(host.root)).probe(replace(ZONED, **change), CONVENTIONAL)
    assert reason is not None
    assert reason.code == code


@pytest.mark.parametrize("level", [F2fs, Btrfs])
def test_no_limit_on_zones_is_fine(level: type[FileSystemLevel], host: Host) -> None:
    unlimited = replace(ZONED, max_open_zones=0, max_active_zones=0)
    assert level(Kernel(host.root)).probe(unlimited, CONVENTIONAL) is None


@pytest.mark.parametrize("level", [F2fs, ConventionalExt4, ConventionalXfs])
def test_missing_conventional_device_names_the_option(
    level: type[FileSystemLevel], host: Host
) -> None:
    reason = level(Kernel(host.root)).probe(ZONED, None)
    assert reason is not None
    assert reason.code == "conventional-missing"
    assert "-e conventional_device=" in reason.hint


def test_baseline_refuses_less_room_than_the_zoned_device(host: Host) -> None:
    small = replace(CONVENTIONAL, size=Bytes(ZONED.capacity - 512))
    reason = ConventionalExt4(Kernel(host.root)).probe(ZONED, small)
    assert reason is not None
    assert reason.code == "conventional-too-small"


def test_missing_program_and_kernel(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    level = Btrfs(Kernel(host.root))
    (host.root / "proc/filesystems").write_text("\text4\n")
    host.fail["modprobe"] = "modprobe: FATAL: Module btrfs not found"
    reason = level.probe(ZONED, None)
    assert reason is not None
    assert reason.code == "kernel-filesystem"
    monkeypatch.setattr(proc, "which", lambda _: None)
    reason = level.probe(ZONED, None)
    assert reason is not None
    assert (reason.code, reason.hint) == ("program-missing", "apt-get install btrfs-progs")


@pytest.mark.parametrize(
    ("release", "capacity", "refused"),
    [
        ("7.2.12+deb13-amd64", 6 * MIB, True),
        ("7.0.0", 256 * MIB, True),
        ("10.1.0", 6 * MIB, True),
        ("7.2.12+deb13-amd64", 257 * MIB, False),
        ("6.12.107+deb13-amd64", 6 * MIB, False),
    ],
)
def test_btrfs_on_small_zones_depends_on_the_kernel(
    host: Host, release: str, capacity: int, *, refused: bool
) -> None:
    host.boot(release)
    device = replace(ZONED, zone_size=Bytes(512 * MIB), zone_capacity=Bytes(capacity))
    reason = Btrfs(Kernel(host.root)).probe(device, None)
    assert (reason.code if reason else None) == ("zones-too-small" if refused else None)


def test_btrfs_needs_as_many_zones_in_an_inspection_as_in_a_plan(host: Host) -> None:
    host.boot("6.12.0")
    needed = Btrfs.needs.zones
    few, enough = (replace(ZONED, zones=zones) for zones in (needed - 1, needed))
    reason = Btrfs(Kernel(host.root)).probe(few, None)
    assert reason is not None
    assert (reason.code, reason.message) == (
        "zones-too-few",
        f"btrfs needs {needed} zones, {few.path} has {needed - 1}",
    )
    assert Btrfs(Kernel(host.root)).probe(enough, None) is None


def captured(name: str, tmp_path: Path) -> Kernel:
    root = tmp_path / "captured"
    shutil.copytree(FIXTURES / name, root)
    (root / "dev/mapper").mkdir(parents=True)
    (root / "dev/mapper/zonelab-lvtest").symlink_to("../dm-0")
    return Kernel(root)


UP = LevelUp(Path("/mnt/lv/db"), None, Path("/mnt/lv/cold"), (ZONED,))


def test_f2fs_counters_of_a_captured_tree(tmp_path: Path) -> None:
    kernel = captured("f2fs", tmp_path)
    usage = F2fs(kernel).gc(UP)
    assert (usage.gc_events, usage.gc_bytes) == (0, 0)
    assert usage.raw["conventional_slice_bytes"] == 48 * MIB
    kernel.sys("fs/f2fs/dm-0/moved_blocks_background").write_text("7\n")
    kernel.sys("fs/f2fs/dm-0/moved_blocks_foreground").write_text("3\n")
    usage = F2fs(kernel).gc(UP)
    assert (usage.gc_events, usage.gc_bytes) == (10, 10 * 4096)


def test_f2fs_without_counters_gives_a_reason(tmp_path: Path) -> None:
    kernel = captured("f2fs", tmp_path)
    kernel.sys("fs/f2fs/dm-0/moved_blocks_background").unlink()
    usage = F2fs(kernel).gc(UP)
    assert (usage.gc_events, usage.gc_bytes) == (None, None)
    assert usage.gc_source.endswith("this kernel has no moved_blocks_background")


def test_btrfs_counters_of_a_captured_tree(tmp_path: Path) -> None:
    kernel = captured("btrfs", tmp_path)
    allocation = kernel.sys(f"fs/btrfs/{UUID}/allocation")
    (allocation / "data/reclaim_count").write_text("4\n")
    (allocation / "data/reclaim_bytes").write_text("4096000\n")
    (allocation / "metadata/reclaim_count").write_text("1\n")
    usage = Btrfs(kernel).gc(UP)
    assert (usage.gc_events, usage.gc_bytes) == (5, 4_096_000)
    assert usage.raw["data.bg_reclaim_threshold"] == 75
    assert usage.raw["data.bytes_used"] == 60 * MIB


def test_series_are_the_counters(tmp_path: Path) -> None:
    for level, name, separator in ((F2fs, "f2fs", ""), (Btrfs, "btrfs", ".")):
        found = level(captured(name, tmp_path / name))
        reader = Reader(found.gauges(UP))
        row = dict(zip(reader.columns, reader.read(), strict=True))
        raw = {key.replace(separator or "_", "_"): value for key, value in found.gc(UP).raw.items()}
        present = {key: value for key, value in row.items() if value is not None}
        assert present == {key: raw[key] for key in present}
        assert len(present) > 4
        assert level.gc_columns
        assert set(level.gc_columns) <= set(reader.columns)
        reader.close()


def test_levels_name_their_modules_and_the_columns_of_their_collection() -> None:
    assert levels.modules() == ["btrfs", "dm_zap", "dm_zoned", "f2fs", "xfs"]
    assert set(levels.LEVELS["xfs"].gc_columns) <= set(xfs_stats.COLUMNS)
    assert set(levels.LEVELS["zlfs"].gc_columns) <= set(zlfs.LEDGER_COLUMNS)


def test_btrfs_without_counters_gives_a_reason(tmp_path: Path) -> None:
    kernel = captured("btrfs", tmp_path)
    kernel.sys(f"fs/btrfs/{UUID}/allocation/metadata/reclaim_count").unlink()
    usage = Btrfs(kernel).gc(UP)
    assert usage.gc_events is None
    assert usage.gc_bytes == 0
    assert "does not have them" in usage.gc_source


def test_btrfs_free_bytes_are_of_capacity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = Btrfs(captured("btrfs", tmp_path))
    monkeypatch.setattr(level, "mount_point", lambda _: tmp_path)
    usage = level.usage(UP)
    assert usage.free_bytes is not None
    # 60 MiB are stored, and superblock logs, metadata and relocation hold some zones.
    assert 0.94 < usage.free_bytes / ZONED.capacity < 1 - 60 / (384 * 6)
    assert isinstance(usage.raw["statvfs.f_bavail_bytes"], int)


def test_counters_of_a_file_system_that_is_not_mounted(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="not mounted"):
        F2fs(captured("btrfs", tmp_path / "a")).gc(replace(UP, db=Path("/mnt/other/db")))
    other = replace(UP, devices=(replace(ZONED, path="/dev/nvme9n9"),))
    with pytest.raises(ToolFailed, match="no btrfs"):
        Btrfs(captured("btrfs", tmp_path / "b")).gc(other)


def test_database_bytes_are_file_lengths(tmp_path: Path) -> None:
    (tmp_path / "db/lost").mkdir(parents=True)
    (tmp_path / "db/1.sst").write_bytes(b"x" * 5000)
    (tmp_path / "db/lost/2.sst").write_bytes(b"x" * 70)
    assert Btrfs().database_bytes(replace(UP, db=tmp_path / "db")) == 5070


def test_cold_fill_writes_whole_blocks_and_syncs(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, int, int]] = []

    def write(file: Path, size: int, seed: int, progress: Any) -> int:
        asked.append((file, size, seed))
        progress(4096)
        return 8192

    monkeypatch.setattr(coldfill, "write", write)
    progress: list[tuple[int, int]] = []
    stored = Btrfs(Kernel(host.root)).fill_cold(UP, 12_300, 9, lambda a, b: progress.append((a, b)))
    assert stored == 8192  # the file system was full: the stored bytes
    assert asked == [(Path("/mnt/lv/cold/cold"), 12_288, 9)]
    assert progress == [(4096, 12_300)]
    assert host.calls[-1][0] == "sync"
