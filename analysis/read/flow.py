"""Reads the path of the bytes of runs: their ledgers and RocksDB's table of LSM levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from analysis.read import parallel
from analysis.read.load import RunRecord
from analysis.read.memo import Memo
from harness.store import packed
from harness.store.files import load_record
from harness.store.ledger import RUN, Ledger, LedgerEntry
from harness.tools import rocksdb_stats
from harness.tools.rocksdb_stats import LevelRow


class PhaseLevel(NamedTuple):
    """An LSM level after a phase."""

    phase: str
    level: LevelRow


@dataclass(frozen=True, slots=True)
class Flow:
    """The ledger entries of a run and the LSM levels after each phase; empty if not recorded."""

    run: str
    entries: tuple[LedgerEntry, ...]
    levels: tuple[PhaseLevel, ...]


_flows: Memo[Flow] = Memo()


def read_flows(runs: Sequence[RunRecord]) -> list[Flow]:
    """Return the flow of each run.

    Raises:
        ConfigError: a ledger is damaged.
    """
    return _flows.get(runs, lambda fresh: parallel.each(_read, [_FlowJob.of(run) for run in fresh]))


def read_wholes(runs: Sequence[RunRecord]) -> list[LedgerEntry]:
    """Return the ledger entry of each whole run that has one. Raises as ``read_flows``."""
    return [entry for flow in read_flows(runs) for entry in flow.entries if entry.name == RUN]


@dataclass(frozen=True, slots=True)
class _FlowJob:
    """The input of :func:`_read`. It is small, because it is sent to worker processes."""

    folder: Path
    outputs: tuple[tuple[str, str], ...]  # phase and file of its standard output, of ok runs only

    @classmethod
    def of(cls, run: RunRecord) -> Self:
        phases = run.result.phases if run.ok else ()
        return cls(run.path, tuple((phase.name, phase.stdout) for phase in phases))


def _read(job: _FlowJob) -> Flow:
    path = job.folder / "ledger.json"
    entries = load_record(Ledger, path).entries if path.is_file() else ()
    return Flow(job.folder.name, entries, tuple(_levels(job)))


def _levels(job: _FlowJob) -> Iterator[PhaseLevel]:
    for phase, file in job.outputs:
        text = packed.text(job.folder / file)
        for level in rocksdb_stats.levels(text.splitlines()) or ():
            yield PhaseLevel(phase, level)
