"""A tenant's program in a transient systemd scope: a cgroup and a unit of its own, with limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import HostError
from harness.store.spec import Device, Limits

# sd_booted(3): there when systemd is the init system.
_BOOTED = Path("/run/systemd/system")


def booted() -> bool:
    """Whether systemd runs this machine."""
    return _BOOTED.is_dir()


def name(label: str, tenant: str) -> str:
    """Return the unit's name; ``label`` is the run's."""
    return f"zonelab-{label}-{tenant}.scope"


def wrap(
    argv: Sequence[str], unit: str, limits: Limits, devices: Sequence[Device], *, systemd: bool
) -> list[str]:
    """Return the command line that runs a program inside its unit; as it is without systemd.

    Raises:
        HostError: there are limits, and nobody to keep them.
    """
    if not systemd:
        if limits.any:
            raise HostError(
                "a tenant's limits cannot be set: systemd does not run this machine",
                hint="leave limits out of the mix, or use a host with systemd and cgroup v2",
                code="tenant-limits",
            )
        return list(argv)
    properties = [f"--property={one}" for one in _properties(limits, devices)]
    own = ["systemd-run", "--scope", "--quiet", "--collect", f"--unit={unit}", *properties]
    return [*own, "--", *argv]


def _properties(limits: Limits, devices: Sequence[Device]) -> list[str]:
    """Return systemd.resource-control(5)'s names for the limits."""
    found = ["CPUAccounting=yes", "MemoryAccounting=yes", "IOAccounting=yes"]
    if limits.cpu is not None:
        found.append(f"CPUQuota={limits.cpu:.0%}")
    if limits.memory is not None:
        # What does not fit shall be dropped or fail, not be written to some other drive.
        found += [f"MemoryMax={limits.memory}", "MemorySwapMax=0"]
    for device in devices:
        if limits.read is not None:
            found.append(f"IOReadBandwidthMax={device.path} {limits.read}")
        if limits.write is not None:
            found.append(f"IOWriteBandwidthMax={device.path} {limits.write}")
    return found
