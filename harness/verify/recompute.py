"""Computes the numbers of stored runs again from their raw files, for ``zonelab verify``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ZonelabError
from harness.levels import LEVELS
from harness.observe.tracing.tracer import TIMELINE
from harness.run import imported, ledger, phase, replayed, run_metrics
from harness.run.judging import JudgedTenant
from harness.run.tenant import has_devices_alone, phases_of, prefixed, tenants_of
from harness.store import packed, rundir
from harness.store.campaign import CampaignPaths
from harness.store.files import load_record
from harness.store.ledger import Ledger
from harness.store.observed import ObservedRun, ObservedTenant
from harness.store.result import Metric, Result
from harness.store.spec import DeviceKind, PhaseRole, PhaseSpec, RunSpec, TenantSpec
from harness.verify import (
    derived,
    gauged,
    judged,
    outputs,
    retrace,
    sampled,
    stored_numbers,
    tenants,
    zone_bytes,
)
from harness.verify.retrace import TracedBarrier, TracedDevice
from harness.verify.sampled import SampledTenant
from harness.verify.stored import StoredTenant, read_tenant
from harness.verify.tenants import MeasuredTenant


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per number of a campaign that differs from its raw files."""
    return [
        f"{host}: {folder.name}: {line}"
        for host in paths.hosts()
        for folder in rundir.completed(paths.runs(host))
        for line in of_run(folder)
    ]


def of_run(folder: Path) -> list[str]:
    """Return the problems of one run. Other checks report unreadable records."""
    return [*_of_run(folder)]


def _of_run(folder: Path) -> Iterator[str]:
    """Yield the problems up to a raw file that cannot be read, which is the last one."""
    try:
        result, spec = rundir.load_result(folder), rundir.load_spec(folder)
    except ZonelabError:
        return
    try:
        if result.device.kind is DeviceKind.REPLAYED:
            yield from stored_numbers.metrics(result.metrics, replayed.of_folder(folder))
        elif result.device.kind is DeviceKind.IMPORTED:
            again = imported.of_folder(folder, spec)
            yield from stored_numbers.metrics(result.metrics, again)
            yield from stored_numbers.invented(result.metrics, again)
        else:
            yield from _differences(folder, spec, result)
    except ZonelabError as error:
        yield error.message
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        yield f"raw/ is damaged: {type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class RecomputedNumbers:
    """Everything derived from the raw files of a tenant; ``ledger`` is null on shared devices."""

    ledger: Ledger | None
    metrics: Mapping[str, Metric]
    stored: StoredTenant


def numbers(
    folder: Path, spec: RunSpec, result: Result, tenant: TenantSpec
) -> RecomputedNumbers | None:
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
    return RecomputedNumbers(again, metrics, stored)


def _differences(folder: Path, spec: RunSpec, result: Result) -> Iterator[str]:
    observed = judged.load_observed(folder)
    if observed is not None and not observed.rules:  # the runner could not read the files either
        yield from judged.differences(folder, spec, result, [])
        return
    found: dict[str, RecomputedNumbers] = {}
    for tenant in tenants_of(spec):
        again = numbers(folder, spec, result, tenant)
        if again is not None:
            found[tenant.name] = again
            yield from _of_tenant(folder, spec, result, tenant, again)
    metrics = {key: one for again in found.values() for key, one in again.metrics.items()}
    if spec.tenants:
        measured = _measured(spec, found)
        known = observed is not None and observed.tenants is not None
        if observed is not None and known:
            yield from tenants.differences(folder, result, observed, measured)
            metrics |= tenants.metrics(folder, result, observed, measured)
        if not known or packed.find(folder / TIMELINE) is None:
            metrics = _without_shares(metrics)
        yield from _traces(folder, measured)
    elif "" in found:
        yield from _of_plain_run(folder, spec, result, found[""].stored)
    yield from _series(folder, spec, result, observed, found)
    yield from judged.differences(folder, spec, result, _judged(spec, result, observed, found))
    yield from stored_numbers.metrics(result.metrics, metrics)
    if observed is not None and (observed.tenants is not None or not spec.tenants):
        yield from stored_numbers.invented(result.metrics, metrics)


def _of_tenant(
    folder: Path, spec: RunSpec, result: Result, tenant: TenantSpec, again: RecomputedNumbers
) -> Iterator[str]:
    """Compare the ledger of a tenant, and the files of its phases."""
    if again.ledger is not None:
        name = prefixed(tenant.name, "ledger.json")
        yield from stored_numbers.ledgers(name, load_record(Ledger, folder / name), again.ledger)
    for facts in again.stored.facts:
        name = facts.spec.name
        # The runner stores no number of a phase whose output it cannot read.
        if facts.parse_error and f"{name}.operations" in result.metrics:
            yield f"raw/ of phase {name} cannot be read: {facts.parse_error}"
        yield from derived.differences(folder, facts)
        yield from outputs.differences(folder, facts, _seed(spec, tenant, facts.spec))
    yield from stored_numbers.own_counts(folder / "raw", again.stored, tenant, result)


def _without_shares(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Leave out metrics of a tenant's phases that count all tenants of a namespace."""
    return {
        key: metric
        for key, metric in metrics.items()
        if key.rpartition(".")[2] not in stored_numbers.OF_TENANT
    }


def _measured(spec: RunSpec, found: Mapping[str, RecomputedNumbers]) -> list[MeasuredTenant]:
    """Return the tenants of a run with tenants, beside their raw files."""
    all_ = tenants_of(spec)
    return [
        MeasuredTenant(
            tenant,
            phase=next(p.name for p in phases_of(tenant, spec.phases) if _is_measured(p)),
            uses_zoned=LEVELS[tenant.level].uses_zoned if tenant.level in LEVELS else True,
            alone=has_devices_alone(tenant, all_),
            skip=LEVELS[tenant.level].metadata_zones if tenant.level in LEVELS else 0,
            stored=found[tenant.name].stored if tenant.name in found else None,
        )
        for tenant in all_
    ]


def _is_measured(phase_: PhaseSpec) -> bool:
    return phase_.role is PhaseRole.MEASURED


def _traces(folder: Path, measured: Sequence[MeasuredTenant]) -> Iterator[str]:
    barriers = [
        TracedBarrier(snapshot.counters, one.device if one.uses_zoned else "")
        for one in measured
        for snapshot in (one.stored.snapshots if one.stored else ())
    ]
    return retrace.differences(folder, barriers, tenants.traced_devices(measured))


def _judged(
    spec: RunSpec,
    result: Result,
    observed: ObservedRun | None,
    found: Mapping[str, RecomputedNumbers],
) -> list[JudgedTenant]:
    """Return the tenants as the rules judge them; [] if the inputs are not stored."""
    if any(name not in LEVELS for name in spec.levels):
        return []
    all_, manifest = tenants_of(spec), result.manifest.get("level") or {}
    if not spec.tenants:
        findings = observed.findings if observed else ()
        plain = ObservedTenant(
            spec.device, spec.conventional, result.utilisation, stopped=False, findings=findings
        )
        records, manifests = {"": plain}, {"": manifest}
    elif observed is not None and observed.tenants is not None:
        records, manifests = dict(observed.tenants), manifest
    else:
        return []
    return [
        JudgedTenant(
            tenant,
            LEVELS[tenant.level],
            records[tenant.name],
            found[tenant.name].stored.facts if tenant.name in found else (),
            alone=has_devices_alone(tenant, all_),
            direct_io=judged.direct_io(manifests.get(tenant.name)),
            ledger=found[tenant.name].ledger if tenant.name in found else None,
            level_facts=(manifests.get(tenant.name) or {}).get("facts", {}),
        )
        for tenant in all_
        if tenant.name in records
    ]


def _series(
    folder: Path,
    spec: RunSpec,
    result: Result,
    observed: ObservedRun | None,
    found: Mapping[str, RecomputedNumbers],
) -> Iterator[str]:
    """Compare sampled series with the barriers, and with the zones."""
    known = [tenant for tenant in tenants_of(spec) if tenant.name in found]
    own = [
        SampledTenant(
            tenant.name, tenant.level, Path(tenant.device.path).name, found[tenant.name].stored
        )
        for tenant in known
    ]
    if own:
        yield from sampled.differences(
            folder, result, own, observed.longest_gap if observed else None
        )
        yield from gauged.differences(folder, result, own)
    for tenant in known:
        place = zone_bytes.place(tenant.name, tenant.device, tenant.zones)
        if place is not None and tenant.stack == tenant.name:
            yield from zone_bytes.differences(folder, place, found[tenant.name].stored)


def _seed(spec: RunSpec, tenant: TenantSpec, phase_: PhaseSpec) -> int:
    """Return the seed of a phase's program."""
    return phase.seed(spec.seed + tenant.seed, phases_of(tenant, spec.phases), phase_)


def _of_plain_run(
    folder: Path, spec: RunSpec, result: Result, stored: StoredTenant
) -> Iterator[str]:
    """Compare the numbers that only a run without tenants stores."""
    if result.utilisation is not None:
        yield from stored_numbers.utilisation(result.utilisation, stored, spec.device.capacity)
    counters = [snapshot.counters for snapshot in stored.snapshots]
    zoned = counters[-1].zoned
    barriers = [TracedBarrier(one, zoned) for one in counters]
    yield from retrace.differences(folder, barriers, [TracedDevice(zoned, stored.metadata_zones)])
