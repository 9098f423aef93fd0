"""Finished runs are copied out of a rig while it works, and given to the machine after it."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, ToolFailed
from harness.machine.paths import Paths
from harness.rig import fetch, guest, model, state
from harness.store.campaign import CampaignPaths, load_plan
from harness.store.files import dumps
from harness.tools.proc import Completed
from tests.fixtures.example import unpacked

RIG = "nvme"
HOST = "rig"


class Machine:
    """This machine in place of a guest."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(folder / "state", folder / "run")
        self.up = False
        self.looks = 0  # whether it is up
        self.commands: list[str] = []

    def state(self, _: str) -> Machine | None:
        """Return this machine if it is up; stands for ``state.read``."""
        self.looks += 1
        return self if self.up else None

    def run(self, name: str, command: str, **_: Any) -> Completed:
        assert (name, self.up) == (RIG, True)
        self.commands.append(command)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolFailed(done.stderr)
        return Completed(("ssh",), done.returncode, None, done.stdout, done.stderr)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setattr(fetch, "_PATHS", found.paths)
    monkeypatch.setattr(guest, "run", found.run)
    monkeypatch.setattr(state, "read", found.state)
    return found


def finish(machine: Machine, campaign: CampaignPaths, number: int) -> str:
    """Give the machine a finished run; return its name."""
    example = CampaignPaths(unpacked())
    (host,) = example.hosts()
    run = sorted(example.runs(host).iterdir())[number]
    shutil.copytree(run, machine.paths.runs(campaign.root.name) / run.name)
    return run.name


@pytest.fixture
def campaign(tmp_path: Path, machine: Machine) -> CampaignPaths:
    """The example's plan, on the controller and on the machine."""
    found = CampaignPaths(tmp_path / "results" / "first")
    for folder in (found.root, machine.paths.campaign("first")):
        folder.mkdir(parents=True)
        shutil.copy(CampaignPaths(unpacked()).plan, folder)
    return found


def stored(campaign: CampaignPaths) -> list[str]:
    return sorted(path.name for path in campaign.runs(HOST).iterdir())


def test_only_new_runs_are_copied(machine: Machine, campaign: CampaignPaths) -> None:
    machine.up = True
    first = finish(machine, campaign, 0)
    (machine.paths.runs("first") / ".half.partial").mkdir()
    assert fetch.fetch(RIG, campaign) == [first]
    machine.commands.clear()
    assert fetch.fetch(RIG, campaign) == []
    assert [command.split()[0] for command in machine.commands] == ["ls"]
    second = finish(machine, campaign, 1)
    assert fetch.fetch(RIG, campaign) == [second]
    assert first not in machine.commands[-1]
    assert stored(campaign) == sorted((first, second))


def test_a_damaged_run_is_not_stored(machine: Machine, campaign: CampaignPaths) -> None:
    machine.up = True
    name = finish(machine, campaign, 0)
    with (machine.paths.runs("first") / name / "result.json").open("a") as file:
        file.write(" ")
    assert fetch.fetch(RIG, campaign) == []
    assert stored(campaign) == []


def test_runs_of_another_study_are_not_copied(machine: Machine, campaign: CampaignPaths) -> None:
    """A machine that is kept up can have a campaign of this name already."""
    machine.up = True
    name = finish(machine, campaign, 0)
    plan = load_plan(campaign.plan)
    campaign.plan.unlink()
    assert fetch.fetch(RIG, campaign) == []
    campaign.plan.write_text(dumps(replace(plan, study_digest="other")))
    with pytest.raises(ConfigError, match="another study"):
        fetch.fetch(RIG, campaign)
    assert stored(campaign) == []
    campaign.plan.write_text(dumps(plan))
    assert fetch.fetch(RIG, campaign) == [name]


def test_output_that_was_cut_off_is_an_error_after_which_runs_are_copied(
    machine: Machine, campaign: CampaignPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.up = True
    name = finish(machine, campaign, 0)

    def cut(host: str, command: str, **_: Any) -> Completed:
        done = machine.run(host, command)
        return done if command.startswith("ls") else replace(done, stdout=done.stdout[:4001])

    with monkeypatch.context() as patched:
        patched.setattr(guest, "run", cut)
        with pytest.raises(ToolFailed, match="was cut off"):
            fetch.fetch(RIG, campaign)
    assert fetch.fetch(RIG, campaign) == [name]


def test_runs_are_copied_while_the_machine_is_up(
    machine: Machine, campaign: CampaignPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the boot, without runs and after a failure, it looks again."""
    monkeypatch.setattr(fetch, "_EVERY", 0.01)
    before = threading.enumerate()
    with fetch.fetching(model.load(RIG), campaign):
        wait(lambda: machine.looks > 2)  # two whole rounds
        assert not machine.commands
        machine.up = True
        wait(lambda: len(machine.commands) > 1)  # no runs there: ls fails
        name = finish(machine, campaign, 0)
        wait(lambda: campaign.runs(HOST).is_dir() and stored(campaign) == [name])
    assert threading.enumerate() == before


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
