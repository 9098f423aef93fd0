"""A setting that cannot hold the data is a result: skipped, with the arithmetic."""

from __future__ import annotations

import pytest

from harness.store.result import Status
from harness.store.rundir import load_result
from harness.store.spec import Bytes, Reason
from tests.runner.conftest import Machine

pytestmark = pytest.mark.slow  # every test starts the runner

RUN = "fake--r01"


def test_cells_that_the_plan_finds_infeasible_are_not_run(machine: Machine) -> None:
    machine.change_runs(infeasible=Reason("infeasible", "9 MiB do not fit 8 MiB", "less"))
    done = machine.run("--only", RUN)
    assert done.returncode == 0, done.stderr
    found = load_result(machine.runs / RUN)
    assert found.status is Status.SKIPPED
    assert found.reason == Reason("infeasible", "9 MiB do not fit 8 MiB", "less")
    assert not (machine.root / "started").exists()
    assert not (machine.root / "state" / "journal.jsonl").exists()  # nothing was claimed


def test_a_device_that_fills_up_is_the_answer_where_the_study_trades_room(machine: Machine) -> None:
    machine.behave(overwrite="full")
    machine.change_runs(factors={"finish_occupancy_pct": 0})
    done = machine.run("--only", RUN)
    assert done.returncode == 0, done.stderr
    found = load_result(machine.runs / RUN)
    assert found.status is Status.SKIPPED
    assert found.reason is not None
    assert found.reason.code == "infeasible"
    assert "no room left in phase overwrite" in found.reason.message
    assert "of 96 MiB" in found.reason.message  # 16 zones that hold 6 MiB


def test_a_database_that_waits_for_room_has_none(machine: Machine) -> None:
    machine.behave(overwrite="hang")
    machine.change_phases(stall_seconds=2, operations=1_000_000)
    machine.change_runs(factors={"target_utilisation": 0.8})
    assert machine.run("--only", RUN).returncode == 0
    found = load_result(machine.runs / RUN)
    assert found.status is Status.SKIPPED
    assert found.reason is not None
    assert "no room left in phase overwrite" in found.reason.message


def test_elsewhere_it_is_a_failure(machine: Machine) -> None:
    machine.behave(overwrite="full")
    assert machine.run("--only", RUN).returncode == 4
    assert load_result(machine.runs / RUN).status is Status.FAILED


def test_a_failure_for_another_reason_stays_a_failure(machine: Machine) -> None:
    machine.behave(overwrite="exit")
    machine.change_runs(factors={"finish_occupancy_pct": 0})
    assert machine.run("--only", RUN).returncode == 4
    assert load_result(machine.runs / RUN).status is Status.FAILED


def test_a_study_of_utilisation_asks_whether_the_peak_fits(machine: Machine) -> None:
    machine.change_cold(peak_bytes=Bytes(1 << 40))
    assert machine.run("--only", RUN).returncode == 0
    found = load_result(machine.runs / RUN)
    assert found.status is Status.SKIPPED
    assert found.reason is not None
    assert found.reason.code == "infeasible"
    assert "cold data and the database at its peak need" in found.reason.message
    machine.change_cold(peak_bytes=Bytes(found.manifest["level"]["fresh"]["free_bytes"]))
    assert machine.run("--only", "fake--r02").returncode == 0
    assert load_result(machine.runs / "fake--r02").status is Status.OK
