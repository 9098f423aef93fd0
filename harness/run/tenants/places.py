"""Parts of devices as devices of their own: zone-aligned linear slices, one per tenant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import HostError
from harness.run.host import Host
from harness.store.spec import Bytes, Device, Extent, TenantSpec
from harness.tools import dmsetup


@dataclass(frozen=True, slots=True)
class Place:
    """A tenant's devices: its zoned one (or what its size is compared with) and its companion."""

    device: Device
    conventional: Device | None


@contextmanager
def placed(
    host: Host, tenant: TenantSpec, device: Device, conventional: Device | None
) -> Iterator[Place]:
    """Map a tenant's slices for as long as the block runs.

    Args:
        host: the machine.
        tenant: the owner of a file system.
        device: its namespace, as found now.
        conventional: the run's conventional device; null where its level needs none.

    Raises:
        HostError: a slice does not come up with the zones that were planned.
        ToolFailed: dmsetup failed.
    """
    with ExitStack() as stack:
        part, companion = device, conventional
        if tenant.zones is not None:
            size = device.zone_size or 0
            extent = Extent(tenant.zones.first * size, tenant.zones.count * size)
            part = stack.enter_context(_slice(host, f"{tenant.name}-zones", device, extent))
            if part.zones != tenant.zones.count:
                raise HostError(
                    f"the slice of {tenant.name} has {part.zones} zones, not {tenant.zones.count}",
                    hint="the kernel's device mapper must support zoned devices",
                    code="slice-zones",
                )
        if conventional is not None and tenant.conventional is not None:
            name = f"{tenant.name}-conventional"
            companion = stack.enter_context(_slice(host, name, conventional, tenant.conventional))
        yield Place(part, companion)


@contextmanager
def _slice(host: Host, name: str, device: Device, extent: Extent) -> Iterator[Device]:
    """Map bytes ``extent`` of a device under one of our names."""
    mapped = dmsetup.PREFIX + name
    start = extent.first // dmsetup.SECTOR
    node = dmsetup.map_to(mapped, Bytes(extent.count), "linear", f"{device.path} {start}")
    try:
        part = host.device(str(Path(node).resolve()))
        # Of the mapper itself nothing is told: whether times mean anything is the drive's matter.
        yield replace(part, kind=device.kind, model=device.model)
    finally:
        dmsetup.remove(mapped)
