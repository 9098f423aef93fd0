"""Judges by its progress file whether a campaign on another machine is over or has stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError
from harness.run.heartbeat import Heartbeat
from harness.run.progress import ProgressRecord
from harness.store.files import to_record
from harness.tools import virtual_clock

_AGAIN = "repeat the command: complete runs are kept, and it resumes"


@dataclass(frozen=True, slots=True)
class Glance:
    """``over``: the wait for this host ends. ``error``: why, if its campaign has not ended."""

    over: bool
    line: str
    error: str = ""


def judge(text: str, silent_seconds: float) -> Glance:
    """Judge the output of a host: its boot id, /proc/uptime, /proc/cmdline and the progress file.

    ``silent_seconds`` holds for a real clock; a virtual clock has more.
    """
    boot_id, _, rest = text.lstrip().partition("\n")
    uptime, _, rest = rest.partition("\n")
    cmdline, _, content = rest.partition("\n")
    try:
        record = to_record(ProgressRecord, json.loads(content), Path("progress.json"))
        now = float(uptime.split()[0])
    except (ValueError, IndexError, ConfigError):
        return Glance(True, "", f"the host has no readable progress.json; {_AGAIN}")
    if record.state != "running":
        return Glance(True, record.line)
    error = ""
    if record.heartbeat is not None:
        longest = silent_seconds * virtual_clock.factor(cmdline)
        error = _error(record.heartbeat, boot_id.strip(), now, longest)
    return Glance(bool(error), record.line, error)


def _error(beat: Heartbeat, boot_id: str, now: float, silent_seconds: float) -> str:
    if beat.boot_id != boot_id:
        return (
            f"the host rebooted during the campaign (boot id {beat.boot_id}, now {boot_id}); "
            f"{_AGAIN}. A panic is in the log of the boot before: journalctl --boot=-1 --dmesg"
        )
    runner = f"pid {beat.pid}" + (f", {beat.unit}" if beat.unit else "")
    silent = now - beat.uptime
    if silent > silent_seconds:
        return (
            f"the runner ({runner}) has not reported for {silent:.0f} s; look at systemctl status "
            f"zonelab-run and at the disk of its state folder, then {_AGAIN}"
        )
    if beat.blocked_seconds > silent_seconds:
        return (
            f"the runner ({runner}) hangs in the kernel for {beat.blocked_seconds:.0f} s; see "
            f"/proc/{beat.pid}/stack and the kernel log, reboot the host, then {_AGAIN}"
        )
    return ""
