"""Are a run's numbers what its raw files say? For ``zonelab verify``: computes them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError, ToolFailed, ZonelabError
from harness.levels import LEVELS
from harness.levels.base import LevelUsage
from harness.levels.raw_device import RawDevice
from harness.observe import zones
from harness.observe.diskstats import DiskCounters
from harness.observe.zone_trace import traced
from harness.observe.zones import Zone, ZoneCounts
from harness.rules import PhaseFacts, closures
from harness.run import derived, ledger, phases, record, replayed, retrace, zone_costs
from harness.run.ledger import Point
from harness.store import packed, rundir
from harness.store.campaign import CampaignPaths
from harness.store.codec import decode
from harness.store.files import load_record, read_json
from harness.store.ledger import Ledger, OwnCounts, Snapshot
from harness.store.result import Issue, Metric, Result, Utilisation
from harness.store.spec import DeviceKind, PhaseRole, PhaseSpec, RunSpec
from harness.tools import rocksdb_log, zlfs_ledger, zoneprobe
from harness.tools.rocksdb_log import Log
from harness.workloads import program_of
from harness.workloads.base import Parsed, text
from harness.workloads.rocksdb import Below

_UNREADABLE = (ToolFailed, ConfigError)
# Counted since 2026-11-22 from files that runs have kept for longer.
_YOUNGER = frozenset({*zone_costs.NAMES, *ledger.CAUSES, "reset_rate"})


def problems(paths: CampaignPaths) -> list[str]:
    """Return one line per number of a campaign that its raw files do not bear out."""
    return [
        f"{host}: {folder.name}: {line}"
        for host in paths.hosts()
        for folder in rundir.completed(paths.runs(host))
        for line in of_run(folder)
    ]


def of_run(folder: Path) -> list[str]:
    """Return the same of one run; nothing where its records cannot be read (others tell).

    Runs of before there was a ledger have no counters in ``raw/``: of them, what db_bench and
    RocksDB told is looked at, as far as it was stored.
    """
    try:
        result, spec = rundir.load_result(folder), rundir.load_spec(folder)
    except ZonelabError:
        return []
    if result.device.kind is DeviceKind.REPLAYED:
        return [*_replayed(folder, result)]
    begun = result.begun(spec.phases)
    if not spec.tenants and not (folder / "raw" / "up.counters.json").is_file():
        return [line for phase in begun for line in _older(folder, phase, result)]
    try:
        if spec.tenants:
            from harness.run.tenants import recompute as tenants  # noqa: PLC0415 - it uses ours

            return list(tenants.differences(folder, spec, result))
        return list(_differences(folder, result, numbers(folder, spec, result)))
    except ZonelabError as error:
        return [error.message]


def _replayed(folder: Path, result: Result) -> Iterator[str]:
    try:
        yield from metric_differences(result.metrics, replayed.of_folder(folder))
    except ZonelabError as error:
        yield error.message


@dataclass(frozen=True, slots=True)
class Numbers:
    """Everything that is derived; ``ledger`` is null where nothing was measured."""

    ledger: Ledger | None
    metrics: Mapping[str, Metric]
    facts: tuple[PhaseFacts, ...]
    points: tuple[Point, ...]
    filled: Point | None


def numbers(folder: Path, spec: RunSpec, result: Result) -> Numbers:
    """Compute the numbers of a run from its raw files, with the runner's own functions.

    Raises:
        ZonelabError: a raw file is missing or damaged.
    """
    raw, begun = folder / "raw", result.begun(spec.phases)
    if not (raw / "cold.counters.json").is_file():
        return Numbers(None, {}, (), (), None)
    names = ("up", "cold", *(phase.name for phase in begun))
    points, reports = zip(*(point_of(raw, name) for name in names), strict=True)
    level = LEVELS.get(spec.level)
    skip = level.metadata_zones if level else 0
    facts = [
        facts_of(raw, phase, before, after, zones.count(report, skip=skip) if report else None)
        for phase, before, after, report in zip(
            begun, points[1:-1], points[2:], reports[2:], strict=True
        )
    ]
    again = ledger.of_phases(spec.level, points, facts)
    metrics = ledger.metrics(again) | record.of_run(spec, facts, result.utilisation)
    own = points[-1].usage.own
    metadata = own.metadata_zones if own else skip
    metrics |= zone_costs.of_folder(folder, result.device, metadata, again, facts)
    for one in facts:
        metrics |= phases.metrics(one)
    fills = sum(phase.role is PhaseRole.FILL for phase in begun)
    return Numbers(again, metrics, tuple(facts), tuple(points), points[1 + fills])


def _differences(folder: Path, result: Result, again: Numbers) -> Iterator[str]:
    if again.ledger is None:
        return
    yield from _ledgers(load_record(Ledger, folder / "ledger.json"), again.ledger)
    yield from metric_differences(result.metrics, again.metrics)
    yield from _issues(result.issues, tuple(closures.of_ledger(again.ledger)))
    if again.filled is not None and result.utilisation is not None:
        yield from _utilisation(result.utilisation, again.filled)
    for facts in again.facts:
        yield from derived.differences(folder, facts)
    level = LEVELS.get(result.level)
    yield from retrace.differences(
        folder,
        [point.snapshot for point in again.points],
        level.metadata_zones if level else 0,
    )
    yield from _own(folder / "raw", again.points[-1].usage.own, result)


def facts_of(
    raw: Path, spec: PhaseSpec, before: Point, after: Point, counted: ZoneCounts | None
) -> PhaseFacts:
    """Return a phase as its raw files tell it; ZonelabError: one is missing or damaged."""
    process = read_json(raw / f"{spec.name}.process.json")
    parsed, lsm, error = None, None, ""
    try:
        lsm = _log(raw, spec)
        parsed = _printed(raw, spec)
    except _UNREADABLE as failure:
        error = str(failure)  # as for the runner: nothing of it is a number then
    return PhaseFacts(
        spec=spec,
        parsed=parsed,
        parse_error=error,
        exit_code=process.get("exit_code"),
        signal=process.get("signal"),
        timed_out=bool(process.get("timed_out")),
        stalled=bool(process.get("stalled")),
        output="",
        database_log="",
        zoned=_delta(before, after, after.snapshot.zoned),
        conventional=_delta(before, after, after.snapshot.conventional),
        before=before.usage,
        after=after.usage,
        zones=counted,
        load_seconds=process.get("load_seconds"),
        harness_seconds=process.get("harness_seconds"),
        load_instructions=process.get("load_instructions"),
        lsm=lsm,
        seconds=process.get("seconds"),
        traced=traced(before.snapshot, after.snapshot),
    )


def _utilisation(found: Utilisation, point: Point) -> Iterator[str]:
    """V and A are those behind the last fill phase."""
    live = point.snapshot.cold_bytes + point.snapshot.database_bytes
    allocated = sum(point.allocated) if point.allocated is not None else None
    for name, stored, value in (
        ("live_bytes", found.live_bytes, live),
        ("allocated_bytes", found.allocated_bytes, allocated),
        ("u_ns", found.u_ns, live / found.capacity_bytes),
    ):
        if stored != value:
            yield f"utilisation.{name}: result.json has {stored}, raw/ gives {value}"


def _ledgers(stored: Ledger, again: Ledger) -> Iterator[str]:
    names = [entry.name for entry in again.entries]
    if [entry.name for entry in stored.entries] != names:
        yield f"ledger.json: has not the entries {', '.join(names)}"
        return
    for entry, other in zip(stored.entries, again.entries, strict=True):
        for name in entry.__slots__:
            value, wanted = getattr(entry, name), getattr(other, name)
            if value != wanted:
                yield f"ledger.json: {entry.name}.{name}: has {value}, raw/ gives {wanted}"


def metric_differences(stored: Mapping[str, Metric], again: Mapping[str, Metric]) -> Iterator[str]:
    """Return one line per metric that is another one than what was computed again."""
    for key in sorted(again):
        if key not in stored:
            # Metrics that are younger than the run are null, unless its raw files give them.
            if again[key].value is not None and key.rpartition(".")[2] not in _YOUNGER:
                yield f"{key}: is not in result.json"
        elif stored[key] != again[key]:
            yield f"{key}: result.json has {stored[key].value}, raw/ gives {again[key].value}"


def _issues(stored: tuple[Issue, ...], again: tuple[Issue, ...]) -> Iterator[str]:
    found = [issue for issue in stored if issue.code in closures.CODES]
    for issue in again:
        if issue not in found:
            yield f"result.json lacks the issue {issue.code}: {issue.message}"
    for issue in found:
        if issue not in again:
            yield f"result.json has an issue that raw/ does not give, {issue.code}: {issue.message}"


def _own(raw: Path, stored: OwnCounts | None, result: Result) -> Iterator[str]:
    """What a level counted up to the last barrier is in its own ledger, which was kept whole."""
    if stored is None:
        return
    bare = result.level == RawDevice.name
    name = zoneprobe.LEDGER if bare else "ledger.jsonl"
    opened = packed.opened(raw / name)
    if opened is None:
        yield f"raw/{name}.xz: is missing"
        return
    with opened as lines:
        totals: OwnCounts | zlfs_ledger.Totals = (
            zoneprobe.totals(lines)
            if bare
            else zlfs_ledger.parse(lines, result.device.zone_capacity or 0)
        )
    for part in ("payload", "filling", "given_up", "finishes", "resets"):
        value, wanted = getattr(stored, part), getattr(totals, part)
        if value != wanted:
            yield f"the last usage.json has {part} {value}, raw/{name} gives {wanted}"


def _older(folder: Path, phase: PhaseSpec, result: Result) -> list[str]:
    raw = folder / "raw"
    parsed, lsm = None, None
    try:
        lsm = _log(raw, phase)
        parsed = _printed(raw, phase)
    except _UNREADABLE as error:
        # The runner gives up at the same place, and then stores nothing of what db_bench printed.
        if f"{phase.name}.operations" in result.metrics:
            return [f"raw/ of phase {phase.name} cannot be read: {error}"]
    nothing = Metric(None, "B")
    written = result.metrics.get(f"{phase.name}.device_written", nothing).value
    again = phases.recomputable(phase, parsed, lsm, Below(written))
    keyed = {f"{phase.name}.{name}": metric for name, metric in again.items()}
    return list(
        metric_differences(
            result.metrics, {key: keyed[key] for key in keyed if key in result.metrics}
        )
    )


def _log(raw: Path, spec: PhaseSpec) -> Log | None:
    opened = packed.opened(raw / f"{spec.name}.LOG")
    if opened is None:
        return None
    with opened as lines:
        return rocksdb_log.parse(lines)


def _printed(raw: Path, spec: PhaseSpec) -> Parsed:
    stdout, stderr = (text(raw / f"{spec.name}.{kind}") for kind in ("stdout", "stderr"))
    return program_of(spec).parse(spec, stdout, stderr)


def point_of(raw: Path, name: str) -> tuple[Point, Sequence[Zone]]:
    """Return a barrier, and the zone report there: empty where the level uses no zones."""
    usage = decode(LevelUsage, read_json(raw / f"{name}.usage.json"), f"raw/{name}.usage.json")
    report = _zones(raw, name)
    allocated = tuple(zone.allocated for zone in report) if report else None
    return Point(load_record(Snapshot, raw / f"{name}.counters.json"), usage, allocated), report


def _zones(raw: Path, name: str) -> list[Zone]:
    text = packed.text(raw / f"{name}.zones.csv")
    return zones.from_csv(text) if text else []


def _delta(before: Point, after: Point, name: str) -> DiskCounters | None:
    """Return bytes of a device between two barriers; how many requests they took is not kept."""
    if not name:
        return None
    first, last = before.snapshot, after.snapshot
    return DiskCounters(
        reads=0,
        read_bytes=last.read[name] - first.read[name],
        writes=0,
        write_bytes=last.written[name] - first.written[name],
        in_flight=0,
        busy_ms=last.busy_ms[name] - first.busy_ms[name],
    )
