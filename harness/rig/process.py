"""Start, watch and stop programs that outlive a call; locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HostError
from harness.rig import pinning
from harness.rig.talk import Talk
from harness.tools import proc, starting

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its pid, and its start in clock ticks since boot, in case the pid is recycled."""

    pid: int
    began: int


def identify(pid: int, root: Path = _PROC) -> Process | None:
    """Return the live process with this pid, or None; a zombie is not alive."""
    try:
        text = (root / str(pid) / "stat").read_text()
    except OSError:
        return None
    # proc_pid_stat(5): the name in brackets can hold spaces; state is field 3, starttime field 22
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else Process(pid, int(fields[19]))


def alive(process: Process) -> bool:
    """Whether this very process still runs."""
    return identify(process.pid) == process


def stop(process: Process, grace: float = 10.0) -> None:
    """Send SIGTERM, wait, send SIGKILL; a process with a recycled pid gets neither."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not alive(process):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        if wait_gone(process, grace):
            return
    raise HostError(f"process {process.pid} does not end", hint=f"kill -9 {process.pid}")


def wait_gone(process: Process, seconds: float) -> bool:
    """Wait until a process has ended; return whether it has."""
    deadline = time.monotonic() + seconds
    while alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def start(
    argv: Sequence[str], *, cwd: Path, log: Path, one_processor: bool
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, so that ^C in the terminal does not reach it."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(log.open("wb"))
        on = stack.enter_context(pinning.reserved()) if one_processor else pinning.Reserved()
        stack.enter_context(pinning.bound(on.processor))
        return proc.spawn(argv, stdout=file, stderr=subprocess.STDOUT, cwd=cwd, files=on.files)


def stream(
    argv: Sequence[str],
    log: Path,
    talk: Talk,
    *,
    timeout: float,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
) -> None:
    """Run a program, append its output to a log, and print the steps that mmdebstrap announces.

    Raises:
        HostError: the program is not installed.
        ToolFailed: the program failed, was killed, or took longer than ``timeout`` seconds.
    """
    passed = {key: os.environ[key] for key in ("http_proxy", "https_proxy") if key in os.environ}
    env = {"TMPDIR": "/var/tmp", **passed}  # noqa: S108 - /tmp may be memory
    try:
        child = starting.start(
            list(argv),
            stdin=stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.STDOUT if stdout is None else subprocess.PIPE,
            env=proc.environment(env),
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise HostError(
            f"{argv[0]} is not installed", hint="zonelab rig build names the packages"
        ) from None
    watchdog = threading.Timer(timeout, os.killpg, (child.pid, signal.SIGTERM))
    watchdog.start()
    last = ""
    try:
        with log.open("a") as file:
            for line in (child.stdout or child.stderr) or ():
                file.write(line)
                last = line.strip() or last
                if line.startswith("I: ") and line.endswith("...\n") and "/" not in line:
                    talk.say(line[3:].strip())
        child.wait()
    finally:
        watchdog.cancel()
        if child.poll() is None:  # interrupted: end the whole group; mmdebstrap then cleans up
            os.killpg(child.pid, signal.SIGTERM)
            child.communicate()  # keep reading: the program blocks when its pipe is full
    if child.returncode:
        done = proc.completed(tuple(argv[:1]), child.returncode, "", last)
        error = proc.failure(done)
        error.hint = f"read {log}"
        raise error


@contextlib.contextmanager
def workspace(folder: Path, prefix: str) -> Iterator[Path]:
    """Make a folder in ``folder``; what is still there after the block is removed.

    The caller holds a lock, so older folders with the prefix are of killed processes. A program of
    such a process may still write there, so the new folder has a new name.
    """
    for left in folder.glob(f"{prefix}*.partial"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=prefix, suffix=".partial", dir=folder))
    work.chmod(0o755)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, talk: Talk, holder: str) -> Iterator[None]:
    """Hold an exclusive lock, which the kernel releases however this process ends.

    ``holder`` describes the other process when there is one to wait for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            talk.say(f"waiting for {holder}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
