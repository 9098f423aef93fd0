"""What a run works with: the context of its campaign, and its level once it is up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.levels.level import Level, LevelUp
from harness.machine.cgroups import Cgroups
from harness.machine.claim import DeviceClaim
from harness.machine.guard import Guard
from harness.machine.host import Host
from harness.machine.journal import Journal
from harness.machine.native_claim import NativeClaim
from harness.machine.native_host import NativeHost
from harness.machine.paths import Paths
from harness.machine.signals import Stop
from harness.observe.diskstats import DiskCounters, DiskSnapshot, delta
from harness.run.kept_tracer import KeptTracer
from harness.run.progress import ProgressPublisher
from harness.run.recording import Recording
from harness.store.ledger import SeriesMark, Trace
from harness.store.rundir import RunWriter
from harness.store.spec import Device, RunSpec


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything a run needs beyond its specification."""

    host: Host
    levels: Mapping[str, Level]
    program: Path
    paths: Paths
    journal: Journal
    guard: Guard
    stop: Stop
    progress: ProgressPublisher
    cgroups: Cgroups
    tracer: KeptTracer
    say: Callable[[str], None]

    def claim(self, spec: RunSpec, devices: Sequence[Device]) -> DeviceClaim | NativeClaim:
        """Return the claim of a run on its devices."""
        if isinstance(self.host, NativeHost):
            return NativeClaim(devices)
        return DeviceClaim(
            spec,
            devices,
            host=self.host,
            guard=self.guard,
            journal=self.journal,
            stop=self.stop,
        )


class ToolReads:
    """What the tools of barriers have read from the devices of a run, by kernel name."""

    def __init__(self) -> None:
        self._sums: dict[str, DiskCounters] = {}

    def add(self, before: DiskSnapshot, after: DiskSnapshot) -> None:
        """Add what a barrier's tools read between two readings of the counters."""
        for name, disk in delta(before, after).items():
            self._sums[name] = self.of(name) + replace(
                disk, writes=0, write_bytes=0, writes_merged=0, in_flight=0
            )

    def of(self, name: str) -> DiskCounters:
        """Return the sums of a device."""
        return self._sums.get(name, DiskCounters(0, 0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class RunningLevel:
    """A level that is up. ``began`` is the start of the run on the monotonic clock.

    The tenants of a run share ``tools``, because they can share a device. ``trace`` returns the
    tracer's counts so far; it is null if the run is not traced. ``marks`` returns the present
    values of the run's sampled series. ``recording`` belongs to the conventional device.
    """

    level: Level
    up: LevelUp
    device: Device
    conventional: Device | None
    writer: RunWriter
    began: float
    trace: Callable[[], Trace] | None = None
    tools: ToolReads = field(default_factory=ToolReads)
    marks: Callable[[], Mapping[str, SeriesMark]] = dict
    recording: Recording | None = None

    @property
    def zoned_name(self) -> str | None:
        """Kernel name of the zoned device; null if the level does not use it."""
        return self.device.name if self.level.uses_zoned else None

    @property
    def conventional_name(self) -> str | None:
        """Kernel name of the conventional device; null if the level does not use one."""
        return self.conventional.name if self.conventional else None

    @property
    def names(self) -> list[str]:
        """Kernel names of the devices in use."""
        return [name for name in (self.zoned_name, self.conventional_name) if name]
