"""The window in which all tenants are measured: started together, stopped together."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.cleanup import cleaned
from harness.errors import TimedOut
from harness.machine.host import Host
from harness.run.load_process import ProgramExit
from harness.run.phase import PreparedPhase
from harness.run.stall import PhaseProgress, time_limit
from harness.store.files import text_or_empty
from harness.store.spec import TenantSpec
from harness.tools import proc
from harness.tools.virtual_clock import patience
from harness.workloads import program_of

_TICK_SECONDS = 1.0
_POLL_SECONDS = 0.02  # only before the measurement, while programs open their databases
_READY_SECONDS = 300.0  # opening a large database takes time
_GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL


@dataclass(slots=True)
class TenantProgram:
    """The program of a tenant.

    ``argv`` is complete, with the systemd scope. Creating the file ``gate`` releases the
    program; programs without a gate begin at their start. ``released`` and ``ended_at`` are times
    of the monotonic clock. ``stopped``: the runner ended it because another tenant died.
    """

    tenant: TenantSpec
    prepared: PreparedPhase
    argv: Sequence[str]
    gate: Path | None
    progress: PhaseProgress = field(init=False)
    child: subprocess.Popen[bytes] | None = None
    started: str = ""
    released: float | None = None
    ended_at: float | None = None
    exit: ProgramExit | None = None
    cpu_seconds: float | None = None
    stopped: bool = False

    def __post_init__(self) -> None:
        """Follow its report."""
        prepared = self.prepared
        self.progress = PhaseProgress(prepared.report.path, prepared.stdout, prepared.spec)

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.child is not None and self.exit is None

    @property
    def planned_end(self) -> float:
        """Its planned end, in seconds after the start of the window."""
        return self.tenant.start_offset + self.tenant.duration


@dataclass(frozen=True, slots=True)
class WindowOutcome:
    """The window on the monotonic clock.

    ``died`` describes the first tenant that failed, '' if none did. ``spread`` is the time in
    seconds between the first and the last end of the tenants that were planned to run to the end.
    """

    began: float
    ended: float
    died: str
    spread: float


class MeasurementWindow:
    """Runs the programs of all tenants.

    Args:
        host: the machine.
        programs: one per tenant.
        tick: called about once a second with the share of the window that is over.
    """

    def __init__(
        self, host: Host, programs: Sequence[TenantProgram], tick: Callable[[float], None]
    ) -> None:
        self._host = host
        self._programs = tuple(programs)
        self._tick = tick
        self._length = max(program.planned_end for program in programs)
        self._died = ""

    @property
    def died(self) -> str:
        """The first tenant that failed and how, '' so far."""
        return self._died

    def run(self) -> WindowOutcome:
        """Start, release and wait for all programs. None is left running, whatever happens.

        Raises:
            TimedOut: a tenant did not open its database in time.
            HostError: a program is not installed.
            Hung: a program was killed and does not end.
        """
        with cleaned(self._stop, uses_device=False):
            for program in self._programs:
                if program.gate is not None:
                    self._start(program)
            self._wait_ready()
            began = self._host.monotonic()
            self._follow(began)
        last = [one for one in self._programs if one.planned_end == self._length]
        ends = [one.ended_at for one in last if one.ended_at is not None]
        unforced = [one.ended_at for one in last if one.ended_at is not None and not one.stopped]
        spread = max(unforced) - min(unforced) if unforced else 0.0
        return WindowOutcome(began, min(ends, default=began), self._died, spread)

    def _start(self, program: TenantProgram) -> None:
        prepared = program.prepared
        with prepared.stdout.open("wb") as out, prepared.stderr.open("wb") as err:
            program.child = proc.spawn(program.argv, stdout=out, stderr=err)
        program.started = self._host.now()

    def _wait_ready(self) -> None:
        longest = _READY_SECONDS * patience()
        deadline = self._host.monotonic() + longest
        waiting = [program for program in self._programs if program.gate is not None]
        while waiting and not self._died:
            self._reap()
            waiting = [program for program in waiting if not _is_ready(program)]
            if waiting and self._host.monotonic() > deadline:
                raise TimedOut(
                    f"tenant {waiting[0].tenant.name} did not open its database within "
                    f"{longest:.0f} s",
                    hint=f"see raw/{waiting[0].prepared.spec.name}.stderr",
                    code="tenant-not-ready",
                )
            if waiting:
                self._sleep(_POLL_SECONDS)

    def _follow(self, began: float) -> None:
        """Release each program at its start offset, until all have ended or one has died."""
        ticked = float("-inf")
        while not self._died:
            now = self._host.monotonic()
            for program in self._programs:
                if program.released is None and now >= began + program.tenant.start_offset:
                    self._release(program)
            if all(program.exit is not None for program in self._programs):
                return
            if now - ticked >= _TICK_SECONDS * 0.95:
                ticked = now
                self._tick(min((now - began) / self._length, 1.0))
            offsets = [
                program.tenant.start_offset
                for program in self._programs
                if program.released is None
            ]
            due = min(offsets, default=float("inf")) + began - self._host.monotonic()
            self._sleep(max(0.0, min(due, _TICK_SECONDS)))
            self._reap()
            self._detect_hung()

    def _release(self, program: TenantProgram) -> None:
        if program.gate is None:
            self._start(program)
        else:
            program.gate.touch()
        program.released = self._host.monotonic()

    def _sleep(self, seconds: float) -> None:
        """Wait, but no longer than until a program ends."""
        waiter = select.poll()
        working = [one.child for one in self._programs if one.child and one.running]
        descriptors = [os.pidfd_open(child.pid) for child in working]
        try:
            for descriptor in descriptors:
                waiter.register(descriptor, select.POLLIN)
            waiter.poll(seconds * 1000)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _reap(self) -> None:
        """Record programs that have ended; a failed program has died."""
        for program in self._programs:
            if program.child is None or program.exit is not None:
                continue
            pid, status, usage = os.wait4(program.child.pid, os.WNOHANG)
            if pid != 0:
                program.child.returncode = os.waitstatus_to_exitcode(status)
                program.cpu_seconds = usage.ru_utime + usage.ru_stime
                self._note_exit(program, program.child.returncode)

    def _note_exit(self, program: TenantProgram, code: int) -> None:
        program.ended_at = self._host.monotonic()
        early = program.released is None
        seconds = 0.0 if program.released is None else program.ended_at - program.released
        exit_code, number = (code, None) if code >= 0 else (None, -code)
        program.exit = ProgramExit(exit_code, number, seconds, timed_out=False, stalled=False)
        if (code != 0 or early) and not program.stopped and not self._died:
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            when = "before it began" if early else f"after {seconds:.1f} s"
            self._died = f"tenant {program.tenant.name} ended with {how} {when}"

    def _detect_hung(self) -> None:
        now = self._host.monotonic()
        for program in self._programs:
            if not program.running or program.released is None or self._died:
                continue
            spent = now - program.released
            stalled = program.progress.stalled(spent)
            if stalled or spent > time_limit(program.prepared.spec):
                how = "made no progress" if stalled else "did not end"
                self._died = f"tenant {program.tenant.name} {how} within {spent:.0f} s"

    def _stop(self) -> None:
        """End the remaining programs: SIGTERM first, then SIGKILL."""
        left = [program for program in self._programs if program.running]
        for program in left:
            program.stopped = True
            _signal(program, signal.SIGTERM)
        deadline = self._host.monotonic() + _GRACE_SECONDS * patience()
        while self._host.monotonic() < deadline and any(program.running for program in left):
            self._sleep(_POLL_SECONDS)
            self._reap()
        for program in left:
            if program.running:
                _signal(program, signal.SIGKILL)
        for program in left:
            if program.running and program.child is not None:
                proc.require_end(program.child)
                self._reap()


def _is_ready(program: TenantProgram) -> bool:
    gate = program_of(program.prepared.spec).start_gate
    return gate is None or gate.ready in text_or_empty(program.prepared.stderr)


def _signal(program: TenantProgram, number: int) -> None:
    if program.child is not None:
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(program.child.pid, number)
