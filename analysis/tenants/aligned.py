"""Tenants' latencies and each other's zone-management and GC events on one clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.load import RunRecord
from analysis.series import read_columns
from analysis.stats import FloatArray
from analysis.tenants.attribution import Observed
from analysis.tenants.mix import Mix, Tenant, Together, read
from analysis.tenants.usage import owner, read_commands

# Of a tenant's series the first column there is: the tail is where neighbours show.
_LATENCY = ("latency_p99_us", "latency_max_us", "latency_mean_us")
_OPERATIONS = "operations"
_PER_OPERATION = "time per operation"
# What the tracer sees of zone management; first and last writes are no commands.
_MANAGEMENT = ("reset", "finish", "open", "close")
_ALL = "-all"
GC = "gc"
# Cumulative columns of series/<tenant>.level.csv that rise with a level's own garbage collection.
_COLLECTED = frozenset(
    {
        "moved_blocks_foreground", "moved_blocks_background",  # f2fs
        "data_reclaim_count", "metadata_reclaim_count",  # btrfs
        "gc_write_calls", "gc_bytes",  # xfs
        "written_gc", "collected_zones",  # zlfs
    }
)  # fmt: skip
# Right behind the barrier all tenants begin at once: what they have in common there is the start.
WARM_UP = 3.0
_FEWEST = 2  # samples that make a series
_PART = 0.9  # of the usual distance of two samples; nearer than that is a part of an interval


@dataclass(frozen=True, slots=True)
class Line:
    """A tenant's series: ``t`` in seconds since the run began, at the end of each interval.

    ``latency`` in microseconds is what ``source`` says; ``throughput`` in operations per second.
    """

    tenant: str
    t: FloatArray
    throughput: FloatArray
    latency: FloatArray
    source: str


@dataclass(frozen=True, slots=True)
class Events:
    """When a tenant's zones were managed, or it collected garbage: kind → seconds, sorted."""

    tenant: str
    times: Mapping[str, FloatArray]


def line(run: RunRecord, tenant: Tenant) -> Line | None:
    """Return a tenant's series of a run; None where it has none."""
    return series(run.path / "series" / f"{tenant.name}.{tenant.phase}.csv", tenant.name)


def series(path: Path, tenant: str) -> Line | None:
    """Return a series as its program reported it; None where there are not two samples.

    Without a column of latency it is the mean time per operation, 10⁶ / operations per second.
    """
    header, rows = read_columns(path)
    if len(rows) < _FEWEST or _OPERATIONS not in header:
        return None
    table = _whole(np.array(rows, dtype=np.float64))
    rate = table[:, header.index(_OPERATIONS)]
    source = next((column for column in _LATENCY if column in header), None)
    if source is None:
        latency = 1e6 / np.maximum(rate, 0.5)  # none at all: as if half an operation had ended
        return Line(tenant, table[:, 0], rate, latency, _PER_OPERATION)
    latency = np.maximum(table[:, header.index(source)], 1e-3)  # positive: it has a logarithm
    return Line(tenant, table[:, 0], rate, latency, source.removesuffix("_us").replace("_", " "))


def _whole(table: FloatArray) -> FloatArray:
    """Leave out the last sample where it is of a part of an interval: its count is no rate."""
    spacing = np.diff(table[:, 0])
    return table[:-1] if len(spacing) > 1 and spacing[-1] < _PART * np.median(spacing) else table


def events(run: RunRecord, together: Together) -> list[Events]:
    """Return every tenant's events; those of zones that nobody owns alone are nobody's."""
    found: dict[str, dict[str, list[float]]] = {one.name: {} for one in together.tenants}
    for command in read_commands(run) or ():
        kind = command.action.removesuffix(_ALL)
        name = owner(together.tenants, command.device, command.zone)
        if kind in _MANAGEMENT and name is not None:
            found[name].setdefault(kind, []).append(command.t)
    for tenant in together.tenants:
        times = _collections(run, tenant)
        if times:
            found[tenant.name][GC] = times
    return [
        Events(name, {kind: np.sort(np.array(times)) for kind, times in sorted(kinds.items())})
        for name, kinds in found.items()
    ]


def observe(mix: Mix) -> dict[str, list[Observed]]:
    """Return tenant → one observation per shared run that has every tenant's series."""
    found: dict[str, list[Observed]] = {name: [] for name in mix.names}
    for run in mix.shared:
        together = read(run)
        lines = [] if together is None else [line(run, one) for one in together.tenants]
        if together is None or not all(lines):
            continue
        grid = _grid(together, [one for one in lines if one is not None])
        if grid is None:
            continue
        counted = {
            one.tenant: {kind: _count(times, grid) for kind, times in one.times.items()}
            for one in events(run, together)
        }
        for one in lines:
            if one is not None:
                others = {name: kinds for name, kinds in counted.items() if name != one.tenant}
                found[one.tenant].append(Observed(on_grid(one, grid), others))
    return found


def on_grid(one: Line, grid: FloatArray) -> FloatArray:
    """Return the latency of the sample that covers the middle of each interval of the grid.

    NaN until the tenant has warmed up, and after its last sample.
    """
    middle = (grid[1:] + grid[:-1]) / 2
    index = np.searchsorted(one.t, middle)
    begin = 2 * one.t[0] - one.t[1] + WARM_UP  # a sample stands for the interval that it ends
    there = (middle > begin) & (index < len(one.t))
    latency = one.latency[np.minimum(index, len(one.t) - 1)]
    return np.where(there, latency, np.nan)


def _grid(together: Together, lines: Sequence[Line]) -> FloatArray | None:
    """Return edges of equal intervals while all measured, as wide as the rarest samples."""
    width = max(float(np.median(np.diff(one.t))) for one in lines)
    begin = together.began + WARM_UP
    count = int((together.ended - begin) / width) if width > 0 else 0
    edges: FloatArray = begin + width * np.arange(count + 1, dtype=np.float64)
    return edges if count >= _FEWEST else None


def _count(times: FloatArray, grid: FloatArray) -> FloatArray:
    return np.histogram(times, bins=grid)[0].astype(np.float64)


def _collections(run: RunRecord, tenant: Tenant) -> list[float]:
    """Return when a level's own counters of garbage collection had risen."""
    header, rows = read_columns(run.path / "series" / f"{tenant.name}.level.csv")
    columns = [index for index, name in enumerate(header) if name in _COLLECTED]
    totals = [sum(row[index] for index in columns) for row in rows]
    return [row[0] for row, before, now in _steps(rows, totals) if now > before]


def _steps(
    rows: Sequence[Sequence[float]], totals: Sequence[float]
) -> Iterable[tuple[Sequence[float], float, float]]:
    return zip(rows[1:], totals[:-1], totals[1:], strict=True)
