"""What the devices say they accepted: QEMU's own counters on a rig, SMART on a drive.

Both count behind the kernel, so that F (what the kernel submitted) has something to agree with.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import ToolFailed
from harness.observe import nvme
from harness.observe.sysfs import Sysfs
from harness.store.ledger import Witness
from harness.store.spec import DeviceKind

# Rigs name it on the kernel's command line (harness/rig/qemu.py).
_ADDRESS = re.compile(r"(?:^|\s)zonelab\.witness=(?P<host>[\d.]+):(?P<port>\d{1,5})(?:\s|$)")
_TIMEOUT_SECONDS = 10.0  # QEMU starts a program for it, on a host that may be busy
_MOST_BYTES = 1 << 20
_HINT = "boot the rig with this release: zonelab rig down, zonelab rig up"


def find(command_line: str, sysfs: Sysfs, names: Sequence[str]) -> Witness | None:
    """Return what was accepted so far on behalf of these devices; None: nobody tells.

    Args:
        command_line: of the kernel.
        sysfs: the machine's.
        names: kernel names of the devices.

    Raises:
        ToolFailed: a rig's witness is named and does not answer as it should.
    """
    address = _ADDRESS.search(command_line)
    if address is not None:
        return of_rig(_ask(address["host"], int(address["port"])), sysfs, names)
    return of_drives(sysfs, names)


def of_rig(answer: Mapping[str, Any], sysfs: Sysfs, names: Sequence[str]) -> Witness:
    """Pick the devices from what ``harness/rig/witness.py`` answered, by serial and number.

    Raises:
        ToolFailed: one is missing.
    """
    accepted = {}
    for name in names:
        identity = sysfs.identity(name)
        try:
            accepted[name] = next(
                int(drive["wr_bytes"])
                for drive in answer["drives"]
                if (drive["serial"], drive["nsid"]) == (identity.serial, identity.nsid)
            )
        except (StopIteration, KeyError, TypeError, ValueError):
            raise ToolFailed(
                f"the rig's witness does not know {name} ({identity.serial}:{identity.nsid})",
                hint=_HINT,
                code="witness",
            ) from None
    return Witness("QEMU query-blockstats wr_bytes", 0, accepted, {name: (name,) for name in names})


def of_drives(sysfs: Sysfs, names: Sequence[str]) -> Witness | None:
    """Ask SMART, per namespace where the drive can, else per drive with all its namespaces.

    None unless every device is covered: half a witness proves nothing.
    """
    accepted: dict[str, int] = {}
    covers: dict[str, tuple[str, ...]] = {}
    for name in names:
        whole = sysfs.parent(name) or name  # drives know nothing of partitions
        if any(whole in group for group in covers.values()):
            continue
        alone = nvme.smart_by_namespace(whole, sysfs.dev)
        nsid = sysfs.identity(whole).nsid if alone else None
        written = nvme.data_written(whole, nsid, sysfs.dev)
        if written is None:
            return None
        group = tuple(sorted([whole] if alone else [whole, *sysfs.siblings(whole)]))
        accepted["+".join(group)] = written
        covers["+".join(group)] = group
    return Witness("SMART data units written", nvme.DATA_UNIT, accepted, covers) if names else None


def media(sysfs: Sysfs, names: Sequence[str]) -> Witness | None:
    """Return what drives wrote to their media, None unless every device's drive tells.

    An emulated drive has no media: what it may say of it is left out.
    """
    written: dict[str, int] = {}
    covers: dict[str, tuple[str, ...]] = {}
    for name in names:
        whole = sysfs.parent(name) or name
        if any(whole in group for group in covers.values()):
            continue
        count = nvme.media_written(whole, sysfs.dev)
        if count is None or sysfs.kind(whole) is not DeviceKind.HARDWARE:
            return None
        group = tuple(sorted([whole, *sysfs.siblings(whole)]))
        written["+".join(group)] = count
        covers["+".join(group)] = group
    return Witness("OCP physical media units written", 1, written, covers) if names else None


def _ask(host: str, port: int) -> dict[str, Any]:
    """Read one line of JSON, which is all that the witness ever says."""
    text = b""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection:
            while not text.endswith(b"\n") and len(text) < _MOST_BYTES:
                piece = connection.recv(65536)
                if not piece:
                    break
                text += piece
        answer = json.loads(text)
    except (OSError, ValueError) as error:
        raise ToolFailed(
            f"the rig's witness at {host}:{port} does not answer: {error}",
            hint=_HINT,
            code="witness",
        ) from None
    if not isinstance(answer, dict):
        raise ToolFailed(
            f"the rig's witness at {host}:{port} answered {str(answer)[:80]}",
            hint=_HINT,
            code="witness",
        )
    return answer
