"""The life of a run of several tenants: guard → claim → levels up → fills → window → down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from harness.errors import HostError, ZonelabError
from harness.levels import budget
from harness.levels.base import LevelUp
from harness.nulls import total
from harness.observe.tenant_trace import TenantTracer
from harness.observe.zones import Zone
from harness.rules import RunFacts
from harness.rules.facts import TenantFacts
from harness.run.base import Life, reason_of
from harness.run.bench import Bench
from harness.run.claim import Claim
from harness.run.measure import Infeasible
from harness.run.phases import Stage
from harness.run.record import Record, memory_peak
from harness.run.tenants import record as records
from harness.run.tenants.measure import Measurement
from harness.run.tenants.places import Place, placed
from harness.run.tenants.record import TenantRecord
from harness.run.tracing import sourced
from harness.store.result import Metric, Result, Severity, Status
from harness.store.rundir import RunWriter
from harness.store.spec import Device, Reason, RunSpec, TenantSpec, Tracing
from harness.workloads import PROGRAMS


class TenantsRun(Life):
    """A run of several workloads at once, or of one of them alone.

    Args:
        bench: what all runs share.
        spec: this run, its devices as planned.
        writer: its directory.

    Raises:
        GuardRefused: a planned device is not there.
    """

    def __init__(self, bench: Bench, spec: RunSpec, writer: RunWriter) -> None:
        levels = bench.levels
        needs = any(levels[one.level].needs_conventional for one in spec.tenants)
        companion = bench.host.find(spec.conventional) if needs and spec.conventional else None
        tenants = tuple(replace(o, device=bench.host.find(o.device)) for o in spec.tenants)
        zoned = {o.device.identity.key: o.device for o in tenants if levels[o.level].uses_zoned}
        self._zoned = tuple(zoned.values())
        used = [*self._zoned, *([companion] if companion else [])]
        spec = replace(
            spec, device=bench.host.find(spec.device), conventional=companion, tenants=tenants
        )
        record = Record(bench, levels[tenants[0].level], spec, used)
        super().__init__(bench, spec, writer, Claim(bench, spec, used), record)
        self._tenants: list[TenantRecord] = []
        self._measured: Measurement | None = None

    def _probe(self) -> Reason | None:
        """Ask levels and programs before anything is claimed; slices are asked about later."""
        try:
            budget.check(self._spec.tenants, self._bench.levels)
        except ZonelabError as error:
            return reason_of(error)
        for one in self._spec.tenants:
            level = self._bench.levels[one.level]
            if one.zones is None and one.conventional is None:
                reason = level.probe(one.device, self._spec.conventional)
                if reason is not None:
                    return reason
            for program in sorted({p.program for p in self._spec.phases if one.owns(p)}):
                reason = self._probe_program(one, program)
                if reason is not None:
                    return reason
        return None

    def _probe_program(self, tenant: TenantSpec, program: str) -> Reason | None:
        level = self._bench.levels[tenant.level]
        if program == "db_bench":
            return level.probe_program(self._bench.program)
        try:
            return level.probe_load(PROGRAMS[program].path(self._bench.program))
        except HostError as error:
            return reason_of(error)

    def _live(self) -> None:
        self._wait_idle()
        self._claim.clear()
        with ExitStack() as stack:
            places = self._place(stack)
            ups = {name: self._up(stack, name, place) for name, place in places.items()}
            self._claim.formatted()
            # Not before: formatting resets all zones of a namespace at once, and the tracer counts
            # such resets for all of them together. What zones hold now is in its seed.
            tracer = stack.enter_context(self._traced())
            self._record.note_host()
            self._tenants = [
                self._join(one, places[one.stack], ups[one.stack], tracer)
                for one in self._spec.tenants
            ]
            self._measured = Measurement(
                self._bench,
                self._spec,
                self._record,
                self._tenants,
                tracer=tracer,
                zoned=self._zoned,
            )
            self._measured.run()
            self._bench.progress.phase("level check")
            for one in self._tenants:
                if one.spec.stack == one.spec.name:
                    one.found = one.level.check(one.stage.up)

    def _place(self, stack: ExitStack) -> dict[str, Place]:
        """Map the slices of every tenant with a file system of its own, and ask about them.

        A tenant alone may be one that shares another's: that one's place is then its own.
        """
        found: dict[str, Place] = {}
        for one in self._spec.tenants:
            if one.stack in found:
                continue
            level = self._bench.levels[one.level]
            companion = self._spec.conventional if level.needs_conventional else None
            place = stack.enter_context(placed(self._bench.host, one, one.device, companion))
            reason = level.probe(place.device, place.conventional)
            if reason is not None:
                raise Infeasible(reason)
            found[one.stack] = place
        return found

    def _up(self, stack: ExitStack, name: str, place: Place) -> LevelUp:
        owner = next(one for one in self._spec.tenants if one.stack == name)
        return stack.enter_context(
            self._level_up(
                self._bench.levels[owner.level],
                place.device,
                place.conventional,
                owner.options,
                tenant=owner.name,
            )
        )

    def _join(
        self, tenant: TenantSpec, place: Place, up: LevelUp, tracer: TenantTracer | None
    ) -> TenantRecord:
        """Give a tenant its database on a file system that is up."""
        level = self._bench.levels[tenant.level]
        users = [one for one in self._spec.tenants if one.stack == tenant.stack]
        if up.db is not None and tenant.stack != tenant.name:
            db = up.db.parent / f"db-{tenant.name}"
            db.mkdir()
            up = replace(up, db=db, database_log=db / "LOG")
        device = Path(tenant.device.path).name if level.uses_zoned else None
        stage = Stage(
            level,
            up,
            place.device,
            place.conventional if level.needs_conventional else None,
            self._writer,
            self._record.began,
            tracer.of(device) if tracer else None,
        )
        phases = tuple(phase for phase in self._spec.phases if tenant.owns(phase))
        return TenantRecord(tenant, phases, level, stage, alone=len(users) == 1)

    @contextmanager
    def _traced(self) -> Iterator[TenantTracer | None]:
        bench, spec = self._bench, self._spec
        if spec.tracing is Tracing.OFF:
            bench.tracer.stop()
            yield None
            return
        devices = self._claim.devices
        with sourced(bench, spec, devices, record=self._record, writer=self._writer) as source:
            if source is None:
                yield None
                return
            found = TenantTracer(
                source,
                reports={Path(d.path).name: self._reporter(d) for d in self._zoned},
                metadata_zones=self._metadata_zones(),
                began=self._record.began,
            )
            try:
                yield found
            finally:
                found.end(self._writer.path / "raw", self._writer.write)

    def _reporter(self, device: Device) -> Callable[[], Sequence[Zone]]:
        return lambda: self._bench.host.zones(device.path)

    def _metadata_zones(self) -> Mapping[str, int]:
        return {
            Path(one.device.path).name: self._bench.levels[one.level].metadata_zones
            for one in self._spec.tenants
            if one.zones is None
        }

    # --- the record -------------------------------------------------------------------------

    def _result(self, status: Status, reason: Reason | None) -> Result:
        record, spec = self._record, self._spec
        seconds, log = record.seconds(), record.kernel_log(self._writer)
        metrics: dict[str, Metric] = {
            "run.harness_memory_peak": Metric(memory_peak(), "B"),
            "run.harness_cpu_share": Metric(self._own_share(), "1"),
        }
        for one in self._tenants:
            found = one.ledger()
            metrics |= one.metrics(found)
            if found is not None:
                self._writer.write(f"{one.spec.name}.ledger.json", found)
        facts = RunFacts(
            spec=spec,
            uses_zoned=False,
            phases=(),
            kernel_log=log,
            utilisation=None,
            idle_written=record.idle_written,
            clock_jump=record.clock_jump(seconds),
            untraced=record.untraced,
            caveats=record.found,
        )
        together = self._measured.facts() if self._measured else TenantFacts()
        issues = [] if status is Status.SKIPPED else records.of_all(facts, together, self._tenants)
        if status is Status.OK and any(one.severity is Severity.ERROR for one in issues):
            status = Status.INVALID
        return replace(
            record.frame(status, reason, seconds),
            metrics=metrics,
            issues=tuple(issues),
            phases=tuple(result for one in self._tenants for result in one.results),
            manifest={"host": record.host_manifest(), "level": self._level_manifest()},
        )

    def _own_share(self) -> float | None:
        """Return our part of the CPU time in the window."""
        own = self._measured.harness_seconds if self._measured else None
        spent = [one.facts[-1].load_seconds for one in self._tenants if one.facts]
        load = total(spent) if spent else None
        return own / (own + load) if own is not None and load else None

    def _level_manifest(self) -> dict[str, object]:
        return {**self._record.level, **{one.spec.name: one.info for one in self._tenants}}
