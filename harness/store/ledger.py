"""``ledger.json``: where the bytes of a run went, and whether adjacent layers agree.

Letters and formulas are those of docs/methods.md. Null: not counted by anyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.store.codec import SCHEMA_VERSION

# The entry that adds up all phases.
RUN = "run"
# The entry between "level up" and the first phase.
COLD = "cold"


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """What a level counted itself since it came up, exactly; bytes by cause.

    ``payload`` is content and ``filling`` what fills up blocks around it, headers included: both
    were written. ``given_up`` is capacity lost by finishing zones early, ``finishes_by`` how often
    that was (of runs of before it was counted: nothing). ``space`` is what the
    zones behind ``metadata_zones`` hold now, by kind: their sum is what a zone report must show.
    """

    payload: Mapping[str, int]
    filling: Mapping[str, int]
    given_up: Mapping[str, int]
    finishes: int
    resets: int
    space: Mapping[str, int]
    metadata_zones: int
    finishes_by: Mapping[str, int] = field(default_factory=dict)

    @property
    def written(self) -> int:
        """Every byte it wrote."""
        return sum(self.payload.values()) + sum(self.filling.values())


@dataclass(frozen=True, slots=True)
class Witness:
    """What the devices themselves accepted, by a count that is not the kernel's.

    ``accepted`` in bytes by name of the counter, ``covers`` the kernel names behind each;
    ``quantum`` is how coarsely it counts, in bytes (0: to the byte).
    """

    source: str
    quantum: int
    accepted: Mapping[str, int]
    covers: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands of a kind to a device, by the block layer's status (0: done); bytes of writes."""

    device: str
    command: str
    status: int
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Trace:
    """What the tracer had counted at a barrier since the run's tracing began.

    ``devices`` are those it watches, as its program numbers them. ``finishes`` are those that
    changed a zone, without a level's metadata zones; ``pad`` is the capacity that all of them gave
    up, in bytes by cause, and ``pad_held`` the part of it in zones that were not reset since.
    ``problems`` say why the numbers may be too low. ``kernel_seconds`` is CPU time of the programs
    in the kernel, null unless it measures that. ``answers`` counts the answers in
    ``raw/trace.jsonl`` up to here.
    """

    devices: tuple[str, ...]
    commands: tuple[Commands, ...]
    finishes: int
    pad: Mapping[str, int]
    pad_held: int
    problems: tuple[str, ...]
    kernel_seconds: float | None
    answers: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``raw/<point>.counters.json``: counters at a barrier, totals since the devices appeared.

    ``settled``: they stood still, and nothing was in flight. ``written`` and ``read`` in bytes,
    and the time with anything in flight, by kernel name: of the devices ``used``, and of others
    that the witness counts with them. ``zoned`` and ``conventional`` are those used, '' where the
    level uses none. ``zeroing`` are conventional ones of all these that take Write Zeroes, which
    carry no bytes and count as written. ``witness_note`` says why there is no witness.
    ``cold_bytes`` and ``database_bytes`` are live (V). ``trace`` is null where commands were not
    traced, or something was in flight. ``media`` is what drives wrote inside, null unless all tell.
    """

    settled: bool
    zoned: str
    conventional: str
    written: Mapping[str, int]
    read: Mapping[str, int]
    busy_ms: Mapping[str, int]
    zeroing: tuple[str, ...]
    witness: Witness | None
    witness_note: str
    cold_bytes: int
    database_bytes: int
    trace: Trace | None = None
    media: Witness | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def used(self) -> tuple[str, ...]:
        """The devices that the level uses."""
        return tuple(name for name in (self.zoned, self.conventional) if name)


class State(StrEnum):
    """What a closure found."""

    EXACT = "exact"  # equal to the byte, or inside bounds that follow from the format
    CLOSED = "closed"  # within the tolerance
    BROKEN = "broken"
    EXPLAINED = "explained"  # a layer hides its work, and counters of its own account for it
    UNEXPLAINED = "unexplained"
    UNKNOWN = "unknown"  # a side was not counted


@dataclass(frozen=True, slots=True)
class Closure:
    """Two adjacent layers. ``below`` must be within ``low`` and ``high``, which follow from above.

    In bytes, unless ``unit`` says that commands were counted (``1``). ``unexplained`` is what is
    left of ``below`` - ``above`` once ``explained`` is taken off (negative: the lower layer saw
    less).
    """

    upper: str
    lower: str
    state: State
    above: int | None = None
    below: int | None = None
    low: int | None = None
    high: int | None = None
    explained: Mapping[str, int] = field(default_factory=dict)
    unexplained: int | None = None
    note: str = ""
    unit: str = "B"


@dataclass(frozen=True, slots=True)
class Entry:
    """An interval between two barriers: a phase, the cold fill, or all phases together.

    ``user`` is U; ``wal``, ``flush``, ``compaction``, ``other`` are Lw, Lf, Lc, Lm; ``submitted``
    F and ``accepted`` H by device; ``gc`` and ``overhead`` (metadata and filling) make G; ``pad``
    is P by cause, ``finishes`` how many made it, ``media`` M by device. At the end of the interval:
    ``allocated`` A, ``live`` V, ``space`` the kinds of A where the level tells them apart,
    ``since_up`` what was submitted since the level came up. ``settled``: the devices stood still
    there. ``witness`` names who counted H, or says why nobody did; ``witness_failed``: somebody
    should have.
    """

    name: str
    user: int | None
    wal: int | None
    flush: int | None
    compaction: int | None
    other: int | None
    submitted: Mapping[str, int]
    read: Mapping[str, int]
    accepted: Mapping[str, int]
    witness: str
    gc: int | None
    overhead: int | None
    pad: Mapping[str, int] | None
    media: Mapping[str, int | None]
    media_source: str
    allocated: int | None
    live: int
    space: Mapping[str, int]
    since_up: int
    settled: bool
    witness_failed: bool
    closures: tuple[Closure, ...]
    finishes: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """``ledger.json``: the cold fill, every phase in its order, and the run."""

    level: str
    entries: tuple[Entry, ...]
    schema_version: int = SCHEMA_VERSION

    def entry(self, name: str) -> Entry | None:
        """Return an entry by name."""
        return next((entry for entry in self.entries if entry.name == name), None)
