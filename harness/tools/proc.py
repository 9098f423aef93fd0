"""Run programs: argument lists, no shell, a whitelisted environment."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness import cleanup
from harness.errors import HostError, Hung, TimedOut, ToolFailed
from harness.tools import kernel_stack, starting
from harness.tools.virtual_clock import patience

# Variables that a child inherits. LC_ALL makes output independent of the host's language.
_INHERIT = ("PATH", "HOME", "TERM", "SSH_AUTH_SOCK", "XDG_CACHE_HOME", "TMPDIR")
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
# Number of active `shielded` blocks, whose programs ^C does not reach.
_shields = 0
# After so many seconds without a line, the reader of a program's progress is asked.
_SILENT_SECONDS = 10.0
# Seconds from SIGKILL to the end. The NVMe driver waits 30 s for a command, then aborts it, then
# resets the controller, each with a limit of 30 s. The kernel reports a hung task after 120 s.
_END_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended."""

    argv: tuple[str, ...]
    exit_code: int | None  # null: killed by a signal
    signal: int | None  # number of that signal
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether it exited with status 0."""
        return self.exit_code == 0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: whitelisted variables, sbin on PATH, language C."""
    env = {name: os.environ[name] for name in _INHERIT if name in os.environ}
    env["PATH"] = f"{env.get('PATH', '/usr/bin:/bin')}:{_SBIN}"
    env["LC_ALL"] = "C.UTF-8"
    env.update(extra or {})
    return env


@contextmanager
def shielded() -> Iterator[None]:
    """Keep ^C from programs that start in the block: they get their own process group.

    They cannot read from the terminal either.
    """
    global _shields  # noqa: PLW0603 - of the process, as its signals are
    _shields += 1
    try:
        yield
    finally:
        _shields -= 1


def which(program: str) -> Path | None:
    """Return the path of ``program`` on the PATH of children, which has sbin, or None."""
    path = shutil.which(program, path=environment()["PATH"])
    return Path(path) if path else None


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    check: bool = True,
) -> Completed:
    """Run a program to its end and capture its output.

    Raises:
        HostError: the program is not installed.
        TimedOut: it did not end within ``timeout`` seconds and was killed.
        Hung: it was killed and does not end.
        ToolFailed: it exited non-zero or was killed by a signal, and ``check`` is set.
    """
    args = tuple(str(arg) for arg in argv)
    timeout = None if timeout is None else timeout * patience()
    child = _start(args, env=env, cwd=cwd, stdin=None if stdin is None else subprocess.PIPE)
    try:
        out, err = child.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        end(child)
        raise _timed_out(args, timeout) from None
    except BaseException as error:
        cleanup.after(error, lambda: end(child), uses_device=False)
        raise
    result = completed(args, child.returncode, out, err)
    if check and not result.ok:
        raise failure(result)
    return result


def stream(
    argv: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Run a program that prints its progress on stderr; pass each line to ``on_line``.

    stdout is read at the end, so it must stay small. The program is killed if ``on_line`` raises
    an exception. ``on_line`` receives '' after each ten seconds of silence, so that it can end a
    program that makes no progress.

    Raises:
        HostError: the program is not installed.
        TimedOut: it did not end within ``timeout`` seconds and was killed.
        Hung: it was killed and does not end.
    """
    args = tuple(str(arg) for arg in argv)
    timeout *= patience()
    begin = time.monotonic()
    lines: list[str] = []
    child = _start(args, env=env)
    try:
        assert child.stderr is not None  # noqa: S101 - a pipe
        for line in _lines(child.stderr.fileno(), begin + timeout):
            if line:
                lines.append(line)
            on_line(line)
        stdout, _ = child.communicate(timeout=max(begin + timeout - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        end(child)
        raise _timed_out(args, timeout) from None
    except BaseException as error:
        cleanup.after(error, lambda: end(child), uses_device=False)
        raise
    return completed(args, child.returncode, stdout, "".join(f"{x}\n" for x in lines))


def _lines(descriptor: int, deadline: float) -> Iterator[str]:
    """Yield lines from a pipe, '' in silence; raise subprocess.TimeoutExpired at the deadline."""
    waiter = select.poll()
    waiter.register(descriptor, select.POLLIN)
    rest, longest = b"", _SILENT_SECONDS * patience()
    while (left := deadline - time.monotonic()) > 0:
        if not waiter.poll(min(left, longest) * 1000):
            yield ""
            continue
        data = os.read(descriptor, 1 << 16)
        *whole, rest = re.split(rb"\r\n?|\n", rest + data)
        for line in whole if data or not rest else [*whole, rest]:
            yield line.decode(errors="replace")
        if not data:
            return
    raise subprocess.TimeoutExpired("", 0)


def _start(
    args: tuple[str, ...],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None = None,
    stdin: int | None = None,
) -> subprocess.Popen[str]:
    """Start a program with pipes for its output."""
    try:
        return starting.start(
            args,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(env),
            cwd=cwd,
            process_group=0 if _shields else None,
        )
    except FileNotFoundError:
        raise _not_installed(args[0]) from None


def end(child: subprocess.Popen[Any]) -> None:
    """Kill a program, wait for its end and close its pipes.

    Raises:
        Hung: it does not end.
    """
    child.kill()
    require_end(child)
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


@contextmanager
def watched(pid: int) -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for a process up to some seconds; it returns whether it ended.

    It does not reap the process, and does not poll as Popen.wait(timeout) does.
    """
    descriptor = os.pidfd_open(pid)
    try:
        waiter = select.poll()
        waiter.register(descriptor, select.POLLIN)
        yield lambda seconds: bool(waiter.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def require_end(child: subprocess.Popen[Any]) -> None:
    """Wait until a killed program has ended; the caller still has to reap it.

    SIGKILL does not end a process that waits uninterruptibly in the kernel, for example for a
    drive that does not answer.

    Raises:
        Hung: it has not ended after two minutes.
    """
    if child.returncode is not None:
        return
    with watched(child.pid) as ended:
        if ended(_END_SECONDS * patience()):
            return
    stacks = kernel_stack.stacks(child.pid)
    raise Hung(
        f"{kernel_stack.name(child.pid)} (pid {child.pid}) does not end after SIGKILL: it waits in "
        f"the kernel ({kernel_stack.waits(stacks) or 'unknown function'})",
        stacks=stacks,
        pid=child.pid,
        start=kernel_stack.start(child.pid),
    )


def spawn(
    argv: Sequence[str | Path],
    *,
    stdout: IO[bytes],
    stderr: IO[bytes] | int,
    cwd: Path | None = None,
    files: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in its own session; the caller waits for it.

    The program inherits the open ``files``.

    Raises:
        HostError: the program is not installed.
    """
    args = [str(arg) for arg in argv]
    try:
        return starting.start(
            args,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=environment(),
            pass_fds=files,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise _not_installed(args[0]) from None


def _not_installed(program: str) -> HostError:
    return HostError(
        f"{program} is not installed", hint="run the packages role", code="program-missing"
    )


def _timed_out(args: Sequence[str], timeout: float | None) -> TimedOut:
    return TimedOut(f"{args[0]} did not end within {timeout:g} s: {' '.join(args)}")


def completed(argv: tuple[str, ...], returncode: int, stdout: str, stderr: str) -> Completed:
    """Return the Completed for a POSIX return code; a negative one is a signal."""
    if returncode < 0:
        return Completed(argv, None, -returncode, stdout, stderr)
    return Completed(argv, returncode, None, stdout, stderr)


def failure(done: Completed) -> ToolFailed:
    """Return the error of a failed program, with the last line of its output."""
    how = f"exit {done.exit_code}"
    if done.signal is not None:
        how = f"killed by {signal.Signals(done.signal).name}"
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    tail = f": {lines[-1].strip()}" if lines else ""
    return ToolFailed(f"{Path(done.argv[0]).name} failed ({how}){tail}", hint=" ".join(done.argv))
