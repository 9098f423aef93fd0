"""Checks values that only runs with tenants store: devices, utilisation, use of zones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.observe import zone_reports
from harness.observe.tracing import tracer
from harness.observe.tracing.tenant_tracer import Activity, activity
from harness.observe.tracing.zone_history import Transition
from harness.observe.zone_reports import ACTIVE
from harness.rules.facts import PhaseFacts
from harness.run import ledger, zone_use
from harness.run.together import TENANTS as WINDOW
from harness.store import packed
from harness.store.differences import differences as compared
from harness.store.files import read_json
from harness.store.observed import NAME, ObservedRun, ObservedTenant, TenantFacts
from harness.store.result import Metric, Result, Utilisation
from harness.store.spec import TenantSpec
from harness.verify.retrace import TracedDevice
from harness.verify.sampled import read
from harness.verify.stored import RecomputedTenant, StoredTenant, metadata_zones

# Times in files have microseconds.
_ROUNDING = 3e-6
_SECONDS = 1e-3  # error of a sum of many such times


def traced_devices(tenants: Sequence[RecomputedTenant]) -> list[TracedDevice]:
    """Return the zoned namespaces in the trace, with the metadata zones of whole ones."""
    skips = {
        one.device: metadata_zones(one.spec.level) for one in tenants if one.spec.zones is None
    }
    names = dict.fromkeys(one.device for one in tenants if one.uses_zoned)
    return [TracedDevice(name, skips.get(name, 0), f"{name}.") for name in names]


def differences(
    folder: Path, result: Result, observed: ObservedRun, tenants: Sequence[RecomputedTenant]
) -> Iterator[str]:
    """Yield one line per contradiction between raw files and the record of a tenant."""
    known = observed.tenants or {}
    owners = {one.spec.name: one.spec for one in tenants}
    for tenant in tenants:
        where, own = f"{NAME}: tenant {tenant.spec.name}", known.get(tenant.spec.name)
        if own is not None:
            owner = owners.get(tenant.spec.stack, tenant.spec)
            yield from (f"{where}: {line}" for line in _devices(owner, own))
        if tenant.stored is None:
            continue
        if own is None:
            yield f"{where}: is missing, raw/ has its barriers"
            continue
        wanted = _utilisation(own, tenant.stored, tenants)
        if own.utilisation is not None or tenant.measured is not None:
            yield from compared(
                f"{where}: utilisation",
                own.utilisation,
                wanted,
                source="raw/ gives",
                without=("u_drive",),
            )
    yield from _ends(folder, result, observed, tenants)


def _devices(spec: TenantSpec, own: ObservedTenant) -> Iterator[str]:
    """Check that a slice is at the planned place, and a whole device is run.json's."""
    size = spec.conventional.count if spec.conventional else None
    if size is not None and own.conventional is not None and own.conventional.size != size:
        yield f"conventional.size: has {own.conventional.size}, run.json has {size}"
    wanted, without = spec.device, ["path", "scheduler", "schedulers"]
    if spec.zones is not None:
        wanted = replace(wanted, zones=spec.zones.count)
        without += ["identity", "size", "logical_block_size", "max_open_zones", "max_active_zones"]
    yield from compared("device", own.device, wanted, source="run.json has", without=without)


def _utilisation(
    own: ObservedTenant, stored: StoredTenant, tenants: Sequence[RecomputedTenant]
) -> Utilisation | None:
    """Return V and A after all tenants are filled; null if another owns the file system."""
    spec, filled, capacity = stored.spec, stored.filled, own.device.capacity
    if spec.cold is None:
        return None
    database = sum(
        one.stored.filled.counters.database_bytes
        for one in tenants
        if one.stored is not None and one.spec.stack == spec.stack
    )
    largest = stored.snapshots[0].largest_utilisation(capacity)
    return ledger.utilisation(spec.cold, filled, database, capacity, largest)


# --- the common time --------------------------------------------------------------------------


def _ends(
    folder: Path, result: Result, observed: ObservedRun, tenants: Sequence[RecomputedTenant]
) -> Iterator[str]:
    """Compare the recorded ends of tenants with their processes and with the common window."""
    known, together = observed.tenants or {}, observed.together or TenantFacts()
    stopped = {name for name, own in known.items() if own.stopped}
    if stopped and not together.died:
        yield f"{NAME}: tenants were stopped, and none died: {', '.join(sorted(stopped))}"
    measured = {one.spec.name: one.measured for one in tenants if one.measured is not None}
    failed = {name: f for name, f in measured.items() if not f.ended_well and name not in stopped}
    if failed and not together.died:
        yield f"{NAME}: no tenant died, raw/ has {', '.join(sorted(failed))}"
    if " ended with " in together.died:
        texts = [_death(name, facts) for name, facts in failed.items()]
        if not any(together.died.startswith(text) for text in texts):
            yield f"{NAME}: died: has {together.died!r}, raw/ gives {', '.join(texts) or 'none'}"
    window = _window(folder)
    if window is not None and len(measured) == len(tenants):
        yield from _times(window, result, together, tenants, stopped)


def _death(name: str, facts: PhaseFacts) -> str:
    how = f"exit status {facts.exit_code}" if facts.signal is None else f"signal {facts.signal}"
    return f"tenant {name} ended with {how} "


def _times(
    window: Mapping[str, Any],
    result: Result,
    together: TenantFacts,
    tenants: Sequence[RecomputedTenant],
    stopped: Collection[str],
) -> Iterator[str]:
    records = {one.spec.name: result.manifest["level"][one.spec.name] for one in tenants}
    planned = {one.spec.name: one.spec.start_offset + one.spec.duration for one in tenants}
    last = [name for name, end in planned.items() if end == max(planned.values())]
    ends = {name: records[name]["ended"] for name in last}
    free = [end for name, end in ends.items() if name not in stopped]
    spread = max(free) - min(free) if free else 0.0
    if abs(window["ended"] - min(ends.values())) > _ROUNDING:
        yield f"{WINDOW}: ended: has {window['ended']}, the manifest gives {min(ends.values())}"
    if abs(together.spread - spread) > 2 * _ROUNDING:
        yield f"{NAME}: spread: has {together.spread}, the manifest gives {spread:.6f}"
    for tenant in tenants:
        name, facts = tenant.spec.name, tenant.measured
        record = records[name]
        earliest = window["began"] + tenant.spec.start_offset
        if record["released"] < earliest - _ROUNDING and name not in stopped:
            yield f"result.json: manifest.level.{name}.released: is before {WINDOW}: began"
        lasted = record["ended"] - record["released"]
        seconds = facts.seconds if facts and facts.seconds else 0.0
        if seconds and abs(lasted - seconds) > _ROUNDING:
            yield (
                f"result.json: manifest.level.{name}: lasted {lasted:.6f} s, "
                f"raw/{tenant.phase}.process.json has {seconds:.6f}"
            )
        places: dict[str, Any] = {one["name"]: one for one in window["tenants"]}
        place = places.get(name, {})
        zones = [tenant.spec.zones.first, tenant.spec.zones.count] if tenant.spec.zones else None
        for field, wanted in (
            ("level", tenant.spec.level),
            ("phase", tenant.phase.partition(".")[2]),
            ("weight", tenant.spec.weight),
            ("zones", zones),
            ("start_offset", tenant.spec.start_offset),
            ("unit", record.get("unit", "")),
        ):
            yield from compared(
                f"{WINDOW}: {name}: {field}", place.get(field), wanted, source="run.json has"
            )


def _window(folder: Path) -> Mapping[str, Any] | None:
    path = folder / WINDOW
    return read_json(path) if path.is_file() else None


# --- metrics ----------------------------------------------------------------------------------


def metrics(
    folder: Path, result: Result, observed: ObservedRun, tenants: Sequence[RecomputedTenant]
) -> dict[str, Metric]:
    """Return the metrics that only runs with tenants have; the use of zones needs a timeline."""
    own = observed.together.harness_seconds if observed.together else None
    facts = [one.facts for one in tenants]
    found = {"run.harness_cpu_share": zone_use.cpu_share(own, facts)}
    window, known = _window(folder), observed.tenants or {}
    for tenant in tenants:
        record = known.get(tenant.spec.name)
        if tenant.stored is None or record is None:
            continue
        seen = _activity(folder, tenant, window) if window else None
        again = zone_use.metrics(
            tenant.phase,
            seen,
            _denied(result, tenant) if seen is not None else None,
            record.utilisation,
            tenant.stored.snapshots[0].largest_utilisation(record.device.capacity),
        )
        if seen is None and packed.find(folder / tracer.TIMELINE) is None:
            again = {key: one for key, one in again.items() if key.endswith("utilisation")}
        found |= {key: _rounded(result.metrics.get(key), one) for key, one in again.items()}
    return found


def _rounded(stored: Metric | None, again: Metric) -> Metric:
    """Return the stored metric if it differs by the rounding of times only."""
    if stored is None or stored.value is None or again.value is None:
        return again
    same = stored.unit == again.unit == "s" and abs(stored.value - again.value) <= _SECONDS
    return stored if same else again


def _denied(result: Result, tenant: RecomputedTenant) -> int | None:
    host, facts = result.manifest.get("host"), tenant.measured
    if tenant.spec.zones is not None or facts is None or facts.traced is None or not host:
        return None
    return zone_use.denied_opens(str(host["kernel"]), tenant.device, facts.traced)


def _activity(folder: Path, tenant: RecomputedTenant, window: Mapping[str, Any]) -> Activity | None:
    """Return how a tenant used its zones, from the timeline and the zones when tracing began."""
    table = read(folder, tracer.TIMELINE)
    seed = packed.text(folder / f"raw/{tenant.device}.traced.zones.csv")
    if table is None or not seed or not tenant.alone or not tenant.uses_zoned:
        return None
    report = zone_reports.from_csv(seed)
    zones = tenant.spec.zones.numbers if tenant.spec.zones else range(len(report))
    commands = [
        _command(t, row)
        for t, row in zip(table.times, table.rows, strict=True)
        if row["device"] == tenant.device
    ]
    active = {number for number, zone in enumerate(report) if zone.condition in ACTIVE}
    span = (window["began"], window["ended"])
    return activity(commands, tenant.device, zones, active, span, seen=float("-inf"))


def _command(t: float, row: Mapping[str, str]) -> Transition:
    zone = int(row["zone"]) if row["zone"] else None
    error = int(row["status"])
    return Transition(t, row["device"], zone, row["action"], (0, 0), None, error, row["by"])
