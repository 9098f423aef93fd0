"""Lock for one run at a time on a machine; the kernel releases it when the holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HostError

_FLOCK = struct.Struct("@hhqqi4x")  # struct flock of fcntl(2): type, whence, start, length, pid
_WHOLE_FILE = (0, 0, 0, 0)


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold the lock inside the block. ``what`` describes the holder to other processes.

    Raises:
        HostError: another process holds it; the message names that process.
    """
    fd = _open(path)
    try:
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, *_WHOLE_FILE))
        except BlockingIOError:
            raise HostError(
                f"another run is under way: {holder(path) or 'unknown'}",
                hint="wait for its end: zonelab status shows it",
                code="locked",
            ) from None
        os.ftruncate(fd, 0)
        record = {"pid": os.getpid(), "what": what, "command": shlex.join(sys.orig_argv)}
        record |= {"host": os.uname().nodename, "since": _seconds()}
        os.write(fd, json.dumps(record).encode())
        yield
    finally:
        os.close(fd)


def is_held(path: Path) -> bool:
    """Return whether a live process holds the lock, without taking it.

    Only root can ask; to others it counts as held, so that no work is reported as lost.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return True
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, *_WHOLE_FILE))
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(fd)


def holder(path: Path) -> str:
    """Describe the last holder of the lock: process, host, age of its lock; '' if unknown."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        minutes = int(_seconds() - data["since"]) // 60
        span = f"{minutes // 60} h {minutes % 60} min"
        return f"{data['what']} (pid {data['pid']} on {data['host']} for {span}: {data['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _seconds() -> float:
    """Return seconds since boot. The lock's file does not survive a restart."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _open(path: Path) -> int:
    """Open the file of the lock. A user that can open it can also lock it, so only root may."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", hint="run as root") from None
    for status in (path.parent.lstat(), os.fstat(fd)):
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            os.close(fd)
            raise HostError(
                f"other users can open {path} and hold the lock of this machine",
                hint=f"rm -r {path.parent} while no zonelab runs",
                code="lock-open",
            )
    return fd
