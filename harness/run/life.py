"""The life of one run: guard → claim → level up → measurement → level down → release."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import HostError
from harness.observe.tracer import Tracer
from harness.run.base import Life, reason_of
from harness.run.bench import Bench
from harness.run.claim import Claim
from harness.run.measure import Measurement
from harness.run.phases import Stage
from harness.run.record import Record
from harness.run.tracing import traced
from harness.store.result import Result, Status
from harness.store.rundir import RunWriter
from harness.store.spec import Reason, RunSpec
from harness.workloads import PROGRAMS


class OneRun(Life):
    """A run of one workload.

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
        self._level = level
        super().__init__(
            bench, spec, writer, Claim(bench, spec, used), Record(bench, level, spec, used)
        )

    def _result(self, status: Status, reason: Reason | None) -> Result:
        return self._record.result(status, reason, self._writer)

    def _probe(self) -> Reason | None:
        return (
            self._level.probe(self._spec.device, self._spec.conventional)
            or self._level.probe_program(self._bench.program)
            or self._probe_loads()
        )

    def _probe_loads(self) -> Reason | None:
        """Ask for the phases' programs other than db_bench."""
        for name in sorted({phase.program for phase in self._spec.phases} - {"db_bench"}):
            try:
                program = PROGRAMS[name].path(self._bench.program)
            except HostError as error:
                return reason_of(error)
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
        with self._level_up(
            self._level, self._spec.device, self._spec.conventional, self._spec.level_options
        ) as up:
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
