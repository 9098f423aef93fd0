"""Machines on the instruction clock each have a processor of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.errors import HostError
from harness.rig import pinning, process

PRINT = "import os; print(sorted(os.sched_getaffinity(0)))"


@pytest.fixture
def one_free(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Let this host have one processor, which no machine has."""
    with pinning.reserved() as mine:
        number = mine.processor
    if number is None:
        pytest.skip("machines have all processors of this host")
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {number})
    yield number
    os.sched_setaffinity(0, allowed)


def test_two_machines_do_not_share_a_processor(one_free: int) -> None:
    with pinning.reserved() as first, pinning.reserved() as second:
        assert first.processor == one_free
        assert second == pinning.Reserved()
    with pinning.reserved() as again:
        assert again.processor == first.processor


def test_a_program_keeps_its_processor_until_it_ends(one_free: int, tmp_path: Path) -> None:
    code = f"{PRINT}; import sys, time; sys.stdout.flush(); time.sleep(60)"
    log = tmp_path / "log"
    child = process.start([sys.executable, "-c", code], cwd=tmp_path, log=log, one_processor=True)
    try:
        deadline = time.monotonic() + 30
        while not log.read_text().endswith("\n"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert log.read_text() == f"[{one_free}]\n"
        with pinning.reserved() as other:
            assert other == pinning.Reserved()
    finally:
        child.kill()
        child.wait()
    with pinning.reserved() as other:
        assert other.processor == one_free


def test_other_programs_use_all_processors(tmp_path: Path) -> None:
    with ExitStack() as stack:
        for _ in os.sched_getaffinity(0):
            stack.enter_context(pinning.reserved())
        log = tmp_path / "log"
        argv = [sys.executable, "-c", PRINT]
        for one_processor in (False, True):  # with none free, a machine is not pinned
            assert (
                process.start(argv, cwd=tmp_path, log=log, one_processor=one_processor).wait() == 0
            )
            assert log.read_text() == f"{sorted(os.sched_getaffinity(0))}\n"
            assert (
                subprocess.run(argv, check=True, capture_output=True, text=True).stdout
                == log.read_text()
            )


def test_a_processor_that_was_taken_away_is_named() -> None:
    before = os.sched_getaffinity(0)
    message = "QEMU cannot be bound to processor 1000: Invalid argument"
    with pytest.raises(HostError, match=message), pinning.bound(1000):
        pass
    assert os.sched_getaffinity(0) == before
    with pinning.bound(min(before)):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before
