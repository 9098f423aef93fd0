"""Endings of a run that a cause of its own can hide, and processes that cannot be killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from harness.machine.journal import Journal, JournalEvent
from harness.store.result import Result, Severity, Status
from harness.store.rundir import load_result, problems
from harness.verify import recompute
from tests.fixtures.waiting import until
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

IDENTITY = "eui.5254000000000002"


def later(found: Result) -> list[str]:
    return [issue.message for issue in found.issues if issue.code == "clean-up"]


def last_event(machine: Machine) -> JournalEvent:
    entry = Journal(machine.root / "state" / "journal.jsonl").last(IDENTITY)
    assert entry is not None
    return entry.event


def test_a_failed_clean_up_is_an_issue_beside_the_first_error(machine: Machine) -> None:
    machine.behave(overwrite="exit")
    (machine.root / "down-fails").touch()
    done = machine.run("--only", "fake--r01")
    assert done.returncode == 4
    found = machine.result
    assert found.reason is not None
    assert (found.status, found.reason.code) == (Status.FAILED, "db-bench-failed")
    assert later(found) == ["umount failed (exit 32): target is busy"]
    assert {issue.severity for issue in found.issues if issue.code == "clean-up"} == {
        Severity.ERROR
    }
    assert "fake--r01: clean-up: umount failed (exit 32): target is busy" in done.stderr
    assert recompute.of_run(machine.runs / "fake--r01") == []
    # The steps behind the failed one are done.
    assert machine.host.sysfs.schedulers("nvme0n2")[0] == "none"
    assert last_event(machine) is JournalEvent.RELEASE


def test_a_clean_up_that_fails_alone_fails_the_run(machine: Machine) -> None:
    (machine.root / "down-fails").touch()
    assert machine.run("--only", "fake--r01").returncode == 4
    found = machine.result
    assert found.reason is not None
    assert "umount failed" in found.reason.message
    assert later(found) == []


def test_a_barrier_that_fails_does_not_hide_the_program_before_it(machine: Machine) -> None:
    machine.behave(overwrite="crash")
    (machine.root / "sync-fails").write_text("overwrite")
    assert machine.run("--only", "fake--r01").returncode == 4
    found = machine.result
    assert found.reason is not None
    assert found.reason.code == "db-bench-failed"
    assert "ended with signal 11 in phase overwrite" in found.reason.message
    assert later(found) == ["sync failed (exit 1): Input/output error"]
    assert problems(machine.runs / "fake--r01") == []
    assert recompute.of_run(machine.runs / "fake--r01") == []


def test_a_run_that_cannot_be_judged_keeps_its_first_error(machine: Machine) -> None:
    machine.behave(overwrite="exit")
    (machine.root / "no-judge").touch()
    assert machine.run().returncode == 4
    for run in ("fake--r01", "fake--r02"):
        found = load_result(machine.runs / run)
        assert found.reason is not None
        assert (found.status, found.reason.code) == (Status.FAILED, "db-bench-failed")
        assert later(found) == ["RuntimeError: no judge"]
        assert "no judge" in (machine.runs / run / "raw" / "traceback.txt").read_text()
        assert problems(machine.runs / run) == []
        assert recompute.of_run(machine.runs / run) == []


def test_a_process_that_cannot_be_killed_keeps_the_claim(machine: Machine) -> None:
    machine.behave(overwrite="stuck")
    machine.change_phases(timeout_seconds=2)
    (machine.root / "unkillable").touch()
    zones = machine.root / "zones.json"
    done = machine.run()
    pid = int((machine.root / "started").read_text().split()[-1])
    try:
        assert done.returncode == 4, done.stderr
        assert f"(pid {pid}) does not end after SIGKILL" in done.stderr
        assert "hint: zonelab keeps its claim" in done.stderr
        found = machine.result
        assert found.reason is not None
        assert (found.status, found.reason.code) == (Status.FAILED, "hung")
        assert f"thread {pid} (" in (machine.runs / "fake--r01/raw/hung.txt").read_text()
        assert problems(machine.runs / "fake--r01") == []
        assert recompute.of_run(machine.runs / "fake--r01") == []
        # Nothing was cleared, released, taken down or started after it.
        assert last_event(machine) is JournalEvent.UP
        assert json.loads(zones.read_text()) != {}
        assert not (machine.root / "downs").exists()
        assert [path.name for path in machine.runs.iterdir()] == ["fake--r01"]
        progress = json.loads((machine.root / "state/campaigns/c/progress.json").read_text())
        assert progress["state"] == "failed"
        assert "does not end after SIGKILL" in progress["line"]

        (machine.root / "proc" / str(pid)).symlink_to(f"/proc/{pid}")
        again = machine.run()
        assert again.returncode == 2, again.stderr
        assert f"(pid {pid}) of an earlier run still hangs in the kernel" in again.stderr
        assert "reboot this machine" in again.stderr
        assert json.loads(zones.read_text()) != {}
    finally:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}/cwd").exists(), "the process is gone")
    machine.behave()
    (machine.root / "unkillable").unlink()
    for path in sorted((machine.root / "run").rglob("*"), reverse=True):  # no mount, but a folder
        if path.name != "hung.json":
            path.rmdir() if path.is_dir() else path.unlink()
    assert machine.run("--retry", "failed").returncode == 0
    assert last_event(machine) is JournalEvent.RELEASE
    assert not (machine.root / "run" / "hung.json").exists()


def test_a_stop_that_meets_a_hung_process_stays_a_stop_and_keeps_the_claim(
    machine: Machine,
) -> None:
    machine.behave(overwrite="stuck")
    (machine.root / "unkillable").touch()
    child = machine.start()
    started = machine.root / "started"
    until(lambda: started.exists() and "\noverwrite " in started.read_text(), "the overwrite")
    pid = int(started.read_text().split()[-1])
    try:
        child.send_signal(signal.SIGTERM)
        _, stderr = child.communicate(timeout=60)
        assert child.returncode == 130, stderr
        found = machine.result
        assert found.status is Status.ABORTED
        assert len(later(found)) == 1
        assert "does not end after SIGKILL" in later(found)[0]
        assert last_event(machine) is JournalEvent.UP
        assert (machine.root / "run" / "hung.json").exists()
    finally:
        os.kill(pid, signal.SIGKILL)
