"""Zone transitions of a run, from the tracer's timeline (docs/runner.md, "Tracing")."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from analysis.read.load import RunRecord, corrupt
from harness.errors import RunFailed
from harness.store import packed

NAME = "zone_commands.csv"


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
_BYTES = ("written", "unwritten")


@dataclass(frozen=True, slots=True)
class DoneCommand:
    """A successful command in the tracer's timeline; a null ``zone`` stands for all zones.

    ``written``: bytes in the zone at a finish or reset. ``unwritten``: capacity that a finish gave
    up. Both are null when unknown.
    """

    t: float
    device: str
    zone: int | None
    action: str
    written: float | None
    unwritten: float | None

    @property
    def kind(self) -> str:
        """The action, whether on one zone or on all."""
        return self.action.removesuffix(_ALL)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a zone's state; ``t`` in seconds since the run began, on the model's clock."""

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
    try:
        second = run.seconds(1.0)
        found = _changes(read_commands(run) or (), run.result.device.zones or 0)
        return tuple(replace(one, t=one.t * second) if second != 1 else one for one in found)
    except IndexError:
        raise _damaged(run) from None


def read_occupancies(run: RunRecord) -> tuple[float, ...]:
    """Return the written percentage of each zone that was finished early, in order.

    Raises:
        RunFailed: the timeline is damaged.
    """
    return tuple(
        100 * one.written / (one.written + one.unwritten)
        for one in read_commands(run) or ()
        if one.action == "finish" and one.written is not None and one.unwritten
    )


def read_commands(run: RunRecord) -> tuple[DoneCommand, ...] | None:
    """Return the successful commands of the tracer's timeline; None without a trace.

    Raises:
        RunFailed: the timeline is damaged.
    """
    file = packed.opened(run.path / "series" / NAME)
    if file is None:
        return None
    with file:
        try:
            return tuple(_commands(csv.DictReader(file)))
        except (KeyError, ValueError, TypeError):
            raise _damaged(run) from None


def _damaged(run: RunRecord) -> RunFailed:
    return corrupt(f"{run.name}/series/{NAME} is not a timeline of zones")


def _commands(rows: Iterable[dict[str, str]]) -> Iterator[DoneCommand]:
    for row in rows:
        if row["unwritten"] is None or row["status"] != "0":
            continue  # refused, or the last line of a killed run
        zone = int(row["zone"]) if row["zone"] else None
        held, given_up = (float(row[name]) if row[name] else None for name in _BYTES)
        yield DoneCommand(float(row["t"]), row["device"], zone, row["action"], held, given_up)


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


def _changes(commands: Iterable[DoneCommand], zones: int) -> Iterator[StateChange]:
    now = [ZoneState.EMPTY] * zones
    for command in commands:
        state = _BECOMES.get(command.kind)
        if state is None:
            continue
        for zone in range(zones) if command.zone is None else (command.zone,):
            if _changes_it(now[zone], state):
                now[zone] = state
                yield StateChange(command.t, zone, state)


def _changes_it(now: ZoneState, then: ZoneState) -> bool:
    if then is ZoneState.ACTIVE:
        return now is ZoneState.EMPTY
    full = now in (ZoneState.FULL, ZoneState.FINISHED)
    return now is not then and not (full and then in (ZoneState.FULL, ZoneState.FINISHED))
