"""Plan the namespaces of a drive. The user sees the plan before the drive is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.drive.survey import Drive, Namespace
from harness.errors import ConfigError, GuardRefused, ZonelabError
from harness.quantities import format_size
from harness.store.spec import Bytes
from harness.tools.nvme_cli import Format

REST = "rest"
# Cold data has one writer: its current zone, and the next one while that zone is being finished.
COLD_ACTIVE = 2


class Role(StrEnum):
    """Purpose of a namespace, in the order of creation."""

    CONVENTIONAL = "conventional"
    EXPERIMENT = "experiment"
    COLD = "cold"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The user's request. Sizes are *capacity*; null: no such namespace; 'rest': what is left."""

    conventional: Bytes | None
    experiment: Bytes | str
    cold: Bytes | str | None
    block: int  # bytes per logical block
    zone_capacity: Bytes | None = None  # needed if the drive has no attached zoned namespace
    cold_active: int = COLD_ACTIVE  # active zones of the cold namespace, if divided


@dataclass(frozen=True, slots=True)
class PlannedNamespace:
    """A namespace to be created."""

    role: Role
    size: Bytes
    capacity: Bytes
    format: int  # index of the LBA format
    block: int  # bytes per logical block
    zones: int | None  # null: conventional
    active: int | None  # active zones; null: the drive does not divide them

    @property
    def zoned(self) -> bool:
        """Whether it has zones."""
        return self.zones is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """What has to change on a drive; empty if the wanted namespaces exist."""

    serial: str  # of the drive
    delete: tuple[int, ...]  # namespace numbers
    create: tuple[PlannedNamespace, ...]
    notes: tuple[str, ...]


def plan(drive: Drive, wanted: Wanted) -> Layout:
    """Return the layout.

    Raises:
        GuardRefused: the drive cannot manage namespaces (code ``no-namespace-management``).
        ConfigError: the request does not fit, or the drive has no such format.
    """
    planned, notes = _namespaces(drive, wanted)
    if _exists(drive.namespaces, planned):
        return Layout(drive.controller.serial, (), (), notes)
    if not drive.controller.manages_namespaces:
        raise GuardRefused(
            f"{drive.controller.model} cannot create or delete namespaces (id-ctrl, OACS)",
            hint="use its existing namespaces: leave namespaces_experiment out",
            code="no-namespace-management",
        )
    if len(planned) > drive.controller.most_namespaces:
        raise _does_not_fit(
            f"{len(planned)} namespaces are wanted, the drive has room for"
            f" {drive.controller.most_namespaces}"
        )
    delete = tuple(namespace.nsid for namespace in drive.namespaces)
    return Layout(drive.controller.serial, delete, planned, notes)


def _namespaces(
    drive: Drive, wanted: Wanted
) -> tuple[tuple[PlannedNamespace, ...], tuple[str, ...]]:
    chosen = _format(drive, wanted.block)
    zone_size = drive.zone_sizes.get(chosen.index)
    if zone_size is None:
        raise ConfigError(
            f"{drive.controller.model} offers no zones in blocks of {wanted.block} B",
            hint=f"choose a block size (in B) with zones: {_zoned_blocks(drive)}",
            code="no-zoned-format",
        )
    capacity, unit = _zone(drive, wanted, zone_size)
    room: int = drive.controller.total or sum(namespace.taken for namespace in drive.namespaces)
    notes = [drive.note] if drive.note else []
    planned = []
    if wanted.conventional:
        size = _round_up(wanted.conventional, chosen.data)
        planned.append(
            PlannedNamespace(Role.CONVENTIONAL, size, size, chosen.index, chosen.data, None, None)
        )
        room -= size
    for role, ask in ((Role.EXPERIMENT, wanted.experiment), (Role.COLD, wanted.cold)):
        if ask is None:
            continue
        zones = max(room, 0) // unit if ask == REST else -(-int(ask) // capacity)
        room -= zones * unit
        if zones == 0 and role is Role.COLD:
            notes.append("nothing is left for a cold namespace")
        elif zones == 0 or room < 0:
            raise _does_not_fit(
                f"{role.value}: {max(zones, 1)} zones of {format_size(capacity)} do not fit,"
                f" the drive lacks {format_size(max(-room, unit))}"
            )
        else:
            planned.append(
                PlannedNamespace(
                    role=role,
                    size=Bytes(zones * zone_size),
                    capacity=Bytes(zones * capacity),
                    format=chosen.index,
                    block=chosen.data,
                    zones=zones,
                    active=None,
                )
            )
    divided, note = _divide(drive, wanted, planned)
    return divided, (*notes, note)


def _format(drive: Drive, block: int) -> Format:
    plain = [format_ for format_ in drive.formats if not format_.metadata]
    fitting = [format_ for format_ in plain if format_.data == block]
    if not fitting:
        offered = sorted({format_.data for format_ in plain})
        raise ConfigError(
            f"{drive.controller.model} has no format with blocks of {block} B",
            hint=f"it has {', '.join(map(str, offered)) or 'none without metadata'}",
            code="no-such-format",
        )
    return next((format_ for format_ in fitting if format_.index in drive.zone_sizes), fitting[0])


def _zone(drive: Drive, wanted: Wanted, zone_size: Bytes) -> tuple[Bytes, int]:
    """Return the capacity of a zone, and the bytes of the drive that it takes.

    An existing zoned namespace of that zone size shows both. Without one, the user names the
    capacity, and a zone is assumed to take as many bytes.
    """
    for namespace in drive.namespaces:
        capacity, zones = namespace.zone_capacity, namespace.zones
        if namespace.zone_size != zone_size or not capacity or not zones:
            continue
        if wanted.zone_capacity not in (None, capacity):
            raise ConfigError(
                f"zones of {namespace.node} hold {capacity} B, not {wanted.zone_capacity} B",
                hint="leave the zone capacity out: the drive reports it",
                code="zone-capacity",
            )
        return capacity, -(-namespace.taken // zones)
    if wanted.zone_capacity is None:
        raise ConfigError(
            "the zone capacity of this drive is unknown: no zoned namespace is attached",
            hint="name it: --zone-capacity 1077MiB for a ZN540; the new zones are checked",
            code="zone-capacity",
        )
    if not 0 < wanted.zone_capacity <= zone_size:
        raise ConfigError(
            f"a zone of {zone_size} B cannot hold {wanted.zone_capacity} B",
            hint="give the zone capacity, which is at most the zone size",
            code="zone-capacity",
        )
    return wanted.zone_capacity, wanted.zone_capacity


def _divide(
    drive: Drive, wanted: Wanted, planned: Sequence[PlannedNamespace]
) -> tuple[tuple[PlannedNamespace, ...], str]:
    """Give the cold namespace its few active zones, and the experiment all others."""
    total = drive.active_total
    if total is None:
        return tuple(planned), "active zones are not divided: each namespace has its own limit"
    has_cold = any(part.role is Role.COLD for part in planned)
    cold = wanted.cold_active if has_cold else 0
    if has_cold and not 0 < cold < total:
        raise _does_not_fit(
            f"{cold} of {total} active zones for cold data: it needs 1 or more, and"
            " the experiment as well"
        )
    share = {Role.EXPERIMENT: total - cold, Role.COLD: cold}
    divided = tuple(replace(part, active=share.get(part.role)) for part in planned)
    return divided, f"{total} active zones: {total - cold} for the experiment, {cold} for cold data"


def _exists(present: Sequence[Namespace], planned: Sequence[PlannedNamespace]) -> bool:
    """Whether the attached namespaces are the planned ones, in any order, without metadata."""
    divided = any(part.active is not None for part in planned)

    def shape(part: Namespace | PlannedNamespace, zoned: bool) -> tuple[bool, int, int, int]:
        return zoned, part.size, part.block, (part.active or 0) if divided and zoned else 0

    existing = sorted(shape(namespace, namespace.zone_size is not None) for namespace in present)
    usable = all(namespace.node and not namespace.metadata for namespace in present)
    return usable and existing == sorted(shape(part, part.zoned) for part in planned)


def _zoned_blocks(drive: Drive) -> str:
    blocks = sorted(format_.data for format_ in drive.formats if format_.index in drive.zone_sizes)
    return ", ".join(map(str, blocks)) or "none"


def _does_not_fit(message: str) -> ZonelabError:
    return ConfigError(message, hint="ask for less, or for 'rest'", code="does-not-fit")


def _round_up(size: int, step: int) -> Bytes:
    return Bytes(-(-size // step) * step)
