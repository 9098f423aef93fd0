"""The life of one run: guard → claim → level up → cold fill → phases → level down → release."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.errors import HostError, Interrupted, TimedOut, ZonelabError
from harness.levels.base import LevelContext, LevelUp
from harness.observe.sampler import Sampler
from harness.rules import PhaseFacts
from harness.run import phases
from harness.run.bench import Bench
from harness.run.claim import Claim, label
from harness.run.phases import Barrier, Stage
from harness.run.progress import Share
from harness.run.record import Record
from harness.run.schedulers import schedulers
from harness.store.codec import encode
from harness.store.result import Status, Utilisation
from harness.store.rundir import RunWriter, full_disk_is_clear
from harness.store.spec import Bytes, ColdSpec, PhaseRole, PhaseSpec, Reason, RunSpec

# Long enough for a writer at 1 Hz to show, short against a run of a minute.
_IDLE_SECONDS = 1.0
_PHASE_SEED_STEP = 100
_NO_COLD = ColdSpec(target_utilisation=0.0, tolerance=1.0, bytes=Bytes(0))


def phase_seed(run: RunSpec, phase: PhaseSpec) -> int:
    """Give each phase keys of its own: with one seed, overwrite would replay the fill's order.

    db_bench adds the thread's number to it, so phases stay a hundred apart (blocks: 10,000).
    """
    return run.seed + _PHASE_SEED_STEP * run.phases.index(phase)


class _Skip(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.message)
        self.reason = reason


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
        self._sampler: Sampler | None = None
        self._maximum: float | None = None
        self._cold = 0

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
        reason = self._level.probe(self._spec.device, self._spec.conventional)
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
        except _Skip as skip:
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

    def _live(self) -> None:
        self._wait_idle()
        self._claim.clear()
        with self._up() as up:
            self._claim.formatted()
            self._record.note_host()
            spec, host = self._spec, self._bench.host
            stage = Stage(
                self._level, up, spec.device, spec.conventional, self._writer, self._record.began
            )
            self._sampler = Sampler(
                self._writer.path / "series" / "diskstats.csv",
                stage.names,
                lambda: host.proc_text("diskstats"),
                clock=host.monotonic,
                began=self._record.began,
            )
            try:
                self._measure(stage)
            finally:
                self._sampler.close()

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
        up = self._level.up(
            LevelContext(
                device=self._spec.device,
                conventional=self._spec.conventional,
                options=self._spec.level_options,
                scratch=scratch,
                label=label(self._spec),
                check_devices=self._claim.check,
            )
        )
        try:
            yield up
        finally:
            with self._bench.stop.deferred():
                self._bench.progress.phase("level down")
                self._level.down(up)
                scratch.rmdir()

    def _measure(self, stage: Stage) -> None:
        """Cold fill, fill phases, utilisation, measured phases."""
        fresh = phases.barrier(self._bench, stage, "up")
        if fresh.usage.free_bytes is not None:
            self._maximum = min(fresh.usage.free_bytes / self._spec.device.capacity, 1.0)
        self._record.level |= {
            "mount_options": stage.up.mount_options,
            "gc_source": fresh.usage.gc_source,
            "fresh": encode(fresh.usage),
        }
        self._fill_cold(stage)
        point = phases.barrier(self._bench, stage, "cold")
        fills = [spec for spec in self._spec.phases if spec.role is PhaseRole.FILL]
        measured = [spec for spec in self._spec.phases if spec.role is PhaseRole.MEASURED]
        for index, spec in enumerate(fills):
            point = self._phase(stage, spec, point, first=index == 0)
        self._record.utilisation = self._utilisation(stage, point)
        for index, spec in enumerate(measured):
            point = self._phase(stage, spec, point, first=index == 0 and not fills)

    def _fill_cold(self, stage: Stage) -> None:
        cold, capacity = self._spec.cold, self._spec.device.capacity
        if cold is None or cold.bytes == 0:
            return
        if self._maximum is not None and cold.target_utilisation > self._maximum:
            raise _Skip(
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
        self._cold = self._level.fill_cold(
            stage.up,
            cold.bytes,
            self._spec.seed,
            lambda done, wanted: self._tick(lambda: done / wanted if wanted else None),
        )
        self._record.level["cold_seconds"] = round(self._bench.host.monotonic() - begin, 3)

    def _phase(self, stage: Stage, spec: PhaseSpec, before: Barrier, *, first: bool) -> Barrier:
        self._bench.progress.phase(spec.name)
        facts, result, after = phases.run_phase(
            self._bench,
            stage,
            spec,
            phase_seed(self._spec, spec),
            first=first,
            before=before,
            seconds_left=self._seconds_left(),
            tick=self._tick,
        )
        self._record.add(facts, result)
        self._bench.stop.check()
        if not facts.ended_well:
            self._seconds_left()  # the run's own limit is the better reason
            raise _failure(facts)
        return after

    def _tick(self, share: Share) -> None:
        self._seconds_left()
        if self._sampler is not None:
            self._sampler.tick()
        self._bench.progress.tick(share)

    def _seconds_left(self) -> float:
        left = self._spec.timeout_seconds - self._record.seconds()
        if left <= 0:
            raise TimedOut(
                f"the run did not end within {self._spec.timeout_seconds} s",
                hint="raise timeout_seconds, or ask for less work",
                code="run-timeout",
            )
        return left

    def _utilisation(self, stage: Stage, point: Barrier) -> Utilisation:
        """Return V and A after the fill phases, behind a barrier."""
        wanted = self._spec.cold or _NO_COLD
        database = stage.level.database_bytes(stage.up)
        live, capacity = self._cold + database, self._spec.device.capacity
        drive = self._bench.host.drive_capacity(Path(self._spec.device.path).name)
        return Utilisation(
            target=wanted.target_utilisation,
            tolerance=wanted.tolerance,
            u_ns=live / capacity,
            u_drive=live / drive if drive else None,
            live_bytes=live,
            allocated_bytes=point.zones.allocated if point.zones else None,
            cold_bytes=self._cold,
            database_bytes=database,
            capacity_bytes=capacity,
            max_utilisation=self._maximum,
        )


def _reason(error: ZonelabError) -> Reason:
    return Reason(error.code, error.message, error.hint)


def _failure(facts: PhaseFacts) -> ZonelabError:
    """Describe a phase that did not end well."""
    if facts.timed_out:
        return TimedOut(
            f"phase {facts.spec.name} did not end within {facts.spec.timeout_seconds} s",
            hint="raise its timeout_seconds, or ask for less work",
            code="phase-timeout",
        )
    how = f"exit status {facts.exit_code}" if facts.signal is None else f"signal {facts.signal}"
    lines = [line for line in facts.output.splitlines() if line.strip()]
    return ZonelabError(
        f"db_bench ended with {how} in phase {facts.spec.name}"
        + (f": {lines[-1].strip()[:200]}" if lines else ""),
        hint=f"see raw/{facts.spec.name}.stderr",
        code="db-bench-failed",
    )
