"""The checks of test_toys.py. They run in a copy of zonelab that has the toys."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from analysis.judge import bottleneck
from analysis.read import load as campaigns
from harness import levels, workloads
from harness.cli.main import main
from harness.errors import ConfigError
from harness.machine import manifest
from harness.machine.device_contents import Contents
from harness.machine.journal import Journal
from harness.plan import load, reference, requirements
from harness.plan.derive import derive
from harness.plan.expand import expand
from harness.plan.level_entry import LevelEntry as Entry
from harness.plan.reference import RIG
from harness.plan.schemas import schema_text
from harness.plan.study_models import Study
from harness.plan.workload_models import Workload
from harness.rig import model as rigs
from harness.rig import recipe
from harness.run import inspection
from harness.store.result import Result, Status
from harness.store.rundir import load_result
from harness.store.spec import RunSpec
from harness.tools import proc
from tests.runner.conftest import Machine


def workload(**work: Any) -> Workload:
    """Return the usual workload with two phases of the toy program."""
    _, usual = load.load_study("integration-levels")
    fill = {"name": "fill", "role": "fill", "operations": {"count": 20_000}}
    toys = {"name": "toys", "role": "measured", "operations": {"count": 20_000}}
    phases = [fill | {"toy": {"does": "fillrandom"}}, toys | {"toy": work}]
    fields = usual.model_dump(mode="json", exclude_defaults=True)
    return load.build(Workload, fields | {"phases": phases}, "toys")


def study(**options: Any) -> Study:
    """Return the usual study on the toy level and another one."""
    usual, _ = load.load_study("integration-levels")
    chosen = (Entry(name="toy", options=options), "f2fs")
    return usual.model_copy(update={"levels": chosen, "baseline": "f2fs", "claims": ()})


def planned() -> list[RunSpec]:
    """Return the runs on the toy level, as planned for the rig."""
    probes = tuple(
        inspection.probe(level, RIG.device, None, None) for level in levels.LEVELS.values()
    )
    rig = replace(RIG, levels=probes)
    plan = expand(study(colour="green"), workload(does="overwrite", batch=2), [("rig", rig)], "c")
    return [run for run in plan.hosts[0].runs if run.level == "toy"]


@dataclass(frozen=True)
class Done:
    """A campaign of two runs on the toy level and two on another; the first run had an error."""

    machine: Machine
    folder: Path
    results: list[Result]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Plan the study, and run it on a fake machine, which has its own sizes."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    toy = planned()[0]
    machine.change_runs(phases=toy.phases)
    host = machine.plan.hosts[0]
    toys = [
        replace(
            fake,
            run=f"toy--r{fake.repetition:02d}",
            cell="toy",
            level="toy",
            factors={"level": "toy"},
            level_options={"colour": colour},
        )
        for fake, colour in zip(host.runs, ("red", "green"), strict=True)
    ]
    machine.change_plan(
        hosts=(replace(host, runs=(*toys, *host.runs)),),
        metrics=("toys.toy_batches", "run.toy_phases"),
    )
    ended = machine.run()
    assert ended.returncode == 4, ended.stderr  # one run is invalid
    folder = machine.campaign_folder()
    shutil.copytree(machine.runs, folder / "hosts/h/runs")
    return Done(machine, folder, [load_result(machine.runs / run.run) for run in toys])


# --- the level ------------------------------------------------------------------------------------


def test_the_level_is_found_and_probed() -> None:
    assert list(levels.LEVELS).index("btrfs") < list(levels.LEVELS).index("toy")
    assert inspection.probe(levels.LEVELS["toy"], RIG.device, None, None).available
    assert "toy" in reference.LEVELS


def test_its_packages_are_installed_and_their_versions_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def run(argv: list[str], **_: object) -> proc.Completed:
        asked.extend(argv)
        listing = "toy-tools 1.2-3 installed\nxfsprogs 6.1 config-files\n"
        return proc.Completed(tuple(argv), 0, None, listing, "")

    assert "toy-tools" in levels.packages()
    assert "toy-tools" in recipe.recipe("trixie").packages
    # This machine may have no dpkg.
    monkeypatch.setattr(proc, "which", lambda name: Path("/usr/bin", name))
    monkeypatch.setattr(proc, "run", run)
    assert manifest.packages(workloads.packages()) == {"toy-tools": "1.2-3"}
    assert {"toy-tools", "xfsprogs", "rocksdb-tools"} <= set(asked)


def test_its_options_are_checked() -> None:
    assert {run.level_options["colour"] for run in planned()} == {"green"}
    assert planned()[0].predicted.seconds > 0
    with pytest.raises(ConfigError, match="level toy has no option 'size'"):
        expand(study(size=1), workload(does="overwrite"), [("rig", RIG)], "c")


def test_its_needs_are_checked() -> None:
    small = replace(RIG.device, zones=3)
    with pytest.raises(ConfigError, match="toy needs at least 4 zones"):
        requirements.check_level("toy", small)
    with pytest.raises(ConfigError, match="as the test has it"):
        requirements.check_level("toy", replace(small, zones=4, max_active_zones=1))
    _, usual = load.load_study("integration-levels")
    derived = derive(usual, RIG.device, 0.8, cold=True)
    requirements.check_room("toy", RIG.device, derived)
    with pytest.raises(ConfigError, match="toy can fill"):
        requirements.check_room("toy", replace(RIG.device, zones=200), derived)


def test_the_level_runs(done: Done) -> None:
    level = done.results[1].manifest["level"]
    assert level["gc_source"] == "none: it is a toy"
    assert level["direct_io"]["effective"] == {"reads": None, "writes": None}


def test_its_signature_shows_whose_data_it_is(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    device = machine.plan.hosts[0].inspection.device
    with Path(device.path).open("r+b") as node:
        node.write(b"ZLTOY001shelf\0")
    found = Contents(machine.host, Journal(tmp_path / "journal.jsonl")).refusals(device)
    assert "toyfs" in found[0].message


def test_its_errors_in_the_kernel_log_make_a_run_invalid(done: Done) -> None:
    assert [result.status for result in done.results] == [Status.INVALID, Status.OK]
    (found,) = (issue for issue in done.results[0].issues if issue.code == "io-errors")
    assert "shelf broken" in found.message


# --- the program, the metric and the rule ---------------------------------------------------------


def test_the_program_brings_its_fields() -> None:
    schema = json.loads(schema_text(Workload))["$defs"]["ToyWork"]["properties"]["batch"]
    assert (schema["minimum"], schema["maximum"]) == (1, 8)
    with pytest.raises(ConfigError, match="batch"):
        workload(does="overwrite", batch=9)


def test_the_program_runs(done: Done) -> None:
    phases = planned()[0].phases
    assert [phase.program for phase in phases] == ["toy", "toy"]
    assert phases[1].flags == {"batch": 2}
    assert done.results[1].metrics["toys.operations"].value == 20_000


def test_the_metrics_are_computed_and_the_rule_finds_its_issue(done: Done) -> None:
    result = done.results[1]
    assert result.metrics["toys.toy_batches"].value == 10_000
    assert result.metrics["run.toy_phases"].value == 2
    assert [issue.phase for issue in result.issues if issue.code == "toy-phase"] == ["fill", "toys"]


# --- the column, and the campaign as a whole ------------------------------------------------------


def test_the_column_and_the_metric_are_compared(
    done: Done, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["compare", str(done.folder), "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    rows = {row["metric"]: row for row in printed["rows"]}
    assert rows["toys.toy_batches"]["toy_runs"] == 1
    assert rows["run.toy_phases"]["toy_runs"] == 1


def test_the_label_is_given(done: Done) -> None:
    found = {
        run.name: bottleneck.label_phases(run)["toys"].label
        for run in campaigns.load(done.folder).latest
        if run.ok
    }
    assert found == dict.fromkeys(["toy--r02", "fake--r01", "fake--r02"], "toy-bound")


def test_the_campaign_verifies(done: Done, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(done.folder)]) == 0, capsys.readouterr().out


# --- the rig, its release and the sub-command -----------------------------------------------------


def test_the_rig_and_its_release_are_found() -> None:
    rig = rigs.load("toy")
    assert rig.suite == "toy"
    assert "toy-backports" in str(recipe.recipe(rig.suite))


def test_the_sub_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["toy", "--colour", "blue"]) == 0
    assert capsys.readouterr().out == "a blue toy\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "print a toy" in capsys.readouterr().out
