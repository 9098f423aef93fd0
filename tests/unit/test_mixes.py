"""Mixes of tenants: refusals, division of a drive, owners of zones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, GuardRefused, HostError, ToolFailed
from harness.levels import LEVELS
from harness.machine import scopes
from harness.machine.host import Host
from harness.observe.sysfs import Sysfs
from harness.observe.tracing.tenant_tracer import activity
from harness.observe.tracing.tracer import merged
from harness.observe.tracing.zone_history import Transition
from harness.plan import load
from harness.plan.expand import expand
from harness.plan.mix_models import TenantMix
from harness.plan.reference import RIG
from harness.plan.study_models import Study
from harness.plan.tenant_places import places_of
from harness.plan.workload_models import Workload
from harness.store.codec import decode, encode
from harness.store.spec import (
    Bytes,
    Device,
    Extent,
    Inspection,
    Limits,
    PhaseRole,
    Plan,
    Reason,
    RunSpec,
    TenantSpec,
)

MIB = 2**20
CONVENTIONAL = replace(
    RIG.device,
    path="/dev/nvme0n1",
    identity=replace(RIG.device.identity, nsid=1),
    zoned=False,
    size=Bytes(1536 * MIB),
    zone_size=None,
    zone_capacity=None,
    zones=None,
    max_open_zones=None,
    max_active_zones=None,
)
WITHOUT_ZENFS = tuple(probe for probe in RIG.levels if probe.level != "zenfs")
HOST = replace(RIG, conventional=CONVENTIONAL, levels=WITHOUT_ZENFS)
MIXES = load.names("mixes")


def study(mix: Any) -> tuple[Study, Workload]:
    settings: dict[str, Any] = {"mix": mix, "baseline": "shared"}
    return load.load_study("tenants", settings=settings | {"metrics": ["run.utilisation"]})


def planned(mix: Any, inspection: Inspection = HOST) -> Plan:
    return expand(*study(mix), [("rig", inspection)], "c")


def runs(mix: Any, inspection: Inspection = HOST) -> dict[str, RunSpec]:
    """Return the runs of the first block by cell."""
    every = planned(mix, inspection).hosts[0].runs
    return {str(run.factors["mix"]): run for run in every if run.block == 1}


def a_mix(*tenants: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": "m", "description": "d", "duration": 30, "tenants": list(tenants), **changes}


def a_tenant(name: str, level: Any = "zlfs", **changes: Any) -> dict[str, Any]:
    return {"name": name, "level": level, **changes}


def zlfs(most: int) -> dict[str, Any]:
    return {"name": "zlfs", "options": {"max_active": most}}


def refusal(mix: Any, inspection: Inspection = HOST) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        planned(mix, inspection)
    return caught.value


# --- shipped mixes ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MIXES)
def test_shipped_mixes_fit_the_rig(name: str) -> None:
    cells = runs(name)
    shared = cells["shared"]
    assert set(cells) == {"shared", *(f"solo-{one.name}" for one in shared.tenants)}
    for cell in cells.values():
        for one in cell.tenants:
            own = [phase for phase in cell.phases if one.owns(phase)]
            assert [phase.role for phase in own] == [PhaseRole.FILL, PhaseRole.MEASURED]
            assert own[1].flags["duration"] == one.duration
            assert own[1].operations is None
    assert len(shared.phases) == 2 * len(shared.tenants)
    assert shared.predicted.seconds < 180


def test_the_mixes_that_were_promised() -> None:
    assert set(MIXES) >= {
        "aggressor-victim",
        "conventional-zlfs",
        "f2fs-f2fs",
        "f2fs-shared",
        "f2fs-zlfs",
        "four-tenants",
        "zlfs-zlfs",
    }


@pytest.mark.parametrize("name", MIXES)
def test_a_tenant_is_the_same_alone_and_among_others(name: str) -> None:
    cells = runs(name)
    shared = cells["shared"]
    for one in shared.tenants:
        alone = cells[f"solo-{one.name}"]
        (same,) = alone.tenants
        assert alone.scheduler == shared.scheduler
        assert (same.device, same.zones, same.conventional) == (
            one.device,
            one.zones,
            one.conventional,
        )
        assert (same.seed, same.options, same.level) == (one.seed, one.options, one.level)
        assert [p for p in shared.phases if one.owns(p)] == list(alone.phases)


def test_blocks_are_randomised_and_seeds_are_theirs() -> None:
    plan = planned("aggressor-victim")
    blocks = [[r.factors["mix"] for r in plan.hosts[0].runs if r.block == b] for b in (1, 2, 3)]
    assert all(set(block) == set(blocks[0]) for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1
    assert len({run.seed for run in plan.hosts[0].runs}) == 3
    assert (plan.contrast, plan.baseline) == ("mix", "shared")


def test_a_plan_travels() -> None:
    plan = planned("four-tenants")
    assert decode(Plan, encode(plan)) == plan


def test_zenfs_takes_the_place_of_zlfs_where_it_can_run() -> None:
    assert [one.level for one in runs("f2fs-zlfs")["shared"].tenants] == ["f2fs", "zlfs"]
    with_zenfs = replace(HOST, levels=RIG.levels)
    assert [t.level for t in runs("f2fs-zlfs", with_zenfs)["shared"].tenants] == ["f2fs", "zenfs"]


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "sum_"),
    [(zlfs(9), "f2fs", "a (zlfs) 9 + b (f2fs) 6 = 15"), ("zlfs", "f2fs", "14 + b (f2fs) 6 = 20")],
)
def test_over_budget(first: Any, second: Any, sum_: str) -> None:
    halves = (["0%", "50%"], ["50%", "100%"])
    mix = a_mix(a_tenant("a", first, slice=halves[0]), a_tenant("b", second, slice=halves[1]))
    error = refusal(mix)
    assert error.code == "active-zones-over-budget"
    assert "/dev/nvme0n2 allows 14 active zones" in error.message
    assert sum_ in error.message
    assert "zlfs: max_active" in error.hint
    # The same on a namespace each, or divided, is fine.
    assert runs(a_mix(a_tenant("a", first), a_tenant("b", second, namespace=2)))
    logs = {"name": "f2fs", "options": {"active_logs": 4}}
    assert runs(
        a_mix(a_tenant("a", zlfs(9), slice=halves[0]), a_tenant("b", logs, slice=halves[1]))
    )


def test_a_device_without_limits_has_no_budget() -> None:
    free = replace(HOST.device, max_open_zones=0, max_active_zones=0)
    halves = (["0%", "50%"], ["50%", "100%"])
    mix = a_mix(a_tenant("a", slice=halves[0]), a_tenant("b", slice=halves[1]))
    assert runs(mix, replace(HOST, device=free))["shared"].tenants[0].active is None


def test_an_unknown_level() -> None:
    error = refusal(a_mix(a_tenant("a", "zfls")))
    assert error.code == "unknown-level"
    assert "zlfs" in error.hint


def test_a_namespace_used_twice() -> None:
    error = refusal(a_mix(a_tenant("a"), a_tenant("b")))
    assert error.code == "namespace-twice"
    assert "a and b both use /dev/nvme0n2 (zones 0 to 383 and zones 0 to 383)" in error.message
    overlapping = a_mix(
        a_tenant("a", zlfs(7), slice=["0%", "60%"]), a_tenant("b", zlfs(7), slice=["50%", "100%"])
    )
    assert "zones 0 to 229 and zones 192 to 383" in refusal(overlapping).message


def test_a_slice_is_a_device_of_its_zones() -> None:
    """The rig's namespace has 384 zones of 8 MiB."""
    mix = a_mix(
        a_tenant("a", zlfs(7), slice=["0%", "75%"]), a_tenant("b", zlfs(7), slice=["75%", "100%"])
    )
    places = places_of(TenantMix.model_validate_json(json.dumps(mix)), HOST)
    zones = {name: (one.device.zones, one.zone_range) for name, one in places.items()}
    assert zones == {"a": (288, range(288)), "b": (96, range(288, 384))}
    assert places["b"].device.size == 96 * 8 * 2**20
    assert places["b"].namespace == HOST.device


def test_a_slice_has_enough_zones_for_its_level() -> None:
    error = refusal(a_mix(a_tenant("a", slice=["0%", "1%"]), a_tenant("b", slice=["1%", "100%"])))
    assert error.code == "too-few-zones"


def test_a_missing_namespace_is_refused_with_the_option_to_name_it() -> None:
    error = refusal(a_mix(a_tenant("a", namespace=3)))
    assert error.code == "too-few-namespaces"
    assert "-e device=" in error.hint
    refused = Reason("mounted", "/dev/nvme0n3 is mounted on /data")
    (other,) = HOST.others
    busy = replace(HOST, others=(replace(other, refusals=(refused,)),))
    with pytest.raises(GuardRefused, match="is mounted"):
        planned("f2fs-zlfs", busy)
    assert planned("aggressor-victim", busy)  # it needs one namespace
    third = replace(HOST, others=(other, replace(other, refusals=(refused,))))
    with pytest.raises(GuardRefused, match="is mounted"):
        planned(a_mix(a_tenant("a", namespace=3)), third)


def test_options_of_a_tenant_s_level_are_checked() -> None:
    level = {"name": "zlfs", "options": {"colour": 1}}
    assert "colour" in refusal(a_mix(a_tenant("a", level))).message


@pytest.mark.parametrize(
    ("mix", "code", "words"),
    [
        (a_mix(a_tenant("a"), {"name": "b", "shares": "a"}), "not-shareable", "zlfs of a"),
        (a_mix(a_tenant("a"), {"name": "b", "shares": "x"}), "bad-field", "shares the file system"),
        (a_mix(a_tenant("a"), a_tenant("a")), "bad-field", "names must differ"),
        (a_mix({"name": "a"}), "bad-field", "needs either a level or shares"),
        (a_mix(a_tenant("a", slice=["50%", "50%"])), "bad-field", "ends before it begins"),
        (a_mix(a_tenant("a", start=20, duration="20s")), "bad-field", "longer than the mix"),
        (a_mix(a_tenant("a", workload="overhead")), "tenant-workload", "one measured phase"),
        (a_mix(a_tenant("a", workload="smoke")), "tenant-workload", "limited by time"),
        (a_mix(a_tenant("a", levl="zlfs")), "unknown-field", "levl"),
        ("f2fs-zfls", "unknown-mix", "f2fs-zfls"),
    ],
)
def test_bad_mixes_are_refused(mix: Any, code: str, words: str) -> None:
    error = refusal(mix)
    assert error.code == code
    assert words in error.message


def test_a_study_has_levels_or_a_mix() -> None:
    for settings in ({"mix": None}, {"levels": ["f2fs"]}, {"contrast": "level"}):
        with pytest.raises(ConfigError):
            load.load_study("tenants", settings=settings)


# --- places -------------------------------------------------------------------------------------


def test_slices_are_whole_zones() -> None:
    first, second = runs("zlfs-zlfs")["shared"].tenants
    assert (first.zones, second.zones) == (Extent(0, 192), Extent(192, 192))
    assert first.cold is not None
    half = RIG.device.capacity / 2
    database = 0.04 * half
    assert first.cold.bytes == pytest.approx(0.8 * half - database, abs=2 * MIB)


def test_the_conventional_device_is_divided() -> None:
    first, second = runs("f2fs-f2fs")["shared"].tenants
    parts = (Extent(0, 768 * MIB), Extent(768 * MIB, 768 * MIB))
    assert (first.conventional, second.conventional) == parts
    assert runs("f2fs-zlfs")["shared"].tenants[0].conventional is None  # it is alone there
    error = refusal(a_mix(a_tenant("a", "conventional-ext4"), a_tenant("b", "f2fs")))
    assert error.code == "conventional-too-small"
    assert "a 1536.0 MiB + b 0 B" in error.message


def test_a_baseline_gets_its_capacity_and_the_others_share_the_rest() -> None:
    """Each part follows the one before; the smallest that f2fs tries is 16 MiB."""
    mix = a_mix(
        a_tenant("a", "f2fs", slice=["0%", "50%"]),
        a_tenant("b", "conventional-ext4"),
        a_tenant("c", "f2fs", slice=["50%", "100%"]),
    )
    capacity, least = Bytes(1536 * MIB), Bytes(16 * MIB)

    def on(size: int) -> Inspection:
        return replace(HOST, conventional=replace(CONVENTIONAL, size=Bytes(size)))

    parts = [one.conventional for one in runs(mix, on(capacity + 2 * least))["shared"].tenants]
    expected = [
        Extent(0, least),
        Extent(least, capacity),
        Extent(least + capacity, least),
    ]
    assert parts == expected
    for size in (capacity + 2 * least - 1, capacity, capacity - MIB):
        assert refusal(mix, on(size)).code == "conventional-too-small", size


def test_databases_in_one_file_system() -> None:
    cells = runs("f2fs-shared")
    victim, aggressor = cells["shared"].tenants
    assert (victim.stack, aggressor.stack) == ("victim", "victim")
    assert (victim.active, aggressor.active) == (6, 0)
    assert victim.cold is not None
    assert aggressor.cold is None
    # Alone it has the file system to itself, as full of cold data as together.
    (alone,) = cells["solo-aggressor"].tenants
    assert (alone.stack, alone.active, alone.cold) == ("aggressor", 6, victim.cold)


def test_run_devices_are_the_devices_of_all_tenants() -> None:
    shared = runs("f2fs-zlfs")["shared"]
    assert [one.path for one in shared.devices] == ["/dev/nvme0n2", "/dev/nvme0n3", "/dev/nvme0n1"]
    assert shared.levels == ("f2fs", "zlfs")


def device(**changes: Any) -> Device:
    return replace(RIG.device, **changes)


@pytest.mark.parametrize(
    ("level", "options", "wanted"),
    [
        ("zlfs", {}, 14),
        ("zlfs", {"max_active": 8}, 8),
        ("f2fs", {}, 6),
        ("f2fs", {"active_logs": 4}, 4),
        ("xfs", {"max_open_zones": 5}, 5),
        ("btrfs", {}, 14),
        ("conventional-ext4", {}, 0),
    ],
)
def test_levels_know_how_many_zones_they_open(
    level: str, options: dict[str, Any], wanted: int
) -> None:
    assert LEVELS[level].opens(RIG.device, options) == wanted


def test_without_a_limit_only_options_limit() -> None:
    free = device(max_active_zones=0, max_open_zones=0)
    assert LEVELS["zlfs"].opens(free, {}) is None
    assert LEVELS["zlfs"].opens(free, {"max_active": 8}) == 8
    assert LEVELS["f2fs"].opens(free, {}) == 6


# --- units --------------------------------------------------------------------------------------


def test_a_unit_of_its_own() -> None:
    limits = Limits(cpu=1.5, memory=Bytes(512 * MIB), write=Bytes(20 * MIB))
    argv = scopes.wrap(["kvmix", "run"], "zonelab-x-a.scope", limits, [RIG.device], systemd=True)
    assert argv[:5] == [
        "systemd-run",
        "--scope",
        "--quiet",
        "--collect",
        "--unit=zonelab-x-a.scope",
    ]
    assert "--property=CPUQuota=150%" in argv
    assert f"--property=MemoryMax={512 * MIB}" in argv
    assert "--property=MemorySwapMax=0" in argv
    assert f"--property=IOWriteBandwidthMax=/dev/nvme0n2 {20 * MIB}" in argv
    assert argv[-3:] == ["--", "kvmix", "run"]


def test_limits_without_systemd_are_refused() -> None:
    assert scopes.wrap(["x"], "u", Limits(), [], systemd=False) == ["x"]
    with pytest.raises(HostError, match="the limits of a tenant cannot be set"):
        scopes.wrap(["x"], "u", Limits(cpu=1.0), [], systemd=False)


# --- whose zones --------------------------------------------------------------------------------


def change(time: float, zone: int | None, action: str, **changes: Any) -> Transition:
    values = {"device": "n2", "life": (0, 0), "seconds": None, "error": 0, "by": "kworker"}
    return Transition(time=time, zone=zone, action=action, **{**values, **changes})


def test_active_zone_seconds_cover_a_tenants_zones() -> None:
    rows = [
        change(9.0, 3, "first-write"),  # before the span: `active` shows it
        change(11.0, 1, "first-write"),
        change(12.0, 1, "open"),  # is active already
        change(13.0, 1, "last-write"),
        change(13.0, 2, "open", error=15),  # was denied
        change(14.0, 3, "finish"),
        change(15.0, 3, "reset"),
        change(16.0, 4, "first-write"),
        change(16.5, 20, "first-write"),  # of another tenant
        change(17.0, 5, "first-write", device="n3"),
        change(25.0, 4, "finish"),  # behind the span
    ]
    found = activity(rows, "n2", range(10), {3, 12}, (10.0, 20.0), seen=10.0)
    assert found.active_seconds == pytest.approx(2.0 + 4.0 + 4.0)
    assert (found.finishes, found.resets) == (1, 1)
    other = activity(rows, "n2", range(10, 30), {3, 12}, (10.0, 20.0), seen=10.0)
    assert other.active_seconds == pytest.approx(10.0 + 3.5)


def test_a_reset_of_all_ends_all() -> None:
    rows = [change(11.0, 1, "first-write"), change(13.0, None, "reset-all")]
    found = activity(rows, "n2", range(4), {2}, (10.0, 20.0), seen=10.0)
    assert found.active_seconds == pytest.approx(2.0 + 3.0)
    assert found.resets == 1


def test_a_zone_that_a_program_opens_before_the_common_start_is_active() -> None:
    """Programs open their databases after the zones were read, and before they are released."""
    rows = [
        change(7.0, 1, "first-write"),  # before the zones were read: it is not active then
        change(8.5, 2, "first-write"),
        change(9.0, 3, "first-write"),
        change(9.5, 3, "reset"),
        change(9.6, 4, "finish"),
        change(15.0, 2, "finish"),
    ]
    found = activity(rows, "n2", range(10), {4, 5}, (10.0, 20.0), seen=8.0)
    assert found.active_seconds == pytest.approx(5.0 + 10.0)  # zones 2 and 5
    assert (found.finishes, found.resets) == (1, 0)


def test_timelines_are_merged_by_time() -> None:
    first, second = "t,device\n1.000000,a\n3.000000,a\n", "t,device\n2.000000,b\n10.000000,b\n"
    assert merged([first, second]).splitlines() == [
        "t,device",
        "1.000000,a",
        "2.000000,b",
        "3.000000,a",
        "10.000000,b",
    ]


def test_a_tenant_owns_its_phases_alone() -> None:
    shared = runs("four-tenants")["shared"]
    owners = [[t.name for t in shared.tenants if t.owns(phase)] for phase in shared.phases]
    assert all(len(names) == 1 for names in owners)
    assert isinstance(shared.tenants[0], TenantSpec)


def test_a_slice_has_no_witness(tmp_path: Path) -> None:
    """The rig's witness counts namespaces. A query for a slice must not disable it for all."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cmdline").write_text("quiet zonelab.witness=127.0.0.1:1\n")
    mapped = tmp_path / "sys" / "class" / "block" / "dm-0" / "dm"
    mapped.mkdir(parents=True)
    (mapped / "name").write_text("zonelab-victim-zones\n")
    host = Host(Sysfs(tmp_path / "sys", tmp_path / "dev"), tmp_path / "proc")
    assert host.witness(["dm-0"]) is None
    with pytest.raises(ToolFailed):
        host.witness(["nvme0n2"])
