"""The ledgers of a campaign, as tables: where bytes went, and which layers agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from analysis import units
from analysis.load import CampaignData, RunRecord
from harness.store.files import load_record
from harness.store.ledger import Closure, Entry, Ledger, State

Rows = list[tuple[str, ...]]
LEDGER_HEADER = (
    "run", "interval", "user U", "WAL", "flush", "compaction", "submitted F", "accepted H", "gc",
    "metadata and filling", "pad P", "media M", "allocated A", "live V",
)  # fmt: skip
CLOSURE_HEADER = (
    "run", "interval", "upper layer", "lower layer", "state", "upper", "lower", "difference",
    "explained", "unexplained", "note",
)  # fmt: skip


def ledger_of(run: RunRecord) -> Ledger | None:
    """Return a run's ledger; older runs and those that never measured have none.

    Raises:
        ConfigError: it is damaged.
    """
    path = run.path / "ledger.json"
    return load_record(Ledger, path) if path.is_file() else None


def ledgers(campaign: CampaignData) -> Iterator[tuple[RunRecord, Ledger]]:
    """Return every run that has a ledger.

    Raises:
        ConfigError: one is damaged.
    """
    for run in campaign.latest:
        ledger = ledger_of(run)
        if ledger is not None:
            yield run, ledger


def ledger_rows(campaign: CampaignData) -> Rows:
    """Return one row per run and interval, bytes for people."""
    return [
        (run.name, entry.name, *map(_bytes, _columns(entry)))
        for run, ledger in ledgers(campaign)
        for entry in ledger.entries
    ]


def closure_rows(campaign: CampaignData) -> Rows:
    """Return one row per run, interval and pair of layers, bytes as they were counted."""
    return [
        (run.name, entry.name, *_closure(closure))
        for run, ledger in ledgers(campaign)
        for entry in ledger.entries
        for closure in entry.closures
    ]


def states(rows: Rows) -> str:
    """Say of the rows of closures how many came out how."""
    counts = Counter(row[CLOSURE_HEADER.index("state")] for row in rows)
    return ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])


def _columns(entry: Entry) -> tuple[int | None, ...]:
    media = list(entry.media.values())
    return (
        entry.user,
        entry.wal,
        entry.flush,
        entry.compaction,
        _total(entry.submitted),
        _total(entry.accepted) if entry.accepted else None,
        entry.gc,
        entry.overhead,
        _total(entry.pad) if entry.pad is not None else None,
        sum(size or 0 for size in media) if media and None not in media else None,
        entry.allocated,
        entry.live,
    )


def _closure(closure: Closure) -> tuple[str, ...]:
    difference = (
        closure.below - closure.above
        if closure.above is not None and closure.below is not None
        else None
    )
    explained = ", ".join(f"{name} {size}" for name, size in closure.explained.items())
    return (
        closure.upper, closure.lower, closure.state.value, _count(closure.above),
        _count(closure.below), _count(difference), explained, _count(closure.unexplained),
        closure.note,
    )  # fmt: skip


def _total(parts: Mapping[str, int]) -> int:
    return sum(parts.values())


def _bytes(value: int | None) -> str:
    return units.human(value, "B")


def _count(value: int | None) -> str:
    return "" if value is None else str(value)
