"""Who uses a device: mounts, swap, partitions, holders, a second path, an exclusive opener."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from harness.machine.host import Host
from harness.store.spec import Device, Reason


def reasons(host: Host, device: Device) -> list[Reason]:
    """Return every use of ``device`` by somebody else; empty if nobody uses it."""
    name, sysfs = Path(device.path).name, host.sysfs
    # A user of the whole disk uses each of its partitions.
    parent = sysfs.parent(name)
    disk_users = sysfs.holders(parent) if parent else []
    family = [*sysfs.family(name), *([parent] if parent else [])]
    family += [member for user in disk_users for member in sysfs.family(user)]
    mounts = _mounts(host, family)
    if "/" in mounts:
        return [Reason("root", f"{device.path} carries the running system")]
    if mounts:
        return [
            Reason("mounted", f"{device.path} is mounted on {mounts[0]}", f"umount {mounts[0]}")
        ]
    if _swap(host, family):
        return [Reason("swap", f"{device.path} is used as swap", f"swapoff {device.path}")]
    refusals = []
    if sysfs.partitions(name):
        refusals.append(
            Reason(
                "partitioned",
                f"{device.path} has partitions ({', '.join(sysfs.partitions(name))})",
                "name another device, or remove the partitions yourself",
            )
        )
    holders = sysfs.holders(name) + disk_users
    if holders:
        names = ", ".join(sysfs.text(holder, "dm/name") or holder for holder in holders)
        refusals.append(Reason("held", f"{device.path} is held by {names}", "dmsetup ls --tree"))
    if sysfs.number(name, "ro"):
        refusals.append(Reason("read-only", f"{device.path} is read-only"))
    twins = [other for other in _same_identity(host, device) if other != name]
    if twins:
        refusals.append(
            Reason(
                "identity-ambiguous",
                f"{device.path} and {', '.join(twins)} are both {device.identity.key}",
                "a second path to one drive, or copied identifiers: keep only one of them",
            )
        )
    if not refusals and host.is_busy(device.path):
        refusals.append(
            Reason(
                "busy",
                f"{device.path} is opened exclusively by a program",
                "lsof shows the program",
            )
        )
    return refusals


def _same_identity(host: Host, device: Device) -> list[str]:
    """Return the devices with this identity. Nodes of NVMe paths are not devices."""
    sysfs = host.sysfs
    key = device.identity.key
    partition = sysfs.parent(Path(device.path).name) is not None
    names = sysfs.names() if partition else sysfs.whole_devices()
    return [name for name in names if host.identity(name).key == key]


def _mounts(host: Host, family: Collection[str]) -> list[str]:
    """Return mount points on any device of the family, by number and by source.

    btrfs shows an anonymous device number, so the source is compared as well.
    """
    numbers = {host.sysfs.text(name, "dev") for name in family}
    points = []
    for line in host.proc_text("self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, source = left.split(), right.split()[1:2]
        node = _unescape(source[0]) if source else ""
        same = node.startswith("/") and Path(os.path.realpath(node)).name in family
        if len(fields) > 4 and (fields[2] in numbers or same):  # noqa: PLR2004
            points.append(_unescape(fields[4]))
    return sorted(points)


def _swap(host: Host, family: Collection[str]) -> bool:
    lines = host.proc_text("swaps").splitlines()[1:]
    return any(
        Path(os.path.realpath(_unescape(line.split()[0]))).name in family
        for line in lines
        if line.strip()
    )


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
