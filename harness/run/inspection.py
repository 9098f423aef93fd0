"""``zonelab inspect``: what a device is, what the guard says, and which levels can run on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.errors import GuardRefused, HostError, ZonelabError
from harness.levels.base import Level
from harness.observe.manifest import host_facts
from harness.run.guard import Guard, companion
from harness.run.host import Host
from harness.store.spec import Bytes, Device, Inspection, LevelProbe, OtherDevice, Reason
from harness.tools import db_bench


def require_zoned(device: Device) -> None:
    """Raise GuardRefused (code ``not-zoned``) for a device without zones."""
    if not device.zoned:
        raise GuardRefused(
            f"{device.path} is not a zoned block device",
            hint="lsblk -o NAME,ZONED,SIZE,MODEL shows which are",
            code="not-zoned",
        )


def inspect(
    host: Host,
    guard: Guard,
    levels: Mapping[str, Level],
    *,
    path: str,
    conventional: str | None,
    host_name: str,
    others: Sequence[str] = (),
) -> Inspection:
    """Inspect a zoned device, its conventional companion, and further devices. Writes nothing.

    Raises:
        GuardRefused: a device is missing, not zoned, or named twice.
        HostError: it may not be opened.
    """
    device = host.device(path)
    require_zoned(device)
    more = _further(host, device, others)
    name = Path(device.path).name
    capacity, endurance = host.drive_capacity(name), host.endurance(name)
    partner, reason = companion(host, guard, device, conventional)
    return Inspection(
        host=host_facts(host, host_name, _program()),
        device=device,
        conventional=partner,
        conventional_reason=reason,
        drive_capacity=None if capacity is None else Bytes(capacity),
        refusals=tuple(guard.examine(device, partner)),
        levels=tuple(probe(level, device, partner, reason) for level in levels.values()),
        endurance=None if endurance is None else Bytes(endurance),
        others=tuple(_other(guard, levels, one, partner, reason) for one in more),
    )


def _further(host: Host, device: Device, paths: Sequence[str]) -> list[Device]:
    """Return the devices named beside the first; each is zoned, and named once."""
    found: list[Device] = []
    for path in paths:
        one = host.device(path)
        require_zoned(one)
        if any(one.identity.key == known.identity.key for known in (device, *found)):
            raise GuardRefused(
                f"{one.path} is named twice", hint="name each device once", code="named-twice"
            )
        found.append(one)
    return found


def _other(
    guard: Guard,
    levels: Mapping[str, Level],
    device: Device,
    partner: Device | None,
    partner_reason: Reason | None,
) -> OtherDevice:
    """Ask guard and levels about a further device; the companion is that of the first."""
    return OtherDevice(
        device=device,
        refusals=tuple(guard.examine(device, partner)),
        levels=tuple(probe(level, device, partner, partner_reason) for level in levels.values()),
    )


def probe(
    level: Level, device: Device, partner: Device | None, partner_reason: Reason | None
) -> LevelProbe:
    """Ask one level whether it can run; whatever goes wrong in the asking is the reason."""
    try:
        reason = level.probe(device, partner) or _probe_program(level)
    except ZonelabError as error:
        reason = Reason(error.code, error.message, error.hint)
    if reason is not None and reason.code == "conventional-missing" and partner_reason:
        reason = partner_reason  # says which device was looked at, and what to type
    return LevelProbe(level.name, reason is None, reason)


def _probe_program(level: Level) -> Reason | None:
    """Ask about the db_bench that is there; the runner itself says when there is none."""
    program = _program()
    return level.probe_program(program) if program else None


def _program() -> Path | None:
    try:
        return db_bench.find()
    except HostError:
        return None
