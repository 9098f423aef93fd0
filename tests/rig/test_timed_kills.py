"""A campaign on modelled drives goes on after kills of its runner, of servers, and of QEMU."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from .conftest import WHOLE, RigHandle, booted
from .plays import ROOT, Played, Plays, zonelab
from .timed_kills import RUNNER, Kills

pytestmark = pytest.mark.skipif(not WHOLE, reason="make test-campaigns runs it")
KILLS = 4


def test_every_run_is_there_after_kills(tmp_path: Path) -> None:
    with booted("timed") as rig:
        kills = Kills(rig, tmp_path, seed=4)
        kills.run(KILLS)
    assert kills.killed.total() == KILLS
    # This seed kills the runner twice, and each server once.
    assert kills.killed[RUNNER] == 2
    assert len(kills.killed) == 3


def test_the_next_machine_continues_after_a_killed_qemu(tmp_path: Path) -> None:
    with booted("timed") as rig:
        killed: list[float] = []
        killer = threading.Thread(target=kill_at_work, args=(rig, killed))
        killer.start()
        played = play(rig, tmp_path)
        took = time.monotonic() - killed[0]
        killer.join()
    assert played.code == 4  # Ansible's for an unreachable host
    assert "Its virtual machine has ended" in played.text, played.text
    assert "unreachable for" not in played.text
    # A look of the play, and what it does on this host at its end.
    assert took < 30
    with booted("timed") as rig:
        played = play(rig, tmp_path)
    assert played.code == 0, played.text
    verified = zonelab("verify", tmp_path / "results" / "killed")
    assert verified.ok, verified.stdout + verified.stderr


def kill_at_work(rig: RigHandle, killed: list[float]) -> None:
    """Kill QEMU while db_bench runs; note when."""
    rig.ssh("until pgrep -x db_bench; do sleep 1; done", timeout=1500)
    killed.append(time.monotonic())
    os.kill(rig.state.pid, signal.SIGKILL)


def play(rig: RigHandle, folder: Path) -> Played:
    own = Plays(
        rig,
        folder,
        campaign="killed",
        levels="conventional-ext4",
        repetitions="1",
        settings="workload.database_share=2%",
    )
    device = f"device={rig.zoned.path}"
    return own.play(ROOT, ["ansible-playbook", "site.yml", "-e", device], timeout=1500)
