"""Compares gauges with other counts of the same: barriers, a level's ledger, CPU time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from harness.levels import LEVELS
from harness.levels.level import Level
from harness.run.ledger import BarrierSnapshot
from harness.run.tenant import prefixed
from harness.store import packed
from harness.store.result import Result, Status
from harness.verify.sampled import (
    EDGE,
    PhaseWindow,
    SampledTenant,
    SeriesTable,
    between,
    read,
    windows,
)
from harness.verify.separate import check

SYSTEM = "series/system.csv"
MEDIA = "series/media.csv"
_CPU = ("load_user_us", "load_system_us")
_MICRO = 1_000_000


def differences(folder: Path, result: Result, tenants: Sequence[SampledTenant]) -> Iterator[str]:
    """Yield one line per gauge that contradicts another count."""
    for tenant in tenants:
        file = f"series/{prefixed(tenant.name, 'level')}.csv"
        yield from check(_level(folder, file, tenant, result), file)
    if not tenants[0].name:
        yield from check(_media(folder, tenants[0], result), MEDIA)
        yield from check(_system(folder, tenants[0]), SYSTEM)


def _level(folder: Path, file: str, tenant: SampledTenant, result: Result) -> Iterator[str]:
    level, table = LEVELS.get(tenant.level), read(folder, file)
    if level is None or table is None:
        return
    for lines in (
        _counters(folder, level, table, tenant, result),
        _ledger(folder, level, table, tenant),
    ):
        yield from (f"{file}: {text}" for text in lines)


def _media(folder: Path, plain: SampledTenant, result: Result) -> Iterator[str]:
    table = read(folder, MEDIA)
    if table is None or not table.rows:
        return
    stopped = result.status in (Status.ABORTED, Status.FAILED)
    phases = windows(folder, plain)
    lines = media_bytes(table, phases, plain.stored.snapshots, stopped=stopped)
    yield from (f"{MEDIA}: {text}" for text in lines)


def _system(folder: Path, plain: SampledTenant) -> Iterator[str]:
    table = read(folder, SYSTEM)
    if table is not None:
        yield from (f"{SYSTEM}: {text}" for text in _load(table, windows(folder, plain)))


def media_bytes(
    table: SeriesTable,
    phases: Sequence[PhaseWindow],
    snapshots: Sequence[BarrierSnapshot],
    *,
    stopped: bool,
) -> Iterator[str]:
    """Check that a modelled drive's media bytes grow, and lie between the barriers around them.

    A run that was ``stopped`` has no barrier after its last writes.
    """
    first, last = snapshots[0], snapshots[-1]
    for name in [column for column in table.rows[0] if column != "t"]:
        known = table.known([name])
        values = known.numbers(name)
        if any(late < early for early, late in pairwise(values)):
            yield f"{name}: falls; a counter only grows"
        for t, value in zip(known.times, values, strict=True):
            low, high = between(t, phases, first, last)
            counts = [one.counters.media for one in (low, high)]
            floor, ceiling = (one.accepted.get(name) if one else None for one in counts)
            if floor is None or ceiling is None:
                continue
            if value < floor or (value > ceiling and not (stopped and high is last)):
                yield f"{name}: has {value} at {t:.3f} s, the barriers give {floor} to {ceiling}"
                break


def _counters(
    folder: Path, level: Level, table: SeriesTable, tenant: SampledTenant, result: Result
) -> Iterator[str]:
    """Check that counters lie between the barriers around them, except after a remount."""
    phases, snapshots = windows(folder, tenant), tenant.stored.snapshots
    first, last = snapshots[0], snapshots[-1]
    unbounded = result.status in (Status.ABORTED, Status.FAILED)
    for name in level.counters:
        column = name.replace(".", "_")
        if not table.rows or column not in table.rows[0]:
            continue
        known = table.known([column])
        for t, value in zip(known.times, known.numbers(column), strict=True):
            low, high = between(t, phases, first, last)
            floor, ceiling = (one.usage.raw.get(name) for one in (low, high))
            if not isinstance(floor, int) or not isinstance(ceiling, int) or floor > ceiling:
                continue
            if value < floor or (value > ceiling and not (unbounded and high is last)):
                yield f"{column}: has {value} at {t:.3f} s, the barriers give {floor} to {ceiling}"
                break


def _ledger(folder: Path, level: Level, table: SeriesTable, tenant: SampledTenant) -> Iterator[str]:
    """Check that gauges of the level's own ledger have values of its lines, in their order."""
    name = prefixed(tenant.name, level.own_ledger)
    opened = packed.opened(folder / "raw" / name) if level.own_ledger else None
    if opened is None:
        return
    with opened as lines:
        samples = level.own_samples(lines)
        sample = next(samples, None)
        for t, row in zip(table.times, table.rows, strict=True):
            values = [cell for column, cell in row.items() if column != "t"]
            if not any(values):
                continue
            while sample is not None and [str(value) for value in sample] != values:
                sample = next(samples, None)
            if sample is None:
                yield f"has values at {t:.3f} s that no line of raw/{name} gives in this order"
                return


def _load(table: SeriesTable, phases: Sequence[PhaseWindow]) -> Iterator[str]:
    """Check that the CPU time in a phase is at most its programs' recorded CPU time."""
    if not table.rows or _CPU[0] not in table.rows[0]:
        return
    known = table.known(_CPU)
    spent = [sum(pair) for pair in zip(*(known.numbers(column) for column in _CPU), strict=True)]
    for phase in phases:
        inside = [
            value
            for t, value in zip(known.times, spent, strict=True)
            if phase.begin + EDGE <= t <= phase.end - EDGE
        ]
        if any(late < early for early, late in pairwise(inside)):
            yield f"{'+'.join(_CPU)}: falls in phase {phase.name}; CPU time only grows"
        elif inside and phase.load_seconds is not None:
            most = (phase.load_seconds + EDGE) * _MICRO
            if inside[-1] - inside[0] > most:
                yield (
                    f"{'+'.join(_CPU)}: grows by {inside[-1] - inside[0]} µs in phase "
                    f"{phase.name}, its process.json has {phase.load_seconds} s"
                )
