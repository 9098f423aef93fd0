"""What the life of every run has in common: how it ends, how levels come up and go down."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.drive import health
from harness.errors import HostError, Interrupted, ZonelabError
from harness.levels.base import Level, LevelContext, LevelUp
from harness.run.bench import Bench
from harness.run.claim import Claim, label
from harness.run.measure import Infeasible
from harness.run.record import Record
from harness.run.schedulers import schedulers
from harness.store.result import Result, Status
from harness.store.rundir import RunWriter, full_disk_is_clear
from harness.store.spec import Device, Reason, RunSpec, Scalar

# Long enough for a writer at 1 Hz to show, short against a run of a minute.
_IDLE_SECONDS = 1.0


class Life(ABC):
    """Executes one run and writes its directory.

    Args:
        bench: what all runs share.
        spec: this run, its devices as they are now.
        writer: its directory.
        claim: its devices.
        record: what is known about it.
    """

    def __init__(
        self, bench: Bench, spec: RunSpec, writer: RunWriter, claim: Claim, record: Record
    ) -> None:
        self._bench = bench
        self._spec = spec
        self._writer = writer
        self._claim = claim
        self._record = record

    def execute(self) -> Status:
        """Run, judge, and commit the directory.

        Raises:
            GuardRefused: a device may not be used; nothing was written to it.
            HostError: the disk that holds results is full.
            Interrupted: after the run was put down and stored as ``aborted``.
        """
        interrupted: Interrupted | None = None
        try:
            status, reason = self._attempt()
        except Interrupted as error:
            interrupted = error
            status, reason = Status.ABORTED, reason_of(error)
        with self._bench.stop.deferred():
            result = self._result(status, reason)
            self._writer.write("run.json", self._spec)
            self._writer.write("result.json", result)
            self._writer.commit()
        if interrupted is not None:
            raise interrupted
        return result.status

    @abstractmethod
    def _probe(self) -> Reason | None:
        """Return why it cannot run here; nothing is claimed yet."""

    @abstractmethod
    def _live(self) -> None:
        """Do it; the devices are claimed, and their schedulers set."""

    @abstractmethod
    def _result(self, status: Status, reason: Reason | None) -> Result:
        """Judge it and return its record."""

    def _attempt(self) -> tuple[Status, Reason | None]:
        """Return how it went; everything that was up is down again by then."""
        if self._spec.infeasible is not None:
            return Status.SKIPPED, self._spec.infeasible
        reason = self._probe()
        if reason is not None:
            return Status.SKIPPED, reason
        self._claim.require_allowed()
        self._require_fit()
        devices = self._claim.devices
        try:
            with (
                full_disk_is_clear(self._writer.path),
                self._claim.held(),
                schedulers(self._bench, devices, self._spec.scheduler),
            ):
                self._live()
        except Infeasible as skip:
            return Status.SKIPPED, skip.reason
        except Interrupted:
            raise
        except ZonelabError as error:
            if isinstance(error, HostError) and error.code == "disk-full":
                raise
            return Status.FAILED, reason_of(error)
        except Exception as error:
            self._writer.write("raw/traceback.txt", traceback.format_exc())
            text = f"{type(error).__name__}: {error}"
            return Status.FAILED, Reason("internal", text, "see raw/traceback.txt; report it")
        return Status.OK, None

    def _require_fit(self) -> None:
        """Ask the drives of themselves: one that fails ends the campaign, a warm one may cool."""
        for device in self._claim.devices:
            name = Path(device.path).name
            health.require_healthy(self._bench.host, name)
            health.wait_cool(self._bench.host, name, self._bench.say)

    def _wait_idle(self) -> None:
        """Look whether someone else writes to the devices."""
        names = [Path(device.path).name for device in self._claim.devices]
        before = self._bench.host.disk_counters(names)
        time.sleep(_IDLE_SECONDS)
        after = self._bench.host.disk_counters(names)
        self._record.idle_written = {
            name: after[name].write_bytes - before[name].write_bytes for name in names
        }

    @contextmanager
    def _level_up(
        self,
        level: Level,
        device: Device,
        conventional: Device | None,
        options: Mapping[str, Scalar],
        *,
        tenant: str = "",
    ) -> Iterator[LevelUp]:
        """Bring a level up, and down again whatever happens; ``tenant`` has it to itself."""
        own, folder = (
            (f"{tenant}.", f"{self._spec.run}.{tenant}") if tenant else ("", self._spec.run)
        )
        self._bench.progress.phase(f"level up: {tenant}" if tenant else "level up")
        scratch = self._bench.paths.runtime / folder
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            up = level.up(
                LevelContext(
                    device=device,
                    conventional=conventional,
                    options=options,
                    scratch=scratch,
                    label=label(self._spec),
                    check_devices=self._claim.check,
                    program=self._bench.program,
                )
            )
        except BaseException:
            with suppress(OSError):  # something is left: the next start puts it right
                scratch.rmdir()
            raise
        try:
            yield up
        finally:
            with self._bench.stop.deferred():
                self._bench.progress.phase("level down")
                try:
                    for record in up.records:
                        self._writer.pack(record, f"raw/{own}{record.name}.xz")
                finally:
                    level.down(up)
                    scratch.rmdir()


def reason_of(error: ZonelabError) -> Reason:
    """Return an error as it is stored."""
    return Reason(error.code, error.message, error.hint)
