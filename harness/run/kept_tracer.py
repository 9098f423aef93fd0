"""The tracer that a campaign's runs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import GuardRefused, ZonelabError
from harness.observe import tracer
from harness.observe.bpf_trace import BpfTrace
from harness.observe.trace_program import Watched
from harness.run.host import Host
from harness.store.spec import Device, RunSpec, Tracing

_TRANSITIONS_OF_A_ZONE = 4  # first write, last write, finish or close, reset
_LEAST_KEYS = 16384


class KeptTracer:
    """bpftrace, kept from run to run: compiling its program takes seconds under emulation.

    Args:
        host: the machine.
        folder: where it works.
        runs: those that are to be traced: all their devices are watched from the first one on.
    """

    def __init__(self, host: Host, folder: Path, runs: Sequence[RunSpec]) -> None:
        self._host = host
        self._folder = folder
        self._runs = [run for run in runs if run.tracing is not Tracing.OFF]
        self._running: BpfTrace | None = None
        self._refused: ZonelabError | None = None

    def prepare(self) -> None:
        """Have it attached before the first run's clock starts; what refuses, that run says."""
        if next(self._others(), None) is not None:
            with suppress(ZonelabError):
                self.start((), self._runs[0])

    def start(self, wanted: Sequence[Watched], spec: RunSpec) -> BpfTrace:
        """Return one that is attached and watches these devices.

        Raises:
            ZonelabError: it cannot be had on this machine; one that refused is not tried again.
        """
        if self._refused is not None:
            raise self._refused
        running, keys = self._running, _keys(spec)
        if running is not None:
            if running.alive and running.keys >= keys and set(wanted) <= set(running.devices):
                return running
            self.stop()
        self._running = tracer.start_bpf(
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
        """End it, where it runs."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def _others(self) -> Iterator[Watched]:
        """Return the devices of later runs, as far as they are there."""
        for device in dict.fromkeys(one for run in self._runs for one in run.devices):
            try:
                found = self._host.find(device)
            except GuardRefused:
                continue
            if whole(self._host, found):
                yield tracer.watched(self._host.sysfs, found)


@contextmanager
def closing_tracer(host: Host, folder: Path, runs: Sequence[RunSpec]) -> Iterator[KeptTracer]:
    """Return the tracer of these runs, and end it behind them."""
    found = KeptTracer(host, folder, runs)
    try:
        yield found
    finally:
        found.stop()


def whole(host: Host, device: Device) -> bool:
    """A partition's commands cannot be told from those to the rest of its disk."""
    return host.sysfs.parent(Path(device.path).name) is None


def _keys(spec: RunSpec) -> int:
    """Return how many zone transitions to have room for: four times those that are predicted."""
    zones = spec.predicted.bytes_written // (spec.device.zone_capacity or spec.device.size)
    return max(_TRANSITIONS_OF_A_ZONE * 4 * zones, _LEAST_KEYS)
