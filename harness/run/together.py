"""Measures tenants together: runs their programs in one window, and records what each did."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.cleanup import cleaned, first_of
from harness.errors import ZonelabError
from harness.machine import scopes
from harness.machine.claim import run_label
from harness.nulls import difference
from harness.observe.tracing.tenant_tracer import activity
from harness.observe.tracing.tracer import Tracer
from harness.observe.zone_reports import ACTIVE
from harness.run import barrier, phase, zone_use
from harness.run.context import RunContext
from harness.run.load_process import command
from harness.run.phase import CpuUse, PhaseExecution
from harness.run.progress import ReadShare
from harness.run.result_builder import ResultBuilder
from harness.run.tenant import RunningTenant
from harness.run.window import MeasurementWindow, TenantProgram, WindowOutcome
from harness.store.codec import SCHEMA_VERSION
from harness.store.observed import TenantFacts
from harness.store.spec import Device, RunSpec
from harness.workloads import program_of

TENANTS = "raw/tenants.json"


@dataclass(frozen=True, slots=True)
class Together:
    """Runs the measured phases of all tenants in one window.

    The tenants are filled already. ``tracer`` is null if the run is not traced. ``tick`` is called
    about once a second.
    """

    context: RunContext
    spec: RunSpec
    record: ResultBuilder
    tenants: Sequence[RunningTenant]
    zoned: Sequence[Device]
    tracer: Tracer | None
    tick: Callable[[ReadShare], None]

    def run(self) -> None:
        """Start all programs, wait for their end, and add the phases to the tenants."""
        context, record = self.context, self.record
        context.progress.phase("barrier")
        for tenant in self.tenants:
            start = barrier.take(context, tenant.running, tenant.name("start"), tenant.cold)
            # Work of a level while other tenants were filled counts as a part of its own fill.
            tenant.snapshots[-1] = start
        seen = context.host.monotonic()
        active = {device.name: self._active(device) for device in self.zoned}
        systemd = record.together.units
        programs = [self._program(tenant, systemd=systemd) for tenant in self.tenants]
        context.progress.phase("mix" if len(programs) > 1 else programs[0].prepared.spec.name)
        before = context.cgroups.harness_seconds()
        window = MeasurementWindow(context.host, programs, lambda share: self.tick(lambda: share))
        try:
            outcome = self._run(window, programs)
            record.together = TenantFacts(
                outcome.died,
                units=systemd,
                spread=outcome.spread,
                harness_seconds=difference(before, context.cgroups.harness_seconds()),
            )
            for tenant, program in zip(self.tenants, programs, strict=True):
                self._conclude(tenant, program)
        except Exception as error:
            died = ZonelabError(window.died, code="tenant-died") if window.died else None
            raise first_of(died, error) from None
        self._note_activity(outcome, active, seen)
        self._write(outcome)
        context.stop.check()

    def _run(self, window: MeasurementWindow, programs: Sequence[TenantProgram]) -> WindowOutcome:
        """Run the window, and remove the gates afterwards."""

        def remove_gates() -> None:
            for program in programs:
                if program.gate is not None:
                    program.gate.unlink(missing_ok=True)

        with cleaned(remove_gates, uses_device=False):
            return window.run()

    def _program(self, tenant: RunningTenant, *, systemd: bool) -> TenantProgram:
        running = tenant.running
        spec = tenant.measured[0]
        prepared = phase.prepare(self.context, tenant, spec)
        argv, gate = list(prepared.argv), None
        start_gate = program_of(spec).start_gate
        if start_gate is not None:
            gate = self.context.paths.runtime / f"{self.spec.run}.{tenant.spec.name}.go"
            gate.unlink(missing_ok=True)
            argv.append(f"--{start_gate.flag}={gate}")
        unit = scopes.name(run_label(self.spec), tenant.spec.name)
        devices = [device for device in (running.device, running.conventional) if device]
        used = devices if running.level.uses_zoned else devices[1:]
        wrapped = scopes.wrap(
            command(argv, running.up.environment), unit, tenant.spec.limits, used, systemd=systemd
        )
        tenant.manifest["unit"] = unit if systemd else ""
        return TenantProgram(tenant.spec, prepared, wrapped, gate)

    def _conclude(self, tenant: RunningTenant, program: TenantProgram) -> None:
        if program.exit is None:
            return
        host, began = self.context.host, self.record.began
        released = program.released if program.released is not None else host.monotonic()
        execution = PhaseExecution(
            exit=program.exit,
            cpu=CpuUse(program.cpu_seconds, None, None),
            started=program.started,
            offset=released - began,
            shift=host.monotonic() - began - host.realtime(),
        )
        phase.conclude(self.context, tenant, program.prepared, execution)
        tenant.stopped = program.stopped
        tenant.manifest |= {
            "released": round(released - began, 6),
            "ended": round((program.ended_at or released) - began, 6),
        }

    def _note_activity(
        self, outcome: WindowOutcome, active: Mapping[str, frozenset[int]], seen: float
    ) -> None:
        """Attribute zone commands to tenants by the zones that belong to them.

        ``active`` are the active zones of each namespace at the time ``seen``.
        """
        if self.tracer is None or self.tracer.trouble:
            return
        release = os.uname().release
        for tenant in self.tenants:
            device = tenant.spec.device.name
            if not tenant.alone or not tenant.level.uses_zoned or device not in active:
                continue
            tenant.activity = activity(
                self.tracer.transitions,
                device,
                tenant.spec.zone_range,
                active[device],
                (outcome.began, outcome.ended),
                seen=seen,
            )
            counted = tenant.facts[-1].traced
            if tenant.spec.zones is None and counted is not None:
                tenant.denied_opens = zone_use.denied_opens(release, device, counted)

    def _active(self, device: Device) -> frozenset[int]:
        report = self.context.host.zones(device.path)
        return frozenset(number for number, zone in enumerate(report) if zone.condition in ACTIVE)

    def _write(self, outcome: WindowOutcome) -> None:
        """Store the window and the place of each tenant, for the analysis."""
        began = self.record.began
        content = {
            "schema_version": SCHEMA_VERSION,
            "began": round(outcome.began - began, 6),
            "ended": round(outcome.ended - began, 6),
            "tenants": [_place(tenant) for tenant in self.tenants],
        }
        writer = self.tenants[0].running.writer
        writer.write(TENANTS, json.dumps(content, indent=1) + "\n")


def _place(tenant: RunningTenant) -> dict[str, object]:
    spec = tenant.spec
    device = tenant.level.main_device(spec.device, tenant.running.conventional)
    return {
        "name": spec.name,
        "level": spec.level,
        "phase": tenant.measured[0].name.partition(".")[2],
        "weight": spec.weight,
        "device": device.name,
        "zones": [spec.zones.first, spec.zones.count] if spec.zones else None,
        "start_offset": spec.start_offset,
        "unit": tenant.manifest.get("unit", ""),
    }
