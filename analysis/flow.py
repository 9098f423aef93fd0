"""Where a campaign's bytes went, as tables: ledgers, which layers agree, RocksDB's levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from analysis import parallel, units
from analysis.load import CampaignData, RunRecord
from harness.store import packed
from harness.store.files import load_record
from harness.store.ledger import RUN, Closure, Entry, Ledger, State
from harness.tools import rocksdb_stats

Rows = list[tuple[str, ...]]
LEDGER_HEADER = (
    "run", "interval", "user U", "WAL", "flush", "compaction", "submitted F", "accepted H", "gc",
    "metadata and filling", "pad P", "media M", "allocated A", "live V",
)  # fmt: skip
CLOSURE_HEADER = (
    "run", "interval", "upper layer", "lower layer", "state", "upper", "lower", "difference",
    "explained", "unexplained", "note",
)  # fmt: skip
LEVELS_HEADER = (
    "run", "phase", "level", "files", "size", "score", "read GiB", "written GiB", "moved GiB",
    "W-Amp", "seconds", "jobs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flow:
    """What a run's files tell of its bytes; older runs and those that never measured have little.

    ``ledger`` has a row per interval, bytes for people, ``closures`` one per interval and pair of
    layers, bytes as they were counted, ``levels`` one per phase and level behind it. ``whole`` is
    the ledger's entry of the whole run.
    """

    ledger: Rows
    closures: Rows
    levels: Rows
    whole: Entry | None


def of_runs(campaign: CampaignData, runs: Sequence[RunRecord]) -> list[Flow]:
    """Read what is told of the bytes of runs of this campaign, once.

    Raises:
        ConfigError: a ledger is damaged.
    """
    fresh = [run for run in runs if id(run) not in campaign.flows]
    found = parallel.each(_read, [_Files.of(run) for run in fresh])
    for run, flow in zip(fresh, found, strict=True):
        campaign.flows[id(run)] = run, flow
    return [campaign.flows[id(run)][1] for run in runs]


@dataclass(frozen=True, slots=True)
class _Files:
    """Of a run: little, so that another process can be handed it. Levels are those of ok runs."""

    folder: Path
    stdouts: tuple[tuple[str, str], ...]  # phase, file

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        phases = run.result.phases if run.ok else ()
        return cls(run.path, tuple((phase.name, phase.stdout) for phase in phases))


def _read(run: _Files) -> Flow:
    name, path = run.folder.name, run.folder / "ledger.json"
    ledger = load_record(Ledger, path) if path.is_file() else None
    entries = ledger.entries if ledger else ()
    return Flow(
        [(name, entry.name, *map(_bytes, _columns(entry))) for entry in entries],
        [(name, entry.name, *_closure(one)) for entry in entries for one in entry.closures],
        [row for phase, file in run.stdouts for row in _levels(run.folder, phase, file)],
        ledger.entry(RUN) if ledger else None,
    )


def _levels(folder: Path, phase: str, stdout: str) -> Iterator[tuple[str, ...]]:
    """Yield RocksDB's own table of levels behind a phase."""
    text = packed.text(folder / stdout)
    for row in rocksdb_stats.levels(text.splitlines()) or ():
        yield (
            folder.name, phase, row.level, str(row.files), units.human(row.size, "B"),
            f"{row.score:g}", f"{row.read_gb:g}", f"{row.write_gb:g}",
            f"{row.moved_gb:g}", f"{row.write_amplification:g}", f"{row.seconds:g}",
            str(row.jobs),
        )  # fmt: skip


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
