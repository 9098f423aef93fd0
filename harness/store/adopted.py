"""A campaign continues on a host only with the study and the machine of its first runs there."""

from __future__ import annotations

from harness.errors import ConfigError
from harness.store.spec import HostFacts, Plan

# Not the memory: it differs by a few pages from boot to boot.
_LASTING = ("kernel", "os", "cpus", "rocksdb")


def require_same(known: Plan, plan: Plan, host: str) -> None:
    """Refuse to mix runs; ``known`` is the plan of the runs that a host has.

    Raises:
        ConfigError: another study, kernel, OS, RocksDB or number of CPUs; or another device, except
            on rigs.
    """
    hint = (
        "start a new campaign: -e campaign=NAME or CAMPAIGN=NAME; or delete the old one in the "
        f"state folder of {host}: campaigns/{plan.campaign}"
    )
    if known.study_digest != plan.study_digest:
        raise ConfigError(
            f"campaign {plan.campaign} was started with another study or device on {host}",
            hint=hint,
            code="other-study",
        )
    before, now = _facts(known, host), _facts(plan, host)
    for name in _LASTING if before and now else ():
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            raise ConfigError(
                f"campaign {plan.campaign} was started on {host} with {name} {old}, now {new}",
                hint=hint,
                code="changed-host",
            )


def _facts(plan: Plan, host: str) -> HostFacts | None:
    return next((one.inspection.host for one in plan.hosts if one.host == host), None)
