"""db_bench while it runs: its own process group and cgroup, a tick each second, a time limit."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.tools import proc

_GRACE_SECONDS = 5  # from SIGTERM to SIGKILL
_TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended; ``signal`` is set when one killed it.

    ``stalled``: killed because it got nowhere, ``timed_out``: at its time limit.
    """

    exit_code: int | None
    signal: int | None
    seconds: float
    timed_out: bool
    stalled: bool


def run_program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    timeout: float,
    started: Callable[[int], None],
    tick: Callable[[float], None],
    stalled: Callable[[float], bool],
    clock: Callable[[], float],
) -> Ended:
    """Run a program to its end, or kill its process group at the time limit or when it is stalled.

    It dies with this process, also when this process is killed by SIGKILL (setpriv --pdeathsig).

    Args:
        argv: argument list.
        env: what it needs beyond the whitelisted environment.
        stdout: file that gets its output.
        stderr: file that gets its messages.
        timeout: seconds.
        started: called once with the process id.
        tick: called about once a second with the seconds so far.
        stalled: asked as often, with the same; True ends the program.
        clock: monotonic seconds.

    Raises:
        HostError: it is not installed.
    """
    begin = clock()
    # env sets the variables behind setpriv: a library to preload is then loaded once, and on the
    # account of the program, which is in its own cgroup by that time.
    variables = [f"{name}={value}" for name, value in env.items()]
    wrapped = ["setpriv", "--pdeathsig", "KILL", "--", "env", *variables, *argv]
    with stdout.open("wb") as out, stderr.open("wb") as err:
        child = proc.spawn(wrapped, stdout=out, stderr=err)
    timed_out = gave_up = False
    try:
        started(child.pid)
        descriptor = os.pidfd_open(child.pid)  # waits without the polling of Popen.wait(timeout)
        try:
            waiter = select.poll()
            waiter.register(descriptor, select.POLLIN)
            while not waiter.poll(_TICK_SECONDS * 1000):
                seconds = clock() - begin
                timed_out, gave_up = seconds > timeout, stalled(seconds)
                if timed_out or gave_up:
                    break
                tick(seconds)
        finally:
            os.close(descriptor)
    finally:
        if child.poll() is None:
            _kill(child.pid)
        code = child.wait()
    seconds = clock() - begin
    if code < 0:
        return Ended(None, -code, seconds, timed_out, gave_up)
    return Ended(code, None, seconds, timed_out, gave_up)


def _kill(pid: int) -> None:
    """End a process group: politely, then for certain."""
    descriptor = os.pidfd_open(pid)
    try:
        os.killpg(pid, signal.SIGTERM)
        waiter = select.poll()
        waiter.register(descriptor, select.POLLIN)
        waiter.poll(_GRACE_SECONDS * 1000)
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself meanwhile
    finally:
        os.close(descriptor)
