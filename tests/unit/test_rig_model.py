"""Rig files: accepted values, and one line for each mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import ConfigError, UsageError
from harness.levels.dm_zoned import DmZoned
from harness.plan.drive_values import size
from harness.plan.reference import RIG
from harness.plan.yaml_files import read_yaml
from harness.rig import model
from harness.store.spec import Bytes

GOOD = """
description: a test rig
suite: trixie
smp: 2
m: 1G
nvme:
  - serial: s0
    nvme-ns:
      - {nsid: 1, eui64: 0x1, uuid: "00000000-0000-4000-8000-000000000001", size: 64M}
      - nsid: 2
        eui64: 0x2
        uuid: "00000000-0000-4000-8000-000000000002"
        zoned: true
        zones: 32
        zoned.zone_size: 8M
        zoned.zone_capacity: 6M
        zoned.max_open: 4
        zoned.max_active: 5
"""


def load(tmp_path: Path, text: str) -> model.Rig:
    (tmp_path / "test.yml").write_text(text)
    return model.load("test", tmp_path)


def test_a_zoned_namespace_is_as_long_as_its_zones_and_holds_their_capacity(tmp_path: Path) -> None:
    conventional, zoned = load(tmp_path, GOOD).namespaces
    assert (conventional.length, conventional.capacity) == (64 << 20, 64 << 20)
    assert (zoned.length, zoned.capacity) == (32 * 8 << 20, 32 * 6 << 20)
    assert zoned.eui == "0000000000000002"


# Machines that studies of levels run on: one drive with a conventional namespace and two zoned
# ones. Others have drives of other shapes (test_geometry.py, test_finish_plan.py).
STUDIED = [
    name
    for name in model.names()
    if [ns.zoned for ns in model.load(name).namespaces] == [False, True, True]
]


@pytest.mark.parametrize("name", STUDIED)
def test_shipped_rigs_are_what_the_levels_need(name: str) -> None:
    conventional, zoned, tenants = model.load(name).namespaces
    assert conventional.capacity == zoned.capacity == tenants.capacity
    for namespace in (zoned, tenants):
        assert namespace.zones is not None
        assert namespace.zones >= 384
        assert namespace.zone_capacity is not None
        assert namespace.zone_capacity % (2 << 20) == 0, "f2fs loses space otherwise"
        # dm-zoned and dm-zap refuse zones that hold less than their size, xfs those that hold half.
        whole = name in {"dm-zap", "dm-zoned", "xfs"}
        assert (namespace.capacity == namespace.length) is whole
        limits = 0 if name in {"dm-zap", "dm-zoned"} else 14  # which they ignore
        assert namespace.max_active == namespace.max_open == limits


def test_these_rigs_are_among_them() -> None:
    assert {"nvme", "debian12", "dm-zap", "dm-zoned", "xfs", "zenfs"} <= {*STUDIED}


def test_the_rig_of_dm_zoned_has_room_for_its_slice() -> None:
    conventional, zoned, _ = model.load("dm-zoned").namespaces
    assert zoned.zone_size is not None
    device = replace(
        RIG.device,
        zones=zoned.zones,
        zone_size=Bytes(zoned.zone_size),
        zone_capacity=Bytes(zoned.zone_size),
    )
    assert DmZoned().minimum_conventional(device) < conventional.capacity


def test_newer_packages_are_named(tmp_path: Path) -> None:
    rig = load(tmp_path, GOOD.replace("smp: 2", "newer: {forky: [xfsprogs]}\nsmp: 2"))
    assert rig.newer == {"forky": ("xfsprogs",)}
    with pytest.raises(ConfigError, match="newer"):
        load(tmp_path, GOOD.replace("smp: 2", "newer: [xfsprogs]\nsmp: 2"))


def test_the_timed_rig_has_two_drives_of_one_flash_and_size() -> None:
    zoned, conventional = (drive.load() for drive in model.load("timed").zoneblk)
    assert zoned.zones is not None
    assert conventional.ftl is not None
    assert zoned.flash == conventional.flash
    capacity = zoned.zones.count.value * size(zoned.zones.capacity.value)
    assert capacity == size(conventional.ftl.capacity.value)
    # Translation layers refuse other zones. Level f2fs needs whole segments.
    assert zoned.zones.capacity.value == zoned.zones.size.value
    assert size(zoned.zones.capacity.value) % (2 << 20) == 0
    # One superblock is as large as a zone.
    flash = conventional.flash
    superblock = conventional.ftl.block_units.value * flash.dies * size(flash.program_unit.value)
    assert superblock == size(zoned.zones.capacity.value)


def test_a_rig_with_hosts_is_several_machines_with_their_own_drives() -> None:
    timed = model.load("timed")
    machines = model.hosts_of(timed)
    assert [one.name for one in machines] == ["timed-1", "timed-2"]
    uuids = [drive.uuid for rig in (timed, *machines) for drive in rig.zoneblk]
    assert len(set(uuids)) == 6
    assert {len(uuid) for uuid in uuids} == {36}
    assert model.load("timed-2") == machines[1]
    assert model.hosts_of(machines[1]) == (machines[1],)
    assert model.hosts_of(model.load("nvme")) == (model.load("nvme"),)
    for name in ("timed-3", "timed-0", "nvme-1", "timed-x"):
        with pytest.raises(UsageError, match="unknown rig"):
            model.load(name)


def test_each_rig_with_modelled_drives_has_one_of_twice_its_dilation() -> None:
    """Otherwise a time of both would say nothing about the drive."""
    timed, slow = model.load("timed"), model.load("timed-slow")
    assert slow.dilation == 2 * timed.dilation
    other = {"name", "dilation", "overhead_left_pct", "zoneblk"}
    assert slow.model_dump(exclude=other) == timed.model_dump(exclude=other)
    assert [one.model for one in slow.zoneblk] == [one.model for one in timed.zoneblk]
    uuids = [drive.uuid for rig in (timed, slow) for drive in rig.zoneblk]
    assert len(set(uuids)) == 4
    assert {len(uuid) for uuid in uuids} == {36}
    assert model.load("timed-slow-2") == model.hosts_of(slow)[1]
    for name in ("nvme-slow", "timed-slow-3", "timed-slow-slow", "slow", "none-slow"):
        with pytest.raises(UsageError, match=f"unknown rig '{name}'"):
            model.load(name)


TIMED = """
description: a test rig
suite: trixie
smp: 1
m: 1G
icount: shift=0,sleep=off
dilation: 8
zoneblk:
  - {model: zones-4m, uuid: "00000000-0000-4000-8000-000000000001"}
  - {model: conventional-4m, uuid: "00000000-0000-4000-8000-000000000002"}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("smp: 1", "smp: 2", "icount needs smp: 1"),
        ("icount: shift=0,sleep=off\n", "", "zoneblk needs icount"),
        ("icount: shift=0,sleep=off", "icount: shift=1", "icount: "),
        ("dilation: 8", "dilation: 0", "dilation: "),
        ("dilation: 8", "dilation: 1001", "dilation: "),
        ("icount: shift=0,sleep=off", "icount: 2026-11-30", "date is not JSON"),
        ("dilation: 8", "hosts: 0", "hosts: "),
        ("dilation: 8", "overhead: 26", "overhead: "),
        ("dilation: 8", "wakeup: 5", "wakeup: "),
        ("dilation: 8", "overhead: 4.9us\nwakeup: 5us", "wakeup is above overhead"),
        ("000000000002", "000000000001", "two modelled drives have the same uuid"),
        ("zoneblk:", f"nvme: []\n{GOOD[GOOD.index('nvme:') :]}zoneblk:", "is repeated"),
        (TIMED[TIMED.index("zoneblk:") :], "", "either nvme or zoneblk"),
    ],
)
def test_a_mistake_in_a_timed_rig_is_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert load(tmp_path, TIMED).dilation == 8
    assert old in TIMED
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, TIMED.replace(old, new, 1))
    assert message in caught.value.message


def test_the_modelled_drives_of_finish_small_have_its_zones() -> None:
    emulated = model.load("finish-small").namespaces
    zones = [drive.load().zones for drive in model.load("timed-finish").zoneblk]
    assert [
        (one.count.value, size(one.size.value), size(one.capacity.value)) for one in zones if one
    ] == [(ns.zones, ns.zone_size, ns.zone_capacity) for ns in emulated]


def test_shipped_rigs_share_no_identity() -> None:
    modelled = [drive.uuid for name in model.names() for drive in model.load(name).zoneblk]
    assert len(set(modelled)) == len(modelled)
    drives = [drive for name in model.names() for drive in model.load(name).nvme]
    euis = [ns.eui for drive in drives for ns in drive.namespaces]
    assert len(set(euis)) == len(euis)
    assert len({drive.serial for drive in drives}) == len(drives)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("smp: 2", "smp: 2\ncpus: 2", "cpus: unknown field"),
        ("zones: 32", "zones: 32\n        zone_sizes: 1", "zone_sizes: unknown field"),
        ("m: 1G", "m: 1GB", "m: unknown unit 'GB' in '1GB'"),
        ("m: 1G", "m: 1.5", "m: 1.5 is not a size"),
        ("smp: 2", "smp: two", "smp: "),
        ("smp: 2", "smp: 2\nhosts: 2", "hosts needs icount"),
        ("suite: trixie", "suite: sid", "suite: "),
        ("suite: trixie", "", "suite: Field required"),
        ("eui64: 0x2", "eui64: 0x1", "two namespaces have the same eui64"),
        ("nsid: 2", "nsid: 1", "two namespaces share an nsid"),
        ("eui64: 0x2", "eui64: 0", "eui64: "),
        ("zone_size: 8M", "zone_size: 7M", "not a power of two"),
        ("zone_capacity: 6M", "zone_capacity: 9M", "exceeds zoned.zone_size"),
        ("max_open: 4", "max_open: 6", "zoned.max_open exceeds zoned.max_active"),
        ("max_active: 5", "max_active: 33", "zoned.max_active 33 exceeds zones 32"),
        (
            "zoned.max_open: 4\n        zoned.max_active: 5",
            "zoned.max_open: 33",
            "zoned.max_open 33 exceeds zones 32",
        ),
        ("zones: 32", "size: 64M", "drop size"),
        (", size: 64M", "", "a conventional namespace needs size"),
        ("zones: 32\n", "\n", "a zoned namespace needs zones"),
        ("000000000002", "2", "expected a lower-case UUID"),
        ("smp: 2", "smp: [", "is not YAML: "),
        ("smp: 2", "smp: 2\nsmp: 4", "line 5 is not YAML: 'smp' is repeated"),
        ("zones: 32", "zones: 32\n        nsid: 3", "line 15 is not YAML: 'nsid' is repeated"),
        (GOOD, "just text", "has no fields"),
        ("smp: 2", "smp: 2\nextends: nvmee", "it cannot extend nvmee"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_an_unknown_rig_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown rig '\.\./nvme'") as caught:
        model.load("../nvme")
    assert "nvme" in caught.value.hint


def test_a_rig_keeps_the_fields_of_the_rig_that_it_extends(tmp_path: Path) -> None:
    (tmp_path / "base.yml").write_text(GOOD)
    (tmp_path / "larger.yml").write_text("extends: base\nm: 2G\n")
    base, larger = model.load("base", tmp_path), model.load("larger", tmp_path)
    assert larger == base.model_copy(update={"name": "larger", "memory": 2 << 30})


def test_rigs_with_nvme_drives_repeat_nothing_of_the_default_rig() -> None:
    """One change of the common fields changes all of them."""
    common = read_yaml(model.RIGS / f"{model.DEFAULT}.yml")
    for name in model.names():
        fields = read_yaml(model.RIGS / f"{name}.yml")
        if name == model.DEFAULT or "nvme" not in fields:
            continue
        assert fields["extends"] == model.DEFAULT, name
        repeated = {field for field, value in fields.items() if common.get(field) == value}
        assert repeated == set(), name
