"""Records of a campaign that contradict each other: attempts, kinds, phases, times, manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.store import rundir
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.result import Issue, Result, Severity
from harness.store.spec import DeviceKind, HostPlan, RunSpec
from harness.verify import agreement
from tests.fixtures.example import unpacked

RUN = unpacked() / "hosts/rig/runs/f2fs--r01"
JUMP = Issue("clock-jump", Severity.WARNING, "the clock jumped")


@pytest.fixture(scope="module")
def spec() -> RunSpec:
    return rundir.load_spec(RUN)


@pytest.fixture(scope="module")
def result() -> Result:
    return rundir.load_result(RUN)


@pytest.fixture(scope="module")
def plan() -> HostPlan:
    return load_plan(CampaignPaths(unpacked()).plan).hosts[0]


def test_a_run_agrees_with_itself(spec: RunSpec, result: Result, plan: HostPlan) -> None:
    assert list(agreement.of_run(RUN, spec, result)) == []
    (planned,) = (run for run in plan.runs if run.run == spec.run)
    assert list(agreement.of_plan(spec, planned)) == []
    assert list(agreement._manifest(result, spec, plan.inspection)) == []


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["a--r01"], []),
        (["a--r01", "a--r01.a2", "a--r01.a3"], []),
        (["a--r01.a2"], ["a--r01"]),
        (["a--r01", "a--r01.a3"], ["a--r01.a2"]),
        (["a--r01.a2", "a--r01.a3"], ["a--r01"]),
        ([], []),
        (["b--r01.a2"], []),  # no run of the plan
    ],
)
def test_an_attempt_follows_the_one_before(
    tmp_path: Path, names: list[str], missing: list[str]
) -> None:
    paths = CampaignPaths(tmp_path)
    for name in (*names, "notes"):
        (paths.runs("h") / name).mkdir(parents=True)
    host: Any = SimpleNamespace(host="h", runs=[SimpleNamespace(run="a--r01")])
    found = list(agreement._attempts(paths, host))
    assert found == [f"{name}: is missing, a later attempt is there" for name in missing]


@pytest.mark.parametrize(
    ("path", "model", "kind", "wrong"),
    [
        ("/dev/nvme0n1", "QEMU NVMe Ctrl", DeviceKind.EMULATED, False),
        ("/dev/nvme0n1", "QEMU NVMe Ctrl", DeviceKind.HARDWARE, True),
        ("/dev/nvme0n1", "WZS4C8T1TDSP303", DeviceKind.HARDWARE, False),
        ("/dev/nvme0n1", "WZS4C8T1TDSP303", DeviceKind.EMULATED, True),
        ("/dev/nullb0", "null_blk", DeviceKind.HARDWARE, True),
        ("/dev/nvme0n1", "QEMU NVMe Ctrl", DeviceKind.REPLAYED, False),
        ("/dev/nvme0n1", "QEMU NVMe Ctrl", DeviceKind.IMPORTED, False),
    ],
)
def test_the_kind_of_a_device_follows_from_its_model(
    spec: RunSpec, path: str, model: str, kind: DeviceKind, *, wrong: bool
) -> None:
    device = replace(spec.device, path=path, model=model, kind=kind)
    assert len(list(agreement._kind("x", device))) == wrong


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"phases": "first"}, ""),  # the run ended
        ({"phases": "second"}, "phases: has overwrite, readrandom, which is not the order of"),
        ({"phases": "swapped"}, "which is not the order of run.json"),
        ({"seconds": "few"}, "result.json: seconds: has "),
        ({"seconds": "edge"}, "result.json: seconds: has "),
    ],
)
def test_phases_are_those_of_the_plan_and_fit_into_the_run(
    spec: RunSpec, result: Result, changes: dict[str, str], line: str
) -> None:
    phases, seconds = result.phases, result.seconds
    spent = sum(phase.seconds for phase in phases)
    changed = replace(
        result,
        phases={
            "first": phases[:1],
            "second": phases[1:],
            "swapped": (phases[1], phases[0], *phases[2:]),
        }.get(changes.get("phases", ""), phases),
        seconds={"few": spent - 2.1, "edge": spent - 1.9}.get(changes.get("seconds", ""), seconds),
    )
    found = list(agreement._phases(RUN, spec, changed))
    texts = [one for one in found if "its phases took" in one or "not the order" in one]
    assert len(texts) == (0 if changes.get("seconds") == "edge" else bool(line))
    assert line in "".join(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("benchmark", "x"), ("role", "x"), ("operations_requested", -1), ("argv", ())],
)
def test_a_phase_did_the_planned_work(
    spec: RunSpec, result: Result, name: str, value: object
) -> None:
    other = replace(result.phases[0], **{name: value})
    found = list(agreement._phases(RUN, spec, replace(result, phases=(other,))))
    where = f"result.json: phases: {other.name}: {name}: has"
    assert found
    assert all(line.startswith(where) for line in found)


@pytest.mark.parametrize(
    ("models", "used", "good"),
    [
        (("zoneblk d x8", "zoneblk d x8"), 128, True),
        (("zoneblk d x8", "zoneblk d x8"), 1024, False),
        (("zoneblk d x8", "QEMU"), 128, True),  # the level can be on either device
        (("zoneblk d x8", "QEMU"), 1024, True),
        (("QEMU", "QEMU"), 1024, True),
        (("QEMU", "QEMU"), 128, False),
    ],
)
def test_rates_are_those_of_the_drives_clock(
    spec: RunSpec, result: Result, models: tuple[str, str], used: int, *, good: bool
) -> None:
    first, phase = spec.phases[0], result.phases[0]
    first = replace(first, flags={**first.flags, "delayed_write_rate": 1024})
    drives = [
        replace(
            spec.device,
            model=model,
            kind=DeviceKind.MODELLED,
            identity=replace(spec.device.identity, eui64=f"{number + 1}"),
        )
        for number, model in enumerate(models)
    ]
    changed = replace(
        spec, phases=(first, *spec.phases[1:]), device=drives[0], conventional=drives[1]
    )
    argv = (*phase.argv, f"--delayed_write_rate={used}")
    done = replace(result, phases=(replace(phase, argv=argv), *result.phases[1:]))
    found = [one for one in agreement._phases(RUN, changed, done) if "delayed_write_rate" in one]
    assert bool(found) is not good


def test_a_phase_that_was_not_planned_is_named(spec: RunSpec, result: Result) -> None:
    other = replace(result.phases[0], name="made-up", seconds=0.0)
    found = list(agreement._phases(RUN, spec, replace(result, phases=(other,))))
    assert "result.json: phases: made-up: run.json has no such phase" in found


@pytest.mark.parametrize(
    ("seconds", "issues", "line"),
    [
        (100.0, (), ""),
        (103.0, (), ""),
        (97.0, (), ""),
        (103.1, (), "result.json: seconds: has 103.1, started and finished give 100"),
        (96.9, (), "result.json: seconds: has 96.9, started and finished give 100"),
        (200.0, (JUMP,), ""),
        (200.0, (replace(JUMP, code="x"),), "seconds: has 200.0"),
    ],
)
def test_two_clocks_agree(
    result: Result, seconds: float, issues: tuple[Issue, ...], line: str
) -> None:
    started, finished = "2026-11-24T10:00:00+00:00", "2026-11-24T10:01:40+00:00"
    changed = replace(result, started=started, finished=finished, seconds=seconds, issues=issues)
    found = list(agreement._times(changed))
    assert len(found) == bool(line)
    assert line in "".join(found)


@pytest.mark.parametrize("started", ["soon", "", "2026-11-24T10:00:00"])
def test_a_time_that_is_none_is_named(result: Result, started: str) -> None:
    (line,) = agreement._times(replace(result, started=started))
    assert line.endswith("or finished is not a time")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"exit_code": 0, "signal": null, "seconds": 1.5004}', 0),
        ('{"exit_code": 0, "signal": null, "seconds": 1.501}', 1),
        ('{"exit_code": 1, "signal": null, "seconds": 1.5}', 1),
        ('{"exit_code": 0, "signal": 9, "seconds": 1.5}', 1),
        ('{"exit_code": 0, "signal": null}', 0),
        ("[]", 1),
        ("{", 0),  # reading the barrier reports it
    ],
)
def test_a_process_is_the_one_of_the_result(tmp_path: Path, text: str, lines: int) -> None:
    file = tmp_path / "p.process.json"
    file.write_text(text)
    phase: Any = SimpleNamespace(exit_code=0, signal=None, seconds=1.5)
    assert len(list(agreement._process("x", phase, file))) == lines


def test_the_target_of_the_utilisation_is_planned(spec: RunSpec, result: Result) -> None:
    assert spec.cold is not None
    assert result.utilisation is not None
    for name in ("target", "tolerance"):
        used = replace(result.utilisation, **{name: 0.77})
        (line,) = agreement._utilisation(spec, replace(result, utilisation=used))
        assert f"utilisation.{name}: has 0.77, run.json has" in line
        assert not list(agreement._utilisation(replace(spec, cold=None), result))
    assert not list(agreement._utilisation(spec, replace(result, utilisation=None)))


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("kernel",), "manifest.host.kernel: has 'x', host.json has"),
        (("os",), "manifest.host.os: has 'x', host.json has"),
        (("devices", 0, "model"), "model: has 'x', run.json has"),
        (("devices", 0, "size"), "size: has 'x', run.json has"),
        (("devices", 0, "kind"), "kind: has 'x', run.json has"),
        *(
            (("devices", 0, name), f": {name}: has 'x', run.json has")
            for name in ("zoned", "zone_size", "zone_capacity", "zones")
        ),
        (("devices", 0, "key"), "manifest.host.devices: x: is not in run.json"),
    ],
)
def test_the_host_is_the_planned_one(
    spec: RunSpec, result: Result, plan: HostPlan, keys: tuple[Any, ...], line: str
) -> None:
    host = dict(result.manifest["host"])
    host["devices"] = [dict(device) for device in host["devices"]]
    place: Any = host
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = "x"
    changed = replace(result, manifest={**result.manifest, "host": host})
    found = list(agreement._manifest(changed, spec, plan.inspection))
    assert len(found) == 1
    assert line in found[0]
    for absent in (None, {}, []):
        changed = replace(result, manifest={"host": absent})
        assert list(agreement._manifest(changed, spec, plan.inspection)) == []


def test_a_conventional_device_is_the_planned_one_where_it_is_used(
    spec: RunSpec, plan: HostPlan
) -> None:
    (planned,) = (run for run in plan.runs if run.run == spec.run)
    assert spec.conventional is not None
    other = replace(spec.conventional, model="x", path="/dev/y", scheduler="z")
    (line,) = agreement.of_plan(replace(spec, conventional=other), planned)
    assert line.startswith("run.json: conventional: model: has 'x', plan.json has")
    assert list(agreement.of_plan(replace(spec, conventional=None), planned)) == []
    (line,) = agreement.of_plan(replace(spec, scheduler="z"), planned)
    assert line.startswith("run.json: scheduler: has 'z', plan.json has")
