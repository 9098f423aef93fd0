"""Counting with bpftrace: one process per campaign, which prints its counts at barriers."""

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

from harness.errors import HostError, TimedOut, ToolFailed
from harness.observe.tracing import tracefs_buffer
from harness.observe.tracing.bpf_answers import Answers, Grouping
from harness.observe.tracing.bpf_program import WatchedDevice, program
from harness.observe.tracing.zone_history import TraceTotals
from harness.store.files import new_lines
from harness.tools import bpftrace, proc
from harness.tools.bpftrace import Lost, Printed
from harness.tools.virtual_clock import patience

# Seconds. Compiling and attaching takes 3 to 5 s on the rig, ten times as long as on hardware.
_START_SECONDS = 90.0
_ANSWER_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.05

PROGRAM, OUTPUT, MESSAGES = "trace.bt", "trace.jsonl", "trace.stderr"
# The kernel's counters of each BPF program: how often it was skipped because it interrupted itself.
PROGRAMS = "trace.programs"

_RUN_TIME = re.compile(r"^run_time_ns:\s*(\d+)$", re.MULTILINE)
_RUN_COUNT = re.compile(r"^run_cnt:\s*(\d+)$", re.MULTILINE)


class BpfSource:
    """Counts inside the kernel, for one run after another.

    bpftrace is stopped (SIGSTOP) between snapshots, because it polls ten times a second. Its
    programs in the kernel continue.

    Args:
        devices: devices to trace.
        keys: capacity of each map. Between two barriers a zone takes one key per life (reset to
            reset), a transition one.
        folder: working folder with ``trace.bt`` (the program), ``trace.jsonl`` (its output) and
            ``trace.stderr``.
        tracing: where tracefs is mounted, or is to be.
        proc_root: where /proc is mounted.

    Raises:
        HostError: bpftrace is not installed, or the kernel has no tracing.
        ToolFailed: tracefs cannot be mounted.
    """

    name = "bpftrace"

    def __init__(
        self,
        devices: Sequence[WatchedDevice],
        keys: int,
        *,
        folder: Path,
        tracing: Path,
        proc_root: Path,
    ) -> None:
        tracefs_buffer.require(tracing)
        path = proc.which(bpftrace.PROGRAM)
        if path is None:
            raise HostError(
                "bpftrace is not installed",
                hint=f"apt-get install {bpftrace.PACKAGE}",
                code="program-missing",
            )
        self.devices = tuple(devices)
        self.keys = keys
        self._folder = folder
        self._proc = proc_root
        self._position = self._messages_from = 0
        self._grouping = Grouping()
        self._answers = Answers(self.names)
        self._lost = 0
        self._ready = False
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PROGRAM).write_text(program(devices), encoding="utf-8")
        argv = bpftrace.argv(path, folder / PROGRAM, keys)
        for name in (OUTPUT, MESSAGES):
            (folder / name).unlink(missing_ok=True)
        # Opened for appending, so that output after a truncation starts at offset 0.
        with (folder / OUTPUT).open("ab") as out, (folder / MESSAGES).open("ab") as err:
            self._child: subprocess.Popen[bytes] = proc.spawn(
                ["setpriv", "--pdeathsig", "KILL", "--", *argv], stdout=out, stderr=err
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The devices, in the order in which the program numbers them."""
        return tuple(device.name for device in self.devices)

    @property
    def alive(self) -> bool:
        """Whether bpftrace is still running."""
        return self._child.poll() is None

    def wait(self) -> None:
        """Wait until its probes are attached.

        Raises:
            ToolFailed: bpftrace ended; the message is its own.
            TimedOut: it did not attach in time.
        """
        if self._ready:
            return
        deadline = time.monotonic() + _START_SECONDS * patience()
        while not any(record == Printed("ready") for record in self._new()):
            self._require_alive()
            self._sleep(deadline, "attach")
        self._child.send_signal(signal.SIGSTOP)
        self._ready = True

    def begin(self) -> None:
        """Start counting for another run. Raises the errors of ``snapshot``."""
        os.truncate(self._folder / OUTPUT, 0)
        self._position = self._lost = 0
        self._messages_from = (self._folder / MESSAGES).stat().st_size
        self._answers = Answers(self.names)
        self._ask()

    def tick(self) -> None:
        """Do nothing: the kernel counts."""

    def snapshot(self) -> TraceTotals:
        """Return the counts of commands that have completed since the run began.

        Raises:
            ToolFailed: bpftrace ended or printed unexpected output.
            TimedOut: it did not answer in time.
        """
        self._ask()
        totals = replace(self._answers.totals(), kernel_seconds=self._kernel_seconds())
        return replace(totals, problems=self._problems(totals))

    def end(self, raw: Path) -> None:
        """Store the program, its output and its messages of this run; bpftrace keeps running."""
        (raw / PROGRAMS).write_text("\n".join(self._programs()), encoding="utf-8")
        for name in (PROGRAM, OUTPUT):
            shutil.copyfile(self._folder / name, raw / name)
        messages = self._messages()
        if messages:
            (raw / MESSAGES).write_text(messages, encoding="utf-8")

    def stop(self) -> None:
        """Stop bpftrace and remove its working folder."""
        if self.alive:
            self._child.send_signal(signal.SIGCONT)
            self._child.send_signal(signal.SIGINT)
        try:
            self._child.wait(timeout=_STOP_SECONDS * patience())
        except subprocess.TimeoutExpired:
            proc.end(self._child)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self) -> None:
        """Wake bpftrace, request all maps and add the answer; empty maps are not printed."""
        self._require_alive()
        self._child.send_signal(signal.SIGCONT)
        self._child.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + _ANSWER_SECONDS * patience()
        while True:
            for record in self._new():
                maps = self._grouping.take(record)
                if maps is not None:
                    self._answers.take(maps)
                    self._child.send_signal(signal.SIGSTOP)
                    return
            self._require_alive()
            self._sleep(deadline, "answer")

    def _new(self) -> list[bpftrace.Record]:
        """Return the records printed since the last call; lost events are only counted."""
        text, self._position = new_lines(self._folder / OUTPUT, self._position)
        kept: list[bpftrace.Record] = []
        for record in bpftrace.parse(text.splitlines()):
            if isinstance(record, Lost):
                self._lost += record.events
            else:
                kept.append(record)
        return kept

    def _problems(self, totals: TraceTotals) -> tuple[str, ...]:
        """Return the reasons why the counts may be too low."""
        problems = []
        if self._lost:
            problems.append(f"bpftrace lost {self._lost} lines")
        messages = self._messages()
        if messages:
            problems.append(f"bpftrace complained: {messages.splitlines()[0][:200]}")
        return (*problems, *totals.problems)

    def _kernel_seconds(self) -> float | None:
        """Return the CPU time of the BPF programs; null unless kernel.bpf_stats_enabled is set."""
        text = "".join(self._programs())
        nanoseconds = sum(map(int, _RUN_TIME.findall(text)))
        return nanoseconds / 1e9 if any(map(int, _RUN_COUNT.findall(text))) else None

    def _programs(self) -> list[str]:
        """Return the kernel's description of each BPF program; empty if bpftrace ended."""
        try:
            files = sorted((self._proc / str(self._child.pid) / "fdinfo").iterdir())
            texts = [path.read_text(errors="replace") for path in files]
        except OSError:
            return []
        return [text for text in texts if "prog_type" in text]

    def _messages(self) -> str:
        """Return its messages on stderr since the run began."""
        with (self._folder / MESSAGES).open("rb") as file:
            file.seek(self._messages_from)
            return file.read().decode("utf-8", errors="replace").strip()

    def _require_alive(self) -> None:
        code = self._child.poll()
        if code is None:
            return
        messages = self._messages()
        last = messages.splitlines()[-1] if messages else f"exit status {code}"
        raise ToolFailed(f"bpftrace ended: {last[:200]}", code="tracer-ended")

    def _sleep(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise TimedOut(f"bpftrace did not {what} in time", code="tracer-slow")
        time.sleep(_LOOK_SECONDS)
