"""Are the numbers of a run of several tenants what its raw files say? For ``zonelab verify``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.levels import LEVELS
from harness.observe import zones
from harness.rules import PhaseFacts
from harness.run import derived, ledger
from harness.run.ledger import Point
from harness.run.recompute import facts_of, metric_differences, point_of
from harness.run.tenants.record import of_tenant
from harness.store.files import load_record
from harness.store.ledger import Ledger
from harness.store.result import Metric, Result
from harness.store.spec import PhaseRole, PhaseSpec, RunSpec, TenantSpec


def differences(folder: Path, spec: RunSpec, result: Result) -> Iterator[str]:
    """Return one line per number that raw files do not bear out.

    Raises:
        ZonelabError: a raw file is missing or damaged.
    """
    metrics: dict[str, Metric] = {}
    begun = result.begun(spec.phases)
    for one in spec.tenants:
        own = [phase for phase in begun if one.owns(phase)]
        if not own:
            continue
        points, facts = _chain(folder / "raw", one, own)
        alone = sum(other.stack == one.stack for other in spec.tenants) == 1
        again = ledger.of_phases(one.level, points, facts) if alone else None
        metrics |= of_tenant(one.name, facts, again, alone=alone)
        path = folder / f"{one.name}.ledger.json"
        if again is not None and load_record(Ledger, path) != again:
            yield f"{path.name}: is not what raw/ gives"
        for phase in facts:
            yield from derived.differences(folder, phase)
    # What the tracer saw of a tenant's zones is not kept by barrier.
    counted = {"zone_resets", "zone_finishes"}
    known = {key: one for key, one in metrics.items() if key.rpartition(".")[2] not in counted}
    yield from metric_differences(result.metrics, known)


def _chain(
    raw: Path, tenant: TenantSpec, phases: list[PhaseSpec]
) -> tuple[list[Point], list[PhaseFacts]]:
    """Return a tenant's barriers and phases; the measured one has a barrier of its own before."""
    level = LEVELS.get(tenant.level)
    skip = level.metadata_zones if level else 0
    points = [point_of(raw, f"{tenant.name}.{name}")[0] for name in ("up", "cold")]
    facts = []
    for phase in phases:
        if phase.role is PhaseRole.MEASURED:
            points[-1] = point_of(raw, f"{tenant.name}.start")[0]
        after, report = point_of(raw, phase.name)
        counted = zones.count(report, skip=skip) if report else None
        facts.append(facts_of(raw, phase, points[-1], after, counted))
        points.append(after)
    return points, facts
