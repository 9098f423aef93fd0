"""Clients of fio's jobs: the results of each in a run, from fio's own output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from analysis.read.block import device_words
from analysis.read.clock import on_model_clock
from analysis.read.load import RunRecord, corrupt
from harness.errors import ToolFailed
from harness.store import packed
from harness.store.spec import PhaseSpec
from harness.tools import fio, histogram
from harness.workloads.fio_jobs import JOB


@dataclass(frozen=True, slots=True)
class ClientPoint:
    """One direction of one client in one run; rates per second, latencies in µs or null."""

    row: str
    scheduler: str
    job: str
    client: str
    operation: str
    iops: float
    bandwidth: float
    p50: float | None
    p95: float | None
    p99: float | None


def clients_of(runs: Iterable[RunRecord]) -> list[ClientPoint]:
    """Return the clients of all jobs in ok runs; those of twins are left out.

    Raises:
        RunFailed: an output is damaged.
    """
    return [
        point
        for run in runs
        if run.ok and not run.spec.is_twin
        for phase in run.spec.phases
        if phase.program == fio.PROGRAM and phase.benchmark.startswith(JOB)
        for point in _points(run, phase)
    ]


def _points(run: RunRecord, phase: PhaseSpec) -> Iterator[ClientPoint]:
    """Yield points on the model's clock."""
    dilation = run.result.device.dilation
    try:
        output = fio.parse(packed.text(run.path / "raw" / f"{phase.name}.stdout"))
    except ToolFailed as error:
        raise corrupt(f"{run.path.name}: {phase.name}: {error.message}") from None
    for client in output.jobs if output else ():
        for way, done in client.directions.items():
            kept = done.latencies["lat"].histogram if "lat" in done.latencies else None
            whole = on_model_clock(kept, dilation) if kept is not None else None
            p50, p95, p99 = (
                histogram.quantile(whole, at) if whole is not None else None
                for at in (5000, 9500, 9900)
            )
            seconds = done.seconds / dilation
            yield ClientPoint(
                row=", ".join((run.spec.row, *device_words(run.spec))),
                scheduler=run.spec.scheduler,
                job=phase.name.removeprefix(JOB),
                client=client.name,
                operation=way,
                iops=done.commands / seconds if seconds else 0.0,
                bandwidth=done.bytes / seconds if seconds else 0.0,
                p50=p50,
                p95=p95,
                p99=p99,
            )
