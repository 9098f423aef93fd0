"""What is measured while a level is up: cold fill, fill phases, utilisation, measured phases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import TimedOut, ZonelabError
from harness.levels.base import DirectIo
from harness.observe import rocksdb_build
from harness.observe.sampler import Sampler
from harness.rules import DIRECT_FLAGS, PhaseFacts
from harness.run import infeasible, phases
from harness.run.bench import Bench
from harness.run.observers import observers
from harness.run.phases import Barrier, Stage
from harness.run.progress import Share
from harness.run.record import Record
from harness.run.utilisation import utilisation
from harness.store.codec import encode
from harness.store.result import Utilisation
from harness.store.spec import PhaseRole, PhaseSpec, Reason, RunSpec


class Infeasible(Exception):
    """The level cannot be brought to the state that was asked for; the run is skipped."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.message)
        self.reason = reason


class Measurement:
    """Takes a run through its phases; everything it finds goes into the record.

    Args:
        bench: what all runs share.
        spec: the run.
        stage: its level, up.
        record: what is known about the run.
    """

    def __init__(self, bench: Bench, spec: RunSpec, stage: Stage, record: Record) -> None:
        self._bench = bench
        self._spec = spec
        self._stage = stage
        self._record = record
        self._maximum: float | None = None
        self._cold = 0
        self._sampler = Sampler(
            stage.writer.path / "series",
            observers(bench, stage),
            clock=bench.host.monotonic,
            began=record.began,
        )

    def run(self) -> None:
        """Measure, sampling counters all the while.

        Raises:
            Infeasible: the fresh level offers less than the wanted utilisation, or a setting that
                trades room has none left.
            TimedOut: a phase or the run took longer than it may.
            ZonelabError: db_bench did not end well.
        """
        self._bench.cgroups.limit_memory(self._spec.memory_limit)
        try:
            self._measure()
        finally:
            self._sampler.close()

    def _measure(self) -> None:
        stage = self._stage
        self._record.direct_io = stage.level.direct_io(stage.up)
        fresh = phases.barrier(self._bench, stage, "up", 0)
        self._record.points.append(fresh.point)
        if fresh.usage.free_bytes is not None:
            self._maximum = min(fresh.usage.free_bytes / self._spec.device.capacity, 1.0)
        self._record.level |= {
            "mount_options": stage.up.mount_options,
            "gc_source": fresh.usage.gc_source,
            "program": str(stage.up.program or self._bench.program),
            "facts": dict(stage.up.facts),
            "direct_io": direct_io_record(self._spec.phases, self._record.direct_io),
            "fresh": encode(fresh.usage),
        }
        if stage.up.program not in (None, self._bench.program):  # else the host's manifest has it
            self._record.level["rocksdb_build"] = rocksdb_build.of_program(stage.up.program)
        self._fill_cold()
        point = phases.barrier(self._bench, stage, "cold", self._cold)
        self._record.points.append(point.point)
        fills = [spec for spec in self._spec.phases if spec.role is PhaseRole.FILL]
        measured = [spec for spec in self._spec.phases if spec.role is PhaseRole.MEASURED]
        for index, spec in enumerate(fills):
            point = self._phase(spec, point, first=index == 0)
        self._record.utilisation = self._utilisation(point)
        for index, spec in enumerate(measured):
            point = self._phase(spec, point, first=index == 0 and not fills)

    def _fill_cold(self) -> None:
        cold, capacity = self._spec.cold, self._spec.device.capacity
        if cold is None or cold.bytes == 0:
            return
        if self._maximum is not None and cold.target_utilisation > self._maximum:
            raise Infeasible(
                Reason(
                    "utilisation-infeasible",
                    f"{self._spec.level} offers {self._maximum:.1%} of {capacity} B when fresh"
                    f" ({round(self._maximum * capacity)} B), less than the"
                    f" {cold.target_utilisation:.1%} wanted",
                    "choose a lower target utilisation",
                )
            )
        self._bench.progress.phase("cold fill")
        begin = self._bench.host.monotonic()
        self._cold = self._stage.level.fill_cold(
            self._stage.up,
            cold.bytes,
            self._spec.seed,
            lambda done, wanted: self._tick(lambda: done / wanted if wanted else None),
        )
        self._record.level["cold_seconds"] = round(self._bench.host.monotonic() - begin, 3)

    def _phase(self, spec: PhaseSpec, before: Barrier, *, first: bool) -> Barrier:
        self._bench.progress.phase(spec.name)
        facts, result, after = phases.run_phase(
            self._bench,
            self._stage,
            spec,
            phases.seed(self._spec.seed, self._spec.phases, spec),
            key_seed=self._spec.seed,
            first=first,
            before=before,
            cold=self._cold,
            seconds_left=self._record.seconds_left(),
            tick=self._tick,
        )
        self._record.add(facts, result, after.point)
        self._bench.stop.check()
        if not facts.ended_well:
            self._record.seconds_left()  # the run's own limit is the better reason
            if reason := infeasible.full(self._spec, facts, after.point):
                raise Infeasible(reason)
            raise failure(facts)
        return after

    def _tick(self, share: Share) -> None:
        self._record.seconds_left()
        self._sampler.tick()
        if self._stage.tracer:
            self._stage.tracer.tick()
        self._bench.progress.tick(share)

    def _utilisation(self, point: Barrier) -> Utilisation:
        """Return V and A after the fill phases, behind a barrier."""
        return utilisation(
            self._bench,
            self._stage,
            self._spec.cold,
            cold=self._cold,
            database=point.point.snapshot.database_bytes,
            allocated=point.zones.allocated if point.zones else None,
            maximum=self._maximum,
        )


def direct_io_record(phases: Sequence[PhaseSpec], found: DirectIo | None) -> dict[str, Any]:
    """Return what was asked for in the flags, and what became of it (null: not known)."""
    asked = {
        name: any(bool(phase.flags.get(flag)) for phase in phases)
        for name, flag in DIRECT_FLAGS.items()
    }
    if found is None:
        return {"requested": asked, "effective": {"reads": None, "writes": None}}
    effective = {"reads": found.reads, "writes": found.writes}
    return {
        "requested": asked,
        "effective": effective,
        "source": found.source,
        "facts": dict(found.facts),
    }


def _last_words(log: str) -> str:
    """Return what RocksDB's LOG complained of last: most often that there is no room."""
    lines = [line for line in log.splitlines() if "[WARN]" in line or "[ERROR]" in line]
    return f"; RocksDB: {lines[-1].split('] ', 2)[-1][:200]}" if lines else ""


def failure(facts: PhaseFacts) -> ZonelabError:
    """Describe a phase that did not end well."""
    if facts.timed_out:
        return TimedOut(
            f"phase {facts.spec.name} did not end within {facts.spec.timeout_seconds} s",
            hint="raise its timeout_seconds, or ask for less work",
            code="phase-timeout",
        )
    if facts.stalled:
        return TimedOut(
            f"phase {facts.spec.name} did nothing for {facts.spec.stall_seconds} s"
            + _last_words(facts.database_log),
            hint="give the database more room, or the phase a longer stall_timeout",
            code="phase-stalled",
        )
    how = f"exit status {facts.exit_code}" if facts.signal is None else f"signal {facts.signal}"
    lines = [line for line in facts.output.splitlines() if line.strip()]
    return ZonelabError(
        f"{facts.spec.program} ended with {how} in phase {facts.spec.name}"
        + (f": {lines[-1].strip()[:200]}" if lines else ""),
        hint=f"see raw/{facts.spec.name}.stderr",
        code="db-bench-failed" if facts.spec.program == "db_bench" else "load-failed",
    )
