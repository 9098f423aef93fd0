"""From a drive's own data to the namespaces wanted: a pure function, shown before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.drive.facts import Drive, Namespace
from harness.errors import ConfigError, GuardRefused, ZonelabError
from harness.quantities import format_size
from harness.store.spec import Bytes
from harness.tools.nvme_cli import Format

REST = "rest"
# Written once, by one writer: the zone it is in, and the next one while that is being finished.
COLD_ACTIVE = 2


class Role(StrEnum):
    """What a namespace is for, in the order in which they are created."""

    CONVENTIONAL = "conventional"
    EXPERIMENT = "experiment"
    COLD = "cold"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for. Bytes of *capacity*; null: no such namespace, 'rest': what is left.

    ``zone_capacity`` is needed where no zoned namespace is there to be asked. ``cold_active`` are
    the active zones left to the cold remainder, where the drive divides them.
    """

    conventional: Bytes | None
    experiment: Bytes | str
    cold: Bytes | str | None
    block: int
    zone_capacity: Bytes | None = None
    cold_active: int = COLD_ACTIVE


@dataclass(frozen=True, slots=True)
class Planned:
    """One namespace to be created. Bytes; ``active`` null: the drive does not divide zones."""

    role: Role
    size: Bytes
    capacity: Bytes
    format: int
    block: int
    zones: int | None
    active: int | None

    @property
    def zoned(self) -> bool:
        """Whether it has zones."""
        return self.zones is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """The namespaces wanted; ``delete`` is empty where they are there already."""

    serial: str
    delete: tuple[int, ...]
    create: tuple[Planned, ...]
    notes: tuple[str, ...]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.delete or self.create)


def plan(drive: Drive, wanted: Wanted) -> Layout:
    """Return the layout.

    Raises:
        GuardRefused: the drive cannot be laid out anew (code ``no-namespace-management``).
        ConfigError: what is wanted does not fit, or the drive has no such format.
    """
    planned, notes = _namespaces(drive, wanted)
    if _is_there(drive.namespaces, planned):
        return Layout(drive.controller.serial, (), (), notes)
    if not drive.controller.manages_namespaces:
        raise GuardRefused(
            f"{drive.controller.model} cannot create or delete namespaces (id-ctrl, OACS)",
            hint="use the namespaces that it has: leave namespaces_layout out",
            code="no-namespace-management",
        )
    if len(planned) > drive.controller.most_namespaces:
        raise _does_not_fit(
            f"{len(planned)} namespaces are wanted, the drive has room for"
            f" {drive.controller.most_namespaces}"
        )
    delete = tuple(one.nsid for one in drive.namespaces)
    return Layout(drive.controller.serial, delete, planned, notes)


def _namespaces(drive: Drive, wanted: Wanted) -> tuple[tuple[Planned, ...], tuple[str, ...]]:
    chosen = _format(drive, wanted.block)
    zone_size = drive.zone_sizes.get(chosen.index)
    if zone_size is None:
        raise ConfigError(
            f"{drive.controller.model} offers no zones in blocks of {wanted.block} B",
            hint=f"zone sizes are known for blocks of {_zoned_blocks(drive)} B",
            code="no-zoned-format",
        )
    capacity, unit = _zone(drive, wanted, zone_size)
    room: int = drive.controller.total or sum(one.allocated or one.size for one in drive.namespaces)
    notes = [drive.note] if drive.note else []
    planned = []
    if wanted.conventional:
        size = _up(wanted.conventional, chosen.data)
        planned.append(
            Planned(Role.CONVENTIONAL, size, size, chosen.index, chosen.data, None, None)
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
                Planned(
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
    fitting = [one for one in drive.formats if one.data == block and not one.metadata]
    if not fitting:
        offered = sorted({one.data for one in drive.formats if not one.metadata})
        raise ConfigError(
            f"{drive.controller.model} has no format with blocks of {block} B",
            hint=f"it has {', '.join(map(str, offered)) or 'none without metadata'}",
            code="no-such-format",
        )
    return next((one for one in fitting if one.index in drive.zone_sizes), fitting[0])


def _zone(drive: Drive, wanted: Wanted, zone_size: Bytes) -> tuple[Bytes, int]:
    """Return a zone's capacity, and what it takes of the drive, in bytes.

    Present zoned namespaces of that zone size tell both. Without one, the user names the capacity,
    and a zone is taken to cost that.
    """
    for one in drive.namespaces:
        if one.zone_size != zone_size or not one.zone_capacity or not one.zones:
            continue
        if wanted.zone_capacity not in (None, one.zone_capacity):
            raise ConfigError(
                f"zones of {one.node} hold {one.zone_capacity} B, not {wanted.zone_capacity} B",
                hint="leave the zone capacity out: the drive tells it",
                code="zone-capacity",
            )
        return one.zone_capacity, -(-(one.allocated or one.zones * one.zone_capacity) // one.zones)
    if wanted.zone_capacity is None:
        raise ConfigError(
            "no attached zoned namespace tells what a zone of this drive holds",
            hint="name it: --zone-capacity 1077MiB for a ZN540; it is checked once they are made",
            code="zone-capacity",
        )
    if not 0 < wanted.zone_capacity <= zone_size:
        raise ConfigError(
            f"a zone of {zone_size} B cannot hold {wanted.zone_capacity} B",
            hint="name what a zone holds, not what it spans",
            code="zone-capacity",
        )
    return wanted.zone_capacity, wanted.zone_capacity


def _divide(
    drive: Drive, wanted: Wanted, planned: Sequence[Planned]
) -> tuple[tuple[Planned, ...], str]:
    """Give the cold remainder its few active zones, and the experiment all the others."""
    total = drive.active_total
    if total is None:
        return tuple(planned), "active zones are not divided: each namespace has its own limit"
    cold = wanted.cold_active if any(one.role is Role.COLD for one in planned) else 0
    if total - cold < 1:
        raise _does_not_fit(f"of {total} active zones none is left besides {cold} of the cold ones")
    share = {Role.EXPERIMENT: total - cold, Role.COLD: cold}
    divided = tuple(replace(one, active=share.get(one.role)) for one in planned)
    return divided, f"{total} active zones: {total - cold} for the experiment, {cold} for cold data"


def _is_there(present: Sequence[Namespace], planned: Sequence[Planned]) -> bool:
    """Whether the attached namespaces are those wanted, whatever their numbers."""
    divided = any(one.active is not None for one in planned)

    def described(one: Namespace | Planned, zoned: bool) -> tuple[bool, int, int, int]:
        return zoned, one.size, one.block, (one.active or 0) if divided and zoned else 0

    there = sorted(described(one, one.zone_size is not None) for one in present)
    attached = all(one.node for one in present)
    return attached and there == sorted(described(one, one.zoned) for one in planned)


def _zoned_blocks(drive: Drive) -> str:
    blocks = sorted(one.data for one in drive.formats if one.index in drive.zone_sizes)
    return ", ".join(map(str, blocks)) or "no size of"


def _does_not_fit(message: str) -> ZonelabError:
    return ConfigError(message, hint="ask for less, or for 'rest'", code="does-not-fit")


def _up(size: int, step: int) -> Bytes:
    return Bytes(-(-size // step) * step)
