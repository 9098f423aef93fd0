"""Compares numbers that occur more than once in the output of db_bench."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.store import packed
from harness.tools.db_bench import BenchmarkSummary, summaries
from harness.workloads.load_program import EndedPhase, Rows

# db_bench prints three decimals of a second, and starts the clock of a thread a little later.
_ROUNDING = 0.0006
_MICROS_SHARE, _MICROS_SECONDS = 0.01, 0.05
# Its seconds last until its main thread wakes up after the end of the last operation, which takes
# long on a busy machine (Stats::Merge in tools/db_bench_tool.cc).
_WAKES_SECONDS = 1.0
_MB, _MB_ROUNDING = 1048576, 0.06
# "Block cache LRUCache@0x55…#665 capacity: 32.00 MB seed: 30321 usage: …": the seed of db_bench
# since RocksDB 9; before, a random number.
_SEED = re.compile(r"^Block cache \S+ capacity: \S+ \S+ seed: (\d+) ", re.MULTILINE)
_VERSION = re.compile(r"^RocksDB: +version (\d+)\.", re.MULTILINE)
_FIRST_WITH_SEED = 9
_ENTRIES = re.compile(r"^(Keys|Values|Entries): +(\d+)", re.MULTILINE)
_HEADER = {"Keys": "key_size", "Values": "value_size", "Entries": "num"}
# The report's thread wakes once a second; its last interval is not written.
_UNREPORTED = 5.0


def of_output(phase: EndedPhase, seed: int) -> Iterator[str]:
    """Yield one line per number that contradicts another one in the same output."""
    flags = phase.spec.flags
    for summary in summaries(phase.output):
        yield from _summary(summary, phase)
    for name, value in _ENTRIES.findall(phase.output):
        wanted = flags.get(_HEADER[name])
        if wanted is not None and int(value) != wanted:
            yield f"has {name} {value}, run.json has {_HEADER[name]} {wanted}"
    version, used = _VERSION.search(phase.output), _SEED.search(phase.output)
    if version and used and int(version[1]) >= _FIRST_WITH_SEED and int(used[1]) != seed:
        yield f"has seed {used[1]}, run.json gives {seed}"


def _summary(summary: BenchmarkSummary, phase: EndedPhase) -> Iterator[str]:
    seconds, operations = summary.seconds, summary.operations
    threads = int(phase.spec.flags.get("threads", 1))
    if not operations or not seconds:
        return
    micros = 1e6 * seconds * threads / operations
    slack = micros * _MICROS_SHARE + 1e6 * _MICROS_SECONDS / operations
    least = micros - slack - 1e6 * _WAKES_SECONDS / operations
    if threads == 1 and not least <= summary.micros_per_op <= micros + slack:
        yield f"has {summary.micros_per_op} micros/op, seconds and operations give {micros:.3f}"
    low, high = operations / (seconds + _ROUNDING), operations / max(seconds - _ROUNDING, 1e-9)
    if not low - 1 <= summary.ops_per_second <= high:
        yield (
            f"has {summary.ops_per_second} ops/sec, "
            f"seconds and operations give {operations / seconds:.0f}"
        )
    size = phase.spec.user_bytes_per_operation
    if summary.mb_per_second is not None and size:
        rate = operations * size / _MB / seconds
        if abs(summary.mb_per_second - rate) > _MB_ROUNDING + rate * _MICROS_SHARE:
            yield f"has {summary.mb_per_second} MB/s, seconds and operations give {rate:.1f}"
    if phase.seconds is not None and seconds > phase.seconds + _ROUNDING:
        yield f"has {seconds} seconds, the whole process took {phase.seconds:.3f}"
    histograms = phase.parsed.histograms if phase.parsed else {}
    if len(histograms) == 1:
        ((operation, histogram),) = histograms.items()
        if histogram["count"] != operations:
            yield f"has {operations} operations, its histogram of {operation} {histogram['count']}"


def of_report(raw: Path, rows: Rows, phase: EndedPhase) -> Iterator[str]:
    """Check that the report has at most the phase's operations, and reaches its end."""
    summary = phase.parsed.summary if phase.parsed else None
    if summary is None:
        return
    name = phase.spec.name
    total = sum(int(count) for _, count in rows)
    file = f"{name}.report.csv" if packed.find(raw / f"{name}.report.csv") else f"{name}.stderr"
    if total > summary.operations:
        yield f"raw/{file}: has {total} operations, raw/{name}.stdout has {summary.operations}"
    last = rows[-1][0] if rows else 0.0
    if last > summary.seconds + _UNREPORTED:
        yield f"raw/{file}: reaches {last:.0f} s, raw/{name}.stdout has {summary.seconds} s"
    if file.endswith(".csv") and last < summary.seconds - _UNREPORTED:
        yield f"raw/{file}: ends at {last:.0f} s, raw/{name}.stdout has {summary.seconds} s"
