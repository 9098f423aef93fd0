"""Tables of a campaign's bytes: ledgers, closures between layers, RocksDB's LSM levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from analysis import numbers
from analysis.read.flow import Flow, RunLevel
from harness import nulls
from harness.store.ledger import ClosureState, LedgerEntry
from harness.tables import Table, tabulate


class _RunEntry(NamedTuple):
    run: str
    entry: LedgerEntry


def ledger(flows: Sequence[Flow]) -> Table:
    """Return one row per run and interval."""
    rows = (_RunEntry(flow.run, entry) for flow in flows for entry in flow.entries)
    return tabulate(_LEDGER, rows)


def closures(flows: Sequence[Flow]) -> Table:
    """Return one row per run, interval and pair of layers, in exact bytes."""
    rows: list[tuple[str, ...]] = [
        (
            flow.run,
            entry.name,
            one.upper,
            one.lower,
            one.state.value,
            nulls.text(one.above),
            nulls.text(one.below),
            nulls.text(nulls.difference(one.above, one.below)),
            ", ".join(f"{name} {size}" for name, size in one.explained.items()),
            nulls.text(one.unexplained),
            one.note,
        )
        for flow in flows
        for entry in flow.entries
        for one in entry.closures
    ]
    return Table(_CLOSURES, rows)


def lsm_levels(flows: Sequence[Flow]) -> Table:
    """Return one row per run, phase and LSM level."""
    return tabulate(_LEVELS, (level for flow in flows for level in flow.levels))


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

_CLOSURES = (
    *("run", "interval", "upper layer", "lower layer", "state", "upper", "lower", "difference"),
    *("explained", "unexplained", "note"),
)

_LEVELS: dict[str, Callable[[RunLevel], str]] = {
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
