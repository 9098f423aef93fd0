"""RocksDB's metrics of a phase: bytes, stalls, table opens, cache (docs/methods.md)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.nulls import ratio, total
from harness.store.spec import PhaseSpec
from harness.tools.rocksdb_log import CAUSES, Log
from harness.workloads.db_bench import READ_TICKERS, STATISTICS, TABLE_OPEN
from harness.workloads.load_program import Parsed, user_bytes

MetricValue = int | float | None

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Below:
    """Bytes that a phase wrote to devices and read from them, except the level's GC reads."""

    written: float | None = None
    read: float | None = None


def written(wal: int | None, log: Log | None) -> int | None:
    """Return L = Lw + Lf + Lc, which excludes small files such as MANIFEST and OPTIONS."""
    return total((wal, log.tables.flush, log.tables.compaction)) if log else None


def metrics(
    phase: PhaseSpec, parsed: Parsed | None, log: Log | None, below: Below
) -> dict[str, MetricValue]:
    """Return the values by catalogue name; null if anything that they need is unknown.

    Values from tickers and histograms need the flag ``statistics``.

    Args:
        phase: the phase as planned.
        parsed: the program's output, null if it could not be read.
        log: RocksDB's LOG, null if the level does not make it readable.
        below: H, and the bytes read from devices.
    """
    values = _of_the_log(log)
    if parsed is not None and parsed.levels is not None:
        values["lsm_bytes"] = parsed.levels[-1].size
    if phase.flags.get(STATISTICS):
        finished = parsed if parsed is not None and parsed.summary is not None else None
        values |= _bytes(phase, finished, log, below.written)
        values |= _shares(phase, finished) | _reads(finished, below.read)
    return values


def _of_the_log(log: Log | None) -> dict[str, MetricValue]:
    flush = log.tables.flush if log else None
    compaction = log.tables.compaction if log else None
    pending = [point.pending for point in log.points if point.pending is not None] if log else []
    return {
        "flush_bytes": flush,
        "compaction_bytes": compaction,
        "rocksdb_sum": ratio(total((flush, compaction)), flush),
        **{f"stalls_{cause}": log.stalls[cause] if log else None for cause in CAUSES},
        "pending_compaction_bytes": pending[-1] if pending else None,
    }


def _bytes(
    phase: PhaseSpec, finished: Parsed | None, log: Log | None, device: float | None
) -> dict[str, MetricValue]:
    """Return L and the metrics computed from it."""
    wal = _ticker(finished, "rocksdb.wal.bytes")
    above = written(wal, log)
    user = user_bytes(phase, finished)
    return {
        "wal_bytes": wal,
        "rocksdb_written": above,
        "wa_lsm": ratio(above, user),
        "level_write_amplification": ratio(device, above),
    }


def _shares(phase: PhaseSpec, finished: Parsed | None) -> dict[str, MetricValue]:
    summary = finished.summary if finished else None
    micros = summary.seconds * _MICROS if summary and summary.seconds > 0 else None
    thread_micros = micros * int(phase.flags.get("threads", 1)) if micros else None
    statistics = finished.statistics if finished else None
    opens = statistics.histograms.get(TABLE_OPEN) if statistics else None
    hits = _ticker(finished, "rocksdb.block.cache.hit")
    misses = _ticker(finished, "rocksdb.block.cache.miss")
    return {
        "stall_share": ratio(_ticker(finished, "rocksdb.stall.micros"), micros),
        "table_open_share": ratio(opens[1] if opens else None, thread_micros),
        "cache_hit_share": ratio(hits, total((hits, misses))),
    }


def _reads(finished: Parsed | None, device: float | None) -> dict[str, MetricValue]:
    """Return the bytes that RocksDB read from files, and the share that caches served.

    Devices also read ahead and in whole blocks, so the share is a lower bound; it is at least 0.
    """
    asked = total(_ticker(finished, name) for name in READ_TICKERS)
    missed = ratio(device, asked)
    return {
        "reads_asked": asked,
        "cache_served_share": None if missed is None else max(1 - missed, 0.0),
    }


def _ticker(finished: Parsed | None, name: str) -> int | None:
    statistics = finished.statistics if finished else None
    return statistics.tickers.get(name) if statistics else None
