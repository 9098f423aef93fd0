"""A level, a program and a rule take one file each: toys are found, planned, run and reported."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import harness.plan
from analysis.judge.compare import compare
from analysis.read import load as campaigns
from harness import levels, workloads
from harness.errors import ConfigError
from harness.machine import manifest
from harness.plan import load, requirements
from harness.plan.derive import derive
from harness.plan.expand import expand
from harness.plan.level_entry import LevelEntry as Entry
from harness.plan.reference import RIG
from harness.rig import recipe
from harness.run import inspection
from harness.store.codec import decode
from harness.store.result import Status
from harness.store.rundir import load_result
from harness.store.spec import Inspection, PhaseSpec
from harness.tools import proc
from tests.runner.conftest import Machine

TOY = Path(__file__).with_name("toy.py")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Zonelab with one more file among its levels."""
    folder = tmp_path / "levels"
    folder.mkdir()
    shutil.copy(TOY, folder / "toy.py")
    monkeypatch.setattr(levels, "__path__", [*levels.__path__, str(folder)])
    monkeypatch.setattr(levels, "LEVELS", levels.discover())
    yield folder
    sys.modules.pop("harness.levels.toy", None)


@pytest.fixture
def inspected(room: Path) -> Inspection:
    probes = tuple(
        inspection.probe(level, RIG.device, None, None) for level in levels.LEVELS.values()
    )
    return replace(RIG, levels=probes)


def test_it_is_found_and_probed(inspected: Inspection) -> None:
    found = {probe.level: probe.available for probe in inspected.levels}
    assert found["toy"]
    assert list(levels.LEVELS).index("btrfs") < list(levels.LEVELS).index("toy")


def test_its_packages_are_installed(room: Path) -> None:
    assert "toy-tools" in levels.packages()
    assert "toy-tools" in recipe.recipe("trixie").packages


def test_versions_of_its_packages_are_recorded(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(argv: list[str], **_: object) -> proc.Completed:
        asked.extend(argv)
        listing = "toy-tools 1.2-3 installed\nxfsprogs 6.1 config-files\n"
        return proc.Completed(tuple(argv), 0, None, 0.0, listing, "")

    monkeypatch.setattr(proc, "which", lambda name: Path("/usr/bin", name))
    monkeypatch.setattr(proc, "run", run)
    assert manifest.packages(workloads.packages()) == {"toy-tools": "1.2-3"}
    assert {"toy-tools", "xfsprogs", "rocksdb-tools"} <= set(asked)


def test_the_planners_reference_has_it(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Imported anew; afterwards the one that others have imported is there again.
    monkeypatch.setattr(harness.plan, "reference", None)
    monkeypatch.delitem(sys.modules, "harness.plan.reference")
    assert "toy" in importlib.import_module("harness.plan.reference").LEVELS


def test_it_is_planned(inspected: Inspection) -> None:
    study, workload = load.load_study("integration-levels")
    entry = Entry(name="toy", options={"colour": "red"})
    study = study.model_copy(update={"levels": (entry, "f2fs"), "baseline": "f2fs", "claims": ()})
    plan = expand(study, workload, [("rig", inspected)], "c")
    runs = [run for run in plan.hosts[0].runs if run.level == "toy"]
    assert len(runs) == study.repetitions
    assert runs[0].level_options == {"colour": "red"}
    assert runs[0].predicted.seconds > 0
    wrong = study.model_copy(update={"levels": (Entry(name="toy", options={"size": 1}), "f2fs")})
    with pytest.raises(ConfigError, match="level toy has no option 'size'"):
        expand(wrong, workload, [("rig", inspected)], "c")


def test_the_level_is_asked_for_its_needs(inspected: Inspection) -> None:
    small = replace(inspected.device, zones=3)
    with pytest.raises(ConfigError, match="toy needs at least 4 zones"):
        requirements.check_level("toy", small)
    with pytest.raises(ConfigError, match="as the test has it"):
        requirements.check_level("toy", replace(small, zones=4, max_active_zones=1))
    _, workload = load.load_study("integration-levels")
    derived = derive(workload, inspected.device, 0.8, cold=True)
    requirements.check_room("toy", inspected.device, derived)
    with pytest.raises(ConfigError, match="toy can fill"):
        requirements.check_room("toy", replace(inspected.device, zones=200), derived)


@pytest.mark.slow
def test_it_runs_and_is_reported(room: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.change_runs(cell="toy", level="toy", level_options={"colour": "red"})
    host = machine.plan.hosts[0]
    runs = tuple(replace(run, run=f"toy--r{run.repetition:02d}") for run in host.runs)
    machine.change_plan(
        hosts=(replace(host, runs=runs),),
        baseline="toy",
        metrics=("overwrite.write_amplification",),
    )
    assert room.is_dir()  # the runner's process finds it there as well
    done = machine.run()
    assert done.returncode == 0, done.stderr
    result = load_result(machine.runs / "toy--r01")
    assert result.status is Status.OK
    assert result.manifest["level"]["gc_source"] == "none: it is a toy"
    assert result.manifest["level"]["direct_io"]["effective"] == {"reads": None, "writes": None}

    folder = machine.campaign_folder()
    shutil.copytree(machine.runs, folder / "hosts" / "h" / "runs")
    comparison = compare(campaigns.load(folder))
    (cell,) = comparison.cells
    assert (cell.level, cell.counts) == ("toy", {"ok": 2})
    assert comparison.skipped == {}


# In a process of its own: models of phases are made when the planner is imported.
PLAN = """
import json, sys
from harness import workloads
workloads.__path__.append(sys.argv[1])
workloads.PROGRAMS.update(workloads.discover())
from harness.plan import load
from harness.plan.expand import expand
from harness.plan.reference import RIG
from harness.plan.schemas import schema_text
from harness.plan.workload_models import Workload
from harness.store.codec import encode
study, usual = load.load_study("integration-levels")
fields = usual.model_dump(mode="json", exclude_defaults=True) | json.loads(sys.argv[2])
plan = expand(study, load.build(Workload, fields, "toys"), [("rig", RIG)], "c")
print(json.dumps({
    "phases": [encode(phase) for phase in plan.hosts[0].runs[0].phases],
    "schema": json.loads(schema_text(Workload))["$defs"]["ToyWork"]["properties"]["batch"],
}))
"""


def planned(folder: Path, work: dict[str, object]) -> subprocess.CompletedProcess[str]:
    phases = [
        {
            "name": "fill",
            "role": "fill",
            "operations": {"count": 20_000},
            "toy": {"does": "fillrandom"},
        },
        {"name": "toys", "role": "measured", "operations": {"count": 20_000}, "toy": work},
    ]
    return subprocess.run(
        [sys.executable, "-c", PLAN, str(folder), json.dumps({"phases": phases})],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_program_and_a_rule_take_a_file_each(tmp_path: Path) -> None:
    for kind, name in (("workloads", "toy_program.py"), ("rules", "toy_rule.py")):
        (tmp_path / kind).mkdir()
        shutil.copy(TOY.with_name(name), tmp_path / kind / name)
    wrong = planned(tmp_path / "workloads", {"does": "overwrite", "batch": 9})
    assert "batch" in wrong.stderr
    done = planned(tmp_path / "workloads", {"does": "overwrite", "batch": 2})
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["schema"]["minimum"], plan["schema"]["maximum"]) == (1, 8)
    phases = tuple(decode(PhaseSpec, phase) for phase in plan["phases"])
    assert [phase.program for phase in phases] == ["toy", "toy"]
    assert phases[1].flags == {"batch": 2}

    machine = Machine(tmp_path)
    machine.change_runs(phases=phases)
    run = machine.plan.hosts[0].runs[0].run
    ended = machine.run("--only", run)
    assert ended.returncode == 0, ended.stderr
    result = load_result(machine.runs / run)
    assert result.status is Status.OK, result.issues
    assert result.metrics["toys.operations"].value == 20_000
    assert [issue.phase for issue in result.issues if issue.code == "toy-phase"] == ["fill", "toys"]
