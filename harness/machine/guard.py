"""The device guard: checks every reason to refuse a device. It never writes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from harness.errors import GuardRefused
from harness.machine.contents import Contents
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.store.spec import Device, Reason


class Guard:
    """Decides whether a device may be overwritten.

    Args:
        host: the machine.
        journal: devices that zonelab wrote to.
        erase: identities that the user named with ``-e erase=``; each permits one device.
    """

    def __init__(self, host: Host, journal: Journal, erase: Collection[str] = ()) -> None:
        self._host = host
        self._contents = Contents(host, journal)
        self.erase = frozenset(erase)

    def examine(
        self, device: Device, partner: Device | None = None, *, named: bool = True
    ) -> list[Reason]:
        """Return every reason against using ``device``; empty if it can be overwritten.

        Args:
            device: a zoned device, or a conventional companion.
            partner: the other device of the same run; some levels write their label only there.
            named: the user named it. Otherwise it must be blank or written by zonelab.
        """
        name = Path(device.path).name
        reasons = self._in_use(device, name)
        if reasons:
            return reasons  # the contents of a device in use always belong to its user
        key = device.identity.key
        if key in self.erase or self._contents.are_ours(device, partner):
            return []
        return self._contents.refusals(device, named=named)

    def require(self, device: Device, partner: Device | None = None, *, named: bool = True) -> None:
        """Raise GuardRefused with the first reason against ``device``."""
        reasons = self.examine(device, partner, named=named)
        if reasons:
            first = reasons[0]
            raise GuardRefused(first.message, hint=first.hint, code=first.code)

    def proves(self, label: str, devices: Collection[Device]) -> bool:
        """Whether the devices of a run are still as that run left them.

        That means: one carries ``label``, none carries another signature, none is in use.
        """
        if any(self._in_use(device, Path(device.path).name) for device in devices):
            return False
        return {s.label for device in devices for s in self._contents.signatures(device)} == {label}

    def check_identity(self, device: Device) -> None:
        """Check again, right before a destructive step, that the node is the planned device.

        Raises:
            GuardRefused: the device is gone, or another device has its name.
        """
        name = Path(device.path).name
        found = self._host.identity(name).key if self._host.sysfs.block(name).is_dir() else "gone"
        if found != device.identity.key:
            raise GuardRefused(
                f"{device.path} was {device.identity.key}, now it is {found}; nothing was written",
                hint="plan again for the device that is there now",
                code="identity-changed",
            )

    def fingerprint(self, device: Device) -> str:
        """Return a digest that changes with a write."""
        return self._contents.fingerprint(device)

    # --- in use -----------------------------------------------------------------------------

    def _in_use(self, device: Device, name: str) -> list[Reason]:
        sysfs = self._host.sysfs
        # A user of the whole disk uses each of its partitions.
        parent = sysfs.parent(name)
        disk_users = sysfs.holders(parent) if parent else []
        family = [*sysfs.family(name), *([parent] if parent else [])]
        family += [one for user in disk_users for one in sysfs.family(user)]
        mounts = self._mounts(family)
        if "/" in mounts:
            return [Reason("root", f"{device.path} carries the running system")]
        if mounts:
            return [
                Reason("mounted", f"{device.path} is mounted on {mounts[0]}", f"umount {mounts[0]}")
            ]
        if self._swap(family):
            return [Reason("swap", f"{device.path} is used as swap", f"swapoff {device.path}")]
        reasons = []
        if sysfs.partitions(name):
            reasons.append(
                Reason(
                    "partitioned",
                    f"{device.path} has partitions ({', '.join(sysfs.partitions(name))})",
                    "name another device, or remove the partitions yourself",
                )
            )
        holders = sysfs.holders(name) + disk_users
        if holders:
            names = ", ".join(sysfs.text(h, "dm/name") or h for h in holders)
            reasons.append(Reason("held", f"{device.path} is held by {names}", "dmsetup ls --tree"))
        if sysfs.number(name, "ro"):
            reasons.append(Reason("read-only", f"{device.path} is read-only"))
        twins = [other for other in self._same_identity(device) if other != name]
        if twins:
            reasons.append(
                Reason(
                    "identity-ambiguous",
                    f"{device.path} and {', '.join(twins)} are both {device.identity.key}",
                    "a second path to one drive, or copied identifiers: keep only one of them",
                )
            )
        if not reasons and self._host.is_busy(device.path):
            reasons.append(
                Reason(
                    "busy",
                    f"{device.path} is opened exclusively by a program",
                    "lsof shows the program",
                )
            )
        return reasons

    def _same_identity(self, device: Device) -> list[str]:
        """Return the devices with this identity. Nodes of NVMe paths are not devices."""
        sysfs = self._host.sysfs
        key = device.identity.key
        partition = sysfs.parent(Path(device.path).name) is not None
        names = sysfs.names() if partition else sysfs.whole_devices()
        return [name for name in names if self._host.identity(name).key == key]

    def _mounts(self, family: Collection[str]) -> list[str]:
        """Return mount points on any device of the family, by number and by source.

        btrfs shows an anonymous device number, so the source is compared as well.
        """
        numbers = {self._host.sysfs.text(name, "dev") for name in family}
        found = []
        for line in self._host.proc_text("self/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            fields, source = left.split(), right.split()[1:2]
            node = _unescape(source[0]) if source else ""
            same = node.startswith("/") and Path(os.path.realpath(node)).name in family
            if len(fields) > 4 and (fields[2] in numbers or same):  # noqa: PLR2004
                found.append(_unescape(fields[4]))
        return sorted(found)

    def _swap(self, family: Collection[str]) -> bool:
        lines = self._host.proc_text("swaps").splitlines()[1:]
        return any(
            Path(os.path.realpath(_unescape(line.split()[0]))).name in family
            for line in lines
            if line.strip()
        )


def companion(
    host: Host, guard: Guard, device: Device, named: str | None
) -> tuple[Device | None, Reason | None]:
    """Choose the conventional device: the named one, else a blank sibling namespace.

    Returns:
        The device, or the reason why there is none, with a hint what to type.
    """
    hint = "-e conventional_device=<device> names one; its contents will be destroyed"
    if named is not None:
        found = host.device(named)
        if found.zoned:
            return None, Reason("conventional-zoned", f"{found.path} is zoned", hint)
        reasons = guard.examine(found, device)
        return (None, reasons[0]) if reasons else (found, None)
    refused: Reason | None = None
    for name in host.sysfs.siblings(Path(device.path).name):
        if host.sysfs.text(name, "queue/zoned") not in ("none", ""):
            continue
        candidate = host.device(str(host.sysfs.dev / name))
        reasons = guard.examine(candidate, device, named=False)
        if not reasons:
            return candidate, None
        refused = Reason(reasons[0].code, reasons[0].message, reasons[0].hint or hint)
    return None, refused or Reason(
        "no-conventional", "no conventional device was named and none is beside the zoned one", hint
    )


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
