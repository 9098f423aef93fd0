"""From a mix of tenants to runs: each tenant alone and all together, in randomised blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness import levels
from harness.errors import ConfigError, GuardRefused
from harness.levels import budget
from harness.levels.filesystem import FileSystemLevel
from harness.plan import probe
from harness.plan.derive import MIB, USABLE_SHARE, Derived, cold_spec, derive, phase_spec
from harness.plan.load import nearest
from harness.plan.models import SHARED, SOLO, Level, Study, Tenant, TenantMix, Workload
from harness.plan.predict import predict
from harness.plan.probe_models import AnyWorkload
from harness.plan.requirements import check_level, check_options, choose_scheduler
from harness.plan.units import format_size
from harness.store.spec import (
    Bytes,
    Device,
    Extent,
    Inspection,
    Limits,
    PhaseRole,
    PhaseSpec,
    Prediction,
    RunSpec,
    TenantSpec,
    Tracing,
)
from harness.tools import kvmix

# Tenants' seeds are so far apart, and phases of a tenant 100 (blocks: 10,000).
_SEED_STEP = 500


@dataclass(frozen=True, slots=True)
class Planned:
    """A tenant sized for its part of a device, with its phases in order."""

    spec: TenantSpec
    derived: Derived
    phases: tuple[PhaseSpec, ...]
    predicted: Prediction
    timeout: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tenant lives: ``device`` is its namespace cut to its slice."""

    level: Level
    namespace: Device
    device: Device
    zones: Extent | None
    conventional: Extent | None


def runs_of(
    study: Study, workload: AnyWorkload, inspection: Inspection, campaign: str
) -> dict[str, tuple[RunSpec, tuple[Planned, ...]]]:
    """Return the cells of a study of a mix by the value of their factor ``mix``.

    Raises:
        ConfigError: the mix does not fit this host's devices, with the arithmetic in the message.
    """
    mix = study.mix
    if not isinstance(mix, TenantMix):
        raise ConfigError(
            f"study {study.name} has no mix of tenants",
            hint="name one of configs/mixes as its mix (docs/tenants.md)",
            code="no-mix",
        )
    if not isinstance(workload, Workload):
        raise ConfigError(
            f"study {study.name}: tenants have databases, workload {workload.name} has none",
            hint="name a workload with phases",
            code="tenant-workload",
        )
    tenants = _planned(study, mix, workload, inspection)
    budget.check([one.spec for one in tenants], levels.LEVELS)
    _check_stacks(tenants)
    chosen: dict[str, tuple[Planned, ...]] = {
        SOLO + one.spec.name: (_alone(one, tenants),) for one in tenants
    }
    chosen[SHARED] = tenants
    # One for all cells: a tenant alone must not differ from itself among others.
    scheduler = _scheduler([one.spec.level for one in tenants], inspection)
    found = {}
    for name, some in chosen.items():
        run = _template(study, mix, inspection, campaign, name=name, tenants=some)
        found[name] = (replace(run, scheduler=scheduler), some)
    return found


def _alone(one: Planned, tenants: Sequence[Planned]) -> Planned:
    """Give a tenant that shares a file system all of it, as aged as its owner's."""
    owner = next(other.spec for other in tenants if other.spec.name == one.spec.stack)
    spec = replace(one.spec, stack=one.spec.name, active=owner.active, cold=owner.cold)
    return replace(one, spec=spec)


def _planned(
    study: Study, mix: TenantMix, workload: Workload, inspection: Inspection
) -> tuple[Planned, ...]:
    places = _places(mix, inspection)
    _check_apart(mix, places)
    found = [
        _tenant(study, mix, one, workload, inspection, place=places[one.shares or one.name], at=at)
        for at, one in enumerate(mix.tenants)
    ]
    # Cold data is the owner's, so that the file system holds the wanted share with all databases.
    others = {
        owner.spec.name: sum(
            one.derived.database_bytes
            for one in found
            if one.spec.stack == owner.spec.name and one is not owner
        )
        for owner in found
    }
    return tuple(_with_less_cold(one, others[one.spec.name]) for one in found)


def _with_less_cold(one: Planned, less: int) -> Planned:
    if one.spec.cold is None:
        return one
    size = Bytes(max(0, one.spec.cold.bytes - less) // MIB * MIB)
    # A shared file system holds one database in a cell and all of them in another.
    tolerance = 1.0 if less else one.spec.cold.tolerance
    cold = replace(one.spec.cold, bytes=size, tolerance=tolerance)
    return replace(one, spec=replace(one.spec, cold=cold))


def _tenant(
    study: Study,
    mix: TenantMix,
    tenant: Tenant,
    default: Workload,
    inspection: Inspection,
    *,
    place: _Place,
    at: int,
) -> Planned:
    workload = tenant.workload if isinstance(tenant.workload, Workload) else default
    duration = tenant.duration or mix.duration - tenant.start
    probe.check_level(place.level.name, workload)
    workload = _timed(tenant, workload, duration)
    derived = derive(workload, place.device, study.target_utilisation, cold=study.cold)
    specs = tuple(phase_spec(workload, phase, derived) for phase in workload.phases)
    predicted, specs, timeout = predict(workload, derived, specs, inspection.device.kind)
    module = levels.LEVELS[place.level.name]
    owner = tenant.shares is None
    spec = TenantSpec(
        name=tenant.name,
        level=place.level.name,
        options=place.level.options,
        stack=tenant.shares or tenant.name,
        device=place.namespace,
        zones=place.zones,
        conventional=place.conventional,
        active=module.opens(place.device, place.level.options) if owner else 0,
        cold=cold_spec(derived, study.target_utilisation, study.tolerance) if owner else None,
        limits=Limits(**tenant.limits.model_dump()),
        weight=tenant.weight,
        start_offset=tenant.start,
        duration=float(duration),
        seed=_SEED_STEP * at,
    )
    named = tuple(
        replace(phase, name=f"{tenant.name}.{phase.name}", flags=_flags(phase)) for phase in specs
    )
    return Planned(spec, derived, named, predicted, timeout)


def _flags(phase: PhaseSpec) -> dict[str, str | int | float | bool]:
    """Have the measured phase report latencies second by second, where its program can."""
    told = phase.role is PhaseRole.MEASURED and phase.program == kvmix.PROGRAM
    return {**phase.flags, **({"report_latency": True} if told else {})}


def _timed(tenant: Tenant, workload: Workload, duration: float) -> Workload:
    """Return the workload with its measured phase as long as the tenant.

    Raises:
        ConfigError: it has several, or one that is not limited by time, or that keeps no rate.
    """
    measured = [phase for phase in workload.phases if phase.role == "measured"]
    if len(measured) != 1 or measured[0].operations.duration is None:
        raise ConfigError(
            f"tenant {tenant.name}: workload {workload.name} must have one measured phase that is "
            "limited by time",
            hint="operations: {duration: 30s}; the mix says how long it is really",
            code="tenant-workload",
        )
    phase = measured[0]
    changes: dict[str, object] = {
        "operations": phase.operations.model_copy(update={"duration": max(1, round(duration))})
    }
    if tenant.rate is not None:
        if phase.mix is None:
            raise ConfigError(
                f"tenant {tenant.name} has a rate, and db_bench knows no open loop",
                hint="give it a workload of kvmix (mix: …), or a rate limit among its flags",
                code="tenant-rate",
            )
        changes["mix"] = phase.mix.model_copy(update={"rate": tenant.rate})
    fills = tuple(one for one in workload.phases if one.role == "fill")
    return workload.model_copy(update={"phases": (*fills, phase.model_copy(update=changes))})


# --- places -------------------------------------------------------------------------------------


def _places(mix: TenantMix, inspection: Inspection) -> dict[str, _Place]:
    """Return the place of each tenant that has a file system of its own."""
    found: dict[str, _Place] = {}
    for tenant in mix.tenants:
        if tenant.shares is not None:
            continue
        level = _level(tenant, inspection)
        namespace = _namespace(mix, tenant, inspection)
        zones = _slice(tenant, namespace)
        device = namespace
        if zones is not None:
            size = Bytes(zones.count * (namespace.zone_size or 0))
            device = replace(namespace, zones=zones.count, size=size)
        check_options(level)
        if _available(level.name, inspection):
            check_level(level.name, device)
        found[tenant.name] = _Place(level, namespace, device, zones, None)
    for tenant in mix.tenants:
        if tenant.shares and not isinstance(
            levels.LEVELS[found[tenant.shares].level.name], FileSystemLevel
        ):
            raise ConfigError(
                f"tenant {tenant.name} shares {found[tenant.shares].level.name} of "
                f"{tenant.shares}, which one program can open at a time",
                hint="databases share mounted file systems only",
                code="not-shareable",
            )
    return _with_conventional(found, inspection)


def _level(tenant: Tenant, inspection: Inspection) -> Level:
    entries = [
        Level(name=e) if isinstance(e, str) else e for e in (tenant.instead, tenant.level) if e
    ]
    for level in entries:
        if level.name not in levels.LEVELS:
            raise ConfigError(
                f"tenant {tenant.name}: there is no level {level.name!r}",
                hint=nearest(level.name, levels.LEVELS), code="unknown-level",
            )  # fmt: skip
    return next((one for one in entries if _available(one.name, inspection)), entries[-1])


def _available(level: str, inspection: Inspection) -> bool:
    return any(one.level == level and one.available for one in inspection.levels)


def _namespace(mix: TenantMix, tenant: Tenant, inspection: Inspection) -> Device:
    known = inspection.devices
    if tenant.namespace > len(known):
        raise ConfigError(
            f"mix {mix.name}: tenant {tenant.name} wants zoned namespace {tenant.namespace}, "
            f"{len(known)} are named",
            hint="name all of them: -e device=nvme2n2,nvme2n3",
            code="too-few-namespaces",
        )
    if tenant.namespace > 1 and (refused := inspection.others[tenant.namespace - 2].refusals):
        raise GuardRefused(refused[0].message, hint=refused[0].hint, code=refused[0].code)
    return known[tenant.namespace - 1]


def _slice(tenant: Tenant, device: Device) -> Extent | None:
    """Return the zones of a tenant, whole ones; None: all of them."""
    if tenant.slice is None:
        return None
    first, end = (int(share * (device.zones or 0)) for share in tenant.slice)
    return Extent(first, end - first)


def _check_apart(mix: TenantMix, places: Mapping[str, _Place]) -> None:
    """Refuse zones that two tenants would write.

    Raises:
        ConfigError: two tenants have one namespace, or slices that overlap.
    """
    owners = [name for name, one in places.items() if levels.LEVELS[one.level.name].uses_zoned]
    for index, name in enumerate(owners):
        for other in owners[:index]:
            one, two = places[other], places[name]
            if one.namespace.identity != two.namespace.identity:
                continue
            ranges = [_range(place) for place in (one, two)]
            if set(ranges[0]).isdisjoint(ranges[1]):
                continue
            spans = " and ".join(f"zones {r.start} to {r.stop - 1}" for r in ranges)
            raise ConfigError(
                f"mix {mix.name}: {other} and {name} both use {one.namespace.path} ({spans})",
                hint="give each a slice ([0%, 50%] and [50%, 100%]) or a namespace, or let one "
                "share the other's file system",
                code="namespace-twice",
            )


def _range(place: _Place) -> range:
    if place.zones is None:
        return range(place.namespace.zones or 0)
    return range(place.zones.first, place.zones.first + place.zones.count)


def _with_conventional(places: dict[str, _Place], inspection: Inspection) -> dict[str, _Place]:
    """Divide the conventional device: baselines get what they compare with, others equal parts.

    Raises:
        ConfigError: it is too small for all of them.
    """
    device = inspection.conventional
    users = [n for n, one in places.items() if levels.LEVELS[one.level.name].needs_conventional]
    if device is None or len(users) < 2:  # noqa: PLR2004 - a single one takes what it likes of it
        return places
    baselines = [n for n in users if not levels.LEVELS[places[n].level.name].uses_zoned]
    sizes: dict[str, int] = {n: places[n].device.capacity for n in baselines}
    left = device.size - sum(sizes.values())
    others = [n for n in users if n not in baselines]
    sizes |= {n: max(0, left) // len(others) // MIB * MIB for n in others}
    for name, size in sizes.items():
        module = levels.LEVELS[places[name].level.name]
        if isinstance(module, FileSystemLevel):
            least = module.minimum_conventional(places[name].device)
            if left < 0 or size < least:
                parts = " + ".join(f"{n} {format_size(s)}" for n, s in sizes.items())
                raise ConfigError(
                    f"{device.path} has {format_size(device.size)}, its tenants need {parts}",
                    hint="-e conventional_device=<a larger one>, or other levels",
                    code="conventional-too-small",
                )
    found, first = dict(places), 0
    for name in users:
        extent = Extent(first, sizes[name])
        found[name] = replace(places[name], conventional=extent)
        first += sizes[name]
    return found


def _check_stacks(tenants: Sequence[Planned]) -> None:
    """Refuse databases that together outgrow the file system that they share.

    Raises:
        ConfigError: cold data and all databases at their largest need more than there is.
    """
    for owner in tenants:
        members = [one for one in tenants if one.spec.stack == owner.spec.name]
        if len(members) < 2:  # noqa: PLR2004 - derive() has looked at each alone
            continue
        zones = owner.spec.zones.count if owner.spec.zones else owner.spec.device.zones or 0
        capacity = zones * (owner.spec.device.zone_capacity or 0)
        cold = owner.spec.cold.bytes if owner.spec.cold else 0
        parts = [f"{one.spec.name} {format_size(one.derived.peak_bytes)}" for one in members]
        wanted = cold + sum(one.derived.peak_bytes for one in members)
        if wanted > USABLE_SHARE * capacity:
            raise ConfigError(
                f"{format_size(cold)} of cold data + {' + '.join(parts)} = {format_size(wanted)}, "
                f"{USABLE_SHARE:.0%} of {format_size(capacity)} are there",
                hint="lower database_share or target_utilisation",
                code="does-not-fit",
            )


# --- runs ---------------------------------------------------------------------------------------


def _template(
    study: Study,
    mix: TenantMix,
    inspection: Inspection,
    campaign: str,
    *,
    name: str,
    tenants: Sequence[Planned],
) -> RunSpec:
    fills = [phase for one in tenants for phase in one.phases if phase.role is PhaseRole.FILL]
    measured = [p for one in tenants for p in one.phases if p.role is PhaseRole.MEASURED]
    needs = any(levels.LEVELS[one.spec.level].needs_conventional for one in tenants)
    return RunSpec(
        campaign=campaign,
        study=study.name,
        run="",
        cell="",
        level=mix.name,
        factors={"mix": name},
        level_options={},
        repetition=0,
        attempt=1,
        block=0,
        position=0,
        seed=0,
        device=inspection.device,
        conventional=inspection.conventional if needs else None,
        scheduler="",
        cold=None,
        phases=(*fills, *measured),
        predicted=_together(mix, tenants, inspection),
        timeout_seconds=sum(one.timeout for one in tenants),
        tracing=Tracing(study.tracing),
        tenants=tuple(one.spec for one in tenants),
    )


def _scheduler(names: Sequence[str], inspection: Inspection) -> str:
    """Return the one scheduler of all: mq-deadline where one of them needs it."""
    able = [name for name in names if _available(name, inspection)]
    found = {choose_scheduler(name, None, inspection) for name in able}
    return max(found, key=lambda one: one != "none", default="")


def _together(mix: TenantMix, tenants: Sequence[Planned], inspection: Inspection) -> Prediction:
    """Add up what tenants do one after the other; what they do at once lasts as long as the mix."""
    if not all(_available(one.spec.level, inspection) for one in tenants):
        return Prediction(Bytes(0), Bytes(0), 0.0)
    one_by_one = sum(one.predicted.seconds - one.spec.duration for one in tenants)
    return Prediction(
        bytes_written=Bytes(sum(one.predicted.bytes_written for one in tenants)),
        live_bytes=Bytes(sum(one.predicted.live_bytes for one in tenants)),
        seconds=round(one_by_one + mix.duration, 1),
    )
