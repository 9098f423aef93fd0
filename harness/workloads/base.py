"""What every program that loads a database tells of a phase, whichever program it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.levels.base import LevelUp
from harness.metrics import CATALOGUE
from harness.store import packed
from harness.store.result import Metric
from harness.store.spec import PhaseSpec, Scalar
from harness.tools import histogram
from harness.tools.histogram import Histogram
from harness.tools.rocksdb_stats import LevelRow, Statistics

_OUTPUT_LIMIT = 4 * 1024 * 1024  # programs print tens of KiB; more is a fault, kept in raw/

# Seconds since the program began, and the other columns of a series.
Rows = list[tuple[float, str]]

# Metric name and quantile in 1/10,000.
_QUANTILES = (
    ("latency_p50", 5_000),
    ("latency_p99", 9_900),
    ("latency_p99_9", 9_990),
    ("latency_p99_99", 9_999),
)


class Summary(Protocol):
    """What a program says at its end: ``operations`` done in ``seconds``."""

    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def operations(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a phase printed. ``summary`` is null unless there is exactly one, of this benchmark.

    ``summaries`` counts all summary lines; ``histograms`` by operation (write, read, update, …);
    ``skipped``: db_bench refused to fill an existing database; ``assertions``: a debug build.
    ``statistics`` are null unless they were asked for, ``levels`` where ``stats`` printed nothing.
    ``user_bytes`` is U where the program counts it itself. ``intended`` are histograms from the
    intended start of operations, of open loops only. ``wrong_reads`` did not give what the
    database must hold; null where nobody looked. ``more`` are metrics that this
    program alone tells, by what they are keyed with behind the phase.
    """

    summary: Summary | None
    summaries: int
    histograms: dict[str, Histogram]
    warnings: tuple[str, ...]
    skipped: bool
    assertions: bool
    statistics: Statistics | None = None
    levels: tuple[LevelRow, ...] | None = None
    user_bytes: int | None = None
    intended: dict[str, Histogram] = field(default_factory=dict)
    wrong_reads: int | None = None
    more: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def stored(self) -> dict[str, Histogram]:
        """Histograms by the name under which they are stored."""
        late = {f"{operation}-intended": one for operation, one in self.intended.items()}
        return {**self.histograms, **late}


class Report(Protocol):
    """Where a program tells how many operations it did in each second, while it runs."""

    @property
    def path(self) -> Path:
        """The file that grows line by line."""

    @property
    def flags(self) -> dict[str, Scalar]:
        """What the program has to be told."""

    @property
    def columns(self) -> str:
        """Names of the columns behind the time, the first is ``operations``."""

    def rows(self, text: str) -> Rows:
        """Return seconds and these columns; ToolFailed where a report is damaged."""


class LoadProgram(Protocol):
    """A module of this room: one program that loads a database."""

    def path(self, db_bench: Path) -> Path:
        """Return the program's file; ``db_bench`` is the run's. HostError: it is missing."""

    def report(self, up: LevelUp, csv: Path, stderr: Path) -> Report:
        """Return where the program will report."""

    def argv(
        self, spec: PhaseSpec, up: LevelUp, seed: int, *,
        first: bool, program: Path, report: Report, key_seed: int = 0,
    ) -> list[str]:  # fmt: skip
        """Return the argument list. ``seed`` is the phase's, ``key_seed`` the run's."""

    def parse(self, phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:
        """Read what a phase printed; ToolFailed when it is damaged."""

    def operations_in(self, line: str) -> int:
        """Return the operations of a complete line of the report, 0 for other lines."""

    def kept_rows(self, raw: Path, name: str) -> Rows:
        """Return the report's rows of a phase from what is kept of it; ToolFailed: none."""


def user_bytes(phase: PhaseSpec, parsed: Parsed | None) -> int | None:
    """Return U of a phase in bytes, null when it did not finish."""
    if parsed is None or parsed.summary is None:
        return None
    if parsed.user_bytes is not None:
        return parsed.user_bytes
    return parsed.summary.operations * phase.user_bytes_per_operation


def metrics(phase: PhaseSpec, parsed: Parsed) -> dict[str, Metric]:
    """Return the phase's metrics by catalogue name; null where the output does not tell.

    Latencies are of all operations of the phase together; each operation's own histogram is
    stored beside them.
    """
    summary = parsed.summary
    seconds = summary.seconds if summary else None
    done = summary.operations if summary else None
    values: dict[str, int | float | None] = {
        # db_bench cuts its own ops/sec to an integer; the quotient keeps slow phases exact.
        "throughput": done / seconds if done is not None and seconds else None,
        "seconds": seconds,
        "operations": done,
        "user_bytes": user_bytes(phase, parsed),
    }
    values.update(_latencies(parsed.histograms.values() if summary else ()))
    if parsed.intended:
        late = _latencies(parsed.intended.values() if summary else ())
        values.update({f"intended_{name}": value for name, value in late.items()})
    known = {name: Metric(value, CATALOGUE[name].unit) for name, value in values.items()}
    return known | dict(parsed.more)


def missing(found: Statistics | None, tickers: Iterable[str], times: Iterable[str]) -> list[str]:
    """Return the names that RocksDB should have told and did not."""
    told: tuple[Mapping[str, object], ...] = (
        (found.tickers, found.histograms) if found else ({}, {})
    )
    return [name for name in tickers if name not in told[0]] + [
        name for name in times if name not in told[1]
    ]


def text(path: Path) -> str:
    """Return what a program printed, as far as it is looked at; '' where it printed nothing."""
    return packed.text(path, _OUTPUT_LIMIT)


def _latencies(histograms: Iterable[Histogram]) -> dict[str, int | float | None]:
    merged = histogram.merge(histograms)
    return {
        "latency_mean": histogram.mean(merged) if merged else None,
        **{name: histogram.quantile(merged, q) if merged else None for name, q in _QUANTILES},
        "latency_max": merged["max"] if merged else None,
    }
