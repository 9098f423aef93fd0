"""CPU time of a program's threads, by name."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import pytest

from harness.observe.threads import COMPACTION, FLUSH, ThreadUse, ThreadWatch

# Synthetic: after proc_pid_stat(5). A name may have spaces and parentheses.
STAT = "{tid} ({name}) S 1 7 7 0 -1 4194304 11 12 13 14 {user} {system} 0 0 20 0 4 0 99 1000 50\n"
TICK = os.sysconf("SC_CLK_TCK")


def task(proc: Path, tid: int, name: str, user: int, system: int) -> Path:
    folder = proc / "7" / "task" / str(tid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(STAT.format(tid=tid, name=name, user=user, system=system))
    return folder


def watch_of(proc: Path) -> ThreadWatch:
    watch = ThreadWatch(proc)
    watch.begin(7)
    return watch


def test_threads_of_one_name_are_added(tmp_path: Path) -> None:
    watch = watch_of(tmp_path)
    task(tmp_path, 7, "a (b) S 1", 1, 2)
    task(tmp_path, 8, COMPACTION, 10 * TICK, 5 * TICK)
    task(tmp_path, 9, COMPACTION, TICK, 0)
    watch.look()
    assert watch.use == {
        "a (b) S 1": ThreadUse(1, 3 / TICK),
        COMPACTION: ThreadUse(2, 16.0),
    }


def test_the_last_look_counts_and_threads_may_end_or_get_a_name(tmp_path: Path) -> None:
    watch = watch_of(tmp_path)
    ended = task(tmp_path, 8, FLUSH, TICK, TICK)
    task(tmp_path, 9, "db_bench", 1, 0)
    watch.look()
    (ended / "stat").unlink()
    task(tmp_path, 9, FLUSH, 3 * TICK, 0)
    watch.look()
    assert watch.use == {FLUSH: ThreadUse(2, 5.0)}


def test_a_program_that_is_gone_has_no_threads(tmp_path: Path) -> None:
    watch = watch_of(tmp_path)
    watch.look()
    assert watch.use == {}


@pytest.mark.parametrize(("seconds", "share"), [(10.0, 0.75), (0.0, None), (None, None)])
def test_a_share_is_of_the_time_of_all(seconds: float | None, share: float | None) -> None:
    assert ThreadUse(2, 15.0).share(seconds) == share


def test_a_thread_of_the_kernel_s(tmp_path: Path) -> None:
    """The real format: a thread of this process that computes."""
    stop = threading.Event()

    def compute() -> None:
        ctypes.CDLL(None).prctl(15, b"computes-here", 0, 0, 0)  # PR_SET_NAME
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        watch, limit = ThreadWatch(), time.monotonic() + 60
        watch.begin(os.getpid())
        while watch.use.get("computes-here", ThreadUse(0, 0)).seconds < 0.1:
            assert time.monotonic() < limit
            watch.look()
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
    assert watch.use["computes-here"].threads == 1
