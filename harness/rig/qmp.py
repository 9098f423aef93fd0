"""QMP client: QEMU's counters are the independent witness of the bytes that a device accepted.

Protocol: https://www.qemu.org/docs/master/interop/qmp-spec.html (one JSON object per line; QEMU
serves one client at a time; others wait).
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HostError, ToolFailed
from harness.store.files import descriptor


@dataclass(frozen=True, slots=True)
class DriveStats:
    """QEMU's counters of one drive since its start, without zone resets and finishes."""

    wr_bytes: int
    rd_bytes: int
    wr_operations: int
    rd_operations: int
    flush_operations: int


def parse_blockstats(answer: Any) -> dict[str, DriveStats]:
    """Return the counters by drive id.

    Raises:
        ToolFailed: the answer lacks a drive's counters.
    """
    try:
        return {
            entry["device"]: DriveStats(
                **{name: int(entry["stats"][name]) for name in DriveStats.__slots__}
            )
            for entry in answer
            if entry.get("device")
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ToolFailed(f"query-blockstats answered without {error}") from None


class Qmp(AbstractContextManager["Qmp"]):
    """A connection to one QEMU, for a short ``with`` statement."""

    def __init__(self, path: Path, timeout: float = 10.0) -> None:
        """Connect and negotiate.

        Raises:
            HostError: QEMU does not listen on the socket.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            _connect(self._socket, path)
        except OSError as error:
            self._socket.close()
            raise HostError(f"QEMU does not answer on {path}: {error.strerror or error}") from None
        self._file = self._socket.makefile("rw", encoding="utf-8")
        self._receive("QMP")
        self.execute("qmp_capabilities")

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def execute(self, command: str) -> Any:
        """Send a command and return its result; events are dropped.

        Raises:
            ToolFailed: QEMU refused the command or ended.
        """
        try:
            self._file.write(json.dumps({"execute": command}) + "\n")
            self._file.flush()
        except OSError as error:
            raise ToolFailed(f"QEMU ended before {command}: {error}") from None
        return self._receive("return", command)

    def blockstats(self) -> dict[str, DriveStats]:
        """Return the counters of every drive, by drive id."""
        return parse_blockstats(self.execute("query-blockstats"))

    def _receive(self, key: str, command: str = "greeting") -> Any:
        try:
            for line in self._file:
                message = json.loads(line)
                if "error" in message:
                    raise ToolFailed(f"QEMU refused {command}: {message['error'].get('desc')}")
                if key in message:
                    return message[key]
        except (OSError, ValueError) as error:
            raise ToolFailed(f"no answer from QEMU to {command}: {error}") from None
        raise ToolFailed(f"QEMU ended before it answered {command}")


def _connect(sock: socket.socket, path: Path) -> None:
    """Connect through the folder's descriptor, because a socket's path is limited to 108 bytes."""
    with descriptor(path.parent, os.O_PATH | os.O_DIRECTORY) as folder:
        sock.connect(f"/proc/self/fd/{folder}/{path.name}")
