"""A stored run read back from its raw files: barriers and facts of phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.levels import LEVELS
from harness.levels.level import LevelUsage
from harness.observe import zone_reports
from harness.rules.facts import PhaseFacts
from harness.run import phase_facts
from harness.run.ledger import BarrierSnapshot
from harness.run.phase_files import LOG_TAIL
from harness.run.recording import with_media
from harness.run.tenant import phases_of, prefixed
from harness.store import packed
from harness.store.codec import decode
from harness.store.files import load_record, parse_json, read_json, to_record
from harness.store.ledger import Ledger, Snapshot
from harness.store.media_record import NAME as MEDIA
from harness.store.media_record import MediaRecord
from harness.store.result import Metric
from harness.store.spec import PhaseRole, PhaseSpec, TenantSpec
from harness.tools import rocksdb_log
from harness.tools.rocksdb_log import Log
from harness.workloads.load_program import messages, text


@dataclass(frozen=True, slots=True)
class StoredTenant:
    """Barriers (level up, cold data, each phase) and facts of a tenant.

    ``filled`` is the barrier after the last fill phase. ``metadata_zones`` as in ``Level``.
    """

    spec: TenantSpec
    snapshots: tuple[BarrierSnapshot, ...]
    facts: tuple[PhaseFacts, ...]
    filled: BarrierSnapshot
    metadata_zones: int


@dataclass(frozen=True, slots=True)
class RecomputedTenant:
    """A tenant and all that its raw files give; a plain run has one without a name.

    ``phases`` are its planned ones. ``alone``: no other tenant uses its file system. ``stored`` is
    null before its cold data was written, and ``ledger`` also on shared devices. ``damage`` names a
    damaged timeline, which leaves the costs of zones unknown; '' for none.
    """

    spec: TenantSpec
    phases: tuple[PhaseSpec, ...]
    alone: bool
    stored: StoredTenant | None = None
    ledger: Ledger | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    damage: str = ""

    @property
    def device(self) -> str:
        """The kernel name of its namespace."""
        return self.spec.device.name

    @property
    def phase(self) -> str:
        """The name of its measured phase."""
        return next(one.name for one in self.phases if one.role is PhaseRole.MEASURED)

    @property
    def uses_zoned(self) -> bool:
        """Whether its level uses zones, as every unknown level might."""
        level = LEVELS.get(self.spec.level)
        return level is None or level.uses_zoned

    @property
    def facts(self) -> tuple[PhaseFacts, ...]:
        """The facts of its phases that have a barrier after them."""
        return self.stored.facts if self.stored else ()

    @property
    def measured(self) -> PhaseFacts | None:
        """Its measured phase; null without a barrier after it."""
        return next((one for one in self.facts if one.measured), None)


def metadata_zones(level: str) -> int:
    """Return the number of metadata zones of a level; 0 if this zonelab does not have it."""
    return LEVELS[level].metadata_zones if level in LEVELS else 0


def read_tenant(raw: Path, tenant: TenantSpec, begun: Sequence[PhaseSpec]) -> StoredTenant | None:
    """Read a tenant; null if the run ended before its cold data was written.

    Raises:
        ZonelabError: a raw file is missing or damaged.
    """
    own = phases_of(tenant, begun)
    if not own and not (raw / f"{prefixed(tenant.name, 'cold')}.counters.json").is_file():
        return None
    skip = metadata_zones(tenant.level)
    snapshots = [read_barrier(raw, prefixed(tenant.name, name), skip) for name in ("up", "cold")]
    filled = snapshots[-1]
    facts: list[PhaseFacts] = []
    for phase in own:
        if phase.role is PhaseRole.MEASURED and tenant.name:
            # The common window has its own barrier, after all tenants are filled.
            snapshots[-1] = read_barrier(raw, prefixed(tenant.name, "start"), skip)
        after = read_barrier(raw, phase.name, skip)
        facts.append(read_phase(raw, phase, snapshots[-1], after))
        snapshots.append(after)
        if phase.role is PhaseRole.FILL:
            filled = after
    start = prefixed(tenant.name, "start")
    in_window = any(phase.role is PhaseRole.MEASURED for phase in own)
    if tenant.name and not in_window and (raw / f"{start}.counters.json").is_file():
        snapshots[-1] = read_barrier(raw, start, skip)  # of the window, before a failed start
    played = read_media(raw.parent)
    if played is not None:
        snapshots = with_media(snapshots, [one.spec.name for one in facts], played)
    return StoredTenant(tenant, tuple(snapshots), tuple(facts), filled, skip)


def read_media(folder: Path) -> MediaRecord | None:
    """Return the record of a run's modelled conventional drive; null: it has none.

    Raises:
        ConfigError: the record is damaged.
    """
    content = packed.text(folder / MEDIA)
    if not content:
        return None
    return to_record(MediaRecord, parse_json(content, folder / MEDIA), folder / MEDIA)


def read_barrier(raw: Path, name: str, skip: int) -> BarrierSnapshot:
    """Return a barrier; ``skip`` is the number of metadata zones of the level."""
    usage = decode(LevelUsage, read_json(raw / f"{name}.usage.json"), f"raw/{name}.usage.json")
    csv = packed.text(raw / f"{name}.zones.csv")
    report = zone_reports.from_csv(csv) if csv else []
    counters = load_record(Snapshot, raw / f"{name}.counters.json")
    if not report:
        return BarrierSnapshot(counters, usage, None)
    allocated = tuple(zone.allocated for zone in report)
    return BarrierSnapshot(counters, usage, allocated, zone_reports.count(report, skip=skip))


def read_phase(
    raw: Path, spec: PhaseSpec, before: BarrierSnapshot, after: BarrierSnapshot
) -> PhaseFacts:
    """Return the facts of a phase; ZonelabError if a raw file is missing or damaged."""
    return phase_facts.collect(
        spec,
        before,
        after,
        read_json(raw / f"{spec.name}.process.json"),
        (text(raw / f"{spec.name}.stdout"), messages(raw / f"{spec.name}.stderr")),
        log_end=lambda: packed.text(raw / f"{spec.name}.LOG")[-LOG_TAIL:],
        read_log=lambda: _log(raw, spec),
    )


def _log(raw: Path, spec: PhaseSpec) -> Log | None:
    opened = packed.opened(raw / f"{spec.name}.LOG")
    if opened is None:
        return None
    with opened as lines:
        return rocksdb_log.parse(lines)
