"""A phase's program as a process: its own process group and cgroup, ticks, a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.cleanup import cleaned
from harness.tools import proc
from harness.tools.virtual_clock import patience

_GRACE_SECONDS = 5  # from SIGTERM to SIGKILL


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """How a program ended. ``signal`` is set if one killed it.

    ``timed_out``: killed at its time limit. ``stalled``: killed because it made no progress.
    """

    exit_code: int | None
    signal: int | None
    seconds: float
    timed_out: bool
    stalled: bool

    @property
    def well(self) -> bool:
        """Whether the program ended by itself with status 0."""
        return self.exit_code == 0 and not (self.timed_out or self.stalled)


def command(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return a command that dies with this process, even if SIGKILL ends this process.

    ``env`` sets the variables after setpriv. A library to preload is then loaded once, by the
    program itself, which is in its own cgroup by then.
    """
    variables = [f"{name}={value}" for name, value in env.items()]
    return ["setpriv", "--pdeathsig", "KILL", "--", "env", *variables, *argv]


def run_program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    timeout: float,
    started: Callable[[int], None],
    tick: Callable[[float], None],
    tick_seconds: float,
    stalled: Callable[[float], bool],
    clock: Callable[[], float],
) -> ProgramExit:
    """Run a program to its end, or kill its process group at the time limit or after a stall.

    Args:
        argv: argument list.
        env: variables beyond the whitelisted environment.
        stdout: file for its output.
        stderr: file for its messages.
        timeout: seconds.
        started: called once with the process id.
        tick: called every ``tick_seconds`` with the seconds so far.
        tick_seconds: the time between two calls, on this machine's clock.
        stalled: called before each tick with the seconds so far; True ends the program.
        clock: monotonic seconds.

    Raises:
        HostError: it is not installed.
        Hung: it was killed and does not end.
    """
    begin = clock()
    with stdout.open("wb") as out, stderr.open("wb") as err:
        child = proc.spawn(command(argv, env), stdout=out, stderr=err)
    timed_out = gave_up = False
    with cleaned(lambda: _end(child), uses_device=False):
        started(child.pid)
        with proc.watched(child.pid) as ended:
            while not ended(tick_seconds):
                seconds = clock() - begin
                timed_out, gave_up = seconds > timeout, stalled(seconds)
                if timed_out or gave_up:
                    break
                tick(seconds)
    code = child.wait()
    exit_code, number = (code, None) if code >= 0 else (None, -code)
    return ProgramExit(exit_code, number, clock() - begin, timed_out, gave_up)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a program and its process group, unless it has ended; Hung if that fails."""
    if child.poll() is None:
        _kill(child.pid)
        proc.require_end(child)


def _kill(pid: int) -> None:
    """End a process group: SIGTERM first, then SIGKILL."""
    with proc.watched(pid) as ended, suppress(ProcessLookupError):  # it has just ended
        os.killpg(pid, signal.SIGTERM)
        ended(_GRACE_SECONDS * patience())
        os.killpg(pid, signal.SIGKILL)
