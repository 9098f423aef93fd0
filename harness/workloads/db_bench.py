"""A phase of a run: one db_bench invocation, what it printed, and the metrics of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, ToolFailed
from harness.levels.base import DB_IN_URI, LevelUp
from harness.metrics import CATALOGUE
from harness.store.result import Metric
from harness.store.spec import PhaseSpec, Scalar
from harness.tools import db_bench, histogram
from harness.tools.db_bench import Summary, operations_in
from harness.tools.rocksdb_stats import LevelRow, Statistics

__all__ = ["Parsed", "Report", "Summary", "argv", "metrics", "operations_in", "parse"]

# Set by the runner for every phase, so a workload may not set them.
RESERVED = frozenset(
    {
        "benchmarks",
        "db",
        "fs_uri",
        "use_existing_db",
        "seed",
        "histogram",
        "report_file",
        "stats_interval",
        "stats_interval_seconds",
    }
)

# Benchmarks that db_bench runs on a fresh database only: with --use_existing_db it skips them.
_FRESH = frozenset({"fillseq", "fillrandom", "filluniquerandom", "filluniquerandomdeterministic"})

# Behind every benchmark: RocksDB's tree as it stands then. Costs nothing while it is measured.
_TREE = "stats"

# Asks for RocksDB's tickers and histograms; without these of them it told nothing.
STATISTICS = "statistics"
TABLE_OPEN = "rocksdb.table.open.io.micros"
# Bytes read from table files, by compactions too: of the last level, and of all others.
READ_TICKERS = ("rocksdb.last.level.read.bytes", "rocksdb.non.last.level.read.bytes")
_TICKERS = (
    "rocksdb.wal.bytes",
    "rocksdb.write.wal",
    *READ_TICKERS,
    "rocksdb.stall.micros",
    "rocksdb.block.cache.hit",
    "rocksdb.block.cache.miss",
)

# Metric name and quantile in 1/10,000.
_QUANTILES = (
    ("latency_p50", 5_000),
    ("latency_p99", 9_900),
    ("latency_p99_9", 9_990),
    ("latency_p99_99", 9_999),
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a phase printed. ``summary`` is null unless there is exactly one, of this benchmark.

    ``summaries`` counts all summary lines; ``histograms`` by operation (write, read, update, …);
    ``skipped``: db_bench refused to fill an existing database; ``assertions``: a debug build.
    ``statistics`` are null unless they were asked for, ``levels`` where ``stats`` printed nothing.
    """

    summary: Summary | None
    summaries: int
    histograms: dict[str, dict[str, Any]]
    warnings: tuple[str, ...]
    skipped: bool
    assertions: bool
    statistics: Statistics | None = None
    levels: tuple[LevelRow, ...] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Where db_bench tells how many operations it did in each second, while it runs.

    Its report file is written through ``--fs_uri``: it would lie on the device that is measured,
    and cost bytes and flushes there. Such levels get the lines on stderr instead.
    """

    up: LevelUp
    csv: Path
    stderr: Path

    @property
    def on_stderr(self) -> bool:
        """Whether there is no report file."""
        return self.up.fs_uri is not None

    @property
    def path(self) -> Path:
        """The file that grows line by line."""
        return self.stderr if self.on_stderr else self.csv

    @property
    def flags(self) -> dict[str, Scalar]:
        """What db_bench has to be told."""
        if self.on_stderr:
            return {"stats_interval_seconds": 1}
        return {"report_interval_seconds": 1, "report_file": str(self.csv)}

    def intervals(self, text: str) -> list[tuple[int, int]]:
        """Return (second, operations) pairs; ToolFailed where a report file is damaged."""
        return db_bench.stats_intervals(text) if self.on_stderr else db_bench.intervals(text)


def argv(
    spec: PhaseSpec, up: LevelUp, seed: int, *, first: bool, program: Path, report: Report
) -> list[str]:
    """Return db_bench's argument list for a phase; the ``first`` and all fills start afresh.

    Raises:
        ConfigError: the workload sets a flag that belongs to the runner.
    """
    taken = sorted(RESERVED & set(spec.flags))
    if taken:
        raise ConfigError(
            f"phase {spec.name} sets --{taken[0]}, which zonelab sets itself",
            hint=f"remove {', '.join(taken)} from the workload's flags",
            code="reserved-flag",
        )
    flags: dict[str, Scalar] = {"benchmarks": f"{spec.benchmark},{_TREE}"}
    if up.fs_uri is not None:
        flags["fs_uri"] = up.fs_uri
    flags["db"] = str(up.db) if up.db is not None else DB_IN_URI
    flags["use_existing_db"] = not first and spec.benchmark not in _FRESH
    flags["seed"] = seed
    flags["histogram"] = True
    return db_bench.argv(program, {**flags, **report.flags, **spec.flags})


def parse(phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:
    """Read a phase's output. An unfinished benchmark has no summary and raises nothing.

    Raises:
        ToolFailed: the benchmark finished (its summary is there) but a summary line or a
            histogram is damaged, or no histogram was printed, or statistics were asked for and
            one that is needed is missing.
    """
    output = db_bench.parse(stdout, stderr)
    problems = list(output.broken)
    if output.summaries and not output.histograms and not problems:
        problems.append("no histogram")
    if phase.flags.get(STATISTICS):
        problems += [f"no {name}" for name in _missing(output.statistics)]
    if output.summaries and problems:
        raise ToolFailed(
            f"phase {phase.name}: db_bench's output is damaged: {problems[0]}",
            hint="see the raw output of the phase",
            code="output-malformed",
        )
    wanted = phase.benchmark.partition(",")[0]
    sole = output.summaries[0] if len(output.summaries) == 1 else None
    return Parsed(
        summary=sole if sole and sole.benchmark == wanted else None,
        summaries=len(output.summaries),
        histograms=dict(output.histograms),
        warnings=output.warnings,
        skipped=output.skipped,
        assertions=output.assertions,
        statistics=output.statistics,
        levels=output.levels,
    )


def metrics(phase: PhaseSpec, parsed: Parsed) -> dict[str, Metric]:
    """Return the phase's metrics by catalogue name; null where the output does not tell.

    Latencies are of all operations of the phase together; each operation's own histogram is
    stored beside them.
    """
    values: dict[str, int | float | None] = {
        "throughput": None,
        "seconds": None,
        "operations": None,
        "user_bytes": None,
    }
    summary = parsed.summary
    if summary is not None:
        values["seconds"] = summary.seconds
        values["operations"] = summary.operations
        values["user_bytes"] = summary.operations * phase.user_bytes_per_operation
        # The printed ops/sec is cut to an integer; the quotient keeps slow phases exact.
        values["throughput"] = summary.operations / summary.seconds if summary.seconds > 0 else None
    values.update(_latencies(parsed if summary is not None else None))
    return {name: Metric(value, CATALOGUE[name].unit) for name, value in values.items()}


def _missing(found: Statistics | None) -> list[str]:
    if found is None:
        return list(_TICKERS)
    missing = [name for name in _TICKERS if name not in found.tickers]
    return missing + [name for name in (TABLE_OPEN,) if name not in found.histograms]


def _latencies(parsed: Parsed | None) -> dict[str, int | float | None]:
    merged = histogram.merge(parsed.histograms.values()) if parsed is not None else None
    return {
        "latency_mean": histogram.mean(merged) if merged else None,
        **{name: histogram.quantile(merged, q) if merged else None for name, q in _QUANTILES},
        "latency_max": merged["max"] if merged else None,
    }
