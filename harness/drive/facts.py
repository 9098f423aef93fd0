"""What a drive says of itself, gathered for the planner of namespaces. Reading is all it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import GuardRefused
from harness.observe import nvme
from harness.observe.sysfs import Sysfs
from harness.run.host import Host
from harness.store.spec import Bytes
from harness.tools import nvme_cli
from harness.tools.nvme_cli import COMMON, Controller, Format


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace. Sizes in bytes; zone fields are null on conventional ones.

    ``node`` is its block device, '' while it is not attached. ``allocated`` is what it takes of the
    drive, null where the drive does not tell. ``zone_capacity`` comes from its zone report.
    """

    nsid: int
    node: str
    size: Bytes
    allocated: Bytes | None
    block: int
    zone_size: Bytes | None
    zone_capacity: Bytes | None
    active: int | None

    @property
    def zones(self) -> int | None:
        """Number of zones."""
        return self.size // self.zone_size if self.zone_size else None


@dataclass(frozen=True, slots=True)
class Drive:
    """A drive as it is now.

    ``zone_sizes`` are bytes by index of the format, empty where the drive does not tell.
    ``active_total`` are the active zones that it can divide between namespaces, null where it
    or nvme-cli cannot; ``note`` says what it did not tell.
    """

    device: str
    controller: Controller
    formats: tuple[Format, ...]
    zone_sizes: Mapping[int, Bytes]
    namespaces: tuple[Namespace, ...]
    active_total: int | None
    note: str = ""

    def of(self, nsid: int) -> Namespace | None:
        """Return a namespace by its number."""
        return next((one for one in self.namespaces if one.nsid == nsid), None)


def controller_of(host: Host, path: str) -> str:
    """Return the controller's node of ``nvme0``, ``/dev/nvme0`` or one of its namespaces.

    Raises:
        GuardRefused: there is no such NVMe drive.
    """
    name = Path(path).name
    folder = host.sysfs.root / "class" / "nvme"
    if not (folder / name).is_dir():
        name = Path(_controller_name(host.sysfs, host.sysfs.resolve(path))).name
    if not (folder / name).is_dir():
        raise GuardRefused(
            f"{path} is no NVMe drive", hint="nvme list shows which there are", code="missing"
        )
    return str(host.sysfs.dev / name)


def read(host: Host, device: str) -> Drive:
    """Ask the drive behind a controller's node for everything that planning needs.

    Raises:
        HostError: nvme-cli is not installed.
        ToolFailed: it printed something unexpected, or the drive does not answer.
    """
    controller = nvme_cli.identify(device)
    nodes = block_nodes(host, device)
    nsids = nvme_cli.namespaces(device, allocated=True)
    spaces = [_namespace(host, device, nsid, nodes.get(nsid, "")) for nsid in nsids]
    formats, zone_sizes, note = _formats(device, [one.nsid for one in spaces])
    divisible = nvme.divisible_zones(Path(device).name, host.sysfs.dev)
    if divisible is not None and not nvme_cli.divides():  # before anything is deleted
        note = f"this nvme-cli cannot divide the drive's {divisible} active zones"
        divisible = None
    return Drive(
        device=device,
        controller=controller,
        formats=formats,
        zone_sizes=zone_sizes,
        namespaces=tuple(spaces),
        active_total=divisible,
        note=note,
    )


def block_nodes(host: Host, device: str) -> dict[int, str]:
    """Return the block devices of a controller by namespace."""
    wanted = Path(device).name
    return {
        host.sysfs.number(name, "nsid") or 0: str(host.sysfs.dev / name)
        for name in host.sysfs.whole_devices()
        if _controller_name(host.sysfs, name) == wanted
    }


def _controller_name(sysfs: Sysfs, name: str) -> str:
    """Return the controller of a namespace (also of a head node, by its path nodes), else ''."""
    for node in reversed(sysfs.queue_nodes(name)):
        link = (sysfs.block(node) / "device").resolve()
        if (sysfs.root / "class" / "nvme" / link.name).is_dir():
            return link.name
    return ""


def _namespace(host: Host, device: str, nsid: int, node: str) -> Namespace:
    told = nvme_cli.namespace(device, nsid)
    zone_size = zone_capacity = active = None
    try:
        zoned = nvme_cli.zoned(device, nsid)
    except nvme_cli.Refused:
        zoned = None  # a conventional namespace
    blocks = zoned.zone_blocks[told.format] if zoned and told.format < len(zoned.zone_blocks) else 0
    if zoned and blocks:
        zone_size, active = Bytes(blocks * told.block), zoned.most_active
        zone_capacity = Bytes(host.zones(node, 1)[0].capacity) if node else None
    return Namespace(
        nsid=nsid,
        node=node,
        size=told.size,
        allocated=told.allocated or None,
        block=told.block,
        zone_size=zone_size,
        zone_capacity=zone_capacity,
        active=active,
    )


def _formats(device: str, nsids: list[int]) -> tuple[tuple[Format, ...], Mapping[int, Bytes], str]:
    """Return the formats of new namespaces: common to all, else those of the present ones."""
    note = ""
    try:
        formats = nvme_cli.namespace(device, COMMON).formats
    except nvme_cli.Refused as error:
        formats = nvme_cli.namespace(device, nsids[0]).formats if nsids else ()
        note = f"formats are those of namespace {nsids[0]}: {error.message}" if nsids else ""
    for nsid in (COMMON, *nsids):
        try:
            told = nvme_cli.zoned(device, nsid).zone_blocks
        except nvme_cli.Refused:
            continue
        size = {one.index: one.data for one in formats}
        zones = {i: Bytes(n * size[i]) for i, n in enumerate(told) if n and i in size}
        if zones:
            return formats, zones, note
    return formats, {}, note
