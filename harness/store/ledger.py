"""``ledger.json``: where the bytes of a run went, and whether adjacent layers agree.

docs/methods.md defines the letters and formulas. Values are bytes unless stated otherwise; null
means that nothing counted them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from harness.nulls import ratio, total
from harness.store.codec import SCHEMA_VERSION

RUN = "run"  # the entry that adds up all phases
MODELLED_MEDIA = "modelled:"  # begins the source of M where a model of a drive counted it
# Name of the part of a modelled drive in files that stores the data. Another part models the time.
CONTENTS = "contents"
COLD = "cold"  # the entry between "level up" and the first phase


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """What a level itself counted since it came up, exactly."""

    payload: Mapping[str, int]  # content written, by cause
    filling: Mapping[str, int]  # headers and padding of blocks around the content, by cause
    given_up: Mapping[str, int]  # capacity lost by finishing zones early, by cause
    finishes: int  # zones finished
    resets: int  # zones reset
    space: Mapping[str, int]  # what the data zones hold now, by kind; a zone report shows the sum
    metadata_zones: int  # zones at the start that are not data zones
    finishes_by: Mapping[str, int] = field(default_factory=dict)  # by cause; {}: not counted

    @property
    def written(self) -> int:
        """All bytes that it wrote."""
        return sum(self.payload.values()) + sum(self.filling.values())


@dataclass(frozen=True, slots=True)
class Witness:
    """What the devices accepted, counted independently of the kernel."""

    source: str  # what counts: QEMU, SMART …
    quantum: int  # resolution of the counters; 0: exact
    accepted: Mapping[str, int]  # by name of the counter
    covers: Mapping[str, tuple[str, ...]]  # kernel names of the devices behind each counter
    read: Mapping[str, int] = field(default_factory=dict)  # bytes read; {}: not counted

    @classmethod
    def of_each(
        cls, source: str, accepted: Mapping[str, int], read: Mapping[str, int] | None = None
    ) -> Self:
        """Return exact counts of single devices, by kernel name."""
        return cls(source, 0, accepted, {name: (name,) for name in accepted}, read or {})


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one device that the kernel completed, and those that it merged into them."""

    reads: int
    reads_merged: int
    writes: int  # zone commands included
    writes_merged: int


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands of one kind to one device that ended with one status."""

    device: str  # kernel name
    command: str  # write, append, finish, reset …
    status: int  # of the block layer; 0: success
    count: int  # number of commands
    bytes: int  # bytes written; 0 for other commands


@dataclass(frozen=True, slots=True)
class Trace:
    """The tracer's totals at a barrier, since tracing of the run began."""

    devices: tuple[str, ...]  # traced devices, in the order in which the program numbers them
    commands: tuple[Commands, ...]  # sorted by device, command and status
    finishes: int  # finishes that changed a data zone
    pad: Mapping[str, int]  # capacity that finishes gave up, by cause
    pad_held: int  # the part of it in zones that were not reset since
    problems: tuple[str, ...]  # why the numbers may be too low
    kernel_seconds: float | None  # CPU time of the BPF programs; null: not measured
    answers: int  # answers in raw/trace.jsonl up to here


@dataclass(frozen=True, slots=True)
class SeriesMark:
    """Length and digest of a sampled series at a barrier, which reveal a later edit."""

    samples: int  # lines without the header
    digest: str  # SHA-256 of the file up to here


@dataclass(frozen=True, slots=True)
class Completions:
    """Requests that a modelled drive completed since it was started."""

    count: int  # all of them
    # Ended at most 2 % of their latency, or 1 us of the model, after the calibrated wake-up.
    on_time: int
    # Sums over all of them, in ns of the kernel's clock.
    late_ns: int  # times by which they ended after the calibrated wake-up
    latency_ns: int  # latencies of the model

    @property
    def on_time_share(self) -> float | None:
        """Share of the requests; null without any."""
        return self.on_time / self.count if self.count > 0 else None

    @property
    def late_share(self) -> float | None:
        """Time by which the requests were late / their time in the model."""
        return ratio(self.late_ns, self.latency_ns)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``raw/<point>.counters.json``: counters at a barrier, since the devices appeared.

    Maps are by kernel name. They hold the devices that the level uses, and others that the witness
    counts together with them.
    """

    settled: bool  # the counters stood still and nothing was in flight
    zoned: str  # zoned device in use; '' for none
    conventional: str  # conventional device in use; '' for none
    written: Mapping[str, int]  # bytes submitted for writing
    read: Mapping[str, int]  # bytes submitted for reading
    busy_ms: Mapping[str, int]  # milliseconds with anything in flight
    zeroing: tuple[str, ...]  # devices that take Write Zeroes: no data, but counted as written
    witness: Witness | None  # what the devices accepted
    witness_note: str  # why there is no witness
    cold_bytes: int  # live cold data (part of V)
    database_bytes: int  # live database files (part of V)
    trace: Trace | None  # null: not traced, or something was in flight
    media: Witness | None  # what the drives wrote to their media; null unless all report it
    # Reads of the barriers' own tools so far. ``read`` and ``busy_ms`` include them, but they count
    # for no interval.
    tools_read: Mapping[str, int]
    tools_busy_ms: Mapping[str, int]
    series: Mapping[str, SeriesMark]  # by the name of the series
    completions: Mapping[str, Completions]  # by modelled drive; empty unless all are modelled
    requests: Mapping[str, Requests]  # without those of barrier tools
    counted_by: str  # what counts ``written`` and ``read``: the kernel, or CONTENTS
    schema_version: int = SCHEMA_VERSION  # of this file

    @property
    def used(self) -> tuple[str, ...]:
        """The devices that the level uses."""
        return tuple(name for name in (self.zoned, self.conventional) if name)

    def read_for_run(self, name: str) -> int:
        """Return the bytes read from a device, without the reads of barrier tools."""
        return self.read[name] - self.tools_read.get(name, 0)

    def busy_for_run(self, name: str) -> int:
        """Return the busy milliseconds of a device, without the reads of barrier tools."""
        return self.busy_ms[name] - self.tools_busy_ms.get(name, 0)

    def completed_since(self, before: Snapshot) -> Completions | None:
        """Return what all modelled drives completed since another barrier.

        Null if there is no modelled drive, or if one was not counted at that barrier.
        """
        if not self.completions or not self.completions.keys() <= before.completions.keys():
            return None
        pairs = [(before.completions[name], done) for name, done in self.completions.items()]
        return Completions(
            sum(done.count - early.count for early, done in pairs),
            sum(done.on_time - early.on_time for early, done in pairs),
            sum(done.late_ns - early.late_ns for early, done in pairs),
            sum(done.latency_ns - early.latency_ns for early, done in pairs),
        )


class ClosureState(StrEnum):
    """Whether two adjacent layers agree."""

    EXACT = "exact"  # equal to the byte, or inside bounds that follow from the format
    CLOSED = "closed"  # within the tolerance
    BROKEN = "broken"
    EXPLAINED = "explained"  # a layer hides its work, but its own counters account for it
    UNEXPLAINED = "unexplained"
    UNKNOWN = "unknown"  # a side was not counted


@dataclass(frozen=True, slots=True)
class Closure:
    """Comparison of two adjacent layers."""

    upper: str  # name of the upper layer
    lower: str  # name of the lower layer
    state: ClosureState  # the result
    above: int | None = None  # what the upper layer counted
    below: int | None = None  # what the lower layer counted
    low: int | None = None  # smallest ``below`` that agrees with ``above``
    high: int | None = None  # largest ``below`` that agrees with ``above``
    explained: Mapping[str, int] = field(default_factory=dict)  # known differences, by cause
    unexplained: int | None = None  # below - above - explained; negative: the lower saw less
    note: str = ""  # why a side was not counted, or what explains the difference
    unit: str = "B"  # ``1`` where commands are compared


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An interval between two barriers: a phase, the cold fill, or all phases together."""

    name: str  # of the phase, ``cold`` or ``run``
    user: int | None  # U: keys and values that the workload wrote
    wal: int | None  # Lw: written to the WAL
    flush: int | None  # Lf: tables written by flushes
    compaction: int | None  # Lc: tables written by compactions
    other: int | None  # Lm: all other files of the database
    submitted: Mapping[str, int]  # F: submitted by the kernel, by device
    read: Mapping[str, int]  # read, by device
    accepted: Mapping[str, int]  # H: accepted by the devices, by counter
    witness: str  # what counted H, or why nothing did
    gc: int | None  # part of G: copied by the level's garbage collection
    overhead: int | None  # part of G: metadata and filling
    pad: Mapping[str, int] | None  # P: capacity given up by finishes, by cause
    media: Mapping[str, int | None]  # M: written to the media, by device
    media_source: str  # what counted M, or why nothing did
    allocated: int | None  # A at the end: zone bytes in use
    live: int  # V at the end: cold data and database files
    space: Mapping[str, int]  # A at the end by kind, where the level distinguishes them
    since_up: int  # submitted since the level came up
    settled: bool  # the devices stood still at the end
    witness_failed: bool  # H should have been counted and was not
    closures: tuple[Closure, ...]  # comparisons of adjacent layers
    finishes: Mapping[str, int] | None  # finishes by cause; null: not counted

    @property
    def media_bytes(self) -> int | None:
        """Written to the media of all devices; None if one of them is unknown."""
        return total(self.media.values()) if self.media else None


@dataclass(frozen=True, slots=True)
class Ledger:
    """``ledger.json``: the cold fill, every phase in its order, and the run."""

    level: str
    entries: tuple[LedgerEntry, ...]
    schema_version: int = SCHEMA_VERSION

    def entry(self, name: str) -> LedgerEntry | None:
        """Return the entry of that name, or None."""
        return next((entry for entry in self.entries if entry.name == name), None)
