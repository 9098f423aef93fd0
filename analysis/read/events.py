"""Events below the workload, which are drawn in a strip under a run's series."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from analysis.read import zones
from analysis.read.load import RunRecord
from analysis.read.series import read_columns, read_gauges
from analysis.read.zones import ZoneState
from harness.levels import LEVELS

_ZONE_EVENTS = {"finishes": ZoneState.FINISHED, "resets": ZoneState.EMPTY}


def read_events(run: RunRecord) -> Mapping[str, tuple[float, ...]]:
    """Return kind of event → times in seconds since the run began, without empty kinds.

    Seconds are on the clock of the drive's model.

    Flushes and compactions come from RocksDB, finishes and resets from the tracer. Collections come
    from the level's counter, to the second in which it changed.

    Raises:
        RunFailed: a series is damaged.
    """
    events = {
        "flush, compaction": tuple(
            t
            for phase in run.result.phases
            for times in read_columns(run.path / "series" / f"{phase.name}.lsm.csv")[1][:1]
            for t in times
        ),
        "level's GC": collection_times(run.path / "series" / "level.csv"),
    }
    events = {name: tuple(map(run.seconds, times)) for name, times in events.items()}
    changes = zones.read_changes(run)
    for name, state in _ZONE_EVENTS.items():
        events[name] = tuple(change.t for change in changes if change.state is state)
    return {name: times for name, times in events.items() if times}


def collection_times(path: Path) -> tuple[float, ...]:
    """Return the times at which a level's garbage-collection counters had risen.

    A counter that the kernel lacks has no value in any sample; the others count.

    Raises:
        RunFailed: the series is damaged.
    """
    header, rows = read_gauges(path)
    names = {name for level in LEVELS.values() for name in level.gc_columns}
    columns = [index for index, name in enumerate(header) if name in names]
    last: dict[int, float] = {}
    found = []
    for row in rows:
        known = {index: value for index in columns if (value := row[index]) is not None}
        risen = sum(value - last.get(index, value) for index, value in known.items())
        if risen > 0 and row[0] is not None:
            found.append(row[0])
        last |= known
    return tuple(found)
