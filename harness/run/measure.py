"""The measurement while the levels are up: cold fill, fill phases, utilisation, measured phases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from harness.cleanup import cleaned
from harness.drive import precondition
from harness.machine import scopes
from harness.observe import host_gauges, rocksdb_build
from harness.observe.sampler import SampledSeries, Sampler, interval, of_gauges
from harness.observe.tracing.tracer import Tracer
from harness.rules.level import DIRECT_FLAGS
from harness.run import barrier, ledger, phase
from harness.run.context import RunContext
from harness.run.phase import Infeasible
from harness.run.progress import ReadShare
from harness.run.result_builder import ResultBuilder
from harness.run.tenant import RunningTenant
from harness.run.together import Together
from harness.store.codec import encode
from harness.store.observed import TenantFacts
from harness.store.result import Utilisation
from harness.store.spec import ColdSpec, Device, PhaseSpec, Reason, RunSpec
from harness.tools.direct_io import DirectIo


class Measurement:
    """Takes the tenants through their phases and adds everything measured to them.

    A plain run has one tenant, whose measured phases run in turn. In a mix, the tenants are filled
    one after the other and measured together.

    ``tracer`` is null if the run is not traced.
    """

    def __init__(
        self,
        context: RunContext,
        spec: RunSpec,
        record: ResultBuilder,
        tenants: Sequence[RunningTenant],
        *,
        zoned: Sequence[Device],
        tracer: Tracer | None,
    ) -> None:
        self._context = context
        self._spec = spec
        self._record = record
        self._tenants = tuple(tenants)
        self._zoned = tuple(zoned)
        self._tracer = tracer
        # On a slow clock, a tick each second costs a twelfth of a run's instructions.
        self._tick_seconds = interval(spec.device.dilation)
        self._sampler = Sampler(
            tenants[0].running.writer.path / "series",
            observers(context, tenants, zoned),
            clock=context.host.monotonic,
            began=record.began,
            interval=self._tick_seconds,
        )
        for tenant in tenants:
            tenant.running = replace(tenant.running, marks=self._sampler.marks)
        if spec.tenants:
            record.together = TenantFacts(units=scopes.booted())

    def run(self) -> None:
        """Measure, and sample counters meanwhile.

        Raises:
            Infeasible: the fresh level is too small for the wanted utilisation, or a setting that
                costs capacity leaves too little of it.
            TimedOut: a phase or the run exceeded its time limit.
            ZonelabError: a program failed. With several tenants, the run becomes invalid instead.
        """
        self._context.cgroups.limit_memory(self._spec.memory_limit)
        with cleaned(self._sampler.close, uses_device=False):
            for tenant in self._tenants:
                self._note_level(tenant)
            for tenant in self._tenants:
                self._fill_cold(tenant)
            for tenant in self._tenants:
                for spec in tenant.fills:
                    self._phase(tenant, spec)
            for tenant in self._tenants:
                self._note_utilisation(tenant)
            if self._spec.tenants:
                Together(
                    self._context,
                    self._spec,
                    self._record,
                    self._tenants,
                    zoned=self._zoned,
                    tracer=self._tracer,
                    tick=self._tick,
                ).run()
            else:
                for spec in self._tenants[0].measured:
                    self._phase(self._tenants[0], spec)

    def _note_level(self, tenant: RunningTenant) -> None:
        """Take the first barrier and describe the level in the manifest."""
        running = tenant.running
        up, program = running.up, running.up.program
        tenant.direct_io = running.level.direct_io(up)
        fresh = barrier.take(self._context, running, tenant.name("up"), 0)
        tenant.snapshots.append(fresh)
        tenant.max_utilisation = fresh.largest_utilisation(running.device.capacity)
        if tenant.spec.name:
            tenant.manifest |= {
                "name": tenant.spec.level,
                "options": dict(tenant.spec.options),
                "device": tenant.spec.device.name,
                "active": tenant.spec.active,
            }
        tenant.manifest |= {
            "mount_options": up.mount_options,
            "gc_source": fresh.usage.gc_source,
            "program": str(program or self._context.program),
            "facts": dict(up.facts),
            "direct_io": _direct_io_manifest(tenant.phases, tenant.direct_io),
            "fresh": encode(fresh.usage),
        }
        if program not in (None, self._context.program):  # else it is in the host manifest
            tenant.manifest["rocksdb_build"] = rocksdb_build.of_program(program)

    def _fill_cold(self, tenant: RunningTenant) -> None:
        cold, running = tenant.spec.cold, tenant.running
        if cold is not None and cold.bytes > 0 and tenant.owns_file_system:
            largest, capacity = tenant.max_utilisation, running.device.capacity
            if largest is not None and cold.target_utilisation > largest:
                owner = f" to tenant {tenant.spec.name}" if tenant.spec.name else ""
                raise Infeasible(
                    Reason(
                        "utilisation-infeasible",
                        f"{tenant.spec.level} offers {largest:.1%} of {capacity} B when fresh"
                        f" ({round(largest * capacity)} B){owner}, less than the"
                        f" {cold.target_utilisation:.1%} wanted",
                        "choose a lower target utilisation",
                    )
                )
            self._check_peak(cold, largest)
            self._context.progress.phase(tenant.title("cold fill"))
            begin = self._context.host.monotonic()
            tenant.cold = running.level.fill_cold(
                running.up,
                cold.bytes,
                tenant.seed,
                lambda done, wanted: self._tick(lambda: done / wanted if wanted else None),
            )
            if not tenant.spec.name:
                seconds = self._context.host.monotonic() - begin
                tenant.manifest["cold_seconds"] = round(seconds, 3)
        filled = barrier.take(self._context, running, tenant.name("cold"), tenant.cold)
        tenant.snapshots.append(filled)

    def _check_peak(self, cold: ColdSpec, largest: float | None) -> None:
        """End a run whose data would not fit, if the plan asks."""
        capacity = self._spec.device.capacity
        if largest is None or cold.peak_bytes <= round(largest * capacity):
            return
        raise Infeasible(
            Reason(
                "infeasible",
                f"{self._spec.level} offers {largest:.1%} of {capacity} B when fresh; cold data and"
                f" the database at its peak need {cold.peak_bytes / capacity:.1%}",
                "lower target_utilisation",
            )
        )

    def _phase(self, tenant: RunningTenant, spec: PhaseSpec) -> None:
        self._context.progress.phase(spec.name)
        facts = phase.execute(
            self._context,
            tenant,
            spec,
            seconds_left=self._record.seconds_left(),
            tick=self._tick,
            tick_seconds=self._tick_seconds,
        )
        self._context.stop.check()
        if not facts.ended_well:
            self._record.seconds_left()  # raises TimedOut if the time of the whole run is over
            if reason := phase.full(tenant.as_plain_run, facts, tenant.snapshots[-1]):
                raise Infeasible(reason)
            raise phase.failure(spec, facts, facts.output, facts.database_log)

    def _note_utilisation(self, tenant: RunningTenant) -> None:
        """Record V and A after the fill phases."""
        if tenant.spec.name and tenant.spec.cold is None:
            return
        databases = [
            other.snapshots[-1].counters.database_bytes
            for other in self._tenants
            if other.spec.stack == tenant.spec.stack
        ]
        tenant.utilisation = utilisation(
            self._context,
            tenant,
            database=sum(databases),
            others=[device.identity.key for device in self._zoned],
        )

    def _tick(self, share: ReadShare) -> None:
        self._record.seconds_left()
        self._record.drain_kernel_log()
        self._sampler.tick()
        if self._tracer is not None:
            self._tracer.tick()
        self._context.progress.tick(share)


def _direct_io_manifest(phases: Sequence[PhaseSpec], effect: DirectIo | None) -> dict[str, Any]:
    """Return what direct I/O the flags request, and whether it is in effect (null: unknown)."""
    requested = {
        name: any(bool(spec.flags.get(flag)) for spec in phases)
        for name, flag in DIRECT_FLAGS.items()
    }
    if effect is None:
        return {"requested": requested, "effective": {"reads": None, "writes": None}}
    return {
        "requested": requested,
        "effective": {"reads": effect.reads, "writes": effect.writes},
        "source": effect.source,
        "facts": dict(effect.facts),
    }


def observers(
    context: RunContext, tenants: Sequence[RunningTenant], zoned: Sequence[Device]
) -> list[SampledSeries]:
    """Return the series of a run: devices and machine once, level and zones by tenant."""
    names = [name for tenant in tenants for name in tenant.running.names]
    names += [device.name for device in zoned]
    # Programs of named tenants run in systemd scopes, not in the runner's own cgroup.
    load = None if tenants[0].spec.name else context.cgroups.load
    series = [
        context.host.disk_series(list(dict.fromkeys(names))),
        of_gauges("system", host_gauges.gauges(context.host.proc, load)),
        context.host.media_series(list(dict.fromkeys(names))),
    ]
    for tenant in tenants:
        if not tenant.owns_file_system:
            continue
        running = tenant.running
        series.append(of_gauges(tenant.name("level"), running.level.gauges(running.up)))
        if running.level.uses_zoned:
            series.append(context.host.zone_series(tenant.name("zones"), running.device))
    return series


def utilisation(
    context: RunContext, tenant: RunningTenant, *, database: int, others: Collection[str]
) -> Utilisation:
    """Return the utilisation of a tenant's device at its last barrier, beside the wanted one.

    Args:
        context: for the capacity of the whole drive.
        tenant: the owner of the device.
        database: bytes of all databases on the device.
        others: identities of the drive's namespaces that the run uses.
    """
    device, filled = tenant.running.device, tenant.snapshots[-1]
    found = ledger.utilisation(
        tenant.spec.cold, filled, database, device.capacity, tenant.max_utilisation
    )
    drive = context.host.drive_capacity(device.name)
    elsewhere = precondition.kept_bytes(context.host, context.paths, device, others)
    used = filled.counters.cold_bytes + database + elsewhere
    return replace(found, u_drive=used / drive if drive else None)
