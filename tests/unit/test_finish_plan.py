"""Studies that vary zone size and finish threshold: the device is a property of a cell."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.errors import ConfigError, GuardRefused
from harness.machine.guard import Guard
from harness.machine.journal import Journal
from harness.machine.paths import Paths
from harness.plan import host_changes, load
from harness.plan.devices import zone_sizes
from harness.plan.expand import expand
from harness.plan.reference import RIG, with_zones_of
from harness.plan.study_models import Study
from harness.rig import model
from harness.rig import prerequisites as rig_host
from harness.run.inspection import inspect
from harness.store.codec import decode, encode
from harness.store.files import dumps
from harness.store.spec import Bytes, Inspection, Reason, RunSpec
from tests.runner import fakes

MIB = 2**20
SMALL = "finish-thresholds-small"


def host() -> Inspection:
    """Three drives of one capacity, as on the rig finish-small."""
    return with_zones_of([8 * MIB, 4 * MIB, 2 * MIB])


def runs_of(inspection: Inspection, **changes: Any) -> tuple[RunSpec, ...]:
    study, workload = load.load_study(SMALL, settings=changes)
    return expand(study, workload, [("rig", inspection)], "c").hosts[0].runs


def test_each_cell_has_the_device_of_its_zone_size() -> None:
    runs = runs_of(host())
    assert len(runs) == 2 * (5 * 3 * 2 + 1), "and the twin"
    for run in runs:
        assert f"{(run.device.zone_size or 0) // MIB}MiB" == run.factors["zone_size"]
        assert run.level_options == {"finish_occupancy_pct": run.factors["finish_occupancy_pct"]}
    assert len({run.device.identity.key for run in runs}) == 3
    assert len({run.cell for run in runs}) == 31


def test_all_zone_sizes_get_the_same_bytes_in_files_of_the_same_size() -> None:
    runs = runs_of(host())
    assert {run.device.capacity for run in runs} == {256 * MIB}
    sizes = {phase.flags["target_file_size_base"] for run in runs for phase in run.phases}
    assert len(sizes) == 1
    assert sizes.pop() <= 2 * MIB  # a file fits a zone of every size
    assert len({tuple(phase.operations for phase in run.phases) for run in runs}) == 1
    seeds = {(run.repetition, run.seed) for run in runs}
    assert len(seeds) == 2


def test_a_zone_size_that_no_device_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="no device with zones of 2MiB") as caught:
        runs_of(RIG, factors={"zone_size": ["2MiB", "8MiB"]}, contrast="level", baseline="zlfs")
    assert caught.value.code == "no-such-device"
    assert "-e device=" in caught.value.hint


def test_devices_of_unequal_capacity_are_not_compared() -> None:
    found = host()
    first = replace(found.device, zones=40, size=Bytes(40 * 8 * MIB))
    with pytest.raises(ConfigError, match="equal capacity") as caught:
        runs_of(replace(found, device=first))
    assert caught.value.code == "unequal-capacity"


def test_a_further_device_that_the_guard_refuses_stops_the_plan() -> None:
    found = host()
    refused = replace(found.others[1], refusals=(Reason("mounted", "/dev/x is mounted", ""),))
    with pytest.raises(GuardRefused, match="mounted"):
        runs_of(replace(found, others=(found.others[0], refused)))
    only = {"zone_size": ["8MiB", "4MiB"], "finish_occupancy_pct": [100]}
    assert runs_of(replace(found, others=(found.others[0], refused)), factors=only)


@pytest.mark.parametrize("value", [-1, 101, 50.5, "50", True])
def test_a_threshold_is_a_whole_percentage(value: object) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        runs_of(host(), factors={"finish_occupancy_pct": [value]}, baseline=str(value))


def test_a_level_without_a_threshold_is_refused() -> None:
    with pytest.raises(ConfigError, match="f2fs has no option"):
        runs_of(host(), levels=["f2fs"], rigs={})


def test_a_setting_that_cannot_hold_the_data_is_a_result() -> None:
    runs = runs_of(host(), target_utilisation="60%")
    assert all(run.infeasible for run in runs)
    reason = runs[0].infeasible
    assert reason is not None
    assert reason.code == "infeasible"
    assert "peak" in reason.message  # the arithmetic
    assert {run.predicted.bytes_written for run in runs} == {0}
    with pytest.raises(ConfigError, match="peak"):  # where nothing trades room it is a mistake
        runs_of(
            host(),
            target_utilisation="60%",
            factors={"scheduler": ["none"]},
            contrast="level",
            baseline="zlfs",
            levels=["zlfs"],
            rigs={},
        )


def test_the_plan_shows_what_is_infeasible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rig.json"
    file.write_text(dumps(host()))
    words = ["plan", SMALL, f"--inspection=rig={file}", "--check", f"--results={tmp_path}"]
    assert main([*words, "--levels=zlfs", "--set=target_utilisation=7.2%"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "--r01" in line]
    assert {"8mib" in row for row in rows if "infeasible" in row} == {True}
    assert {"8mib" in row for row in rows if "infeasible" not in row} == {False}


def test_only_zones_too_large_for_the_level_are_infeasible() -> None:
    """zlfs reserves a number of zones: larger zones make a larger reserve."""
    by_size: dict[object, set[bool]] = {}
    for run in runs_of(host(), target_utilisation="7.2%", levels=["zlfs"], rigs={}):
        by_size.setdefault(run.factors["zone_size"], set()).add(run.infeasible is not None)
    assert by_size == {"8MiB": {True}, "4MiB": {False}, "2MiB": {False}}


def test_further_devices_are_facts_of_the_host() -> None:
    found = host()
    assert host_changes.changed({"h": found}, {"h": found}) == []
    swapped = replace(found, others=found.others[::-1])
    assert host_changes.changed({"h": found}, {"h": swapped})
    assert host_changes.changed({"h": found}, {"h": replace(found, others=())})
    assert decode(Inspection, json.loads(json.dumps(encode(found)))) == found


@pytest.mark.parametrize("name", ["finish-thresholds", SMALL])
def test_the_rigs_have_what_their_studies_vary(name: str) -> None:
    study, _ = load.load_study(name)
    (rig,) = study.rigs
    zoned = [one for one in model.load(rig).namespaces if one.zoned]
    listed = with_zones_of(zone_sizes(study)).devices  # what `plan --list` predicts for
    assert [(one.zone_size, one.zones, one.zone_capacity) for one in zoned] == [
        (one.zone_size, one.zones, one.zone_capacity) for one in listed
    ]
    assert len({one.capacity for one in zoned}) == 1


def test_the_small_study_is_the_large_one_in_the_same_ratio() -> None:
    large, small = (load.load_study(name)[0] for name in ("finish-thresholds", SMALL))
    assert large.without_kvm == small.name
    assert large.repetitions == 5
    ratios = {a / b for a, b in zip(zone_sizes(large), zone_sizes(small), strict=True)}
    assert ratios == {16.0}
    for field in ("question", "workload", "levels", "cold", "target_utilisation", "metrics"):
        assert getattr(large, field) == getattr(small, field)
    assert large.factors["finish_occupancy_pct"] == tuple(range(0, 101, 10))


@pytest.mark.parametrize(
    ("accelerator", "study", "wanted"),
    [
        ("tcg", "finish-thresholds", SMALL),
        ("kvm", "finish-thresholds", "finish-thresholds"),
        ("tcg", "smoke", "smoke"),
    ],
)
def test_make_study_takes_the_smaller_one_without_kvm(
    accelerator: str,
    study: str,
    wanted: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(rig_host, "accelerator", lambda _: accelerator)
    assert main(["plan", study, "--for-rig"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{wanted}\n"
    assert ("no usable KVM" in err) == (wanted != study)


def test_without_kvm_names_a_study() -> None:
    for name in load.names("studies"):
        study, _ = load.load_study(name)
        if study.without_kvm is not None:
            other: Study = load.load_study(study.without_kvm)[0]
            assert other.without_kvm is None
        if study.on_rigs is not None:
            load.load_study(study.on_rigs)


def test_an_inspection_looks_at_each_device_named(tmp_path: Path) -> None:
    fakes.make_machine(tmp_path)
    fakes.namespace(
        tmp_path,
        3,
        {
            "queue/zoned": "host-managed",
            "queue/chunk_sectors": str(4 * MIB // 512),
            "queue/nr_zones": "32",
            "size": str(32 * 4 * MIB // 512),
        },
    )
    machine = fakes.FakeHost(tmp_path)
    guard = Guard(machine, Journal(Paths(tmp_path / "state", tmp_path / "run").journal))

    def look(*others: str) -> Inspection:
        return inspect(
            machine, guard, {}, path="nvme0n2", others=others, conventional=None, host_name="h"
        )

    (other,) = look("nvme0n3").others
    assert (other.device.path.endswith("nvme0n3"), other.device.zone_size) == (True, 4 * MIB)
    assert other.refusals == ()
    assert look().others == ()
    with pytest.raises(GuardRefused, match="named twice"):
        look("nvme0n3", "nvme0n3")
    with pytest.raises(GuardRefused, match="named twice"):
        look("nvme0n2")
    with pytest.raises(GuardRefused, match="not a zoned"):
        look("nvme0n1")
