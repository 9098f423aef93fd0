"""Bytes that devices accepted, by zoneblk's or QEMU's counters on a rig, or by a drive's SMART.

All count independently of the kernel, so that F (submitted by the kernel) can be checked.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.errors import ToolFailed
from harness.observe import nvme_ioctl, zoneblk
from harness.observe.sysfs import Sysfs
from harness.store.ledger import MODELLED_MEDIA, Completions, Witness
from harness.store.spec import DeviceKind
from harness.tools.virtual_clock import patience

# Rigs pass the address on the kernel's command line (harness/rig/qemu.py).
_ADDRESS = re.compile(r"(?:^|\s)zonelab\.witness=(?P<host>[\d.]+):(?P<port>\d{1,5})(?:\s|$)")
_TIMEOUT_SECONDS = 10.0  # QEMU starts a program for it, on a host that may be busy
_MOST_BYTES = 1 << 20
_HINT = "boot the rig with this release: zonelab rig down; zonelab rig up"


def find(command_line: str, sysfs: Sysfs, names: Sequence[str]) -> Witness | None:
    """Return the bytes that these devices accepted so far, or None if nothing counts them.

    Raises:
        ToolFailed: the rig's witness does not answer, or not as expected.
    """
    reports = _reports(sysfs, names)
    if reports:
        counts = [_by_disk(reports, count) for count in (zoneblk.accepted, zoneblk.read)]
        return Witness.of_each("zoneblk write and append bytes", *counts)
    address = _ADDRESS.search(command_line)
    if address is not None:
        return of_rig(_ask(address["host"], int(address["port"])), sysfs, names)
    return of_drives(sysfs, names)


def of_rig(answer: Mapping[str, Any], sysfs: Sysfs, names: Sequence[str]) -> Witness:
    """Select devices by serial and namespace from an answer of ``harness/rig/witness_server.py``.

    Raises:
        ToolFailed: a device is missing.
    """
    accepted, read = {}, {}
    for name in names:
        identity = sysfs.identity(name)
        try:
            found = next(
                drive
                for drive in answer["drives"]
                if (drive["serial"], drive["nsid"]) == (identity.serial, identity.nsid)
            )
            accepted[name], read[name] = int(found["wr_bytes"]), int(found["rd_bytes"])
        except (StopIteration, KeyError, TypeError, ValueError):
            raise _failure(
                f"the rig's witness does not list {name} ({identity.serial}:{identity.nsid})"
            ) from None
    return Witness.of_each("QEMU query-blockstats wr_bytes", accepted, read)


def of_drives(sysfs: Sysfs, names: Sequence[str]) -> Witness | None:
    """Ask SMART, per namespace where the drive supports it, else per drive with all namespaces.

    None unless every device has a count, because counts of some devices prove nothing.
    """

    def written(disk: str) -> tuple[int | None, bool]:
        alone = nvme_ioctl.smart_by_namespace(disk, sysfs.dev)
        nsid = sysfs.identity(disk).nsid if alone else None
        return nvme_ioctl.data_written(disk, nsid, sysfs.dev), alone

    return _of_disks(sysfs, names, "SMART data units written", nvme_ioctl.DATA_UNIT, written)


def media(sysfs: Sysfs, names: Sequence[str]) -> Witness | None:
    """Return what the drives wrote to their media, or None unless every drive reports it.

    A modelled drive reports what its model wrote. An emulated drive has no media; its counter is
    ignored.
    """
    reports = _reports(sysfs, names)
    if reports:
        models = " + ".join(sorted({report["model"] for report in reports.values()}))
        return Witness.of_each(f"{MODELLED_MEDIA} {models}", _by_disk(reports, zoneblk.media))

    def written(disk: str) -> tuple[int | None, bool]:
        count = nvme_ioctl.media_written(disk, sysfs.dev)
        return count if sysfs.kind(disk) is DeviceKind.HARDWARE else None, False

    return _of_disks(sysfs, names, "OCP physical media units written", 1, written)


def completions(sysfs: Sysfs, names: Sequence[str]) -> dict[str, Completions]:
    """Return what each modelled drive completed, and how much of it on time; {} for others."""
    return {name: zoneblk.completions(one) for name, one in _reports(sysfs, names).items()}


def _reports(sysfs: Sysfs, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the report of each disk's server by kernel name; {} unless all are modelled drives."""
    disks = dict.fromkeys(sysfs.disk(name) for name in names)
    found = {disk: sysfs.report(disk) for disk in disks}
    reports = {
        disk: report
        for disk, report in found.items()
        if report is not None and zoneblk.drive_of(report) is not None
    }
    return reports if len(reports) == len(disks) else {}


def _by_disk(
    reports: Mapping[str, Mapping[str, Any]], count: Callable[[Mapping[str, Any]], int]
) -> dict[str, int]:
    return {disk: count(report) for disk, report in reports.items()}


def _of_disks(
    sysfs: Sysfs,
    names: Sequence[str],
    source: str,
    quantum: int,
    written: Callable[[str], tuple[int | None, bool]],
) -> Witness | None:
    """Ask each disk once; ``written`` returns its bytes, and whether they are only its own."""
    accepted: dict[str, int] = {}
    covers: dict[str, tuple[str, ...]] = {}
    for name in names:
        disk = sysfs.disk(name)  # a drive does not know partitions
        if any(disk in group for group in covers.values()):
            continue
        count, alone = written(disk)
        if count is None:
            return None
        group = tuple(sorted([disk] if alone else [disk, *sysfs.siblings(disk)]))
        accepted["+".join(group)] = count
        covers["+".join(group)] = group
    return Witness(source, quantum, accepted, covers) if names else None


def _ask(host: str, port: int) -> dict[str, Any]:
    """Return the witness's answer: one line of JSON."""
    timeout = _TIMEOUT_SECONDS * patience()
    try:
        with (
            socket.create_connection((host, port), timeout=timeout) as connection,
            connection.makefile("rb") as file,
        ):
            answer = json.loads(file.readline(_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise _failure(f"the rig's witness at {host}:{port} does not answer: {error}") from None
    if not isinstance(answer, dict):
        raise _failure(f"the rig's witness at {host}:{port} answered {str(answer)[:80]}")
    return answer


def _failure(text: str) -> ToolFailed:
    return ToolFailed(text, hint=_HINT, code="witness")
