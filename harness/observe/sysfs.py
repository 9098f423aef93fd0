"""Block devices in ``/sys``: identity, geometry, limits, partitions and holders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import GuardRefused, HostError
from harness.observe import vpd, zoneblk
from harness.store.files import text_or_empty
from harness.store.spec import MODELLED, NATIVE, UNSTABLE, DeviceIdentity, DeviceKind

# vd and xvd: disks of virtio and Xen, which are files or volumes of a hypervisor.
_EMULATED_NAMES = re.compile(r"^(nullb|zloop|ublkb|loop|ram|zram|sd[a-z]+_tcmu|x?vd[a-z]+$)")
# Drives of QEMU and of hypervisors, the kernel's own targets (NVMe: Linux), and scsi_debug.
_EMULATED_MODELS = (
    *("QEMU", "Linux", "scsi_debug", "FILEIO", "RAMDISK", "TCMU device"),
    *("VBOX", "VMware", "Virtual disk", "Virtual Disk"),
    f"{zoneblk.SERVER} ",
)
_MODELLED = (f"{zoneblk.SERVER} ", f"{NATIVE} ")
_STACKED = " + "  # separates the models of drives below a device
_NULL_BLK = re.compile(r"^nullb\d+$")
_HEAD = re.compile(r"^nvme(\d+)n(\d+)$")
_PATH_NODE = re.compile(r"^nvme\d+c\d+n\d+$")


def kind_of(name: str, model: str) -> DeviceKind:
    """Return the kind of a disk by its kernel name and its ``Sysfs.model``.

    A process serves a ublk device. Its times mean something only if the process is zoneblk. A
    modelled drive in files is no disk.
    """
    models = model.split(_STACKED)
    if all(part.startswith(_MODELLED) for part in models):
        return DeviceKind.MODELLED
    emulated = any(part.startswith(_EMULATED_MODELS) for part in models)
    emulated = emulated or any(_EMULATED_NAMES.match(part) for part in (name, *models))
    return DeviceKind.EMULATED if emulated else DeviceKind.HARDWARE


@dataclass(frozen=True, slots=True)
class Sysfs:
    """The block devices of a sysfs tree; tests use a captured tree.

    ``servers`` is where the servers of ublk devices have their sockets.
    """

    root: Path = Path("/sys")
    dev: Path = Path("/dev")
    servers: Path = zoneblk.FOLDER

    def block(self, name: str) -> Path:
        """Return the directory of a block device or partition."""
        return self.root / "class" / "block" / name

    def names(self) -> list[str]:
        """Return every block device and partition, sorted."""
        folder = self.root / "class" / "block"
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []

    def resolve(self, path: str) -> str:
        """Return the kernel name of ``nvme2n2``, ``/dev/nvme2n2`` or a ``/dev/disk/by-id`` link.

        Raises:
            GuardRefused: there is no such block device (code ``missing``).
        """
        candidate = Path(path) if path.startswith("/") else self.dev / path
        name = Path(os.path.realpath(candidate)).name
        if not self.block(name).is_dir():
            raise GuardRefused(
                f"no block device {path}", hint="lsblk lists block devices", code="missing"
            )
        return name

    def text(self, name: str, attribute: str) -> str:
        """Return the stripped text of an attribute, or '' if it is absent."""
        return _read(self.block(name) / attribute)

    def number(self, name: str, attribute: str) -> int | None:
        """Return an attribute as an integer, or None if it is absent or not a number."""
        text = self.text(name, attribute)
        return int(text) if text.isdigit() else None

    def write(self, name: str, attribute: str, text: str) -> None:
        """Set an attribute."""
        (self.block(name) / attribute).write_text(text)

    def queue_nodes(self, name: str) -> list[str]:
        """Return the nodes that carry queue settings: the device, then its multipath path nodes."""
        head = _HEAD.match(name)
        if head is None:
            return [name]
        pattern = re.compile(rf"^nvme{head[1]}c\d+n{head[2]}$")
        return [name, *(other for other in self.names() if pattern.match(other))]

    def uncounted(self, name: str) -> list[str]:
        """Return the nodes of a device whose commands the kernel does not count.

        Without request queues (``mq``) the setting has no effect, and older kernels show 0.
        """
        nodes = self.queue_nodes(self.disk(name))
        with_queues = [node for node in nodes if (self.block(node) / "mq").is_dir()]
        return [node for node in with_queues if self.text(node, "queue/iostats") == "0"]

    def limit(self, name: str, attribute: str) -> int:
        """Return a zone limit; with NVMe multipath only the path nodes have it."""
        return max(self.number(node, f"queue/{attribute}") or 0 for node in self.queue_nodes(name))

    def schedulers(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return the active I/O scheduler and all choices, from the node that queues requests."""
        for node in reversed(self.queue_nodes(name)):
            words = self.text(node, "queue/scheduler").split()
            if words:
                choices = tuple(word.strip("[]") for word in words)
                chosen = next((w.strip("[]") for w in words if w.startswith("[")), choices[0])
                return chosen, choices
        return "none", ("none",)

    def set_scheduler(self, name: str, scheduler: str) -> None:
        """Set the I/O scheduler on every node that has one, and read it back.

        Raises:
            HostError: the kernel does not offer the scheduler, or ignored the setting.
        """
        current, choices = self.schedulers(name)
        if current == scheduler:
            return
        if scheduler not in choices:
            raise HostError(
                f"{name} has no scheduler {scheduler!r}, only {', '.join(choices)}",
                hint=f"modprobe {scheduler}",
                code="scheduler-missing",
            )
        for node in self.queue_nodes(name):
            if self.text(node, "queue/scheduler"):
                self.write(node, "queue/scheduler", scheduler)
        if self.schedulers(name)[0] != scheduler:
            raise HostError(f"{name} ignored scheduler {scheduler!r}", code="scheduler-lost")

    def parent(self, name: str) -> str | None:
        """Return the disk of a partition, or None for a whole device."""
        if not (self.block(name) / "partition").exists():
            return None
        return Path(os.path.realpath(self.block(name))).parent.name

    def disk(self, name: str) -> str:
        """Return the disk of a partition, or the whole device itself."""
        return self.parent(name) or name

    def partitions(self, name: str) -> list[str]:
        """Return the partitions of a device."""
        folder = self.block(name)
        return sorted(p.name for p in folder.iterdir() if (p / "partition").exists())

    def block_nodes(self, name: str) -> list[str]:
        """Return the numbers (major:minor) of a device, its partitions, and the disk it is on."""
        parent = self.parent(name)
        family = [name, *self.partitions(name), *([parent] if parent else [])]
        return [number for member in family if (number := self.text(member, "dev"))]

    def namespace_nodes(self, name: str) -> list[str]:
        """Return the numbers of NVMe's character nodes of a namespace (``/dev/ng0n1``)."""
        head = _HEAD.match(self.disk(name))
        generic = self.root / "class" / "nvme-generic" / f"ng{head[1]}n{head[2]}" if head else None
        return _numbers([generic / "dev"] if generic else [])

    def controller_nodes(self, name: str) -> list[str]:
        """Return the numbers of the drive's character nodes: NVMe controllers, sg and bsg."""
        device = self.block(self.disk(name)) / "device"
        patterns = ("nvme*/dev", "scsi_generic/*/dev", "bsg/*/dev")
        return _numbers(
            [device / "dev", *(file for pattern in patterns for file in device.glob(pattern))]
        )

    @property
    def _subsystems(self) -> Path:
        return self.root / "kernel" / "config" / "nvmet" / "subsystems"

    def nvme_targets(self) -> list[str]:
        """Return the paths of the devices that this machine exports as an NVMe target."""
        spaces = [
            space
            for space in self._subsystems.glob("*/namespaces/*")
            if _read(space / "enable") == "1"
        ]
        return [_read(space / "device_path") for space in spaces]

    def exported(self, name: str) -> str | None:
        """Return the ublk device that this machine's NVMe target exports as this namespace.

        With any transport but loop, the target may be on another machine.
        """
        name = self.disk(name)
        controller = self.block(name) / "device"
        if _read(controller / "transport") != "loop":
            return None
        system = self._subsystems / _read(controller / "subsysnqn")
        space = system / "namespaces" / self.text(name, "nsid")
        path = Path(_read(space / "device_path"))
        ours = path == self.dev / path.name and zoneblk.is_ublk(path.name)
        return path.name if ours and _read(space / "enable") == "1" else None

    def served(self, name: str) -> zoneblk.Served | None:
        """Return the modelled drive of a disk or namespace; None if it is another drive."""
        return zoneblk.served(self.exported(name) or name, self.servers)

    def report(self, name: str) -> dict[str, Any] | None:
        """Return the report of the server of a modelled drive, or None if none answers."""
        return zoneblk.report(self.exported(name) or name, self.servers)

    def drives(self, name: str) -> list[str]:
        """Return the disks below a device: its own, or those that it is mapped to."""
        below = self.below(name)
        if not below:
            return [self.disk(name)]
        return list(dict.fromkeys(drive for part in below for drive in self.drives(part)))

    def suspended(self, name: str) -> str | None:
        """Return the suspended mapping that a device is or has below it; null without one.

        A read of such a device waits until the mapping is resumed. No signal ends it.
        """
        if self.text(name, "dm/suspended") == "1":
            return name
        parent = self.parent(name)
        below = [*self.below(name), *([parent] if parent else [])]
        return next((found for part in below if (found := self.suspended(part))), None)

    def below(self, name: str) -> list[str]:
        """Return the devices that a device is mapped to."""
        folder = self.block(name) / "slaves"
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []

    def holders(self, name: str) -> list[str]:
        """Return the devices stacked directly on this device (device mapper, md)."""
        folder = self.block(name) / "holders"
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []

    def family(self, name: str) -> list[str]:
        """Return the device, its partitions, and everything stacked on any of them."""
        family: list[str] = []
        pending = [name]
        while pending:
            current = pending.pop(0)
            if current in family or not self.block(current).is_dir():
                continue
            family.append(current)
            pending += [*self.partitions(current), *self.holders(current)]
        return family

    def siblings(self, name: str) -> list[str]:
        """Return the other namespaces of the same NVMe controller."""
        if _HEAD.match(name) is None:
            return []
        controller = os.path.realpath(self.block(name) / "device")
        return [
            other
            for other in self.names()
            if other != name
            and _HEAD.match(other)
            and os.path.realpath(self.block(other) / "device") == controller
        ]

    def nodes(self) -> list[str]:
        """Return block devices that have a node in /dev: all but multipath path nodes."""
        return [name for name in self.names() if not _PATH_NODE.match(name)]

    def whole_devices(self) -> list[str]:
        """Return block devices that are neither partitions nor multipath path nodes."""
        return [name for name in self.nodes() if not (self.block(name) / "partition").exists()]

    def identity(self, name: str) -> DeviceIdentity:
        """Return the identity of a device, which does not depend on the kernel's numbering.

        A partition has the identity of its disk plus its number. A device without any identifier
        (loop) has one that is not stable.
        """
        parent = self.parent(name)
        if parent is not None:
            number = self.text(name, "partition")
            return DeviceIdentity("", "", "", f"{self.identity(parent).key}-part{number}", 0)
        if drive := self.served(name):
            return DeviceIdentity("", "", "", MODELLED + drive.uuid, 0)
        nsid = self.number(name, "nsid") or 0
        return DeviceIdentity(
            eui64=re.sub(r"[\s-]", "", self.text(name, "eui")).lower(),
            nguid=self.text(name, "nguid").lower(),
            uuid=self.text(name, "uuid").lower(),
            serial=self._stable_name(name) or UNSTABLE + name,
            nsid=nsid,
        )

    def _stable_name(self, name: str) -> str:
        """Return the WWID, serial number or UUID of a drive, or the UUID of a stacked device."""
        sources: tuple[Callable[[], str], ...] = (
            lambda: self.text(name, "device/wwid"),  # SCSI and ATA: best designator of page 83h
            lambda: vpd.name(self._page(name, "vpd_pg83")),
            lambda: vpd.serial(self._page(name, "vpd_pg80")),
            lambda: self.text(name, "device/serial"),  # NVMe
            lambda: self.text(name, "serial"),  # virtio
            lambda: self._in_memory(name),
            lambda: self.text(name, "dm/uuid"),
            lambda: self.text(name, "md/uuid"),
        )
        return next((found for source in sources if (found := vpd.usable(source()))), "")

    def _in_memory(self, name: str) -> str:
        """Return a null_blk device's name with the boot's ID: its contents end with the boot."""
        boot = _read(self.root.parent / "proc" / "sys" / "kernel" / "random" / "boot_id")
        return f"null_blk.{name}.{boot}" if boot and _NULL_BLK.match(name) else ""

    def _page(self, name: str, page: str) -> bytes:
        try:
            return (self.block(name) / "device" / page).read_bytes()
        except OSError:
            return b""

    def kind(self, name: str) -> DeviceKind:
        """Return the kind of the device, which shows whether its times are meaningful."""
        return kind_of(self.disk(name), self.model(name))

    def model(self, name: str) -> str:
        """Return the controller's model, the modelled drive's name, or the driver's name.

        A stacked device has the models of the drives below it.
        """
        below = self.drives(name)
        if below != [self.disk(name)]:
            return _STACKED.join(dict.fromkeys(map(self.model, below)))
        name = self.disk(name)
        if drive := self.served(name):
            return drive.name
        return self.text(name, "device/model") or re.sub(r"\d+$", "", name)


def _read(file: Path) -> str:
    return text_or_empty(file).strip()


def _numbers(files: list[Path]) -> list[str]:
    return [number for file in files if (number := _read(file))]
