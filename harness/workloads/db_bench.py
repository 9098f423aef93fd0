"""A phase of a run: one db_bench invocation, what it printed, and the metrics of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, ToolFailed
from harness.levels.base import DB_IN_URI, LevelUp
from harness.store import packed
from harness.store.spec import PhaseSpec, Scalar
from harness.tools import db_bench
from harness.tools.db_bench import Summary, operations_in
from harness.workloads import base
from harness.workloads.base import Parsed, Rows, metrics, missing, text

__all__ = [
    "Parsed", "Report", "Summary", "argv", "kept_rows", "metrics", "operations_in", "parse", "path",
    "report",
]  # fmt: skip

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
TICKERS = (
    "rocksdb.wal.bytes",
    "rocksdb.write.wal",
    *READ_TICKERS,
    "rocksdb.stall.micros",
    "rocksdb.block.cache.hit",
    "rocksdb.block.cache.miss",
)


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

    @property
    def columns(self) -> str:
        """All operations together."""
        return "operations"

    def intervals(self, text: str) -> list[tuple[int, int]]:
        """Return (second, operations) pairs; ToolFailed where a report file is damaged."""
        return db_bench.stats_intervals(text) if self.on_stderr else db_bench.intervals(text)

    def rows(self, text: str) -> Rows:
        """Return the same as rows of a series."""
        return [(float(second), str(count)) for second, count in self.intervals(text)]


def path(db_bench: Path) -> Path:
    """Return the run's db_bench."""
    return db_bench


def report(up: LevelUp, csv: Path, stderr: Path) -> Report:
    """Return where db_bench will report on this level."""
    return Report(up, csv, stderr)


def kept_rows(raw: Path, name: str) -> Rows:
    """Return the rows of the report that a phase left, a file or lines on stderr.

    Raises:
        ToolFailed: a report file is damaged.
    """
    file = raw / f"{name}.report.csv"
    points = (
        db_bench.intervals(text(file))
        if packed.find(file)
        else db_bench.stats_intervals(text(raw / f"{name}.stderr"))
    )
    return [(float(second), str(count)) for second, count in points]


def argv(
    spec: PhaseSpec,
    up: LevelUp,
    seed: int,
    *,
    first: bool,
    program: Path,
    report: base.Report,
    key_seed: int = 0,  # noqa: ARG001 - db_bench has one seed for all
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
        problems += [f"no {name}" for name in missing(output.statistics, TICKERS, (TABLE_OPEN,))]
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
