"""Latencies of tenants, and zone-management and GC events of the others, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.read.arrays import FloatArray
from analysis.read.events import collection_times
from analysis.read.load import RunRecord
from analysis.read.series import read_columns
from analysis.read.zones import read_commands
from analysis.tenants.attribution import AlignedRun
from analysis.tenants.mix import Mix, SharedSpan, read
from analysis.tenants.usage import owner

# A series' first column of these is used; tails come first, because neighbours affect them most.
_LATENCY = ("latency_p99_us", "latency_max_us", "latency_mean_us")
_OPERATIONS = "operations"
_PER_OPERATION = "time per operation"
# Zone-management commands in the tracer's timeline; first and last writes are not commands.
_MANAGEMENT = ("reset", "finish", "open", "close")
GC = "gc"
# Seconds after the barrier that are left out: all tenants start at once there.
WARM_UP = 3.0
_FEWEST = 2  # samples that a series needs
_PART = 0.9  # a last interval shorter than this share of the median one is incomplete


@dataclass(frozen=True, slots=True)
class Line:
    """A tenant's series: ``t`` in seconds since the run began, at the end of each interval.

    ``latency`` in microseconds, from column ``source``, NaN in intervals without operations;
    ``throughput`` in operations per second.
    """

    t: FloatArray
    throughput: FloatArray
    latency: FloatArray
    source: str


def read_lines(run: RunRecord, together: SharedSpan) -> dict[str, Line]:
    """Return tenant → series, for the tenants of a run that have one."""
    folder = run.path / "series"
    return {
        one.name: line
        for one in together.tenants
        if (line := read_series(folder / f"{one.name}.{one.phase}.csv")) is not None
    }


def read_series(path: Path) -> Line | None:
    """Return a program's series, None with fewer than two samples.

    A series without a latency column gets the mean time per operation, 10⁶ / operations per second.
    """
    header, columns = read_columns(path)
    if _OPERATIONS not in header or len(columns[0]) < _FEWEST:
        return None
    table = _whole(np.array(columns, dtype=np.float64))
    t, rate = table[0], _rate(table[0], table[header.index(_OPERATIONS)])
    source = next((column for column in _LATENCY if column in header), None)
    if source is None:
        latency = 1e6 / np.maximum(rate, 0.5)  # an idle interval counts as half an operation
        return Line(t, rate, latency, _PER_OPERATION)
    latency = np.maximum(table[header.index(source)], 1e-3)  # must be positive for logs
    return Line(t, rate, latency, source.removesuffix("_us").replace("_", " "))


def _whole(table: FloatArray) -> FloatArray:
    """Drop the last sample when its interval is incomplete, because its count is not a rate."""
    spacing = np.diff(table[0])
    return table[:, :-1] if len(spacing) > 1 and spacing[-1] < _PART * np.median(spacing) else table


def _rate(t: FloatArray, counts: FloatArray) -> FloatArray:
    """Return operations per second. A line can cover a stall in which db_bench printed no line.

    The first line counts as long as the median interval.
    """
    spacing = np.diff(t)
    spacing = np.concatenate(([np.median(spacing)], spacing))
    return np.divide(counts, spacing, out=np.zeros(len(t)), where=spacing > 0)


def events(run: RunRecord, together: SharedSpan) -> dict[str, dict[str, FloatArray]]:
    """Return tenant → kind → sorted seconds of its zone-management commands and collections.

    Events of shared or unowned zones are left out.
    """
    events_of: dict[str, dict[str, list[float]]] = {one.name: {} for one in together.tenants}
    for command in read_commands(run) or ():
        name = owner(together.tenants, command.device, command.zone)
        if command.kind in _MANAGEMENT and name is not None:
            events_of[name].setdefault(command.kind, []).append(command.t)
    for tenant in together.tenants:
        times = collection_times(run.path / "series" / f"{tenant.name}.level.csv")
        if times:
            events_of[tenant.name][GC] = list(times)
    return {
        name: {kind: np.sort(np.array(times)) for kind, times in sorted(kinds.items())}
        for name, kinds in events_of.items()
    }


def observe(mix: Mix) -> dict[str, list[AlignedRun]]:
    """Return tenant → one observation per shared run with a series of every tenant."""
    observations: dict[str, list[AlignedRun]] = {name: [] for name in mix.names}
    for run in mix.shared:
        together = read(run)
        lines = {} if together is None else read_lines(run, together)
        if together is None or len(lines) < len(together.tenants):
            continue
        grid = _grid(together, [*lines.values()])
        if grid is None:
            continue
        counted = {
            name: {
                kind: np.histogram(times, bins=grid)[0].astype(np.float64)
                for kind, times in kinds.items()
            }
            for name, kinds in events(run, together).items()
        }
        for name, line in lines.items():
            others = {other: kinds for other, kinds in counted.items() if other != name}
            observations[name].append(AlignedRun(on_grid(line, grid), others))
    return observations


def on_grid(line: Line, grid: FloatArray) -> FloatArray:
    """Return for each grid interval the latency of the sample that covers its middle.

    In a stall, this is the next sample with an operation, because that operation waited. NaN before
    the tenant has warmed up and after its last operation.
    """
    middle = (grid[1:] + grid[:-1]) / 2
    timed = np.isfinite(line.latency)
    index = np.searchsorted(line.t[timed], middle)
    begin = 2 * line.t[0] - line.t[1] + WARM_UP  # a sample is at the end of its interval
    latency = np.append(line.latency[timed], np.nan)[index]
    return np.where(middle > begin, latency, np.nan)


def _grid(together: SharedSpan, lines: Sequence[Line]) -> FloatArray | None:
    """Return edges of equal intervals while all tenants measured, as long as the longest sample."""
    width = max(float(np.median(np.diff(line.t))) for line in lines)
    begin = together.began + WARM_UP
    count = int((together.ended - begin) / width) if width > 0 else 0
    edges: FloatArray = begin + width * np.arange(count + 1, dtype=np.float64)
    return edges if count >= _FEWEST else None
