"""The ledger of a run: where bytes went between two barriers, and whether layers agree.

A pure function of what was counted, so that ``zonelab verify`` can compute it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.levels.base import LevelUsage
from harness.metrics import CATALOGUE
from harness.nulls import difference, ratio, total
from harness.observe.zone_trace import Traced, traced
from harness.rules.facts import PhaseFacts
from harness.run import closures
from harness.run.closures import Told
from harness.store.ledger import COLD, RUN, Closure, Entry, Ledger, OwnCounts, Snapshot
from harness.store.result import Metric
from harness.workloads import loads_database

Value = int | float | None

MODELLED = "modelled: H + P"
# Why zones are finished early, in the words of docs/methods.md; levels have their own.
_CAUSES = {"active_limit": "active-limit", "metadata": "metadata-roll", "import": "explicit"}
# Pad and finishes by cause, as metrics: what nobody tells apart is null.
CAUSES = {
    f"{what}_{cause.replace('-', '_')}": (what, cause)
    for what in ("pad", "finishes")
    for cause in ("threshold", "active-limit", "metadata-roll", "explicit")
}


@dataclass(frozen=True, slots=True)
class Point:
    """A barrier. ``allocated`` is A zone by zone in bytes, null where the level uses no zones."""

    snapshot: Snapshot
    usage: LevelUsage
    allocated: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class _Interval:
    """What lies above the level between two barriers; ``content`` is what it was handed."""

    name: str
    before: Point
    after: Point
    content: int | None
    user: int | None = None
    wal: int | None = None
    flush: int | None = None
    compaction: int | None = None
    closures: tuple[Closure, ...] = ()


def build(level: str, up: Point, cold: Point, phases: Sequence[tuple[Told, Point]]) -> Ledger:
    """Return the ledger of a run.

    Args:
        level: its name.
        up: the barrier behind formatting and mounting: the run's bytes begin there.
        cold: the one behind the cold fill.
        phases: those that were begun, in their order, each with the barrier behind it.
    """
    intervals = [_Interval(COLD, up, cold, content=cold.snapshot.cold_bytes)]
    before = cold
    for told, after in phases:
        intervals.append(_phase(level, told, before, after))
        before = after
    if phases:
        intervals.append(_run(cold, before, intervals[1:]))
    return Ledger(level, tuple(_entry(level, up, interval) for interval in intervals))


def of_phases(level: str, points: Sequence[Point], facts: Sequence[PhaseFacts]) -> Ledger:
    """Return the same of barriers (level up, cold data, each phase) and what phases told."""
    told = [Told(one.spec, one.parsed, one.lsm) for one in facts]
    return build(level, points[0], points[1], list(zip(told, points[2:], strict=True)))


def metrics(ledger: Ledger) -> dict[str, Metric]:
    """Return ``<phase>.<metric>`` and ``run.<metric>`` of every entry but the cold fill."""
    return {
        f"{entry.name}.{name}": Metric(value, CATALOGUE[name].unit)
        for entry in ledger.entries
        if entry.name != COLD
        for name, value in {**(_totals(entry) if entry.name == RUN else {}), **_own(entry)}.items()
    }


def _totals(entry: Entry) -> dict[str, Value]:
    """Return for all phases together what each has from elsewhere (harness/run/phases.py)."""
    written = total((entry.wal, entry.flush, entry.compaction))
    device = sum(entry.submitted.values())
    return {
        "user_bytes": entry.user,
        "device_written": device,
        "device_read": sum(entry.read.values()),
        "write_amplification": ratio(device, entry.user),
        "rocksdb_written": written,
        "wa_lsm": ratio(written, entry.user),
        "level_write_amplification": ratio(device, written),
        "gc_bytes": entry.gc,
    }


def _own(entry: Entry) -> dict[str, Value]:
    """Return what only the ledger knows; formulas in docs/methods.md."""
    device = sum(entry.submitted.values())
    pad = sum(entry.pad.values()) if entry.pad is not None else None
    media = total(entry.media.values()) if entry.media else None
    garbage, live = entry.space.get("garbage"), entry.live
    dead = entry.allocated - live if entry.allocated is not None else None
    reached = entry.since_up
    return {
        "small_files_bytes": entry.other,
        "level_overhead": entry.overhead,
        "pad_bytes": pad,
        "media_bytes": media,
        "wa_pad": ratio(device + pad if pad is not None else None, device),
        "wa_dev": ratio(media, device),
        "wa_total": ratio(media, entry.user),
        "allocated_bytes": entry.allocated,
        "live_bytes": live,
        "dead_bytes": dead,
        "garbage_bytes": garbage,
        "space_amplification": ratio(entry.allocated, live),
        "sa_host": ratio(reached + garbage if garbage is not None else None, reached),
        **{
            name: ((entry.pad if what == "pad" else entry.finishes) or {}).get(cause)
            for name, (what, cause) in CAUSES.items()
        },
    }


def _phase(level: str, told: Told, before: Point, after: Point) -> _Interval:
    own = _counted(before, after)
    database = loads_database(told.spec)
    checks = [closures.user_to_wal(told)] if database else []
    if own is not None and database:
        checks += closures.rocksdb_to_level(told, level, own.payload)
    return _Interval(
        told.spec.name,
        before,
        after,
        content=told.written,
        user=told.user,
        wal=told.wal,
        flush=told.lsm.tables.flush if told.lsm else None,
        compaction=told.lsm.tables.compaction if told.lsm else None,
        closures=tuple(checks),
    )


def _run(before: Point, after: Point, phases: Sequence[_Interval]) -> _Interval:
    return _Interval(
        RUN,
        before,
        after,
        content=total(phase.content for phase in phases),
        user=total(phase.user for phase in phases),
        wal=total(phase.wal for phase in phases),
        flush=total(phase.flush for phase in phases),
        compaction=total(phase.compaction for phase in phases),
    )


def _entry(level: str, up: Point, interval: _Interval) -> Entry:
    before, after = interval.before, interval.after
    last, own = after.snapshot, _counted(before, after)
    submitted = _written(before, after)
    seen = traced(before.snapshot, last)
    if seen is not None and (seen.zoned is None or not seen.complete):
        seen = None
    pad = _pad(own, seen)
    media = closures.media(before.snapshot, last)
    gc = (
        own.payload.get("gc", 0) if own else difference(before.usage.gc_bytes, after.usage.gc_bytes)
    )
    return Entry(
        name=interval.name,
        user=interval.user,
        wal=interval.wal,
        flush=interval.flush,
        compaction=interval.compaction,
        other=own.payload.get("other", 0) if own else None,
        submitted=submitted,
        read={name: last.read[name] - before.snapshot.read[name] for name in last.used},
        accepted=closures.accepted(before.snapshot, last),
        witness=last.witness.source if last.witness else last.witness_note,
        gc=gc,
        overhead=own.payload.get("metadata", 0) + sum(own.filling.values()) if own else None,
        pad=pad,
        finishes=_by_cause(own.finishes_by) if own and own.finishes_by else None,
        media=media or _modelled(last.zoned, submitted, pad),
        media_source=_media_source(last, measured=bool(media), own=own, pad=pad),
        allocated=sum(after.allocated) if after.allocated is not None else None,
        live=last.cold_bytes + last.database_bytes,
        space=after.usage.own.space if after.usage.own else _zone_space(after, seen),
        since_up=sum(_written(up, after).values()),
        settled=last.settled,
        witness_failed=bool(last.witness_note),
        closures=(
            *interval.closures,
            _to_kernel(level, interval, own, gc, sum(submitted.values())),
            *closures.level_to_driver(level, own, before.snapshot, last),
            *closures.kernel_to_driver(before.snapshot, last),
            *closures.kernel_to_device(before.snapshot, last),
            *_space(level, after),
        ),
    )


def _pad(own: OwnCounts | None, seen: Traced | None) -> Mapping[str, int] | None:
    """Return P by cause, as the level counts it, else as the tracer saw it."""
    if own is not None:
        return _by_cause(own.given_up)
    return seen.pad if seen is not None else None


def _by_cause(counts: Mapping[str, int]) -> dict[str, int]:
    return {_CAUSES.get(why, why): count for why, count in counts.items()}


def _modelled(
    zoned: str, submitted: Mapping[str, int], pad: Mapping[str, int] | None
) -> dict[str, int | None]:
    """Return M by device: nothing may make a conventional drive look free, so its is not known."""
    return {
        name: size + sum(pad.values()) if name == zoned and pad is not None else None
        for name, size in submitted.items()
    }


def _media_source(
    last: Snapshot, *, measured: bool, own: OwnCounts | None, pad: Mapping[str, int] | None
) -> str:
    if measured and last.media is not None:
        return f"measured: {last.media.source}"
    if not last.zoned or pad is None:
        return ""
    return MODELLED if own is not None else f"{MODELLED}, P by the tracer"


def _zone_space(point: Point, seen: Traced | None) -> dict[str, int]:
    """Return what zones hold by kind, of a level that does not tell.

    What is neither live nor given up is garbage, the level's metadata among it. Where that is less
    than nothing, live bytes lie elsewhere, and garbage is not known.
    """
    trace = point.snapshot.trace
    if seen is None or trace is None or point.allocated is None:
        return {}
    live = point.snapshot.cold_bytes + point.snapshot.database_bytes
    garbage = sum(point.allocated) - live - trace.pad_held
    known = {"live": live, "garbage": garbage} if garbage >= 0 else {}
    return {**known, "pad": trace.pad_held}


def _to_kernel(
    level: str, interval: _Interval, own: OwnCounts | None, gc: int | None, submitted: int
) -> Closure:
    """From the level's own count, where it has one, to what the kernel submitted."""
    if own is not None:
        return closures.exact(level, closures.KERNEL, own.written, submitted)
    upper = "cold data" if interval.name == COLD else "RocksDB"
    return closures.hidden(upper, closures.KERNEL, interval.content, submitted, gc=gc)


def _space(level: str, point: Point) -> list[Closure]:
    """What the level says its zones hold is what the device's zone report shows."""
    own = point.usage.own
    if own is None or point.allocated is None:
        return []
    shown = sum(point.allocated[own.metadata_zones :])
    return [closures.exact(f"{level} space", "zone report", sum(own.space.values()), shown)]


def _counted(before: Point, after: Point) -> OwnCounts | None:
    """Return what the level counted in between; ``space`` stays that of the end."""
    first, last = before.usage.own, after.usage.own
    if first is None or last is None:
        return None
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


def _written(before: Point, after: Point) -> dict[str, int]:
    last = after.snapshot
    return {name: last.written[name] - before.snapshot.written[name] for name in last.used}


def _minus(last: Mapping[str, int], first: Mapping[str, int]) -> dict[str, int]:
    return {name: value - first.get(name, 0) for name, value in last.items()}
