"""The time in which all tenants are measured: released together, stopped together."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import TimedOut
from harness.run.host import Host
from harness.run.phases import Ready
from harness.run.program import Ended
from harness.run.share import ShareDone
from harness.store.spec import TenantSpec
from harness.tools import kvmix, proc

_TICK_SECONDS = 1.0
_LOOK_SECONDS = 0.02  # while programs open their databases: nobody is measured yet
_READY_SECONDS = 300.0  # a large database takes its time to be opened
_GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL


@dataclass(slots=True)
class Runner:
    """A tenant's program on its way through the window.

    ``argv`` is complete, unit and all; ``gate`` is the file that releases kvmix, null for programs
    that begin when they are started. ``released`` and ``ended_at`` are on the monotonic clock.
    """

    tenant: TenantSpec
    ready: Ready
    argv: Sequence[str]
    gate: Path | None
    share: ShareDone = field(init=False)
    child: subprocess.Popen[bytes] | None = None
    started: str = ""
    released: float | None = None
    ended_at: float | None = None
    ended: Ended | None = None
    cpu_seconds: float | None = None
    stopped: bool = False  # by us, because another one died

    def __post_init__(self) -> None:
        """Follow the program's report."""
        self.share = ShareDone(self.ready.report.path, self.ready.spec)

    @property
    def running(self) -> bool:
        """Whether its program is there."""
        return self.child is not None and self.ended is None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The window, on the monotonic clock; ``died`` says which tenant did, '' when none."""

    began: float
    ended: float
    died: str


class Window:
    """Runs the programs of all tenants.

    Args:
        host: the machine.
        runners: one per tenant.
        tick: called about once a second with the share of the window that is over.
    """

    def __init__(
        self, host: Host, runners: Sequence[Runner], tick: Callable[[float], None]
    ) -> None:
        self._host = host
        self._runners = tuple(runners)
        self._tick = tick
        self._died = ""

    def run(self) -> Outcome:
        """Start all, release all, wait for all; whatever happens, no program is left behind.

        Raises:
            TimedOut: a tenant's database was not open in time.
            HostError: a program is not installed.
        """
        try:
            for one in self._runners:
                if one.gate is not None:
                    self._start(one)
            self._wait_ready()
            began = self._host.monotonic()
            self._follow(began)
        finally:
            self._stop()
        return Outcome(began, self._end(began), self._died)

    def _start(self, one: Runner) -> None:
        with one.ready.stdout.open("wb") as out, one.ready.stderr.open("wb") as err:
            one.child = proc.spawn(one.argv, stdout=out, stderr=err)
        one.started = self._host.now()

    def _wait_ready(self) -> None:
        deadline = self._host.monotonic() + _READY_SECONDS
        waiting = [one for one in self._runners if one.gate is not None]
        while waiting and not self._died:
            self._reap()
            waiting = [one for one in waiting if not _says_ready(one.ready.stderr)]
            if self._host.monotonic() > deadline:
                raise TimedOut(
                    f"tenant {waiting[0].tenant.name} did not open its database within "
                    f"{_READY_SECONDS:g} s",
                    hint=f"see raw/{waiting[0].ready.spec.name}.stderr",
                    code="tenant-not-ready",
                )
            if waiting:
                self._sleep(_LOOK_SECONDS)

    def _follow(self, began: float) -> None:
        """Release tenants when it is their turn, until all have ended or one has died."""
        last = max(one.tenant.start_offset + one.tenant.duration for one in self._runners)
        ticked = float("-inf")
        while not self._died:
            now = self._host.monotonic()
            for one in self._runners:
                if one.released is None and now >= began + one.tenant.start_offset:
                    self._release(one)
            if all(one.ended is not None for one in self._runners):
                return
            if now - ticked >= _TICK_SECONDS * 0.95:
                ticked = now
                self._tick(min((now - began) / last, 1.0))
            offsets = [o.tenant.start_offset for o in self._runners if o.released is None]
            due = min(offsets, default=float("inf")) + began - self._host.monotonic()
            self._sleep(max(0.0, min(due, _TICK_SECONDS)))
            self._reap()
            self._look_for_hung()

    def _release(self, one: Runner) -> None:
        if one.gate is None:
            self._start(one)
        else:
            one.gate.touch()
        one.released = self._host.monotonic()

    def _sleep(self, seconds: float) -> None:
        """Wait, but not beyond the end of a program."""
        waiter = select.poll()
        working = [one.child for one in self._runners if one.child and one.running]
        descriptors = [os.pidfd_open(child.pid) for child in working]
        try:
            for descriptor in descriptors:
                waiter.register(descriptor, select.POLLIN)
            waiter.poll(seconds * 1000)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _reap(self) -> None:
        """Take programs that have ended; one that did not end well has died."""
        for one in self._runners:
            if one.child is None or one.ended is not None:
                continue
            pid, status, usage = os.wait4(one.child.pid, os.WNOHANG)
            if pid == 0:
                continue
            self._note(one, os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)

    def _note(
        self, one: Runner, code: int, cpu: float, *, timed_out: bool = False, stalled: bool = False
    ) -> None:
        assert one.child is not None  # noqa: S101 - only called for what was started
        one.child.returncode = code
        one.ended_at, one.cpu_seconds = self._host.monotonic(), cpu
        seconds = one.ended_at - one.released if one.released is not None else 0.0
        exit_code, number = (code, None) if code >= 0 else (None, -code)
        one.ended = Ended(exit_code, number, seconds, timed_out, stalled)
        early = one.released is None
        if (code != 0 or early) and not one.stopped and not self._died:
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            when = "before it began" if early else f"after {seconds:.1f} s"
            self._died = f"tenant {one.tenant.name} ended with {how} {when}"

    def _look_for_hung(self) -> None:
        now = self._host.monotonic()
        for one in self._runners:
            if not one.running or one.released is None or self._died:
                continue
            spent = now - one.released
            stalled = one.share.stalled(spent)
            if stalled or spent > one.ready.spec.timeout_seconds:
                how = "got nowhere" if stalled else "did not end"
                self._died = f"tenant {one.tenant.name} {how} within {spent:.0f} s"

    def _stop(self) -> None:
        """End every program that is left: politely, then for certain."""
        left = [one for one in self._runners if one.running]
        for one in left:
            one.stopped = True
            _signal(one, signal.SIGTERM)
        deadline = self._host.monotonic() + _GRACE_SECONDS
        while self._host.monotonic() < deadline and any(one.running for one in left):
            self._sleep(_LOOK_SECONDS)
            self._reap()
        for one in left:
            if one.running:
                _signal(one, signal.SIGKILL)
        for one in left:
            if one.running and one.child is not None:
                _, status, usage = os.wait4(one.child.pid, 0)
                cpu = usage.ru_utime + usage.ru_stime
                self._note(one, os.waitstatus_to_exitcode(status), cpu)

    def _end(self, began: float) -> float:
        """Return when the first of those ended that last to the end of the window."""
        last = max(one.tenant.start_offset + one.tenant.duration for one in self._runners)
        ends = [
            one.ended_at
            for one in self._runners
            if one.ended_at and one.tenant.start_offset + one.tenant.duration == last
        ]
        return min(ends, default=began)


def _says_ready(stderr: Path) -> bool:
    try:
        return kvmix.READY in stderr.read_text(errors="replace")
    except OSError:
        return False


def _signal(one: Runner, number: int) -> None:
    try:
        if one.child is not None:
            os.killpg(one.child.pid, number)
    except ProcessLookupError:
        return  # it ended by itself meanwhile
