"""Write submission and completion of every command to a file, as the kernel traces them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from harness.observe.tracing.bpf_program import WatchedDevice
from harness.observe.tracing.tracefs_buffer import lost_events, prepared
from harness.tools import proc

# KiB per processor; the buffer holds about 300,000 commands between two reads.
_BUFFER_KB = 65536
_INSTANCE = "zonelab-all"
_DRAIN_SECONDS = 0.2
_DRAIN_TRIES = 50
_EVENTS = {  # with and without NVMe
    True: ("nvme/nvme_setup_cmd", "nvme/nvme_complete_rq"),
    False: ("block/block_rq_issue", "block/block_rq_complete"),
}


class CommandLog:
    """Writes trace lines to a file until ``stop``.

    Args:
        devices: devices to trace. Events of drivers other than NVMe cannot be filtered by name: if
            one device is not NVMe, the file holds the commands of all block devices.
        tracing: where tracefs is mounted.
        output: the file.

    Raises:
        HostError: the kernel's events cannot be enabled.
    """

    def __init__(self, devices: Sequence[WatchedDevice], tracing: Path, output: Path) -> None:
        self._output = output
        self._instance = tracing / "instances" / _INSTANCE
        nvme = all(device.nsid for device in devices)
        disks = " || ".join(f'disk == "{disk}"' for device in devices for disk in device.disks)
        self._events = [self._instance / "events" / event for event in _EVENTS[nvme]]
        with prepared(self._instance, _BUFFER_KB):
            for event in self._events:
                if nvme:
                    (event / "filter").write_text(f"qid != 0 && ({disks})")
                (event / "enable").write_text("1")
        argv = ["setpriv", "--pdeathsig", "KILL", "--", "cat", str(self._instance / "trace_pipe")]
        with output.open("wb") as file:
            self._child: subprocess.Popen[bytes] = proc.spawn(
                argv, stdout=file, stderr=subprocess.DEVNULL
            )

    def stop(self) -> int:
        """Stop writing; return the number of lost events."""
        for event in self._events:
            (event / "enable").write_text("0")
        size = -1
        for _ in range(_DRAIN_TRIES):
            if size == self._output.stat().st_size:
                break
            size = self._output.stat().st_size
            time.sleep(_DRAIN_SECONDS)
        proc.end(self._child)  # `cat` has written everything that it read
        lost = lost_events(self._instance)
        self._instance.rmdir()
        return lost
