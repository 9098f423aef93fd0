"""dmsetup: linear slices of a block device, named ``zonelab-…`` so that ours are recognised."""

from __future__ import annotations

from pathlib import Path

from harness.errors import ToolFailed
from harness.store.spec import Bytes
from harness.tools import proc
from harness.tools.mount import retry

PREFIX = "zonelab-"
SECTOR = 512
_TIMEOUT_SECONDS = 60.0


def name_for(device: Path) -> str:
    """Return the name of the slice of ``device``: one per device, as only one run runs."""
    return PREFIX + device.name


def node(name: str) -> Path:
    """Return the path of a mapped device."""
    return Path("/dev/mapper", name)


def create_argv(name: str, device: Path, size: Bytes) -> list[str]:
    """Return the argument list that maps the first ``size`` bytes of ``device``."""
    table = f"0 {size // SECTOR} linear {device} 0"
    return ["dmsetup", "create", name, "--table", table]


def create(name: str, device: Path, size: Bytes) -> Path:
    """Map the first ``size`` bytes (a multiple of 512) of ``device``; return the new node.

    Raises:
        ToolFailed: the kernel refused, or no node appeared.
    """
    proc.run(create_argv(name, device, size), timeout=_TIMEOUT_SECONDS)
    if not node(name).exists():
        raise ToolFailed(f"dmsetup created {name} but {node(name)} did not appear")
    return node(name)


def names() -> list[str]:
    """Return the mapped devices of zonelab.

    Raises:
        ToolFailed: dmsetup failed or printed a line of another form.
    """
    return parse_names(proc.run(["dmsetup", "ls"], timeout=_TIMEOUT_SECONDS).stdout)


def parse_names(stdout: str) -> list[str]:
    """Read ``dmsetup ls`` (``name<TAB>(major:minor)`` or "No devices found"); ours only."""
    if stdout.strip() == "No devices found":
        return []
    found = []
    for line in stdout.splitlines():
        name, tab, numbers = line.partition("\t")
        if not tab or not numbers.startswith("("):
            raise ToolFailed(f"dmsetup ls printed {line!r}", code="output-malformed")
        if name.startswith(PREFIX):
            found.append(name)
    return found


def remove(name: str) -> None:
    """Remove a mapped device, again while something still holds it.

    Raises:
        ToolFailed: it is still held after 20 s, or dmsetup failed for another reason.
    """
    retry(["dmsetup", "remove", name], busy="busy", timeout=_TIMEOUT_SECONDS)
