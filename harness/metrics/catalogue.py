"""The catalogue of metrics. One entry is everything that the project knows about a metric.

A metric in ``result.json`` is keyed ``<phase>.<name>``. :func:`lookup` finds ``<name>`` here. Times
are not a result on an emulated device; bytes and counts are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial


class MetricKind(StrEnum):
    """What a metric measures."""

    TIME = "time"  # depends on the speed of the device: not a result on an emulated one
    BYTES = "bytes"
    COUNT = "count"
    RATIO = "ratio"  # of bytes or counts


class Better(StrEnum):
    """The direction that is better; ``NONE`` for metrics that only describe."""

    HIGHER = "higher"
    LOWER = "lower"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """A catalogue entry.

    Attributes:
        name: last part of the metric's key.
        better: the direction that is better.
        formula: in the letters of docs/methods.md.
        sources: files below the run's folder from which the metric is computed, the main one first.
            ``{phase}`` is the key without the name, ``{program}`` the key's first part. Names are
            without a suffix of packing; ``*`` matches any text.
        unit: ``B``, ``1`` for plain numbers, ``us``, …
        kind: whether it is a result on an emulated device.
        includes_wal: the bytes include the write-ahead log.
        includes_reads: the bytes include reads that caches did not serve.
        of_processor: the time is work of a processor, which no model of a drive describes.
    """

    name: str
    better: Better
    formula: str
    sources: tuple[str, ...]
    unit: str = "1"
    kind: MetricKind = field(kw_only=True)
    includes_wal: bool = False
    includes_reads: bool = False
    of_processor: bool = False


_HIGHER, _LOWER, _NONE = Better

RESULT = "result.json"  # measured by the runner itself
_STDOUT = ("raw/{phase}.stdout",)
_PROGRAM = ("raw/{program}.stdout",)
_HISTOGRAM = ("histograms/{phase}.*.json",)
_LOG = ("raw/{phase}.LOG",)
_TICKERS = (*_STDOUT, *_LOG)
_COUNTERS = ("raw/{phase}.counters.json",)
_PROCESS = ("raw/{phase}.process.json",)
_PROCESSES = ("raw/*.process.json",)
_ZONES = ("raw/{phase}.zones.csv",)
_USAGE = ("raw/{phase}.usage.json",)
_LEDGER = ("ledger.json", *_USAGE, *_COUNTERS, *_ZONES)
_TIMELINE = ("series/zone_commands.csv",)
_REPLAY = ("raw/replay.json",)
_TRACE = (*_TIMELINE, "raw/trace.jsonl")


_bytes = partial(MetricInfo, unit="B", kind=MetricKind.BYTES)
_count = partial(MetricInfo, kind=MetricKind.COUNT)
_ratio = partial(MetricInfo, kind=MetricKind.RATIO)
_cpu_time = partial(
    MetricInfo, better=_LOWER, sources=_PROCESS, kind=MetricKind.TIME, of_processor=True
)


def _time(
    name: str, unit: str, better: Better, formula: str, sources: tuple[str, ...]
) -> MetricInfo:
    return MetricInfo(name, better, formula, sources, unit, kind=MetricKind.TIME)


_ENTRIES = (
    _time("throughput", "ops/s", _HIGHER, "operations / seconds, db_bench", _STDOUT),
    _time("seconds", "s", _LOWER, "wall time of the benchmark, db_bench", _STDOUT),
    _time("latency_mean", "us", _LOWER, "mean of the operation histogram", _HISTOGRAM),
    _time("latency_p50", "us", _LOWER, "median of the merged histogram", _HISTOGRAM),
    # Imported campaigns only: runs have it in their histograms.
    _time(
        "latency_p95",
        "us",
        _LOWER,
        "95th percentile of the merged histogram, else fio's own",
        _STDOUT,
    ),
    _time("latency_p99", "us", _LOWER, "99th percentile of the merged histogram", _HISTOGRAM),
    _time(
        "latency_p99_9", "us", _LOWER, "99.9th percentile; null unless n(1-q) >= 100", _HISTOGRAM
    ),
    _time(
        "latency_p99_99", "us", _LOWER, "99.99th percentile; null unless n(1-q) >= 100", _HISTOGRAM
    ),
    _time("latency_max", "us", _LOWER, "largest recorded sample", _HISTOGRAM),
    # From the intended start of each operation, for open loops (kvmix with a rate).
    *(
        _time(f"intended_latency_{part}", "us", _LOWER, which, _HISTOGRAM)
        for part, which in (
            ("mean", "mean, from the intended start"),
            ("p50", "median, from the intended start"),
            ("p99", "99th percentile, from the intended start"),
            ("p99_9", "99.9th percentile; null unless n(1-q) >= 100"),
            ("p99_99", "99.99th percentile; null unless n(1-q) >= 100"),
            ("max", "largest, from the intended start"),
        )
    ),
    _count("operations", _NONE, "operations in the summary line", _STDOUT),
    _bytes("user_bytes", _NONE, "U = operations x (key + value)", _STDOUT),
    _bytes(
        "zoned_written",
        _LOWER,
        "sectors written to the zoned device x 512",
        _COUNTERS,
        includes_wal=True,
    ),
    _bytes(
        "conventional_written",
        _LOWER,
        "sectors written to the conventional device x 512",
        _COUNTERS,
        includes_wal=True,
    ),
    _bytes("device_written", _LOWER, "H, summed over all devices", _COUNTERS, includes_wal=True),
    _bytes("device_read", _NONE, "sectors read x 512, all devices", _COUNTERS, includes_reads=True),
    _ratio("write_amplification", _LOWER, "H / U, host to device", _COUNTERS, includes_wal=True),
    _bytes("flush_bytes", _NONE, "Lf, table files, RocksDB's LOG", _LOG),
    _bytes("compaction_bytes", _NONE, "Lc, table files, RocksDB's LOG", _LOG),
    _ratio("rocksdb_sum", _LOWER, "(Lf + Lc) / Lf, RocksDB's LOG", _LOG),
    _bytes("lsm_bytes", _NONE, "row Sum of rocksdb.stats, which is rounded", _TICKERS),
    _bytes(
        "pending_compaction_bytes", _NONE, "last estimate of bytes to compact, RocksDB's LOG", _LOG
    ),
    # How often and how long writers wait depends on the speed of the device.
    _time("stalls_memtable", "1", _NONE, "stalls by full memtables, RocksDB's LOG", _LOG),
    _time("stalls_level0", "1", _NONE, "stalls by a full level 0, RocksDB's LOG", _LOG),
    _time("stalls_pending", "1", _NONE, "stalls by bytes to compact, RocksDB's LOG", _LOG),
    # For workloads with the flag `statistics`.
    _bytes("wal_bytes", _NONE, "Lw, ticker rocksdb.wal.bytes", _TICKERS),
    _bytes("rocksdb_written", _LOWER, "L = Lw + Lf + Lc", _TICKERS),
    _ratio("wa_lsm", _LOWER, "L / U, user to RocksDB's files", _TICKERS),
    _ratio(
        "level_write_amplification",
        _LOWER,
        "H / L, RocksDB to device",
        (*_COUNTERS, *_LOG, *_STDOUT),
        includes_wal=True,
    ),
    _time("stall_share", "1", _LOWER, "rocksdb.stall.micros / 10^6 / seconds", _TICKERS),
    _time(
        "table_open_share",
        "1",
        _LOWER,
        "sum of rocksdb.table.open.io.micros / 10^6 / (threads x seconds)",
        _TICKERS,
    ),
    _ratio(
        "cache_hit_share",
        _NONE,
        "rocksdb.block.cache.hit / (hit + miss), compactions' reads included",
        _TICKERS,
    ),
    _bytes("reads_asked", _NONE, "read from table files, RocksDB's tickers", _TICKERS),
    _ratio(
        "cache_served_share",
        _NONE,
        "max(0, 1 - (device_read - gc_bytes) / reads_asked)",
        (*_COUNTERS, *_STDOUT),
    ),
    _ratio("zoned_share", _NONE, "zoned_written / device_written", _COUNTERS),
    # Beyond 2 % and 1 us of the model, a completion is late (harness/native/zoneblk).
    _time("on_time_share", "1", _NONE, "requests that a modelled drive ended on time", _COUNTERS),
    _time("late_share", "1", _NONE, "lateness of a modelled drive / its model's time", _COUNTERS),
    _bytes("gc_bytes", _LOWER, "bytes moved by the level's GC, by its own count", _USAGE),
    _count("gc_events", _NONE, "the level's own GC counter", _USAGE),
    _time("gc_seconds", "s", _LOWER, "time in which the level collected garbage", _USAGE),
    # From the ledger (harness/run/ledger.py).
    _bytes("small_files_bytes", _NONE, "Lm, by the level's own count", _LEDGER),
    _bytes("level_overhead", _LOWER, "level's metadata and filling of blocks", _LEDGER),
    _bytes("pad_bytes", _LOWER, "P, capacity given up by finishing", _LEDGER),
    # Pad and finishes by cause, if the level reports causes.
    _bytes("pad_threshold", _LOWER, "part of P: finish threshold", _LEDGER),
    _bytes("pad_active_limit", _LOWER, "part of P: limit of active zones", _LEDGER),
    _bytes("pad_metadata_roll", _LOWER, "part of P: metadata log", _LEDGER),
    _bytes("pad_explicit", _LOWER, "part of P: after cold data", _LEDGER),
    _count("finishes_threshold", _LOWER, "finishes by the threshold", _LEDGER),
    _count("finishes_active_limit", _LOWER, "finishes by the limit of active zones", _LEDGER),
    _count("finishes_metadata_roll", _LOWER, "finishes of the metadata log", _LEDGER),
    _count("finishes_explicit", _LOWER, "finishes after cold data", _LEDGER),
    _bytes("media_bytes", _LOWER, "M, modelled as H + P on zones", _LEDGER, includes_wal=True),
    _ratio("wa_pad", _LOWER, "(H + P) / H", _LEDGER),
    _ratio("wa_dev", _LOWER, "M / H, device to media", _LEDGER),
    _ratio("wa_total", _LOWER, "M / U, user to media", _LEDGER, includes_wal=True),
    _bytes("allocated_bytes", _LOWER, "A at the end of the phase", _LEDGER),
    _bytes("live_bytes", _NONE, "V at the end of the phase", _LEDGER),
    _bytes("dead_bytes", _LOWER, "A - V: garbage, pad, metadata", _LEDGER),
    _bytes("garbage_bytes", _LOWER, "garbage in A: the level's count, or A - V - pad", _LEDGER),
    _ratio("space_amplification", _LOWER, "A / V", _LEDGER),
    _ratio("sa_host", _LOWER, "(H + garbage) / H, H since the level came up", _LEDGER),
    _count("zones_full", _NONE, "full zones in the report at the end of the phase", _ZONES),
    _count("zones_active", _NONE, "open and closed zones in the same report", _ZONES),
    # Successful commands, seen at the driver; null unless they were traced without loss.
    _count("zone_resets", _LOWER, "zone resets, tracer", _TRACE),
    _time("reset_rate", "1/s", _LOWER, "zone_resets / seconds", (*_TRACE, *_STDOUT)),
    _count("zone_finishes", _LOWER, "finishes that filled a zone", _TRACE),
    _count("zone_opens", _NONE, "explicit zone opens, tracer", _TRACE),
    _count("zone_closes", _NONE, "explicit zone closes, tracer", _TRACE),
    _time("active_zone_seconds", "s", _NONE, "sum of the times zones were active", _TRACE),
    _count("denied_opens", _LOWER, "commands refused at a limit of zones, tracer", _TRACE),
    # From a run's timeline (harness/run/zone_costs.py); the modelled ones are for a ZN540.
    _count("wear_min", _NONE, "fewest resets of a data zone", _TIMELINE),
    _count("wear_median", _NONE, "median of the resets of data zones", _TIMELINE),
    _count("wear_max", _LOWER, "most resets of a data zone", _TIMELINE),
    _ratio("wear_cv", _LOWER, "standard deviation / mean of the resets of data zones", _TIMELINE),
    _ratio(
        "finish_occupancy_p10", _NONE, "written at finish, 10th percentile", _TIMELINE, unit="%"
    ),
    _ratio("finish_occupancy_p50", _NONE, "written at finish, median", _TIMELINE, unit="%"),
    _ratio(
        "finish_occupancy_p90", _NONE, "written at finish, 90th percentile", _TIMELINE, unit="%"
    ),
    _time("finish_seconds", "s", _LOWER, "time in finish commands, tracer", _TIMELINE),
    _time("reset_seconds", "s", _LOWER, "time in reset commands, tracer", _TIMELINE),
    _time(
        "finish_reset_share",
        "1",
        _LOWER,
        "(finish_seconds + reset_seconds) / time of the phases",
        (*_TIMELINE, *_PROCESSES),
    ),
    _count(
        "modelled_finish_seconds",
        _LOWER,
        "modelled: finishes on a ZN540, from their pad",
        _TIMELINE,
        unit="s",
    ),
    _count(
        "modelled_reset_seconds",
        _LOWER,
        "modelled: resets on a ZN540, from the occupancy",
        _TIMELINE,
        unit="s",
    ),
    _ratio(
        "modelled_cost_share",
        _LOWER,
        "modelled: finishes and resets / (these + H at 1,155 MiB/s)",
        (*_TIMELINE, "ledger.json"),
    ),
    # Of a replay on a modelled drive (harness/run/replayed_times.py).
    _count("modelled_seconds", _LOWER, "modelled: until all threads end", _REPLAY, unit="s"),
    _count(
        "modelled_turn_seconds",
        _NONE,
        "modelled: waits for requests of other threads",
        _REPLAY,
        "s",
    ),
    _count(
        "modelled_bandwidth", _HIGHER, "modelled: appended bytes without gc / s", _REPLAY, "B/s"
    ),
    *(
        _count(
            f"modelled_{command}_device_seconds",
            _LOWER,
            f"modelled: sum of the {command} commands' latencies",
            _REPLAY,
            unit="s",
        )
        for command in ("read", "write", "flush", "finish", "reset")
    ),
    *(
        _count(
            f"modelled_{what}_{cause}_{part}",
            _LOWER,
            f"modelled: {which}, {what}s of {cause}",
            _REPLAY,
            unit="us",
        )
        for what, causes in (
            ("append", ("wal", "flush", "compaction", "gc")),
            ("sync", ("wal", "flush", "compaction")),
        )
        for cause in causes
        for part, which in (
            ("mean", "mean"),
            ("p50", "median"),
            ("p99", "99th percentile"),
            ("p99_9", "99.9th percentile"),
        )
    ),
    _bytes("appended", _NONE, "bytes of zone appends, tracer", _TRACE),
    _time(
        "device_busy_share",
        "1",
        _NONE,
        "io_ticks of the busiest device / db_bench's time",
        _COUNTERS,
    ),
    _time(
        "bandwidth_share",
        "1",
        _NONE,
        "(written / write cap + read / read cap) / db_bench's time; null without a known cap",
        _COUNTERS,
    ),
    _cpu_time("cpu_seconds", unit="s", formula="cgroup cpu.stat of the load"),
    _time(
        "busy_cpus",
        "1",
        _NONE,
        "CPUs of the machine that ran tasks, on average: /proc/schedstat / db_bench's time",
        _PROCESS,
    ),
    _time("flush_cpu_share", "1", _NONE, "CPU of the flush threads / their time", _PROCESS),
    _time("compaction_cpu_share", "1", _NONE, "CPU of compaction threads / their time", _PROCESS),
    _cpu_time("cpu_per_operation", unit="us", formula="cpu_seconds x 10^6 / operations"),
    _count("instructions", _LOWER, "PMU, cgroup of the load", _PROCESS),
    _ratio("merged_share", _NONE, "write requests merged into others / all", _COUNTERS),
    _ratio("instructions_per_operation", _LOWER, "instructions / operations", _PROCESS),
    _time("harness_cpu_share", "1", _LOWER, "runner CPU / all CPU, cgroups", _PROCESSES),
    _time(
        "tracer_cpu_share",
        "1",
        _LOWER,
        "BPF programs of the tracer / all CPU",
        ("raw/trace.jsonl", *_PROCESSES),
    ),
    _bytes("harness_memory_peak", _NONE, "peak RSS of the runner", (RESULT,)),
    # From zoneprobe, by treatment of the zone (<phase>.<treatment>.<name>).
    *(
        _time(f"{command}_latency_{part}", "us", _LOWER, f"{which}, {what}", _PROGRAM)
        for command, what in (
            ("reset", "resets of a treatment's zones, zoneprobe"),
            ("finish", "finishes of a treatment's zones, zoneprobe"),
            ("first_write", "first writes after a reset, or to a fresh zone, zoneprobe"),
        )
        for part, which in (
            ("mean", "mean"),
            ("p50", "median"),
            ("p99", "99th percentile, null unless n(1-q) >= 100"),
            ("max", "largest"),
        )
    ),
    _time(
        "later_write_latency_p50",
        "us",
        _LOWER,
        "median of the second half of the writes after a reset, zoneprobe",
        _PROGRAM,
    ),
    _ratio(
        "utilisation",
        _NONE,
        "V / capacity of the namespace",
        ("raw/cold.counters.json", *_COUNTERS),
    ),
    _ratio(
        "max_utilisation",
        _HIGHER,
        "free bytes of the fresh level / capacity",
        ("raw/up.usage.json",),
    ),
)

CATALOGUE: dict[str, MetricInfo] = {entry.name: entry for entry in _ENTRIES}


def lookup(key: str) -> MetricInfo:
    """Return the entry of a metric key such as ``overwrite.throughput``.

    Raises:
        KeyError: the catalogue has no such metric.
    """
    return CATALOGUE[key.rpartition(".")[2]]


def source_patterns(key: str) -> tuple[str, ...]:
    """Return the files from which a metric is computed, as patterns below the run's folder."""
    phase = key.rpartition(".")[0]
    info = CATALOGUE.get(key.rpartition(".")[2])
    program = phase.partition(".")[0]
    return tuple(
        source.format(phase=phase, program=program) for source in (info.sources if info else ())
    )
