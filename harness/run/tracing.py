"""Tracing around a run: started before its level comes up, ended after it went down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.errors import ZonelabError
from harness.observe import tracer
from harness.observe.full_trace import FullTrace
from harness.observe.trace_program import Watched
from harness.observe.tracer import Source, Tracer
from harness.run.bench import Bench
from harness.run.kept_tracer import whole
from harness.run.record import Record
from harness.store.result import Issue, Severity
from harness.store.rundir import RunWriter
from harness.store.spec import Device, Reason, RunSpec, Tracing


@contextmanager
def traced(
    bench: Bench,
    spec: RunSpec,
    devices: Sequence[Device],
    *,
    record: Record,
    writer: RunWriter,
) -> Iterator[Tracer | None]:
    """Trace the commands to these devices; None where that cannot be, and why in the record."""
    if spec.tracing is Tracing.OFF:
        bench.tracer.stop()  # its programs would cost what this run is not to pay
        yield None
        return
    traceable = [device for device in devices if whole(bench.host, device)]
    zoned = next((Path(device.path).name for device in traceable if device.zoned), None)
    with sourced(bench, spec, traceable, record=record, writer=writer) as source:
        if source is None:
            yield None
            return
        found = Tracer(
            source,
            zoned=zoned,
            report=lambda: bench.host.zones(spec.device.path),
            metadata_zones=bench.levels[spec.level].metadata_zones,
            began=record.began,
        )
        try:
            yield found
        finally:
            found.end(writer.path / "raw", writer.write)


@contextmanager
def sourced(
    bench: Bench,
    spec: RunSpec,
    devices: Sequence[Device],
    *,
    record: Record,
    writer: RunWriter,
) -> Iterator[Source | None]:
    """Begin with bpftrace, or with the trace buffer where it cannot be had."""
    host = bench.host
    watched = [tracer.watched(host.sysfs, device) for device in devices]
    with ExitStack() as stack:
        source: Source | None = None
        try:
            started = bench.tracer.start(watched, spec)
            started.begin()
            source = started
        except ZonelabError as error:
            record.untraced = _reason(error)
        if source is None:
            try:
                buffer = tracer.start_tracefs(watched, host.tracing)
                stack.callback(buffer.stop)
                source = buffer
            except ZonelabError as error:
                record.untraced = record.untraced or _reason(error)
        record.level["tracing"] = {
            "source": source.name if source else "none",
            "without_bpftrace": record.untraced.message if record.untraced else "",
        }
        if source is not None:
            record.untraced = None
        if spec.tracing is Tracing.ALL:
            stack.enter_context(_everything(watched, host.tracing, record, writer))
        yield source


@contextmanager
def _everything(
    devices: Sequence[Watched], tracing: Path, record: Record, writer: RunWriter
) -> Iterator[None]:
    """Keep every command in ``raw/commands.txt.xz``; a gap makes the run invalid."""
    output = writer.path / "raw" / "commands.txt"
    full = FullTrace(devices, tracing, output)
    try:
        yield
    finally:
        lost = full.stop()
        if lost:
            text = f"{lost} events are missing in raw/commands.txt"
            record.found += (Issue("commands-lost", Severity.ERROR, text, actual=lost),)


def _reason(error: ZonelabError) -> Reason:
    return Reason(error.code, error.message, error.hint)
