"""dmsetup: create and remove mapped devices; their UUIDs show that zonelab made them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from harness.errors import ToolFailed
from harness.quantities import SECTOR
from harness.store.spec import Bytes
from harness.tools import proc
from harness.tools.mount import retry

PREFIX = "zonelab-"
# dmzadm names a target after its label, the run's label, and sets a UUID with this prefix.
_DMZADM = "dmz-"
_TIMEOUT_SECONDS = 60.0


def name_for(device: Path) -> str:
    """Return the name of the slice of ``device``; a device has at most one slice."""
    return PREFIX + device.name


def is_ours(name: str, uuid: str, labels: Collection[str]) -> bool:
    """Whether zonelab made a mapped device; ``labels`` are those of its own runs.

    A name proves nothing, because any program can use one with our prefix.
    """
    return uuid.startswith(PREFIX) or (uuid.startswith(_DMZADM) and name in labels)


def node(name: str) -> Path:
    """Return the path of a mapped device."""
    return Path("/dev/mapper", name)


def map_argv(name: str, size: Bytes, target: str, arguments: str) -> list[str]:
    """Return the argument list that maps ``size`` bytes to a target."""
    if not name.startswith(PREFIX):
        raise ValueError(f"{name} is also the UUID, which begins with {PREFIX}")
    table = f"0 {size // SECTOR} {target} {arguments}"
    return ["dmsetup", "create", name, "--uuid", name, "--table", table]


def map_to(name: str, size: Bytes, target: str, arguments: str) -> Path:
    """Map ``size`` bytes, a multiple of 512, to a target; return the new device node.

    Raises:
        ToolFailed: the kernel refused, or no node appeared.
    """
    proc.run(map_argv(name, size, target, arguments), timeout=_TIMEOUT_SECONDS)
    if not node(name).exists():
        raise ToolFailed(f"dmsetup created {name} but {node(name)} did not appear")
    return node(name)


def mapped_to(target: str) -> list[str]:
    """Return the names of all devices mapped to a target, zonelab's or not.

    Raises:
        ToolFailed: dmsetup failed or printed unexpected output.
    """
    argv = ["dmsetup", "ls", "--target", target]
    return parse_ls(proc.run(argv, timeout=_TIMEOUT_SECONDS).stdout)


def parse_ls(stdout: str) -> list[str]:
    """Parse ``dmsetup ls`` (``name<TAB>(major:minor)`` or "No devices found")."""
    if stdout.strip() == "No devices found":
        return []
    found = []
    for line in stdout.splitlines():
        name, tab, numbers = line.partition("\t")
        if not tab or not numbers.startswith("("):
            raise ToolFailed(f"dmsetup ls printed {line!r}", code="output-malformed")
        found.append(name)
    return found


def targets() -> dict[str, str]:
    """Return the targets that the running kernel has loaded: name → version.

    Raises:
        ToolFailed: dmsetup failed (not root, no device mapper) or printed unexpected output.
    """
    return parse_targets(proc.run(["dmsetup", "targets"], timeout=_TIMEOUT_SECONDS).stdout)


def parse_targets(stdout: str) -> dict[str, str]:
    """Parse ``dmsetup targets`` (``linear           v1.4.0``)."""
    versions = {}
    for line in stdout.splitlines():
        match = re.fullmatch(r"(\S+)\s+v(\d+\.\d+\.\d+)\s*", line)
        if match is None:
            raise ToolFailed(f"dmsetup targets printed {line!r}", code="output-malformed")
        versions[match[1]] = match[2]
    return versions


def status(name: str) -> str:
    """Return the status line of a target; it may be empty."""
    return parse_status(proc.run(["dmsetup", "status", name], timeout=_TIMEOUT_SECONDS).stdout)


def parse_status(stdout: str) -> str:
    """Return the part after the target in ``dmsetup status`` (``0 10223616 zoned 96 zones …``)."""
    fields = stdout.split()
    if len(fields) < 3 or not (fields[0].isdigit() and fields[1].isdigit()):  # noqa: PLR2004
        raise ToolFailed(f"dmsetup status printed {stdout.strip()!r}", code="output-malformed")
    return " ".join(fields[3:])


def remove(name: str) -> None:
    """Remove a mapped device; retry while it is busy.

    Raises:
        ToolFailed: it is still busy after 20 s, or dmsetup failed for another reason.
    """
    retry(["dmsetup", "remove", name], timeout=_TIMEOUT_SECONDS)
