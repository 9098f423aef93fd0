"""What each tenant did in its zones, from the trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.observe.tracing.zone_history import Transition

# Actions that make a zone active, and actions that end it.
_BEGINS = frozenset({"first-write", "open"})
_ENDS = frozenset({"last-write", "finish", "reset"})


@dataclass(frozen=True, slots=True)
class Activity:
    """Resets, finishes and zone-seconds of activity in a range of zones and a span of time."""

    resets: int
    finishes: int
    active_seconds: float


def activity(
    transitions: Sequence[Transition],
    device: str,
    zones: range,
    active: Collection[int],
    span: tuple[float, float],
    *,
    seen: float,
) -> Activity:
    """Add up the transitions of a tenant's zones.

    Kernel workers submit a file system's commands, so only the zone shows the tenant.

    Args:
        transitions: in the order of completion.
        device: kernel name of the namespace.
        zones: zones of the tenant.
        active: zones that were active at the time ``seen``.
        span: start and end, CLOCK_MONOTONIC.
        seen: a time before the span; programs open their databases in between.
    """
    began, ended = span
    since = {zone: began for zone in active if zone in zones}
    seconds, resets, finishes = 0.0, 0, 0
    for item in transitions:
        if item.error or item.device != device or not seen <= item.time <= ended:
            continue
        time, inside = max(item.time, began), item.time >= began
        if item.action == "reset-all":
            seconds += sum(time - start for start in since.values())
            since.clear()
            resets += inside
        elif item.zone is not None and item.zone in zones:
            if item.action in _BEGINS:
                since.setdefault(item.zone, time)
            elif item.action in _ENDS and item.zone in since:
                seconds += time - since.pop(item.zone)
            resets += inside and item.action == "reset"
            finishes += inside and item.action == "finish"
    seconds += sum(ended - start for start in since.values())
    return Activity(resets, finishes, seconds)
