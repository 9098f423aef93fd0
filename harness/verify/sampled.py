"""Compares the sampled series with the barriers of the ledger, for ``zonelab verify``.

Counters only grow, so a sample lies between the values at the barriers before and after it. So the
ledger bounds every value of ``series/diskstats.csv``; a tenant's ledger bounds its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from harness.errors import ConfigError
from harness.observe.diskstats import COLUMNS
from harness.quantities import SECTOR
from harness.rules.facts import PhaseFacts
from harness.run.ledger import BarrierSnapshot
from harness.run.tenant import prefixed
from harness.store import checksums, packed
from harness.store.ledger import SeriesMark
from harness.store.result import CUT_SHORT, Result
from harness.verify import derived
from harness.verify.separate import check
from harness.verify.stored import StoredTenant

DISKSTATS = "series/diskstats.csv"
# Other series are sampled at some of the times of diskstats: those of a tenant, and of the run.
OTHERS, SHARED = ("level", "zones"), ("system", "media")
# A sample is taken every second; on modelled drives, at least every 8 s. A busy machine can take
# longer.
_LONGEST_GAP = 10.0
# Times in series are rounded to milliseconds, so a sample at the edge of a phase can belong to
# either side.
EDGE = 0.05
# Columns that only grow, and their names in a barrier.
_BYTES = {"read_bytes": "read", "write_bytes": "written"}
_COUNTS = {"read_bytes": "reads", "write_bytes": "writes"}


@dataclass(frozen=True, slots=True)
class SeriesTable:
    """A series: times, and one row of texts by column for each."""

    times: tuple[float, ...]
    rows: tuple[Mapping[str, str], ...]

    def numbers(self, column: str) -> list[int]:
        """Return a column; ValueError if a value is not an integer."""
        return [int(row[column]) for row in self.rows]

    def known(self, columns: Sequence[str]) -> SeriesTable:
        """Return the samples in which these columns could be read."""
        kept = [
            (t, row)
            for t, row in zip(self.times, self.rows, strict=True)
            if all(row[column] for column in columns)
        ]
        return SeriesTable(tuple(t for t, _ in kept), tuple(row for _, row in kept))


def read(folder: Path, name: str) -> SeriesTable | None:
    """Return a series; null if it was not sampled. ConfigError if it is damaged."""
    text = packed.text(folder / name)
    if not text:
        return None
    if not text.endswith("\n"):
        raise ConfigError(f"{name}: is damaged: it ends within a line")
    lines = text.splitlines()
    header = lines[0].split(",")
    try:
        rows = [dict(zip(header, line.split(","), strict=True)) for line in lines[1:]]
        times = tuple(float(row["t"]) for row in rows)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{name}: is damaged: {type(error).__name__}: {error}") from None
    if not all(map(isfinite, times)):
        raise ConfigError(f"{name}: is damaged: a time is no number")
    return SeriesTable(times, tuple(rows))


@dataclass(frozen=True, slots=True)
class PhaseWindow:
    """A phase on the time axis of the run, between the barriers before and after it.

    ``ready``: the largest counters possible before the phase begins. A tenant's level can write
    while others fill, and its program opens the database before the common start.
    """

    name: str
    begin: float
    end: float
    load_seconds: float | None
    before: BarrierSnapshot
    ready: BarrierSnapshot
    after: BarrierSnapshot


def windows(folder: Path, tenant: StoredTenant) -> list[PhaseWindow]:
    """Return the phases whose start is known; the series of a phase begins with it.

    A damaged series of a phase gives no start; the comparison with its raw file reports it.
    """
    found = []
    for facts, (before, after) in zip(tenant.facts, pairwise(tenant.snapshots[1:]), strict=False):
        begin = _begin(folder, facts)
        if begin is not None and facts.seconds is not None:
            ready, end = after if tenant.spec.name else before, begin + facts.seconds
            found.append(
                PhaseWindow(facts.spec.name, begin, end, facts.load_seconds, before, ready, after)
            )
    return found


def _begin(folder: Path, facts: PhaseFacts) -> float | None:
    rows = derived.operations(folder / "raw", facts)
    try:
        stored = packed.text(folder / f"series/{facts.spec.name}.csv").splitlines()[1:2]
        return float(stored[0].partition(",")[0]) - rows[0][0] if rows and stored else None
    except (ConfigError, ValueError):
        return None


def differences(
    folder: Path, result: Result, tenants: Sequence[StoredTenant], gap: float
) -> Iterator[str]:
    """Yield one line per series that contradicts the barriers, or that is not complete.

    ``gap`` is the longest time in seconds between two samples of a series.
    """
    yield from _marks(folder, tenants)
    try:
        disks = read(folder, DISKSTATS)
    except ConfigError as error:
        yield error.message
        return
    if disks is None or not disks.rows:
        spent = [facts.seconds or 0.0 for tenant in tenants for facts in tenant.facts]
        if sum(spent) > _LONGEST_GAP:
            yield f"{DISKSTATS}: has no samples"
        return
    phases = [windows(folder, tenant) for tenant in tenants]
    every = [phase for own in phases for phase in own]
    yield from (f"{DISKSTATS}: {text}" for text in _complete(disks, every, result))
    for tenant, own in zip(tenants, phases, strict=True):
        yield from _of_tenant(disks, tenant, own, result)
    names = [prefixed(tenant.spec.name, name) for tenant in tenants for name in OTHERS]
    for file in [f"series/{name}.csv" for name in (*names, *SHARED)]:
        yield from check(_together(folder, disks, file, gap), file)


def _marks(folder: Path, tenants: Sequence[StoredTenant]) -> Iterator[str]:
    """Yield one line per series that differs from the mark that a barrier recorded of it."""
    found: dict[str, set[SeriesMark]] = defaultdict(set)
    for tenant in tenants:
        for snapshot in tenant.snapshots:
            for name, mark in snapshot.counters.series.items():
                found[name].add(mark)
    for name, marks in sorted(found.items()):
        file = f"series/{name}.csv"
        yield from check(_marked(folder, file, marks), file)


def _marked(folder: Path, file: str, marks: Collection[SeriesMark]) -> Iterator[str]:
    lines = packed.text(folder / file).splitlines(keepends=True)
    for mark in sorted(marks, key=lambda mark: mark.samples):
        kept = "".join(lines[: mark.samples + 1])
        if checksums.of_text(kept) != mark.digest:
            yield f"{file}: its first {mark.samples} samples are not those that a barrier recorded"
            return


def _of_tenant(
    disks: SeriesTable, tenant: StoredTenant, phases: Sequence[PhaseWindow], result: Result
) -> Iterator[str]:
    """Yield one line per contradiction between a tenant's devices and its barriers."""
    stopped = result.status in CUT_SHORT
    stopped |= bool(tenant.spec.name) and not any(facts.measured for facts in tenant.facts)
    first = tenant.snapshots[0].counters
    for device in sorted({first.zoned, first.conventional}):
        if f"{device}.write_bytes" in disks.rows[0]:
            limits = _limits(result, device)
            if device == first.zoned:  # a slice has the blocks of its drive
                limits = (_limits(result, tenant.spec.device.name)[0], limits[1])
            lines = _device(disks, device, phases, tenant, limits, stopped=stopped)
            yield from (f"{DISKSTATS}: {text}" for text in check(lines, device))


def _complete(disks: SeriesTable, phases: Sequence[PhaseWindow], result: Result) -> Iterator[str]:
    if any(late <= early for early, late in pairwise(disks.times)):
        yield "its times do not grow"
    if disks.times[0] < 0 or disks.times[-1] > result.seconds:
        yield f"has times outside the run, which took {result.seconds} s"
    for phase in phases:
        inside = [t for t in disks.times if phase.begin <= t <= phase.end]
        for early, late in pairwise([phase.begin, *inside, phase.end]):
            if late - early > _LONGEST_GAP:
                yield f"has no sample from {early:.1f} s to {late:.1f} s, in phase {phase.name}"


def _device(
    disks: SeriesTable,
    device: str,
    phases: Sequence[PhaseWindow],
    stored: StoredTenant,
    limits: tuple[int, int],
    *,
    stopped: bool,
) -> Iterator[str]:
    block, largest = limits
    disks = disks.known([f"{device}.{column}" for column in COLUMNS])
    for column, barrier in _BYTES.items():
        name = f"{device}.{column}"
        values = disks.numbers(name)
        if any(late < early for early, late in pairwise(values)):
            yield f"{name}: falls; a counter only grows"
        if odd := [value for value in values if value % block]:
            yield f"{name}: has {odd[0]}, which is no multiple of {block} B"
        yield from _requests(disks, device, column, largest)
        count = partial(_counted, barrier, device)
        yield from outside(disks, name, phases, stored.snapshots, count, stopped=stopped)


def _counted(name: str, device: str, barrier: BarrierSnapshot) -> int:
    counts: Mapping[str, int] = getattr(barrier.counters, name)
    return counts[device]


def outside(
    table: SeriesTable,
    column: str,
    phases: Sequence[PhaseWindow],
    snapshots: Sequence[BarrierSnapshot],
    count: Callable[[BarrierSnapshot], int | None],
    *,
    stopped: bool,
    restarts: bool = False,
) -> Iterator[str]:
    """Yield a line for the first value that is not between the counts at the barriers around it.

    ``count`` returns the count at a barrier; null if it limits nothing. A run that was ``stopped``
    has no barrier after its last writes. A counter that ``restarts`` can be smaller later.
    """
    first, last = snapshots[0], snapshots[-1]
    for t, value in zip(table.times, table.numbers(column), strict=True):
        low, high = between(t, phases, first, last)
        floor, ceiling = count(low), count(high)
        if floor is None or ceiling is None or (restarts and floor > ceiling):
            continue
        if value < floor or (value > ceiling and not (stopped and high is last)):
            yield f"{column}: has {value} at {t:.3f} s, the barriers give {floor} to {ceiling}"
            return


def between(
    t: float, phases: Sequence[PhaseWindow], first: BarrierSnapshot, last: BarrierSnapshot
) -> tuple[BarrierSnapshot, BarrierSnapshot]:
    """Return the last barrier before a time and the first one after it."""
    low, high = first, last
    for phase in phases:
        if t >= phase.begin + EDGE:
            low = phase.before
        if t > phase.end + EDGE:
            continue
        if t <= phase.begin - EDGE:
            high = phase.ready
        elif t <= phase.end - EDGE:
            high = phase.after
        break
    return low, high


def _requests(disks: SeriesTable, device: str, column: str, largest: int) -> Iterator[str]:
    """Check that there were enough requests for the bytes: their size is limited."""
    sizes = disks.numbers(f"{device}.{column}")
    counts = disks.numbers(f"{device}.{_COUNTS[column]}")
    flying = disks.numbers(f"{device}.in_flight")
    if any(late < early for early, late in pairwise(counts)):
        yield f"{device}.{_COUNTS[column]}: falls; a counter only grows"
    if not largest:
        return
    steps = zip(pairwise(sizes), pairwise(counts), pairwise(flying), disks.times[1:], strict=True)
    for (size, next_size), (count, next_count), (now, then), t in steps:
        requests = next_count - count + now + then
        if next_size - size > requests * largest:
            yield (
                f"{device}.{column}: grows by {next_size - size} B up to {t:.3f} s, "
                f"{requests} requests carry at most {requests * largest} B"
            )
            return


def _limits(result: Result, device: str) -> tuple[int, int]:
    """Return a device's block size and its largest request; 0 if it is unknown."""
    for record in _devices(result.manifest.get("host")):
        for name, queue in (record.get("queue") or {}).items():
            if name == device:
                sizes = [queue.get(key) for key in ("max_sectors_kb", "max_hw_sectors_kb")]
                largest = max((int(size) for size in sizes if size), default=0)
                return int(record["logical_block_size"]), 1024 * largest
    return SECTOR, 0


def _devices(host: Any) -> Sequence[Mapping[str, Any]]:
    return host.get("devices") or () if isinstance(host, Mapping) else ()


def _together(folder: Path, disks: SeriesTable, file: str, gap: float) -> Iterator[str]:
    """Check that a series is sampled only at times of diskstats, and at the first of them."""
    table = read(folder, file)
    if table is None:
        return
    if not table.rows and disks.rows:
        yield f"{file}: has no samples"
        return
    if table.times[:1] != disks.times[:1]:
        yield f"{file}: does not begin with {DISKSTATS}"
    if extra := set(table.times) - set(disks.times):
        yield f"{file}: has a sample at {min(extra):.3f} s, {DISKSTATS} has none"
    if any(late <= early for early, late in pairwise(table.times)):
        yield f"{file}: its times do not grow"
    else:
        yield from (f"{file}: {text}" for text in _gaps(table, disks, gap))


def _gaps(table: SeriesTable, disks: SeriesTable, gap: float) -> Iterator[str]:
    """Find gaps: a sample that is due is taken at the next time of diskstats."""
    for early, late in pairwise([*table.times, float("inf")]):
        due = [t for t in disks.times if early + gap + EDGE <= t < late - EDGE]
        if due:
            yield f"has no sample from {early:.1f} s to {due[-1]:.1f} s, they are {gap:g} s apart"
            return
