"""Computes the numbers of stored runs again from their raw files, for ``zonelab verify``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    separate,
    stored_numbers,
    tenants,
    zone_bytes,
)
from harness.verify.retrace import TracedBarrier, TracedDevice
from harness.verify.sampled import SampledTenant
from harness.verify.separate import check
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
    """Return the problems of one run. Other checks report unreadable records.

    A damaged file ends the checks that read it. Without the counters of a tenant no check is left.
    """
    return [*dict.fromkeys(_of_run(folder))]


def _of_run(folder: Path) -> Iterator[str]:
    try:
        result, spec = rundir.load_result(folder), rundir.load_spec(folder)
    except ZonelabError:
        return
    yield from check(_differences(folder, spec, result), "raw/")


@dataclass(frozen=True, slots=True)
class RecomputedNumbers:
    """Everything derived from the raw files of a tenant; ``ledger`` is null on shared devices.

    ``damage`` names a damaged timeline, which leaves the costs of zones unknown; '' for none.
    """

    ledger: Ledger | None
    metrics: Mapping[str, Metric]
    stored: StoredTenant
    damage: str = ""


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
    again = ledger.build(tenant.level, stored.snapshots, stored.facts) if alone else None
    metrics, damage = run_metrics.of_tenant(tenant.name, stored.facts, again, alone=alone), ""
    if not spec.tenants:
        assert again is not None  # noqa: S101 - a plain run has its devices alone
        metrics |= run_metrics.of_plain_run(spec, stored.facts, result.utilisation)
        try:
            metrics |= run_metrics.of_zone_costs(
                folder,
                spec,
                again,
                metadata_zones=stored.metadata_zones,
                snapshots=stored.snapshots,
                facts=stored.facts,
            )
        except ZonelabError as error:
            damage = error.message
    return RecomputedNumbers(again, metrics, stored, damage)


def _differences(folder: Path, spec: RunSpec, result: Result) -> Iterator[str]:
    if result.device.kind is DeviceKind.REPLAYED:
        yield from stored_numbers.metrics(result.metrics, replayed.of_folder(folder))
    elif result.device.kind is DeviceKind.IMPORTED:
        again = imported.of_folder(folder, spec)
        yield from stored_numbers.metrics(result.metrics, again)
        yield from stored_numbers.invented(result.metrics, again)
    else:
        yield from _of_measured(folder, spec, result)


def _of_measured(folder: Path, spec: RunSpec, result: Result) -> Iterator[str]:
    observed = judged.load_observed(folder)
    if not observed.rules:  # the runner could not read the files either
        yield from judged.differences(folder, spec, result, observed, None)
        return
    found: dict[str, RecomputedNumbers] = {}
    for tenant in tenants_of(spec):
        again = numbers(folder, spec, result, tenant)
        if again is not None:
            found[tenant.name] = again
            yield from _of_tenant(folder, spec, result, tenant, again)
    for lines in (
        _traces(folder, spec, found),
        _utilisation(spec, result, found),
        _series(folder, spec, result, observed, found),
        _rules(folder, spec, result, observed, found),
        _metrics(folder, spec, result, observed, found),
    ):
        yield from check(lines, "raw/")


def _of_tenant(
    folder: Path, spec: RunSpec, result: Result, tenant: TenantSpec, again: RecomputedNumbers
) -> Iterator[str]:
    """Compare the ledger of a tenant, and the files of its phases."""
    if again.ledger is not None:
        name = prefixed(tenant.name, "ledger.json")
        yield from check(_ledger(folder, name, again.ledger), name)
    for facts in again.stored.facts:
        name = facts.spec.name
        # The runner stores no number of a phase whose output it cannot read.
        if facts.parse_error and f"{name}.operations" in result.metrics:
            yield f"raw/ of phase {name} cannot be read: {facts.parse_error}"
        seed = _seed(spec, tenant, facts.spec)
        yield from check(derived.differences(folder, facts), f"raw/ of phase {name}")
        yield from check(outputs.differences(folder, facts, seed), f"raw/ of phase {name}")
    counts = stored_numbers.own_counts(folder / "raw", again.stored, tenant, result)
    yield from check(counts, "raw/")


def _ledger(folder: Path, name: str, again: Ledger) -> Iterator[str]:
    yield from stored_numbers.ledgers(name, load_record(Ledger, folder / name), again)


def _metrics(
    folder: Path,
    spec: RunSpec,
    result: Result,
    observed: ObservedRun,
    found: Mapping[str, RecomputedNumbers],
) -> Iterator[str]:
    """Compare the metrics, and the records of tenants that some of them need."""
    metrics = {key: one for again in found.values() for key, one in again.metrics.items()}
    damage = [again.damage for again in found.values() if again.damage]
    if spec.tenants:
        measured = _measured(spec, found)
        yield from check(tenants.differences(folder, result, observed, measured), "raw/")
        try:
            metrics |= tenants.metrics(folder, result, observed, measured)
        except separate.DAMAGE as error:
            damage.append(separate.line(error, "raw/"))
        if damage or packed.find(folder / TIMELINE) is None:
            metrics = _without_shares(metrics)
    yield from damage
    yield from stored_numbers.metrics(result.metrics, metrics)
    if not damage:
        yield from stored_numbers.invented(result.metrics, metrics)


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
            phase=next(
                p.name for p in phases_of(tenant, spec.phases) if p.role is PhaseRole.MEASURED
            ),
            uses_zoned=LEVELS[tenant.level].uses_zoned if tenant.level in LEVELS else True,
            alone=has_devices_alone(tenant, all_),
            skip=LEVELS[tenant.level].metadata_zones if tenant.level in LEVELS else 0,
            stored=found[tenant.name].stored if tenant.name in found else None,
        )
        for tenant in all_
    ]


def _traces(folder: Path, spec: RunSpec, found: Mapping[str, RecomputedNumbers]) -> Iterator[str]:
    if spec.tenants:
        measured = _measured(spec, found)
        barriers = [
            TracedBarrier(snapshot.counters, one.device if one.uses_zoned else "")
            for one in measured
            for snapshot in (one.stored.snapshots if one.stored else ())
        ]
        yield from retrace.differences(folder, barriers, tenants.traced_devices(measured))
    elif "" in found:
        stored = found[""].stored
        counters = [snapshot.counters for snapshot in stored.snapshots]
        zoned = counters[-1].zoned
        barriers = [TracedBarrier(one, zoned) for one in counters]
        yield from retrace.differences(
            folder, barriers, [TracedDevice(zoned, stored.metadata_zones)]
        )


def _utilisation(
    spec: RunSpec, result: Result, found: Mapping[str, RecomputedNumbers]
) -> Iterator[str]:
    """Compare what only a run without tenants stores."""
    if not spec.tenants and "" in found and result.utilisation is not None:
        yield from stored_numbers.utilisation(
            result.utilisation, found[""].stored, spec.device.capacity
        )


def _rules(
    folder: Path,
    spec: RunSpec,
    result: Result,
    observed: ObservedRun,
    found: Mapping[str, RecomputedNumbers],
) -> Iterator[str]:
    own = _judged(spec, result, observed, found)
    yield from judged.differences(folder, spec, result, observed, own)


def _judged(
    spec: RunSpec,
    result: Result,
    observed: ObservedRun,
    found: Mapping[str, RecomputedNumbers],
) -> list[JudgedTenant] | None:
    """Return the tenants as the rules judge them; null if this zonelab lacks a level."""
    if any(name not in LEVELS for name in spec.levels):
        return None
    all_, manifest = tenants_of(spec), result.manifest.get("level") or {}
    records, manifests = observed.tenants or {}, manifest
    if not spec.tenants:
        plain = ObservedTenant(
            spec.device,
            spec.conventional,
            result.utilisation,
            stopped=False,
            findings=observed.findings,
        )
        records, manifests = {"": plain}, {"": manifest}
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
    observed: ObservedRun,
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
        yield from sampled.differences(folder, result, own, observed.longest_gap)
        yield from gauged.differences(folder, result, own)
    for tenant in known:
        place = zone_bytes.place(tenant.name, tenant.device, tenant.zones)
        if place is not None and tenant.stack == tenant.name:
            yield from zone_bytes.differences(folder, place, found[tenant.name].stored)


def _seed(spec: RunSpec, tenant: TenantSpec, phase_: PhaseSpec) -> int:
    """Return the seed of a phase's program."""
    return phase.seed(spec.seed + tenant.seed, phases_of(tenant, spec.phases), phase_)
