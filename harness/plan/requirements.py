"""What a level needs of a device before it is worth trying; refused at planning time.

Probes on the host decide whether a level *can* run; these are arithmetic on the geometry.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import ConfigError
from harness.levels import LEVELS, zlfs
from harness.plan.derive import Derived
from harness.plan.load import nearest
from harness.plan.models import Level
from harness.plan.units import format_size
from harness.store.spec import Device, Inspection

# zone write plugging, which orders writes without a scheduler, came with this kernel.
_NONE_SINCE = (6, 10)


@dataclass(frozen=True, slots=True)
class Needs:
    """Smallest zone count and active limit of a level, and where the numbers come from."""

    zones: int
    active: int
    why: str


# Below 16 zones every file system here spends most of them on reserves.
DEFAULT = Needs(16, 3, "data, metadata and journal each keep a zone active")
NEEDS = {
    "zlfs": Needs(
        zlfs.MIN_ZONES,
        zlfs.MIN_ACTIVE_ZONES,
        "two for the metadata log, one each for WALs, small files, garbage collection and data",
    ),
    "f2fs": Needs(16, 6, "f2fs keeps six logs open"),
    "btrfs": Needs(16, 8, "BTRFS_MIN_ACTIVE_ZONES: 3 superblock, 3 block groups, log, relocation"),
    "zenfs": Needs(32, 3, "ZenFS refuses fewer than 32 zones; two active ones are its own"),
}
# Their data lives on a conventional device, so the zoned one's limits do not matter.
CONVENTIONAL = ("conventional-ext4", "conventional-xfs")


def check_level(level: str, device: Device) -> None:
    """Refuse a level that this geometry cannot carry.

    Raises:
        ConfigError: too few zones, or too few zones may be active at once.
    """
    if level in CONVENTIONAL or not device.zoned:
        return
    needs = NEEDS.get(level, DEFAULT)
    zones, active = device.zones or 0, device.max_active_zones or 0
    if zones < needs.zones:
        raise ConfigError(
            f"{level} needs at least {needs.zones} zones, {device.path} has {zones}",
            hint="use a larger namespace, or leave the level out with --levels",
            code="too-few-zones",
        )
    if 0 < active < needs.active:  # 0: the device has no limit
        raise ConfigError(
            f"{level} needs {needs.active} active zones, {device.path} allows {active} "
            f"({needs.why})",
            hint="create the namespace with more active resources, or leave the level out",
            code="too-few-active-zones",
        )


def check_room(level: str, device: Device, derived: Derived) -> None:
    """Refuse data that a level with zones of its own cannot take beside them.

    Raises:
        ConfigError: cold data and the largest database need more than it offers.
    """
    if level != "zlfs" or device.zone_capacity is None:
        return
    room = zlfs.usable_zones(device.zones or 0) * device.zone_capacity
    wanted = derived.cold_bytes + derived.peak_bytes
    if wanted > room:
        raise ConfigError(
            f"{level} fills at most {format_size(room)} of {format_size(device.capacity)}, cold "
            f"data and the largest database need {format_size(wanted)}",
            hint="lower target_utilisation, use a namespace of more zones, or leave the level out",
            code="does-not-fit",
        )


def check_options(level: Level) -> None:
    """Refuse options that the level's module does not understand.

    Raises:
        ConfigError: there is one; the hint lists those it knows.
    """
    module = LEVELS.get(level.name)
    if module is None:  # a level that only the inspected host has
        return
    for name in level.options:
        if name not in module.options:
            raise ConfigError(
                f"level {level.name} has no option {name!r}",
                hint=nearest(name, module.options), code="unknown-option",
            )  # fmt: skip


def choose_scheduler(wanted: str | None, inspection: Inspection) -> str:
    """Return the scheduler of a run: the wanted one, else ``none`` where the kernel allows it.

    Raises:
        ConfigError: the device does not offer it, or the kernel needs mq-deadline on zones.
    """
    device, release = inspection.device, inspection.host.kernel
    ordered = not device.zoned or _version(release) >= _NONE_SINCE
    choice = wanted or ("none" if ordered else "mq-deadline")
    if choice != "mq-deadline" and not ordered:
        raise ConfigError(
            f"scheduler {choice} reorders zone writes on Linux {release}",
            hint="use mq-deadline, or a kernel from 6.10 on",
            code="scheduler-unsafe",
        )
    if device.schedulers and choice not in device.schedulers:
        raise ConfigError(
            f"{device.path} does not offer scheduler {choice!r}",
            hint=f"it offers {', '.join(device.schedulers)}",
            code="unknown-scheduler",
        )
    return choice


def _version(release: str) -> tuple[int, int]:
    parts = release.split("-", maxsplit=1)[0].split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (ValueError, IndexError):
        raise ConfigError(f"cannot read kernel release {release!r}", code="kernel") from None
