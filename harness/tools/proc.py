"""Run programs: the only use of subprocess, with argument lists and a whitelisted environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.errors import HostError, TimedOut, ToolFailed

# Variables that a child inherits. LC_ALL makes output independent of the host's language.
_INHERIT = ("PATH", "HOME", "TERM", "SSH_AUTH_SOCK", "XDG_CACHE_HOME", "TMPDIR")
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended."""

    argv: tuple[str, ...]
    exit_code: int | None  # null: killed by a signal
    signal: int | None  # number of that signal
    seconds: float  # wall-clock duration
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
        ToolFailed: it exited non-zero or was killed by a signal, and ``check`` is set.
    """
    args = tuple(str(arg) for arg in argv)
    begin = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603 - argument list, no shell, whitelisted environment
            args,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment(env),
            cwd=cwd,
            check=False,
        )
    except FileNotFoundError:
        raise _not_installed(args[0]) from None
    except subprocess.TimeoutExpired:
        raise TimedOut(f"{args[0]} did not end within {timeout:g} s: {' '.join(args)}") from None
    result = completed(args, done.returncode, time.monotonic() - begin, done.stdout, done.stderr)
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
    an exception.

    Raises:
        HostError: the program is not installed.
        TimedOut: it did not end within ``timeout`` seconds and was killed.
    """
    args = tuple(str(arg) for arg in argv)
    begin = time.monotonic()
    lines: list[str] = []
    try:
        child = subprocess.Popen(  # noqa: S603 - as in run()
            args,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(env),
        )
    except FileNotFoundError:
        raise _not_installed(args[0]) from None
    watchdog = threading.Timer(timeout, child.kill)
    watchdog.start()
    try:
        assert child.stdout is not None and child.stderr is not None  # noqa: S101, PT018 - pipes
        for line in child.stderr:
            lines.append(line)
            on_line(line.rstrip("\n"))
        stdout = child.stdout.read()
        returncode = child.wait()
    finally:
        expired = not watchdog.is_alive()
        watchdog.cancel()
        child.kill()
        child.communicate()
    if expired:
        raise TimedOut(f"{args[0]} did not end within {timeout:g} s: {' '.join(args)}")
    return completed(args, returncode, time.monotonic() - begin, stdout, "".join(lines))


def spawn(
    argv: Sequence[str | Path],
    *,
    stdout: IO[bytes],
    stderr: IO[bytes] | int,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session; the caller waits for it.

    Raises:
        HostError: the program is not installed.
    """
    args = [str(arg) for arg in argv]
    try:
        return subprocess.Popen(  # noqa: S603 - as in run()
            args,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment(),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise _not_installed(args[0]) from None


def _not_installed(program: str) -> HostError:
    return HostError(
        f"{program} is not installed", hint="run the packages role", code="program-missing"
    )


def completed(
    argv: tuple[str, ...], returncode: int, seconds: float, stdout: str, stderr: str
) -> Completed:
    """Return the Completed for a POSIX return code; a negative one is a signal."""
    if returncode < 0:
        return Completed(argv, None, -returncode, seconds, stdout, stderr)
    return Completed(argv, returncode, None, seconds, stdout, stderr)


def failure(done: Completed) -> ToolFailed:
    """Return the error of a failed program, with the last line of its output."""
    how = f"exit {done.exit_code}"
    if done.signal is not None:
        how = f"killed by {signal.Signals(done.signal).name}"
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    tail = f": {lines[-1].strip()}" if lines else ""
    return ToolFailed(f"{Path(done.argv[0]).name} failed ({how}){tail}", hint=" ".join(done.argv))
