"""Facts of hosts: they must not change within a campaign, and are compared between its hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.errors import ConfigError
from harness.store import checksums
from harness.store.spec import Device, Inspection, Scalar

# MemTotal differs by a few pages from boot to boot; a changed memory limit differs by more.
_MEMORY_STEP = 256 * 2**20
# Identities differ between any two hosts. All other facts must be equal.
_IDENTITY = ".identity"
_NAMED = 3  # differences in a message; the plan lists all


def _device(device: Device | None) -> dict[str, Scalar | None]:
    if device is None:
        return {"identity": None}
    # Without path (it depends on discovery order) and scheduler (a factor, restored after a run).
    return {
        "identity": device.identity.key,
        "kind": device.kind.value,
        "model": device.model,
        "size": device.size,
        "logical_block_size": device.logical_block_size,
        "zones": device.zones,
        "zone_size": device.zone_size,
        "zone_capacity": device.zone_capacity,
        "max_active_zones": device.max_active_zones,
        "max_open_zones": device.max_open_zones,
    }


def device_facts(inspection: Inspection) -> dict[str, Scalar | None]:
    """Return the lasting facts of a host's devices as one flat mapping."""
    found = {"zoned": _device(inspection.device), "conventional": _device(inspection.conventional)}
    found |= {f"zoned{n}": _device(one.device) for n, one in enumerate(inspection.others, start=2)}
    more = enumerate(inspection.more_conventional, start=2)
    found |= {f"conventional{n}": _device(one.device) for n, one in more}
    return {f"{which}.{name}": v for which, facts in found.items() for name, v in facts.items()}


def host_facts(inspection: Inspection) -> dict[str, Scalar | None]:
    """Return the lasting facts of a host: software, processors, memory and devices."""
    host = inspection.host
    return {
        "kernel": host.kernel,
        "os": host.os,
        "cpus": host.cpus,
        "memory": round(host.memory_bytes / _MEMORY_STEP),
        "rocksdb": host.rocksdb,
        **device_facts(inspection),
    }


def host_digest(hosts: Sequence[tuple[str, Inspection]]) -> str:
    """Return the SHA-256 over all hosts' facts."""
    content = {name: host_facts(inspection) for name, inspection in hosts}
    return checksums.of_json(content)


def changed(before: Mapping[str, Inspection], after: Mapping[str, Inspection]) -> list[str]:
    """Return one phrase per difference: missing and new hosts, changed facts."""
    lines = [f"host {name} is gone" for name in sorted(before.keys() - after.keys())]
    lines += [f"host {name} is new" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        old, new = host_facts(before[name]), host_facts(after[name])
        lines += [
            f"{name}: {fact} {old.get(fact)} -> {new.get(fact)}"
            for fact in {**old, **new}
            if old.get(fact) != new.get(fact)
        ]
    return lines


def differences(hosts: Sequence[tuple[str, Inspection]]) -> tuple[str, ...]:
    """Return one phrase per fact in which a host differs from the first host."""
    if not hosts:
        return ()
    (first, inspection), *others = hosts
    base = host_facts(inspection)
    return tuple(
        f"{fact}: {first} {base.get(fact)}, {name} {facts.get(fact)}"
        for name, facts in ((name, host_facts(found)) for name, found in others)
        for fact in sorted(base.keys() | facts.keys())
        if not fact.endswith(_IDENTITY) and base.get(fact) != facts.get(fact)
    )


def require_alike(hosts: Sequence[tuple[str, Inspection]]) -> None:
    """Refuse hosts that differ, because runs of a cell are averaged over hosts.

    Raises:
        ConfigError: a fact differs; the message names the first ones.
    """
    found = differences(hosts)
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise ConfigError(
            f"the hosts differ: {'; '.join(found[:_NAMED])}{more}",
            hint="plan one campaign each, or allow it: -e different_hosts=true (--different-hosts)",
            code="different-hosts",
        )
