"""bpftrace while it counts: started once per run, asked for its counts at barriers."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import TimedOut, ToolFailed
from harness.observe.trace_program import Watched, program
from harness.observe.zone_trace import (
    ASKED,
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

Maps = dict[str, dict[tuple[int, ...], Any]]

_RUN_TIME = re.compile(r"^run_time_ns:\s*(\d+)$", re.MULTILINE)
_RUN_COUNT = re.compile(r"^run_cnt:\s*(\d+)$", re.MULTILINE)


def totals(maps: Maps, names: Sequence[str]) -> Totals:
    """Return the counts in the program's maps; ``names`` are the devices', numbered from 1."""
    return Totals(
        commands={
            (names[device - 1], command_name(command), status): int(count)
            for (device, command, status), count in maps.get("@commands", {}).items()
        },
        bytes={
            (names[device - 1], command_name(command), status): int(count)
            for (device, command, status), count in maps.get("@bytes", {}).items()
        },
        zones={
            (names[device - 1], zone, (life, lives), command_name(command)): int(count)
            for (device, zone, life, lives, command), count in maps.get("@zones", {}).items()
        },
    )


def transitions(maps: Maps, names: Sequence[str]) -> list[Transition]:
    """Return the transitions in the program's maps, in order.

    Raises:
        ToolFailed: one is not what the program stores.
    """
    try:
        found = [transition(key, told, names) for key, told in maps.get("@changes", {}).items()]
    except (ValueError, IndexError, TypeError) as error:
        raise ToolFailed(f"bpftrace's map @changes: {error}", code="output-malformed") from None
    return sorted(found, key=lambda item: item.time)


class BpfTrace:
    """Counts inside the kernel.

    Between snapshots bpftrace is stopped: it would look for news ten times a second, and there are
    none until it is asked. Its programs in the kernel go on.

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
        self._child.send_signal(signal.SIGSTOP)

    def tick(self) -> None:
        """Do nothing: the kernel counts."""

    def snapshot(self) -> Totals:
        """Return the counts; waits for commands that are still on their way.

        Raises:
            ToolFailed: it ended, or printed something else.
            TimedOut: it did not answer.
        """
        self._require_alive()
        self._child.send_signal(signal.SIGCONT)
        maps = self._ask()
        for _ in range(_TRIES):
            if not maps.get("@flight"):
                break
            time.sleep(_LOOK_SECONDS)
            maps = self._ask()
        self._child.send_signal(signal.SIGSTOP)
        fresh, self._transitions = tuple(self._transitions), []
        found = replace(
            totals(maps, self._names), transitions=fresh, kernel_seconds=self._kernel_seconds()
        )
        return replace(found, problems=self._problems(found, len(maps.get("@flight", {}))))

    def stop(self) -> None:
        """End it; its last words are kept, but count no more."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGCONT)
            self._child.send_signal(signal.SIGINT)
        try:
            self._child.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _ask(self) -> Maps:
        """Have all maps printed, and return them by name; an empty map is not printed."""
        self._require_alive()
        self._child.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _ANSWER_SECONDS
        maps: Maps = {}
        while True:
            for record in self._new():
                if isinstance(record, Map):
                    maps[record.name] = record.values
                elif record == Printed("snapshot"):
                    maps = {}
                elif record == Printed("end"):
                    self._take(maps)
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

    def _take(self, maps: Maps) -> None:
        """Take in transitions: each snapshot has new ones only."""
        found = transitions(maps, self._names)
        self._transitions += found
        for item in found:
            if item.seconds is not None:
                self._seen[item.device, item.action, item.error] += 1

    def _problems(self, found: Totals, in_flight: int) -> tuple[str, ...]:
        """Return everything that makes the counts too low: each way there is has its own check."""
        problems = []
        if self._lost:
            problems.append(f"bpftrace lost {self._lost} lines")
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
        counted = {key: n for key, n in found.commands.items() if key[1] in ASKED}
        if counted != dict(self._seen):
            problems.append("zone commands that were counted are missing from the timeline")
        return tuple(problems)

    def _kernel_seconds(self) -> float | None:
        """Return what the programs took (sysctl kernel.bpf_stats_enabled); null: not measured."""
        nanoseconds = runs = 0
        try:
            for path in (self._proc / str(self._child.pid) / "fdinfo").iterdir():
                text = path.read_text(errors="replace")
                nanoseconds += sum(map(int, _RUN_TIME.findall(text)))
                runs += sum(map(int, _RUN_COUNT.findall(text)))
        except OSError:
            return None  # it ended
        return nanoseconds / 1e9 if runs else None

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
