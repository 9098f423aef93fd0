"""Read a drive's controller, formats and namespaces for the planner of namespaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import GuardRefused
from harness.machine.host import Host
from harness.observe import nvme_ioctl
from harness.observe.sysfs import Sysfs
from harness.store.spec import Bytes
from harness.tools import nvme_cli
from harness.tools.nvme_cli import COMMON, ControllerFacts, Format

_NAMESPACE = re.compile(r"(nvme\d+)n\d+")


@dataclass(frozen=True, slots=True)
class Incarnation:
    """Distinguishes a namespace from a later one that has its number.

    A drive may give the new one the names of the old one. The kernel numbers each block device
    anew, but only within one boot.
    """

    names: tuple[str, ...]  # EUI-64 and NGUID; '': not reported
    boot_id: str
    disk: int | None  # number of its block device; null: not attached, or an old kernel

    def differs(self, other: Incarnation) -> bool:
        """Whether the two are certainly different namespaces."""
        return self.names != other.names or (self._comparable(other) and self.disk != other.disk)

    def is_proved(self, other: Incarnation) -> bool:
        """Whether the two are certainly the same namespace."""
        return self._comparable(other) and not self.differs(other)

    def _comparable(self, other: Incarnation) -> bool:
        both = self.disk is not None and other.disk is not None
        return both and bool(self.boot_id) and self.boot_id == other.boot_id


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace. Zone fields are null on conventional namespaces."""

    nsid: int
    node: str  # its block device; '' if it is not attached
    size: Bytes
    allocated: Bytes | None  # bytes that it takes from the drive; null: not reported
    block: int  # bytes per logical block
    metadata: int  # bytes per logical block
    zone_size: Bytes | None
    zone_capacity: Bytes | None  # from its zone report
    active: int | None  # limit of active zones
    incarnation: Incarnation

    @property
    def zones(self) -> int | None:
        """Number of zones."""
        return self.size // self.zone_size if self.zone_size else None

    @property
    def taken(self) -> Bytes:
        """Bytes that it takes from the drive; its capacity if the drive does not report them."""
        if self.allocated:
            return self.allocated
        # The size counts whole zones, of which a drive stores the capacity only.
        if self.zones and self.zone_capacity:
            return Bytes(self.zones * self.zone_capacity)
        return self.size


@dataclass(frozen=True, slots=True)
class Drive:
    """The current state of a drive."""

    device: str  # node of the controller
    controller: ControllerFacts
    formats: tuple[Format, ...]  # LBA formats of new namespaces
    zone_sizes: Mapping[int, Bytes]  # by index of the format; empty: not reported
    namespaces: tuple[Namespace, ...]
    active_total: int | None  # active zones that can be divided among namespaces; null: none can
    note: str = ""  # a line about what the drive did not report

    def namespace(self, nsid: int) -> Namespace | None:
        """Return the namespace of that number, or None."""
        return next((space for space in self.namespaces if space.nsid == nsid), None)


def controller_of(host: Host, path: str) -> str:
    """Return the controller's node of ``nvme0``, ``/dev/nvme0`` or one of its namespaces.

    A namespace may be gone: an interrupted layout has deleted it, and the same command continues.

    Raises:
        GuardRefused: there is no such NVMe drive.
    """
    name = Path(path).name
    folder = host.sysfs.root / "class" / "nvme"
    gone = _NAMESPACE.fullmatch(name)
    if gone and not host.sysfs.block(name).is_dir() and (folder / gone[1]).is_dir():
        name = gone[1]
    if not (folder / name).is_dir():
        name = _controller_name(host.sysfs, host.sysfs.resolve(path))
    if not name or not (folder / name).is_dir():
        raise GuardRefused(
            f"{path} is not an NVMe drive", hint="nvme list shows NVMe drives", code="missing"
        )
    return str(host.sysfs.dev / name)


def read(host: Host, device: str) -> Drive:
    """Return the state of the drive with this controller node.

    Raises:
        HostError: nvme-cli is not installed.
        ToolFailed: nvme-cli printed unexpected output, or the drive does not answer.
    """
    controller = nvme_cli.identify(device)
    nodes = block_nodes(host, device)
    nsids = nvme_cli.namespaces(device)
    spaces = [_namespace(host, device, nsid, nodes.get(nsid, "")) for nsid in nsids]
    formats, zone_sizes, note = _formats(device, [space.nsid for space in spaces])
    divisible = nvme_ioctl.divisible_zones(Path(device).name, host.sysfs.dev)
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
    """Return the block devices of a controller by namespace number."""
    wanted = Path(device).name
    return {
        host.sysfs.number(name, "nsid") or 0: str(host.sysfs.dev / name)
        for name in host.sysfs.whole_devices()
        if _controller_name(host.sysfs, name) == wanted
    }


def _controller_name(sysfs: Sysfs, name: str) -> str:
    """Return the controller of a namespace or multipath head node, or ''."""
    for node in reversed(sysfs.queue_nodes(name)):
        link = (sysfs.block(node) / "device").resolve()
        if (sysfs.root / "class" / "nvme" / link.name).is_dir():
            return link.name
    return ""


def _namespace(host: Host, device: str, nsid: int, node: str) -> Namespace:
    record = nvme_cli.namespace(device, nsid)
    zone_size = zone_capacity = active = None
    try:
        zoned = nvme_cli.zoned(device, nsid)
    except nvme_cli.Refused:
        zoned = None  # a conventional namespace
    blocks = (
        zoned.zone_blocks[record.format] if zoned and record.format < len(zoned.zone_blocks) else 0
    )
    if zoned and blocks:
        zone_size, active = Bytes(blocks * record.block), zoned.most_active
        zone_capacity = Bytes(host.zones(node, 1)[0].capacity) if node else None
    return Namespace(
        nsid=nsid,
        node=node,
        size=record.size,
        allocated=record.allocated or None,
        block=record.block,
        metadata=record.metadata,
        zone_size=zone_size,
        zone_capacity=zone_capacity,
        active=active,
        incarnation=Incarnation(
            record.names,
            host.boot_id(),
            host.sysfs.number(Path(node).name, "diskseq") if node else None,
        ),
    )


def _formats(device: str, nsids: list[int]) -> tuple[tuple[Format, ...], Mapping[int, Bytes], str]:
    """Return the formats of new namespaces: the common ones, else those of the first namespace."""
    note = ""
    try:
        formats = nvme_cli.namespace(device, COMMON).formats
    except nvme_cli.Refused as error:
        formats = nvme_cli.namespace(device, nsids[0]).formats if nsids else ()
        note = f"formats come from namespace {nsids[0]}: {error.message}" if nsids else ""
    for nsid in (COMMON, *nsids):
        try:
            blocks = nvme_cli.zoned(device, nsid).zone_blocks
        except nvme_cli.Refused:
            continue
        size = {format_.index: format_.data for format_ in formats}
        zones = {i: Bytes(n * size[i]) for i, n in enumerate(blocks) if n and i in size}
        if zones:
            return formats, zones, note
    return formats, {}, note
