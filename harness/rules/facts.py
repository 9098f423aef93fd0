"""What the rules look at: one record per phase, one for the run. Null: not observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.levels.base import DirectIo, LevelUsage
from harness.nulls import difference
from harness.observe.diskstats import DiskCounters
from harness.observe.zone_trace import Traced
from harness.observe.zones import ZoneCounts
from harness.store.ledger import Ledger
from harness.store.result import Issue, Utilisation
from harness.store.spec import PhaseRole, PhaseSpec, Reason, RunSpec
from harness.tools.rocksdb_log import Log
from harness.workloads.base import Parsed
from harness.workloads.rocksdb import Below


@dataclass(frozen=True, slots=True)
class PhaseFacts:
    """A phase as it happened. ``zoned`` and ``conventional`` are the devices' counter deltas.

    ``output`` is everything db_bench printed, ``database_log`` the end of RocksDB's LOG, ``lsm``
    what the whole of it says (null where the level does not show it). ``seconds`` are db_bench's,
    with opening and closing the database. ``traced`` is what the driver was seen to do between the
    same barriers.
    """

    spec: PhaseSpec
    parsed: Parsed | None
    parse_error: str
    exit_code: int | None
    signal: int | None
    timed_out: bool
    stalled: bool
    output: str
    database_log: str
    zoned: DiskCounters | None
    conventional: DiskCounters | None
    before: LevelUsage
    after: LevelUsage
    zones: ZoneCounts | None
    load_seconds: float | None
    harness_seconds: float | None
    lsm: Log | None = None
    seconds: float | None = None
    traced: Traced | None = None
    load_instructions: float | None = None

    @property
    def measured(self) -> bool:
        """Whether its numbers are results."""
        return self.spec.role is PhaseRole.MEASURED

    @property
    def gc_bytes(self) -> int | None:
        """What the level's garbage collection moved."""
        return difference(self.before.gc_bytes, self.after.gc_bytes)

    @property
    def below(self) -> Below:
        """What reached the devices."""
        disks = [disk for disk in (self.zoned, self.conventional) if disk]
        if not disks:
            return Below()
        read = sum(disk.read_bytes for disk in disks) - (self.gc_bytes or 0)
        return Below(sum(disk.write_bytes for disk in disks), read)

    @property
    def ended_well(self) -> bool:
        """Whether db_bench ended by itself with status 0."""
        return self.exit_code == 0 and not (self.timed_out or self.stalled)


@dataclass(frozen=True, slots=True)
class TenantFacts:
    """How the tenants of a run were together.

    ``died`` says which of them did and how, '' when none; ``units`` whether each had its own;
    ``spread`` is how many seconds apart those ended that last to the end.
    """

    died: str = ""
    units: bool = True
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as it happened. ``kernel_log`` is null when it could not be read.

    ``idle_written`` is what others wrote to the devices in the moment before the run (bytes);
    ``clock_jump`` is how far real time and monotonic time moved apart (seconds). ``caveats`` are
    the level's own, with what its checker found; ``buffers_conventional`` as in ``Level``.
    ``ledger`` is null when the run ended before its first phase. ``untraced`` is why commands were
    not traced although they should have been. ``tenants`` is null in a run of one workload.
    """

    spec: RunSpec
    uses_zoned: bool
    phases: tuple[PhaseFacts, ...]
    kernel_log: str | None
    utilisation: Utilisation | None
    idle_written: Mapping[str, int]
    clock_jump: float
    direct_io: DirectIo | None = None
    caveats: tuple[Issue, ...] = ()
    buffers_conventional: bool = False
    ledger: Ledger | None = None
    untraced: Reason | None = None
    tenants: TenantFacts | None = None
