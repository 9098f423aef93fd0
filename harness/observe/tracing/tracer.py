"""Trace one run: combine the counts of a source with the zone report, store the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from harness.cleanup import cleaned
from harness.errors import ZonelabError
from harness.observe.sysfs import Sysfs
from harness.observe.tracing.bpf_program import WatchedDevice
from harness.observe.tracing.zone_history import History, TraceTotals, Transition, record
from harness.observe.zone_reports import Zone, as_csv
from harness.quantities import SECTOR
from harness.store.ledger import Trace
from harness.store.spec import Device

# Stored files of a run: zones when tracing began, zone transitions, bytes and commands per zone.
SEED, TIMELINE, TABLE = "raw/traced.zones.csv", "series/zone_commands.csv", "raw/zones_traced.csv"

_NVME = re.compile(r"^nvme\d+(c\d+)?n\d+$")


class TraceSource(Protocol):
    """A program or kernel facility that counts commands."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """The traced devices, in the order of their numbers."""

    def begin(self) -> None:
        """Start counting for another run."""

    def tick(self) -> None:
        """Do periodic work; called about once a second."""

    def snapshot(self) -> TraceTotals:
        """Return the counts so far."""

    def end(self, raw: Path) -> None:
        """Store its output of this run."""


def watched(sysfs: Sysfs, device: Device) -> WatchedDevice:
    """Return how the driver names and addresses the device."""
    name = device.name
    disk = sysfs.disk(name)
    paths = sysfs.queue_nodes(disk)
    nvme = bool(_NVME.match(disk))
    return WatchedDevice(
        name=name,
        disks=tuple(paths[1:] or paths),
        nsid=(sysfs.number(paths[-1], "nsid") or 0) if nvme else 0,
        unit=device.logical_block_size if nvme else SECTOR,
        zone_size=device.zone_size or 0 if device.zoned else 0,
        zone_capacity=device.zone_capacity or 0 if device.zoned else 0,
    )


class Tracer:
    """The tracing of a run.

    In a plain run it goes from before its level comes up until after it went down. Its files have
    no prefix.

    Args:
        source: counts the commands.
        reports: functions that return the zones, by kernel name of the zoned namespace.
        metadata_zones: of the levels, by the same name; 0 where tenants share a namespace.
        began: start of the run, CLOCK_MONOTONIC.
        plain: whether the run has no tenants.
    """

    def __init__(
        self,
        source: TraceSource,
        *,
        reports: Mapping[str, Callable[[], Sequence[Zone]]],
        metadata_zones: Mapping[str, int],
        began: float,
        plain: bool,
    ) -> None:
        self._source = source
        self._began = began
        self._plain = plain
        self._last = TraceTotals()
        self._seeds = {name: tuple(report()) for name, report in reports.items()}
        self._histories = {
            name: History(name, seed, metadata_zones.get(name, 0))
            for name, seed in self._seeds.items()
        }
        if plain and not self._histories:
            self._histories[""] = History("", ())
        self.transitions: list[Transition] = []
        self.trouble: tuple[str, ...] = ()

    def of(self, device: str | None) -> Callable[[], Trace]:
        """Return a tenant's view: what counts all commands, and finishes of its own namespace.

        ``device`` is this namespace; None is a tenant without a zoned one.
        """
        return partial(self.snapshot, self._histories.get(device or "") or History("", ()))

    def tick(self) -> None:
        """Do periodic work; called about once a second."""
        self._source.tick()

    def snapshot(self, history: History) -> Trace:
        """Return the counts so far; after a problem, all later snapshots carry it."""
        try:
            if not self.trouble:
                self._last = self._source.snapshot()
                self.transitions += self._last.transitions
                for own in self._histories.values():
                    own.extend(self._last, self._began)
                self.trouble = self._last.problems
        except (ZonelabError, OSError) as error:
            self.trouble = (str(error),)
        self._last = replace(self._last, problems=self.trouble, transitions=())
        return record(self._source.names, self._last, history)

    def end(self, raw: Path, write: Callable[[str, str], None]) -> None:
        """Store zones, timeline and tables; ``raw`` gets the source's own output."""
        with cleaned(lambda: self._source.end(raw), uses_device=False):
            self.snapshot(History("", ()))
        for name, seed in self._seeds.items():
            write(self._file(SEED, name), as_csv(seed))
        if self.trouble:
            return
        timelines = [history.timeline() for history in self._histories.values()]
        # A plain run's only timeline is in the order of completion.
        write(TIMELINE, timelines[0] if self._plain else merged(timelines))
        for name, history in self._histories.items():
            write(self._file(TABLE, name), history.table(self._last))

    def _file(self, path: str, device: str) -> str:
        folder, _, name = path.rpartition("/")
        return path if self._plain else f"{folder}/{device}.{name}"


def merged(timelines: Sequence[str]) -> str:
    """Merge timelines in the order of time."""
    header = timelines[0].partition("\n")[0] if timelines else ""
    rows = [row for timeline in timelines for row in timeline.splitlines()[1:]]
    rows.sort(key=lambda row: float(row.partition(",")[0]))
    return "".join(f"{row}\n" for row in [header, *rows])
