"""The playbook's wait and its second call, played with Ansible against this machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli.main import main
from harness.machine import paths
from harness.machine.lock import exclusive
from harness.plan.reference import RIG
from harness.store.files import dumps
from tests.fixtures.wait_lab import CAMPAIGN, ROOT, Lab, Played, heartbeat, running

pytestmark = pytest.mark.slow  # every test starts Ansible
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="a machine of its own needs root")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("config", ["ansible.cfg", "ansible/ansible.cfg"])
def test_a_panic_is_noticed_in_about_a_minute(config: str) -> None:
    """The next look, ssh's keep-alive, and new connections."""
    ssh = (ROOT / config).read_text()
    found = [re.search(rf"ServerAlive{name}=(\d+)", ssh) for name in ("Interval", "CountMax")]
    interval, count = (int(match[1]) for match in found if match)
    run = yaml.safe_load((ROOT / "roles/run/defaults/main.yml").read_text())
    waits = run["run_poll_seconds"] + interval * count + run["run_unreachable_seconds"]
    assert waits <= 75
    assert interval * count < run["run_answer_seconds"], "a dead host would be a slow disk"


def runs_there(lab: Lab, *campaigns: str) -> str:
    """Return a runner, as the host gets it, for the look at what runs there."""
    records = [{"campaign": name, "holder": f"campaign {name}"} for name in campaigns]
    runner = lab.folder / f"runner-{'-'.join(campaigns)}"
    runner.write_text(f"print({json.dumps(records)!r})")
    return str(runner)


def test_each_host_fails_with_its_cause_and_the_healthy_one_ends(lab: Lab) -> None:
    for name in ("rebooted", "silent", "hangs", "damaged", "healthy", "gone"):
        lab.add(name, zonelab_runner=runs_there(lab))
    running(lab.folder, "rebooted", heartbeat(boot_id="11c1f6f0-9f61-4d2c-8f0a-6a0f1a7c9e02"))
    running(lab.folder, "silent", heartbeat(uptime=heartbeat().uptime - 500))
    running(lab.folder, "hangs", heartbeat(blocked_seconds=300.0))
    running(lab.folder, "damaged", heartbeat()).write_text("{")
    healthy = running(lab.folder, "healthy", heartbeat())
    # Nothing listens on port 1: the host does not answer.
    lab.hosts["gone"] |= {
        "ansible_connection": "ssh",
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
        "run_unreachable_seconds": 1,
    }
    ender = subprocess.Popen(
        ["sh", "-c", f"sleep 8; sed -i 's/running/done/' {healthy}"], stdin=subprocess.DEVNULL
    )
    begin = time.monotonic()
    played = lab.wait()
    seconds = time.monotonic() - begin
    ender.wait()
    assert played.code == 2
    assert "the host rebooted during the campaign (boot id 11c1f6f0" in played.failure("rebooted")
    assert "has not reported for 50" in played.failure("silent")
    assert "hangs in the kernel for 300 s" in played.failure("hangs")
    assert "no readable progress.json" in played.failure("damaged")
    for name in ("rebooted", "silent", "hangs", "damaged"):
        assert "repeat the command" in played.failure(name)
    assert "unreachable for 1 s" in played.text
    assert "Repeat the command when the host answers" in played.text
    assert "fatal: [healthy]" not in played.text
    assert "ok: [healthy] => c: half way" in played.text.replace("=> {", "=>"), played.text
    assert seconds < 120, "the wait of 72 hours was not cut short"


def wait_and_show(lab: Lab) -> Played:
    """Play the wait, and show whether the end of the play keeps the settings of each host."""
    book = lab.folder / "wait.yml"
    shown = "{{ inventory_hostname }} goes on: {{ run_goes_on | default(false) }}"
    book.write_text(
        "- hosts: all\n"
        "  gather_facts: false\n"
        "  tasks:\n"
        "    - block: [{ansible.builtin.import_role: {name: run}}]\n"
        f"      always: [{{ansible.builtin.debug: {{msg: '{shown}'}}}}]\n"
    )
    return lab.play(book, "-e", "run_attached=true")


@pytest.mark.parametrize("stuck", [False, True], ids=["longer", "stuck"])
def test_a_campaign_that_goes_on_keeps_its_settings(lab: Lab, *, stuck: bool) -> None:
    """``stuck``: a disk that does not answer; nobody ever writes to the named pipe."""
    lab.add("long", run_timeout_hours=2 / 3600, run_answer_seconds=2)
    file = running(lab.folder, "long", heartbeat())
    if stuck:
        file.unlink()
        os.mkfifo(file)
    played = wait_and_show(lab)
    os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))  # ends a `cat` that still waits
    assert played.code == 2
    cause = "reading progress.json took longer than 2 s" if stuck else "did not end within 0.000"
    assert cause in played.text
    assert "The runs go on there. Repeat the command" in played.text
    assert "long goes on: True" in played.text
    assert "when: not (run_goes_on | default(false))" in (ROOT / "ansible/site.yml").read_text()


def test_a_runner_without_heartbeats_keeps_its_settings_while_it_holds_the_lock(lab: Lab) -> None:
    broken = lab.folder / "broken"
    broken.write_text("raise OSError")
    lab.add("works", zonelab_runner=runs_there(lab, CAMPAIGN))
    lab.add("ended", zonelab_runner=runs_there(lab))
    lab.add("unknown", zonelab_runner=str(broken))
    for name in lab.hosts:
        running(lab.folder, name, heartbeat(blocked_seconds=300.0))
    # After a normal end, the lock can be held for a moment.
    lab.add("done", zonelab_runner=runs_there(lab, CAMPAIGN))
    file = running(lab.folder, "done", heartbeat())
    file.write_text(file.read_text().replace("running", "done"))
    played = wait_and_show(lab)
    assert played.code == 2
    found = {name: f"{name} goes on: True" in played.text for name in lab.hosts}
    assert found == {"works": True, "ended": False, "unknown": False, "done": False}, played.text
    for name in ("works", "ended", "unknown"):
        assert f"{name}: the runner (pid 1) hangs in the kernel for 300 s" in played.text


# --- a second call --------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in sorted(folder.rglob("*"))}


def planned(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Plan the campaign as the first call did."""
    (lab.folder / "h.json").write_text(dumps(RIG))
    words = ["plan", "smoke", "--campaign", CAMPAIGN, f"--inspection=h={lab.folder}/h.json"]
    assert main([*words, "--results", str(lab.folder / "results")]) == 0, capsys.readouterr().err


@AS_ROOT
def test_a_second_call_only_waits(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.add("h", device="nvme0n2", study="smoke")
    planned(lab, capsys)
    file = running(lab.folder, "h", heartbeat())
    before = tree(lab.folder / "h")
    ender = subprocess.Popen(["sh", "-c", f"sleep 20; sed -i 's/running/done/' {file}"])
    played = lab.play("site.yml", holder=f"campaign {CAMPAIGN}")
    ender.wait()
    after = tree(lab.folder / "h")
    assert "c: half way" in played.text
    # The report on the controller is written; it is "[h -> localhost]".
    assert "changed: [h]" not in played.text, played.text
    assert not (lab.folder / "lib").exists()
    del before[str(file)], after[str(file)]
    folder = str(file.parent)  # sed replaced the file in it
    assert before | {folder: 0} == after | {folder: 0}
    # The report names the missing runs, as after any campaign.
    assert "f2fs--r01" not in played.text.partition("TASK [Check")[0]


@AS_ROOT
def test_a_call_for_another_campaign_is_refused_before_any_change(lab: Lab) -> None:
    lab.add("h", device="nvme0n2", study="smoke", campaign="mine")
    running(lab.folder, "h", heartbeat())
    before = tree(lab.folder / "h")
    played = lab.play("site.yml", holder=f"campaign {CAMPAIGN}")
    assert tree(lab.folder / "h") == before
    assert played.code == 2
    assert "h runs campaign c (pid " in played.failure("h")
    assert "-e campaign=NAME" in played.failure("h")
    assert "changed=0" in played.text
    assert not (lab.folder / "lib").exists()


@AS_ROOT
def test_a_campaign_of_another_checkout_is_refused(lab: Lab) -> None:
    lab.add("h", device="nvme0n2", study="smoke")
    running(lab.folder, "h", heartbeat())
    played = lab.play("site.yml", holder=f"campaign {CAMPAIGN}")
    assert played.code == 2
    assert "it was started from" in played.text.replace(
        "was started from another", "it was started from"
    )
    assert "hosts/h/host.json does not exist" in played.text


def test_running_names_the_holder(capsys: pytest.CaptureFixture[str]) -> None:
    def asked() -> Any:
        assert main(["running", "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert asked() == []
    with exclusive(paths.LOCK, "campaign first"):
        (record,) = asked()
        assert record["campaign"] == "first"
        assert record["holder"].startswith(f"campaign first (pid {os.getpid()}")
    with exclusive(paths.LOCK, "preconditioning of /dev/nvme0n2"):
        (record,) = asked()
        assert record["campaign"] == ""
        assert record["holder"].startswith("preconditioning of /dev/nvme0n2 (pid ")
    assert asked() == []


def test_a_machine_without_the_finished_runs_gets_them(lab: Lab) -> None:
    """A rig's machines are new each time; a host that has runs keeps its own."""
    runs = {}
    for name in ("new", "old"):
        lab.add(name, zonelab_runner=__file__)
        collected = lab.folder / "results" / CAMPAIGN / "hosts" / name / "runs" / "a--r01"
        collected.mkdir(parents=True)
        (collected / "result.json").write_text(name)
        runs[name] = lab.folder / name / "campaigns" / CAMPAIGN / "runs"
    (lab.folder / "results" / CAMPAIGN / "plan.json").write_text("new")
    lab.add("first", zonelab_runner=__file__)
    (runs["old"] / "b--r01").mkdir(parents=True)
    (runs["old"].parent / "plan.json").write_text("old")
    book = lab.folder / "install.yml"
    tasks = "{ansible.builtin.include_role: {name: run, tasks_from: install}}"
    book.write_text(f"- hosts: all\n  gather_facts: false\n  tasks: [{tasks}]\n")
    played = lab.play(book)
    assert played.code == 0, played.text
    assert (runs["new"] / "a--r01" / "result.json").read_text() == "new"
    assert [path.name for path in runs["old"].iterdir()] == ["b--r01"]
    folder = runs["new"].parent
    assert sorted(path.name for path in folder.iterdir()) == ["runs", "wanted.json"]
    # The runner compares the plan of the runs that are there with the new one.
    plans = {path.name: path.read_text() for path in runs["old"].parent.glob("*.json")}
    assert plans == {"plan.json": "old", "wanted.json": "new"}
    words = yaml.safe_load((ROOT / "roles/run/vars/main.yml").read_text())
    assert "'--plan', __run_wanted," in words["__run_argv"]
    assert not (lab.folder / "first" / "campaigns" / CAMPAIGN / "runs").exists()
