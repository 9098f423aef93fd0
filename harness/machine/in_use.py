"""Uses of a device: mounts, swap, partitions, holders, a second path, programs, other hosts.

A program that only reads the device, its disk or a partition does not count as a user. Nor does a
program that only reads the drive's controller, such as smartd. Every program that has the
namespace's character node open counts: root can write through it, even if it was opened to read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from harness.machine.device_facts import suspended
from harness.machine.host import Host
from harness.observe import openers
from harness.observe.sysfs import Sysfs
from harness.store.spec import Device, Reason
from harness.tools.kernel import parse_mounts, unescape

# A short-lived reader, such as smartctl, closes the device within these checks.
_CHECKS = 5
_PAUSE_SECONDS = 1.0


def reasons(host: Host, device: Device, *, held: bool = False) -> list[Reason]:
    """Return every use of ``device`` by others; empty if it is not in use.

    ``held``: this process has the device open exclusively, so nobody else can have it.
    """
    name = device.name
    asleep = suspended(host.sysfs, name)
    refusals = [asleep] if asleep else [*_listed_uses(host, device)]
    behind = host.sysfs.exported(name)
    if behind and not refusals:
        drive = host.device(str(host.sysfs.dev / behind))
        refusals = [
            *_listed_uses(host, drive, exported_as=name),
            *_open_uses(host, drive, held=False),
        ]
    if refusals:
        return refusals
    for look in range(_CHECKS):
        if look:
            host.pause(_PAUSE_SECONDS)
        refusals = [*_open_uses(host, device, held=held)]
        if not refusals:
            break
    return refusals


def _listed_uses(host: Host, device: Device, exported_as: str = "") -> Iterator[Reason]:
    """Yield the uses that the kernel's files list.

    ``exported_as``: a namespace of this machine that the NVMe target provides from the device.
    """
    name, sysfs = device.name, host.sysfs
    # A user of the whole disk uses each of its partitions.
    parent = sysfs.parent(name)
    disk_users = sysfs.holders(parent) if parent else []
    family = [*sysfs.family(name), *([parent] if parent else [])]
    family += [member for user in disk_users for member in sysfs.family(user)]
    mounts = _mounts(host, family)
    if "/" in mounts:
        yield Reason("root", f"{device.path} holds the running system")
        return
    if mounts:
        yield Reason("mounted", f"{device.path} is mounted on {mounts[0]}", f"umount {mounts[0]}")
        return
    if _swap(host, family):
        yield Reason("swap", f"{device.path} is used as swap", f"swapoff {device.path}")
        return
    if sysfs.partitions(name):
        yield Reason(
            "partitioned",
            f"{device.path} has partitions ({', '.join(sysfs.partitions(name))})",
            "name another device, or remove the partitions yourself",
        )
    holders = sysfs.holders(name) + disk_users
    if holders:
        names = ", ".join(sysfs.text(holder, "dm/name") or holder for holder in holders)
        yield Reason("held", f"{device.path} is held by {names}", "dmsetup ls --tree shows it")
    yield from _properties(sysfs, device)
    twins = set(_same_identity(host, device)) - {name, exported_as, sysfs.exported(name)}
    if twins:
        yield Reason(
            "identity-ambiguous",
            f"{device.path} and {', '.join(sorted(twins))} are both {device.identity.key}",
            "a second path to one drive, or copied identifiers: keep only one of them",
        )
    yield from _reserved(host, device)
    exported = [f"loop device {name}" for name in _loops(host, device)]
    targets = _targets(host, device)
    exported += [f"the NVMe target ({path})" for path in targets[1 if exported_as else 0 :]]
    if exported:
        yield Reason(
            "exported",
            f"{device.path} is used by {', '.join(exported)}",
            "losetup --detach, or nvmetcli clear",
        )


def _properties(sysfs: Sysfs, device: Device) -> Iterator[Reason]:
    """Yield the properties with which no device can be overwritten safely."""
    name = device.name
    if sysfs.number(name, "ro"):
        yield Reason("read-only", f"{device.path} is read-only")
    if uncounted := sysfs.uncounted(name):
        yield Reason(
            "writes-uncounted",
            f"the kernel does not count writes to {', '.join(uncounted)}, so those of others"
            " cannot be noticed",
            f"echo 1 > {sysfs.block(uncounted[0])}/queue/iostats",
        )
    if not device.identity.stable:
        yield Reason(
            "identity-unstable",
            f"{device.path} has only the kernel's name, which another drive can get later",
            "use a drive with a WWID or serial number; a virtual disk can be given one",
        )


def _reserved(host: Host, device: Device) -> Iterator[Reason]:
    """Yield why another host may be using the drive. zonelab itself never reserves a drive."""
    try:
        found = host.reservation(device.name)
    except OSError as error:
        yield Reason(
            "reservation-unknown",
            f"whether another host reserved {device.path} is unknown: {error.strerror}",
            "nvme resv-report, or sg_persist --in --read-keys, shows what the drive answers",
        )
        return
    if found is not None:
        yield Reason(
            "reserved",
            f"{device.path} is shared: persistent reservation of type {found.type},"
            f" {found.registrants} registered hosts",
            "nvme resv-report, or sg_persist --in --read-full-status, shows the hosts",
        )


def _open_uses(host: Host, device: Device, *, held: bool) -> Iterator[Reason]:
    """Yield why a program may write to the device now."""
    if not held and host.is_busy(device.path):
        yield Reason(
            "busy",
            f"a program has {device.path} open exclusively, or it is mounted in another namespace",
            "end it: lsof names the program, lsns -t mnt lists other mount namespaces",
        )
        return
    if not openers.sees_all(host.proc):
        yield Reason(
            "openers-unknown",
            f"the openers of {device.path} are unknown: /proc does not show all processes",
            "run zonelab outside of containers, or with the PID namespace of the machine",
        )
        return
    name, sysfs = device.name, host.sysfs
    watched = dict.fromkeys(nodes(sysfs.block_nodes(name), block=True), False)
    watched |= dict.fromkeys(nodes(sysfs.controller_nodes(name), block=False), False)
    watched |= dict.fromkeys(nodes(sysfs.namespace_nodes(name), block=False), True)
    found = openers.find(host.proc, watched, host.node)
    if found.seen:
        by = ", ".join(f"{opener.command} (pid {opener.pid})" for opener in found.seen)
        yield Reason(
            "opened",
            f"{found.seen[0].path} is open for writing by {by}",
            f"end the program: it can write to {device.path}",
        )
    elif found.unreadable:
        yield Reason(
            "openers-unknown",
            f"the openers of {device.path} are unknown: {found.unreadable} processes cannot be"
            " examined",
            "run as root, with all capabilities",
        )


def nodes(numbers: Collection[str], *, block: bool) -> list[openers.Node]:
    """Return the device nodes with these numbers, each ``major:minor``."""
    pairs = [number.split(":") for number in numbers]
    return [openers.Node(block, os.makedev(int(major), int(minor))) for major, minor in pairs]


def _loops(host: Host, device: Device) -> list[str]:
    """Return the loop devices on the device; they do not open it exclusively."""
    own = nodes(host.sysfs.block_nodes(device.name), block=True)
    return [
        name
        for name in host.sysfs.names()
        if host.sysfs.text(name, "loop/backing_file") and host.loop_source(name) in own
    ]


def _targets(host: Host, device: Device) -> list[str]:
    """Return the paths under which the NVMe target exports the device, also without an open."""
    own = nodes(host.sysfs.block_nodes(device.name), block=True)
    return [path for path in host.sysfs.nvme_targets() if host.node(Path(path)) in own]


def _same_identity(host: Host, device: Device) -> list[str]:
    """Return the devices with this identity. Nodes of NVMe paths are not devices."""
    sysfs = host.sysfs
    key = device.identity.key
    partition = sysfs.parent(device.name) is not None
    names = sysfs.names() if partition else sysfs.whole_devices()
    return [name for name in names if host.identity(name).key == key]


def _mounts(host: Host, family: Collection[str]) -> list[str]:
    """Return mount points on any device of the family, by number and by source.

    btrfs shows an anonymous device number, so the source is compared as well.
    """
    numbers = {host.sysfs.text(name, "dev") for name in family}
    return sorted(
        str(mount.target)
        for mount in parse_mounts(host.proc_text("self/mountinfo"))
        if mount.device in numbers
        or (mount.source.startswith("/") and _is_of(mount.source, family))
    )


def _swap(host: Host, family: Collection[str]) -> bool:
    lines = host.proc_text("swaps").splitlines()[1:]
    return any(_is_of(unescape(line.split()[0]), family) for line in lines if line.strip())


def _is_of(path: str, family: Collection[str]) -> bool:
    """Whether a path, also one through symbolic links, is of a device of the family."""
    return Path(os.path.realpath(path)).name in family
