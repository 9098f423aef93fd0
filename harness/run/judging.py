"""Judges a finished run by all rules: the run as a whole, then each tenant.

The runner and ``zonelab verify`` both judge here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.levels.level import Level
from harness.rules import judge
from harness.rules.facts import PhaseFacts, RunFacts
from harness.store.ledger import Ledger
from harness.store.observed import ObservedRun, ObservedTenant
from harness.store.result import Issue
from harness.store.spec import PhaseRole, RunSpec, Scalar, TenantSpec
from harness.tools.direct_io import DirectIo


@dataclass(frozen=True, slots=True)
class JudgedTenant:
    """A tenant as the rules judge it; a plain run has one without a name.

    ``alone``: no other tenant uses its file system. ``ledger`` is null before the cold fill, or if
    others share its devices. The level reported ``level_facts`` when it came up.
    """

    spec: TenantSpec
    level: Level
    observed: ObservedTenant
    facts: Sequence[PhaseFacts]
    alone: bool
    direct_io: DirectIo | None
    ledger: Ledger | None
    level_facts: Mapping[str, Scalar] = field(default_factory=dict)


def plain_run(run: RunSpec, tenant: TenantSpec, used: ObservedTenant) -> RunSpec:
    """Return this tenant's part of the run as a run without other tenants."""
    if not tenant.name:
        return run
    return replace(
        run,
        level=tenant.level,
        level_options=tenant.options,
        device=used.device,
        conventional=used.conventional,
        cold=tenant.cold,
        phases=tuple(phase for phase in run.phases if tenant.owns(phase)),
        tenants=(),
    )


def issues(
    spec: RunSpec, log: str, observed: ObservedRun, tenants: Sequence[JudgedTenant]
) -> tuple[Issue, ...]:
    """Return the issues of a run; ``log`` is its kernel log, '' if it could not be read.

    The message of an issue of a tenant begins with its name, unless the issue names its phase.
    """
    run = _whole(spec, log, observed, tenants)
    if not spec.tenants:
        return judge(_facts(run, tenants[0]))
    neutral = RunFacts(spec=spec, kernel_log="", clock_jump=0.0)
    found = list(judge(run))
    for tenant in tenants:
        found += [
            issue if issue.phase else replace(issue, message=f"{tenant.spec.name}: {issue.message}")
            for issue in judge(_facts(neutral, tenant))
        ]
    return tuple(found)


def _whole(
    spec: RunSpec, log: str, observed: ObservedRun, tenants: Sequence[JudgedTenant]
) -> RunFacts:
    """Return the facts of the run as a whole."""
    # The findings of tenants come first; each tenant has its own.
    own = sum(len(tenant.observed.findings) for tenant in tenants)
    return RunFacts(
        spec=spec,
        kernel_log=None if observed.kernel_log_lines is None else log,
        clock_jump=observed.clock_jump,
        caveats=observed.findings[own:],
        untraced=observed.untraced,
        tenants=observed.together,
    )


def _facts(shared: RunFacts, tenant: JudgedTenant) -> RunFacts:
    """Return what the rules judge: ``shared`` facts of the run, and the tenant's own.

    Device counters of a shared file system do not belong to one tenant. A phase that the runner
    stopped is not judged.
    """
    own, level = tenant.observed, tenant.level
    facts = [
        one for one in tenant.facts if not (own.stopped and one.spec.role is PhaseRole.MEASURED)
    ]
    if not tenant.alone:
        facts = [
            replace(one, zoned=None, conventional=None, traced=None, zones=None) for one in facts
        ]
    return replace(
        shared,
        spec=plain_run(shared.spec, tenant.spec, own),
        uses_zoned=level.uses_zoned,
        phases=tuple(facts),
        utilisation=own.utilisation,
        direct_io=tenant.direct_io,
        caveats=(*level.caveats(own.device), *own.findings, *shared.caveats),
        buffers_conventional=level.buffers_conventional,
        level_facts=tenant.level_facts,
        ledger=None if own.stopped else tenant.ledger,
    )
