"""The bpftrace process that all runs of a campaign share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.cleanup import cleaned
from harness.errors import GuardRefused, ZonelabError
from harness.machine.host import Host
from harness.observe.tracing import tracer
from harness.observe.tracing.bpf_program import WatchedDevice
from harness.observe.tracing.bpf_source import BpfSource
from harness.store.spec import Device, RunSpec, TracingMode

_TRANSITIONS_OF_A_ZONE = 4  # first write, last write, finish or close, reset
_LEAST_KEYS = 16384


class KeptTracer:
    """Keeps bpftrace from run to run, as compiling its program takes seconds under emulation.

    Devices of all traced runs are watched from the first run on.
    """

    def __init__(self, host: Host, folder: Path, runs: Sequence[RunSpec]) -> None:
        self._host = host
        self._folder = folder
        traced = [run for run in runs if run.tracing is not TracingMode.OFF]
        self._runs = [run for run in traced if not run.device.native]
        self._running: BpfSource | None = None
        self._refused: ZonelabError | None = None

    def prepare(self) -> None:
        """Attach bpftrace before the clock of the first run starts; that run reports any error."""
        if next(self._others(), None) is not None:
            with suppress(ZonelabError):
                self.start((), self._runs[0])

    def start(self, wanted: Sequence[WatchedDevice], spec: RunSpec) -> BpfSource:
        """Return an attached bpftrace that watches these devices.

        Raises:
            ZonelabError: it cannot run on this machine; it is not tried again.
        """
        if self._refused is not None:
            raise self._refused
        running, keys = self._running, _keys(spec)
        if running is not None:
            if running.alive and running.keys >= keys and set(wanted) <= set(running.devices):
                return running
            self.stop()
        self._running = BpfSource(
            list(dict.fromkeys([*wanted, *self._others()])),
            max([keys, *map(_keys, self._runs)]),
            folder=self._folder,
            tracing=self._host.tracing,
            proc_root=self._host.proc,
        )
        try:
            self._running.wait()
        except ZonelabError as error:
            self._refused = error
            self.stop()
            raise
        return self._running

    def stop(self) -> None:
        """Stop bpftrace, if it runs."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def _others(self) -> Iterator[WatchedDevice]:
        """Return the devices of all runs that exist now."""
        for device in dict.fromkeys(one for run in self._runs for one in run.devices):
            try:
                found = self._host.find(device)
            except GuardRefused:
                continue
            if is_whole(self._host, found):
                yield tracer.watched(self._host.sysfs, found)


@contextmanager
def closing_tracer(host: Host, folder: Path, runs: Sequence[RunSpec]) -> Iterator[KeptTracer]:
    """Return the tracer of these runs, and stop it after the block."""
    found = KeptTracer(host, folder, runs)
    with cleaned(found.stop, uses_device=False):
        yield found


def is_whole(host: Host, device: Device) -> bool:
    """Whether a device is not a partition: traces show the disk, but not the partition."""
    return host.sysfs.parent(device.name) is None


def _keys(spec: RunSpec) -> int:
    """Return the capacity for zone transitions: four times the predicted number."""
    zones = spec.predicted.bytes_written // (spec.device.zone_capacity or spec.device.size)
    return max(_TRANSITIONS_OF_A_ZONE * 4 * zones, _LEAST_KEYS)
