"""A tenant of a run: its level, its phases, and everything measured so far.

A plain run has one tenant without a name. Names of its files and metrics have no prefix then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.levels.level import Level
from harness.observe.tracing.tenant_tracer import Activity
from harness.rules.facts import PhaseFacts
from harness.run import judging, ledger
from harness.run.context import RunningLevel
from harness.run.judging import JudgedTenant
from harness.run.ledger import BarrierSnapshot
from harness.store.ledger import Ledger
from harness.store.observed import ObservedTenant
from harness.store.result import Issue, PhaseResult, Utilisation
from harness.store.spec import Device, Limits, PhaseRole, PhaseSpec, RunSpec, TenantSpec
from harness.tools.direct_io import DirectIo


def tenants_of(run: RunSpec) -> tuple[TenantSpec, ...]:
    """Return the tenants of a run; a plain run has one without a name."""
    if run.tenants:
        return run.tenants
    plain = TenantSpec(
        name="",
        level=run.level,
        options=run.level_options,
        stack="",
        device=run.device,
        zones=None,
        conventional=None,
        active=None,
        cold=run.cold,
        limits=Limits(),
        weight=1.0,
        start_offset=0.0,
        duration=0.0,
        seed=0,
    )
    return (plain,)


def phases_of(tenant: TenantSpec, phases: Sequence[PhaseSpec]) -> tuple[PhaseSpec, ...]:
    """Return the phases that belong to a tenant."""
    return tuple(phase for phase in phases if not tenant.name or tenant.owns(phase))


def prefixed(tenant: str, name: str) -> str:
    """Return ``<tenant>.<name>``, or the name alone in a plain run."""
    return f"{tenant}.{name}" if tenant else name


def has_devices_alone(tenant: TenantSpec, tenants: Sequence[TenantSpec]) -> bool:
    """Whether no other tenant uses this tenant's file system."""
    return sum(other.stack == tenant.stack for other in tenants) == 1


@dataclass(slots=True)
class RunningTenant:
    """A tenant while its run goes on.

    ``device`` and ``conventional`` are its own slices once these are mapped. ``running`` is set
    when its level is up. ``snapshots`` are its barriers: level up, cold data, each phase.
    ``stopped``: the runner ended its measured phase because another tenant died.
    """

    run: RunSpec
    spec: TenantSpec
    level: Level
    device: Device
    conventional: Device | None
    alone: bool
    phases: tuple[PhaseSpec, ...] = field(init=False)
    running: RunningLevel = field(init=False)
    facts: list[PhaseFacts] = field(default_factory=list)
    results: list[PhaseResult] = field(default_factory=list)
    snapshots: list[BarrierSnapshot] = field(default_factory=list)
    cold: int = 0
    max_utilisation: float | None = None
    direct_io: DirectIo | None = None
    utilisation: Utilisation | None = None
    findings: tuple[Issue, ...] = ()
    manifest: dict[str, Any] = field(default_factory=dict)
    activity: Activity | None = None
    denied_opens: int | None = None
    stopped: bool = False

    def __post_init__(self) -> None:
        """Select its phases."""
        self.phases = phases_of(self.spec, self.run.phases)

    @property
    def seed(self) -> int:
        """Its seed, which is the same in a run alone and in a run with other tenants."""
        return self.run.seed + self.spec.seed

    @property
    def owns_file_system(self) -> bool:
        """Whether it does not use another tenant's file system."""
        return self.spec.stack == self.spec.name

    @property
    def fills(self) -> list[PhaseSpec]:
        """Its fill phases."""
        return [phase for phase in self.phases if phase.role is PhaseRole.FILL]

    @property
    def measured(self) -> list[PhaseSpec]:
        """Its measured phases."""
        return [phase for phase in self.phases if phase.role is PhaseRole.MEASURED]

    @property
    def as_plain_run(self) -> RunSpec:
        """This tenant's part of the run as a run without other tenants."""
        return judging.plain_run(self.run, self.spec, self.observed)

    @property
    def observed(self) -> ObservedTenant:
        """The inputs of the rules that no other raw file holds."""
        return ObservedTenant(
            self.device, self.conventional, self.utilisation, self.stopped, self.findings
        )

    def name(self, text: str) -> str:
        """Return ``<tenant>.<text>``, or the text alone in a plain run."""
        return prefixed(self.spec.name, text)

    def title(self, step: str) -> str:
        """Return a step of the run for the progress line."""
        return f"{step}: {self.spec.name}" if self.spec.name else step

    def ledger(self) -> Ledger | None:
        """Return its ledger; null before the cold fill, or if others share its devices."""
        if not self.alone or len(self.snapshots) < 2:  # noqa: PLR2004 - up and cold
            return None
        return ledger.build(self.spec.level, self.snapshots, self.facts)

    def judged(self, ledger: Ledger | None) -> JudgedTenant:
        """Return the tenant as the rules judge it."""
        return JudgedTenant(
            self.spec,
            self.level,
            self.observed,
            self.facts,
            alone=self.alone,
            direct_io=self.direct_io,
            ledger=ledger,
            level_facts=self.manifest.get("facts", {}),
        )
