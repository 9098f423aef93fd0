"""The input of the rules: a record of the run and one of each phase. Null: not observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.levels.level import LevelUsage
from harness.nulls import difference
from harness.observe.diskstats import DiskCounters
from harness.observe.threads import ThreadUse
from harness.observe.tracing.zone_history import Traced
from harness.observe.zone_reports import ZoneCounts
from harness.store.ledger import Completions, Ledger
from harness.store.observed import TenantFacts
from harness.store.result import Issue, Utilisation
from harness.store.spec import PhaseRole, PhaseSpec, Reason, RunSpec, Scalar
from harness.tools.direct_io import DirectIo
from harness.tools.rocksdb_log import Log
from harness.workloads import rocksdb
from harness.workloads.load_program import Parsed, user_bytes
from harness.workloads.rocksdb import Below


@dataclass(frozen=True, slots=True)
class PhaseFacts:
    """A finished phase. ``zoned`` and ``conventional`` are the deltas of the devices' counters.

    ``parse_code`` is the code of ``parse_error``, the reason why ``parsed`` is null.
    ``output`` is everything the program printed, ``database_log`` the end of RocksDB's LOG.
    ``lsm`` is the whole LOG, parsed (null where the level does not show it). ``seconds`` include
    opening and closing the database. ``traced`` counts the driver's commands in the same interval,
    ``completed`` the requests that modelled drives completed. ``threads`` are the program's, by
    name; their use of processors after the last sample is not counted.
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
    busy_seconds: float | None = None  # of all CPUs of the machine
    threads: Mapping[str, ThreadUse] = field(default_factory=dict)
    completed: Completions | None = None
    parse_code: str = ""

    @property
    def measured(self) -> bool:
        """Whether its numbers are results."""
        return self.spec.role is PhaseRole.MEASURED

    @property
    def operations(self) -> int | None:
        """Operations, from the summary line."""
        summary = self.parsed.summary if self.parsed else None
        return summary.operations if summary else None

    @property
    def user(self) -> int | None:
        """U in bytes."""
        return user_bytes(self.spec, self.parsed)

    @property
    def wal(self) -> int | None:
        """Lw in bytes."""
        return self.ticker("rocksdb.wal.bytes")

    @property
    def written(self) -> int | None:
        """L in bytes."""
        return rocksdb.written(self.wal, self.lsm)

    @property
    def gc_events(self) -> int | None:
        """Garbage collections by the level's own counter; null where it has none."""
        return difference(self.before.gc_events, self.after.gc_events)

    @property
    def gc_bytes(self) -> int | None:
        """Bytes that the level's garbage collection moved."""
        return difference(self.before.gc_bytes, self.after.gc_bytes)

    @property
    def gc_seconds(self) -> float | None:
        """Time in which the level collected garbage."""
        return difference(self.before.gc_seconds, self.after.gc_seconds)

    @property
    def below(self) -> Below:
        """Bytes that reached the devices."""
        disks = [disk for disk in (self.zoned, self.conventional) if disk]
        if not disks:
            return Below()
        read = sum(disk.read_bytes for disk in disks) - (self.gc_bytes or 0)
        return Below(sum(disk.write_bytes for disk in disks), read)

    def ticker(self, name: str) -> int | None:
        """Return a ticker of RocksDB, if the benchmark finished."""
        statistics = self.parsed.statistics if self.parsed else None
        if statistics is None or self.operations is None:
            return None
        return statistics.tickers.get(name)

    @property
    def ended_well(self) -> bool:
        """Whether the program ended by itself with status 0."""
        return self.exit_code == 0 and not (self.timed_out or self.stalled)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A finished run. ``kernel_log`` is null when it could not be read.

    ``clock_jump`` is the drift of real time against monotonic time in seconds. ``caveats`` are the
    level's own issues, with those of its checker; ``buffers_conventional`` as in ``Level``.
    ``ledger`` is null when the run ended before its first phase. ``untraced`` is the reason why
    commands were not traced although the study requests it. ``tenants`` is null in a run of one
    workload. ``level_facts`` are what the level found out when it came up.
    """

    spec: RunSpec
    kernel_log: str | None
    clock_jump: float
    uses_zoned: bool = False
    phases: tuple[PhaseFacts, ...] = ()
    utilisation: Utilisation | None = None
    direct_io: DirectIo | None = None
    caveats: tuple[Issue, ...] = ()
    buffers_conventional: bool = False
    ledger: Ledger | None = None
    untraced: Reason | None = None
    tenants: TenantFacts | None = None
    level_facts: Mapping[str, Scalar] = field(default_factory=dict)
