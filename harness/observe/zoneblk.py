"""Reports of a ublk device's server, such as zoneblk (``harness/native/zoneblk``)."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.store.ledger import Completions
from harness.tools.virtual_clock import patience

FOLDER = Path("/run/zoneblk")  # one Unix socket for each device, with the device's name
SERVER = "zoneblk"  # first word of the model's name in records

_DEVICE = re.compile(r"^ublkb\d+$")
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_SECONDS = 2.0
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Served:
    """A device that serves a modelled drive."""

    uuid: str  # a new one at each start, because the drive's contents are new
    model: str  # name and digest of the parameters
    dilation: int  # a second of the model takes this many seconds of the kernel's clock
    overhead: int = 0  # ns of the kernel's clock, subtracted from each request

    @property
    def name(self) -> str:
        """The drive's model in records; parameters, overhead and dilation are part of it."""
        less = f" -{self.overhead}ns" if self.overhead else ""
        return f"{SERVER} {self.model}{less} x{self.dilation}"


def is_ublk(device: str) -> bool:
    """Whether a process serves the device."""
    return _DEVICE.match(device) is not None


def report(device: str, folder: Path = FOLDER) -> dict[str, Any] | None:
    """Return the report of a device's server, or None if no server answers for the device."""
    if not is_ublk(device):
        return None
    try:
        found = json.loads(_read(folder / device))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("device") == device else None


def served(device: str, folder: Path = FOLDER) -> Served | None:
    """Return the modelled drive behind a device, or None if zoneblk does not serve the device."""
    found = report(device, folder)
    return None if found is None else drive_of(found)


def drive_of(found: Mapping[str, Any]) -> Served | None:
    """Return the modelled drive that a report is about, or None if it is not of zoneblk."""
    if found.get("server") != SERVER:
        return None
    uuid, model, dilation = (found.get(name) for name in ("uuid", "model", "dilation"))
    overhead = found.get("overhead_ns", 0)
    if not (isinstance(uuid, str) and _UUID.match(uuid) and isinstance(model, str) and model):
        return None
    if not (isinstance(dilation, int) and dilation > 0):
        return None
    if not (isinstance(overhead, int) and overhead >= 0):
        return None
    return Served(uuid, model, dilation, overhead)


def accepted(report: Mapping[str, Any]) -> int:
    """Return the bytes that a drive accepted for writing since it was started."""
    commands = report["commands"]
    return int(commands["write"]["bytes"]) + int(commands["append"]["bytes"])


def read(report: Mapping[str, Any]) -> int:
    """Return the bytes that were read from a drive since it was started."""
    return int(report["commands"]["read"]["bytes"])


def media(report: Mapping[str, Any]) -> int:
    """Return the bytes that a drive has written to its media, or will write from its buffer.

    These are bytes from the host, from garbage collection, and fill bytes of zones and pages.
    """
    counts = report["media"]
    return sum(int(counts[name]) for name in ("host_bytes", "collected_bytes", "pad_bytes"))


def completions(report: Mapping[str, Any]) -> Completions:
    """Return how many requests a drive completed since it was started, and how late they were."""
    late = report["lateness"]
    count = int(late["count"])
    return Completions(
        count,
        round(count * (late["on_time_share"] or 0.0)),
        int(late["late_sum_ns"]),
        int(late["latency_sum_ns"]),
    )


def _read(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_SECONDS * patience())
        client.connect(str(path))
        with client.makefile("rb") as file:
            return file.read(_MOST_BYTES)
