"""The catalogue of metrics: unit, kind, direction and formula, in one place.

A metric in ``result.json`` is keyed ``<phase>.<name>``; ``<name>`` is looked up here. ``kind``
decides what an emulated device may say about it: times are no result there, bytes and counts are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What sort of quantity a metric is."""

    TIME = "time"  # depends on how fast the device is: no result on an emulated one
    BYTES = "bytes"
    COUNT = "count"
    RATIO = "ratio"  # of bytes or counts


class Better(StrEnum):
    """Which direction a reader wants; ``NONE`` for metrics that only describe."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """Catalogue entry. ``formula`` uses the letters of docs/methods.md."""

    name: str
    unit: str
    kind: Kind
    better: Better
    formula: str


_ENTRIES = (
    MetricInfo("throughput", "ops/s", Kind.TIME, Better.HIGHER, "operations / seconds, db_bench"),
    MetricInfo("seconds", "s", Kind.TIME, Better.LOWER, "wall time of the benchmark, db_bench"),
    MetricInfo("latency_mean", "us", Kind.TIME, Better.LOWER, "mean of the operation histogram"),
    MetricInfo("latency_p50", "us", Kind.TIME, Better.LOWER, "merged histogram"),
    MetricInfo("latency_p99", "us", Kind.TIME, Better.LOWER, "merged histogram"),
    MetricInfo("latency_p99_9", "us", Kind.TIME, Better.LOWER, "null unless n(1-q) >= 100"),
    MetricInfo("latency_p99_99", "us", Kind.TIME, Better.LOWER, "null unless n(1-q) >= 100"),
    MetricInfo("latency_max", "us", Kind.TIME, Better.LOWER, "largest recorded sample"),
    # From the intended start of each operation; of open loops only (kvmix with a rate).
    MetricInfo("intended_latency_mean", "us", Kind.TIME, Better.LOWER, "mean, from intended start"),
    MetricInfo("intended_latency_p50", "us", Kind.TIME, Better.LOWER, "merged, intended start"),
    MetricInfo("intended_latency_p99", "us", Kind.TIME, Better.LOWER, "merged, intended start"),
    MetricInfo(
        "intended_latency_p99_9", "us", Kind.TIME, Better.LOWER, "null unless n(1-q) >= 100"
    ),
    MetricInfo(
        "intended_latency_p99_99", "us", Kind.TIME, Better.LOWER, "null unless n(1-q) >= 100"
    ),
    MetricInfo("intended_latency_max", "us", Kind.TIME, Better.LOWER, "largest, intended start"),
    MetricInfo("operations", "1", Kind.COUNT, Better.NONE, "operations the summary line reports"),
    MetricInfo("user_bytes", "B", Kind.BYTES, Better.NONE, "U = operations x (key + value)"),
    MetricInfo(
        "zoned_written", "B", Kind.BYTES, Better.LOWER, "sectors written to the zoned device x 512"
    ),
    MetricInfo(
        "conventional_written", "B", Kind.BYTES, Better.LOWER, "the same, conventional device"
    ),
    MetricInfo("device_written", "B", Kind.BYTES, Better.LOWER, "H, summed over all devices"),
    MetricInfo("device_read", "B", Kind.BYTES, Better.NONE, "sectors read x 512, all devices"),
    MetricInfo("write_amplification", "1", Kind.RATIO, Better.LOWER, "H / U, host to device"),
    MetricInfo("flush_bytes", "B", Kind.BYTES, Better.NONE, "Lf, table files, RocksDB's LOG"),
    MetricInfo("compaction_bytes", "B", Kind.BYTES, Better.NONE, "Lc, table files, RocksDB's LOG"),
    MetricInfo("rocksdb_sum", "1", Kind.RATIO, Better.LOWER, "(Lf + Lc) / Lf, RocksDB's LOG"),
    MetricInfo("lsm_bytes", "B", Kind.BYTES, Better.NONE, "Sum of rocksdb.stats, as it rounds it"),
    MetricInfo(
        "pending_compaction_bytes", "B", Kind.BYTES, Better.NONE, "last estimate, RocksDB's LOG"
    ),
    # How often and how long writers wait depends on the speed of the device.
    MetricInfo("stalls_memtable", "1", Kind.TIME, Better.NONE, "memtables full, RocksDB's LOG"),
    MetricInfo("stalls_level0", "1", Kind.TIME, Better.NONE, "level 0 full, RocksDB's LOG"),
    MetricInfo("stalls_pending", "1", Kind.TIME, Better.NONE, "pending bytes, RocksDB's LOG"),
    # Only of workloads with the flag `statistics`.
    MetricInfo("wal_bytes", "B", Kind.BYTES, Better.NONE, "Lw, ticker rocksdb.wal.bytes"),
    MetricInfo("rocksdb_written", "B", Kind.BYTES, Better.LOWER, "L = Lw + Lf + Lc"),
    MetricInfo("wa_lsm", "1", Kind.RATIO, Better.LOWER, "L / U, user to RocksDB's files"),
    MetricInfo(
        "level_write_amplification", "1", Kind.RATIO, Better.LOWER, "H / L, RocksDB to device"
    ),
    MetricInfo(
        "stall_share", "1", Kind.TIME, Better.LOWER, "rocksdb.stall.micros / 10^6 / seconds"
    ),
    MetricInfo(
        "table_open_share",
        "1",
        Kind.TIME,
        Better.LOWER,
        "sum of rocksdb.table.open.io.micros / 10^6 / (threads x seconds)",
    ),
    MetricInfo(
        "cache_hit_share",
        "1",
        Kind.RATIO,
        Better.NONE,
        "rocksdb.block.cache.hit / (hit + miss), compactions' reads included",
    ),
    MetricInfo(
        "reads_asked", "B", Kind.BYTES, Better.NONE, "read from table files, RocksDB's tickers"
    ),
    MetricInfo(
        "cache_served_share",
        "1",
        Kind.RATIO,
        Better.NONE,
        "max(0, 1 - (device_read - gc_bytes) / reads_asked)",
    ),
    MetricInfo("zoned_share", "1", Kind.RATIO, Better.NONE, "zoned_written / device_written"),
    MetricInfo("gc_bytes", "B", Kind.BYTES, Better.LOWER, "bytes the level says its GC moved"),
    MetricInfo("gc_events", "1", Kind.COUNT, Better.NONE, "the level's own GC counter"),
    # Of the ledger (harness/run/ledger.py).
    MetricInfo("small_files_bytes", "B", Kind.BYTES, Better.NONE, "Lm, by the level's own count"),
    MetricInfo(
        "level_overhead", "B", Kind.BYTES, Better.LOWER, "level's metadata and filling of blocks"
    ),
    MetricInfo("pad_bytes", "B", Kind.BYTES, Better.LOWER, "P, capacity given up by finishing"),
    # The same and how many finishes gave it up, by cause, where the level tells.
    MetricInfo("pad_threshold", "B", Kind.BYTES, Better.LOWER, "of P: finish threshold"),
    MetricInfo("pad_active_limit", "B", Kind.BYTES, Better.LOWER, "of P: limit of active zones"),
    MetricInfo("pad_metadata_roll", "B", Kind.BYTES, Better.LOWER, "of P: metadata log"),
    MetricInfo("pad_explicit", "B", Kind.BYTES, Better.LOWER, "of P: behind cold data"),
    MetricInfo("finishes_threshold", "1", Kind.COUNT, Better.LOWER, "finishes by the threshold"),
    MetricInfo("finishes_active_limit", "1", Kind.COUNT, Better.LOWER, "by the limit of zones"),
    MetricInfo("finishes_metadata_roll", "1", Kind.COUNT, Better.LOWER, "of the metadata log"),
    MetricInfo("finishes_explicit", "1", Kind.COUNT, Better.LOWER, "behind cold data"),
    MetricInfo("media_bytes", "B", Kind.BYTES, Better.LOWER, "M, modelled as H + P on zones"),
    MetricInfo("wa_pad", "1", Kind.RATIO, Better.LOWER, "(H + P) / H"),
    MetricInfo("wa_dev", "1", Kind.RATIO, Better.LOWER, "M / H, device to media"),
    MetricInfo("wa_total", "1", Kind.RATIO, Better.LOWER, "M / U, user to media"),
    MetricInfo("allocated_bytes", "B", Kind.BYTES, Better.LOWER, "A at the end of the phase"),
    MetricInfo("live_bytes", "B", Kind.BYTES, Better.NONE, "V at the end of the phase"),
    MetricInfo("dead_bytes", "B", Kind.BYTES, Better.LOWER, "A - V: garbage, pad, metadata"),
    MetricInfo(
        "garbage_bytes", "B", Kind.BYTES, Better.LOWER, "garbage in A, by the level or A - V - pad"
    ),
    MetricInfo("space_amplification", "1", Kind.RATIO, Better.LOWER, "A / V"),
    MetricInfo(
        "sa_host",
        "1",
        Kind.RATIO,
        Better.LOWER,
        "(H + garbage) / H, H since the level came up",
    ),
    MetricInfo("zones_full", "1", Kind.COUNT, Better.NONE, "zone report at the end of the phase"),
    MetricInfo("zones_active", "1", Kind.COUNT, Better.NONE, "open and closed zones, same report"),
    # Commands that ended well, seen at the driver; null where they were not traced without loss.
    MetricInfo("zone_resets", "1", Kind.COUNT, Better.LOWER, "zone resets, tracer"),
    MetricInfo("reset_rate", "1/s", Kind.TIME, Better.LOWER, "zone_resets / seconds"),
    MetricInfo("zone_finishes", "1", Kind.COUNT, Better.LOWER, "finishes that filled a zone"),
    MetricInfo("zone_opens", "1", Kind.COUNT, Better.NONE, "explicit zone opens, tracer"),
    MetricInfo("zone_closes", "1", Kind.COUNT, Better.NONE, "explicit zone closes, tracer"),
    MetricInfo(
        "active_zone_seconds", "s", Kind.TIME, Better.NONE, "sum of the times zones were active"
    ),
    MetricInfo("denied_opens", "1", Kind.COUNT, Better.LOWER, "zone limit reached, tracer"),
    # Of a run's timeline (harness/run/zone_costs.py); the modelled ones are a ZN540's.
    MetricInfo("wear_min", "1", Kind.COUNT, Better.NONE, "resets per data zone, the fewest"),
    MetricInfo("wear_median", "1", Kind.COUNT, Better.NONE, "resets per data zone, median"),
    MetricInfo("wear_max", "1", Kind.COUNT, Better.LOWER, "resets per data zone, the most"),
    MetricInfo("wear_cv", "1", Kind.RATIO, Better.LOWER, "the same, standard deviation / mean"),
    MetricInfo("finish_occupancy_p10", "%", Kind.RATIO, Better.NONE, "written at finish"),
    MetricInfo("finish_occupancy_p50", "%", Kind.RATIO, Better.NONE, "written at finish, median"),
    MetricInfo("finish_occupancy_p90", "%", Kind.RATIO, Better.NONE, "written at finish"),
    MetricInfo("finish_seconds", "s", Kind.TIME, Better.LOWER, "in finish commands, tracer"),
    MetricInfo("reset_seconds", "s", Kind.TIME, Better.LOWER, "in reset commands, tracer"),
    MetricInfo(
        "finish_reset_share",
        "1",
        Kind.TIME,
        Better.LOWER,
        "(finish_seconds + reset_seconds) / phases",
    ),
    MetricInfo(
        "modelled_finish_seconds", "s", Kind.COUNT, Better.LOWER, "modelled: on a ZN540, from pad"
    ),
    MetricInfo(
        "modelled_reset_seconds",
        "s",
        Kind.COUNT,
        Better.LOWER,
        "modelled: on a ZN540, from occupancy",
    ),
    MetricInfo(
        "modelled_cost_share",
        "1",
        Kind.RATIO,
        Better.LOWER,
        "modelled: finishes and resets / (these + H at 1,155 MiB/s)",
    ),
    MetricInfo("appended", "B", Kind.BYTES, Better.NONE, "bytes of zone appends, tracer"),
    MetricInfo(
        "device_busy_share", "1", Kind.TIME, Better.NONE, "io_ticks / db_bench's time, the busiest"
    ),
    MetricInfo(
        "bandwidth_share",
        "1",
        Kind.TIME,
        Better.NONE,
        "(written / write cap + read / read cap) / db_bench's time; null without a known cap",
    ),
    MetricInfo("cpu_seconds", "s", Kind.TIME, Better.LOWER, "cgroup cpu.stat of the load"),
    MetricInfo(
        "cpu_per_operation", "us", Kind.TIME, Better.LOWER, "cpu_seconds x 10^6 / operations"
    ),
    MetricInfo("instructions", "1", Kind.COUNT, Better.LOWER, "PMU, cgroup of the load"),
    MetricInfo(
        "instructions_per_operation", "1", Kind.RATIO, Better.LOWER, "instructions / operations"
    ),
    MetricInfo("harness_cpu_share", "1", Kind.TIME, Better.LOWER, "runner CPU / all CPU, cgroups"),
    MetricInfo(
        "tracer_cpu_share", "1", Kind.TIME, Better.LOWER, "programs in the kernel / all CPU"
    ),
    MetricInfo("harness_memory_peak", "B", Kind.BYTES, Better.NONE, "peak RSS of the runner"),
    # Of zoneprobe, by what a zone went through before (<phase>.<treatment>.<name>).
    *(
        MetricInfo(f"{command}_latency_{part}", "us", Kind.TIME, Better.LOWER, f"{which}, {what}")
        for command, what in (
            ("reset", "resets of a treatment's zones, zoneprobe"),
            ("finish", "finishes of a treatment's zones, zoneprobe"),
            ("first_write", "first writes behind a reset, or to a fresh zone, zoneprobe"),
        )
        for part, which in (
            ("mean", "mean"),
            ("p50", "median"),
            ("p99", "null unless n(1-q) >= 100"),
            ("max", "largest"),
        )
    ),
    MetricInfo(
        "later_write_latency_p50",
        "us",
        Kind.TIME,
        Better.LOWER,
        "median of the second half of the writes behind a reset, zoneprobe",
    ),
    MetricInfo("utilisation", "1", Kind.RATIO, Better.NONE, "V / capacity of the namespace"),
    MetricInfo("max_utilisation", "1", Kind.RATIO, Better.HIGHER, "fresh free bytes / capacity"),
)

CATALOGUE: dict[str, MetricInfo] = {entry.name: entry for entry in _ENTRIES}


def lookup(key: str) -> MetricInfo:
    """Return the entry of a metric key such as ``overwrite.throughput``; KeyError when unknown."""
    return CATALOGUE[key.rpartition(".")[2]]
