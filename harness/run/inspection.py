"""``zonelab inspect``: a device, the guard's refusals, and the levels that can run on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from harness.errors import GuardRefused, HostError, ZonelabError
from harness.levels.level import Level
from harness.machine.guard import Guard, companion
from harness.machine.host import Host
from harness.machine.manifest import host_facts
from harness.run.ending import reason_of
from harness.store.spec import Bytes, Device, Inspection, LevelProbe, OtherDevice, Reason
from harness.tools import db_bench
from harness.workloads import PROGRAMS
from harness.workloads.db_bench import DbBench


def require_zoned(device: Device) -> None:
    """Raise GuardRefused (code ``not-zoned``) for a device without zones."""
    if not device.zoned:
        raise GuardRefused(
            f"{device.path} is not a zoned block device",
            hint="name one that lsblk -o NAME,ZONED,SIZE,MODEL lists as host-managed",
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
    remainder: str | None = None,
    more_conventional: Sequence[str] = (),
) -> Inspection:
    """Inspect a zoned device, its conventional companion, and further devices; write nothing.

    ``more_conventional`` are further conventional devices to measure. ``remainder`` is the
    namespace that is filled or purged before the runs.

    Raises:
        GuardRefused: a device is missing, of the wrong kind, or named twice.
        HostError: a device cannot be opened.
    """
    device = host.device(path)
    require_zoned(device)
    more = _further(host, others, [device], require_zoned)
    known = [host.device(conventional)] if conventional else []
    beside = _further(host, more_conventional, known, _require_conventional)
    rest = _further(host, [remainder] if remainder else [], [device, *more, *known, *beside])
    name = device.name
    used = [device, *more, *rest]
    capacity, endurance = host.drive_capacity(name), host.endurance(name)
    partner, reason = companion(host, guard, device, conventional, *rest)
    inspection = Inspection(
        host=host_facts(host, host_name, _program()),
        device=device,
        conventional=partner,
        conventional_reason=reason,
        drive_capacity=None if capacity is None else Bytes(capacity),
        refusals=(*guard.examine(device, partner), *chain(*map(guard.examine, rest))),
        levels=_probes(levels, device, partner, reason),
        remainder=rest[0] if rest else None,
        endurance=None if endurance is None else Bytes(endurance),
        unusable=_unusable(),
        others=tuple(
            OtherDevice(
                one, tuple(guard.examine(one, partner)), _probes(levels, one, partner, reason)
            )
            for one in more
        ),
        more_conventional=tuple(
            OtherDevice(one, tuple(guard.examine(one, device)), _probes(levels, device, one))
            for one in beside
        ),
    )
    contents = [guard.seen(one, partner) for one in used]
    named = [partner] if partner else [one for one in known if not one.zoned]
    contents += [guard.seen(one, device) for one in (*named, *beside)]
    identities = [seen.identity for seen in contents]
    return replace(inspection, contents=tuple(contents), notices=tuple(guard.notices(identities)))


def _require_conventional(device: Device) -> None:
    if device.zoned:
        raise GuardRefused(
            f"{device.path} is zoned, not conventional",
            hint="conventional_device= takes devices without zones",
            code="conventional-zoned",
        )


def _further(
    host: Host,
    paths: Sequence[str],
    known: Sequence[Device],
    require_kind: Callable[[Device], None] = lambda _: None,
) -> list[Device]:
    """Return the devices named after the known ones; each must be named once."""
    devices: list[Device] = []
    for path in paths:
        further = host.device(path)
        require_kind(further)
        if any(further.identity.key == one.identity.key for one in (*known, *devices)):
            raise GuardRefused(
                f"{further.path} is named twice", hint="name each device once", code="named-twice"
            )
        devices.append(further)
    return devices


def _probes(
    levels: Mapping[str, Level],
    device: Device,
    partner: Device | None,
    partner_reason: Reason | None = None,
) -> tuple[LevelProbe, ...]:
    return tuple(probe(level, device, partner, partner_reason) for level in levels.values())


def probe(
    level: Level, device: Device, partner: Device | None, partner_reason: Reason | None
) -> LevelProbe:
    """Probe one level; an error becomes the reason why it cannot run."""
    try:
        reason = level.probe_kernel(device) or level.probe(device, partner)
        reason = reason or _probe_program(level)
    except ZonelabError as error:
        reason = reason_of(error)
    if reason is not None and reason.code == "conventional-missing" and partner_reason:
        reason = partner_reason  # names the device and has a hint
    return LevelProbe(level.name, reason is None, reason)


def _probe_program(level: Level) -> Reason | None:
    """Probe the installed db_bench; the runner reports a missing one."""
    program = _program()
    return level.probe_program(program, DbBench.name) if program else None


def _unusable() -> dict[str, Reason]:
    """Return the programs of phases that cannot run on this host."""
    found = {}
    for name, program in PROGRAMS.items():
        try:
            program.check_host()
        except ZonelabError as error:
            found[name] = reason_of(error)
    return found


def _program() -> Path | None:
    try:
        return db_bench.find()
    except HostError:
        return None
