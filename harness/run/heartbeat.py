"""The sign of life of a runner in ``progress.json``: which boot, which process, when."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from harness.machine.host import Host

_STATE = re.compile(r"^State:\s+(\S)", re.MULTILINE)
_SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)
_UNIT = re.compile(r"/([^/\n]+\.(?:service|scope))(?:/[^\n]*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """``uptime`` is in seconds since boot, as in /proc/uptime.

    ``blocked_seconds``: how long the main thread has waited in the kernel without a break. ``unit``
    is the systemd unit, '' without one.
    """

    boot_id: str
    uptime: float
    pid: int
    unit: str
    blocked_seconds: float = 0.0


def unit(host: Host) -> str:
    """Return the systemd unit of this process; '' without one."""
    match = _UNIT.search(host.proc_text("self/cgroup"))
    return match[1] if match else ""


class Heart:
    """Measures the heartbeats of this process."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._boot_id, self._unit = host.boot_id(), unit(host)
        self._switches: tuple[str, ...] = ()
        self._moved = host.uptime()

    def beat(self) -> Heartbeat:
        """Return a heartbeat for this moment.

        A thread counts as blocked if it is in state D at each heartbeat and did not run in between.
        The kernel finds hung tasks in the same way.
        """
        now = self._host.uptime()
        status = self._host.proc_text(f"self/task/{os.getpid()}/status")
        state, switches = _STATE.search(status), tuple(_SWITCHES.findall(status))
        if state is None or state[1] != "D" or switches != self._switches:
            self._switches, self._moved = switches, now
        blocked = round(now - self._moved, 1)
        return Heartbeat(self._boot_id, round(now, 2), os.getpid(), self._unit, blocked)
