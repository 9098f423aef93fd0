"""Runs of a mix: each tenant alone, and all tenants together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness import levels
from harness.errors import ConfigError
from harness.levels import budget
from harness.plan import bare
from harness.plan.derive import MIB, USABLE_SHARE, Derived, derive
from harness.plan.mix_models import Tenant, TenantMix
from harness.plan.phases import phase_spec
from harness.plan.predict import predict
from harness.plan.requirements import choose_scheduler, is_available
from harness.plan.study_models import SHARED, SOLO, Study
from harness.plan.tenant_places import TenantPlace, places_of
from harness.plan.workload_models import AnyWorkload, Workload
from harness.quantities import format_size
from harness.store.spec import (
    Bytes,
    ColdSpec,
    Inspection,
    Limits,
    PhaseRole,
    PhaseSpec,
    Prediction,
    RunSpec,
    TenantSpec,
    TracingMode,
)
from harness.workloads import program_of

# Distance between the seeds of two tenants. Blocks are 10,000 apart, phases of a tenant 100.
_SEED_STEP = 500


@dataclass(frozen=True, slots=True)
class PlannedTenant:
    """A tenant sized for its part of a device, with its phases in order."""

    spec: TenantSpec
    derived: Derived
    phases: tuple[PhaseSpec, ...]
    predicted: Prediction
    timeout: int


def runs_of(
    study: Study, workload: AnyWorkload, inspection: Inspection, campaign: str
) -> dict[str, tuple[RunSpec, tuple[PlannedTenant, ...]]]:
    """Return the run of each cell and its tenants, by the value of the factor ``mix``.

    Raises:
        ConfigError: the study has no mix, or the mix does not fit the devices of this host.
    """
    mix = study.mix
    if not isinstance(mix, TenantMix):
        raise ConfigError(
            f"study {study.name} has no mix of tenants",
            hint="set mix to a name from configs/mixes (docs/tenants.md)",
            code="no-mix",
        )
    if not isinstance(workload, Workload):
        raise ConfigError(
            f"study {study.name}: tenants need a database, but workload {workload.name} has none",
            hint="name a workload with phases",
            code="tenant-workload",
        )
    tenants = _plan_tenants(study, mix, workload, inspection)
    budget.check([tenant.spec for tenant in tenants], levels.LEVELS)
    _check_shared_file_systems(tenants)
    cells: dict[str, tuple[PlannedTenant, ...]] = {
        SOLO + tenant.spec.name: (_alone(tenant, tenants),) for tenant in tenants
    }
    cells[SHARED] = tenants
    # All cells have the same scheduler, so that they differ only in the tenants that run.
    scheduler = _scheduler([tenant.spec.level for tenant in tenants], inspection)
    runs = {}
    for value, members in cells.items():
        run = _run(
            study, mix, inspection, campaign, scheduler=scheduler, value=value, tenants=members
        )
        runs[value] = (run, members)
    return runs


def _plan_tenants(
    study: Study, mix: TenantMix, workload: Workload, inspection: Inspection
) -> tuple[PlannedTenant, ...]:
    places = places_of(mix, inspection)
    tenants = [
        _plan_tenant(
            study,
            mix,
            tenant,
            workload,
            inspection,
            place=places[tenant.shares or tenant.name],
            index=index,
        )
        for index, tenant in enumerate(mix.tenants)
    ]
    return tuple(_reserve_for_guests(tenant, tenants) for tenant in tenants)


def _reserve_for_guests(tenant: PlannedTenant, tenants: Sequence[PlannedTenant]) -> PlannedTenant:
    """Reduce the owner's cold data by the databases of its guests.

    Guests are tenants that share the owner's file system, which then reaches the target utilisation
    with all its databases.
    """
    if tenant.spec.cold is None:
        return tenant
    guests = sum(
        other.derived.database_bytes
        for other in tenants
        if other.spec.stack == tenant.spec.name and other is not tenant
    )
    size = Bytes(max(0, tenant.spec.cold.bytes - guests) // MIB * MIB)
    # A shared file system holds one database in some cells and all of them in another.
    tolerance = 1.0 if guests else tenant.spec.cold.tolerance
    cold = replace(tenant.spec.cold, bytes=size, tolerance=tolerance)
    return replace(tenant, spec=replace(tenant.spec, cold=cold))


def _plan_tenant(
    study: Study,
    mix: TenantMix,
    tenant: Tenant,
    default: Workload,
    inspection: Inspection,
    *,
    place: TenantPlace,
    index: int,
) -> PlannedTenant:
    workload = tenant.workload if isinstance(tenant.workload, Workload) else default
    duration = tenant.duration or mix.duration - tenant.start
    bare.check_level(place.level.name, workload)
    workload = _with_duration(tenant, workload, duration)
    derived = derive(workload, place.device, study.target_utilisation, cold=study.cold)
    specs = tuple(phase_spec(workload, phase, derived) for phase in workload.phases)
    level = levels.LEVELS[place.level.name]
    owner = tenant.shares is None
    prepared = level.prepares(place.device, place.level.options) if owner else Bytes(0)
    kind = inspection.device.kind
    predicted, specs, timeout = predict(workload, derived, specs, kind, prepared)
    cold = ColdSpec(study.target_utilisation, study.tolerance, Bytes(derived.cold_bytes))
    spec = TenantSpec(
        name=tenant.name,
        level=place.level.name,
        options=place.level.options,
        stack=tenant.shares or tenant.name,
        device=place.namespace,
        zones=place.zones,
        conventional=place.conventional,
        active=level.opens(place.device, place.level.options) if owner else 0,
        cold=cold if owner else None,
        limits=Limits(**tenant.limits.model_dump()),
        weight=tenant.weight,
        start_offset=tenant.start,
        duration=float(duration),
        seed=_SEED_STEP * index,
    )
    phases = tuple(
        replace(phase, name=f"{tenant.name}.{phase.name}", flags=_flags(phase)) for phase in specs
    )
    return PlannedTenant(spec, derived, phases, predicted, timeout)


def _flags(phase: PhaseSpec) -> dict[str, str | int | float | bool]:
    """Return the phase's flags; a measured phase also has the program's flags for tenants."""
    gate = program_of(phase).start_gate
    if gate is None or phase.role is not PhaseRole.MEASURED:
        return dict(phase.flags)
    return {**phase.flags, **gate.measured_flags}


def _with_duration(tenant: Tenant, workload: Workload, duration: float) -> Workload:
    """Return the workload with a measured phase that lasts as long as the tenant.

    Raises:
        ConfigError: there is not exactly one measured phase, it is not limited by time, or it
            cannot keep the tenant's rate.
    """
    measured = [phase for phase in workload.phases if phase.role == "measured"]
    if len(measured) != 1 or measured[0].operations.duration is None:
        raise ConfigError(
            f"tenant {tenant.name}: workload {workload.name} must have one measured phase that is "
            "limited by time",
            hint="operations: {duration: 30s}; the mix sets the real duration",
            code="tenant-workload",
        )
    phase = measured[0]
    changes: dict[str, object] = {
        "operations": phase.operations.model_copy(update={"duration": max(1, round(duration))})
    }
    if tenant.rate is not None:
        work = phase.program.with_rate(phase.work, tenant.rate)
        if work is None:
            raise ConfigError(
                f"tenant {tenant.name} has a rate, but {phase.program.name} has no open loop",
                hint="name a workload with an operation_mix, or set a rate limit in its flags",
                code="tenant-rate",
            )
        changes[phase.program.field] = work
    fills = tuple(phase for phase in workload.phases if phase.role == "fill")
    return workload.model_copy(update={"phases": (*fills, phase.model_copy(update=changes))})


def _alone(tenant: PlannedTenant, tenants: Sequence[PlannedTenant]) -> PlannedTenant:
    """Return a tenant as it runs alone: a guest gets the owner's whole file system."""
    owner = next(other.spec for other in tenants if other.spec.name == tenant.spec.stack)
    spec = replace(tenant.spec, stack=tenant.spec.name, active=owner.active, cold=owner.cold)
    return replace(tenant, spec=spec)


def _check_shared_file_systems(tenants: Sequence[PlannedTenant]) -> None:
    """Refuse databases that together outgrow the file system that they share.

    Raises:
        ConfigError: the cold data and all databases at their peak exceed the usable capacity.
    """
    for owner in tenants:
        members = [tenant for tenant in tenants if tenant.spec.stack == owner.spec.name]
        if len(members) <= 1:  # derive() has checked a single database
            continue
        capacity = len(owner.spec.zone_range) * (owner.spec.device.zone_capacity or 0)
        cold = owner.spec.cold.bytes if owner.spec.cold else 0
        wanted = cold + sum(member.derived.peak_bytes for member in members)
        if wanted > USABLE_SHARE * capacity:
            parts = [f"{m.spec.name} {format_size(m.derived.peak_bytes)}" for m in members]
            raise ConfigError(
                f"{format_size(cold)} of cold data + {' + '.join(parts)} = {format_size(wanted)}, "
                f"more than {USABLE_SHARE:.0%} of {format_size(capacity)}",
                hint="lower database_share or target_utilisation",
                code="does-not-fit",
            )


def _run(
    study: Study,
    mix: TenantMix,
    inspection: Inspection,
    campaign: str,
    *,
    scheduler: str,
    value: str,
    tenants: Sequence[PlannedTenant],
) -> RunSpec:
    """Return the run of a cell; its fills come before all measured phases."""
    phases = [phase for tenant in tenants for phase in tenant.phases]
    needs = any(levels.LEVELS[tenant.spec.level].needs_conventional for tenant in tenants)
    return RunSpec(
        campaign=campaign,
        study=study.name,
        run="",
        cell="",
        level=mix.name,
        factors={"mix": value},
        level_options={},
        repetition=0,
        attempt=1,
        block=0,
        position=0,
        seed=0,
        device=inspection.device,
        conventional=inspection.conventional if needs else None,
        scheduler=scheduler,
        cold=None,
        phases=tuple(sorted(phases, key=lambda phase: phase.role is not PhaseRole.FILL)),
        predicted=_predict_cell(mix, tenants, inspection),
        timeout_seconds=sum(tenant.timeout for tenant in tenants),
        tracing=TracingMode(study.tracing),
        tenants=tuple(tenant.spec for tenant in tenants),
    )


def _scheduler(names: Sequence[str], inspection: Inspection) -> str:
    """Return one scheduler for all levels: mq-deadline if a level needs it."""
    choices = {
        choose_scheduler(name, None, inspection) for name in names if is_available(name, inspection)
    }
    return max(choices, key=lambda choice: choice != "none", default="")


def _predict_cell(
    mix: TenantMix, tenants: Sequence[PlannedTenant], inspection: Inspection
) -> Prediction:
    """Add up the tenants: fills run one after the other, measured phases at the same time."""
    if not all(is_available(tenant.spec.level, inspection) for tenant in tenants):
        return Prediction(Bytes(0), Bytes(0), 0.0)
    one_by_one = sum(tenant.predicted.seconds - tenant.spec.duration for tenant in tenants)
    return Prediction(
        bytes_written=Bytes(sum(tenant.predicted.bytes_written for tenant in tenants)),
        live_bytes=Bytes(sum(tenant.predicted.live_bytes for tenant in tenants)),
        seconds=round(one_by_one + mix.duration, 1),
    )
