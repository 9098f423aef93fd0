"""Processes that SIGKILL does not end: every wait for a child has a bound, and names the cause."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ExitCode, HostError, Hung
from harness.machine.paths import Paths
from harness.run import hung, load_process
from harness.tools import kernel_stack, proc
from tests.fixtures.waiting import until
from tests.runner.fakes import FakeHost, make_machine

# The freezer of cgroup v1 puts a process into state D, out of reach of SIGKILL, like a drive that
# never answers.
FREEZER = Path("/sys/fs/cgroup/freezer")

# Captured on Linux 6.18 on 2026-11-23 from `sleep 100` in a frozen cgroup, after SIGKILL.
STAT = "11487 (sleep) D 11474 11474 19118 0 -1 4194304 125 0 0 0 0 0 0 0 20 0 1 0 166432 5713920"
STACK = """[<0>] hrtimer_nanosleep+0x74/0xf0
[<0>] common_nsleep+0x30/0x60
[<0>] __x64_sys_clock_nanosleep+0xce/0x140
[<0>] do_syscall_64+0x71/0x280
[<0>] entry_SYSCALL_64_after_hwframe+0x76/0x7e
"""


def group() -> Path:
    """Return this process's group of the freezer."""
    return FREEZER / f"zonelab-test-{os.getpid()}"


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return a command that freezes itself; it ends after the test."""
    if not os.access(FREEZER, os.W_OK):
        pytest.skip("no writable cgroup v1 freezer")
    group().mkdir()
    monkeypatch.setattr(proc, "_END_SECONDS", 0.2)
    processes, state = group() / "cgroup.procs", group() / "freezer.state"
    try:
        yield [
            "sh",
            "-c",
            f"echo begun >&2; echo $$ > {processes}; echo FROZEN > {state}; sleep 60",
        ]
    finally:
        pids = processes.read_text().split()
        state.write_text("THAWED")
        for pid in map(int, pids):
            os.waitpid(pid, 0)
        until(lambda: not processes.read_text(), "the group is empty")
        group().rmdir()


def run(argv: list[str], _folder: Path) -> None:
    proc.run(argv, timeout=0.5)


def stream(argv: list[str], _folder: Path) -> None:
    proc.stream(argv, lambda _: None, timeout=0.5)


def interrupted_stream(argv: list[str], _folder: Path) -> None:
    def on_line(_: str) -> None:
        until(lambda: (group() / "freezer.state").read_text() == "FROZEN\n", "it is frozen")
        raise KeyboardInterrupt

    proc.stream(argv, on_line, timeout=60)


def load(argv: list[str], folder: Path) -> None:
    load_process.run_program(
        argv,
        env={},
        stdout=folder / "out",
        stderr=folder / "err",
        timeout=0.5,
        started=lambda _: None,
        tick=lambda _: None,
        tick_seconds=0.1,
        stalled=lambda _: False,
        clock=time.monotonic,
    )


@pytest.mark.slow
@pytest.mark.parametrize("wait", [run, stream, load], ids=lambda wait: wait.__name__)
def test_a_frozen_program_is_given_up_and_named(
    stuck: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wait: Callable[[list[str], Path], None],
) -> None:
    monkeypatch.setattr(load_process, "_GRACE_SECONDS", 0.2)
    with pytest.raises(
        Hung, match=r"^sh \(pid \d+\) does not end after SIGKILL: it waits"
    ) as caught:
        wait(stuck, tmp_path)
    error = caught.value
    assert error.exit_code is ExitCode.RUNS_FAILED
    assert error.code == "hung"
    assert f"thread {error.pid} (sh): state D, in " in error.stacks
    assert kernel_stack.start(error.pid) == error.start > 0
    assert kernel_stack.waits(error.stacks) in error.message


@pytest.mark.slow
def test_the_end_of_the_line_reader_is_bounded_too(stuck: list[str], tmp_path: Path) -> None:
    """The first error stays; the hang is a later one."""
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_stream(stuck, tmp_path)
    assert [type(error) for error in vars(caught.value)["zonelab_later"]] == [Hung]


def test_a_kill_without_effect_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "_END_SECONDS", 0.05)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess.Popen, "kill", lambda _: None)
        with pytest.raises(Hung, match="does not end after SIGKILL") as caught:
            proc.run(["sleep", "60"], timeout=0.05)
    os.kill(caught.value.pid, 9)
    os.waitpid(caught.value.pid, 0)


def test_a_program_that_is_killed_ends_in_time() -> None:
    child = subprocess.Popen(["sleep", "60"])
    proc.end(child)
    assert child.returncode == -9


def captured(root: Path, pid: int = 11487) -> Path:
    for task in (f"{pid}", f"{pid}/task/{pid}"):
        folder = root / task
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(STAT)
        (folder / "wchan").write_text("hrtimer_nanosleep")
        (folder / "stack").write_text(STACK)
    return root


def test_stacks_name_thread_state_and_place(tmp_path: Path) -> None:
    text = kernel_stack.stacks(11487, captured(tmp_path))
    assert text.splitlines()[:2] == [
        "thread 11487 (sleep): state D, in hrtimer_nanosleep",
        "  [<0>] hrtimer_nanosleep+0x74/0xf0",
    ]
    assert kernel_stack.waits(text) == "hrtimer_nanosleep"
    assert kernel_stack.name(11487, tmp_path) == "sleep"
    assert kernel_stack.start(11487, tmp_path) == 166432


def test_a_process_is_gone_when_all_of_its_threads_have_ended(tmp_path: Path) -> None:
    """An orphan stays as a zombie until init reaps it."""
    threads = captured(tmp_path) / "11487/task"
    assert kernel_stack.alive(kernel_stack.stacks(11487, tmp_path))
    (threads / "11487/stat").write_text(STAT.replace(") D", ") Z"))
    assert not kernel_stack.alive(kernel_stack.stacks(11487, tmp_path))
    (threads / "11488").mkdir()
    (threads / "11488/stat").write_text(STAT.replace("11487 (", "11488 ("))
    assert kernel_stack.alive(kernel_stack.stacks(11487, tmp_path))
    assert not kernel_stack.alive(kernel_stack.stacks(4, tmp_path))


def test_threads_that_sleep_are_no_cause(tmp_path: Path) -> None:
    stat = captured(tmp_path) / "11487/task/11487/stat"
    stat.write_text(STAT.replace(") D", ") S"))
    assert kernel_stack.waits(kernel_stack.stacks(11487, tmp_path)) == ""
    assert kernel_stack.stacks(4, tmp_path) == ""
    assert kernel_stack.start(4, tmp_path) == 0


# --- the next start ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "state", "where"),
    [
        ({}, "D", "hrtimer_nanosleep"),
        ({}, "S", "unknown function"),
        ({}, "Z", None),
        ({"boot_id": "of the boot before"}, "D", None),
        ({"start": 166433}, "D", None),  # another process has its number
        ({"pid": 4}, "D", None),
        ({"pid": 4, "start": 0}, "D", None),
    ],
)
def test_a_start_waits_for_the_end_of_a_process_that_hangs(
    tmp_path: Path, changes: dict[str, Any], state: str, where: str | None
) -> None:
    make_machine(tmp_path)
    host, paths = FakeHost(tmp_path), Paths(tmp_path / "state", tmp_path / "run")
    threads = captured(tmp_path / "proc") / "11487"
    for stat in (threads / "stat", threads / "task/11487/stat"):
        stat.write_text(STAT.replace(") D", f") {state}"))
    hung.require_gone(host, paths)  # nothing is noted
    hung.note(host, paths, Hung("sync hangs", stacks="", pid=11487, start=166432))
    file = paths.runtime / "hung.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    if where is None:
        hung.require_gone(host, paths)
        assert not file.exists()
        return
    for _ in range(2):
        with pytest.raises(HostError, match=rf"^sleep \(pid 11487\) .*\({where}\)$") as caught:
            hung.require_gone(host, paths)
        assert caught.value.code == "hung"


def test_the_newest_hang_is_noted_in_a_folder_that_may_not_exist_yet(tmp_path: Path) -> None:
    make_machine(tmp_path)
    host, paths = FakeHost(tmp_path), Paths(tmp_path / "state", tmp_path / "new" / "run")
    for pid in (11487, 11488):
        hung.note(host, paths, Hung("sync hangs", stacks="", pid=pid, start=166432))
    assert json.loads((paths.runtime / "hung.json").read_text())["pid"] == 11488
