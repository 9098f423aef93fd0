"""bpftrace while it counts: started once per campaign, asked for its counts at barriers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import TimedOut, ToolFailed
from harness.observe.bpf_answers import Answers, Grouping, Maps
from harness.observe.trace_program import Watched, program
from harness.observe.zone_trace import Totals
from harness.tools import bpftrace, proc
from harness.tools.bpftrace import Lost, Printed

# Compiling and attaching took 3 to 5 s on the rig, where everything takes ten times as long.
_START_SECONDS = 90.0
_ANSWER_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.05
# Commands may still be on their way when a snapshot is asked for; at a barrier not for long.
_TRIES = 10

PROGRAM, OUTPUT, MESSAGES = "trace.bt", "trace.jsonl", "trace.stderr"

_RUN_TIME = re.compile(r"^run_time_ns:\s*(\d+)$", re.MULTILINE)
_RUN_COUNT = re.compile(r"^run_cnt:\s*(\d+)$", re.MULTILINE)


class BpfTrace:
    """Counts inside the kernel, for one run after the other.

    Between snapshots bpftrace is stopped: it would look for news ten times a second, and there are
    none until it is asked. Its programs in the kernel go on.

    Args:
        path: bpftrace.
        devices: what to watch.
        keys: how many a map may have: between two barriers a zone has one per life (reset to
            reset), a transition one.
        folder: where it works: ``trace.bt`` (the program), ``trace.jsonl`` (its output) and
            ``trace.stderr``.
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
        self.devices = tuple(devices)
        self.keys = keys
        self._folder = folder
        self._proc = proc_root
        self._position = self._told = 0
        self._grouping = Grouping()
        self._answers = Answers(self.names)
        self._lost = 0
        self._ready = False
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PROGRAM).write_text(program(devices), encoding="utf-8")
        argv = bpftrace.argv(path, folder / PROGRAM, keys)
        for name in (OUTPUT, MESSAGES):
            (folder / name).unlink(missing_ok=True)
        # Appending, so that what it prints next begins the file when the file was emptied.
        with (folder / OUTPUT).open("ab") as out, (folder / MESSAGES).open("ab") as err:
            self._child: subprocess.Popen[bytes] = proc.spawn(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv], stdout=out, stderr=err
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The devices, as the program numbers them."""
        return tuple(device.name for device in self.devices)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def wait(self) -> None:
        """Wait until it is attached.

        Raises:
            ToolFailed: it gave up; the message is its own.
            TimedOut: it did neither in time.
        """
        if self._ready:
            return
        deadline = time.monotonic() + _START_SECONDS
        while not any(record == Printed("ready") for record in self._new()):
            self._require_alive()
            self._sleep(deadline, "attach")
        self._child.send_signal(signal.SIGSTOP)
        self._ready = True

    def begin(self) -> None:
        """Count from here on, for another run; errors as for ``snapshot``."""
        os.truncate(self._folder / OUTPUT, 0)
        self._position = self._lost = 0
        self._told = (self._folder / MESSAGES).stat().st_size
        self._answers = Answers(self.names)
        self._require_alive()
        self._child.send_signal(signal.SIGCONT)
        self._ask()
        self._child.send_signal(signal.SIGSTOP)

    def tick(self) -> None:
        """Do nothing: the kernel counts."""

    def snapshot(self) -> Totals:
        """Return the counts since the run began; waits for commands that are on their way.

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
        found = replace(self._answers.totals(), kernel_seconds=self._kernel_seconds())
        return replace(found, problems=self._problems(found, len(maps.get("@flight", {}))))

    def end(self, raw: Path) -> None:
        """Store what it told of this run, and what it ran; it goes on."""
        for name in (PROGRAM, OUTPUT):
            shutil.copyfile(self._folder / name, raw / name)
        told = self._complaints()
        if told:
            (raw / MESSAGES).write_text(told, encoding="utf-8")

    def stop(self) -> None:
        """End it, and remove what it left."""
        if self.alive:
            self._child.send_signal(signal.SIGCONT)
            self._child.send_signal(signal.SIGINT)
        try:
            self._child.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self) -> Maps:
        """Have all maps printed, and take them in; an empty map is not printed."""
        self._require_alive()
        self._child.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            for record in self._new():
                maps = self._grouping.take(record)
                if maps is not None:
                    self._answers.take(maps)
                    return maps
            self._require_alive()
            self._sleep(deadline, "answer")

    def _new(self) -> list[bpftrace.Record]:
        """Return what it printed since the last call, without losses."""
        with (self._folder / OUTPUT).open("rb") as file:
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

    def _problems(self, found: Totals, in_flight: int) -> tuple[str, ...]:
        """Return everything that makes the counts too low: each way there is has its own check."""
        problems = []
        if self._lost:
            problems.append(f"bpftrace lost {self._lost} lines")
        if in_flight:
            problems.append(f"{in_flight} commands never completed")
        told = self._complaints()
        if told:
            problems.append(f"bpftrace complained: {told.splitlines()[0][:200]}")
        return (*problems, *found.problems)

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

    def _complaints(self) -> str:
        """Return what it complained of since the run began."""
        with (self._folder / MESSAGES).open("rb") as file:
            file.seek(self._told)
            return file.read().decode("utf-8", errors="replace").strip()

    def _require_alive(self) -> None:
        code = self._child.poll()
        if code is None:
            return
        told = self._complaints()
        last = told.splitlines()[-1] if told else f"exit status {code}"
        raise ToolFailed(f"bpftrace ended: {last[:200]}", code="tracer-ended")

    def _sleep(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise TimedOut(f"bpftrace did not {what} in time", code="tracer-slow")
        time.sleep(_LOOK_SECONDS)
