"""Computes the numbers of stored runs again from their raw files, for ``zonelab verify``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import levels
from harness.errors import ZonelabError
from harness.run import ledger, phase, replayed, run_metrics, zone_costs
from harness.run.tenant import has_devices_alone, phases_of, prefixed, tenants_of
from harness.store import packed, rundir
from harness.store.campaign import CampaignPaths
from harness.store.files import load_record
from harness.store.ledger import Ledger, OwnCounts
from harness.store.result import Metric, Result, Utilisation
from harness.store.spec import DeviceKind, PhaseSpec, RunSpec, TenantSpec
from harness.verify import derived, judged, outputs, retrace, sampled, zone_bytes
from harness.verify.stored import StoredTenant, read_tenant

# Runs of before 2026-11-22 lack these metrics, but have the files to compute them.
_YOUNGER = frozenset({*zone_costs.NAMES, *run_metrics.CAUSES, "reset_rate"})
# The part of a trace that belongs to one tenant is not stored at its barriers.
_NOT_STORED_BY_TENANT = frozenset({"zone_resets", "zone_finishes"})


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per number of a campaign that differs from its raw files."""
    return [
        f"{host}: {folder.name}: {line}"
        for host in paths.hosts()
        for folder in rundir.completed(paths.runs(host))
        for line in of_run(folder)
    ]


def of_run(folder: Path) -> list[str]:
    """Return the problems of one run; none if its records are unreadable (others report that)."""
    try:
        result, spec = rundir.load_result(folder), rundir.load_spec(folder)
    except ZonelabError:
        return []
    try:
        if result.device.kind is DeviceKind.REPLAYED:
            return [*metric_differences(result.metrics, replayed.of_folder(folder))]
        return [*_differences(folder, spec, result)]
    except ZonelabError as error:
        return [error.message]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Everything derived from the raw files of a tenant; ``ledger`` is null on shared devices."""

    ledger: Ledger | None
    metrics: Mapping[str, Metric]
    stored: StoredTenant


def numbers(folder: Path, spec: RunSpec, result: Result, tenant: TenantSpec) -> Numbers | None:
    """Compute the numbers of a tenant with the runner's own functions; null if it has none.

    Raises:
        ZonelabError: a raw file is missing or damaged.
    """
    stored = read_tenant(folder / "raw", tenant, result.begun(spec.phases))
    if stored is None:
        return None
    alone = has_devices_alone(tenant, tenants_of(spec))
    again = ledger.of_phases(tenant.level, stored.snapshots, stored.facts) if alone else None
    metrics = run_metrics.of_tenant(tenant.name, stored.facts, again, alone=alone)
    if not spec.tenants:
        assert again is not None  # noqa: S101 - a plain run has its devices alone
        metrics |= run_metrics.of_plain_run(spec, stored.facts, result.utilisation)
        metrics |= run_metrics.of_zone_costs(
            folder,
            spec,
            again,
            metadata_zones=stored.metadata_zones,
            snapshots=stored.snapshots,
            facts=stored.facts,
        )
    return Numbers(again, metrics, stored)


def _differences(folder: Path, spec: RunSpec, result: Result) -> Iterator[str]:
    observed = judged.load_observed(folder)
    if observed is not None and not observed.rules:  # the runner could not judge its files either
        yield from judged.differences(folder, spec, result, facts=None, ledger=None)
        return
    metrics: dict[str, Metric] = {}
    alone: Numbers | None = None
    for tenant in tenants_of(spec):
        again = numbers(folder, spec, result, tenant)
        if again is None:
            continue
        metrics |= again.metrics
        if again.ledger is not None:
            name = prefixed(tenant.name, "ledger.json")
            yield from _ledgers(name, load_record(Ledger, folder / name), again.ledger)
        for facts in again.stored.facts:
            name = facts.spec.name
            # The runner stores no number of a phase whose output it cannot read.
            if facts.parse_error and f"{name}.operations" in result.metrics:
                yield f"raw/ of phase {name} cannot be read: {facts.parse_error}"
            yield from derived.differences(folder, facts)
            yield from outputs.differences(folder, facts, _seed(spec, tenant, facts.spec))
        if not spec.tenants:
            alone = again
            yield from _of_plain_run(folder, spec, result, again)
    yield from judged.differences(
        folder,
        spec,
        result,
        facts=alone.stored.facts if alone else None,
        ledger=alone.ledger if alone else None,
    )
    if spec.tenants:
        metrics = {
            key: metric
            for key, metric in metrics.items()
            if key.rpartition(".")[2] not in _NOT_STORED_BY_TENANT
        }
    yield from metric_differences(result.metrics, metrics)


def _seed(spec: RunSpec, tenant: TenantSpec, phase_: PhaseSpec) -> int:
    """Return the seed of a phase's program."""
    return phase.seed(spec.seed + tenant.seed, phases_of(tenant, spec.phases), phase_)


def _of_plain_run(folder: Path, spec: RunSpec, result: Result, again: Numbers) -> Iterator[str]:
    """Compare what only a run without tenants stores."""
    stored = again.stored
    if result.utilisation is not None:
        yield from _utilisation(result.utilisation, stored, spec.device.capacity)
    yield from sampled.differences(folder, result, stored)
    yield from zone_bytes.differences(folder, spec.device, stored)
    counters = [snapshot.counters for snapshot in stored.snapshots]
    yield from retrace.differences(folder, counters, stored.metadata_zones)
    yield from _own_counts(folder / "raw", stored.snapshots[-1].usage.own, result)


def _ledgers(name: str, stored: Ledger, again: Ledger) -> Iterator[str]:
    names = [entry.name for entry in again.entries]
    if [entry.name for entry in stored.entries] != names:
        yield f"{name}: its entries are not {', '.join(names)}"
        return
    for entry, other in zip(stored.entries, again.entries, strict=True):
        for field in entry.__slots__:
            value, wanted = getattr(entry, field), getattr(other, field)
            if value != wanted:
                yield f"{name}: {entry.name}.{field}: has {value}, raw/ gives {wanted}"


def metric_differences(stored: Mapping[str, Metric], again: Mapping[str, Metric]) -> Iterator[str]:
    """Return one line per metric that differs from the recomputed one."""
    for key in sorted(again):
        if key not in stored:
            # A metric that is newer than the run is null, unless the raw files give it.
            if again[key].value is not None and key.rpartition(".")[2] not in _YOUNGER:
                yield f"{key}: is not in result.json"
        elif stored[key] != again[key]:
            yield f"{key}: result.json has {stored[key].value}, raw/ gives {again[key].value}"


def _utilisation(used: Utilisation, stored: StoredTenant, capacity: int) -> Iterator[str]:
    """V and A are measured at the barrier after the last fill phase."""
    filled, free = stored.filled, stored.snapshots[0].usage.free_bytes
    live = filled.counters.cold_bytes + filled.counters.database_bytes
    allocated = sum(filled.allocated) if filled.allocated is not None else None
    for name, value, wanted in (
        ("live_bytes", used.live_bytes, live),
        ("cold_bytes", used.cold_bytes, filled.counters.cold_bytes),
        ("database_bytes", used.database_bytes, filled.counters.database_bytes),
        ("allocated_bytes", used.allocated_bytes, allocated),
        ("capacity_bytes", used.capacity_bytes, capacity),
        ("u_ns", used.u_ns, live / capacity),
        ("max_utilisation", used.max_utilisation, _share(free, capacity)),
    ):
        if value != wanted:
            yield f"utilisation.{name}: result.json has {value}, raw/ gives {wanted}"


def _share(free: int | None, capacity: int) -> float | None:
    """Return the largest utilisation of a fresh level."""
    return None if free is None else min(free / capacity, 1.0)


def _own_counts(raw: Path, stored: OwnCounts | None, result: Result) -> Iterator[str]:
    """Compare a level's own counts at the last barrier with its own ledger."""
    if stored is None:
        return
    level = levels.LEVELS.get(result.level)
    if level is None:
        yield f"level {result.level} is unknown: its own counts cannot be computed again"
        return
    name = level.own_ledger
    opened = packed.opened(raw / name)
    if opened is None:
        yield f"raw/{name}.xz: is missing"
        return
    with opened as lines:
        totals = level.own_totals(lines, result.device)
    for part in ("payload", "filling", "given_up", "finishes", "resets"):
        value, wanted = getattr(stored, part), getattr(totals, part)
        if value != wanted:
            yield f"the last usage.json has {part} {value}, raw/{name} gives {wanted}"
