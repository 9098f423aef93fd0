"""Holds each program's raw output against itself: the same number stands in it more than once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.errors import ZonelabError
from harness.rules.facts import PhaseFacts
from harness.store import packed
from harness.store.spec import Scalar
from harness.tools import kvmix, rocksdb_log
from harness.tools.db_bench import Summary, summaries
from harness.workloads import program_of

# db_bench prints three decimals of a second, and starts the clock of a thread a little later.
_ROUNDING = 0.0006
_MICROS_SHARE, _MICROS_SECONDS = 0.01, 0.05
_MB, _MB_ROUNDING = 1048576, 0.06
# "Block cache LRUCache@0x55…#665 capacity: 32.00 MB seed: 30321 usage: …": the seed of db_bench
# since RocksDB 9; before, a random number.
_SEED = re.compile(r"^Block cache \S+ capacity: \S+ \S+ seed: (\d+) ", re.MULTILINE)
_VERSION = re.compile(r"^RocksDB: +version (\d+)\.", re.MULTILINE)
_FIRST_WITH_SEED = 9
_ENTRIES = re.compile(r"^(Keys|Values|Entries): +(\d+)", re.MULTILINE)
_HEADER = {"Keys": "key_size", "Values": "value_size", "Entries": "num"}
# Options that RocksDB prints as they are given. It corrects some others, such as triggers.
_OPTIONS = frozenset(
    {
        "write_buffer_size",
        "target_file_size_base",
        "max_bytes_for_level_base",
        "max_background_jobs",
        "level_compaction_dynamic_level_bytes",
        "use_direct_reads",
        "use_direct_io_for_flush_and_compaction",
    }
)
_KINDS = ("operations", *kvmix.KINDS)
_LOG_HEAD = 65536  # bytes of a LOG that hold its options
# The report's thread wakes once a second; its last interval is not written.
_UNREPORTED = 5.0
# kvmix writes its last interval after its threads have ended, at most one interval later.
_INTERVAL = 1.0


def differences(folder: Path, facts: PhaseFacts, seed: int) -> Iterator[str]:
    """Yield one line per number of a phase that contradicts another one in its raw output."""
    if facts.lsm is not None:
        for text in facts.lsm.contradictions:
            yield f"raw/{facts.spec.name}.LOG: {text}"
    if facts.spec.program == "db_bench":
        raw = f"raw/{facts.spec.name}.stdout"
        yield from (f"{raw}: {text}" for text in _db_bench(facts, seed))
        yield from _report(folder / "raw", facts)
    elif facts.spec.program == kvmix.PROGRAM:
        yield from _kvmix(folder / "raw", facts)
    yield from _options(folder, facts)


def _db_bench(facts: PhaseFacts, seed: int) -> Iterator[str]:
    flags = facts.spec.flags
    for summary in summaries(facts.output):
        yield from _summary(summary, facts)
    for name, value in _ENTRIES.findall(facts.output):
        wanted = flags.get(_HEADER[name])
        if wanted is not None and int(value) != wanted:
            yield f"has {name} {value}, run.json has {_HEADER[name]} {wanted}"
    version, used = _VERSION.search(facts.output), _SEED.search(facts.output)
    if version and used and int(version[1]) >= _FIRST_WITH_SEED and int(used[1]) != seed:
        yield f"has seed {used[1]}, run.json gives {seed}"


def _summary(summary: Summary, facts: PhaseFacts) -> Iterator[str]:
    seconds, operations = summary.seconds, summary.operations
    threads = int(facts.spec.flags.get("threads", 1))
    if not operations or not seconds:
        return
    micros = 1e6 * seconds * threads / operations
    slack = micros * _MICROS_SHARE + 1e6 * _MICROS_SECONDS * threads / operations
    if threads == 1 and abs(summary.micros_per_op - micros) > slack:
        yield f"has {summary.micros_per_op} micros/op, seconds and operations give {micros:.3f}"
    low, high = operations / (seconds + _ROUNDING), operations / max(seconds - _ROUNDING, 1e-9)
    if not low - 1 <= summary.ops_per_second <= high:
        yield (
            f"has {summary.ops_per_second} ops/sec, "
            f"seconds and operations give {operations / seconds:.0f}"
        )
    size = facts.spec.user_bytes_per_operation
    if summary.mb_per_second is not None and size:
        rate = operations * size / _MB / seconds
        if abs(summary.mb_per_second - rate) > _MB_ROUNDING + rate * _MICROS_SHARE:
            yield f"has {summary.mb_per_second} MB/s, seconds and operations give {rate:.1f}"
    if facts.seconds is not None and seconds > facts.seconds + _ROUNDING:
        yield f"has {seconds} seconds, the whole process took {facts.seconds:.3f}"
    histograms = facts.parsed.histograms if facts.parsed else {}
    if len(histograms) == 1:
        ((operation, histogram),) = histograms.items()
        if histogram["count"] != operations:
            yield f"has {operations} operations, its histogram of {operation} {histogram['count']}"


def _report(raw: Path, facts: PhaseFacts) -> Iterator[str]:
    """All seconds together have at most the operations of the phase, and reach to its end."""
    summary = facts.parsed.summary if facts.parsed else None
    if summary is None:
        return
    name = facts.spec.name
    try:
        rows = program_of(facts.spec).kept_rows(raw, name)
    except ZonelabError:
        return
    total = sum(int(count) for _, count in rows)
    file = f"{name}.report.csv" if packed.find(raw / f"{name}.report.csv") else f"{name}.stderr"
    if total > summary.operations:
        yield f"raw/{file}: has {total} operations, raw/{name}.stdout has {summary.operations}"
    last = rows[-1][0] if rows else 0.0
    if last > summary.seconds + _UNREPORTED:
        yield f"raw/{file}: reaches {last:.0f} s, raw/{name}.stdout has {summary.seconds} s"
    if file.endswith(".csv") and last < summary.seconds - _UNREPORTED:
        yield f"raw/{file}: ends at {last:.0f} s, raw/{name}.stdout has {summary.seconds} s"


def _kvmix(raw: Path, facts: PhaseFacts) -> Iterator[str]:
    """The last interval of kvmix ends with its mix, so the report has every operation."""
    summary = facts.parsed.summary if facts.parsed else None
    if facts.parsed is None or summary is None:
        return
    name = facts.spec.name
    text = packed.text(raw / f"{name}.report.csv")
    try:
        rows, columns = kvmix.intervals(text), kvmix.columns(text.partition("\n")[0])
    except ZonelabError as error:
        yield f"raw/{name}.report.csv: {error.message}"
        return
    counts = [[int(cell) for cell in rest.split(",")[: len(_KINDS)]] for _, rest in rows]
    totals = dict(zip(columns.split(","), map(sum, zip(*counts, strict=True)), strict=False))
    wanted = {kind: times["count"] for kind, times in facts.parsed.histograms.items()}
    wanted["operations"] = summary.operations
    for kind in _KINDS:
        if totals.get(kind, 0) != wanted.get(kind, 0):
            yield (
                f"raw/{name}.report.csv: has {totals.get(kind, 0)} of {kind}, "
                f"raw/{name}.stdout has {wanted.get(kind, 0)}"
            )
    last = rows[-1][0] if rows else 0.0
    if not -_ROUNDING <= last - summary.seconds <= _INTERVAL:
        yield f"raw/{name}.report.csv: ends at {last} s, raw/{name}.stdout has {summary.seconds} s"


def _options(folder: Path, facts: PhaseFacts) -> Iterator[str]:
    """RocksDB prints the options that it really uses."""
    file = folder / "raw" / f"{facts.spec.name}.LOG"
    if facts.lsm is None:
        return
    used = rocksdb_log.options(packed.text(file, _LOG_HEAD))
    for name in _OPTIONS & used.keys() & facts.spec.flags.keys():
        wanted = facts.spec.flags[name]
        if _number(wanted) != _number(used[name]):
            yield f"raw/{facts.spec.name}.LOG: has {name} {used[name]}, run.json has {wanted}"


def _number(value: Scalar) -> float | None:
    try:
        return float(value)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(str(value))
