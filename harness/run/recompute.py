"""Are a run's numbers what its raw files say? For ``zonelab verify``: computes them again."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.errors import ToolFailed, ZonelabError
from harness.levels import LEVELS
from harness.levels.base import LevelUsage
from harness.observe import zones
from harness.observe.diskstats import DiskCounters
from harness.observe.zones import Zone
from harness.rules import PhaseFacts, closures
from harness.run import derived, ledger, phases, record
from harness.run.ledger import Point
from harness.store import rundir
from harness.store.campaign import CampaignPaths
from harness.store.codec import decode
from harness.store.files import load_record, read_json
from harness.store.ledger import Ledger, OwnCounts, Snapshot
from harness.store.result import Issue, Metric, Result, Utilisation
from harness.store.spec import PhaseRole, PhaseSpec, RunSpec
from harness.tools import rocksdb_log, zlfs_ledger
from harness.tools.rocksdb_log import Log
from harness.workloads import program_of
from harness.workloads.base import Parsed, text
from harness.workloads.rocksdb import Below

# How files have been packed: xz now, gzip by the first releases.
_OPEN: dict[str, Callable[..., IO[Any]]] = {".xz": lzma.open, ".gz": gzip.open}
_UNREADABLE = (ToolFailed, OSError, EOFError, lzma.LZMAError)


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
    begun = _begun(spec, result)
    if not (folder / "raw" / "up.counters.json").is_file():
        return [line for phase in begun for line in _older(folder, phase, result)]
    try:
        return list(_differences(folder, result, numbers(folder, spec, result)))
    except ZonelabError as error:
        return [error.message]


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
    raw, begun = folder / "raw", _begun(spec, result)
    if not (raw / "cold.counters.json").is_file():
        return Numbers(None, {}, (), (), None)
    points = [_point(raw, name) for name in ("up", "cold", *(phase.name for phase in begun))]
    level = LEVELS.get(spec.level)
    skip = level.metadata_zones if level else 0
    facts = [
        _facts(raw, phase, before, after, skip)
        for phase, before, after in zip(begun, points[1:-1], points[2:], strict=True)
    ]
    again = ledger.of_phases(spec.level, points, facts)
    metrics = ledger.metrics(again) | record.of_run(facts, result.utilisation)
    for one in facts:
        metrics |= phases.metrics(one)
    fills = sum(phase.role is PhaseRole.FILL for phase in begun)
    return Numbers(again, metrics, tuple(facts), tuple(points), points[1 + fills])


def _begun(spec: RunSpec, result: Result) -> list[PhaseSpec]:
    names = {phase.name for phase in result.phases}
    return [phase for phase in spec.phases if phase.name in names]


def _differences(folder: Path, result: Result, again: Numbers) -> Iterator[str]:
    if again.ledger is None:
        return
    yield from _ledgers(load_record(Ledger, folder / "ledger.json"), again.ledger)
    yield from _metrics(result.metrics, again.metrics)
    yield from _issues(result.issues, tuple(closures.of_ledger(again.ledger)))
    if again.filled is not None and result.utilisation is not None:
        yield from _utilisation(result.utilisation, again.filled)
    for facts in again.facts:
        yield from derived.differences(folder, facts)
    yield from _own(folder / "raw", again.points[-1].usage.own, result.device.zone_capacity or 0)


def _facts(raw: Path, spec: PhaseSpec, before: Point, after: Point, skip: int) -> PhaseFacts:
    process = read_json(raw / f"{spec.name}.process.json")
    parsed, lsm, error = None, None, ""
    try:
        lsm = _log(raw, spec)
        parsed = _printed(raw, spec)
    except _UNREADABLE as failure:
        error = str(failure)  # as for the runner: nothing of it is a number then
    report = _zones(raw, spec.name)
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
        zones=zones.count(report, skip=skip) if report else None,
        load_seconds=process.get("load_seconds"),
        harness_seconds=process.get("harness_seconds"),
        lsm=lsm,
        seconds=process.get("seconds"),
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


def _metrics(stored: Mapping[str, Metric], again: Mapping[str, Metric]) -> Iterator[str]:
    for key in sorted(again):
        if key not in stored:
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


def _own(raw: Path, stored: OwnCounts | None, capacity: int) -> Iterator[str]:
    """What zlfs counted up to the last barrier is in its own ledger, which was kept whole."""
    if stored is None:
        return
    opened = _packed(raw / "ledger.jsonl")
    if opened is None:
        yield "raw/ledger.jsonl.xz: is missing"
        return
    with opened as lines:
        totals = zlfs_ledger.parse(lines, capacity)
    for name in ("payload", "filling", "given_up", "finishes", "resets"):
        value, wanted = getattr(stored, name), getattr(totals, name)
        if value != wanted:
            yield f"the last usage.json has {name} {value}, raw/ledger.jsonl gives {wanted}"


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
        _metrics(result.metrics, {key: keyed[key] for key in keyed if key in result.metrics})
    )


def _log(raw: Path, spec: PhaseSpec) -> Log | None:
    opened = _packed(raw / f"{spec.name}.LOG")
    if opened is None:
        return None
    with opened as lines:
        return rocksdb_log.parse(lines)


def _printed(raw: Path, spec: PhaseSpec) -> Parsed:
    stdout, stderr = (text(raw / f"{spec.name}.{kind}") for kind in ("stdout", "stderr"))
    return program_of(spec).parse(spec, stdout, stderr)


def _packed(path: Path) -> IO[str] | None:
    """Open a text file that was kept packed; None when it was not kept."""
    for suffix, opened in _OPEN.items():
        packed = path.with_name(path.name + suffix)
        if packed.is_file():
            return opened(packed, "rt", encoding="utf-8", errors="replace", newline="\n")
    return None


def _point(raw: Path, name: str) -> Point:
    usage = decode(LevelUsage, read_json(raw / f"{name}.usage.json"), f"raw/{name}.usage.json")
    report = _zones(raw, name)
    allocated = tuple(zone.allocated for zone in report) if report else None
    return Point(load_record(Snapshot, raw / f"{name}.counters.json"), usage, allocated)


def _zones(raw: Path, name: str) -> list[Zone]:
    path = raw / f"{name}.zones.csv"
    return zones.from_csv(path.read_text(encoding="utf-8")) if path.is_file() else []


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
