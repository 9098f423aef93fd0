"""Every command in a file, on request: submission and completion, as the kernel's trace says it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from harness.observe.trace_buffer import prepared
from harness.observe.trace_program import Watched
from harness.tools import proc

# Per processor: some 300,000 commands between two looks of the writer.
_BUFFER_KB = 65536
_INSTANCE = "zonelab-all"
_DRAIN_SECONDS = 0.2
_DRAIN_TRIES = 50
_LOST = re.compile(r"^(?:overrun|commit overrun|dropped events): (\d+)$", re.MULTILINE)
_EVENTS = {
    True: ("nvme/nvme_setup_cmd", "nvme/nvme_complete_rq"),
    False: ("block/block_rq_issue", "block/block_rq_complete"),
}


class FullTrace:
    """Writes trace lines to a file until ``stop``.

    Args:
        devices: what to watch. Events of drivers other than NVMe cannot be told apart by name, so
            all block devices are in the file where one of these is not NVMe.
        tracing: where tracefs is mounted.
        output: the file.

    Raises:
        HostError: the kernel's events cannot be switched on.
    """

    def __init__(self, devices: Sequence[Watched], tracing: Path, output: Path) -> None:
        self._output = output
        self._instance = tracing / "instances" / _INSTANCE
        nvme = all(device.nsid for device in devices)
        disks = " || ".join(f'disk == "{disk}"' for one in devices for disk in one.disks)
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
        """End it; return how many events were lost."""
        for event in self._events:
            (event / "enable").write_text("0")
        size = -1
        for _ in range(_DRAIN_TRIES):
            if size == self._output.stat().st_size:
                break
            size = self._output.stat().st_size
            time.sleep(_DRAIN_SECONDS)
        self._child.terminate()
        self._child.wait()
        stats = [path.read_text() for path in self._instance.glob("per_cpu/cpu*/stats")]
        self._instance.rmdir()
        return sum(int(number) for text in stats for number in _LOST.findall(text))
