"""Place of each tenant: its namespace, zones, level and part of the conventional device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness import levels
from harness.errors import ConfigError
from harness.levels.filesystem import FileSystemLevel
from harness.machine.guard import refuse
from harness.plan.derive import MIB
from harness.plan.level_entry import LevelEntry
from harness.plan.load import nearest
from harness.plan.mix_models import Tenant, TenantMix
from harness.plan.requirements import check_level, check_options, is_available
from harness.quantities import format_size
from harness.store.spec import Bytes, Device, Extent, Inspection


@dataclass(frozen=True, slots=True)
class TenantPlace:
    """Where a tenant's file system is. ``device`` is the namespace cut to the tenant's zones."""

    level: LevelEntry
    namespace: Device
    device: Device
    zones: Extent | None
    conventional: Extent | None

    @property
    def zone_range(self) -> range:
        """Numbers of its zones; all zones of the namespace if it has no slice."""
        return self.zones.numbers if self.zones else range(self.namespace.zones or 0)


def places_of(mix: TenantMix, inspection: Inspection) -> dict[str, TenantPlace]:
    """Return the place of each tenant that has its own file system, by the tenant's name.

    Raises:
        ConfigError: two tenants write the same zones, or a level or namespace is missing. Or a
            file system cannot be shared, or the conventional device is too small.
        GuardRefused: a namespace must not be overwritten.
    """
    places = {
        tenant.name: _place(mix, tenant, inspection)
        for tenant in mix.tenants
        if tenant.shares is None
    }
    for tenant in mix.tenants:
        if tenant.shares is not None:
            _check_shareable(tenant.name, tenant.shares, places[tenant.shares].level.name)
    _check_apart(mix, places)
    return _with_conventional(places, inspection)


def _place(mix: TenantMix, tenant: Tenant, inspection: Inspection) -> TenantPlace:
    level = _level(tenant, inspection)
    namespace = device = _namespace(mix, tenant, inspection)
    zones = _slice(tenant, namespace)
    if zones is not None:
        size = Bytes(zones.count * (namespace.zone_size or 0))
        device = replace(namespace, zones=zones.count, size=size)
    check_options(level)
    if is_available(level.name, inspection):
        check_level(level.name, device)
    return TenantPlace(level, namespace, device, zones, None)


def _level(tenant: Tenant, inspection: Inspection) -> LevelEntry:
    """Return the level in ``instead`` where the host can run it, otherwise the tenant's level."""
    entries = [
        LevelEntry(name=entry) if isinstance(entry, str) else entry
        for entry in (tenant.instead, tenant.level)
        if entry
    ]
    for entry in entries:
        if entry.name not in levels.LEVELS:
            raise ConfigError(
                f"tenant {tenant.name}: there is no level {entry.name!r}",
                hint=nearest(entry.name, levels.LEVELS),
                code="unknown-level",
            )
    return next((e for e in entries if is_available(e.name, inspection)), entries[-1])


def _namespace(mix: TenantMix, tenant: Tenant, inspection: Inspection) -> Device:
    devices = inspection.devices
    if tenant.namespace > len(devices):
        raise ConfigError(
            f"mix {mix.name}: tenant {tenant.name} needs zoned namespace {tenant.namespace}, "
            f"but only {len(devices)} are named",
            hint="name all of them: -e device=nvme2n2,nvme2n3",
            code="too-few-namespaces",
        )
    if tenant.namespace > 1:
        refuse(inspection.others[tenant.namespace - 2].refusals)
    return devices[tenant.namespace - 1]


def _slice(tenant: Tenant, device: Device) -> Extent | None:
    """Return the tenant's whole zones; None for all zones."""
    if tenant.slice is None:
        return None
    first, end = (int(share * (device.zones or 0)) for share in tenant.slice)
    return Extent(first, end - first)


def _check_shareable(tenant: str, owner: str, level: str) -> None:
    if not isinstance(levels.LEVELS[level], FileSystemLevel):
        raise ConfigError(
            f"tenant {tenant} cannot share {level} of {owner}: one program at a time can open it",
            hint="databases can share only mounted file systems",
            code="not-shareable",
        )


def _check_apart(mix: TenantMix, places: Mapping[str, TenantPlace]) -> None:
    """Refuse zones that two tenants would write.

    Raises:
        ConfigError: two tenants have the same namespace, or slices that overlap.
    """
    writers = [name for name, place in places.items() if levels.LEVELS[place.level.name].uses_zoned]
    for index, name in enumerate(writers):
        for other in writers[:index]:
            first, second = places[other], places[name]
            if first.namespace.identity != second.namespace.identity:
                continue
            ranges = (first.zone_range, second.zone_range)
            if set(ranges[0]).isdisjoint(ranges[1]):
                continue
            spans = " and ".join(f"zones {r.start} to {r.stop - 1}" for r in ranges)
            raise ConfigError(
                f"mix {mix.name}: {other} and {name} both use {first.namespace.path} ({spans})",
                hint="give each a slice ([0%, 50%] and [50%, 100%]) or a namespace, or let one "
                "share the other's file system",
                code="namespace-twice",
            )


def _with_conventional(
    places: dict[str, TenantPlace], inspection: Inspection
) -> dict[str, TenantPlace]:
    """Divide the conventional device among the tenants that need it.

    A baseline gets the capacity of the device that it is compared with; the other tenants share the
    rest equally. If only one tenant needs the device, its level chooses the size.

    Raises:
        ConfigError: the device is too small for all of them.
    """
    device = inspection.conventional
    users = {
        name: levels.LEVELS[place.level.name]
        for name, place in places.items()
        if levels.LEVELS[place.level.name].needs_conventional
    }
    if device is None or len(users) <= 1:
        return places
    sizes: dict[str, int] = {
        name: places[name].device.capacity for name, level in users.items() if not level.uses_zoned
    }
    left = device.size - sum(sizes.values())
    others = [name for name in users if name not in sizes]
    sizes |= {name: max(0, left) // len(others) // MIB * MIB for name in others}
    for name, size in sizes.items():
        level = users[name]
        if isinstance(level, FileSystemLevel) and (
            left < 0 or size < level.minimum_conventional(places[name].device)
        ):
            parts = " + ".join(f"{n} {format_size(s)}" for n, s in sizes.items())
            raise ConfigError(
                f"{device.path} has {format_size(device.size)}, its tenants need {parts}",
                hint="-e conventional_device=<a larger one>, or other levels",
                code="conventional-too-small",
            )
    divided, first = dict(places), 0
    for name in users:
        divided[name] = replace(places[name], conventional=Extent(first, sizes[name]))
        first += sizes[name]
    return divided
