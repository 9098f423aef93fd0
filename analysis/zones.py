"""What was done to each zone of a run, from the tracer's timeline (docs/runner.md, "Tracing")."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from analysis.load import RunRecord, corrupt
from harness.store import packed

NAME = "zone_commands.csv"
T = TypeVar("T")


class State(IntEnum):
    """What a zone is; ``FINISHED`` ones became full by a finish, before they were written full."""

    EMPTY = 0
    ACTIVE = 1
    FULL = 2
    FINISHED = 3


# Opens and closes leave a zone active, or make an empty one so.
_BECOMES = {
    "first-write": State.ACTIVE,
    "open": State.ACTIVE,
    "last-write": State.FULL,
    "finish": State.FINISHED,
    "reset": State.EMPTY,
}
_ALL = "-all"


@dataclass(frozen=True, slots=True)
class Change:
    """A zone that became something else; ``t`` in seconds since the run began."""

    t: float
    zone: int
    state: State


@dataclass(frozen=True, slots=True)
class Span:
    """A zone in one state, in seconds since the run began."""

    zone: int
    state: State
    begin: float
    end: float


def read_changes(run: RunRecord) -> tuple[Change, ...]:
    """Return a run's zone transitions in their order; nothing where it was not traced.

    Commands that failed, and those that changed nothing (a full zone finished), are left out. All
    zones are empty when a run begins: the runner resets them.

    Raises:
        RunFailed: the timeline is damaged.
    """
    zones = run.result.device.zones or 0
    return timeline(run, lambda rows: _changes(rows, zones)) or ()


def read_occupancies(run: RunRecord) -> tuple[float, ...]:
    """Return how full each zone was when it was finished before it was full, in %, in their order.

    Raises:
        RunFailed: the timeline is damaged.
    """
    return timeline(run, _occupancies) or ()


def timeline(
    run: RunRecord, parse: Callable[[Iterator[dict[str, str]]], Iterable[T]]
) -> tuple[T, ...] | None:
    """Return what ``parse`` makes of the tracer's rows; None where the run was not traced.

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


def spans(changes: Sequence[Change]) -> list[Span]:
    """Return how long each zone was what; nothing for an empty one."""
    end = changes[-1].t if changes else 0.0
    since: dict[int, Change] = {}
    found = []
    for change in changes:
        found += _ended(since.pop(change.zone, None), change.t)
        since[change.zone] = change
    for last in since.values():
        found += _ended(last, end)
    return found


def count(changes: Sequence[Change]) -> Counter[State]:
    """Return how often zones became what."""
    return Counter(change.state for change in changes)


def _ended(change: Change | None, end: float) -> list[Span]:
    if change is None or change.state is State.EMPTY:
        return []
    return [Span(change.zone, change.state, change.t, end)]


def _changes(rows: Iterator[dict[str, str]], zones: int) -> Iterator[Change]:
    now = [State.EMPTY] * zones
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
                yield Change(float(row["t"]), zone, state)


def _changes_it(now: State, then: State) -> bool:
    if then is State.ACTIVE:
        return now is State.EMPTY
    full = now in (State.FULL, State.FINISHED)
    return now is not then and not (full and then in (State.FULL, State.FINISHED))
