"""The completed share of a phase, and detection of a stall."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.run.stall import PhaseProgress
from harness.store.spec import PhaseRole, PhaseSpec


def spec(operations: int | None = 100, stall_seconds: int = 10, **flags: int) -> PhaseSpec:
    measured = PhaseRole.MEASURED
    return PhaseSpec("p", "overwrite", measured, flags, operations, 8, False, 60, stall_seconds)


def report(path: Path, *operations: int) -> Path:
    rows = "".join(f"{second},{count}\n" for second, count in enumerate(operations, 1))
    path.write_text("secs_elapsed,interval_qps\n" + rows)
    return path


def test_the_share_is_of_the_operations_wanted(tmp_path: Path) -> None:
    progress = PhaseProgress(report(tmp_path / "r", 10, 15), spec())
    assert not progress.stalled(2)
    assert progress.share(2) == 0.25


def test_a_timed_phase_goes_by_its_time(tmp_path: Path) -> None:
    progress = PhaseProgress(tmp_path / "none", spec(None, duration=30))
    assert progress.share(15) == 0.5


def test_no_operation_for_too_long_is_a_stall(tmp_path: Path) -> None:
    progress = PhaseProgress(report(tmp_path / "r", 10), spec())
    assert [progress.stalled(second) for second in (1, 11, 12)] == [False, False, True]


def test_one_operation_is_enough_to_go_on(tmp_path: Path) -> None:
    progress = PhaseProgress(report(tmp_path / "r", 10), spec())
    assert not progress.stalled(1)
    report(tmp_path / "r", 10, 0, 1)
    assert not progress.stalled(12)
    assert progress.stalled(23)


@pytest.mark.parametrize(
    ("operations", "wanted"),
    [((), spec()), ((0, 0), spec()), ((60, 40), spec()), ((10,), spec(stall_seconds=0))],
    ids=["no-report", "opening", "closing", "switched-off"],
)
def test_that_is_no_stall(tmp_path: Path, operations: tuple[int, ...], wanted: PhaseSpec) -> None:
    path = report(tmp_path / "r", *operations) if operations else tmp_path / "none"
    progress = PhaseProgress(path, wanted)
    assert not progress.stalled(2)
    assert not progress.stalled(500)
