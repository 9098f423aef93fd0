"""Traces a run: picks a source, seeds it with the zone report, hands out what phases did."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from harness.errors import HostError, ZonelabError
from harness.observe.bpf_trace import BpfTrace
from harness.observe.sysfs import SECTOR, Sysfs
from harness.observe.trace_program import Watched
from harness.observe.tracefs_trace import TracefsTrace
from harness.observe.zone_trace import History, Totals, Traced, difference
from harness.observe.zones import Zone
from harness.store.spec import Device
from harness.tools import bpftrace, mount, proc

_NVME = re.compile(r"^nvme\d+(c\d+)?n\d+$")


class Source(Protocol):
    """Something that counts commands."""

    name: str

    def wait(self) -> None:
        """Wait until it counts."""

    def tick(self) -> None:
        """Do what has to be done about once a second."""

    def snapshot(self) -> Totals:
        """Return the counts so far."""

    def stop(self) -> None:
        """End it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counts at a barrier; ``finishes`` and ``unwritten`` as in ``Traced``, until then."""

    totals: Totals
    finishes: int
    unwritten: int


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


class Tracer:
    """A run's tracing, from before its level comes up until after it went down.

    Args:
        source: what counts.
        zoned: kernel name of the zoned device, null where the level uses none.
        conventional: the same of the conventional one, where it is traced.
        report: returns the zones.
        metadata_zones: as in ``Level``.
        began: the run's beginning, CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        source: Source,
        *,
        zoned: str | None,
        conventional: str | None,
        report: Callable[[], Sequence[Zone]],
        metadata_zones: int,
        began: float,
    ) -> None:
        self._source = source
        self._zoned = zoned
        self._conventional = conventional
        self._began = began
        self._trouble: tuple[str, ...] = ()
        self._last = Totals()

        self._history = History(zoned or "", report() if zoned else (), metadata_zones)

    @property
    def source(self) -> str:
        """What counts."""
        return self._source.name

    def tick(self) -> None:
        """Let the source work, about once a second."""
        self._source.tick()

    def snapshot(self) -> Snapshot:
        """Return the counts; once something went wrong, all later ones say so."""
        try:
            if not self._trouble:
                self._last = self._source.snapshot()
                self._history.extend(self._last, self._began)
                self._trouble = self._last.problems
        except (ZonelabError, OSError) as error:
            self._trouble = (str(error),)
        self._last = replace(self._last, problems=self._trouble, transitions=())
        return Snapshot(self._last, self._history.finishes, self._history.unwritten)

    def between(self, earlier: Snapshot, later: Snapshot) -> Traced:
        """Return what happened between two barriers."""
        before, after = earlier.totals, later.totals
        seconds = None
        if before.kernel_seconds is not None and after.kernel_seconds is not None:
            seconds = after.kernel_seconds - before.kernel_seconds
        return Traced(
            zoned=self._zoned,
            conventional=self._conventional,
            commands=difference(before.commands, after.commands),
            bytes=difference(before.bytes, after.bytes),
            finishes=later.finishes - earlier.finishes,
            unwritten=later.unwritten - earlier.unwritten,
            problems=after.problems,
            kernel_seconds=seconds,
        )

    def stop(self, write: Callable[[str, str], None]) -> None:
        """End tracing and store the tables."""
        try:
            self.snapshot()
        finally:
            self._source.stop()
        if not self._trouble:
            write("series/zone_commands.csv", self._history.timeline())
            write("raw/zones_traced.csv", self._history.table(self._last))


def start_bpf(
    devices: Sequence[Watched], keys: int, *, folder: Path, tracing: Path, proc_root: Path
) -> Source:
    """Start bpftrace; it takes a while until it counts.

    Args:
        devices: what to watch.
        keys: as for ``BpfTrace``.
        folder: gets its raw output.
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


def start_tracefs(devices: Sequence[Watched], tracing: Path) -> Source:
    """Count by the kernel's trace buffer; errors as for ``start_bpf``, and for other drivers."""
    _require_tracefs(tracing)
    return TracefsTrace(devices, tracing)


def _require_tracefs(tracing: Path) -> None:
    if not tracing.is_dir():
        raise HostError(f"this kernel has no {tracing}", code="tracing-missing")
    if not (tracing / "events").is_dir():
        mount.mount(Path("tracefs"), tracing, "tracefs")
