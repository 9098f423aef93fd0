"""``zonelab inspect``: what a device is, what the guard says, and which levels can run on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.errors import GuardRefused, HostError, ZonelabError
from harness.levels.base import Level
from harness.observe.manifest import host_facts
from harness.run.guard import Guard, companion
from harness.run.host import Host
from harness.store.spec import Bytes, Device, Inspection, LevelProbe, Reason
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
) -> Inspection:
    """Inspect a zoned device and its conventional companion. Writes nothing.

    Raises:
        GuardRefused: the device is missing or not zoned.
        HostError: it may not be opened.
    """
    device = host.device(path)
    require_zoned(device)
    capacity = host.drive_capacity(Path(device.path).name)
    partner, reason = companion(host, guard, device, conventional)
    return Inspection(
        host=host_facts(host, host_name, _program()),
        device=device,
        conventional=partner,
        conventional_reason=reason,
        drive_capacity=None if capacity is None else Bytes(capacity),
        refusals=tuple(guard.examine(device, partner)),
        levels=tuple(probe(level, device, partner, reason) for level in levels.values()),
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
