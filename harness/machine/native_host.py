"""This machine as the host of modelled drives, which are files, not devices (docs/rigs.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.errors import GuardRefused
from harness.machine.device_facts import require_geometry
from harness.machine.host import Host
from harness.observe import sampler, zone_states
from harness.observe.diskstats import DiskCounters
from harness.observe.native_drive import NativeDrive
from harness.observe.sampler import SampledSeries
from harness.observe.sysfs import Sysfs
from harness.observe.tracing.native_source import NativeSource
from harness.observe.tracing.tracer import TraceSource
from harness.observe.zone_reports import Zone
from harness.store.ledger import MODELLED_MEDIA, Completions, Witness
from harness.store.spec import Device, DeviceIdentity

_WITNESS = "write bytes of the model in libzlfs.so"


class _NoDisks(Sysfs):
    """The machine's sysfs without its block devices, so that no code can find one."""

    def names(self) -> list[str]:
        return []


class NativeHost(Host):
    """The real machine, but its only drives are modelled ones."""

    def __init__(self, drives: Iterable[Device]) -> None:
        super().__init__(_NoDisks())
        self._drives = {device.name: device for device in drives}

    def device(self, path: str) -> Device:
        """Return the drive with this path.

        Raises:
            GuardRefused: there is none (code ``missing``).
        """
        found = self._drives.get(Path(path).name)
        if found is None or found.path != path:
            raise GuardRefused(
                f"there is no modelled drive {path}",
                hint="plan again: start a new campaign",
                code="missing",
            )
        return found

    def find(self, planned: Device) -> Device:
        """Return the planned drive; GuardRefused: there is none, or it has another geometry."""
        found = self.device(planned.path)
        if found.identity.key != planned.identity.key:
            raise GuardRefused(
                f"{planned.path} is now {found.model}; it was {planned.model} when planned",
                hint="start a new campaign",
                code="missing",
            )
        require_geometry(planned, found)
        return found

    def identity(self, name: str) -> DeviceIdentity:
        """Return the identity of a drive."""
        return self._drives[name].identity

    def zones(self, path: str, limit: int | None = None) -> list[Zone]:
        """Return the zones that the file of the contents records."""
        return self._drive(path).report(limit)

    def zone_series(self, name: str, device: Device) -> SampledSeries:
        """Return a series of a drive's zones by state."""
        return SampledSeries(name, zone_states.COLUMNS, self._drive(device.path).zone_row)

    def disk_counters(self, names: Iterable[str]) -> dict[str, DiskCounters]:
        """Return the counts of what was written to the drives' contents and read from them."""
        return {name: self._drive(name).disk_counters() for name in names}

    def disk_series(self, names: Sequence[str]) -> SampledSeries:
        """Return the series of the same counters."""
        return sampler.of_gauges("diskstats", [self._drive(name).disk_gauge() for name in names])

    def media_series(self, names: Sequence[str]) -> SampledSeries:
        """Return the series of the bytes that the models wrote to their media."""
        drives = [self._drive(name) for name in names]
        return SampledSeries("media", list(names), lambda: [one.media_bytes() for one in drives])

    def trace_source(self, devices: Sequence[Device]) -> TraceSource | None:
        """Return the drives' own count of commands."""
        return NativeSource(self._drive(devices[0].path))

    def witness(self, names: Sequence[str]) -> Witness | None:
        """Return the bytes of the commands that the models completed."""
        counts = {name: self._drive(name).counts() for name in names}
        return Witness.of_each(
            _WITNESS,
            {name: one["write_bytes"] for name, one in counts.items()},
            {name: one["read_bytes"] for name, one in counts.items()},
        )

    def media(self, names: Sequence[str]) -> Witness | None:
        """Return the bytes that the models wrote to their media."""
        models = " + ".join(sorted({self._drives[name].model for name in names}))
        written = {name: self._drive(name).media_bytes() for name in names}
        return Witness.of_each(f"{MODELLED_MEDIA} {models}", written)

    def completions(self, names: Sequence[str]) -> dict[str, Completions]:
        """Return what each model completed, and how much of it on time."""
        return {name: self._drive(name).completions() for name in names}

    def smart(self, name: str) -> dict[str, int] | None:  # noqa: ARG002
        """Return None: a model has no SMART log."""
        return None

    def drive_capacity(self, name: str) -> int | None:  # noqa: ARG002
        """Return None: a model is one namespace."""
        return None

    def warning_temperature(self, name: str) -> int | None:  # noqa: ARG002
        """Return None: a model has no temperature."""
        return None

    def _drive(self, path: str) -> NativeDrive:
        return NativeDrive(self._drives[Path(path).name])
