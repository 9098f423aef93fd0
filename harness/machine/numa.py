"""Binds a campaign to the processors of the drive's NUMA node.

The runner binds itself, and its child processes inherit that. Memory comes from the node that
touches it first. The binding ends with the process, so there is nothing to restore.
"""

from __future__ import annotations

import os

from harness.machine.host import Host
from harness.observe import perf
from harness.store.spec import Device


def bind(host: Host, device: Device) -> str:
    """Bind this process to the processors of the drive's node; return a line about it."""
    node = host.sysfs.text(device.name, "device/device/numa_node")
    nodes = host.sysfs.root / "devices" / "system" / "node"
    if not node.isdigit():  # also -1: the firmware does not report it
        return f"not bound to processors: the NUMA node of {device.path} is unknown"
    if len(list(nodes.glob("node[0-9]*"))) < 2:  # noqa: PLR2004 - one node leaves no choice
        return "not bound to processors: this machine has only one NUMA node"
    allowed = os.sched_getaffinity(0)
    near = set(perf.processors((nodes / f"node{node}" / "cpulist").read_text())) & allowed
    if not near:
        return f"not bound to processors: node {node} of {device.path} has no allowed processor"
    os.sched_setaffinity(0, near)
    return f"bound to {len(near)} processors of node {node}, the node of {device.path}"
