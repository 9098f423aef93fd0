"""Zone transitions of a run, from the tracer's timeline (docs/runner.md, "Tracing")."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from analysis.read.load import RunRecord, corrupt
from harness.store import packed

NAME = "zone_commands.csv"
T = TypeVar("T")


class ZoneState(IntEnum):
    """The state of a zone. ``FINISHED``: a finish made it full before all of it was written."""

    EMPTY = 0
    ACTIVE = 1
    FULL = 2
    FINISHED = 3


# The state after a command. Opens and closes leave a zone active or make it so.
_BECOMES = {
    "first-write": ZoneState.ACTIVE,
    "open": ZoneState.ACTIVE,
    "last-write": ZoneState.FULL,
    "finish": ZoneState.FINISHED,
    "reset": ZoneState.EMPTY,
}
_ALL = "-all"


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a zone's state; ``t`` in seconds since the run began."""

    t: float
    zone: int
    state: ZoneState


@dataclass(frozen=True, slots=True)
class Span:
    """A zone in one state, in seconds since the run began."""

    zone: int
    state: ZoneState
    begin: float
    end: float


def read_changes(run: RunRecord) -> tuple[StateChange, ...]:
    """Return a run's zone transitions in order; empty if the run was not traced.

    Commands that failed or changed nothing (the finish of a full zone) are left out. All zones are
    empty when a run begins, because the runner resets them.

    Raises:
        RunFailed: the timeline is damaged.
    """
    zones = run.result.device.zones or 0
    return timeline(run, lambda rows: _changes(rows, zones)) or ()


def read_occupancies(run: RunRecord) -> tuple[float, ...]:
    """Return the written percentage of each zone that was finished early, in order.

    Raises:
        RunFailed: the timeline is damaged.
    """
    return timeline(run, _occupancies) or ()


def timeline(
    run: RunRecord, parse: Callable[[Iterator[dict[str, str]]], Iterable[T]]
) -> tuple[T, ...] | None:
    """Return the items that ``parse`` yields from the tracer's rows; None without a trace.

    Raises:
        RunFailed: the timeline is damaged.
    """
    file = packed.opened(run.path / "series" / NAME)
    if file is None:
        return None
    with file:
        try:
            return tuple(parse(csv.DictReader(file)))
        except (KeyError, ValueError, TypeError, IndexError):
            what = f"{run.name}/series/{NAME} is not a timeline of zones"
            raise corrupt(what) from None


def _occupancies(rows: Iterator[dict[str, str]]) -> Iterator[float]:
    for row in rows:
        if row["action"] == "finish" and row["status"] == "0" and row["unwritten"]:
            written, unwritten = int(row["written"]), int(row["unwritten"])
            if unwritten:
                yield 100 * written / (written + unwritten)


def spans(changes: Sequence[StateChange]) -> list[Span]:
    """Return the time that each zone spent in each state, except empty."""
    end = changes[-1].t if changes else 0.0
    since: dict[int, StateChange] = {}
    found = []
    for change in changes:
        found += _ended(since.pop(change.zone, None), change.t)
        since[change.zone] = change
    for last in since.values():
        found += _ended(last, end)
    return found


def count(changes: Sequence[StateChange]) -> Counter[ZoneState]:
    """Return the number of changes to each state."""
    return Counter(change.state for change in changes)


def _ended(change: StateChange | None, end: float) -> list[Span]:
    if change is None or change.state is ZoneState.EMPTY:
        return []
    return [Span(change.zone, change.state, change.t, end)]


def _changes(rows: Iterator[dict[str, str]], zones: int) -> Iterator[StateChange]:
    now = [ZoneState.EMPTY] * zones
    for row in rows:
        if row["written"] is None or row["status"] != "0":  # the last line of a killed run
            continue
        action = row["action"]
        state = _BECOMES.get(action.removesuffix(_ALL))
        if state is None:
            continue
        meant = range(zones) if row["zone"] == "" else (int(row["zone"]),)
        for zone in meant:
            if _changes_it(now[zone], state):
                now[zone] = state
                yield StateChange(float(row["t"]), zone, state)


def _changes_it(now: ZoneState, then: ZoneState) -> bool:
    if then is ZoneState.ACTIVE:
        return now is ZoneState.EMPTY
    full = now in (ZoneState.FULL, ZoneState.FINISHED)
    return now is not then and not (full and then in (ZoneState.FULL, ZoneState.FINISHED))
