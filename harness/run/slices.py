"""Slices of devices: zone-aligned linear mappings, one per tenant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from harness.cleanup import cleaned
from harness.errors import HostError
from harness.machine.host import Host
from harness.quantities import SECTOR
from harness.store.spec import Bytes, Device, Extent, TenantSpec
from harness.tools import dmsetup


@contextmanager
def mapped(
    host: Host, tenant: TenantSpec, conventional: Device | None
) -> Iterator[tuple[Device, Device | None]]:
    """Map the slices of a tenant inside the block; without slices, return its whole devices.

    The first is the zoned device; if the level uses none, it only gives the size to compare with.
    The second is the conventional device.

    Args:
        host: the machine.
        tenant: the owner of a file system; its device is the whole one, as found now.
        conventional: the run's conventional device; null if the level needs none.

    Raises:
        HostError: the slice has another number of zones than planned.
        ToolFailed: dmsetup failed.
    """
    with ExitStack() as stack:
        device, companion = tenant.device, conventional
        if tenant.zones is not None:
            size = device.zone_size or 0
            extent = Extent(tenant.zones.first * size, tenant.zones.count * size)
            device = stack.enter_context(_slice(host, f"{tenant.name}-zones", device, extent))
            if device.zones != tenant.zones.count:
                raise HostError(
                    f"the slice of {tenant.name} has {device.zones} zones instead of "
                    f"{tenant.zones.count}",
                    hint="the kernel's device mapper must support zoned devices",
                    code="slice-zones",
                )
        if conventional is not None and tenant.conventional is not None:
            name = f"{tenant.name}-conventional"
            companion = stack.enter_context(_slice(host, name, conventional, tenant.conventional))
        yield device, companion


@contextmanager
def _slice(host: Host, name: str, device: Device, extent: Extent) -> Iterator[Device]:
    """Map the bytes ``extent`` of a device as ``<prefix><name>``."""
    mapping = dmsetup.PREFIX + name
    start = extent.first // SECTOR
    node = dmsetup.map_to(mapping, Bytes(extent.count), "linear", f"{device.path} {start}")
    with cleaned(lambda: dmsetup.remove(mapping)):
        part = host.device(str(Path(node).resolve()))
        # A mapping has no kind or model; the drive's kind decides whether times are real.
        yield replace(part, kind=device.kind, model=device.model)
