"""Blocks are assigned to several hosts, which are alike or declared to differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.judge.compare import Comparison, compare
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from analysis.read.load import load
from analysis.show.render import render
from harness.cli.main import main
from harness.plan.host_changes import differences
from harness.plan.reference import RIG
from harness.store.campaign import load_plan
from harness.store.files import dumps, write_atomic
from harness.store.spec import Bytes, Inspection
from tests.fixtures.campaigns import write_on_demand

ROOT = Path(__file__).parents[2]
WRITTEN = "overwrite.device_written"


def host(number: int, **device: Any) -> Inspection:
    """Return a host as the rig, with a drive of its own."""
    identity = replace(RIG.device.identity, eui64=f"{number:016x}")
    return replace(RIG, device=replace(RIG.device, identity=identity, **device))


class Planner:
    """Plans a study for several hosts, one inspection each."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys

    @property
    def plan(self) -> Path:
        return self.folder / "results" / "c" / "plan.json"

    def __call__(self, hosts: dict[str, Inspection], *more: str) -> tuple[int, str]:
        words = ["plan", "integration-levels", "--campaign", "c", *more]
        for name, inspection in hosts.items():
            (self.folder / f"{name}.json").write_text(dumps(inspection))
            words.append(f"--inspection={name}={self.folder / name}.json")
        code = main([*words, "--results", str(self.folder / "results")])
        return code, self.capsys.readouterr().err


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planner:
    return Planner(tmp_path, capsys)


def test_drives_of_one_kind_are_alike() -> None:
    assert differences([("a", host(1)), ("b", host(2))]) == ()
    assert differences([("a", host(1))]) == ()
    assert differences([]) == ()


@pytest.mark.parametrize(
    ("other", "fact"),
    [
        (host(2, model="another drive"), "zoned.model: a "),
        (host(2, max_active_zones=6), "zoned.max_active_zones: a 14, b 6"),
        (replace(host(2), host=replace(RIG.host, cpus=64)), "cpus: a 2, b 64"),
        (replace(host(2), host=replace(RIG.host, rocksdb="8.11")), "rocksdb: a "),
        (replace(host(2), host=replace(RIG.host, memory_bytes=Bytes(2**40))), "memory: a "),
        (replace(host(2), conventional=RIG.device), "conventional.size: a None, b "),
    ],
)
def test_a_difference_between_hosts_is_refused_by_name(
    plan: Planner, other: Inspection, fact: str
) -> None:
    code, message = plan({"a": host(1), "b": other})
    assert code == 2
    assert "the hosts differ" in message
    assert fact in message or "more" in message
    assert any(line.startswith(fact) for line in differences([("a", host(1)), ("b", other)]))
    assert "different_hosts=true" in message
    assert not plan.plan.exists()


def test_a_declared_difference_is_in_the_plan(plan: Planner) -> None:
    hosts = {"a": host(1), "b": replace(host(2), host=replace(RIG.host, cpus=64))}
    assert plan(hosts, "--different-hosts")[0] == 0
    assert load_plan(plan.plan).hosts_differ == ("cpus: a 2, b 64",)
    # One declaration is enough: a command that continues the campaign needs none.
    code, message = plan(hosts)
    assert (code, "unchanged" in message) == (0, True)


def test_hosts_that_are_alike_declare_nothing(plan: Planner) -> None:
    assert plan({"a": host(1), "b": host(2)})[0] == 0
    stored = json.loads(plan.plan.read_text())
    assert stored["hosts_differ"] == []
    assert {h["host"]: {run["block"] for run in h["runs"]} for h in stored["hosts"]} == {
        "a": {1, 3},
        "b": {2, 4},
    }


def compared(
    folder: Path, differ: tuple[str, ...], drop: Callable[[Any], bool] = lambda _: False
) -> Comparison:
    """Return a campaign of two hosts, three blocks each; ``drop`` leaves runs out of both."""
    path = write_on_demand(folder / "c", series=False, hosts=("a", "b"), drop=drop)
    stored = replace(load_plan(path / "plan.json"), hosts_differ=differ)
    write_atomic(path / "plan.json", dumps(stored))
    return compare(load(path))


def test_blocks_of_declared_hosts_are_compared_within_each(tmp_path: Path) -> None:
    comparison = compared(tmp_path, ("cpus: a 2, b 64",))
    found = next(r for r in comparison.rows if (r.metric, r.level) == (WRITTEN, "zlfs"))
    assert (found.estimate.method, found.estimate.n) == (Method.PAIRED, 6)
    assert found.verdict is Verdict.HIGHER
    text = " ".join(render(comparison, "table").split())
    assert "hosts differ, as declared; blocks are compared within a host: cpus: a 2, b 64" in text


@pytest.mark.parametrize(
    ("differ", "verdict"),
    [((), Verdict.HIGHER), (("cpus: a 2, b 64",), Verdict.NOT_COMPARABLE)],
)
def test_broken_blocks_are_pooled_among_hosts_that_are_alike_only(
    tmp_path: Path, differ: tuple[str, ...], verdict: Verdict
) -> None:
    comparison = compared(
        tmp_path, differ, drop=lambda spec: spec.level == "zlfs" and spec.repetition > 1
    )
    found = next(r for r in comparison.rows if (r.metric, r.level) == (WRITTEN, "zlfs"))
    assert found.estimate.method is Method.WELCH
    assert found.verdict is verdict
    assert ("hosts differ, and few blocks are common" in found.notes) == bool(differ)


def test_a_lost_run_leaves_the_other_blocks_of_declared_hosts(tmp_path: Path) -> None:
    comparison = compared(
        tmp_path,
        ("cpus: a 2, b 64",),
        drop=lambda spec: spec.level == "zlfs" and spec.repetition == 2,
    )
    found = next(r for r in comparison.rows if (r.metric, r.level) == (WRITTEN, "zlfs"))
    assert (found.estimate.method, found.estimate.n) == (Method.PAIRED, 4)
    assert found.verdict is Verdict.HIGHER


PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: preflight, tasks_from: machines}
"""


@pytest.mark.slow
def test_two_drives_of_one_machine_take_turns(tmp_path: Path) -> None:
    """Both lines describe the machine that runs the test."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": {"left": local, "right": local}}}
    (tmp_path / "inventory.yml").write_text(json.dumps(inventory))
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    done = subprocess.run(
        [ROOT / ".venv/bin/ansible-playbook", "-i", "inventory.yml", "play.yml"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    text = " ".join((done.stdout + done.stderr).split())
    for name in ("left", "right"):
        assert f"{name} is the same machine as another host of the inventory" in text
