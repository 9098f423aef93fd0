"""Tracing under the whole runner, with a synthetic bpftrace: fake_bpftrace.py."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.store import packed
from harness.verify import recompute
from tests.runner.conftest import Machine
from tests.runner.fakes import MIB, ZONE_CAPACITY, set_diskstats

pytestmark = pytest.mark.slow  # every test starts the runner


@pytest.fixture
def traced(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    (machine.root / "tracing" / "events").mkdir(parents=True)
    (machine.root / "bin").mkdir()
    (machine.root / "bin/bpftrace").symlink_to(Path(__file__).parent / "fake_bpftrace.py")
    monkeypatch.setenv("PATH", f"{machine.root / 'bin'}:{os.environ['PATH']}")
    set_diskstats(machine.root, 0, 16 * MIB)  # more than the fake reports of its first zone
    return machine


def run(machine: Machine, mode: str = "") -> dict[str, Any]:
    """Execute one run; return its result."""
    (machine.root / "trace-mode").write_text(mode)
    machine.run("--only", "fake--r01")
    found: dict[str, Any] = json.loads((machine.runs / "fake--r01" / "result.json").read_text())
    return found


def ledger(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "ledger.json").read_text())
    return found


def codes(result: dict[str, Any]) -> set[str]:
    return {issue["code"] for issue in result["issues"]}


def test_the_trace_is_stored(traced: Machine) -> None:
    result = run(traced)
    assert result["status"] == "ok", result["issues"]
    assert result["manifest"]["level"]["tracing"] == {"source": "bpftrace", "without_bpftrace": ""}
    assert "not-traced" not in codes(result)
    # Finish and reset came before the level was up: phases did neither.
    assert result["metrics"]["overwrite.zone_finishes"]["value"] == 0
    assert result["metrics"]["overwrite.pad_bytes"]["value"] == 0
    folder = traced.runs / "fake--r01"
    with (folder / "series/zone_commands.csv").open() as file:
        finish, reset = csv.DictReader(file)
    assert (finish["action"], finish["zone"], finish["by"]) == ("finish", "0", "rocksdb:low")
    assert finish["latency_us"] == "250.0"
    assert (int(finish["written"]), int(finish["unwritten"])) == (MIB, ZONE_CAPACITY - MIB)
    assert (reset["action"], reset["unwritten"]) == ("reset", "")
    with (folder / "raw/zones_traced.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["written"] == str(MIB)
    assert "nvme_setup_cmd" in packed.text(folder / "raw/trace.bt")
    (pad,) = [one for one in ledger(folder)["entries"] if one["name"] == "run"]
    assert pad["pad"] == {}
    assert pad["media_source"] == "modelled: H + P, P by the tracer"
    assert result["metrics"]["run.wa_pad"]["value"] == 1.0
    assert recompute.of_run(folder) == []


def test_the_trace_is_verified_against_its_raw_output(traced: Machine) -> None:
    run(traced)
    folder = traced.runs / "fake--r01"
    output = folder / "raw/trace.jsonl"
    text = output.read_text()
    output.write_text(text.replace(f'"1,0,0,0,1": {MIB}', f'"1,0,0,0,1": {2 * MIB}'))
    problems = recompute.of_run(folder)
    assert [line.partition(":")[0] for line in problems] == [
        "trace",  # pad; its zone was reset
        "raw/zones_traced.csv",
        "series/zone_commands.csv",
    ]
    output.unlink()
    assert recompute.of_run(folder) == ["raw/trace.jsonl: is missing"]


def test_one_tracer_serves_all_runs(traced: Machine) -> None:
    traced.run("--only", "fake--r01", "--only", "fake--r02")
    folders = sorted(path for path in traced.runs.iterdir() if path.name.startswith("fake"))
    assert len(folders) == 2
    starts = [packed.text(folder / "raw/trace.jsonl").count("ready") for folder in folders]
    assert starts == [0] * len(folders)  # printed before the first of them began
    for folder in folders:
        found = json.loads((folder / "result.json").read_text())
        assert found["manifest"]["level"]["tracing"]["source"] == "bpftrace"
        assert recompute.of_run(folder) == []
    assert not (traced.root / "run/tracer").exists()


@pytest.mark.parametrize(
    ("mode", "code"),
    [("lose", "trace-incomplete"), ("die", "trace-incomplete"), ("short", "closure-broken")],
)
def test_a_loss_makes_the_run_invalid(traced: Machine, mode: str, code: str) -> None:
    result = run(traced, mode)
    assert result["status"] == "invalid"
    assert code in codes(result)
    if code == "trace-incomplete":
        assert result["metrics"]["overwrite.zone_finishes"]["value"] is None
        assert not (traced.runs / "fake--r01/series/zone_commands.csv").exists()


def test_without_any_source_the_numbers_are_null(traced: Machine) -> None:
    """bpftrace refuses, and this tracefs has no events of NVMe."""
    result = run(traced, "refuse")
    assert result["status"] == "ok"
    assert result["metrics"]["overwrite.zone_finishes"]["value"] is None
    (issue,) = [issue for issue in result["issues"] if issue["code"] == "not-traced"]
    assert "ERROR: no such probe" in issue["message"]


def test_tracing_can_be_left_out(traced: Machine) -> None:
    traced.change_runs(tracing="off")
    result = run(traced)
    assert result["status"] == "ok"
    assert "not-traced" not in codes(result)
    assert not (traced.runs / "fake--r01/raw/trace.bt").exists()


def test_a_level_without_a_zoned_device_is_traced_too(traced: Machine) -> None:
    """Its numbers are recomputed without an initial zone report."""
    traced.use_conventional()
    traced.change_runs(level="baseline")
    result = run(traced, "conventional")
    assert result["metrics"]["overwrite.operations"]["value"] is not None, result["reason"]
    folder = traced.runs / "fake--r01"
    assert not (folder / "raw/traced.zones.csv").exists()
    assert recompute.of_run(folder) == []
