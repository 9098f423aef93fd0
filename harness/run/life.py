"""The life of one run: guard → claim → level up → measurement → level down → release."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from harness.errors import HostError, Interrupted, ZonelabError
from harness.levels.base import LevelContext, LevelUp
from harness.observe.tracer import Tracer
from harness.run.bench import Bench
from harness.run.claim import Claim, label
from harness.run.measure import Infeasible, Measurement
from harness.run.phases import Stage
from harness.run.record import Record
from harness.run.schedulers import schedulers
from harness.run.tracing import traced
from harness.store.result import Status
from harness.store.rundir import RunWriter, full_disk_is_clear
from harness.store.spec import Reason, RunSpec
from harness.workloads import PROGRAMS

# Long enough for a writer at 1 Hz to show, short against a run of a minute.
_IDLE_SECONDS = 1.0


class OneRun:
    """Executes one run and writes its directory.

    Args:
        bench: what all runs share.
        spec: this run, its devices as planned.
        writer: its directory.

    Raises:
        GuardRefused: a planned device is not there.
    """

    def __init__(self, bench: Bench, spec: RunSpec, writer: RunWriter) -> None:
        level = bench.levels[spec.level]
        companion = spec.conventional if level.needs_conventional else None
        spec = replace(
            spec,
            device=bench.host.find(spec.device),
            conventional=bench.host.find(companion) if companion else None,
        )
        zoned = [spec.device] if level.uses_zoned else []
        used = zoned + ([spec.conventional] if spec.conventional else [])
        self._bench = bench
        self._spec = spec
        self._level = level
        self._writer = writer
        self._claim = Claim(bench, spec, used)
        self._record = Record(bench, level, spec, used)

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
            status, reason = Status.ABORTED, _reason(error)
        with self._bench.stop.deferred():
            result = self._record.result(status, reason, self._writer)
            self._writer.write("run.json", self._spec)
            self._writer.write("result.json", result)
            self._writer.commit()
        if interrupted is not None:
            raise interrupted
        return result.status

    def _attempt(self) -> tuple[Status, Reason | None]:
        """Return how it went; everything that was up is down again by then."""
        reason = (
            self._level.probe(self._spec.device, self._spec.conventional)
            or self._level.probe_program(self._bench.program)
            or self._probe_loads()
        )
        if reason is not None:
            return Status.SKIPPED, reason
        self._claim.require_allowed()
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
            return Status.FAILED, _reason(error)
        except Exception as error:
            self._writer.write("raw/traceback.txt", traceback.format_exc())
            text = f"{type(error).__name__}: {error}"
            return Status.FAILED, Reason("internal", text, "see raw/traceback.txt; report it")
        return Status.OK, None

    def _probe_loads(self) -> Reason | None:
        """Ask for the phases' programs other than db_bench."""
        for name in sorted({phase.program for phase in self._spec.phases} - {"db_bench"}):
            try:
                program = PROGRAMS[name].path(self._bench.program)
            except HostError as error:
                return _reason(error)
            reason = self._level.probe_load(program)
            if reason is not None:
                return reason
        return None

    def _live(self) -> None:
        self._wait_idle()
        with traced(
            self._bench,
            self._spec,
            self._claim.devices,
            record=self._record,
            writer=self._writer,
        ) as tracer:
            self._measure(tracer)

    def _measure(self, tracer: Tracer | None) -> None:
        self._claim.clear()
        with self._up() as up:
            self._claim.formatted()
            self._record.note_host()
            spec = self._spec
            stage = Stage(
                self._level,
                up,
                spec.device,
                spec.conventional,
                self._writer,
                self._record.began,
                tracer,
            )
            Measurement(self._bench, spec, stage, self._record).run()
            self._bench.progress.phase("level check")
            self._record.found = self._level.check(up)

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
    def _up(self) -> Iterator[LevelUp]:
        """Bring the level up, and down again whatever happens."""
        self._bench.progress.phase("level up")
        scratch = self._bench.paths.runtime / self._spec.run
        scratch.mkdir(parents=True, exist_ok=True)
        try:
            up = self._level.up(
                LevelContext(
                    device=self._spec.device,
                    conventional=self._spec.conventional,
                    options=self._spec.level_options,
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
                        self._writer.pack(record, f"raw/{record.name}.xz")
                finally:
                    self._level.down(up)
                    scratch.rmdir()


def _reason(error: ZonelabError) -> Reason:
    return Reason(error.code, error.message, error.hint)
