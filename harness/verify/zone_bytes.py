"""Compares ``series/diskstats.csv`` with the zones: bytes in zones must have been written.

Bytes written = bytes in zones + bytes in zones that were reset - bytes that a finish gave up. This
relation joins three independent sources: the kernel's counters, zone reports, and the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from harness.observe.tracing import tracer
from harness.run.tenant import prefixed
from harness.store.spec import TenantSpec
from harness.verify.sampled import DISKSTATS, SeriesTable, read
from harness.verify.stored import StoredTenant

_STATES = ("empty", "implicit_open", "explicit_open", "closed", "full", "read_only", "offline")
_TENTHS = range(0, 100, 10)
# Seconds of tolerance, because commands and samples have times of two clocks.
_SKEW = 0.25


@dataclass(frozen=True, slots=True)
class ZoneEvent:
    """A reset or finish: bytes that it removed from zones (negative: that it filled in).

    It took effect between ``began`` and ``t``, when it ended. A drive can take seconds for many
    resets, and zone reports show their effect before the last one ends.
    """

    t: float
    taken: int
    began: float


def file_of(tenant: TenantSpec) -> str:
    """Return the series of the states of a tenant's zones."""
    return f"series/{prefixed(tenant.name, 'zones')}.csv"


def differences(folder: Path, stored: StoredTenant) -> Iterator[str]:
    """Yield one line if diskstats and the zones of a tenant contradict each other."""
    name, file = stored.snapshots[0].counters.zoned, file_of(stored.spec)
    zones, disks = read(folder, file), read(folder, DISKSTATS)
    if not name or zones is None or disks is None:
        return
    zones = zones.known([*_STATES, *(f"occupied_{tenth}" for tenth in _TENTHS)])
    disks = disks.known([f"{name}.write_bytes"])
    count = len(stored.spec.zone_range)
    for row in zones.rows:
        known = sum(int(row[state]) for state in _STATES)
        if known > count:  # conventional zones have none of the states
            yield f"{file}: has {known} zones at {row['t']} s, the device has {count}"
            return
    events = _events(folder, stored.spec)
    if disks.times and events is not None and _is_exact(name, stored, events, disks.times[-1]):
        yield from _compared(stored, zones, disks, events)


def _events(folder: Path, tenant: TenantSpec) -> list[ZoneEvent] | None:
    """Return resets and finishes in their order; null if some were not traced."""
    table = read(folder, tracer.TIMELINE)
    if table is None:
        return None
    events, padded = [], dict[str, int]()
    for t, row in zip(table.times, table.rows, strict=True):
        if row["device"] != tenant.device.name:
            continue
        if row["zone"] and int(row["zone"]) not in tenant.zone_range:  # '': all zones
            continue
        began = t - float(row["latency_us"] or 0) / 1e6
        if row["action"] == "reset" and row["written"]:
            taken = int(row["written"]) + padded.pop(row["zone"], 0)
            events.append(ZoneEvent(t, taken, began))
        elif row["action"] == "finish" and row["unwritten"]:
            padded[row["zone"]] = int(row["unwritten"])
            events.append(ZoneEvent(t, -padded[row["zone"]], began))
        elif row["action"] in ("reset", "finish"):
            return None
    return events


def _is_exact(name: str, stored: StoredTenant, events: Sequence[ZoneEvent], last_t: float) -> bool:
    """Whether the relation holds to the byte from the first barrier to the last.

    It does not hold if a level sends writes directly to the driver. Resets while the level goes
    down come after the last barrier, so they may or may not be included.
    """
    first, last = stored.snapshots[0], stored.snapshots[-1]
    if first.allocated is None or last.allocated is None:
        return False
    written = last.counters.written[name] - first.counters.written[name]
    taken = written - sum(last.allocated) + sum(first.allocated)
    sums = list(accumulate((event.taken for event in events), initial=0))
    return taken in sums[sum(event.t <= last_t for event in events) :]


def _compared(
    stored: StoredTenant,
    zones: SeriesTable,
    disks: SeriesTable,
    events: Sequence[ZoneEvent],
) -> Iterator[str]:
    first, last = stored.snapshots[0], stored.snapshots[-1]
    name = first.counters.zoned
    column = f"{name}.write_bytes"
    written = [*disks.numbers(column), last.counters.written[name]]
    after = dict(zip(disks.times, pairwise(written), strict=True))
    if written[-1] < written[-2]:
        # The run ended in a phase, so that no barrier follows the last sample.
        del after[disks.times[-1]]
    following = dict(pairwise([*disks.times, disks.times[-1] + 1]))
    base = first.counters.written[name] - sum(first.allocated or ())
    capacity = stored.spec.device.zone_capacity or 0
    for t, row in zip(zones.times, zones.rows, strict=True):
        if t not in after:
            continue
        taken = _taken(events, t - _SKEW, following[t] + _SKEW)
        low, high = (
            base + held + part for held, part in zip(_inside(row, capacity), taken, strict=True)
        )
        # Zones are read after diskstats, and before the next sample of diskstats.
        if low > after[t][1] or high < after[t][0]:
            yield (
                f"{DISKSTATS}: {column}: has {after[t][0]} at {t:.3f} s, "
                f"{file_of(stored.spec)} and {tracer.TIMELINE} give {low} to {high}"
            )
            return


def _taken(events: Sequence[ZoneEvent], begin: float, end: float) -> tuple[int, int]:
    """Return the least and the most that events had taken out of zones at a time in between."""
    total = sum(event.taken for event in events if event.t <= begin)
    unsure = [event.taken for event in events if event.t > begin and event.began <= end]
    return (
        total + sum(taken for taken in unsure if taken < 0),
        total + sum(taken for taken in unsure if taken > 0),
    )


def _inside(row: Mapping[str, str], capacity: int) -> tuple[int, int]:
    """Return the least and the most that the zones of a sample can hold."""
    full = int(row["full"]) * capacity
    active = [(int(row[f"occupied_{tenth}"]), tenth) for tenth in _TENTHS]
    low = sum(count * capacity * tenth // 100 for count, tenth in active)
    high = sum(count * capacity * (tenth + 10) // 100 for count, tenth in active)
    return full + low, full + high
