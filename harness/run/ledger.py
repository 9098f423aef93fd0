"""The ledger of a run: the path of bytes between two barriers, and whether layers agree.

A pure function of stored counters, so that ``zonelab verify`` can compute it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise

from harness.levels.level import LevelUsage
from harness.nulls import difference, total
from harness.observe.tracing.zone_history import Traced, traced
from harness.observe.zone_reports import ZoneCounts
from harness.rules.facts import PhaseFacts
from harness.run import closures, modelled_media
from harness.store.ledger import (
    COLD,
    MODELLED_MEDIA,
    RUN,
    Closure,
    Ledger,
    LedgerEntry,
    OwnCounts,
    Snapshot,
)
from harness.store.media_record import ModelledMedia
from harness.store.result import Utilisation
from harness.store.spec import ColdSpec
from harness.workloads import program_of
from harness.workloads.load_program import BareCounts

MODELLED = f"{MODELLED_MEDIA} H + P"
# Causes of early finishes: a level's name and the name in docs/methods.md.
_CAUSES = {"active_limit": "active-limit", "metadata": "metadata-roll", "import": "explicit"}


# A level that has not counted yet.
_NOTHING = OwnCounts({}, {}, {}, finishes=0, resets=0, space={}, metadata_zones=0)


@dataclass(frozen=True, slots=True)
class BarrierSnapshot:
    """Counters at a barrier. ``allocated`` is A by zone in bytes; null if no zones are used.

    ``zones`` is null then too. ``modelled`` are the counts of the conventional device's model; null
    without one.
    """

    counters: Snapshot
    usage: LevelUsage
    allocated: tuple[int, ...] | None
    zones: ZoneCounts | None = None
    modelled: ModelledMedia | None = None

    def largest_utilisation(self, capacity: int) -> float | None:
        """Return the utilisation that free space allows, with ``capacity`` in bytes, if known."""
        free = self.usage.free_bytes
        return None if free is None else min(free / capacity, 1.0)


@dataclass(frozen=True, slots=True)
class _Interval:
    """Bytes above the level between two barriers; ``content`` is the input of the level."""

    name: str
    before: BarrierSnapshot
    after: BarrierSnapshot
    content: int | None
    user: int | None = None
    wal: int | None = None
    flush: int | None = None
    compaction: int | None = None
    closures: tuple[Closure, ...] = ()
    program: str = ""  # the program that counted ``counts``
    counts: BareCounts | None = None


def utilisation(
    wanted: ColdSpec | None,
    filled: BarrierSnapshot,
    database: int,
    capacity: int,
    largest: float | None,
) -> Utilisation:
    """Return V and A at a barrier beside the wanted utilisation, without ``u_drive``.

    ``database`` are the bytes of all databases on the device, ``largest`` is the utilisation that
    the fresh level allowed.
    """
    cold = filled.counters.cold_bytes
    return Utilisation(
        target=wanted.target_utilisation if wanted else 0.0,
        tolerance=wanted.tolerance if wanted else 1.0,
        u_ns=(cold + database) / capacity,
        u_drive=None,
        live_bytes=cold + database,
        allocated_bytes=sum(filled.allocated) if filled.allocated is not None else None,
        cold_bytes=cold,
        database_bytes=database,
        capacity_bytes=capacity,
        max_utilisation=largest,
    )


def build(level: str, snapshots: Sequence[BarrierSnapshot], facts: Sequence[PhaseFacts]) -> Ledger:
    """Return the ledger of a run.

    Args:
        level: its name.
        snapshots: the barriers: level up, where the run's bytes begin, cold data, each phase.
        facts: of the phases that began, in order.
    """
    up, cold, *after = snapshots
    intervals = [_Interval(COLD, up, cold, content=cold.counters.cold_bytes)]
    for phase, (before, end) in zip(facts, pairwise([cold, *after]), strict=True):
        intervals.append(_phase(level, phase, before, end))
    if facts:
        intervals.append(_run(cold, after[-1], intervals[1:]))
    return Ledger(level, tuple(_entry(level, up, interval) for interval in intervals))


def _phase(
    level: str, phase: PhaseFacts, before: BarrierSnapshot, after: BarrierSnapshot
) -> _Interval:
    own = _counted(before, after)
    database = program_of(phase.spec).uses_database
    checks = [closures.user_to_wal(phase)] if database else []
    if own is not None and database:
        checks += closures.rocksdb_to_level(phase, level, own.payload)
    return _Interval(
        phase.spec.name,
        before,
        after,
        content=phase.written,
        user=phase.user,
        wal=phase.wal,
        flush=phase.lsm.tables.flush if phase.lsm else None,
        compaction=phase.lsm.tables.compaction if phase.lsm else None,
        closures=tuple(checks),
        program=phase.spec.program,
        counts=_program_counts(phase, before, after),
    )


def _program_counts(
    phase: PhaseFacts, before: BarrierSnapshot, after: BarrierSnapshot
) -> BareCounts | None:
    """Return the program's counts. It counts resets of empty zones, but sends no command."""
    counts = phase.parsed.counts if phase.parsed else None
    if counts is None or before.allocated is None or after.allocated is None:
        return counts
    pairs = zip(before.allocated, after.allocated, strict=True)
    emptied = sum(held > 0 and not kept for held, kept in pairs)
    return replace(counts, resets=min(emptied, counts.resets))


def _run(before: BarrierSnapshot, after: BarrierSnapshot, phases: Sequence[_Interval]) -> _Interval:
    return _Interval(
        RUN,
        before,
        after,
        content=total(phase.content for phase in phases),
        user=total(phase.user for phase in phases),
        wal=total(phase.wal for phase in phases),
        flush=total(phase.flush for phase in phases),
        compaction=total(phase.compaction for phase in phases),
        program=phases[0].program,
        counts=_all_counts([phase.counts for phase in phases]),
    )


def _all_counts(phases: Sequence[BareCounts | None]) -> BareCounts | None:
    """Return the sum of all phases; null if a program did not count its own commands."""
    known = [counts for counts in phases if counts is not None]
    if len(known) != len(phases):
        return None
    columns = zip(*(astuple(counts) for counts in known), strict=True)
    return BareCounts(*map(sum, columns))


def _entry(level: str, up: BarrierSnapshot, interval: _Interval) -> LedgerEntry:
    before, after = interval.before, interval.after
    last, own = after.counters, _counted(before, after)
    submitted = _written(before, after)
    seen = traced(before.counters, last)
    if seen is not None and (seen.zoned is None or not seen.complete):
        seen = None
    pad = _pad(own, seen)
    media = closures.media(before.counters, last)
    played = (before.modelled, after.modelled)
    taken = modelled_media.closure(before.counters, last, *played)
    programmed = modelled_media.programmed(*played, taken)
    gc = (
        own.payload.get("gc", 0) if own else difference(before.usage.gc_bytes, after.usage.gc_bytes)
    )
    return LedgerEntry(
        name=interval.name,
        user=interval.user,
        wal=interval.wal,
        flush=interval.flush,
        compaction=interval.compaction,
        other=own.payload.get("other", 0) if own else None,
        submitted=submitted,
        read={
            name: last.read_for_run(name) - before.counters.read_for_run(name) for name in last.used
        },
        accepted=closures.accepted(before.counters, last),
        witness=last.witness.source if last.witness else last.witness_note,
        gc=gc,
        overhead=own.payload.get("metadata", 0) + sum(own.filling.values()) if own else None,
        pad=pad,
        finishes=_by_cause(own.finishes_by) if own and own.finishes_by else None,
        media=media or _modelled(last, submitted, pad, programmed),
        media_source=modelled_media.source(
            _media_source(last, measured=bool(media), own=own, pad=pad),
            None if media else after.modelled,
            programmed,
            zoned=bool(last.zoned),
        ),
        allocated=sum(after.allocated) if after.allocated is not None else None,
        live=last.cold_bytes + last.database_bytes,
        space=after.usage.own.space if after.usage.own else _zone_space(after, seen),
        since_up=sum(_written(up, after).values()),
        settled=last.settled,
        witness_failed=bool(last.witness_note),
        closures=(
            *interval.closures,
            *_to_kernel(level, interval, own, gc, sum(submitted.values())),
            *closures.level_to_driver(level, own, before.counters, last),
            *closures.kernel_to_driver(before.counters, last),
            *closures.kernel_to_device(before.counters, last),
            *taken,
            *_space(level, after),
        ),
    )


def _pad(own: OwnCounts | None, seen: Traced | None) -> Mapping[str, int] | None:
    """Return P by cause, from the level's own count, or from the tracer if there is none."""
    if own is not None:
        return _by_cause(own.given_up)
    return seen.pad if seen is not None else None


def _by_cause(counts: Mapping[str, int]) -> dict[str, int]:
    return {_CAUSES.get(why, why): count for why, count in counts.items()}


def _modelled(
    last: Snapshot,
    submitted: Mapping[str, int],
    pad: Mapping[str, int] | None,
    programmed: int | None,
) -> dict[str, int | None]:
    """Return M by device: H + P of zones; of a conventional drive, the bytes that a model wrote.

    Null means unknown: a drive without a count must not look as if it wrote nothing.
    """
    zones = submitted[last.zoned] + sum(pad.values()) if last.zoned and pad is not None else None
    return {name: zones if name == last.zoned else programmed for name in submitted}


def _media_source(
    last: Snapshot, *, measured: bool, own: OwnCounts | None, pad: Mapping[str, int] | None
) -> str:
    if measured and last.media is not None:
        source = last.media.source
        return source if source.startswith(MODELLED_MEDIA) else f"measured: {source}"
    if not last.zoned or pad is None:
        return ""
    return MODELLED if own is not None else f"{MODELLED}, P by the tracer"


def _zone_space(point: BarrierSnapshot, seen: Traced | None) -> dict[str, int]:
    """Return the contents of zones by kind, for a level without counts of its own.

    Bytes that are neither live nor pad are garbage, which includes the level's metadata. A negative
    value means that live bytes are on another device; garbage is then unknown.
    """
    trace = point.counters.trace
    if seen is None or trace is None or point.allocated is None:
        return {}
    live = point.counters.cold_bytes + point.counters.database_bytes
    garbage = sum(point.allocated) - live - trace.pad_held
    known = {"live": live, "garbage": garbage} if garbage >= 0 else {}
    return {**known, "pad": trace.pad_held}


def _to_kernel(
    level: str, interval: _Interval, own: OwnCounts | None, gc: int | None, submitted: int
) -> list[Closure]:
    """Compare the count of program, level or RocksDB with the bytes that the kernel submitted."""
    before, after = interval.before.counters, interval.after.counters
    if interval.counts is not None:
        counted = (interval.program, interval.counts, before, after)
        return [
            *closures.program_to_kernel(*counted),
            *closures.commands_to_driver(*counted),
            *closures.reads_to_device(before, after),
        ]
    if own is not None:
        return [closures.exact(level, after.counted_by, own.written, submitted)]
    upper = "cold data" if interval.name == COLD else "RocksDB"
    return [closures.hidden(upper, closures.KERNEL, interval.content, submitted, gc=gc)]


def _space(level: str, point: BarrierSnapshot) -> list[Closure]:
    """Compare the level's own count of its zones' contents with the zone report."""
    own = point.usage.own
    if own is None or point.allocated is None:
        return []
    shown = sum(point.allocated[own.metadata_zones :])
    return [closures.exact(f"{level} space", "zone report", sum(own.space.values()), shown)]


def _counted(before: BarrierSnapshot, after: BarrierSnapshot) -> OwnCounts | None:
    """Return the level's own counts in the interval; ``space`` is its state at the end."""
    first, last = before.usage.own, after.usage.own
    if last is None:
        return None
    first = first or _NOTHING
    return OwnCounts(
        payload=_minus(last.payload, first.payload),
        filling=_minus(last.filling, first.filling),
        given_up=_minus(last.given_up, first.given_up),
        finishes=last.finishes - first.finishes,
        finishes_by=_minus(last.finishes_by, first.finishes_by),
        resets=last.resets - first.resets,
        space=last.space,
        metadata_zones=last.metadata_zones,
    )


def _written(before: BarrierSnapshot, after: BarrierSnapshot) -> dict[str, int]:
    last = after.counters
    return {name: last.written[name] - before.counters.written[name] for name in last.used}


def _minus(last: Mapping[str, int], first: Mapping[str, int]) -> dict[str, int]:
    return {name: value - first.get(name, 0) for name, value in last.items()}
