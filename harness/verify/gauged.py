"""Compares gauges with other counts of the same: barriers, a level's ledger, CPU time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from harness.levels import LEVELS
from harness.levels.level import Level
from harness.run.ledger import BarrierSnapshot
from harness.run.tenant import prefixed
from harness.store import packed
from harness.store.result import CUT_SHORT, Result
from harness.verify.sampled import (
    EDGE,
    PhaseWindow,
    SeriesTable,
    outside,
    read,
    windows,
)
from harness.verify.separate import check
from harness.verify.stored import StoredTenant

SYSTEM = "series/system.csv"
MEDIA = "series/media.csv"
_CPU = ("load_user_us", "load_system_us")
_MICRO = 1_000_000


def differences(folder: Path, result: Result, tenants: Sequence[StoredTenant]) -> Iterator[str]:
    """Yield one line per gauge that contradicts another count."""
    for tenant in tenants:
        file = f"series/{prefixed(tenant.spec.name, 'level')}.csv"
        yield from check(_level(folder, file, tenant, result), file)
    if not tenants[0].spec.name:
        yield from check(_media(folder, tenants[0], result), MEDIA)
        yield from check(_system(folder, tenants[0]), SYSTEM)


def _level(folder: Path, file: str, tenant: StoredTenant, result: Result) -> Iterator[str]:
    level, table = LEVELS.get(tenant.spec.level), read(folder, file)
    if level is None or table is None:
        return
    for lines in (
        _counters(folder, level, table, tenant, result),
        _ledger(folder, level, table, tenant),
    ):
        yield from (f"{file}: {text}" for text in lines)


def _media(folder: Path, plain: StoredTenant, result: Result) -> Iterator[str]:
    table = read(folder, MEDIA)
    if table is None or not table.rows:
        return
    phases = windows(folder, plain)
    stopped = result.status in CUT_SHORT
    lines = media_bytes(table, phases, plain.snapshots, stopped=stopped)
    yield from (f"{MEDIA}: {text}" for text in lines)


def _system(folder: Path, plain: StoredTenant) -> Iterator[str]:
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
    """Check that a modelled drive's media bytes grow, and lie between the barriers around them."""
    for name in [column for column in table.rows[0] if column != "t"]:
        known = table.known([name])
        if any(late < early for early, late in pairwise(known.numbers(name))):
            yield f"{name}: falls; a counter only grows"
        count = partial(_media_at, name)
        yield from outside(known, name, phases, snapshots, count, stopped=stopped)


def _media_at(name: str, barrier: BarrierSnapshot) -> int | None:
    media = barrier.counters.media
    return media.accepted.get(name) if media else None


def _counters(
    folder: Path, level: Level, table: SeriesTable, tenant: StoredTenant, result: Result
) -> Iterator[str]:
    """Check that counters lie between the barriers around them, except after a remount."""
    phases = windows(folder, tenant)
    for name in level.counters:
        column = name.replace(".", "_")
        if table.rows and column in table.rows[0]:
            yield from outside(
                table.known([column]),
                column,
                phases,
                tenant.snapshots,
                partial(_counter_at, name),
                stopped=result.status in CUT_SHORT,
                restarts=True,
            )


def _counter_at(name: str, barrier: BarrierSnapshot) -> int | None:
    count = barrier.usage.raw.get(name)
    return count if isinstance(count, int) else None


def _ledger(folder: Path, level: Level, table: SeriesTable, tenant: StoredTenant) -> Iterator[str]:
    """Check that gauges of the level's own ledger have values of its lines, in their order."""
    name = prefixed(tenant.spec.name, level.own_ledger)
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
