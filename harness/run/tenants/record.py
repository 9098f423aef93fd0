"""What is known of each tenant of a run, and the ``result.json`` made of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.levels.base import DirectIo, Level
from harness.metrics import CATALOGUE
from harness.observe.tenant_trace import Activity
from harness.rules import PhaseFacts, RunFacts, judge
from harness.rules.facts import TenantFacts
from harness.run import ledger, phases
from harness.run.ledger import Point
from harness.run.phases import Stage
from harness.store.ledger import RUN, Ledger
from harness.store.result import Issue, Metric, PhaseResult, Utilisation
from harness.store.spec import PhaseRole, PhaseSpec, RunSpec, TenantSpec
from harness.workloads.rocksdb import Below

# Of a file system that several tenants use at once, the devices' counters cannot tell whose a byte
# is; these are all that is left of a phase then.
_OWN = ("cpu_seconds", "cpu_per_operation")


@dataclass(slots=True)
class TenantRecord:
    """A tenant's facts, in the order in which they become known.

    ``points`` are its barriers: level up, cold data, each phase. ``alone`` says that nobody else
    uses its file system now. ``stopped``: we ended its measured phase because another tenant died.
    """

    spec: TenantSpec
    phases: tuple[PhaseSpec, ...]
    level: Level
    stage: Stage
    alone: bool
    facts: list[PhaseFacts] = field(default_factory=list)
    results: list[PhaseResult] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    cold: int = 0
    maximum: float | None = None
    direct_io: DirectIo | None = None
    utilisation: Utilisation | None = None
    found: tuple[Issue, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)
    activity: Activity | None = None
    denied: int | None = None
    stopped: bool = False

    @property
    def measured(self) -> str:
        """The name of its measured phase."""
        return next(p.name for p in self.phases if p.role is PhaseRole.MEASURED)

    def ledger(self) -> Ledger | None:
        """Return where its bytes went; None where others share its devices."""
        if not self.alone or len(self.points) < 2:  # noqa: PLR2004 - up and cold
            return None
        return ledger.of_phases(self.spec.level, self.points, self.facts)

    def metrics(self, found: Ledger | None) -> dict[str, Metric]:
        """Return ``<tenant>.<phase>.<metric>``, and ``<tenant>.run.<metric>`` of its ledger."""
        values = of_tenant(self.spec.name, self.facts, found, alone=self.alone)
        for name, value in self._of_zones().items():
            values[f"{self.measured}.{name}"] = Metric(value, CATALOGUE[name].unit)
        return values

    def _of_zones(self) -> dict[str, int | float | None]:
        seen, used = self.activity, self.utilisation
        zones: dict[str, int | float | None] = {
            "active_zone_seconds": round(seen.active_seconds, 6) if seen else None,
            "denied_opens": self.denied,
            "utilisation": used.u_ns if used else None,
            "max_utilisation": self.maximum,
        }
        if seen is not None:
            zones |= {"zone_resets": seen.resets, "zone_finishes": seen.finishes}
        return zones

    def issues(self, run: RunSpec, found: Ledger | None) -> list[Issue]:
        """Judge its phases; what is not of a phase is said in its name."""
        judged = [one for one in self.facts if not (self.stopped and one.measured)]
        own = replace(
            run,
            level=self.spec.level,
            level_options=self.spec.options,
            device=self.stage.device,
            conventional=self.stage.conventional,
            cold=self.spec.cold,
            phases=self.phases,
            tenants=(),
        )
        raised = judge(
            RunFacts(
                spec=own,
                uses_zoned=self.level.uses_zoned,
                phases=tuple(judged if self.alone else map(_without_disks, judged)),
                kernel_log="",
                utilisation=self.utilisation,
                idle_written={},
                clock_jump=0.0,
                direct_io=self.direct_io,
                caveats=(*self.level.caveats(self.stage.device), *self.found),
                buffers_conventional=self.level.buffers_conventional,
                ledger=None if self.stopped else found,
            )
        )
        return [
            one if one.phase else replace(one, message=f"{self.spec.name}: {one.message}")
            for one in raised
        ]


def of_tenant(
    name: str, facts: Sequence[PhaseFacts], found: Ledger | None, *, alone: bool
) -> dict[str, Metric]:
    """Return the metrics of a tenant's phases and ledger; ``zonelab verify`` does it again."""
    values: dict[str, Metric] = {}
    for one in facts:
        values |= phases.metrics(one) if alone else _without_devices(one)
    for key, metric in (ledger.metrics(found) if found else {}).items():
        values[f"{name}.{key}" if key.startswith(f"{RUN}.") else key] = metric
    return values


def _without_devices(facts: PhaseFacts) -> dict[str, Metric]:
    every = phases.metrics(facts)
    told = phases.recomputable(facts.spec, facts.parsed, facts.lsm, Below())
    name = facts.spec.name
    return {f"{name}.{key}": metric for key, metric in told.items()} | {
        f"{name}.{key}": every[f"{name}.{key}"] for key in _OWN
    }


def _without_disks(facts: PhaseFacts) -> PhaseFacts:
    """Return a phase as far as it can be told where others used the same devices."""
    return replace(facts, zoned=None, conventional=None, traced=None, zones=None)


def of_all(facts: RunFacts, together: TenantFacts, records: Sequence[TenantRecord]) -> list[Issue]:
    """Judge what belongs to the run as a whole, then each tenant."""
    found = list(judge(replace(facts, tenants=together)))
    for record in records:
        found += record.issues(facts.spec, record.ledger())
    return found
