"""One phase: db_bench between two barriers, and what can be said about it afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ToolFailed
from harness.levels.base import Level, LevelUp, LevelUsage
from harness.metrics import CATALOGUE
from harness.nulls import difference, ratio
from harness.observe import zones
from harness.observe.diskstats import DiskCounters, delta
from harness.observe.tracer import Tracing
from harness.observe.zone_trace import traced
from harness.observe.zones import ZoneCounts
from harness.rules.devices import gc_delta
from harness.rules.facts import PhaseFacts
from harness.run.asker import Asker
from harness.run.bench import Bench
from harness.run.ledger import Point
from harness.run.program import Ended, run_program
from harness.run.progress import Share
from harness.run.share import ShareDone
from harness.store.codec import encode
from harness.store.files import dumps
from harness.store.ledger import Snapshot
from harness.store.result import Metric, PhaseResult
from harness.store.rundir import RunWriter
from harness.store.spec import Device, PhaseRole, PhaseSpec
from harness.tools import rocksdb_log
from harness.tools.rocksdb_log import Log
from harness.tools.rocksdb_log import Point as LsmPoint
from harness.workloads import base, program_of, rocksdb
from harness.workloads.base import Parsed, text
from harness.workloads.rocksdb import Below

_SEED_STEP = 100
_LOG_TAIL = 256 * 1024  # the end of RocksDB's LOG holds the error that stopped it
_SETTLE_TRIES = 20
_SETTLE_SECONDS = 0.1
_BARRIER_TRIES = 5


@dataclass(frozen=True, slots=True)
class Barrier:
    """Counters at a moment when everything was synced and nothing was in flight."""

    disks: Mapping[str, DiskCounters]
    point: Point
    zones: ZoneCounts | None

    @property
    def usage(self) -> LevelUsage:
        """What the level said of itself."""
        return self.point.usage


@dataclass(frozen=True, slots=True)
class CpuUse:
    """What db_bench and the harness took of the CPUs since the unit began; null without cgroups.

    Instructions are null too where no PMU counts them.
    """

    load_seconds: float | None
    harness_seconds: float | None
    load_instructions: float | None


@dataclass(frozen=True, slots=True)
class Stage:
    """A level that is up, with the devices that count. Names are the kernel's."""

    level: Level
    up: LevelUp
    device: Device
    conventional: Device | None
    writer: RunWriter
    began: float
    tracer: Tracing | None = None

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


def seed(base_seed: int, of: Sequence[PhaseSpec], phase: PhaseSpec) -> int:
    """Give each phase keys of its own: with one seed, overwrite would replay the fill's order.

    db_bench adds the thread's number to it, so phases stay a hundred apart (blocks: 10,000).
    """
    return base_seed + _SEED_STEP * of.index(phase)


def barrier(bench: Bench, stage: Stage, point: str, cold: int) -> Barrier:
    """Sync the level, wait until the devices are quiet, and read every counter.

    Reading takes a while, and a level may write of its own accord at any time (f2fs collects
    garbage when idle): what was written to meanwhile is read again.

    ``point`` names what is kept in ``raw/``; ``cold`` is the size of the cold data in bytes.
    """
    stage.level.sync(stage.up)
    for _ in range(_BARRIER_TRIES):
        disks, settled = _settle(bench, stage)
        found = _read(bench, stage, point, disks, settled=settled, cold=cold)
        if not settled or _writes(bench.host.disk_counters(stage.names)) == _writes(disks):
            return found
    return _read(bench, stage, point, disks, settled=False, cold=cold)


def _writes(disks: Mapping[str, DiskCounters]) -> dict[str, int]:
    """Return the writes of each device; reading counters may itself read (``zlfs df``)."""
    return {name: disk.writes for name, disk in disks.items()}


def _read(
    bench: Bench,
    stage: Stage,
    point: str,
    disks: dict[str, DiskCounters],
    *,
    settled: bool,
    cold: int,
) -> Barrier:
    snapshot = _snapshot(bench, stage, disks, settled=settled, cold=cold)
    stage.writer.write(f"raw/{point}.counters.json", snapshot)
    usage = stage.level.usage(stage.up)
    stage.writer.write(f"raw/{point}.usage.json", dumps(usage))
    counts, allocated = None, None
    if stage.level.uses_zoned:
        report = bench.host.zones(stage.device.path)
        stage.writer.write(f"raw/{point}.zones.csv", zones.as_csv(report))
        counts = zones.count(report, skip=stage.level.metadata_zones)
        allocated = tuple(zone.allocated for zone in report)
    smart = {name: bench.host.smart(name) for name in stage.names}
    stage.writer.write(f"raw/{point}.smart.json", dumps(smart))
    return Barrier(disks, Point(snapshot, usage, allocated), counts)


def _settle(bench: Bench, stage: Stage) -> tuple[dict[str, DiskCounters], bool]:
    """Return the counters once they stand still, and whether they did."""
    disks = bench.host.disk_counters(stage.names)
    for _ in range(_SETTLE_TRIES):
        time.sleep(_SETTLE_SECONDS)
        later = bench.host.disk_counters(stage.names)
        quiet = later == disks and not any(disk.in_flight for disk in later.values())
        disks = later
        if quiet:
            return disks, True
    return disks, False


def _snapshot(
    bench: Bench, stage: Stage, disks: Mapping[str, DiskCounters], *, settled: bool, cold: int
) -> Snapshot:
    trace = stage.tracer.snapshot() if stage.tracer and settled else None
    witness, note = None, ""
    try:
        witness = bench.host.witness(stage.names)
    except ToolFailed as failure:
        note = failure.message
    media = bench.host.media(stage.names)
    groups = [group for one in (witness, media) if one for group in one.covers.values()]
    covered = {name for group in groups for name in group}
    every = {**bench.host.disk_counters(sorted(covered - set(disks))), **disks}
    return Snapshot(
        settled=settled,
        zoned=stage.zoned_name or "",
        conventional=stage.conventional_name or "",
        written={name: disk.write_bytes for name, disk in every.items()},
        read={name: disk.read_bytes for name, disk in every.items()},
        busy_ms={name: disk.busy_ms for name, disk in every.items()},
        zeroing=tuple(name for name in sorted(every) if bench.host.zeroes(name)),
        witness=witness,
        witness_note=note,
        cold_bytes=cold,
        database_bytes=stage.level.database_bytes(stage.up),
        trace=trace,
        media=media,
    )


def _cpu(bench: Bench) -> CpuUse:
    groups = bench.cgroups
    return CpuUse(groups.load_seconds(), groups.harness_seconds(), groups.load_instructions())


def run_phase(
    bench: Bench,
    stage: Stage,
    spec: PhaseSpec,
    seed: int,
    *,
    key_seed: int,
    first: bool,
    before: Barrier,
    cold: int,
    seconds_left: float,
    tick: Callable[[Share], None],
) -> tuple[PhaseFacts, PhaseResult, Barrier]:
    """Run the phase's program once; return the facts, the record and the barrier behind it."""
    ready = prepare(bench, stage, spec, seed, key_seed=key_seed, first=first)
    started, offset = bench.host.now(), bench.host.monotonic() - stage.began
    shift = offset - bench.host.realtime()
    share = ShareDone(ready.report.path, spec)
    asks = stage.level.questions(stage.up) if spec.role is PhaseRole.MEASURED else ()
    # Not at the barriers: what the harness does between phases disturbs nobody.
    before_cpu = _cpu(bench)
    with Asker(asks, stage.writer.path, clock=bench.host.monotonic, began=stage.began) as asker:

        def on_tick(seconds: float) -> None:
            asker.tick()
            tick(lambda: share.read(seconds))

        ended = run_program(
            ready.argv,
            env=stage.up.environment,
            stdout=ready.stdout,
            stderr=ready.stderr,
            timeout=min(spec.timeout_seconds, seconds_left),
            started=bench.cgroups.enter_load,
            tick=on_tick,
            stalled=share.stalled,
            clock=bench.host.monotonic,
        )
    cpu = _since(before_cpu, _cpu(bench))
    after = barrier(bench, stage, spec.name, cold)
    done = Done(ended, cpu, started, offset, shift)
    facts, result = conclude(stage, ready, done, before=before, after=after)
    return facts, result, after


@dataclass(frozen=True, slots=True)
class Ready:
    """A phase's program with its argument list, and the files that will hold what it says."""

    spec: PhaseSpec
    argv: tuple[str, ...]
    report: base.Report
    stdout: Path
    stderr: Path


@dataclass(frozen=True, slots=True)
class Done:
    """How a phase's program went.

    ``offset`` is where its own clock began on the run's time axis, ``shift`` turns seconds since
    the epoch into seconds on that axis.
    """

    ended: Ended
    cpu: CpuUse
    started: str
    offset: float
    shift: float


def prepare(
    bench: Bench, stage: Stage, spec: PhaseSpec, seed: int, *, key_seed: int, first: bool
) -> Ready:
    """Return what starts a phase's program."""
    raw = stage.writer.path / "raw"
    stderr = raw / f"{spec.name}.stderr"
    load = program_of(spec)
    report = load.report(stage.up, raw / f"{spec.name}.report.csv", stderr)
    argv = load.argv(
        spec,
        stage.up,
        seed,
        first=first,
        program=load.path(stage.up.program or bench.program),
        report=report,
        key_seed=key_seed,
    )
    return Ready(spec, tuple(argv), report, raw / f"{spec.name}.stdout", stderr)


def conclude(
    stage: Stage, ready: Ready, done: Done, *, before: Barrier, after: Barrier
) -> tuple[PhaseFacts, PhaseResult]:
    """Store and return what a phase was, between its two barriers."""
    spec, ended = ready.spec, done.ended
    stage.writer.write(f"raw/{spec.name}.process.json", encode(ended) | encode(done.cpu))
    facts = _facts(stage, spec, ended, before=before, after=after, cpu=done.cpu)
    _write_series(stage.writer, spec, ready.report, done.offset)
    _write_tree(stage.writer, spec, facts.lsm, done.shift)
    _keep_options(stage, f"raw/{spec.name}.OPTIONS.xz")
    histogram = _write_histograms(stage.writer, spec, facts)
    summary = facts.parsed.summary if facts.parsed else None
    result = PhaseResult(
        name=spec.name,
        benchmark=spec.benchmark,
        role=spec.role.value,
        argv=ready.argv,
        started=done.started,
        seconds=round(ended.seconds, 3),
        exit_code=ended.exit_code,
        signal=ended.signal,
        operations_requested=spec.operations,
        operations_done=summary.operations if summary else None,
        stdout=f"raw/{spec.name}.stdout",
        stderr=f"raw/{spec.name}.stderr",
        histogram=histogram,
    )
    return facts, result


def metrics(facts: PhaseFacts) -> dict[str, Metric]:
    """Return ``<phase>.<metric>`` for everything a phase tells; null where it does not."""
    read = [disk.read_bytes for disk in (facts.zoned, facts.conventional) if disk]
    total = facts.below.written
    values = recomputable(facts.spec, facts.parsed, facts.lsm, facts.below)
    user, done = (
        values[name].value if name in values else None for name in ("user_bytes", "operations")
    )
    spent = facts.load_seconds
    more: dict[str, int | float | None] = {
        "zoned_written": facts.zoned.write_bytes if facts.zoned else None,
        "conventional_written": facts.conventional.write_bytes if facts.conventional else None,
        "device_written": total,
        "device_read": sum(read) if read else None,
        "write_amplification": ratio(total, user),
        "zoned_share": ratio(facts.zoned.write_bytes if facts.zoned else None, total),
        "gc_bytes": facts.gc_bytes,
        "gc_events": gc_delta(facts),
        "zones_full": facts.zones.full if facts.zones else None,
        "zones_active": facts.zones.active if facts.zones else None,
        "device_busy_share": (
            max(disk.busy_ms for disk in (facts.zoned, facts.conventional) if disk)
            / (1000 * facts.seconds)
            if read and facts.seconds
            else None
        ),
        "cpu_seconds": spent,
        "cpu_per_operation": 1e6 * spent / done if done and spent is not None else None,
        "instructions": facts.load_instructions,
        "instructions_per_operation": ratio(facts.load_instructions, done),
    }
    more |= _of_zones(facts)
    values |= {name: Metric(value, CATALOGUE[name].unit) for name, value in more.items()}
    return {f"{facts.spec.name}.{name}": value for name, value in values.items()}


def _of_zones(facts: PhaseFacts) -> dict[str, int | float | None]:
    """Return what was done to zones; null where it was not traced, or not traced without loss."""
    seen = facts.traced
    if seen is None or seen.zoned is None or not seen.complete:
        return dict.fromkeys(
            (
                "zone_resets", "reset_rate", "zone_finishes", "zone_opens", "zone_closes",
                "appended",
            )
        )  # fmt: skip
    device = seen.zoned
    resets = seen.done(device, "reset", "reset-all")
    return {
        "zone_resets": resets,
        "reset_rate": ratio(resets, facts.seconds),
        "zone_finishes": seen.finishes,
        "zone_opens": seen.done(device, "open"),
        "zone_closes": seen.done(device, "close"),
        "appended": seen.appended(device),
    }


def recomputable(
    spec: PhaseSpec, parsed: Parsed | None, lsm: Log | None, below: Below
) -> dict[str, Metric]:
    """Return the metrics of what programs told, and of bytes of the devices, by catalogue name."""
    told = rocksdb.metrics(spec, parsed, lsm, below)
    values = base.metrics(spec, parsed) if parsed else {}
    return values | {name: Metric(value, CATALOGUE[name].unit) for name, value in told.items()}


def _facts(
    stage: Stage,
    spec: PhaseSpec,
    ended: Ended,
    *,
    before: Barrier,
    after: Barrier,
    cpu: CpuUse,
) -> PhaseFacts:
    raw = stage.writer.path / "raw"
    stdout, stderr = text(raw / f"{spec.name}.stdout"), text(raw / f"{spec.name}.stderr")
    parsed, lsm, error = None, None, ""
    try:
        lsm = _lsm(stage.up.database_log)
        parsed = program_of(spec).parse(spec, stdout, stderr)
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
        seconds=ended.seconds,
        load_seconds=cpu.load_seconds,
        harness_seconds=cpu.harness_seconds,
        load_instructions=cpu.load_instructions,
        lsm=lsm,
        traced=traced(before.point.snapshot, after.point.snapshot),
    )


def _lsm(log: Path | None) -> Log | None:
    """Return what RocksDB's LOG says; null where the level does not show it, or it is empty."""
    if log is None or not log.exists():
        return None
    with log.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        return rocksdb_log.parse(lines)


def _keep_options(stage: Stage, kept: str) -> None:
    """Keep the options the database ran with, where its folder can be seen.

    Elsewhere RocksDB writes them to the device itself; its LOG begins with the same options.
    """
    log = stage.up.database_log
    found = sorted(log.parent.glob("OPTIONS-*[0-9]")) if log else []
    if found:
        stage.writer.pack(found[-1], kept)


def _write_tree(writer: RunWriter, spec: PhaseSpec, lsm: Log | None, shift: float) -> None:
    """Store how the tree stood behind each flush and compaction; nothing without a LOG.

    ``shift`` turns seconds since the epoch into seconds on the run's own time axis. The column of
    pending bytes is missing where RocksDB does not tell them.
    """
    if lsm is None:
        return
    pending = ",pending_compaction_bytes" if _tells_pending(lsm.points) else ""
    rows = [f"{seconds + shift:.3f},{rest}\n" for seconds, rest in tree_rows(lsm.points)]
    writer.write(f"series/{spec.name}.lsm.csv", f"t,l0_files,files{pending}\n" + "".join(rows))


def tree_rows(points: Sequence[LsmPoint]) -> list[tuple[float, str]]:
    """Return seconds since the epoch and the other columns of ``series/<phase>.lsm.csv``."""
    told = _tells_pending(points)
    return [
        (
            point.micros / 1e6,
            f"{point.files[0]},{sum(point.files)}" + (f",{point.pending}" if told else ""),
        )
        for point in points
    ]


def _tells_pending(points: Sequence[LsmPoint]) -> bool:
    return bool(points) and all(point.pending is not None for point in points)


def _write_series(writer: RunWriter, spec: PhaseSpec, report: base.Report, offset: float) -> None:
    """Store operations per interval on the run's own time axis; nothing without a report."""
    try:
        points = report.rows(text(report.path))
    except ToolFailed:
        return  # the benchmark never got as far; its absence shows, the raw file stays
    rows = [f"{offset + second:.3f},{rest}\n" for second, rest in points]
    writer.write(f"series/{spec.name}.csv", f"t,{report.columns}\n" + "".join(rows))


def _write_histograms(writer: RunWriter, spec: PhaseSpec, facts: PhaseFacts) -> str | None:
    """Store each operation's histogram; return the path of the first."""
    paths = []
    for operation, histogram in (facts.parsed.stored if facts.parsed else {}).items():
        paths.append(f"histograms/{spec.name}.{operation}.json")
        writer.write(paths[-1], histogram)
    return paths[0] if paths else None


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


def _since(before: CpuUse, after: CpuUse) -> CpuUse:
    return CpuUse(
        difference(before.load_seconds, after.load_seconds),
        difference(before.harness_seconds, after.harness_seconds),
        difference(before.load_instructions, after.load_instructions),
    )
