"""Tables of a campaign's bytes: ledgers, closures between layers, RocksDB's LSM levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from analysis import numbers
from analysis.read.flow import Flow
from harness import nulls
from harness.store.ledger import Closure, ClosureState, LedgerEntry
from harness.tables import Table, tabulate
from harness.tools.rocksdb_stats import LevelRow


class _RunEntry(NamedTuple):
    run: str
    entry: LedgerEntry


class _RunClosure(NamedTuple):
    run: str
    interval: str
    closure: Closure


class _RunLevel(NamedTuple):
    run: str
    phase: str
    level: LevelRow


def ledger(flows: Sequence[Flow]) -> Table:
    """Return one row per run and interval."""
    rows = (_RunEntry(flow.run, entry) for flow in flows for entry in flow.entries)
    return tabulate(_LEDGER, rows)


def closures(flows: Sequence[Flow]) -> Table:
    """Return one row per run, interval and pair of layers, in exact bytes."""
    rows = (
        _RunClosure(flow.run, entry.name, closure)
        for flow in flows
        for entry in flow.entries
        for closure in entry.closures
    )
    return tabulate(_CLOSURES, rows)


def lsm_levels(flows: Sequence[Flow]) -> Table:
    """Return one row per run, phase and LSM level."""
    rows = (_RunLevel(flow.run, *level) for flow in flows for level in flow.levels)
    return tabulate(_LEVELS, rows)


def count_states(table: Table) -> str:
    """Return how many closures have each state, such as ``5 exact, 1 broken``."""
    counts = Counter(table.column("state"))
    return ", ".join(f"{counts[state]} {state.value}" for state in ClosureState if counts[state])


def _bytes(size: Callable[[LedgerEntry], int | None]) -> Callable[[_RunEntry], str]:
    return lambda row: numbers.human(size(row.entry), "B")


_LEDGER: dict[str, Callable[[_RunEntry], str]] = {
    "run": lambda row: row.run,
    "interval": lambda row: row.entry.name,
    "user U": _bytes(lambda entry: entry.user),
    "WAL": _bytes(lambda entry: entry.wal),
    "flush": _bytes(lambda entry: entry.flush),
    "compaction": _bytes(lambda entry: entry.compaction),
    "submitted F": _bytes(lambda entry: sum(entry.submitted.values())),
    "accepted H": _bytes(lambda entry: sum(entry.accepted.values()) if entry.accepted else None),
    "gc": _bytes(lambda entry: entry.gc),
    "metadata and filling": _bytes(lambda entry: entry.overhead),
    "pad P": _bytes(lambda entry: None if entry.pad is None else sum(entry.pad.values())),
    "media M": _bytes(lambda entry: entry.media_bytes),
    "allocated A": _bytes(lambda entry: entry.allocated),
    "live V": _bytes(lambda entry: entry.live),
}

_CLOSURES: dict[str, Callable[[_RunClosure], str]] = {
    "run": lambda row: row.run,
    "interval": lambda row: row.interval,
    "upper layer": lambda row: row.closure.upper,
    "lower layer": lambda row: row.closure.lower,
    "state": lambda row: row.closure.state.value,
    "upper": lambda row: nulls.text(row.closure.above),
    "lower": lambda row: nulls.text(row.closure.below),
    "difference": lambda row: nulls.text(nulls.difference(row.closure.above, row.closure.below)),
    "explained": lambda row: ", ".join(
        f"{name} {size}" for name, size in row.closure.explained.items()
    ),
    "unexplained": lambda row: nulls.text(row.closure.unexplained),
    "note": lambda row: row.closure.note,
}

_LEVELS: dict[str, Callable[[_RunLevel], str]] = {
    "run": lambda row: row.run,
    "phase": lambda row: row.phase,
    "level": lambda row: row.level.level,
    "files": lambda row: str(row.level.files),
    "size": lambda row: numbers.human(row.level.size, "B"),
    "score": lambda row: f"{row.level.score:g}",
    "read GiB": lambda row: f"{row.level.read_gb:g}",
    "written GiB": lambda row: f"{row.level.write_gb:g}",
    "moved GiB": lambda row: f"{row.level.moved_gb:g}",
    "W-Amp": lambda row: f"{row.level.write_amplification:g}",
    "seconds": lambda row: f"{row.level.seconds:g}",
    "jobs": lambda row: str(row.level.jobs),
}
