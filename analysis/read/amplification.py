"""Bytes per user byte over device writes, from a run's ledger and its series.

The ledger has the bytes of each phase. Series distribute them over the time of the phase, so the
last value of a line is the ledger's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.read.arrays import FloatArray
from analysis.read.flow import read_flows
from analysis.read.load import RunRecord
from analysis.read.series import read_columns, read_devices, read_written
from harness.store.ledger import LedgerEntry

_STEPS = 20  # points of a line per capacity of device writes
_WINDOW = 0.5  # length in capacities


class AmplificationPoint(NamedTuple):
    """Device writes since the first fill in capacities, and bytes below per user byte.

    ``window`` is the ratio over the last half capacity of device writes; None before half a
    capacity was written, and if the window has no user bytes.
    """

    turnover: float
    cumulative: float
    window: float | None


@dataclass(frozen=True, slots=True)
class Amplification:
    """The line of a run.

    Attributes:
        media: whether bytes are counted at the media; if not, at the devices' input.
        points: in the order of device writes.
        ends: phase → device writes at its end, in capacities.
    """

    media: bool
    points: tuple[AmplificationPoint, ...]
    ends: Mapping[str, float]


class _Curve(NamedTuple):
    """A cumulative count over time."""

    t: FloatArray
    values: FloatArray


class _Phase(NamedTuple):
    """A phase up to the beginning of the next one, in seconds since the run began."""

    entry: LedgerEntry
    begin: float
    end: float
    operations: _Curve | None


def read(run: RunRecord) -> Amplification | None:
    """Return the line of a run; None without a ledger, series or user bytes, and for tenants.

    Raises:
        ConfigError: the ledger is damaged.
        RunFailed: a series is not numeric.
    """
    phases = [] if run.spec.tenants else _phases(run)
    if not phases or any(phase.entry.user is None for phase in phases):
        return None  # before the other series are read
    written = _curves(*read_written(run.path))
    if not written:
        return None
    media = written | _curves(*read_devices(run.path / "series" / "media.csv", ""))
    maps = [phase.entry.media for phase in phases]
    counted = all(maps) and all(size is not None for sizes in maps for size in sizes.values())
    every = {t for phase in phases for t in (phase.begin, phase.end)}
    every |= {float(t) for curve in (*written.values(), *media.values()) for t in curve.t}
    times = np.array(sorted(t for t in every if phases[0].begin <= t <= phases[-1].end))
    user, device, medium = (np.zeros_like(times) for _ in range(3))
    for phase in phases:
        user += (phase.entry.user or 0) * _share(phase.operations, phase, times)
        for name, size in phase.entry.submitted.items():
            device += size * _share(written.get(name), phase, times)
        for name, part in phase.entry.media.items():
            medium += (part or 0) * _share(media.get(name), phase, times)
    capacity = run.result.device.capacity
    if not capacity or not device[-1] or not user[-1]:
        return None
    ends = {
        phase.entry.name: float(np.interp(phase.end, times, device)) / capacity for phase in phases
    }
    below = medium if counted else device
    return Amplification(counted, tuple(_points(device, user, below, capacity)), ends)


def _phases(run: RunRecord) -> list[_Phase]:
    (flow,) = read_flows([run])
    entries = {entry.name: entry for entry in flow.entries}
    known = [phase for phase in run.result.phases if phase.name in entries]
    starts = [run.start_of(phase) for phase in known]
    found = []
    for index, phase in enumerate(known):
        begin, end = starts[index], starts[index] + phase.seconds
        header, columns = read_columns(run.path / "series" / f"{phase.name}.csv")
        operations = None
        if "operations" in header and columns[0]:
            t, done = columns[0], np.cumsum(columns[header.index("operations")])
            # Recorded starts are whole seconds. The last operations can lack a row.
            begin, end = min(begin, t[0]), max(end, t[-1])
            total = max(float(phase.operations_done or 0), float(done[-1]))
            operations = _Curve(np.array([begin, *t, end]), np.array([0.0, *done, total]))
        # Flushed tables are written after the last operation, until the next phase.
        end = max([end, *starts[index + 1 : index + 2]])
        found.append(_Phase(entries[phase.name], begin, end, operations))
    return found


def _curves(times: list[float], by_device: Mapping[str, list[float]]) -> dict[str, _Curve]:
    t = np.array(times)
    return {name: _Curve(t, np.array(values)) for name, values in by_device.items() if values}


def _share(curve: _Curve | None, phase: _Phase, times: FloatArray) -> FloatArray:
    """Return the share of a phase's count that was reached at each time; 1 from its end on."""
    reached = (times >= phase.end).astype(np.float64)
    if curve is None:
        return reached
    first, last = np.interp([phase.begin, phase.end], curve.t, curve.values)
    if last <= first:
        return reached
    inside = (np.interp(times, curve.t, curve.values) - first) / (last - first)
    return np.where(times >= phase.end, 1.0, np.where(times <= phase.begin, 0.0, inside))


def _points(
    device: FloatArray, user: FloatArray, below: FloatArray, capacity: int
) -> Iterator[AmplificationPoint]:
    """Yield points at equal steps of device writes; at least ``_STEPS``."""
    total = float(device[-1])
    step = min(capacity, total) / _STEPS
    places = np.append(step * np.arange(1, int(total / step)), total)
    rising = np.append(True, np.diff(device) > 0)  # keeps the first time of each count
    users, bytes_ = (np.interp(places, device[rising], one[rising]) for one in (user, below))
    starts = places - _WINDOW * capacity
    before, moved = (np.interp(starts, device[rising], one[rising]) for one in (user, below))
    # User bytes after the last device write belong to the last point.
    users[-1], bytes_[-1] = user[-1], below[-1]
    for index, place in enumerate(places):
        if users[index] <= 0:
            continue
        window = None
        if starts[index] >= 0 and users[index] > before[index]:
            window = float((bytes_[index] - moved[index]) / (users[index] - before[index]))
        yield AmplificationPoint(
            float(place / capacity), float(bytes_[index] / users[index]), window
        )


def mean_ends(lines: Sequence[Amplification]) -> dict[str, float]:
    """Return phase → mean device writes at its end, over the runs that have it."""
    names = dict.fromkeys(name for line in lines for name in line.ends)
    found = {name: [line.ends[name] for line in lines if name in line.ends] for name in names}
    return {name: sum(ends) / len(ends) for name, ends in found.items()}
