"""Facts of a device: a table of them, and checks that they are as planned."""

from __future__ import annotations

from harness.errors import GuardRefused
from harness.observe.sysfs import Sysfs
from harness.store.spec import Device, Reason, Scalar


def facts_of(device: Device) -> dict[str, Scalar]:
    """Return the properties of a device for tables."""
    facts: dict[str, Scalar] = {"path": device.path, "identity": device.identity.key}
    facts |= {"model": device.model, "kind": device.kind.value, "size": device.size}
    facts |= {"block size": device.logical_block_size, "scheduler": device.scheduler}
    if device.zoned:
        facts |= {"zones": device.zones or 0, "zone size": device.zone_size or 0}
        facts |= {"zone capacity": device.zone_capacity or 0, "capacity": device.capacity}
        facts |= {"max open zones": device.max_open_zones or 0}
        facts |= {"max active zones": device.max_active_zones or 0}
    return facts


def suspended(sysfs: Sysfs, name: str) -> Reason | None:
    """Return why a device must not be read, if a read would wait and no signal could end it."""
    mapping = sysfs.suspended(name)
    if mapping is None:
        return None
    title = sysfs.text(mapping, "dm/name") or mapping
    return Reason(
        "suspended",
        f"{sysfs.dev / name} is suspended by the device mapper ({title}): a read would never end",
        f"dmsetup resume {title}, or name another device",
    )


def require_geometry(planned: Device, found: Device) -> None:
    """Refuse a device with the planned identity but another geometry: it was created anew."""
    hint = "plan again for the present device"
    if planned.zoned and not found.zoned:
        raise GuardRefused(f"{found.path} is not a zoned block device", hint=hint, code="not-zoned")
    was = (planned.zoned, planned.size, planned.zone_size, planned.zone_capacity)
    if was != (found.zoned, found.size, found.zone_size, found.zone_capacity):
        raise GuardRefused(
            f"{found.path} is {planned.identity.key} with another geometry than planned",
            hint=hint,
            code="geometry-changed",
        )
