"""What the rules look at: one record per phase, one for the run. Null: not observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.levels.base import DirectIo, LevelUsage
from harness.observe.diskstats import DiskCounters
from harness.observe.zones import ZoneCounts
from harness.store.ledger import Ledger
from harness.store.result import Issue, Utilisation
from harness.store.spec import PhaseRole, PhaseSpec, RunSpec
from harness.tools.rocksdb_log import Log
from harness.workloads.base import Parsed


@dataclass(frozen=True, slots=True)
class PhaseFacts:
    """A phase as it happened. ``zoned`` and ``conventional`` are the devices' counter deltas.

    ``output`` is everything db_bench printed, ``database_log`` the end of RocksDB's LOG, ``lsm``
    what the whole of it says (null where the level does not show it). ``seconds`` are db_bench's,
    with opening and closing the database.
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

    @property
    def measured(self) -> bool:
        """Whether its numbers are results."""
        return self.spec.role is PhaseRole.MEASURED

    @property
    def ended_well(self) -> bool:
        """Whether db_bench ended by itself with status 0."""
        return self.exit_code == 0 and not (self.timed_out or self.stalled)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as it happened. ``kernel_log`` is null when it could not be read.

    ``idle_written`` is what others wrote to the devices in the moment before the run (bytes);
    ``clock_jump`` is how far real time and monotonic time moved apart (seconds). ``caveats`` are
    the level's own, with what its checker found; ``buffers_conventional`` as in ``Level``.
    ``ledger`` is null when the run ended before its first phase.
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
