"""One phase: db_bench between two barriers, and what can be said about it afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ToolFailed
from harness.levels.base import Level, LevelUp, LevelUsage
from harness.metrics import CATALOGUE
from harness.observe import zones
from harness.observe.diskstats import DiskCounters, delta
from harness.observe.tracer import Snapshot, Tracer
from harness.observe.zone_trace import Traced
from harness.observe.zones import ZoneCounts
from harness.rules.devices import gc_delta
from harness.rules.facts import PhaseFacts
from harness.run.bench import Bench
from harness.run.program import Ended, run_program
from harness.run.progress import Share
from harness.run.share import ShareDone
from harness.store.files import dumps
from harness.store.result import Metric, PhaseResult
from harness.store.rundir import RunWriter
from harness.store.spec import Device, PhaseSpec
from harness.tools import rocksdb_log
from harness.tools.rocksdb_log import TableBytes
from harness.workloads import db_bench

_LOG_TAIL = 256 * 1024  # the end of RocksDB's LOG holds the error that stopped it
_OUTPUT_LIMIT = 4 * 1024 * 1024  # db_bench prints tens of KiB; more is a fault, kept in raw/
_SETTLE_TRIES = 20
_SETTLE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Barrier:
    """Counters at a moment when everything was synced and nothing was in flight."""

    disks: Mapping[str, DiskCounters]
    usage: LevelUsage
    zones: ZoneCounts | None
    trace: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU time since the unit began, of db_bench and of the harness; null without cgroups."""

    load: float | None
    harness: float | None


@dataclass(frozen=True, slots=True)
class Stage:
    """A level that is up, with the devices that count. Names are the kernel's."""

    level: Level
    up: LevelUp
    device: Device
    conventional: Device | None
    writer: RunWriter
    began: float
    tracer: Tracer | None = None

    @property
    def zoned_name(self) -> str | None:
        """The zoned device, when this level uses it."""
        return Path(self.device.path).name if self.level.uses_zoned else None

    @property
    def conventional_name(self) -> str | None:
        """The conventional device, when this level uses one."""
        return Path(self.conventional.path).name if self.conventional else None

    @property
    def names(self) -> list[str]:
        """Both, without what is not used."""
        return [name for name in (self.zoned_name, self.conventional_name) if name]


def barrier(bench: Bench, stage: Stage, point: str) -> Barrier:
    """Sync the level, wait until the devices are quiet, and read every counter.

    ``point`` names the zone report and usage kept in ``raw/``.
    """
    stage.level.sync(stage.up)
    disks = bench.host.disk_counters(stage.names)
    for _ in range(_SETTLE_TRIES):
        time.sleep(_SETTLE_SECONDS)
        later = bench.host.disk_counters(stage.names)
        quiet = later == disks and not any(disk.in_flight for disk in later.values())
        disks = later
        if quiet:
            break
    usage = stage.level.usage(stage.up)
    stage.writer.write(f"raw/{point}.usage.json", dumps(usage))
    counts = None
    if stage.level.uses_zoned:
        report = bench.host.zones(stage.device.path)
        stage.writer.write(f"raw/{point}.zones.csv", zones.as_csv(report))
        counts = zones.count(report, skip=stage.level.metadata_zones)
    smart = {name: bench.host.smart(name) for name in stage.names}
    stage.writer.write(f"raw/{point}.smart.json", dumps(smart))
    trace = stage.tracer.snapshot() if stage.tracer else None
    return Barrier(disks, usage, counts, trace)


def _cpu(bench: Bench) -> CpuSeconds:
    return CpuSeconds(bench.cgroups.load_seconds(), bench.cgroups.harness_seconds())


def run_phase(
    bench: Bench,
    stage: Stage,
    spec: PhaseSpec,
    seed: int,
    *,
    first: bool,
    before: Barrier,
    seconds_left: float,
    tick: Callable[[Share], None],
) -> tuple[PhaseFacts, PhaseResult, Barrier]:
    """Run db_bench once; return the facts, the record and the barrier behind it."""
    raw = stage.writer.path / "raw"
    stderr = raw / f"{spec.name}.stderr"
    report = db_bench.Report(stage.up, raw / f"{spec.name}.report.csv", stderr)
    argv = db_bench.argv(
        spec, stage.up, seed, first=first, program=stage.up.program or bench.program, report=report
    )
    started, offset = bench.host.now(), bench.host.monotonic() - stage.began
    share = ShareDone(report.path, spec)
    # Not at the barriers: what the harness does between phases disturbs nobody.
    before_cpu = _cpu(bench)
    ended = run_program(
        argv,
        env=stage.up.environment,
        stdout=raw / f"{spec.name}.stdout",
        stderr=stderr,
        timeout=min(spec.timeout_seconds, seconds_left),
        started=bench.cgroups.enter_load,
        tick=lambda seconds: tick(lambda: share.read(seconds)),
        stalled=share.stalled,
        clock=bench.host.monotonic,
    )
    cpu = _since(before_cpu, _cpu(bench))
    after = barrier(bench, stage, spec.name)
    facts = _facts(stage, spec, ended, before=before, after=after, cpu=cpu)
    _write_series(stage.writer, spec, report, offset)
    histogram = _write_histograms(stage.writer, spec, facts)
    summary = facts.parsed.summary if facts.parsed else None
    result = PhaseResult(
        name=spec.name,
        benchmark=spec.benchmark,
        role=spec.role.value,
        argv=tuple(argv),
        started=started,
        seconds=round(ended.seconds, 3),
        exit_code=ended.exit_code,
        signal=ended.signal,
        operations_requested=spec.operations,
        operations_done=summary.operations if summary else None,
        stdout=f"raw/{spec.name}.stdout",
        stderr=f"raw/{spec.name}.stderr",
        histogram=histogram,
    )
    return facts, result, after


def metrics(facts: PhaseFacts) -> dict[str, Metric]:
    """Return ``<phase>.<metric>`` for everything a phase tells; null where it does not."""
    values = db_bench.metrics(facts.spec, facts.parsed) if facts.parsed else {}
    user = values["user_bytes"].value if "user_bytes" in values else None
    written = [disk.write_bytes for disk in (facts.zoned, facts.conventional) if disk]
    read = [disk.read_bytes for disk in (facts.zoned, facts.conventional) if disk]
    total = sum(written) if written else None
    more: dict[str, int | float | None] = {
        "zoned_written": facts.zoned.write_bytes if facts.zoned else None,
        "conventional_written": facts.conventional.write_bytes if facts.conventional else None,
        "device_written": total,
        "device_read": sum(read) if read else None,
        "write_amplification": total / user if user and total is not None else None,
        "zoned_share": facts.zoned.write_bytes / total if facts.zoned and total else None,
        "gc_bytes": _difference(facts.before.gc_bytes, facts.after.gc_bytes),
        "gc_events": gc_delta(facts),
        "zones_full": facts.zones.full if facts.zones else None,
        "zones_active": facts.zones.active if facts.zones else None,
        "cpu_seconds": facts.load_seconds,
    }
    more |= _of_zones(facts)
    if facts.spec.flags.get(db_bench.STATISTICS):
        wal = values["wal_bytes"].value if "wal_bytes" in values else None
        more |= _above_the_level(wal, facts.tables, total)
    values |= {name: Metric(value, CATALOGUE[name].unit) for name, value in more.items()}
    return {f"{facts.spec.name}.{name}": value for name, value in values.items()}


def _of_zones(facts: PhaseFacts) -> dict[str, int | None]:
    """Return what was done to zones; null where it was not traced, or not traced without loss."""
    traced = facts.traced
    if traced is None or traced.zoned is None or traced.problems:
        return dict.fromkeys(
            ("zone_resets", "zone_finishes", "zone_opens", "zone_closes", "appended", "pad_bytes")
        )
    device = traced.zoned
    return {
        "zone_resets": traced.done(device, "reset", "reset-all"),
        "zone_finishes": traced.finishes,
        "zone_opens": traced.done(device, "open"),
        "zone_closes": traced.done(device, "close"),
        "appended": traced.appended(device),
        "pad_bytes": traced.unwritten,
    }


def _above_the_level(
    wal: float | None, tables: TableBytes | None, device: int | None
) -> dict[str, int | float | None]:
    """Return what RocksDB wrote, and WA_level = H / L; null where anything is unknown or L is 0.

    L = Lw + Lf + Lc (docs/methods.md): without the small files (MANIFEST, OPTIONS and the like).
    """
    above = wal + tables.flush + tables.compaction if tables and wal is not None else None
    return {
        "wal_bytes": wal,
        "flush_bytes": tables.flush if tables else None,
        "compaction_bytes": tables.compaction if tables else None,
        "rocksdb_written": above,
        "level_write_amplification": device / above if above and device is not None else None,
    }


def _facts(
    stage: Stage,
    spec: PhaseSpec,
    ended: Ended,
    *,
    before: Barrier,
    after: Barrier,
    cpu: CpuSeconds,
) -> PhaseFacts:
    raw = stage.writer.path / "raw"
    stdout, stderr = _text(raw / f"{spec.name}.stdout"), _text(raw / f"{spec.name}.stderr")
    parsed, tables, error = None, None, ""
    try:
        if spec.flags.get(db_bench.STATISTICS):
            tables = _tables(stage.up.database_log)
        parsed = db_bench.parse(spec, stdout, stderr)
    except ToolFailed as failure:
        error = failure.message
    log = _keep_log(stage, f"raw/{spec.name}.LOG.xz")
    disks = delta(before.disks, after.disks)
    return PhaseFacts(
        spec=spec,
        parsed=parsed,
        parse_error=error,
        exit_code=ended.exit_code,
        signal=ended.signal,
        timed_out=ended.timed_out,
        stalled=ended.stalled,
        output=f"{stdout}\n{stderr}",
        database_log=log,
        zoned=disks[stage.zoned_name] if stage.zoned_name else None,
        conventional=disks[stage.conventional_name] if stage.conventional_name else None,
        before=before.usage,
        after=after.usage,
        zones=after.zones,
        load_seconds=cpu.load,
        harness_seconds=cpu.harness,
        traced=_traced(stage, before, after),
        tables=tables,
    )


def _traced(stage: Stage, before: Barrier, after: Barrier) -> Traced | None:
    if stage.tracer is None or before.trace is None or after.trace is None:
        return None
    return stage.tracer.between(before.trace, after.trace)


def _tables(log: Path | None) -> TableBytes | None:
    """Return what RocksDB's LOG says of table files; null where the level does not show it."""
    if log is None or not log.exists():
        return None
    with log.open(encoding="utf-8", errors="replace") as lines:
        return rocksdb_log.table_bytes(lines)


def _write_series(
    writer: RunWriter, spec: PhaseSpec, report: db_bench.Report, offset: float
) -> None:
    """Store operations per interval on the run's own time axis; nothing without a report."""
    try:
        points = report.intervals(_text(report.path))
    except ToolFailed:
        return  # the benchmark never got as far; its absence shows, the raw file stays
    rows = [f"{offset + second:.3f},{operations}\n" for second, operations in points]
    writer.write(f"series/{spec.name}.csv", "t,operations\n" + "".join(rows))


def _write_histograms(writer: RunWriter, spec: PhaseSpec, facts: PhaseFacts) -> str | None:
    """Store each operation's histogram; return the path of the first."""
    paths = []
    for operation, histogram in (facts.parsed.histograms if facts.parsed else {}).items():
        paths.append(f"histograms/{spec.name}.{operation}.json")
        writer.write(paths[-1], histogram)
    return paths[0] if paths else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_OUTPUT_LIMIT).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _keep_log(stage: Stage, kept: str) -> str:
    """Keep RocksDB's LOG whole and return its end; '' where there is none."""
    path = stage.up.database_log
    if path is None:
        return ""
    stage.writer.pack(path, kept)
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LOG_TAIL, 0))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _since(before: CpuSeconds, after: CpuSeconds) -> CpuSeconds:
    return CpuSeconds(
        _difference(before.load, after.load), _difference(before.harness, after.harness)
    )


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
