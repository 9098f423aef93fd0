"""Transient systemd scopes: a cgroup of its own for a tenant's program or a drive's server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import HostError
from harness.store.spec import Device, Limits

# sd_booted(3): exists if systemd is the init system.
_BOOTED = Path("/run/systemd/system")


def booted() -> bool:
    """Whether systemd is the init system."""
    return _BOOTED.is_dir()


def name(label: str, tenant: str) -> str:
    """Return the name of the unit; ``label`` is the label of the run."""
    return f"zonelab-{label}-{tenant}.scope"


def wrap(
    argv: Sequence[str], unit: str, limits: Limits, devices: Sequence[Device], *, systemd: bool
) -> list[str]:
    """Return the command line that runs a program in its scope; unchanged without systemd.

    Raises:
        HostError: there are limits, but no systemd to enforce them.
    """
    if not systemd:
        if limits.any:
            raise HostError(
                "the limits of a tenant cannot be set: systemd is not the init system here",
                hint="remove limits from the mix, or use a host with systemd and cgroup v2",
                code="tenant-limits",
            )
        return list(argv)
    properties = [f"--property={text}" for text in _properties(limits, devices)]
    return [*start(unit), *properties, "--", *argv]


def start(unit: str) -> list[str]:
    """Return the command that starts a program in its scope, without ``--`` and the program."""
    return ["systemd-run", "--scope", "--quiet", "--collect", f"--unit={unit}"]


def _properties(limits: Limits, devices: Sequence[Device]) -> list[str]:
    """Return the limits as properties of systemd.resource-control(5)."""
    properties = ["CPUAccounting=yes", "MemoryAccounting=yes", "IOAccounting=yes"]
    if limits.cpu is not None:
        properties.append(f"CPUQuota={limits.cpu:.0%}")
    if limits.memory is not None:
        # Beyond the limit, pages must be dropped or the program fail; no swap to another drive.
        properties += [f"MemoryMax={limits.memory}", "MemorySwapMax=0"]
    for device in devices:
        if limits.read is not None:
            properties.append(f"IOReadBandwidthMax={device.path} {limits.read}")
        if limits.write is not None:
            properties.append(f"IOWriteBandwidthMax={device.path} {limits.write}")
    return properties
