"""db_bench, RocksDB's benchmark: its command line and parsers of its output (7.8 and 9.10)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HostError, ToolFailed
from harness.store.spec import Scalar
from harness.tools import histogram, proc, rocksdb_stats
from harness.tools.histogram import Histogram
from harness.tools.rocksdb_stats import LevelRow, Statistics

PROGRAM = "db_bench"
# roles/rocksdb makes this link to the db_bench that it built or the user named. Without it, PATH is
# searched.
INSTALLED = Path("/usr/local/lib/zonelab/rocksdb/db_bench")

# "fillrandom   :     138.041 micros/op 7243 ops/sec 2.761 seconds 20000 operations;    2.9 MB/s"
_SUMMARY = re.compile(
    r"^(?P<benchmark>\w+)(?: \[\w+\])?\s*:\s+(?P<micros>\d+\.\d+) micros/op"
    r" (?P<rate>\d+) ops/sec (?P<seconds>\d+\.\d+) seconds (?P<operations>\d+) operations;"
    r"(?:\s+(?P<mb>\d+\.\d+) MB/s)?(?: \((?P<note>[^()]*)\))?\s*$"
)
_LOOKS_LIKE_SUMMARY = re.compile(r"\bmicros/op\b")
_SKIPPED = re.compile(r"^\w+\s*: skipped \(")
_WARNING = re.compile(r"^WARNING: (.*)$")
ASSERTIONS = "Assertions are enabled"

# --report_file: seconds since the benchmark began, operations in that interval.
_REPORT_HEADER = "secs_elapsed,interval_qps"
_REPORT_ROW = re.compile(r"^(?P<seconds>\d+),(?P<operations>\d+)$")
# --stats_interval_seconds, on stderr: "2026/11/21-09:51:16  ... thread 1: (32000,65000) ops and
# (31099.5,31927.4) ops/second in (1.028954,2.035872) seconds", each (since the last, in all).
_STATS_ROW = re.compile(
    r"\.\.\. thread \d+: \((?P<operations>\d+),\d+\) ops and \([\d.]+,[\d.]+\) ops/second"
    r" in \([\d.]+,(?P<seconds>[\d.]+)\) seconds$"
)

_HISTOGRAM = re.compile(r"^Microseconds per (?P<operation>\w+):$")
_COUNT = re.compile(r"^Count: (?P<count>\d+) Average: (?P<average>[\d.]+)  StdDev: [\d.]+$")
_MIN_MAX = re.compile(r"^Min: (?P<min>[\d.]+)  Median: [\d.]+  Max: (?P<max>[\d.]+)$")
_PERCENTILES = re.compile(r"^Percentiles: P50: ")
_RULE = re.compile(r"^-{10,}$")
_BUCKET = re.compile(r"^[(\[]\s*(\d+),\s*(\d+) \]\s+(\d+)\s+[\d.]+%\s+[\d.]+% ?#*\s*$")


@dataclass(frozen=True, slots=True)
class BenchmarkSummary:
    """The summary line of a finished benchmark; ``mb_per_second`` is null if it lacks one."""

    benchmark: str
    micros_per_op: float
    ops_per_second: int
    seconds: float
    operations: int
    mb_per_second: float | None


@dataclass(frozen=True, slots=True)
class Output:
    """The parsed output of db_bench."""

    summaries: tuple[BenchmarkSummary, ...]
    histograms: Mapping[str, Histogram]  # by operation
    warnings: tuple[str, ...]
    skipped: bool  # a benchmark was skipped because of --use_existing_db
    assertions: bool  # it was built with assertions
    broken: tuple[str, ...]  # parts that could not be parsed
    statistics: Statistics | None  # counts of the whole process; null without --statistics
    levels: tuple[LevelRow, ...] | None  # the tree at the end; null without benchmark ``stats``


def find(given: Path | None = None) -> Path:
    """Return the given db_bench, else $ZONELAB_DB_BENCH, else INSTALLED, else the one on PATH.

    Raises:
        HostError: there is none, or it is not executable.
    """
    named = given or (
        Path(os.environ["ZONELAB_DB_BENCH"]) if "ZONELAB_DB_BENCH" in os.environ else None
    )
    if named is None and INSTALLED.is_symlink():
        named = INSTALLED
    program = named or proc.which(PROGRAM)
    if program is None or not (program.is_file() and os.access(program, os.X_OK)):
        raise HostError(
            f"db_bench is not {'there: ' + str(named) if named else 'installed'}",
            hint="apt-get install rocksdb-tools, or --program-path",
            code="program-missing",
        )
    return program.resolve()


def flag(name: str, value: Scalar) -> str:
    """Return ``--name=value`` as gflags parses it; booleans are true or false."""
    if isinstance(value, bool):
        return f"--{name}={'true' if value else 'false'}"
    return f"--{name}={value}"


def argv(program: Path, flags: Mapping[str, Scalar]) -> list[str]:
    """Return the argument list; ``flags`` are upstream names without dashes, in order."""
    return [str(program), *(flag(name, value) for name, value in flags.items())]


def parse(stdout: str, stderr: str) -> Output:
    """Parse summary lines, histograms, warnings, statistics and the tree.

    Truncated or damaged parts are listed in ``broken``. The caller decides whether they are an
    error: after a crash they are expected.
    """
    lines = stdout.splitlines()
    levels: tuple[LevelRow, ...] | None = None
    summaries: list[BenchmarkSummary] = []
    broken: list[str] = []
    for line in lines:
        match = _SUMMARY.match(line)
        if match:
            summaries.append(_summary(match))
        elif _LOOKS_LIKE_SUMMARY.search(line):
            broken.append(f"summary line {line.strip()[:80]!r}")
    warnings = tuple(m[1] for m in map(_WARNING.match, lines + stderr.splitlines()) if m)
    histograms, damaged = _histograms(lines)
    try:
        levels = rocksdb_stats.levels(lines)
    except ToolFailed as failure:
        broken.append(failure.message)
    return Output(
        summaries=tuple(summaries),
        histograms=histograms,
        warnings=warnings,
        skipped=any(_SKIPPED.match(line) for line in lines),
        assertions=any(ASSERTIONS in text for text in warnings),
        broken=(*broken, *damaged),
        statistics=rocksdb_stats.statistics(lines),
        levels=levels,
    )


def summaries(stdout: str) -> list[BenchmarkSummary]:
    """Return every summary line of an output."""
    return [_summary(match) for match in map(_SUMMARY.match, stdout.splitlines()) if match]


def intervals(csv: str) -> list[tuple[int, int]]:
    """Parse ``--report_file``: (seconds since the benchmark began, operations in that interval).

    A last line without a newline is incomplete and ignored.

    Raises:
        ToolFailed: the header or a complete line is malformed.
    """
    complete, _, _ = csv.rpartition("\n")
    header, *rows = complete.splitlines() or [""]
    if header != _REPORT_HEADER:
        raise ToolFailed(
            f"db_bench's report file begins with {header[:60]!r}",
            hint=f"expected {_REPORT_HEADER}",
            code="output-malformed",
        )
    points = []
    for row in rows:
        match = _REPORT_ROW.match(row)
        if not match:
            raise ToolFailed(f"db_bench's report file has {row[:60]!r}", code="output-malformed")
        points.append((int(match["seconds"]), int(match["operations"])))
    return points


def stats_intervals(stderr: Iterable[str]) -> list[tuple[int, int]]:
    """Parse the lines of ``--stats_interval_seconds=1`` on stderr, as ``intervals`` does.

    Each thread checks the clock every 1000 operations and prints its own lines. Lines with the same
    second, after rounding, are added up. Operations after a thread's last line are not counted.
    """
    points: dict[int, int] = {}
    for row in filter(None, map(_STATS_ROW.search, stderr)):
        second = round(float(row["seconds"]))
        points[second] = points.get(second, 0) + int(row["operations"])
    return sorted(points.items())


def operations_in(line: str) -> int:
    """Return the operations of one complete line of either form, 0 for any other line."""
    match = _REPORT_ROW.match(line) or _STATS_ROW.search(line)
    return int(match["operations"]) if match else 0


def _summary(match: re.Match[str]) -> BenchmarkSummary:
    return BenchmarkSummary(
        benchmark=match["benchmark"],
        micros_per_op=float(match["micros"]),
        ops_per_second=int(match["rate"]),
        seconds=float(match["seconds"]),
        operations=int(match["operations"]),
        mb_per_second=float(match["mb"]) if match["mb"] is not None else None,
    )


def _histograms(lines: list[str]) -> tuple[dict[str, Histogram], list[str]]:
    """Return histograms by operation, and the names of damaged ones."""
    histograms: dict[str, Histogram] = {}
    broken: list[str] = []
    for number, line in enumerate(lines):
        match = _HISTOGRAM.match(line)
        if not match:
            continue
        operation = match["operation"]
        parsed = _histogram(lines[number + 1 :])
        if parsed is None:
            broken.append(f"histogram of {operation}")
            continue
        earlier = [histograms[operation]] if operation in histograms else []
        histograms[operation] = histogram.merge([*earlier, parsed]) or parsed
    return histograms, broken


def _histogram(lines: list[str]) -> Histogram | None:
    """Parse one histogram from its ``Count:`` line on, or return None if it is incomplete."""
    if len(lines) < 4:  # noqa: PLR2004 - Count, Min, Percentiles and the rule below them
        return None
    count, extremes = _COUNT.match(lines[0]), _MIN_MAX.match(lines[1])
    if not (count and extremes and _PERCENTILES.match(lines[2]) and _RULE.match(lines[3])):
        return None
    buckets: list[list[int]] = []
    for line in lines[4:]:
        row = _BUCKET.match(line)
        if not row:
            break
        buckets.append([int(row[1]), int(row[2]), int(row[3])])
    n = int(count["count"])
    if sum(bucket[2] for bucket in buckets) != n:
        return None
    total = n * float(count["average"])
    return histogram.make(n, total, float(extremes["min"]), float(extremes["max"]), buckets)
