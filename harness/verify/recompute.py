"""Computes the numbers of stored runs again from their raw files, for ``zonelab verify``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import ZonelabError
from harness.levels import LEVELS
from harness.observe.tracing.tracer import TIMELINE
from harness.run import imported, ledger, phase, replayed, run_metrics, zone_costs
from harness.run.judging import JudgedTenant
from harness.run.tenant import has_devices_alone, phases_of, prefixed, tenants_of
from harness.store import packed, rundir
from harness.store.campaign import CampaignPaths
from harness.store.files import load_record
from harness.store.ledger import Ledger
from harness.store.observed import ObservedRun, ObservedTenant
from harness.store.result import Metric, Result
from harness.store.spec import DeviceKind, RunSpec, TenantSpec
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
from harness.verify.retrace import TracedDevice
from harness.verify.separate import check
from harness.verify.stored import RecomputedTenant, StoredTenant, read_tenant


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
    try:
        result, spec = rundir.load_result(folder), rundir.load_spec(folder)
    except ZonelabError:
        return []
    return [*dict.fromkeys(check(_differences(folder, spec, result), "raw/"))]


@dataclass(frozen=True, slots=True)
class RecomputedRun:
    """A stored run beside its tenants."""

    folder: Path
    spec: RunSpec
    result: Result
    observed: ObservedRun
    tenants: tuple[RecomputedTenant, ...]

    @property
    def stored(self) -> list[StoredTenant]:
        """The tenants whose cold data was written."""
        return [one.stored for one in self.tenants if one.stored is not None]


def numbers(folder: Path, spec: RunSpec, result: Result, tenant: TenantSpec) -> RecomputedTenant:
    """Compute the numbers of a tenant with the runner's own functions.

    Raises:
        ZonelabError: a raw file is missing or damaged.
    """
    alone = has_devices_alone(tenant, tenants_of(spec))
    nothing = RecomputedTenant(tenant, phases_of(tenant, spec.phases), alone)
    stored = read_tenant(folder / "raw", tenant, result.begun(spec.phases))
    if stored is None:
        return nothing
    again = ledger.build(tenant.level, stored.snapshots, stored.facts) if alone else None
    metrics, damage = run_metrics.of_tenant(tenant.name, stored.facts, again, alone=alone), ""
    if not spec.tenants:
        assert again is not None  # noqa: S101 - a plain run has its devices alone
        metrics |= run_metrics.of_plain_run(spec, stored.facts, result.utilisation)
        try:
            metrics |= zone_costs.of_folder(
                folder,
                spec.device,
                again,
                metadata_zones=stored.metadata_zones,
                snapshots=stored.snapshots,
                facts=stored.facts,
            )
        except ZonelabError as error:
            damage = error.message
    return replace(nothing, stored=stored, ledger=again, metrics=metrics, damage=damage)


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
    found = []
    for tenant in tenants_of(spec):
        found.append(numbers(folder, spec, result, tenant))
        if found[-1].stored is not None:
            yield from _of_tenant(folder, spec, result, found[-1], found[-1].stored)
    every_phase = [facts for tenant in found for facts in tenant.facts]
    yield from derived.added_histograms(folder, every_phase)
    run = RecomputedRun(folder, spec, result, observed, tuple(found))
    for lines in (_traces(run), _utilisation(run), _series(run), _rules(run), _metrics(run)):
        yield from check(lines, "raw/")


def _of_tenant(
    folder: Path, spec: RunSpec, result: Result, tenant: RecomputedTenant, stored: StoredTenant
) -> Iterator[str]:
    """Compare the ledger of a tenant, and the files of its phases."""
    if tenant.ledger is not None:
        name = prefixed(tenant.spec.name, "ledger.json")
        yield from check(_ledger(folder, name, tenant.ledger), name)
    for facts in stored.facts:
        name = facts.spec.name
        # The runner stores no number of a phase whose output it cannot read.
        if facts.parse_error and f"{name}.operations" in result.metrics:
            yield f"raw/ of phase {name} cannot be read: {facts.parse_error}"
        seed = phase.seed(spec.seed + tenant.spec.seed, tenant.phases, facts.spec)
        yield from check(derived.differences(folder, facts), f"raw/ of phase {name}")
        yield from check(outputs.differences(folder, facts, seed), f"raw/ of phase {name}")
    yield from check(stored_numbers.own_counts(folder / "raw", stored, result), "raw/")


def _ledger(folder: Path, name: str, again: Ledger) -> Iterator[str]:
    yield from stored_numbers.ledgers(name, load_record(Ledger, folder / name), again)


def _metrics(run: RecomputedRun) -> Iterator[str]:
    """Compare the metrics, and the records of tenants that some of them need."""
    folder, result, observed = run.folder, run.result, run.observed
    metrics = {key: one for tenant in run.tenants for key, one in tenant.metrics.items()}
    damage = [tenant.damage for tenant in run.tenants if tenant.damage]
    if run.spec.tenants:
        yield from check(tenants.differences(folder, result, observed, run.tenants), "raw/")
        try:
            metrics |= tenants.metrics(folder, result, observed, run.tenants)
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


def _traces(run: RecomputedRun) -> Iterator[str]:
    if run.spec.tenants:
        traces = [
            (snapshot.counters.trace, one.device if one.uses_zoned else "")
            for one in run.tenants
            for snapshot in (one.stored.snapshots if one.stored else ())
        ]
        yield from retrace.differences(run.folder, traces, tenants.traced_devices(run.tenants))
        return
    for plain in run.stored:
        zoned = plain.snapshots[-1].counters.zoned
        traces = [(snapshot.counters.trace, zoned) for snapshot in plain.snapshots]
        device = TracedDevice(zoned, plain.metadata_zones)
        yield from retrace.differences(run.folder, traces, [device])


def _utilisation(run: RecomputedRun) -> Iterator[str]:
    """Compare what only a run without tenants stores."""
    used, capacity = run.result.utilisation, run.spec.device.capacity
    if not run.spec.tenants and used is not None:
        for plain in run.stored:
            yield from stored_numbers.utilisation(used, plain, capacity)


def _rules(run: RecomputedRun) -> Iterator[str]:
    yield from judged.differences(run.folder, run.spec, run.result, run.observed, _judged(run))


def _judged(run: RecomputedRun) -> list[JudgedTenant] | None:
    """Return the tenants as the rules judge them; null if this zonelab lacks a level."""
    spec, observed = run.spec, run.observed
    if any(name not in LEVELS for name in spec.levels):
        return None
    manifest = run.result.manifest.get("level") or {}
    records, manifests = observed.tenants or {}, manifest
    if not spec.tenants:
        plain = ObservedTenant(
            spec.device,
            spec.conventional,
            run.result.utilisation,
            stopped=False,
            findings=observed.findings,
        )
        records, manifests = {"": plain}, {"": manifest}
    return [
        JudgedTenant(
            tenant.spec,
            LEVELS[tenant.spec.level],
            records[tenant.spec.name],
            tenant.facts,
            alone=tenant.alone,
            direct_io=judged.direct_io(manifests.get(tenant.spec.name)),
            ledger=tenant.ledger,
            level_facts=(manifests.get(tenant.spec.name) or {}).get("facts", {}),
        )
        for tenant in run.tenants
        if tenant.spec.name in records
    ]


def _series(run: RecomputedRun) -> Iterator[str]:
    """Compare sampled series with the barriers, and with the zones."""
    if run.stored:
        yield from sampled.differences(run.folder, run.result, run.stored, run.observed.longest_gap)
        yield from gauged.differences(run.folder, run.result, run.stored)
    for tenant in run.stored:
        if tenant.spec.device.zoned and tenant.spec.stack == tenant.spec.name:
            lines = zone_bytes.differences(run.folder, tenant)
            yield from check(lines, zone_bytes.file_of(tenant.spec))
