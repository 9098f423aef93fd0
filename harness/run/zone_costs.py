"""Wear, occupancy at finish, and the cost of finishes and resets, from a run's timeline.

A pure function of ``series/zone_commands.csv``, so that ``zonelab verify`` can compute it again.
Times come from the driver; *modelled* times are those of a ZN540 (docs/methods.md).
"""

from __future__ import annotations

import csv
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from harness import zn540
from harness.errors import ToolFailed
from harness.nulls import ratio, total
from harness.observe.tracing.tracer import TIMELINE
from harness.rules.facts import PhaseFacts
from harness.run.ledger import BarrierSnapshot
from harness.store import packed
from harness.store.ledger import RUN, Ledger
from harness.store.result import Metric, catalogued
from harness.store.spec import Device

NAMES = (
    "wear_min",
    "wear_median",
    "wear_max",
    "wear_cv",
    "finish_occupancy_p10",
    "finish_occupancy_p50",
    "finish_occupancy_p90",
    "finish_seconds",
    "reset_seconds",
    "finish_reset_share",
    "modelled_finish_seconds",
    "modelled_reset_seconds",
    "modelled_cost_share",
)


def finish_seconds(written: int, capacity: int) -> float:
    """Return the seconds in which a ZN540 finishes a zone with ``written`` of ``capacity`` bytes.

    A finish fills the rest of the zone. The published time, 9.025 ms for each 1 % of 1,077 MiB, is
    therefore applied to bytes. For zones of another capacity this is an extrapolation.
    """
    if written <= 0:
        return zn540.FINISH_EMPTY_MS / 1000
    left = 100 * (capacity - written) / zn540.ZONE_CAPACITY
    return (zn540.FINISH_FULL_MS + zn540.FINISH_MS_PER_PERCENT * left) / 1000


def reset_seconds(written: int, *, finished: bool) -> float:
    """Return the seconds in which a ZN540 resets a zone that holds ``written`` bytes.

    Published points are interpolated, also by bytes: a point's share refers to 1,077 MiB, whatever
    the capacity of the zone. For a finished zone, ``written`` are the bytes before its finish.
    """
    share = min(max(100 * written / zn540.ZONE_CAPACITY, 0.0), 100.0)
    if finished:
        growth = zn540.RESET_FINISHED_MS_PER_PERCENT * share
        return (zn540.RESET_FINISHED_AT_ZERO_MS + growth) / 1000
    for (low, first), (high, last) in pairwise(zn540.RESET_MS):
        if share <= high:
            return (first + (last - first) * (share - low) / (high - low)) / 1000
    return zn540.RESET_MS[-1][1] / 1000


@dataclass(slots=True)
class Costs:
    """Sums over a timeline. Times are in seconds, ``occupancies`` in % of the capacity.

    ``resets`` counts, by data zone, resets of zones that held data or were finished. A modelled
    time is null if a command was sent to a zone with unknown contents.
    """

    occupancies: list[float] = field(default_factory=list)
    resets: Counter[int] = field(default_factory=Counter)
    finish: float = 0.0
    reset: float = 0.0
    modelled_finish: float | None = 0.0
    modelled_reset: float | None = 0.0


def read(lines: Iterable[str], capacity: int, metadata_zones: int = 0) -> Costs:
    """Add up a timeline of zones of one ``capacity`` in bytes.

    The first ``metadata_zones`` of the device count for times, but not for wear and occupancies.

    Raises:
        ToolFailed: a line does not belong to a timeline.
    """
    reader = _TimelineReader(capacity, metadata_zones)
    try:
        for row in csv.DictReader(lines):
            if row["status"] == "0":  # a failed command changes nothing
                reader.take(row)
    except (KeyError, ValueError, TypeError) as error:
        raise ToolFailed(
            f"series/zone_commands.csv is not a timeline of zones: {error}", code="output-malformed"
        ) from None
    return reader.costs


class _TimelineReader:
    def __init__(self, capacity: int, metadata_zones: int) -> None:
        self.costs = Costs()
        self._capacity = capacity
        self._metadata = metadata_zones
        self._used: set[int] = set()
        self._finished: dict[int, int] = {}  # zone: bytes written before its finish, if known

    def take(self, row: dict[str, str]) -> None:
        action, seconds = row["action"], float(row["latency_us"] or 0) / 1e6
        if action == "reset-all":
            self.costs.reset += seconds
            for zone in self._used:
                self._wear(zone)
            self._used.clear()
            self._finished.clear()
            return
        if row["zone"] == "":
            return
        zone = int(row["zone"])
        written = int(row["written"]) if row["written"] else None
        if action == "finish":
            self._finish(zone, written, row["unwritten"], seconds)
        elif action == "reset":
            self._reset(zone, written, seconds)
        else:
            self._used.add(zone)

    def _finish(self, zone: int, written: int | None, unwritten: str, seconds: float) -> None:
        self.costs.finish += seconds
        self._used.add(zone)
        if unwritten == "0":
            return  # it was full
        if written is None:
            self.costs.modelled_finish = None
            return
        self._finished[zone] = written
        self.costs.modelled_finish = total(
            (self.costs.modelled_finish, finish_seconds(written, self._capacity))
        )
        if zone >= self._metadata:
            self.costs.occupancies.append(100 * written / self._capacity)

    def _reset(self, zone: int, written: int | None, seconds: float) -> None:
        self.costs.reset += seconds
        at_finish = self._finished.pop(zone, None)
        if written is None:
            modelled = None
        elif at_finish is not None:
            modelled = reset_seconds(at_finish, finished=True)
        else:
            modelled = reset_seconds(written, finished=False)
        self.costs.modelled_reset = total((self.costs.modelled_reset, modelled))
        if zone in self._used:
            self._wear(zone)
            self._used.discard(zone)

    def _wear(self, zone: int) -> None:
        if zone >= self._metadata:
            self.costs.resets[zone] += 1


def of_folder(
    folder: Path,
    device: Device,
    ledger: Ledger,
    *,
    metadata_zones: int,
    snapshots: Sequence[BarrierSnapshot],
    facts: Sequence[PhaseFacts],
) -> dict[str, Metric]:
    """Return the metrics of a run; all null without a zoned device or a trace of its zones.

    ``metadata_zones`` as in ``Level``, unless the level's own counters report them.

    Raises:
        ToolFailed: the timeline is damaged.
    """
    opened = packed.opened(folder / TIMELINE)
    if opened is None or not device.zoned:
        return metrics(None, 0, None, None)
    own = snapshots[-1].usage.own
    metadata = own.metadata_zones if own else metadata_zones
    with opened as lines:
        costs = read(lines, device.zone_capacity or 0, metadata)
    written = ledger.entries[-1].since_up
    seconds = total([one.seconds for one in facts])
    return metrics(costs, (device.zones or 0) - metadata, written, seconds)


def metrics(
    costs: Costs | None, zones: int, written: int | None, seconds: float | None
) -> dict[str, Metric]:
    """Return ``run.<name>`` for each of NAMES; all null without a timeline.

    ``zones`` counts data zones, ``written`` is H in bytes since the level came up, and ``seconds``
    is the duration of all phases.
    """
    values: dict[str, int | float | None] = dict.fromkeys(NAMES)
    if costs is not None:
        modelled = total((costs.modelled_finish, costs.modelled_reset))
        writing = None if written is None else written / zn540.WRITE_BYTES_PER_SECOND
        values |= _wear([*costs.resets.values()], zones)
        values |= _deciles(costs.occupancies)
        values |= {
            "finish_seconds": costs.finish,
            "reset_seconds": costs.reset,
            "finish_reset_share": ratio(costs.finish + costs.reset, seconds),
            "modelled_finish_seconds": costs.modelled_finish,
            "modelled_reset_seconds": costs.modelled_reset,
            "modelled_cost_share": ratio(modelled, total((modelled, writing))),
        }
    return catalogued(values, RUN)


def _wear(worn: Sequence[int], zones: int) -> dict[str, int | float | None]:
    """Return statistics of the resets of all data zones; a zone without a reset counts as 0."""
    resets = [*worn, *[0] * (zones - len(worn))]
    mean = statistics.fmean(resets)
    return {
        "wear_min": min(resets),
        "wear_median": statistics.median(resets),
        "wear_max": max(resets),
        "wear_cv": statistics.pstdev(resets) / mean if mean else None,
    }


def _deciles(occupancies: Sequence[float]) -> dict[str, int | float | None]:
    """Return the 10th, 50th and 90th percentile of the sample; nothing for an empty sample."""
    if not occupancies:
        return {}
    ordered = sorted(occupancies)
    last = len(ordered) - 1
    return {
        f"finish_occupancy_p{percent}": ordered[round(percent / 100 * last)]
        for percent in (10, 50, 90)
    }
