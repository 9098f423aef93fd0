"""Trace one run: start a source, combine its counts with the zone report, store the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from harness.cleanup import cleaned
from harness.errors import HostError, ZonelabError
from harness.observe.sysfs import Sysfs
from harness.observe.tracing import tracefs_buffer
from harness.observe.tracing.bpf_program import WatchedDevice
from harness.observe.tracing.bpf_source import BpfSource
from harness.observe.tracing.tracefs_source import TracefsSource
from harness.observe.tracing.zone_history import History, TraceTotals, record
from harness.observe.zone_reports import Zone, as_csv
from harness.quantities import SECTOR
from harness.store.ledger import Trace
from harness.store.spec import Device
from harness.tools import bpftrace, proc

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
    name = Path(device.path).name
    disk = sysfs.parent(name) or name
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


class PhaseTracer(Protocol):
    """The tracing of a run, as its phases see it."""

    def tick(self) -> None:
        """Do periodic work; called about once a second."""

    def snapshot(self) -> Trace:
        """Return the counts so far."""


class Tracer:
    """The tracing of a run, from before its level comes up until after it went down.

    Args:
        source: counts the commands.
        zoned: kernel name of the zoned device; None if the level uses none.
        report: returns the zones.
        metadata_zones: as in ``Level``.
        began: start of the run, CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        source: TraceSource,
        *,
        zoned: str | None,
        report: Callable[[], Sequence[Zone]],
        metadata_zones: int,
        began: float,
    ) -> None:
        self._source = source
        self._began = began
        self._trouble: tuple[str, ...] = ()
        self._last = TraceTotals()
        self.seed = tuple(report()) if zoned else ()
        self._history = History(zoned or "", self.seed, metadata_zones)

    def tick(self) -> None:
        """Do periodic work; called about once a second."""
        self._source.tick()

    def snapshot(self) -> Trace:
        """Return the counts so far; after a problem, all later snapshots carry it."""
        try:
            if not self._trouble:
                self._last = self._source.snapshot()
                self._history.extend(self._last, self._began)
                self._trouble = self._last.problems
        except (ZonelabError, OSError) as error:
            self._trouble = (str(error),)
        self._last = replace(self._last, problems=self._trouble, transitions=())
        return record(self._source.names, self._last, self._history)

    def end(self, raw: Path, write: Callable[[str, str], None]) -> None:
        """Store the zones, the timeline and the table; ``raw`` gets the source's own output."""
        with cleaned(lambda: self._source.end(raw), although_hung=True):
            self.snapshot()
        if self.seed:
            write(SEED, as_csv(self.seed))
        if not self._trouble:
            write(TIMELINE, self._history.timeline())
            write(TABLE, self._history.table(self._last))


def start_bpf(
    devices: Sequence[WatchedDevice], keys: int, *, folder: Path, tracing: Path, proc_root: Path
) -> BpfSource:
    """Start bpftrace without waiting for its probes. tracefs is mounted at ``tracing``.

    Raises:
        HostError: bpftrace is not installed, or the kernel has no tracing.
        ToolFailed: tracefs cannot be mounted.
    """
    tracefs_buffer.require(tracing)
    program = proc.which(bpftrace.PROGRAM)
    if program is None:
        raise HostError(
            "bpftrace is not installed",
            hint=f"apt-get install {bpftrace.PACKAGE}",
            code="program-missing",
        )
    return BpfSource(program, devices, keys, folder=folder, proc_root=proc_root)


def start_tracefs(devices: Sequence[WatchedDevice], tracing: Path) -> TracefsSource:
    """Count with the kernel's trace buffer; HostError also if a device is not NVMe."""
    tracefs_buffer.require(tracing)
    return TracefsSource(devices, tracing)
