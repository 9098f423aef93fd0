"""Reference inspection with the rig's geometry, for the predictions of ``zonelab plan --list``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness import levels
from harness.store.spec import (
    Bytes,
    Device,
    DeviceIdentity,
    DeviceKind,
    HostFacts,
    Inspection,
    LevelProbe,
    OtherDevice,
)

MIB = 2**20

# configs/rigs/nvme.yml: 384 zones of 8 MiB, 4 MiB of them writable, 14 active.
_ZONES, _SIZE, _CAPACITY, _ACTIVE = 384, 8 * MIB, 4 * MIB, 14

# All levels are assumed to be available.
LEVELS = tuple(levels.LEVELS)

_ONE_NAMESPACE = Inspection(
    host=HostFacts("rig", "7.2.0", "Debian GNU/Linux 13", 2, Bytes(4096 * MIB), "9.10.0"),
    device=Device(
        path="/dev/nvme0n2",
        identity=DeviceIdentity("", "", "", "reference", 2),
        kind=DeviceKind.EMULATED,
        model="reference geometry",
        size=Bytes(_ZONES * _SIZE),
        logical_block_size=4096,
        zoned=True,
        zone_size=Bytes(_SIZE),
        zone_capacity=Bytes(_CAPACITY),
        zones=_ZONES,
        max_open_zones=_ACTIVE,
        max_active_zones=_ACTIVE,
        scheduler="none",
        schedulers=("none", "mq-deadline"),
    ),
    conventional=None,
    conventional_reason=None,
    drive_capacity=None,
    refusals=(),
    levels=tuple(LevelProbe(level, available=True, reason=None) for level in LEVELS),
)

# The second zoned namespace, for tenants.
_SECOND = replace(
    _ONE_NAMESPACE.device,
    path="/dev/nvme0n3",
    identity=replace(_ONE_NAMESPACE.device.identity, nsid=3),
)
RIG = replace(_ONE_NAMESPACE, others=(OtherDevice(_SECOND, (), _ONE_NAMESPACE.levels),))

# ZenFS needs this many zones. The drive with the largest zones has exactly as many.
_FEWEST_ZONES = 32


def with_zones_of(sizes: Sequence[int]) -> Inspection:
    """Return the rig with one drive per zone size in bytes, all of equal capacity."""
    if not sizes:
        return RIG
    capacity = _FEWEST_ZONES * max(sizes)
    drives = [
        replace(
            RIG.device,
            path=f"/dev/nvme0n{number}",
            identity=replace(RIG.device.identity, nsid=number),
            size=Bytes(capacity // size * size),
            zones=capacity // size,
            zone_size=Bytes(size),
            zone_capacity=Bytes(size),
        )
        for number, size in enumerate(sizes, start=2)
    ]
    others = tuple(OtherDevice(drive, (), RIG.levels) for drive in drives[1:])
    return replace(RIG, device=drives[0], others=others)
