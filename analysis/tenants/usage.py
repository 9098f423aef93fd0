"""Bytes, finishes and resets of each tenant while all tenants measured.

Kernel workers submit much of the I/O, so the zone or a tenant's own device identifies the tenant.
The bytes of two tenants in one file system cannot be separated.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass

from analysis.read.load import RunRecord
from analysis.read.series import read_columns
from analysis.read.zones import DoneCommand, read_commands
from analysis.tenants.mix import FACTOR, Mix, SharedSpan, TenantRun, read

_TOTALS = "zones_traced.csv"  # in raw/; with several namespaces, their name is the prefix
_APPENDED = "appended"
_COUNTED = ("written", "zeroed", _APPENDED)


@dataclass(frozen=True, slots=True)
class Use:
    """A tenant's totals from the barrier to the end, null when they cannot be attributed."""

    tenant: str
    written: float | None
    finishes: int | None
    resets: int | None


def owner(tenants: Sequence[TenantRun], device: str, zone: int | None) -> str | None:
    """Return the only tenant that owns a zone, None for no tenant or several."""
    names = [tenant.name for tenant in tenants if tenant.owns(device, zone)]
    return names[0] if len(names) == 1 else None


def uses(run: RunRecord) -> list[Use]:
    """Return the totals of each tenant of a run, empty for a run without tenants."""
    together = read(run)
    if together is None:
        return []
    commands = read_commands(run)
    return [_use(run, together, tenant, commands) for tenant in together.tenants]


def device_rate(run: RunRecord) -> float | None:
    """Return the bytes per second of all devices while the tenants measured."""
    together = read(run)
    if together is None:
        return None
    return _rate(run, together, lambda name: name.endswith((".read_bytes", ".write_bytes")))


def against_best_solo(mix: Mix) -> dict[str, float]:
    """Return block → bytes per second of the shared run, over the fastest tenant alone."""
    alone: dict[str, list[float]] = {}
    for runs in mix.solo.values():
        for run in runs:
            rate = device_rate(run)
            if rate:
                alone.setdefault(run.block_key(FACTOR), []).append(rate)
    ratios = {}
    for run in mix.shared:
        rate, others = device_rate(run), alone.get(run.block_key(FACTOR), [])
        if rate and len(others) == len(mix.tenants):
            ratios[run.block_key(FACTOR)] = rate / max(others)
    return ratios


def _use(
    run: RunRecord, together: SharedSpan, tenant: TenantRun, commands: Sequence[DoneCommand] | None
) -> Use:
    others = [one for one in together.tenants if one is not tenant]
    if any(_overlap(tenant, other) for other in others):
        return Use(tenant.name, None, None, None)
    alone = not any(other.device == tenant.device for other in others)
    written = _device_written(run, together, tenant.device) if alone else None
    if commands is None:
        return Use(tenant.name, written, None, None)
    own = [one for one in commands if tenant.owns(one.device, one.zone)]
    if not alone:
        written = _written(run, together, tenant, own)
    during = [one for one in own if together.began <= one.t <= together.ended]
    return Use(
        tenant.name,
        written,
        sum(one.action == "finish" and bool(one.unwritten) for one in during),
        sum(one.action == "reset" for one in during),
    )


def _overlap(one: TenantRun, other: TenantRun) -> bool:
    if one.device != other.device:
        return False
    if one.zones is None or other.zones is None:
        return True
    return one.zones.start < other.zones.stop and other.zones.start < one.zones.stop


@dataclass(frozen=True, slots=True)
class _Life:
    """A zone from its first write to its reset or the end, with the bytes written in between."""

    begin: float
    end: float
    written: float


def _inside(life: _Life, together: SharedSpan) -> float:
    """Return the bytes written while all measured, assuming an even rate over the life."""
    length = life.end - life.begin
    if length <= 0:
        return life.written if together.began <= life.begin <= together.ended else 0.0
    both = min(life.end, together.ended) - max(life.begin, together.began)
    return life.written * max(0.0, both) / length


def _written(
    run: RunRecord, together: SharedSpan, tenant: TenantRun, commands: Sequence[DoneCommand]
) -> float | None:
    """Return the bytes in a tenant's zones.

    Null if a zone has appends but no first write: older traces note none for appends.
    """
    begun = {one.zone for one in commands if one.action == "first-write"}
    counts = _counts(run, tenant.device)
    for zone, count in counts.items():
        if count.get(_APPENDED) and zone not in begun and tenant.owns(tenant.device, zone):
            return None
    totals = {zone: sum(count.values()) for zone, count in counts.items()}
    return sum(_inside(life, together) for life in _lives(run, tenant, commands, totals))


def _lives(
    run: RunRecord,
    tenant: TenantRun,
    commands: Sequence[DoneCommand],
    totals: MutableMapping[int, float],
) -> list[_Life]:
    """Return the lives of a tenant's zones; a zone's last life gets its remaining bytes.

    ``totals`` has the bytes of each zone since tracing began, and keeps those of the last life.
    """
    begun: dict[int, float] = {}
    ended: dict[int, float] = {}
    lives = []
    for command in commands:
        zone = command.zone
        if zone is None:
            begun.clear()
            ended.clear()
        elif command.action == "first-write":
            begun[zone], ended[zone] = command.t, run.result.seconds
        elif command.action in ("last-write", "finish") and zone in begun:
            ended[zone] = min(ended[zone], command.t)
        elif command.action == "reset" and zone in begun:
            held = command.written or 0.0
            totals[zone] = totals.get(zone, 0.0) - held
            end = min(ended.pop(zone), command.t)
            lives.append(_Life(begun.pop(zone), end, held))
    return lives + [
        _Life(since, ended[zone], max(0.0, totals.get(zone, 0.0)))
        for zone, since in begun.items()
        if tenant.owns(tenant.device, zone)
    ]


def _counts(run: RunRecord, device: str) -> dict[int, dict[str, float]]:
    """Return zone → bytes by kind of write since tracing began."""
    for name in (f"{device}.{_TOTALS}", _TOTALS):
        header, columns = read_columns(run.path / "raw" / name)
        if "zone" in header:
            kinds = [kind for kind in header if kind in _COUNTED]
            rows = zip(*(columns[header.index(kind)] for kind in kinds), strict=True)
            of_zones = map(int, columns[header.index("zone")])
            return {
                zone: dict(zip(kinds, row, strict=True))
                for zone, row in zip(of_zones, rows, strict=False)
            }
    return {}


def _device_written(run: RunRecord, together: SharedSpan, device: str) -> float | None:
    rate = _rate(run, together, lambda name: name == f"{device}.write_bytes")
    return None if rate is None else rate * (together.ended - together.began)


def _rate(run: RunRecord, together: SharedSpan, counts: Callable[[str], bool]) -> float | None:
    """Return the increase per second of cumulative bytes, between samples in the window.

    ``counts`` selects columns of the devices' series.
    """
    header, columns = read_columns(run.path / "series" / "diskstats.csv")
    own = [values for name, values in zip(header, columns, strict=True) if counts(name)]
    times = columns[0] if own else []
    inside = [i for i, t in enumerate(times) if together.began <= t <= together.ended]
    span = times[inside[-1]] - times[inside[0]] if inside else 0.0
    if span <= 0:
        return None
    return sum(values[inside[-1]] - values[inside[0]] for values in own) / span
