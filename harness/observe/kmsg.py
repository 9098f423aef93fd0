"""The kernel log of a run: its records, how many were lost, and whether a line is about a device.

Format of /dev/kmsg: Documentation/ABI/testing/dev-kmsg of Linux.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_RECORD = 8192  # one record per read, at most this long (CONSOLE_EXT_LOG_MAX)
_FACILITY_BITS = 3  # priority bits of the first number; facility 0 is the kernel
_USER_SPACE = "user space: "
_LOST = "# records lost here: "
_DEVICES = "# devices of the run: "

# Names of devices as drivers and file systems print them; device-mapper tables use numbers.
_NAMES = re.compile(
    r"\b(?:nvme\d+(?:c\d+)?n\d+(?:p\d+)?|nvme\d+|(?:sd|vd|hd|xvd)[a-z]{1,3}\d*|mmcblk\d+(?:p\d+)?"
    r"|(?:dm-|md|loop|zram|zloop|nullb|nbd|pmem|ram|rbd|sr|bcache)\d+(?:p\d+)?"
    r"|ata\d+|\d+:\d+:\d+:\d+|[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b"
    r"|(?<=[(\s])\d+:\d+(?=\)|: |:\d+\))"
)


@dataclass(frozen=True, slots=True)
class Records:
    """A stored kernel log. ``devices`` are the names of the run's devices; null: not stored."""

    lines: tuple[str, ...]
    lost: int
    devices: frozenset[str] | None

    def concerns_run(self, line: str) -> bool:
        """Whether a line names a device of the run, or no device at all."""
        named = names_in(line)
        return self.devices is None or not named or not named.isdisjoint(self.devices)


class KernelLog:
    """Collects the records that appear after construction.

    The kernel keeps the newest records only, so ``drain`` is called while the run goes on.
    """

    def __init__(
        self, path: Path = Path("/dev/kmsg"), read: Callable[[int, int], bytes] = os.read
    ) -> None:
        self._read = read
        self._lines: list[str] = []
        self._expected: int | None = None  # number of the next record; null before the first one
        self._overwritten = False
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self.close()

    @property
    def available(self) -> bool:
        """Whether the log can be read; False without permission."""
        return self._fd is not None

    def drain(self) -> None:
        """Collect the records that appeared since the last call."""
        while self._fd is not None:
            try:
                chunk = self._read(self._fd, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # the next record was overwritten; the oldest one comes next
                self._overwritten = True
                continue
            if not chunk:
                return
            for line in chunk.decode("utf-8", errors="replace").splitlines():
                if line and not line.startswith(" "):  # other lines: KEY=value of the last record
                    self._add(line)

    def text(self, devices: Iterable[str]) -> str:
        """Return all records, one per line, and the names of the run's devices in the log."""
        return "".join(f"{line}\n" for line in (*self._lines, _DEVICES + " ".join(sorted(devices))))

    def close(self) -> None:
        """Close the log. The collected records stay."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _add(self, record: str) -> None:
        # "6,1234,5678901,-;message": priority and facility, number, microseconds since boot, flags
        prefix, separator, message = record.partition(";")
        fields = prefix.split(",")
        if not separator or len(fields) < 3 or not all(f.isdigit() for f in fields[:3]):  # noqa: PLR2004
            self._lines.append(record.strip())
            return
        priority, number, micros = (int(field) for field in fields[:3])
        missing = number - self._expected if self._expected is not None else 0
        if self._overwritten or missing > 0:
            self._lines.append(f"{_LOST}{max(missing, 1)}")
        self._overwritten, self._expected = False, number + 1
        source = _USER_SPACE if priority >> _FACILITY_BITS else ""
        self._lines.append(f"{micros / 1e6:.6f} {source}{message}")


def parse(text: str) -> Records:
    """Read a stored log. Lines that programs wrote to it are left out."""
    lines: list[str] = []
    lost, devices = 0, None
    for line in text.splitlines():
        if line.startswith(_LOST):
            lost += int(line.removeprefix(_LOST))
        elif line.startswith(_DEVICES):
            devices = frozenset(line.removeprefix(_DEVICES).split())
        elif not line.startswith("#") and not line.partition(" ")[2].startswith(_USER_SPACE):
            lines.append(line)
    return Records(tuple(lines), lost, devices)


def names_in(line: str) -> frozenset[str]:
    """Return the devices that a line names: kernel names, addresses, numbers of mapped devices."""
    return frozenset(_NAMES.findall(line))
