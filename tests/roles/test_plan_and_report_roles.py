"""``roles/plan``, ``roles/report`` and ``roles/collect`` with the real ansible, on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli import main as cli
from harness.store.campaign import load_plan
from harness.store.files import dumps
from tests.fixtures.campaigns import write_four_runs

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def role(
    name: str, folder: Path, failed: str = "", **more: Any
) -> subprocess.CompletedProcess[str]:
    """Play a role alone, on this machine, with this checkout's ``zonelab``.

    ``failed`` names a second host, first in order, which fails in an earlier play.
    """
    play = {"name": name, "hosts": "all", "connection": "local", "gather_facts": False}
    fail = {"ansible.builtin.fail": {}, "when": f"inventory_hostname == '{failed}'"}
    variables = {
        "campaign": "c",
        "zonelab_results": str(folder),
        "zonelab_root": str(ROOT),
        "zonelab_command": str(BIN / "zonelab"),
        "ansible_python_interpreter": sys.executable,
    }
    variables |= more
    plays = [play | {"tasks": [fail]}, play | {"vars": variables, "roles": [name]}]
    (folder / "play.yml").write_text(yaml.safe_dump(plays if failed else plays[1:]))
    hosts = f"{failed},localhost" if failed else "localhost,"
    argv = [str(BIN / "ansible-playbook"), "-i", hosts, str(folder / "play.yml")]
    home = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(folder / "tmp")}
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        argv,
        cwd=ROOT,
        env=env | {"PYTHONPATH": str(ROOT)} | home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def shipped_variables() -> dict[str, str]:
    """The variables that are empty as shipped, so that a new one needs no line here."""
    variables = yaml.safe_load((ROOT / "ansible/group_vars/all.yml").read_text())
    return {name: value for name, value in variables.items() if value == ""}


def plan_variables(tmp_path: Path) -> dict[str, Any]:
    """Variables of the plan role, whose ``zonelab`` writes its arguments to ``planned``."""
    program = tmp_path / "zonelab"
    program.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f"plan) printf '%s\\n' \"$@\" >{tmp_path}/planned;;\n"
        "*) echo '{\"pending\": 0}';;\nesac\n"
    )
    program.chmod(0o755)
    same = {"changed": False}
    return shipped_variables() | {
        "study": "tenants",
        "zonelab_command": str(program),
        "zonelab_build": str(tmp_path / "build"),
        "preflight_inspected": {"stdout": "{}"},
        "zonelab_attached": False,
        "packages_installed": same,
        "native_built": same,
    }


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ("", []),
        ("mix=four-tenants seed=7", ["--set=mix=four-tenants", "--set=seed=7"]),
        (
            " question=Is it so?  workload.value_size=4 KiB ",
            ["--set=question=Is it so?", "--set=workload.value_size=4 KiB"],
        ),
    ],
)
def test_the_plan_role_sets_them(tmp_path: Path, settings: str, flags: list[str]) -> None:
    asked = plan_variables(tmp_path) | {"settings": settings}
    done = role("plan", tmp_path, **asked)
    assert done.returncode == 0, done.stdout
    planned = (tmp_path / "planned").read_text().splitlines()
    assert planned[:2] == ["plan", "tenants"]
    assert [word for word in planned if word.startswith("--set")] == flags


@pytest.mark.parametrize("known", [True, False])
def test_a_host_that_failed_keeps_the_inspection_of_its_campaign(
    tmp_path: Path, known: bool
) -> None:
    """An inspection in the folder of inspections can be of an earlier command."""
    for stale in [tmp_path / "build/inspections/c/b.json", tmp_path / "c/hosts/b/host.json"][
        : 1 + known
    ]:
        stale.parent.mkdir(parents=True)
        stale.write_text("{}")
    done = role("plan", tmp_path, failed="b", **plan_variables(tmp_path))
    if not known:
        assert not (tmp_path / "planned").exists()
        assert "b failed above" in done.stdout
        assert "--limit 'all:!b'" in done.stdout
        return
    planned = (tmp_path / "planned").read_text().splitlines()
    assert [word for word in planned if word.startswith("--inspection")] == [
        f"--inspection=b={tmp_path}/c/hosts/b/host.json",
        f"--inspection=localhost={tmp_path}/build/inspections/c/localhost.json",
    ]
    assert "localhost                  : ok" in done.stdout


@pytest.mark.parametrize("bad", ["", "failed"])
def test_the_report_role_shows_the_table_once_and_fails_behind_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: str
) -> None:
    write_four_runs(tmp_path / "c", bad)
    assert cli.main(["compare", str(tmp_path / "c")]) == 0
    table = capsys.readouterr().out.rstrip()
    assert "overwrite.throughput" in table
    word = tmp_path / "word"
    done = role("report", tmp_path, report_word=str(word))
    assert word.exists()
    assert done.stdout.count(table) == 1, done.stdout
    assert (tmp_path / "c/report/index.html").exists()
    assert done.returncode == (2 if bad else 0), done.stdout
    if bad:
        expected = f"4 runs: 3 ok, 1 failed; 0 to run; see {tmp_path}/c/report/index.html"
        assert expected in done.stdout


@pytest.mark.parametrize("adopted", ["equal", "other", "none"])
def test_the_collect_role_stores_runs_only_of_the_campaigns_study(
    tmp_path: Path, adopted: str
) -> None:
    """``none``: as before the first run, and with the runs that a new machine gets."""
    campaign, there = write_four_runs(tmp_path / "c"), tmp_path / "state/campaigns/c"
    plan = load_plan(campaign / "plan.json")
    shutil.move(campaign / "hosts/rig/runs", there / "runs")
    (there / "runs" / ".half.partial").mkdir()
    if adopted != "none":
        digest = plan.study_digest if adopted == "equal" else "other"
        (there / "plan.json").write_text(dumps(replace(plan, study_digest=digest)))
    places = {"zonelab_state": str(tmp_path / "state"), "zonelab_build": str(tmp_path / "build")}
    done = role("collect", tmp_path, zonelab_become=False, **places)
    stored = [path.name for path in (campaign / "hosts/localhost/runs").iterdir()]
    assert len(stored) == (0 if adopted == "other" else 4), done.stdout
    assert (done.returncode == 2) == (adopted == "other"), done.stdout
    assert ("was started with another study or device on localhost" in done.stdout) == (
        adopted == "other"
    )
