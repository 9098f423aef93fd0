"""db_bench, RocksDB's benchmark program: how it is called and what it prints (7.8 and 9.10)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HostError, ToolFailed
from harness.store.spec import Scalar
from harness.tools import histogram, proc, rocksdb_stats
from harness.tools.histogram import Histogram
from harness.tools.rocksdb_stats import LevelRow, Statistics

PROGRAM = "db_bench"
# roles/rocksdb links the one that it built, or that the user named; no link means the one on PATH.
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
class Summary:
    """The one line a finished benchmark prints. ``mb_per_second`` is null where it has none."""

    benchmark: str
    micros_per_op: float
    ops_per_second: int
    seconds: float
    operations: int
    mb_per_second: float | None


@dataclass(frozen=True, slots=True)
class Output:
    """Everything recognised in what db_bench printed; ``broken`` names unreadable parts.

    ``statistics`` are RocksDB's own counts of the whole process, null without ``--statistics``;
    ``levels`` is its tree behind the benchmark, null without the pseudo-benchmark ``stats``.
    """

    summaries: tuple[Summary, ...]
    histograms: Mapping[str, Histogram]
    warnings: tuple[str, ...]
    skipped: bool
    assertions: bool
    broken: tuple[str, ...]
    statistics: Statistics | None
    levels: tuple[LevelRow, ...] | None


def find(given: Path | None = None) -> Path:
    """Return db_bench: as given, else $ZONELAB_DB_BENCH, else INSTALLED, else on PATH.

    Raises:
        HostError: there is none.
    """
    named = given or (
        Path(os.environ["ZONELAB_DB_BENCH"]) if "ZONELAB_DB_BENCH" in os.environ else None
    )
    if named is None and INSTALLED.is_symlink():
        named = INSTALLED
    found = named or proc.which(PROGRAM)
    if found is None or not (found.is_file() and os.access(found, os.X_OK)):
        raise HostError(
            f"db_bench is not {'there: ' + str(named) if named else 'installed'}",
            hint="apt-get install rocksdb-tools, or --program-path",
            code="program-missing",
        )
    return found.resolve()


def flag(name: str, value: Scalar) -> str:
    """Return ``--name=value`` as gflags reads it (true/false for booleans)."""
    if isinstance(value, bool):
        return f"--{name}={'true' if value else 'false'}"
    return f"--{name}={value}"


def argv(program: Path, flags: Mapping[str, Scalar]) -> list[str]:
    """Return the argument list; ``flags`` are upstream names without dashes, order kept."""
    return [str(program), *(flag(name, value) for name, value in flags.items())]


def parse(stdout: str, stderr: str) -> Output:
    """Recognise summary lines, histograms and warnings; never invents a number.

    A line that looks like a summary or a histogram but is cut short or damaged lands in
    ``broken``: the caller decides whether that was to be expected (a crash) or not.
    """
    lines = stdout.splitlines()
    levels: tuple[LevelRow, ...] | None = None
    summaries: list[Summary] = []
    broken: list[str] = []
    for line in lines:
        found = _SUMMARY.match(line)
        if found:
            summaries.append(_summary(found))
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


def intervals(csv: str) -> list[tuple[int, int]]:
    """Parse ``--report_file``: (seconds since the benchmark began, operations in that interval).

    A last line without its newline was being written when db_bench ended and is left out.

    Raises:
        ToolFailed: the header or a complete line is not what db_bench writes.
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
        found = _REPORT_ROW.match(row)
        if not found:
            raise ToolFailed(f"db_bench's report file has {row[:60]!r}", code="output-malformed")
        points.append((int(found["seconds"]), int(found["operations"])))
    return points


def stats_intervals(stderr: str) -> list[tuple[int, int]]:
    """Return the same from the lines of ``--stats_interval_seconds=1`` on stderr.

    Each thread looks at the clock every 1000 operations and prints lines of its own; what ends in
    the same second, rounded, is added up. What comes after a thread's last line is in none.
    """
    found = filter(None, map(_STATS_ROW.search, stderr.splitlines()))
    points: dict[int, int] = {}
    for row in found:
        second = round(float(row["seconds"]))
        points[second] = points.get(second, 0) + int(row["operations"])
    return sorted(points.items())


def operations_in(line: str) -> int:
    """Return the operations of one complete line of either kind, 0 for any other line."""
    found = _REPORT_ROW.match(line) or _STATS_ROW.search(line)
    return int(found["operations"]) if found else 0


def _summary(found: re.Match[str]) -> Summary:
    return Summary(
        benchmark=found["benchmark"],
        micros_per_op=float(found["micros"]),
        ops_per_second=int(found["rate"]),
        seconds=float(found["seconds"]),
        operations=int(found["operations"]),
        mb_per_second=float(found["mb"]) if found["mb"] is not None else None,
    )


def _histograms(lines: list[str]) -> tuple[dict[str, Histogram], list[str]]:
    """Return histograms by operation and what was wrong with those that are left out."""
    kept: dict[str, Histogram] = {}
    broken: list[str] = []
    for number, line in enumerate(lines):
        found = _HISTOGRAM.match(line)
        if not found:
            continue
        operation = found["operation"]
        one = _histogram(lines[number + 1 :])
        if one is None:
            broken.append(f"histogram of {operation}")
            continue
        merged = histogram.merge([kept[operation], one]) if operation in kept else one
        kept[operation] = merged or one
    return kept, broken


def _histogram(lines: list[str]) -> Histogram | None:
    """Read one histogram from its ``Count:`` line on; None when anything is missing."""
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
