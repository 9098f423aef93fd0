"""kvmix, the native workload generator (harness/native/kvmix): its flags and its output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.tools import histogram, native
from harness.tools.histogram import Histogram
from harness.tools.native import whole
from harness.tools.rocksdb_stats import Statistics

PROGRAM = "kvmix"
# Schema of the JSON line that `run` prints (main.cc, kSummaryVersion).
_SUMMARY_VERSION = 1

# kKindNames of source/operation.h; queries for absent keys are counted separately.
KINDS = ("insert", "update", "delete", "range_delete", "query", "absent_query", "scan")

# Flags of `kvmix run`: its own, and those named as in db_bench. A test compares them with --help.
_MIX_FLAGS = """
insert update delete range_delete query scan absent_share range_keys operations gated key_size
value_size existing key_space key_order distribution theta compression_ratio threads seed key_seed
rate arrivals duration verify report_file report_interval_seconds dry_run report_latency wait_for
"""
MIX_FLAGS = frozenset(_MIX_FLAGS.split())
_DATABASE_FLAGS = """
db fs_uri use_existing_db statistics sync disable_wal compression_type cache_size block_size
bloom_bits checksum_type write_buffer_size max_write_buffer_number min_write_buffer_number_to_merge
target_file_size_base target_file_size_multiplier max_bytes_for_level_base
max_bytes_for_level_multiplier level_compaction_dynamic_level_bytes num_levels
level0_file_num_compaction_trigger level0_slowdown_writes_trigger level0_stop_writes_trigger
soft_pending_compaction_bytes_limit hard_pending_compaction_bytes_limit max_compaction_bytes
disable_auto_compactions delayed_write_rate max_background_jobs subcompactions open_files
use_direct_reads use_direct_io_for_flush_and_compaction bytes_per_sync wal_bytes_per_sync
max_total_wal_size
"""
DATABASE_FLAGS = frozenset(_DATABASE_FLAGS.split())

_SECONDS = "secs_elapsed,"
# Columns after the time in a series made from the report.
SERIES = ",".join(("operations", *KINDS))
# With --report_latency: mean and maximum of the interval; empty if no operation ended in it.
_LATENCIES = ",latency_mean_us,latency_max_us"
_ROW = re.compile(
    r"^(?P<seconds>\d+\.\d{3}),"
    r"(?P<rest>(?P<operations>\d+)(?:,\d+){7}(?P<latencies>(?:,(?:\d+\.\d{3})?){2})?)$"
)
# Printed on stderr when the database is open and kvmix waits for --wait_for.
READY = "kvmix: ready"

_NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class MixSummary:
    """Summary of ``kvmix run``; histograms are by kind of operation."""

    operations: int
    seconds: float
    user_bytes: int  # keys and values to be written
    service: Mapping[str, Histogram]  # latency from issue to end
    intended: Mapping[str, Histogram]  # latency from the intended start; open loops only
    wrong: int  # verified reads with a wrong result
    whole: bool | None  # whether the whole database is correct; null: not checked
    statistics: Statistics | None
    stats: str  # RocksDB's property rocksdb.stats


def parse(stdout: str) -> MixSummary | None:
    """Parse the summary; None without one: a failed mix prints nothing.

    Raises:
        ToolFailed: it is damaged or inconsistent.
    """
    summary = native.summary(PROGRAM, _SUMMARY_VERSION, stdout, _summary)
    if summary is None:
        return None
    samples = sum(times["count"] for times in summary.service.values())
    if samples != summary.operations:
        raise native.malformed(PROGRAM, f"{summary.operations} operations, {samples} samples")
    return summary


def intervals(csv: str) -> list[tuple[float, str]]:
    """Parse ``--report_file``: seconds since the mix began, and the other columns (SERIES).

    A last line without a newline is incomplete and ignored.

    Raises:
        ToolFailed: the header or a complete line is malformed.
    """
    complete, _, _ = csv.rpartition("\n")
    header, *rows = complete.splitlines() or [""]
    return list(_points(rows, latencies=columns(header) != SERIES))


def columns(header: str) -> str:
    """Return the columns after the time, or raise ToolFailed if it is not kvmix's header."""
    names = header.removeprefix(_SECONDS)
    if names == header or names not in (SERIES, SERIES + _LATENCIES):
        raise native.malformed(PROGRAM, f"the report begins with {header[:60]!r}")
    return names


def operations_in(line: str) -> int:
    """Return the operations of one complete line of the report, 0 for any other line."""
    match = _ROW.match(line)
    return int(match["operations"]) if match else 0


def _points(rows: list[str], *, latencies: bool) -> Iterator[tuple[float, str]]:
    for row in rows:
        match = _ROW.match(row)
        if not match or (match["latencies"] is not None) != latencies:
            raise native.malformed(PROGRAM, f"the report has {row[:60]!r}")
        yield float(match["seconds"]), match["rest"]


def _summary(line: dict[str, Any]) -> MixSummary:
    kinds, rocksdb, verified = line["kinds"], line.get("rocksdb", {}), line["verified"]
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise native.malformed(PROGRAM, f"unknown operation {unknown[0]!r}")
    statistics = None
    if "tickers" in rocksdb:
        times = {name: (int(n), int(total)) for name, (n, total) in rocksdb["histograms"].items()}
        tickers = {name: int(count) for name, count in rocksdb["tickers"].items()}
        statistics = Statistics(tickers, times)
    return MixSummary(
        operations=whole(line["operations"]),
        seconds=float(line["seconds"]),
        user_bytes=whole(line["user_bytes"]),
        service={kind: _times(times["service"]) for kind, times in kinds.items()},
        intended={
            kind: _times(times["intended"]) for kind, times in kinds.items() if "intended" in times
        },
        wrong=whole(verified["wrong"]),
        whole=verified.get("whole"),
        statistics=statistics,
        stats=str(rocksdb.get("stats", "")),
    )


def _times(ns: dict[str, Any]) -> Histogram:
    """Convert a histogram in nanoseconds to the stored form in microseconds."""
    if ns["unit"] != "ns" or sum(count for _, _, count in ns["buckets"]) != ns["count"]:
        raise native.malformed(PROGRAM, "a histogram does not add up")
    buckets = [[low / _NS_PER_US, high / _NS_PER_US, count] for low, high, count in ns["buckets"]]
    return histogram.make(
        whole(ns["count"]),
        ns["sum"] / _NS_PER_US,
        ns["min"] / _NS_PER_US,
        ns["max"] / _NS_PER_US,
        buckets,
    )
