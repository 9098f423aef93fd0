"""db_bench: its phases, argument lists, output and metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.errors import ConfigError, ToolFailed, ZonelabError
from harness.levels.level import DB_IN_URI, LevelUp
from harness.store import packed
from harness.store.spec import PhaseRole, PhaseSpec, Scalar
from harness.tools import db_bench
from harness.tools.rocksdb_stats import Statistics
from harness.workloads import db_bench_contradictions
from harness.workloads.load_program import (
    EndedPhase,
    Invocation,
    LoadProgram,
    Parsed,
    ProgramReport,
    Rows,
)
from harness.workloads.planning import (
    Cost,
    Database,
    DerivedPhase,
    PlannedPhase,
    flag_number,
    refuse_flags,
)

# Benchmarks that the planner can size.
Benchmark = Literal[
    "fillseq",
    "fillrandom",
    "filluniquerandom",
    "overwrite",
    "updaterandom",
    "readseq",
    "readrandom",
    "readwhilewriting",
]
# The first three begin with an empty database; with --use_existing_db db_bench skips them.
FRESH = frozenset({"fillseq", "fillrandom", "filluniquerandom"})
_FRESH_ONLY = FRESH | {"filluniquerandomdeterministic"}
# Benchmarks that write, and their file bytes (WAL, flush, compaction) per user byte, measured with
# db_bench 7.8 on tmpfs at the default study's sizes and rounded up. fillseq moves files without
# rewriting them.
WRITE_AMPLIFICATION = {
    "fillseq": 2.0,
    "fillrandom": 3.0,
    "filluniquerandom": 5.0,
    "overwrite": 5.0,
    "updaterandom": 5.0,
}
# fillrandom draws N keys out of N with replacement and so writes 1 - 1/e of them at least once.
DISTINCT_AFTER_FILLRANDOM = 1 - 1 / math.e

# Runs after every benchmark and prints RocksDB's tree. It costs nothing during the measurement.
_TREE = "stats"

# Operations between two lines on stderr if a drive is slowed down.
_FEW = 16

# The flag that prints RocksDB's tickers and histograms. Output that lacks one of these is damaged.
STATISTICS = "statistics"
TABLE_OPEN = "rocksdb.table.open.io.micros"
# Bytes read from table files, also by compactions: of the last level, and of all others.
READ_TICKERS = ("rocksdb.last.level.read.bytes", "rocksdb.non.last.level.read.bytes")
TICKERS = (
    "rocksdb.wal.bytes",
    "rocksdb.write.wal",
    *READ_TICKERS,
    "rocksdb.stall.micros",
    "rocksdb.block.cache.hit",
    "rocksdb.block.cache.miss",
)


class DbBench(LoadProgram):
    """RocksDB's own benchmark program."""

    name: ClassVar[str] = "db_bench"
    field: ClassVar[str] = "benchmark"
    work: ClassVar[Any] = Benchmark
    reserved: ClassVar[frozenset[str]] = frozenset(
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
    rates: ClassVar[Mapping[str, float]] = {
        "delayed_write_rate": 8 << 20,
        "rate_limiter_bytes_per_sec": 0,
        "benchmark_write_rate_limit": 0,
        "benchmark_read_rate_limit": 0,
    }
    packages: ClassVar[tuple[str, ...]] = ("rocksdb-tools",)
    failure_code: ClassVar[str] = "db-bench-failed"

    def path(self, db_bench: Path) -> Path:
        """Return the run's db_bench."""
        return db_bench

    def report(self, up: LevelUp, csv: Path, stderr: Path) -> ProgramReport:
        """Return where db_bench will report on this level.

        With ``--fs_uri``, db_bench writes its report file to the measured device, which costs bytes
        and flushes there. Such levels read the lines on stderr instead.

        With an interval in seconds, db_bench reads the clock only every 1,000 operations. A drive
        that is slowed down does few in a second, so stalls would not show.
        """
        if up.fs_uri is None:
            return ProgramReport(csv, {"report_interval_seconds": 1, "report_file": str(csv)})
        seldom = {"stats_interval": _FEW} if up.dilation > 1 else {"stats_interval_seconds": 1}
        return ProgramReport(stderr, seldom)

    def operations_in(self, line: str) -> int:
        """Return the operations of a line of either kind of report."""
        return db_bench.operations_in(line)

    def is_closing(self, spec: PhaseSpec, stdout: str) -> bool:
        """Look for the benchmark's summary, which precedes the close."""
        return any(one.benchmark == spec.benchmark for one in db_bench.summaries(stdout))

    def rows(self, report: Path) -> Rows:
        """Return the rows of the report file, or of the lines in ``<phase>.stderr``."""
        if report.suffix == ".stderr":
            with packed.opened(report) or nullcontext(()) as lines:  # of a slowed drive: many
                found = db_bench.stats_intervals(lines)
        else:
            found = db_bench.intervals(packed.text(report))
        return [(float(second), str(count)) for second, count in found]

    def kept_rows(self, raw: Path, name: str) -> Rows:
        """Return the rows of the report file, or of the lines on stderr without one."""
        file = raw / f"{name}.report.csv"
        return self.rows(file if packed.find(file) else raw / f"{name}.stderr")

    def contradictions(self, raw: Path, phase: EndedPhase, seed: int) -> Iterator[str]:
        """Compare numbers within the output and the report, and between them."""
        name = phase.spec.name
        lines = db_bench_contradictions.of_output(phase, seed)
        yield from (f"raw/{name}.stdout: {line}" for line in lines)
        try:
            rows = self.kept_rows(raw, name)
        except ZonelabError:
            return  # other checks report a missing or damaged report
        yield from db_bench_contradictions.of_report(raw, rows, phase)

    def argv(self, call: Invocation) -> list[str]:
        """Return the argument list; the ``first`` phase and fills start with an empty database."""
        spec, up = call.spec, call.up
        refuse_flags(spec.name, spec.flags, self.reserved)
        flags: dict[str, Scalar] = {"benchmarks": f"{spec.benchmark},{_TREE}"}
        if up.fs_uri is not None:
            flags["fs_uri"] = up.fs_uri
        flags["db"] = str(up.db) if up.db is not None else DB_IN_URI
        flags["use_existing_db"] = not call.first and spec.benchmark not in _FRESH_ONLY
        flags["seed"] = call.seed
        flags["histogram"] = True
        rates = self.slowed(spec.flags, up.dilation)
        return db_bench.argv(call.program, {**flags, **call.report.flags, **spec.flags, **rates})

    def parse(self, phase: PhaseSpec, stdout: str, stderr: str) -> Parsed:
        """Read a phase's output. An unfinished benchmark has no summary and raises nothing.

        Raises:
            ToolFailed: the benchmark finished, but its summary or histogram is damaged or missing,
                or requested statistics are missing.
        """
        output = db_bench.parse(stdout, stderr)
        problems = list(output.broken)
        if output.summaries and not output.histograms and not problems:
            problems.append("no histogram")
        if phase.flags.get(STATISTICS):
            problems += [f"no {name}" for name in missing(output.statistics)]
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

    def check(self, phases: Sequence[PlannedPhase]) -> None:
        """Refuse measured phases that would not use the database of the fills."""
        if any(phase.work in FRESH for phase in phases if phase.role is PhaseRole.MEASURED):
            raise ConfigError("a measured phase must not start with an empty database")

    def derive(self, phases: Sequence[PlannedPhase], at: int, database: Database) -> DerivedPhase:
        """Return the flags; ``--num`` is the key space of every phase."""
        phase = phases[at]
        own = {**database.flags, **phase.flags}
        refuse_flags(phase.name, own, self.reserved)
        threads = int(flag_number(own, "threads", 1, least=1))
        writes = phase.work in WRITE_AMPLIFICATION
        operations = phase.operations
        flags: dict[str, Scalar] = {**database.sizes, "num": database.keys, **own}
        if operations is None:
            flags["duration"] = phase.duration or 0
        else:
            if phase.work == "readseq":
                _check_readseq(phases, phase.name, operations, database.keys)
            # --writes and --reads count per thread.
            per_thread = max(1, math.ceil(operations / threads))
            flags["writes" if writes else "reads"] = per_thread
            operations = per_thread * threads
        payload = database.key_size + database.value_size if writes else 0
        return DerivedPhase(phase.work, flags, operations, payload)

    def cost(self, work: Any) -> Cost:
        """Return one write, one read (updates do both) or one scanned key."""
        if work in WRITE_AMPLIFICATION:
            return Cost(
                entries=1,
                reads=1 if work == "updaterandom" else 0,
                write_amplification=WRITE_AMPLIFICATION[work],
            )
        return Cost(scanned=1) if work == "readseq" else Cost(reads=1)


def missing(found: Statistics | None) -> list[str]:
    """Return the names of RocksDB's statistics that the output lacks."""
    found = found or Statistics({}, {})
    lost = [name for name in TICKERS if name not in found.tickers]
    return lost if TABLE_OPEN in found.histograms else [*lost, TABLE_OPEN]


def _check_readseq(phases: Sequence[PlannedPhase], name: str, operations: int, keys: int) -> None:
    """Refuse a readseq that is longer than the database: it ends at the last entry."""
    fills = [phase.work for phase in phases if phase.work in FRESH]
    share = DISTINCT_AFTER_FILLRANDOM if fills[-1:] == ["fillrandom"] else 1.0
    # Allows 1 % less keys; the number of distinct random keys varies by far less.
    sure = int(keys * share * (0.99 if share < 1 else 1.0))
    if operations > sure:
        raise ConfigError(
            f"phase {name} reads {operations} entries, but only {sure} are sure to exist",
            hint=f"set its operations to keys: {math.floor(share * 99) / 100}",
            code="too-many-reads",
        )
