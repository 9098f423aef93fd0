"""Traces a run: picks a source, seeds it with the zone report, hands out what phases did."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from harness.errors import HostError, ZonelabError
from harness.observe.bpf_trace import BpfTrace
from harness.observe.sysfs import SECTOR, Sysfs
from harness.observe.trace_program import Watched
from harness.observe.tracefs_trace import TracefsTrace
from harness.observe.zone_trace import History, Totals, record
from harness.observe.zones import Zone, as_csv
from harness.store.ledger import Trace
from harness.store.spec import Device
from harness.tools import bpftrace, mount, proc

# What is stored of a run, in its folder: zones when tracing began, what was done to them.
SEED, TIMELINE, TABLE = "raw/traced.zones.csv", "series/zone_commands.csv", "raw/zones_traced.csv"

_NVME = re.compile(r"^nvme\d+(c\d+)?n\d+$")


class Source(Protocol):
    """Something that counts commands."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        """The devices it counts for, as it numbers them."""

    def begin(self) -> None:
        """Count from here on, for another run."""

    def tick(self) -> None:
        """Do what has to be done about once a second."""

    def snapshot(self) -> Totals:
        """Return the counts so far."""

    def end(self, raw: Path) -> None:
        """Store what it told of this run."""


def watched(sysfs: Sysfs, device: Device) -> Watched:
    """Return a device as its driver knows it."""
    name = Path(device.path).name
    disk = sysfs.parent(name) or name
    paths = sysfs.queue_nodes(disk)
    nvme = bool(_NVME.match(disk))
    return Watched(
        name=name,
        disks=tuple(paths[1:] or paths),
        nsid=(sysfs.number(paths[-1], "nsid") or 0) if nvme else 0,
        unit=device.logical_block_size if nvme else SECTOR,
        zone_size=device.zone_size or 0 if device.zoned else 0,
        zone_capacity=device.zone_capacity or 0 if device.zoned else 0,
    )


class Tracing(Protocol):
    """What a run asks while it is traced."""

    def tick(self) -> None:
        """Let the source work, about once a second."""

    def snapshot(self) -> Trace:
        """Return the counts so far."""


class Tracer:
    """A run's tracing, from before its level comes up until after it went down.

    Args:
        source: what counts.
        zoned: kernel name of the zoned device, null where the level uses none.
        report: returns the zones.
        metadata_zones: as in ``Level``.
        began: the run's beginning, CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        source: Source,
        *,
        zoned: str | None,
        report: Callable[[], Sequence[Zone]],
        metadata_zones: int,
        began: float,
    ) -> None:
        self._source = source
        self._began = began
        self._trouble: tuple[str, ...] = ()
        self._last = Totals()
        self.seed = tuple(report()) if zoned else ()
        self._history = History(zoned or "", self.seed, metadata_zones)

    @property
    def source(self) -> str:
        """What counts."""
        return self._source.name

    def tick(self) -> None:
        """Let the source work, about once a second."""
        self._source.tick()

    def snapshot(self) -> Trace:
        """Return the counts; once something went wrong, all later ones say so."""
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
        """Store what was traced; ``raw`` gets the source's own output."""
        try:
            self.snapshot()
        finally:
            self._source.end(raw)
        if self.seed:
            write(SEED, as_csv(self.seed))
        if not self._trouble:
            write(TIMELINE, self._history.timeline())
            write(TABLE, self._history.table(self._last))


def start_bpf(
    devices: Sequence[Watched], keys: int, *, folder: Path, tracing: Path, proc_root: Path
) -> BpfTrace:
    """Start bpftrace; it takes a while until it counts.

    Args:
        devices: what to watch.
        keys: as for ``BpfTrace``.
        folder: where it works.
        tracing: where tracefs is, or can be mounted.
        proc_root: where /proc is.

    Raises:
        HostError: bpftrace or the kernel's tracing is missing.
        ToolFailed: tracefs cannot be mounted.
    """
    _require_tracefs(tracing)
    program = proc.which(bpftrace.PROGRAM)
    if program is None:
        raise HostError(
            "bpftrace is not installed",
            hint=f"apt-get install {bpftrace.PACKAGE}",
            code="program-missing",
        )
    return BpfTrace(program, devices, keys, folder=folder, proc_root=proc_root)


def start_tracefs(devices: Sequence[Watched], tracing: Path) -> TracefsTrace:
    """Count by the kernel's trace buffer; errors as for ``start_bpf``, and for other drivers."""
    _require_tracefs(tracing)
    return TracefsTrace(devices, tracing)


def _require_tracefs(tracing: Path) -> None:
    if not tracing.is_dir():
        raise HostError(f"this kernel has no {tracing}", code="tracing-missing")
    if not (tracing / "events").is_dir():
        mount.mount(Path("tracefs"), tracing, "tracefs")
