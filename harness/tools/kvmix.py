"""kvmix, our native workload generator (harness/native/kvmix): its flags and what it prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ToolFailed
from harness.tools import histogram, native
from harness.tools.histogram import Histogram
from harness.tools.rocksdb_stats import Statistics

PROGRAM = "kvmix"
# Of the one line of JSON that `run` prints (main.cc, kSummaryVersion).
_SUMMARY_VERSION = 1

# kKindNames of source/operation.h; queries of absent keys are counted apart.
KINDS = ("insert", "update", "delete", "range_delete", "query", "absent_query", "scan")

# Flags of `kvmix run` beside those of db_bench's names; a test holds them against its --help.
MIX_FLAGS = frozenset(
    {
        "insert", "update", "delete", "range_delete", "query", "scan", "absent_share", "range_keys",
        "operations", "gated", "key_size", "value_size", "existing", "key_space", "key_order",
        "distribution", "theta", "compression_ratio", "threads", "seed", "key_seed", "rate",
        "arrivals", "duration", "verify", "report_file", "report_interval_seconds", "dry_run",
        "report_latency", "wait_for",
    }
)  # fmt: skip
DATABASE_FLAGS = frozenset(
    {
        "db", "fs_uri", "use_existing_db", "statistics", "sync", "disable_wal", "compression_type",
        "cache_size", "block_size", "bloom_bits", "checksum_type", "write_buffer_size",
        "max_write_buffer_number", "min_write_buffer_number_to_merge", "target_file_size_base",
        "target_file_size_multiplier",
        "max_bytes_for_level_base", "max_bytes_for_level_multiplier",
        "level_compaction_dynamic_level_bytes", "num_levels", "level0_file_num_compaction_trigger",
        "level0_slowdown_writes_trigger", "level0_stop_writes_trigger",
        "soft_pending_compaction_bytes_limit", "hard_pending_compaction_bytes_limit",
        "max_compaction_bytes", "disable_auto_compactions", "max_background_jobs",
        "subcompactions", "open_files", "use_direct_reads",
        "use_direct_io_for_flush_and_compaction", "bytes_per_sync", "wal_bytes_per_sync",
        "max_total_wal_size",
    }
)  # fmt: skip

_SECONDS = "secs_elapsed,"
# Columns of a series made from the report, behind its time.
SERIES = ",".join(("operations", *KINDS))
# With --report_latency, mean and longest of the interval; empty where no operation ended.
_LATENCIES = ",latency_mean_us,latency_max_us"
_ROW = re.compile(
    r"^(?P<seconds>\d+\.\d{3}),"
    r"(?P<rest>(?P<operations>\d+)(?:,\d+){7}(?P<latencies>(?:,(?:\d+\.\d{3})?){2})?)$"
)
# What it says on stderr once its database is open and it waits for --wait_for.
READY = "kvmix: ready"

_NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Summary:
    """What a mix did. ``user_bytes``: keys and values handed over to be written, in bytes.

    ``service`` (from issue to end) and ``intended`` (from the intended start, open loops only) are
    histograms by kind of operation. ``wrong``: reads that did not give what the database must
    hold, of ``checked``. ``stats`` is RocksDB's property of that name.
    """

    operations: int
    seconds: float
    user_bytes: int
    service: Mapping[str, Histogram]
    intended: Mapping[str, Histogram]
    checked: int
    wrong: int
    whole: bool | None
    statistics: Statistics | None
    stats: str


def parse(stdout: str) -> Summary | None:
    """Read the summary; None when there is none: a mix that failed prints nothing.

    Raises:
        ToolFailed: it is damaged, or does not add up.
    """
    summary = native.summary(PROGRAM, _SUMMARY_VERSION, stdout, _summary)
    if summary is None:
        return None
    samples = sum(one["count"] for one in summary.service.values())
    if samples != summary.operations:
        raise _malformed(f"{summary.operations} operations, {samples} samples")
    return summary


def intervals(csv: str) -> list[tuple[float, str]]:
    """Parse ``--report_file``: seconds since the mix began, and the other columns (SERIES).

    A last line without its newline was being written when kvmix ended and is left out.

    Raises:
        ToolFailed: the header or a complete line is not what kvmix writes.
    """
    complete, _, _ = csv.rpartition("\n")
    header, *rows = complete.splitlines() or [""]
    told = columns(header)
    return list(_points(rows, latencies=told != SERIES))


def columns(header: str) -> str:
    """Return the columns behind the time; ToolFailed: it is no header of kvmix's report."""
    found = header.removeprefix(_SECONDS)
    if found == header or found not in (SERIES, SERIES + _LATENCIES):
        raise _malformed(f"the report begins with {header[:60]!r}")
    return found


def operations_in(line: str) -> int:
    """Return the operations of one complete line of the report, 0 for any other line."""
    found = _ROW.match(line)
    return int(found["operations"]) if found else 0


def _points(rows: list[str], *, latencies: bool) -> Iterator[tuple[float, str]]:
    for row in rows:
        found = _ROW.match(row)
        if not found or (found["latencies"] is not None) != latencies:
            raise _malformed(f"the report has {row[:60]!r}")
        yield float(found["seconds"]), found["rest"]


def _summary(told: dict[str, Any]) -> Summary:
    kinds, rocksdb, verified = told["kinds"], told.get("rocksdb", {}), told["verified"]
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise _malformed(f"unknown operation {unknown[0]!r}")
    statistics = None
    if "tickers" in rocksdb:
        times = {name: (int(n), int(total)) for name, (n, total) in rocksdb["histograms"].items()}
        tickers = {name: int(count) for name, count in rocksdb["tickers"].items()}
        statistics = Statistics(tickers, times)
    return Summary(
        operations=_whole(told["operations"]),
        seconds=float(told["seconds"]),
        user_bytes=_whole(told["user_bytes"]),
        service={kind: _times(one["service"]) for kind, one in kinds.items()},
        intended={
            kind: _times(one["intended"]) for kind, one in kinds.items() if "intended" in one
        },
        checked=_whole(verified["reads"]),
        wrong=_whole(verified["wrong"]),
        whole=verified.get("whole"),
        statistics=statistics,
        stats=str(rocksdb.get("stats", "")),
    )


def _times(told: dict[str, Any]) -> Histogram:
    """Return a histogram in the stored form: microseconds, of which kvmix tells thousandths."""
    if told["unit"] != "ns" or sum(count for _, _, count in told["buckets"]) != told["count"]:
        raise _malformed("a histogram does not add up")
    buckets = [[low / _NS_PER_US, high / _NS_PER_US, count] for low, high, count in told["buckets"]]
    return histogram.make(
        _whole(told["count"]),
        told["sum"] / _NS_PER_US,
        told["min"] / _NS_PER_US,
        told["max"] / _NS_PER_US,
        buckets,
    )


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _malformed(f"{value!r} is no count")
    return value


def _malformed(what: str) -> ToolFailed:
    return native.malformed(PROGRAM, what)
