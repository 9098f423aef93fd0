"""Hardware counters of a cgroup by perf_event_open(2): retired instructions.

Emulation and guests without a PMU have no counter; the metric is null there.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.store.files import descriptor

_ONLINE = Path("/sys/devices/system/cpu/online")
# linux/perf_event.h
_HARDWARE, _INSTRUCTIONS = 0, 1
_FORMAT_TOTAL_TIME_ENABLED, _FORMAT_TOTAL_TIME_RUNNING = 1, 2
_FLAG_PID_CGROUP, _FLAG_FD_CLOEXEC = 1 << 2, 1 << 3
_SYSCALL = {"x86_64": 298, "aarch64": 241}
# struct perf_event_attr up to and with bp_len: PERF_ATTR_SIZE_VER0.
_ATTR = struct.Struct("=IIQQQQQII Q")
_COUNT = struct.Struct("=QQQ")


class Counter:
    """One event of one cgroup, summed over all CPUs; it counts from the moment it is opened."""

    def __init__(self, files: Sequence[int]) -> None:
        self._files = files

    def read(self) -> int | None:
        """Return the count so far, or None if an enabled event never ran on some CPU.

        Events that share a PMU with others are scaled by the time in which they ran.
        """
        total = 0.0
        for file in self._files:
            value, enabled, running = _COUNT.unpack(os.read(file, _COUNT.size))
            if enabled and not running:
                return None
            total += value * enabled / running if running else 0
        return round(total)

    def close(self) -> None:
        """Stop counting."""
        for file in self._files:
            os.close(file)
        self._files = ()


def instructions(group: Path | None) -> Counter | None:
    """Return a counter of the instructions that a cgroup retires, or None if there is none."""
    return None if group is None else count(group, _HARDWARE, _INSTRUCTIONS)


def count(group: Path, kind: int, event: int) -> Counter | None:
    """Open an event (``PERF_TYPE_…``, ``PERF_COUNT_…``) of a cgroup on each CPU, or return None."""
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        return None
    files: list[int] = []
    try:
        online = processors(_ONLINE.read_text())
        with descriptor(group, os.O_RDONLY | os.O_DIRECTORY) as folder:
            files.extend(_open(number, kind, event, folder, cpu) for cpu in online)
    except OSError:  # no PMU, not allowed, or no such cgroup
        Counter(files).close()
        return None
    return Counter(files)


def processors(text: str) -> Iterator[int]:
    """Read the kernel's list format: ``0-3,8,10-11``."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _open(number: int, kind: int, event: int, folder: int, cpu: int) -> int:
    times = _FORMAT_TOTAL_TIME_ENABLED | _FORMAT_TOTAL_TIME_RUNNING
    attr = _ATTR.pack(kind, _ATTR.size, event, 0, 0, times, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    file: int = libc.syscall(
        number, attr, folder, cpu, -1, ctypes.c_ulong(_FLAG_PID_CGROUP | _FLAG_FD_CLOEXEC)
    )
    if file < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    return file
