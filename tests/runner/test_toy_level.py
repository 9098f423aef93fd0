"""Adding a level takes one file: the toy is found, planned, run and reported."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import harness.plan
from analysis import load as campaigns
from analysis.compare import compare
from harness import levels
from harness.errors import ConfigError
from harness.observe import manifest
from harness.plan import load, requirements
from harness.plan.derive import derive
from harness.plan.expand import expand
from harness.plan.models import Level as Entry
from harness.plan.reference import RIG
from harness.rig import recipe
from harness.run import inspection
from harness.store.result import Status
from harness.store.rundir import load_result
from harness.store.spec import Inspection
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
        told = "toy-tools 1.2-3 installed\nxfsprogs 6.1 config-files\n"
        return proc.Completed(tuple(argv), 0, None, 0.0, told, "")

    monkeypatch.setattr(proc, "which", lambda name: Path("/usr/bin", name))
    monkeypatch.setattr(proc, "run", run)
    assert manifest.packages() == {"toy-tools": "1.2-3"}
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


def test_what_it_needs_is_asked_of_it(inspected: Inspection) -> None:
    small = replace(inspected.device, zones=3)
    with pytest.raises(ConfigError, match="toy needs at least 4 zones"):
        requirements.check_level("toy", small)
    with pytest.raises(ConfigError, match="as the test has it"):
        requirements.check_level("toy", replace(small, zones=4, max_active_zones=1))
    _, workload = load.load_study("integration-levels")
    derived = derive(workload, inspected.device, 0.8, cold=True)
    requirements.check_room("toy", inspected.device, derived)
    with pytest.raises(ConfigError, match="toy fills at most"):
        requirements.check_room("toy", replace(inspected.device, zones=200), derived)


def test_it_runs_and_is_reported(room: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.change_runs(cell="toy", level="toy", level_options={"colour": "red"})
    host = machine.plan.hosts[0]
    runs = tuple(replace(run, run=f"toy--r{run.repetition:02d}") for run in host.runs)
    machine.change_plan(hosts=(replace(host, runs=runs),), baseline="toy",
                        metrics=("overwrite.write_amplification",))  # fmt: skip
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
