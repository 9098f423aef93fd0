"""Starting a program while signals arrive."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from harness.tools import proc, starting

SLEEP = ["sleep", "20"]  # a signal ends it, or the test waits
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Stopped(Exception):
    pass


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Raise Stopped for each signal; yield the signals that were handled."""
    numbers: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        numbers.append(number)
        raise Stopped

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[Any]]]:
    """Send this process the environment's signals inside Popen, once the child lives."""
    children: list[subprocess.Popen[Any]] = []
    real: Callable[..., subprocess.Popen[Any]] = subprocess.Popen

    def popen(argv: list[str], **options: Any) -> subprocess.Popen[Any]:
        children.append(real(argv, **options))
        for number in os.environ["SENT"].split():
            os.kill(os.getpid(), int(number))
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    yield children
    for child in children:
        child.kill()
        child.wait()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_the_start_ends_the_program(
    number: signal.Signals,
    handled: list[int],
    started: list[subprocess.Popen[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SENT", str(int(number)))
    handlers = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(Stopped):
        proc.run(SLEEP)
    assert handled == [number]
    assert started[0].wait(timeout=60) == -signal.SIGKILL
    assert [signal.getsignal(each) for each in SIGNALS] == handlers
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(SIGNALS)


def test_a_handler_that_returns_ends_nothing(
    started: list[subprocess.Popen[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENT", str(int(signal.SIGHUP)))
    seen: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _frame: seen.append(number))
    try:
        child = starting.start(SLEEP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert seen == [signal.SIGHUP]
    assert child is started[0]
    assert child.poll() is None


def test_two_signals_end_it_too_and_both_handlers_are_back(
    handled: list[int], started: list[subprocess.Popen[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENT", f"{int(signal.SIGTERM)} {int(signal.SIGINT)}")
    with pytest.raises(Stopped):
        starting.start(SLEEP)
    assert handled
    assert started[0].wait(timeout=60) == -signal.SIGKILL
    for number in SIGNALS:
        with pytest.raises(Stopped):
            signal.raise_signal(number)


def test_ignored_signals_stay_ignored_in_the_program() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = starting.start(["grep", "SigIgn", "/proc/self/status"], stdout=subprocess.PIPE)
        out, _ = child.communicate(timeout=60)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert int(out.split()[1], 16) & 1 << signal.SIGHUP - 1


def test_the_program_has_no_blocked_signal() -> None:
    out = proc.run(["grep", "SigBlk", "/proc/self/status"]).stdout
    assert int(out.split()[1], 16) == 0


def test_other_threads_start_programs_too() -> None:
    codes: list[int | None] = []
    thread = threading.Thread(target=lambda: codes.append(proc.run(["true"]).exit_code))
    thread.start()
    thread.join()
    assert codes == [0]
