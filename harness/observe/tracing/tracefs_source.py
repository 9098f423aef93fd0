"""Counting without bpftrace: the kernel's trace buffer, read about once a second.

Each NVMe command except reads is an event of ``nvme_setup_cmd``; each failure is an event of
``nvme_complete_rq``. A submitted command without a failure succeeded. Latencies are not measured.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import HostError
from harness.observe.tracing import bpf_program as program
from harness.observe.tracing.bpf_program import WatchedDevice
from harness.observe.tracing.tracefs_buffer import lost_events, prepared
from harness.observe.tracing.zone_history import (
    ASKED,
    WRITES,
    TraceTotals,
    Transition,
    ZoneLife,
    command_name,
)

# KiB per processor; an event takes about 100 B, so the buffer holds about 80,000 events.
_BUFFER_KB = 8192
_CHUNK = 1 << 20
# Seconds of reading at a time. If events come faster than Python counts them, the buffer is never
# empty; but the runner must also take samples and watch time limits.
_MOST_SECONDS = 3.0
_INSTANCE = "zonelab"

# "   kworker/0:1H-57      [000] .....    12.345678: nvme_setup_cmd: nvme0: disk=nvme0n2, qid=1,
#  cmdid=4096, nsid=2, flags=0x0, meta=0x0, cmd=(nvme_cmd_write slba=0, len=15, ctrl=0x0, …)"
_SUBMITTED = re.compile(
    r"^\s*(?P<by>.+)-\d+\s+\[\d+\]\s.*?\s(?P<time>\d+\.\d+): nvme_setup_cmd: nvme\d+: "
    r"disk=(?P<disk>\w+), qid=(?P<qid>\d+), cmdid=(?P<cid>\d+), .*?"
    r"cmd=\((?P<command>\w+) (?P<rest>.*)"
)
_FAILED = re.compile(
    r": nvme_complete_rq: nvme\d+: disk=(?P<disk>\w+), qid=(?P<qid>\d+), cmdid=(?P<cid>\d+), "
    r".*status=(?P<status>\w+)$"
)
_NUMBER = re.compile(r"\b(slba|len|zsa|all)=(\d+)")
_OPCODES = {
    "nvme_cmd_flush": program.FLUSH,
    "nvme_cmd_write": program.WRITE,
    "nvme_cmd_write_zeroes": program.WRITE_ZEROES,
    "nvme_cmd_dsm": program.DSM,
    "nvme_cmd_zone_mgmt_send": program.ZONE_SEND,
    "nvme_cmd_zone_mgmt_recv": program.ZONE_RECEIVE,
    "nvme_cmd_zone_append": program.ZONE_APPEND,
}
_LOST = re.compile(r"LOST (\d+) EVENTS")  # "CPU:0 [LOST 123 EVENTS]"


@dataclass(slots=True)
class _Sent:
    """The last command with one id."""

    device: WatchedDevice
    name: str
    size: int
    zone: int
    life: ZoneLife
    transitions: list[int]


class TracefsSource:
    """Counts the events of the trace buffer; tracefs is mounted at ``tracing``.

    Raises:
        HostError: a device is not NVMe, or the kernel lacks the events.
    """

    name = "tracefs"

    def __init__(self, devices: Sequence[WatchedDevice], tracing: Path) -> None:
        if not all(device.nsid for device in devices):
            raise HostError("without bpftrace only NVMe can be traced", code="tracing-missing")
        self._devices = {disk: device for device in devices for disk in device.disks}
        self._commands: Counter[tuple[str, str, int]] = Counter()
        self._bytes: Counter[tuple[str, str, int]] = Counter()
        self._zones: Counter[tuple[str, int, ZoneLife, str]] = Counter()
        self._resets: Counter[tuple[str, int]] = Counter()
        self._all_resets = 0
        self._sent: dict[tuple[str, str, str], _Sent] = {}
        self._transitions: list[Transition] = []
        self._lost = 0
        self._unread: list[str] = []
        self._rest = ""
        self._instance = tracing / "instances" / _INSTANCE
        self._pipe = self._open()

    def tick(self) -> None:
        """Count events in the buffer for some seconds at most; the rest stays there."""
        end = time.monotonic() + _MOST_SECONDS
        while self._read() and time.monotonic() < end:
            pass

    def _read(self) -> bool:
        """Count a part of the events in the buffer; False when it is empty."""
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return False
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        for line in lines:
            self.take(line)
        return bool(data)

    def take(self, line: str) -> None:
        """Count one line of ``trace_pipe``."""
        if found := _SUBMITTED.match(line):
            self._submitted(found)
        elif found := _FAILED.search(line):
            self._failed(found)
        elif found := _LOST.search(line):
            self._lost += int(found[1])
        elif line.strip():
            self._unread.append(line)

    def snapshot(self) -> TraceTotals:
        """Return the counts."""
        while self._read():
            pass
        # A failed write is no transition; a failed zone management command is.
        transitions = tuple(t for t in self._transitions if not t.error or t.action in ASKED)
        self._transitions = []
        for sent in self._sent.values():
            sent.transitions.clear()  # they have completed and can no longer fail
        return TraceTotals(
            +self._commands, +self._bytes, +self._zones, transitions, problems=self._problems()
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The traced devices."""
        return tuple(dict.fromkeys(device.name for device in self._devices.values()))

    def begin(self) -> None:
        """Do nothing: it counts for one run only."""

    def end(self, raw: Path) -> None:
        """Do nothing: the buffer is not stored."""

    def stop(self) -> None:
        """Disable the events and free the buffer."""
        if self._pipe < 0:
            return
        os.close(self._pipe)
        self._pipe = -1
        (self._instance / "events/nvme/enable").write_text("0")
        self._instance.rmdir()

    def _open(self) -> int:
        setup = self._instance / "events/nvme/nvme_setup_cmd"
        complete = self._instance / "events/nvme/nvme_complete_rq"
        disks = " || ".join(f'disk == "{disk}"' for disk in self._devices)
        with prepared(self._instance, _BUFFER_KB):
            (setup / "filter").write_text(f"qid != 0 && opcode != {program.READ} && ({disks})")
            (complete / "filter").write_text(f"qid != 0 && status != 0 && ({disks})")
            (setup / "enable").write_text("1")
            (complete / "enable").write_text("1")
            return os.open(self._instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)

    def _submitted(self, found: re.Match[str]) -> None:
        device = self._devices[found["disk"]]
        numbers = {name: int(value) for name, value in _NUMBER.findall(found["rest"])}
        opcode = _OPCODES.get(found["command"])
        code = 0xFF if opcode is None else opcode
        if opcode == program.ZONE_SEND:
            code |= numbers["zsa"] << program.ACTION_SHIFT | numbers["all"] << program.ALL_BIT
        name = found["command"] if opcode is None else command_name(code)
        size = (numbers.get("len", 0) + 1) * device.unit if name in WRITES else 0
        zone, offset = divmod(numbers.get("slba", 0) * device.unit, device.zone_size or 1 << 63)
        life = (self._resets[device.name, zone], self._all_resets)
        if name == "append":
            # Its event names the zone's start only. It goes behind the bytes of this life.
            offset = sum(self._zones[device.name, zone, life, write] for write in WRITES)
        sent = _Sent(device, name, size, zone, life, [])
        self._sent[found["disk"], found["qid"], found["cid"]] = sent
        self._count(sent, 0, 1)
        if not device.zone_size:
            return
        if opcode == program.ZONE_SEND:
            every = bool(numbers["all"])
            self._note(found, sent, name, None if every else zone)
            if name == "reset":
                self._resets[device.name, zone] += 1
            elif name == "reset-all":
                self._all_resets += 1
        elif name in ("write", "append"):
            if offset == 0:
                self._note(found, sent, "first-write", zone)
            if offset + size == device.zone_capacity:
                self._note(found, sent, "last-write", zone)

    def _note(self, found: re.Match[str], sent: _Sent, action: str, zone: int | None) -> None:
        by = found["by"].strip() if action == sent.name else ""
        sent.transitions.append(len(self._transitions))
        self._transitions.append(
            Transition(float(found["time"]), sent.device.name, zone, action, sent.life, None, 0, by)
        )

    def _failed(self, found: re.Match[str]) -> None:
        """Subtract a command that was counted when it was submitted."""
        sent = self._sent.pop((found["disk"], found["qid"], found["cid"]), None)
        if sent is None:
            return  # a read
        status = int(found["status"], 0)
        self._count(sent, 0, -1)
        self._count(sent, status, 1)
        for index in sent.transitions:
            self._transitions[index] = replace(self._transitions[index], error=status)
        if sent.name == "reset":
            self._resets[sent.device.name, sent.zone] -= 1
        elif sent.name == "reset-all":
            self._all_resets -= 1

    def _count(self, sent: _Sent, status: int, sign: int) -> None:
        device = sent.device.name
        self._commands[device, sent.name, status] += sign
        if sent.name in WRITES:
            self._bytes[device, sent.name, status] += sign * sent.size
            if sent.device.zone_size and status == 0:
                self._zones[device, sent.zone, sent.life, sent.name] += sign * sent.size

    def _problems(self) -> tuple[str, ...]:
        lost = self._lost + lost_events(self._instance)
        problems = [f"the trace buffer lost {lost} events"] if lost else []
        if self._unread:
            problems.append(f"a line of the trace cannot be read: {self._unread[0].strip()[:120]}")
        return tuple(problems)
