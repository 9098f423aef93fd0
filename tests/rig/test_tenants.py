"""Two tenants on slices of one namespace: real device mapper, real units, real zone limits."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.store import packed
from harness.store.result import Result, Status
from harness.store.rundir import load_result
from harness.verify import recompute

from .conftest import WHOLE, RigHandle
from .guest_runner import GuestRunner

SECONDS = 8
# What the operation under way at the end may take, on an emulated CPU that shares its core.
LAST_OPERATION = 10
RUN, KILLED = "small_mix-shared--r01", "small_mix-shared--r02"


def tenant(name: str, first: str, end: str, **more: Any) -> dict[str, Any]:
    level = {"name": "zlfs", "options": {"max_active": 7}}
    return {"name": name, "slice": [first, end], "level": level, **more}


MIX = {
    "name": "small",
    "description": "a reader and a writer",
    "duration": SECONDS,
    "tenants": [
        tenant("victim", "0%", "25%", workload="tenant-queries", rate=50),
        tenant("aggressor", "25%", "50%", workload="tenant-updates", limits={"cpu": "80%"}),
    ],
}


@pytest.fixture(scope="module")
def runner(rig: RigHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestRunner]:
    folder = tmp_path_factory.mktemp("tenants")
    settings = {"mix": json.dumps(MIX), "target_utilisation": "15%", "baseline": "shared"}
    settings["twin"] = "false"
    arguments = [f"--set={name}={value}" for name, value in settings.items()]
    found = GuestRunner(
        rig, folder, f"tenants-{folder.name}", [*arguments, "--repetitions", "2"], "tenants"
    )
    yield found
    found.remove()


@pytest.fixture(scope="module")
def shared(runner: GuestRunner) -> Result:
    runner.start(f"--only {RUN}")
    runner.wait_end()
    return runner.collect()[RUN]


def folder(runner: GuestRunner, run: str = RUN) -> Path:
    return runner.results / "hosts" / "rig" / "runs" / run


def test_both_are_measured_at_once(runner: GuestRunner, shared: Result) -> None:
    assert shared.status is Status.OK, (shared.reason, shared.issues)
    window = json.loads((folder(runner) / "raw" / "tenants.json").read_text())
    lasted = window["ended"] - window["began"]
    assert SECONDS - 0.1 <= lasted <= SECONDS + LAST_OPERATION
    for one in window["tenants"]:
        name = one["name"]
        assert (shared.metrics[f"{name}.mix.operations"].value or 0) > 0
        assert (shared.metrics[f"{name}.mix.cpu_seconds"].value or 0) > 0
        assert one["unit"].endswith(f"-{name}.scope")
        header, *rows = packed.text(folder(runner) / f"series/{name}.mix.csv").splitlines()
        assert header.endswith(",latency_mean_us,latency_max_us")
        # The window ends with the first tenant; another may end its operation later.
        record = shared.manifest["level"][name]
        assert SECONDS / 2 < len(rows) <= record["ended"] - record["released"] + 2
    assert (shared.metrics["victim.mix.intended_latency_p50"].value or 0) > 0
    assert recompute.of_run(folder(runner)) == []


def test_zones_have_their_tenants_label(runner: GuestRunner, shared: Result) -> None:
    window = json.loads((folder(runner) / "raw" / "tenants.json").read_text())
    own = {one["name"]: range(one["zones"][0], sum(one["zones"])) for one in window["tenants"]}
    assert own == {"victim": range(96), "aggressor": range(96, 192)}
    text = packed.text(folder(runner) / "series/zone_commands.csv")
    rows = list(csv.DictReader(text.splitlines()))
    touched = {int(row["zone"]) for row in rows if row["zone"]}
    assert touched <= set(range(192))  # the other half is nobody's
    assert touched & set(own["aggressor"])
    for name in own:
        # Seven zones at most, for as long as they measured.
        active = shared.metrics[f"{name}.mix.active_zone_seconds"].value
        assert active is not None
        assert 0 < active <= 7 * (window["ended"] - window["began"]) + 0.01


@pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
def test_one_that_is_killed(runner: GuestRunner, shared: Result) -> None:
    """Its unit is killed from outside: the others are stopped, and nothing is left behind."""
    assert shared.status is Status.OK
    runner.start(f"--only {KILLED}")
    scope = "systemctl list-units --no-legend 'zonelab-*-aggressor.scope'"
    runner.wait_for(f"{scope} | grep -q . && test -e /run/zonelab/{KILLED}.aggressor.go")
    runner.rig.ssh("systemctl kill --signal=KILL 'zonelab-*-aggressor.scope'")
    runner.wait_end()
    runner.assert_put_back()
    runner.collect()
    found = load_result(folder(runner, KILLED))
    assert found.status is Status.INVALID
    (died,) = [issue for issue in found.issues if issue.code == "tenant-died"]
    assert "tenant aggressor ended with signal 9" in died.message
