"""bpftrace while it counts: started once per run, asked for its counts at barriers."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import TimedOut, ToolFailed
from harness.observe.trace_program import Watched, program
from harness.observe.zone_trace import (
    MANAGEMENT,
    Totals,
    Transition,
    command_name,
    transition,
)
from harness.tools import bpftrace, proc
from harness.tools.bpftrace import Lost, Map, Printed

# Compiling and attaching took 3 to 5 s on the rig, where everything takes ten times as long.
_START_SECONDS = 90.0
_ANSWER_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.05
# Commands may still be on their way when a snapshot is asked for; at a barrier not for long.
_TRIES = 10

_SENT = MANAGEMENT | {f"{name}-all" for name in MANAGEMENT}
_RUN_TIME = re.compile(r"^run_time_ns:\s*(\d+)$", re.MULTILINE)
_RUN_COUNT = re.compile(r"^run_cnt:\s*(\d+)$", re.MULTILINE)
_MISSES = re.compile(r"^recursion_misses:\s*(\d+)$", re.MULTILINE)


class BpfTrace:
    """Counts inside the kernel.

    Args:
        path: bpftrace.
        devices: what to watch.
        keys: how many a map may have: a zone has one per life (reset to reset), a transition one.
        folder: gets ``trace.bt`` (the program), ``trace.jsonl`` (its output) and ``trace.stderr``.
        proc_root: where /proc is.
    """

    name = "bpftrace"

    def __init__(
        self,
        path: Path,
        devices: Sequence[Watched],
        keys: int,
        *,
        folder: Path,
        proc_root: Path = Path("/proc"),
    ) -> None:
        self._names = [device.name for device in devices]
        self._folder = folder
        self._proc = proc_root
        self._position = 0
        self._transitions: list[Transition] = []
        self._seen: Counter[tuple[str, str, int]] = Counter()
        self._lost = 0
        text = folder / "trace.bt"
        text.write_text(program(devices), encoding="utf-8")
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *bpftrace.argv(path, text, keys)]
        with self._output.open("wb") as out, self._messages.open("wb") as err:
            self._child: subprocess.Popen[bytes] = proc.spawn(argv, stdout=out, stderr=err)

    @property
    def _output(self) -> Path:
        return self._folder / "trace.jsonl"

    @property
    def _messages(self) -> Path:
        return self._folder / "trace.stderr"

    def wait(self) -> None:
        """Wait until it is attached.

        Raises:
            ToolFailed: it gave up; the message is its own.
            TimedOut: it did neither in time.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not any(record == Printed("ready") for record in self._new()):
            self._require_alive()
            self._sleep(deadline, "attach")

    def tick(self) -> None:
        """Do nothing: the kernel counts."""

    def snapshot(self) -> Totals:
        """Return the counts; waits for commands that are still on their way.

        Raises:
            ToolFailed: it ended, or printed something else.
            TimedOut: it did not answer.
        """
        maps = self._ask()
        for _ in range(_TRIES):
            if not maps.get("@flight"):
                break
            time.sleep(_LOOK_SECONDS)
            maps = self._ask()
        commands = {
            (self._names[device - 1], command_name(command), status): int(count)
            for (device, command, status), count in maps.get("@commands", {}).items()
        }
        written = {
            (self._names[device - 1], command_name(command), status): int(count)
            for (device, command, status), count in maps.get("@bytes", {}).items()
        }
        zones = {
            (self._names[device - 1], zone, (life, lives), command_name(command)): int(count)
            for (device, zone, life, lives, command), count in maps.get("@zones", {}).items()
        }
        fresh, self._transitions = tuple(sorted(self._transitions, key=lambda item: item.time)), []
        found = Totals(
            commands, written, zones, fresh, kernel_seconds=self._sum(_RUN_TIME, _RUN_COUNT)
        )
        return replace(found, problems=self._problems(found, len(maps.get("@flight", {}))))

    def stop(self) -> None:
        """End it; its last words are kept, but count no more."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
        try:
            self._child.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _ask(self) -> dict[str, dict[tuple[int, ...], Any]]:
        """Have all maps printed, and return them by name; an empty map is not printed."""
        self._require_alive()
        self._child.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _ANSWER_SECONDS
        maps: dict[str, dict[tuple[int, ...], Any]] = {}
        while True:
            for record in self._new():
                if isinstance(record, Map):
                    maps[record.name] = record.values
                elif record == Printed("snapshot"):
                    maps = {}
                elif record == Printed("end"):
                    self._take(maps.get("@changes", {}))
                    return maps
            self._require_alive()
            self._sleep(deadline, "answer")

    def _new(self) -> list[bpftrace.Record]:
        """Return what it printed since the last call, without losses."""
        with self._output.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        kept: list[bpftrace.Record] = []
        for record in bpftrace.parse(whole.decode("utf-8", errors="replace").splitlines()):
            if isinstance(record, Lost):
                self._lost += record.events
            else:
                kept.append(record)
        return kept

    def _take(self, changes: Mapping[tuple[int, ...], Any]) -> None:
        """Take in transitions: each snapshot has new ones only."""
        try:
            found = [transition(key, told, self._names) for key, told in changes.items()]
        except (ValueError, IndexError, TypeError) as error:
            raise ToolFailed(f"bpftrace's map: {error}", code="output-malformed") from None
        self._transitions += found
        for item in found:
            if item.seconds is not None:
                self._seen[item.device, item.action, item.error] += 1

    def _problems(self, found: Totals, in_flight: int) -> tuple[str, ...]:
        """Return everything that makes the counts too low: each way there is has its own check."""
        problems = []
        if self._lost:
            problems.append(f"bpftrace lost {self._lost} lines")
        misses = self._sum(_MISSES, _MISSES)
        if misses:
            problems.append(f"the kernel skipped a program {round(misses * 1e9)} times")
        if in_flight:
            problems.append(f"{in_flight} commands never completed")
        told = self._messages.read_text(encoding="utf-8", errors="replace").strip()
        if told:
            problems.append(f"bpftrace complained: {told.splitlines()[0][:200]}")
        zoned = {name for name, *_ in found.zones}
        for name in sorted(zoned):
            by_zone = sum(count for (of, *_), count in found.zones.items() if of == name)
            by_device = sum(
                count for (of, _, status), count in found.bytes.items() if (of, status) == (name, 0)
            )
            if by_zone != by_device:
                problems.append(f"{name}: {by_device - by_zone} B have no zone (a map was full)")
        counted = {key: n for key, n in found.commands.items() if key[1] in _SENT}
        if counted != dict(self._seen):
            problems.append("zone commands that were counted are missing from the timeline")
        return tuple(problems)

    def _sum(self, number: re.Pattern[str], unless_zero: re.Pattern[str]) -> float | None:
        """Add up a number of the kernel's about our programs, in 1e-9; null where it has none."""
        total = counted = 0
        try:
            for path in (self._proc / str(self._child.pid) / "fdinfo").iterdir():
                text = path.read_text(errors="replace")
                total += sum(map(int, number.findall(text)))
                counted += sum(map(int, unless_zero.findall(text)))
        except OSError:
            return None  # it ended, or this is no Linux /proc
        return total / 1e9 if counted else None

    def _require_alive(self) -> None:
        code = self._child.poll()
        if code is None:
            return
        told = self._messages.read_text(encoding="utf-8", errors="replace").strip()
        last = told.splitlines()[-1] if told else f"exit status {code}"
        raise ToolFailed(f"bpftrace ended: {last[:200]}", code="tracer-ended")

    def _sleep(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise TimedOut(f"bpftrace did not {what} in time", code="tracer-slow")
        time.sleep(_LOOK_SECONDS)
