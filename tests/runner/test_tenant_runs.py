"""Runs of several tenants under the whole runner, with a fake kvmix that waits for its release."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.store.campaign import load_plan
from harness.store.result import Status
from harness.store.rundir import problems
from harness.store.spec import Extent, Limits, PhaseRole, TenantSpec
from harness.verify import recompute
from tests.runner import fakes
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

RUN = "two_mix-shared--r01"
MIB = fakes.MIB


def tenant(machine: Machine, name: str, nsid: int, **changes: Any) -> TenantSpec:
    values: dict[str, Any] = {
        "name": name,
        "level": "fake",
        "options": {},
        "stack": name,
        "device": machine.host.device(f"nvme0n{nsid}"),
        "zones": None,
        "conventional": None,
        "active": 14,
        "cold": None,
        "limits": Limits(),
        "weight": 1.0,
        "start_offset": 0.0,
        "duration": 1.0,
        "seed": 500 * nsid,
    }
    return TenantSpec(**(values | changes))


def plan(machine: Machine, *tenants: TenantSpec) -> None:
    """Give the machine one run of these tenants, with a fill and a mix each."""
    common = {"benchmark": "mix", "program": "kvmix", "expects_gc": False}
    flags = {"statistics": True, "insert": 1.0}

    def phase(one: TenantSpec, name: str, role: PhaseRole, operations: int) -> Any:
        own = f"{one.name}.{name}"
        return fakes.phase(own, role, operations=operations, flags=flags, **common)

    host = machine.plan.hosts[0]
    run = replace(
        host.runs[0],
        run=RUN,
        cell="two_mix-shared",
        level="two",
        factors={"mix": "shared"},
        cold=None,
        phases=(
            *(phase(one, "fill", PhaseRole.FILL, 5000) for one in tenants),
            *(phase(one, "mix", PhaseRole.MEASURED, 20_000) for one in tenants),
        ),
        tenants=tenants,
    )
    machine.change_plan(hosts=(replace(host, runs=(run,)),))


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    native = tmp_path / "native"
    native.mkdir()
    (native / "kvmix").symlink_to(Path(__file__).parent / "fake_kvmix.py")
    monkeypatch.setenv("ZONELAB_NATIVE", str(native))
    machine = Machine(tmp_path)
    block = machine.host.sysfs.block("nvme0n2")
    attributes = {
        name: (block / name).read_text()
        for name in (
            "queue/zoned",
            "queue/chunk_sectors",
            "queue/nr_zones",
            "queue/max_open_zones",
            "queue/max_active_zones",
            "size",
        )
    }
    fakes.namespace(tmp_path, 3, attributes)
    with (tmp_path / "proc" / "diskstats").open("a") as file:
        file.write(" 259 3 nvme0n3 1 0 8 0 9 0 0 0 0 0 0 0 0 0 0 0\n")
    plan(machine, tenant(machine, "victim", 2), tenant(machine, "aggressor", 3))
    return machine


def behave(machine: Machine, **modes: str) -> None:
    machine.behave(**{name.replace("_", "."): mode for name, mode in modes.items()})


def window(machine: Machine) -> Any:
    return json.loads((machine.runs / RUN / "raw" / "tenants.json").read_text())


def test_two_tenants(shared: Machine) -> None:
    done = shared.run()
    assert done.returncode == 0, done.stderr
    found = shared.result
    assert found.status is Status.OK, found.issues
    names = [phase.name for phase in found.phases]
    assert names == ["victim.fill", "victim.mix", "aggressor.fill", "aggressor.mix"]
    for name in ("victim", "aggressor"):
        assert found.metrics[f"{name}.mix.user_bytes"].value == 6_242_928
        assert found.metrics[f"{name}.mix.intended_latency_p50"].value is not None
        assert f"{name}.run.user_bytes" in found.metrics
        assert (shared.runs / RUN / "series" / f"{name}.mix.csv").exists()
        assert (shared.runs / RUN / "histograms" / f"{name}.mix.insert-intended.json").exists()
    assert problems(shared.runs / RUN) == []
    assert recompute.of_run(shared.runs / RUN) == []


def test_they_are_released_together(shared: Machine) -> None:
    shared.run()
    rows = [line.split() for line in (shared.root / "released").read_text().splitlines()]
    times = {name: float(at) for name, at in rows}
    assert set(times) == {"victim.mix", "aggressor.mix"}
    assert max(times.values()) - min(times.values()) < 0.5
    # Their keys are their own, whoever else is there.
    seeds = [line.split()[2:] for line in (shared.root / "started").read_text().splitlines()]
    assert sorted(seeds) == [["1007", "1007"], ["1107", "1007"], ["1507", "1507"], ["1607", "1507"]]


def test_the_window_is_recorded(shared: Machine) -> None:
    shared.run()
    common_time = window(shared)
    assert set(common_time) == {"schema_version", "began", "ended", "tenants"}
    assert 0 < common_time["began"] < common_time["ended"]
    assert common_time["tenants"][1] == {
        "name": "aggressor",
        "level": "fake",
        "phase": "mix",
        "weight": 1.0,
        "device": "nvme0n3",
        "zones": None,
        "start_offset": 0.0,
        "unit": "",
    }
    first = (shared.runs / RUN / "series" / "victim.mix.csv").read_text().splitlines()[1]
    # Series have three decimals; the report's first line is of some time after the release.
    assert float(first.partition(",")[0]) > common_time["began"] - 0.002


def test_one_that_begins_late(shared: Machine) -> None:
    late = tenant(shared, "aggressor", 3, start_offset=1.5, duration=0.5)
    plan(shared, tenant(shared, "victim", 2, duration=2.0), late)
    assert shared.run().returncode == 0
    times = dict(line.split() for line in (shared.root / "released").read_text().splitlines())
    assert float(times["aggressor.mix"]) - float(times["victim.mix"]) == pytest.approx(1.5, abs=0.4)


@pytest.mark.parametrize("how", ["crash", "exit"])
def test_one_that_dies_ends_the_others(shared: Machine, how: str) -> None:
    behave(shared, victim_mix="hang", aggressor_mix=how)
    done = shared.run()
    assert done.returncode == 4, done.stderr
    found = shared.result
    assert found.status is Status.INVALID
    errors = [issue for issue in found.issues if issue.severity.value == "error"]
    assert errors[0].code == "tenant-died"
    assert "tenant aggressor ended with" in errors[0].message
    # Whom we stopped is not blamed for it, and both levels are down.
    assert not any(issue.phase == "victim.mix" for issue in errors)
    assert (shared.root / "downs").read_text() == "down\ndown\n"
    assert not list((shared.root / "run").glob("*.go"))
    last = json.loads((shared.root / "state" / "journal.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "release"


def test_one_that_dies_before_it_is_ready(shared: Machine) -> None:
    script = shared.root / "native" / "kvmix"
    script.unlink()
    script.write_text(
        '#!/bin/sh\ncase "$*" in *wait_for=*aggressor*) exit 4;; esac\n'
        f'exec "{Path(__file__).parent / "fake_kvmix.py"}" "$@"\n'
    )
    script.chmod(0o755)
    assert shared.run().returncode == 4
    found = shared.result
    assert found.status is Status.INVALID
    (died,) = [issue for issue in found.issues if issue.code == "tenant-died"]
    assert "tenant aggressor ended with exit status 4 before it began" in died.message
    assert not (shared.root / "released").exists()
    run = shared.runs / RUN
    assert recompute.of_run(run) == []
    for change, expected in (
        (lambda issues: [one for one in issues if one["code"] != died.code], "lacks the issue ten"),
        (
            lambda issues: [{**one, "message": "x"} for one in issues],
            "does not give, tenant-died: x",
        ),
        (lambda issues: [*issues, {**issues[0], "code": "io-errors"}], "not give, io-errors"),
    ):
        stored = (run / "result.json").read_text()
        record = json.loads(stored)
        record["issues"] = change(record["issues"])
        (run / "result.json").write_text(json.dumps(record))
        assert any(expected in line for line in recompute.of_run(run)), expected
        (run / "result.json").write_text(stored)
    series = run / "series" / "system.csv"
    lines = series.read_text().count("\n")
    series.write_text(series.read_text() + "9.0\n")
    wanted = f"series/system.csv: has {lines + 1} lines, raw/observed.json has {lines}"
    assert wanted in recompute.of_run(run)


def test_a_fill_that_fails(shared: Machine) -> None:
    behave(shared, aggressor_fill="exit")
    assert shared.run().returncode == 4
    found = shared.result
    assert found.status is Status.FAILED
    assert found.reason is not None
    assert found.reason.code == "load-failed"


def test_a_budget_is_looked_at_again(shared: Machine) -> None:
    """The plan can be for another device: the limits of the present device count."""
    for name in ("active", "open"):
        limit = shared.host.sysfs.block("nvme0n3") / f"queue/max_{name}_zones"
        limit.write_text("8")
    assert shared.run().returncode == 0
    found = shared.result
    assert found.status is Status.SKIPPED
    assert found.reason is not None
    assert found.reason.code == "active-zones-over-budget"
    assert "aggressor (fake) 14 = 14" in found.reason.message
    assert not (shared.root / "started").exists()


def test_limits_need_a_unit(shared: Machine) -> None:
    """Limits are not enforced where systemd does not run the machine, as on the test machine."""
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs this machine")
    limited = tenant(shared, "aggressor", 3, limits=Limits(cpu=0.5))
    plan(shared, tenant(shared, "victim", 2), limited)
    assert shared.run().returncode == 4
    found = shared.result
    assert found.reason is not None
    assert found.reason.code == "tenant-limits"
    assert recompute.of_run(shared.runs / found.run) == []


def test_a_foreign_namespace_is_refused(shared: Machine) -> None:
    """The guard looks at every namespace of the run before anything is written."""
    (shared.root / "busy-nvme0n3").touch()
    done = shared.run()
    assert done.returncode == 3
    assert "nvme0n3" in done.stderr
    assert not (shared.root / "started").exists()


def test_a_killed_run_is_put_right(shared: Machine) -> None:
    behave(shared, victim_mix="hang", aggressor_mix="hang")
    child = shared.start()
    released = shared.root / "released"
    while not released.exists() or len(released.read_text().splitlines()) < 2:
        assert child.poll() is None
    child.kill()
    child.communicate(timeout=30)
    (shared.root / "behave.json").unlink()
    shutil.rmtree(shared.root / "run")  # of a real level these are mounts, which recovery undoes
    done = shared.run()
    assert done.returncode == 0, done.stderr
    assert shared.result.status is Status.OK


def test_extents_travel(shared: Machine) -> None:
    """A plan with slices is read back as it was written."""
    plan(shared, tenant(shared, "victim", 2, zones=Extent(0, 8), conventional=Extent(0, MIB)))
    assert load_plan(shared.root / "plan.json") == shared.plan
