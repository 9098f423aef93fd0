"""dm-zoned and dm-zap: refusals, order of steps, status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import ConfigError, ToolFailed
from harness.levels import dm_zoned as zoned_level
from harness.levels.dm_zap import DmZap
from harness.levels.dm_zoned import DmZoned
from harness.levels.filesystem import TranslatedLevel
from harness.store.spec import Bytes, DeviceKind
from harness.tools import dm_zap, dmsetup
from harness.tools.kernel import Kernel
from tests.fixtures.level_host import CONVENTIONAL, FIXTURES, MIB, ZONED, Host, context

BUILD_ID = "a5884a19a3283be6aa31f9959f6ff337f930454e"  # in levels/dm-zap-build-id.note
# Zones that hold as much as they are large.
WHOLE = replace(
    ZONED,
    size=Bytes(384 * 4 * MIB),
    zone_size=Bytes(4 * MIB),
    zone_capacity=Bytes(4 * MIB),
    max_open_zones=0,
    max_active_zones=0,
)


@pytest.fixture
def levels(host: Host) -> dict[str, TranslatedLevel]:
    host.targets = "zap              v1.0.0\nzoned            v3.0.0\n"
    kernel = Kernel(host.root)
    return {"dm-zoned": DmZoned(kernel), "dm-zap": DmZap(kernel)}


@pytest.mark.parametrize("name", ["dm-zoned", "dm-zap"])
def test_capacity_must_equal_size(levels: dict[str, TranslatedLevel], name: str) -> None:
    assert levels[name].probe(WHOLE, CONVENTIONAL) is None
    reason = levels[name].probe(ZONED, CONVENTIONAL)
    assert reason is not None
    assert reason.code == "capacity-below-size"
    assert f"hold {6 * MIB} B of {8 * MIB} B" in reason.message


@pytest.mark.parametrize(
    ("name", "hint"), [("dm-zoned", "the module dm-zoned"), ("dm-zap", "-e dm_zap_module=")]
)
def test_the_target_is_looked_for(
    levels: dict[str, TranslatedLevel], host: Host, name: str, hint: str
) -> None:
    host.targets = "linear           v1.4.0\n"
    assert levels[name].probe(WHOLE, CONVENTIONAL) is None  # a module that modprobe finds
    host.fail["modprobe"] = "modprobe: FATAL: Module not found"
    reason = levels[name].probe(WHOLE, CONVENTIONAL)
    assert reason is not None
    assert reason.code == "kernel-target"
    assert hint in reason.hint
    host.fail["dmsetup"] = "/dev/mapper/control: open failed: Permission denied"
    reason = levels[name].probe(WHOLE, CONVENTIONAL)
    assert reason is not None
    assert reason.code == "kernel-target"


def test_dm_zoned_up_and_down(
    levels: dict[str, TranslatedLevel], host: Host, tmp_path: Path
) -> None:
    level = levels["dm-zoned"]
    up = level.up(replace(context(host, tmp_path, seq=8), device=WHOLE))
    steps = ["check_devices", "dmsetup create", "reset", "dmzadm", "dmzadm", "mkfs.ext4", "mount"]
    assert [step for step in host.programs() if step in steps] == steps
    formatted, started = (call for call in host.calls if call[0] == "dmzadm")
    assert formatted[:4] == ["dmzadm", "--format", formatted[2], "/dev/nvme0n3"]
    assert formatted[4:] == ["--force", "--label=zonelab-r01", "--seq=8"]
    assert started == ["dmzadm", "--start", formatted[2], "/dev/nvme0n3"]
    assert host.mounts[0][0] == str(dmsetup.node("zonelab-r01"))
    # Two zones of metadata, and eight for reclaim: the target is as large as the zoned device.
    assert host.slices["zonelab-nvme0n1"] == (2 + 8) * 4 * MIB
    assert up.db is not None
    up.db.rmdir()
    (up.db.parent / "cold").rmdir()
    level.down(up)
    removed = [call[2] for call in host.calls if call[:2] == ["dmsetup", "remove"]]
    assert removed == ["zonelab-r01", "zonelab-nvme0n1"]  # the target before the device below it
    assert host.slices == {}


@pytest.mark.parametrize("name", ["dm-zoned", "dm-zap"])
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_ext4_commits_on_the_clock_of_a_modelled_drive(
    levels: dict[str, TranslatedLevel],
    host: Host,
    tmp_path: Path,
    name: str,
    filesystem: str,
) -> None:
    drive = replace(WHOLE, kind=DeviceKind.MODELLED, model="zoneblk drive x8")
    options = {"filesystem": filesystem, "mount_options": "noatime"}
    levels[name].up(replace(context(host, tmp_path), device=drive, options=options))
    (mounted,) = [call for call in host.calls if call[0] == "mount"]
    given = {"ext4": "commit=40,noatime", "xfs": "noatime"}
    assert mounted[mounted.index("-o") + 1] == given[filesystem]


@pytest.mark.parametrize(
    ("zones", "zone", "metadata"),
    [(384, 4 * MIB, 2), (64, 64 * MIB, 2), (904, 2048 * MIB, 2), (40_000, 4 * MIB, 80)],
)
def test_the_slice_holds_metadata_and_the_reserve(zones: int, zone: int, metadata: int) -> None:
    device = replace(WHOLE, zones=zones, zone_size=Bytes(zone))
    assert DmZoned().minimum_conventional(device) == (metadata + 16) * zone


def test_dm_zoned_takes_a_slice_of_any_size(
    levels: dict[str, TranslatedLevel], host: Host, tmp_path: Path
) -> None:
    levels["dm-zoned"].up(replace(context(host, tmp_path, conventional_zones=40), device=WHOLE))
    assert host.slices["zonelab-nvme0n1"] == 40 * 4 * MIB


def test_dm_zoned_warns_of_limits() -> None:
    (limited,) = DmZoned().caveats(ZONED)
    assert (limited.code, limited.severity.value) == ("active-limit-ignored", "warning")
    assert "this device allows 14" in limited.message
    (free,) = DmZoned().caveats(WHOLE)
    assert free.severity.value == "info"


def test_dm_zoned_status_as_captured() -> None:
    lines = (FIXTURES / "dm-zoned-status.txt").read_text().splitlines()
    fresh, *used = [zoned_level.parse_status(dmsetup.parse_status(line)) for line in lines]
    assert fresh["random.free"] == 0
    assert (fresh["cache.free"], fresh["cache.all"], fresh["sequential.free"]) == (30, 30, 47)
    assert [counts["sequential.free"] for counts in used] == [34, 34]


@pytest.mark.parametrize("text", ["", "96 zones", "96 zones 1/2", "x zones 1/2 sequential"])
def test_another_status_is_an_error(text: str) -> None:
    with pytest.raises(ToolFailed, match="status"):
        zoned_level.parse_status(text)


def test_dm_zap_up_and_down(levels: dict[str, TranslatedLevel], host: Host, tmp_path: Path) -> None:
    size = host.root / "sys/class/block/zonelab-zap-nvme0n3/size"
    size.parent.mkdir(parents=True)
    size.write_text(f"{270 * 4 * MIB // 512}\n")  # 70 % of 384 zones
    note = host.root / "sys/module/dm_zap/notes/.note.gnu.build-id"
    note.parent.mkdir(parents=True)
    note.write_bytes((FIXTURES / "dm-zap-build-id.note").read_bytes())
    options = {"filesystem": "xfs", "overprovisioning_rate": 30, "victim_selection_method": 2}
    up = levels["dm-zap"].up(replace(context(host, tmp_path), device=WHOLE, options=options))
    tables = [call[6] for call in host.calls if call[:2] == ["dmsetup", "create"]]
    assert tables == [
        f"0 {WHOLE.size // 512} zap /dev/nvme0n3 0 30 125 25 2 10 30",
        f"0 {270 * 4 * MIB // 512} striped 1 8 /dev/mapper/zonelab-zap-nvme0n3 0",
    ]
    assert "mkfs.xfs" in host.programs()
    assert up.facts == {"module_build_id": BUILD_ID}
    assert host.mounts[0][0] == "/dev/mapper/zonelab-split-nvme0n3"
    assert up.db is not None
    up.db.rmdir()
    (up.db.parent / "cold").rmdir()
    levels["dm-zap"].down(up)
    removed = [call[2] for call in host.calls if call[:2] == ["dmsetup", "remove"]]
    assert removed == ["zonelab-split-nvme0n3", "zonelab-zap-nvme0n3"]


def test_dm_zap_without_a_build_id(
    levels: dict[str, TranslatedLevel], host: Host, tmp_path: Path
) -> None:
    """As on Linux 6.1: /sys/module/dm_zap has no srcversion, and a module may have no note."""
    (host.root / "sys/module/dm_zap/sections").mkdir(parents=True)
    assert levels["dm-zap"].up(replace(context(host, tmp_path), device=WHOLE)).facts == {}


def test_dm_zap_is_not_mapped_twice_in_one_boot(
    levels: dict[str, TranslatedLevel], host: Host
) -> None:
    """Without our patch the folder stays: the kernel would refuse it, and dm-zap goes wrong."""
    folder = host.root / "sys/kernel/zap"
    folder.mkdir(parents=True)
    reason = levels["dm-zap"].probe(WHOLE, CONVENTIONAL)
    assert reason is not None
    assert reason.code == "reboot-needed"
    assert "mapped before in this boot" in reason.message
    assert reason.hint.startswith("reboot this host")
    host.fail["dmsetup"] = "/dev/mapper/control: open failed: Permission denied"
    reason = levels["dm-zap"].probe(WHOLE, CONVENTIONAL)
    assert reason is not None
    assert reason.code == "reboot-needed"
    folder.rmdir()  # as with the patch, when the target is gone
    del host.fail["dmsetup"]
    assert levels["dm-zap"].probe(WHOLE, CONVENTIONAL) is None
    (host.root / "sys/kernel/zap").mkdir()
    assert levels["dm-zoned"].probe(WHOLE, CONVENTIONAL) is None


def test_dm_zap_that_somebody_else_uses_is_named(
    levels: dict[str, TranslatedLevel], host: Host
) -> None:
    (host.root / "sys/kernel/zap").mkdir(parents=True)
    host.targets_of["zap"] = (FIXTURES / "dmsetup-ls-target.txt").read_text()
    reason = levels["dm-zap"].probe(WHOLE, CONVENTIONAL)
    assert reason is not None
    assert (reason.code, reason.hint) == (
        "target-in-use",
        "if nothing needs it: dmsetup remove zonelab-zap-x",
    )


def test_dm_zap_need_not_split(
    levels: dict[str, TranslatedLevel], host: Host, tmp_path: Path
) -> None:
    levels["dm-zap"].up(replace(context(host, tmp_path, split_sectors=0), device=WHOLE))
    assert host.mounts[0][0] == "/dev/mapper/zonelab-zap-nvme0n3"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("nr_conv_zones", 1),
        ("overprovisioning_rate", 101),
        ("victim_selection_method", 8),
        ("reclaim_limit", -1),
        ("class_0_optimal", 126),
        ("q_cap", "many"),
        ("split_sectors", 5),
        ("filesystem", "zfs"),
    ],
)
def test_dm_zap_options_out_of_range(
    levels: dict[str, TranslatedLevel],
    host: Host,
    tmp_path: Path,
    option: str,
    value: str | int,
) -> None:
    with pytest.raises(ConfigError):
        levels["dm-zap"].up(replace(context(host, tmp_path, **{option: value}), device=WHOLE))
    if option != "filesystem":
        assert "dmsetup create" not in host.programs()
    assert host.slices == {}


def test_dm_zap_counts_come_from_the_trace(
    levels: dict[str, TranslatedLevel],
    host: Host,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dmsetup, "status", lambda _: "")
    up = levels["dm-zap"].up(replace(context(host, tmp_path), device=WHOLE))
    usage = levels["dm-zap"].gc(up)
    assert (usage.gc_bytes, usage.gc_events, dict(usage.raw)) == (None, None, {})
    assert usage.gc_source.endswith("nothing was traced")
    trace = host.root / "sys/kernel/tracing/trace"
    trace.parent.mkdir(parents=True)
    captured = (FIXTURES / "dm-zap-trace.txt").read_text()
    trace.write_text(captured + captured.replace("GC written sectors: 0", "GC written sectors: 9"))
    usage = levels["dm-zap"].gc(up)
    assert usage.gc_bytes == 9 * 512
    assert usage.raw["user_written_bytes"] == 133464 * 512


def test_dm_zap_traces_with_and_without_the_capacity() -> None:
    """Two sources, both on Linux 6.1.0-50: the last line counts, and its end differs."""
    running = (FIXTURES / "dm-zap-trace-running.txt").read_text()
    assert dm_zap.parse_trace(running) == dm_zap.Written(648488 * 512, 6544 * 512)
    short = "User written sectors: 1922864, GC written sectors: 0, vsm: 0\n"
    assert dm_zap.parse_trace(short) == dm_zap.Written(1922864 * 512, 0)


def test_dm_zap_begins_with_an_empty_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text((FIXTURES / "dm-zap-trace.txt").read_text())
    assert dm_zap.last_written(trace) is not None
    dm_zap.clear(trace)
    assert dm_zap.last_written(trace) is None
    assert dm_zap.last_written(tmp_path / "nothing") is None


def test_targets_and_status() -> None:
    text = (FIXTURES / "dmsetup-targets.txt").read_text()
    assert dmsetup.parse_targets(text)["zoned"] == "3.0.0"
    assert dmsetup.parse_status("0 5898240 zap \n") == ""  # as upstream's dm-zap answers
    with pytest.raises(ToolFailed, match="dmsetup targets"):
        dmsetup.parse_targets("Command failed\n")
    with pytest.raises(ToolFailed, match="dmsetup status"):
        dmsetup.parse_status("zap0: 0 5898240 zap")


def test_names_that_are_ours() -> None:
    labels = {"zl-0123abcd"}
    assert dmsetup.is_ours("any", "zonelab-nvme0n1", ())
    assert dmsetup.is_ours("zl-0123abcd", "dmz-a07c", labels)
    for name, uuid in (
        ("zonelab-nvme0n1", ""),
        ("zonelab-nvme0n1", "LVM-zonelab-"),
        ("zl-0123abcd", ""),
        ("zl-0123abcd", "CRYPT-LUKS2-1"),
        ("zl-0123abce", "dmz-a07c"),  # of a run that is not in the journal
    ):
        assert not dmsetup.is_ours(name, uuid, labels)


def test_a_mapping_of_that_name_by_somebody_else_stays(
    levels: dict[str, TranslatedLevel], host: Host, tmp_path: Path
) -> None:
    """dmsetup refuses to make it twice, and taking the level down must not remove it."""
    level = levels["dm-zoned"]
    up = level.up(replace(context(host, tmp_path), device=WHOLE))
    for name in up.mapped:
        host.uuids[name] = "LVM-theirs"
    host.show_mapped()
    assert up.db is not None
    up.db.rmdir()
    (up.db.parent / "cold").rmdir()
    level.down(up)
    assert sorted(host.slices) == sorted(up.mapped)
