"""What is known about a run while it runs, and the ``result.json`` made of it at the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.drive import precondition
from harness.errors import TimedOut
from harness.levels.base import DirectIo, Level
from harness.nulls import total
from harness.observe.manifest import manifest
from harness.rules import PhaseFacts, RunFacts, bandwidth, judge
from harness.run import ledger, phases, zone_costs
from harness.run.bench import Bench
from harness.run.ledger import Point
from harness.store.ledger import Ledger
from harness.store.result import Issue, Metric, PhaseResult, Result, Severity, Status, Utilisation
from harness.store.rundir import RunWriter
from harness.store.spec import Device, Reason, RunSpec


class Record:
    """Collects facts; ``result`` judges them."""

    def __init__(
        self, bench: Bench, level: Level, spec: RunSpec, devices: Sequence[Device]
    ) -> None:
        self._bench = bench
        self._level = level
        self._spec = spec
        self._devices = devices
        self._facts: list[PhaseFacts] = []
        self._phases: list[PhaseResult] = []
        self._metrics: dict[str, Metric] = {}
        self._ledger: Ledger | None = None
        self._manifest: dict[str, Any] | None = None
        self._started = bench.host.now()
        self._began_real = bench.host.realtime()
        self._log = bench.host.kernel_log()
        self.began = bench.host.monotonic()
        self.points: list[Point] = []  # barriers: level up, cold data written, behind each phase
        self.idle_written: dict[str, int] = {}
        self.level: dict[str, Any] = {}
        self.utilisation: Utilisation | None = None
        self.direct_io: DirectIo | None = None
        self.found: tuple[Issue, ...] = ()
        self.untraced: Reason | None = None

    def seconds(self) -> float:
        """Return how long the run has been on."""
        return self._bench.host.monotonic() - self.began

    def seconds_left(self) -> float:
        """Return how long the run may still take.

        Raises:
            TimedOut: no longer.
        """
        left = self._spec.timeout_seconds - self.seconds()
        if left <= 0:
            raise TimedOut(
                f"the run did not end within {self._spec.timeout_seconds} s",
                hint="raise timeout_seconds, or ask for less work",
                code="run-timeout",
            )
        return left

    def note_host(self) -> None:
        """Take the manifest, with every setting as it is during the measurement."""
        host = self._bench.host
        devices = [host.device(device.path) for device in self._devices]
        self._manifest = manifest(host, devices, self._bench.program)
        for record, device in zip(self._manifest["devices"], devices, strict=True):
            record["preconditioned"] = precondition.summary(self._bench.paths.state, device)
        self._manifest["remainder_bytes"] = precondition.kept_bytes(
            host, self._bench.paths.state, devices[0], [one.identity.key for one in devices]
        )

    def add(self, facts: PhaseFacts, result: PhaseResult, after: Point) -> None:
        """Add a phase and the barrier behind it."""
        self._facts.append(facts)
        self._phases.append(result)
        self.points.append(after)
        self._metrics |= phases.metrics(facts)

    def result(self, status: Status, reason: Reason | None, writer: RunWriter) -> Result:
        """Judge the run and return its record; the kernel log goes to ``raw/``."""
        spec, seconds, log = self._spec, self.seconds(), self.kernel_log(writer)
        if len(self.points) > 1:  # cold data is there
            self._ledger = ledger.of_phases(spec.level, self.points, self._facts)
            self._metrics |= ledger.metrics(self._ledger)
            own = self.points[-1].usage.own  # a level that counts knows which are its metadata's
            self._metrics |= zone_costs.of_folder(
                writer.path,
                spec.device,
                own.metadata_zones if own else self._level.metadata_zones,
                self._ledger,
                self._facts,
            )
            writer.write("ledger.json", self._ledger)
        issues = () if status is Status.SKIPPED else self._judge(log, seconds)
        if status is Status.OK and any(issue.severity is Severity.ERROR for issue in issues):
            status = Status.INVALID
        return replace(
            self.frame(status, reason, seconds),
            metrics=self._metrics | self._run_metrics(),
            issues=issues,
            utilisation=self.utilisation,
            phases=tuple(self._phases),
            manifest={"host": self.host_manifest(), "level": self.level},
        )

    def kernel_log(self, writer: RunWriter) -> str | None:
        """Store what the kernel said, and return it; null where it could not be read."""
        log = self._log.read() if self._log.available else None
        self._log.close()
        writer.write("raw/kernel.log", log or "")
        return log

    def clock_jump(self, seconds: float) -> float:
        """Return how far real time and monotonic time moved apart in so many seconds."""
        return self._bench.host.realtime() - self._began_real - seconds

    def host_manifest(self) -> dict[str, Any] | None:
        """Return the manifest of the measurement, or of now when it never came to that."""
        if self._manifest is None:
            self.note_host()
        return self._manifest

    def frame(self, status: Status, reason: Reason | None, seconds: float) -> Result:
        """Return a result that says which run it was, and nothing of what was measured."""
        spec = self._spec
        return Result(
            status=status,
            level=spec.level,
            cell=spec.cell,
            repetition=spec.repetition,
            metrics={},
            issues=(),
            reason=reason,
            campaign=spec.campaign,
            study=spec.study,
            run=spec.run,
            factors=spec.factors,
            attempt=spec.attempt,
            block=spec.block,
            position=spec.position,
            seed=spec.seed,
            device=spec.device,
            started=self._started,
            finished=self._bench.host.now(),
            seconds=round(seconds, 3),
            utilisation=None,
            phases=(),
        )

    def _judge(self, log: str | None, seconds: float) -> tuple[Issue, ...]:
        return judge(
            RunFacts(
                spec=self._spec,
                uses_zoned=self._level.uses_zoned,
                phases=tuple(self._facts),
                kernel_log=log,
                utilisation=self.utilisation,
                idle_written=self.idle_written,
                clock_jump=self.clock_jump(seconds),
                direct_io=self.direct_io,
                caveats=(*self._level.caveats(self._spec.device), *self.found),
                buffers_conventional=self._level.buffers_conventional,
                ledger=self._ledger,
                untraced=self.untraced,
            )
        )

    def _run_metrics(self) -> dict[str, Metric]:
        return of_run(self._spec, self._facts, self.utilisation) | {
            "run.harness_memory_peak": Metric(memory_peak(), "B")
        }


def of_run(
    spec: RunSpec, phases: Sequence[PhaseFacts], found: Utilisation | None
) -> dict[str, Metric]:
    """Return the metrics that a run's devices, phases and utilisation give together."""
    measured = [facts for facts in phases if facts.measured]
    own = total([facts.harness_seconds for facts in measured])
    load = total([facts.load_seconds for facts in measured])
    share = own / (own + load) if own is not None and load else None
    kernel = total([facts.traced.kernel_seconds if facts.traced else None for facts in measured])
    return {
        "run.utilisation": Metric(found.u_ns if found else None, "1"),
        "run.max_utilisation": Metric(found.max_utilisation if found else None, "1"),
        "run.harness_cpu_share": Metric(share, "1"),
        "run.tracer_cpu_share": Metric(
            kernel / (own + load) if kernel is not None and own is not None and load else None, "1"
        ),
    } | {
        f"{one.spec.name}.bandwidth_share": Metric(bandwidth.share(spec, one), "1")
        for one in phases
    }


def memory_peak() -> int | None:
    """Return this process's peak RSS in bytes; getrusage would tell the parent's before exec."""
    match = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else None
