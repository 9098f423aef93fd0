"""Lock for one run at a time on a machine; the kernel releases it when the holder dies."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HostError


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold the lock inside the block. ``what`` describes the holder to other processes.

    Raises:
        HostError: another process holds it; the message names that process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HostError(
                f"another run is under way: {holder(path) or 'unknown'}",
                hint="zonelab status shows it; one run at a time keeps the numbers clean",
                code="locked",
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, json.dumps({"pid": os.getpid(), "what": what}).encode())
        yield
    finally:
        os.close(fd)


def is_held(path: Path) -> bool:
    """Return whether a live process holds the lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def holder(path: Path) -> str:
    """Return the last holder of the lock, '' if unknown."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return f"{data['what']} (pid {data['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
