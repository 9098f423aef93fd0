"""All names that the kernel log can use for a block device."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.observe.sysfs import Sysfs

_CONTROLLER = re.compile(r"^nvme\d+$")
_PCI = re.compile(r"^[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_TRANSPORT = re.compile(r"^(?:ata\d+|\d+:\d+:\d+:\d+)$")  # port, and SCSI address


def of_device(sysfs: Sysfs, name: str) -> set[str]:
    """Return the names of a device, its partitions, devices stacked on it, and its controllers.

    A partition also has the names of its disk, whose driver logs its errors.
    """
    nodes = [*sysfs.family(name), *sysfs.below(name)]
    nodes += [disk for one in nodes if (disk := sysfs.parent(one))]
    nodes += [path for one in nodes for path in sysfs.queue_nodes(one)]
    found: set[str] = set()
    for node in nodes:
        found |= {node, sysfs.text(node, "dev")}
        if sysfs.block(node).is_dir():
            found |= _hardware(Path(os.path.realpath(sysfs.block(node) / "device")))
    return found - {""}


def _hardware(folder: Path) -> set[str]:
    """Return the controller, port and addresses in a device's path below /sys/devices."""
    if not folder.is_dir():
        return set()
    found = {part for part in folder.parts if _CONTROLLER.match(part) or _TRANSPORT.match(part)}
    addresses = [part for part in folder.parts if _PCI.match(part)]
    found |= set(addresses[-1:])  # the addresses before it are bridges, which other devices share
    # A subsystem (NVMe multipath) has a link to each of its controllers.
    for link in folder.iterdir():
        if _CONTROLLER.match(link.name) and link.is_symlink():
            found |= {link.name, *_hardware(Path(os.path.realpath(link)))}
    return found
