"""Two plays for one host: the pipeline's tuning of ``site.yml`` with a runner that is a fake."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.roles import ROOT, play

pytestmark = pytest.mark.slow

MINE, OTHER = "mine", "campaign other (pid 7 on h for 0 h 3 min: zonelab run)"
# Prints the next line of its answers, and the last one again and again.
RUNNER = """
import pathlib, sys
assert sys.argv[1:] == ["running", "--format", "json"], sys.argv
file = pathlib.Path({0!r})
first, *more = file.read_text().splitlines()
file.write_text("\\n".join(more or [first]))
print(first)
"""


class Host:
    """A host whose only setting is a file. ``answers``: what runs there at each look."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.value, self.saved = folder / "value", folder / "state/saved/tuning.json"
        self.value.write_text("60\n")
        (folder / "runner").write_text(RUNNER.format(str(folder / "answers")))
        own = {"name": "own", "settings": [{"path": str(self.value), "value": "0"}]}
        (folder / "own.yml").write_text(yaml.safe_dump(own))

    def play(self, *answers: list[str], end: dict[str, Any]) -> tuple[int, str]:
        """Play the part of the pipeline that tunes and restores; ``end`` replaces the runs."""
        lines = [
            json.dumps([{"campaign": one.split()[1], "holder": one} for one in running])
            for running in answers
        ]
        (self.folder / "answers").write_text("\n".join(lines))
        plays = yaml.safe_load((ROOT / "ansible/site.yml").read_text())
        (part,) = (one for one in plays if one["name"] == "Tune, prepare, run, collect")
        (whole,) = part["tasks"]
        roles = ("preflight", "tuning")
        (last,) = whole["always"]
        for block in (whole, last):
            named = ((t, t["ansible.builtin.import_role"]["name"]) for t in block["block"])
            block["block"] = [task for task, name in named if name in roles]
        whole["block"].append(end)
        (collect,) = last["always"]
        assert collect["ansible.builtin.import_role"]["name"] == "collect"
        last["always"] = [{"ansible.builtin.debug": {"msg": "runs are collected"}}]
        book = self.folder / "play.yml"
        book.write_text(json.dumps([part | {"gather_facts": False}]))
        variables = {
            "zonelab_runner": str(self.folder / "runner"),
            "zonelab_state": str(self.folder / "state"),
            "zonelab_pending": 1,
            "campaign": MINE,
            "preflight_inspected": {},  # the first look found no campaign
            "tuning_name": os.path.relpath(self.folder / "own", ROOT / "configs/tunings"),
        }
        _, failed, output = play(book, variables)
        return failed, " ".join(output.split())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def shown(host: Host) -> dict[str, Any]:
    """Return a task that fails, with the setting during the runs in its message."""
    return {"ansible.builtin.fail": {"msg": f"value {{{{ lookup('file', '{host.value}') }}}}"}}


def test_a_campaign_that_began_after_the_first_look_keeps_its_settings(host: Host) -> None:
    host.value.write_text("7\n")  # as the other play tuned it
    host.saved.parent.mkdir(parents=True)
    host.saved.write_text(json.dumps([{"path": str(host.value), "value": "60"}]))
    failed, output = host.play([OTHER], end=shown(host))
    assert failed == 1
    assert f"localhost now runs {OTHER}, which started after the first look" in output
    assert "Repeat the command after its end" in output
    assert host.value.read_text() == "7\n"
    assert host.saved.exists(), "the other play can no longer restore the host"


def test_a_play_that_loses_the_start_does_not_restore_the_host(host: Host) -> None:
    """Both plays tuned; the runs of the other one began, and the runner refused ours."""
    failed, output = host.play([], [OTHER], end=shown(host))
    assert (failed, "value 0" in output) == (1, True), output
    assert host.value.read_text().strip() == "0"
    assert host.saved.exists()


def test_runs_are_collected_from_a_host_that_refuses_a_setting(host: Host) -> None:
    refuse = {"ansible.builtin.shell": f"rm {host.value} && mkdir {host.value}"}
    failed, output = host.play([], end=refuse)
    assert (failed, "refused to restore 1 settings" in output) == (1, True), output
    assert "runs are collected" in output
    assert not host.saved.exists(), "the next play fails at the same task"


def test_the_end_of_its_own_runs_restores_the_host(host: Host) -> None:
    """The runner can hold its lock for a moment after the last run."""
    failed, output = host.play([], [f"campaign {MINE} (pid 8)"], end=shown(host))
    assert (failed, "value 0" in output) == (1, True), output
    assert "runs are collected" in output
    assert host.value.read_text().strip() == "60"
    assert not host.saved.exists()
