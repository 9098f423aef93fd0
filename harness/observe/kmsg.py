"""Records of the kernel log since a run began."""

from __future__ import annotations

import os
from pathlib import Path

_RECORD = 8192  # /dev/kmsg gives one record per read, at most this long (CONSOLE_EXT_LOG_MAX)


class KernelLog:
    """Reads the records that appear after construction."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
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

    def read(self) -> str:
        """Return the records since construction or the last call, one per line."""
        lines: list[str] = []
        while self._fd is not None:
            try:
                record = os.read(self._fd, _RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:
                lines.append("# records were overwritten before they could be read")
                continue
            if not record:
                break
            lines.append(_format(record.decode("utf-8", errors="replace")))
        return "".join(f"{line}\n" for line in lines)

    def close(self) -> None:
        """Close the log."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _format(record: str) -> str:
    # "6,1234,5678901,-;message": priority, sequence, microseconds since boot; KEY=value lines
    prefix, separator, message = record.partition(";")
    fields = prefix.split(",")
    if not separator or len(fields) < 3 or not fields[2].isdigit():  # noqa: PLR2004
        return record.strip()
    return f"{int(fields[2]) / 1e6:.6f} {message.splitlines()[0] if message else ''}"
