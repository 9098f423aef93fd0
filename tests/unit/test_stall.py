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


def follow(report: Path, wanted: PhaseSpec | None = None) -> PhaseProgress:
    return PhaseProgress(report, report.with_suffix(".stdout"), wanted or spec())


def test_the_share_is_of_the_operations_wanted(tmp_path: Path) -> None:
    progress = follow(report(tmp_path / "r", 10, 15))
    assert not progress.stalled(2)
    assert progress.share(2) == 0.25


def test_a_timed_phase_goes_by_its_time(tmp_path: Path) -> None:
    progress = follow(tmp_path / "none", spec(None, duration=30))
    assert progress.share(15) == 0.5


def test_no_operation_for_too_long_is_a_stall(tmp_path: Path) -> None:
    progress = follow(report(tmp_path / "r", 10))
    assert [progress.stalled(second) for second in (1, 11, 12)] == [False, False, True]


def test_one_operation_is_enough_to_go_on(tmp_path: Path) -> None:
    progress = follow(report(tmp_path / "r", 10))
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
    progress = follow(path, wanted)
    assert not progress.stalled(2)
    assert not progress.stalled(500)


@pytest.mark.parametrize(("ended", "stalls"), [(25, False), (12, True)])
def test_the_close_after_a_timed_phase_is_no_stall(
    tmp_path: Path, ended: int, stalls: bool
) -> None:
    """The phase lasts 30 s from its first operation on; operations are missed for 10 s of them."""
    progress = follow(tmp_path / "r", spec(None, duration=30))
    for second in range(1, ended + 1):
        report(tmp_path / "r", *[5] * second)
        assert not progress.stalled(second)
    assert progress.stalled(500) == stalls


@pytest.mark.parametrize("printed", ["overwrite", "fillrandom", ""])
def test_the_close_after_operations_that_the_report_lacks_is_no_stall(
    tmp_path: Path, printed: str
) -> None:
    """A thread that reports on stderr prints no line for its last operations."""
    progress = follow(report(tmp_path / "r", 60, 39))
    assert not progress.stalled(2)
    if printed:
        line = f"{printed:<12} :       6.201 micros/op 161259 ops/sec 0.001 seconds 100 operations;"
        (tmp_path / "r.stdout").write_text(line + "\n")
    assert progress.stalled(500) == (printed != "overwrite")
