"""Keep a campaign on the processors beside the drive: no memory of a run is behind another node.

The runner binds itself. What it starts inherits that, and memory is taken from the node of whoever
touches it first; nothing has to be put back, it ends with the process.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.run.host import Host
from harness.store.spec import Device


def bind(host: Host, device: Device) -> str:
    """Bind this process to the processors of the drive's node; return what was done, in a line."""
    node = host.sysfs.text(Path(device.path).name, "device/device/numa_node")
    nodes = host.sysfs.root / "devices" / "system" / "node"
    if not node.isdigit():  # also -1: the firmware does not tell
        return f"not bound to processors: the node of {device.path} is unknown"
    if len(list(nodes.glob("node[0-9]*"))) < 2:  # noqa: PLR2004 - a choice takes two
        return "not bound to processors: this machine has one node"
    allowed = os.sched_getaffinity(0)
    near = processors((nodes / f"node{node}" / "cpulist").read_text()) & allowed
    if not near:
        return f"not bound to processors: node {node} of {device.path} has none that are allowed"
    os.sched_setaffinity(0, near)
    return f"bound to {len(near)} processors of node {node}, that of {device.path}"


def processors(text: str) -> set[int]:
    """Read the kernel's list format: ``0-3,8,10-11``."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
