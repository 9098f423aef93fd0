"""Tracing of block commands during a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from harness.cleanup import cleaned
from harness.errors import ZonelabError
from harness.observe.tracing import tracefs_buffer, tracer
from harness.observe.tracing.bpf_program import WatchedDevice
from harness.observe.tracing.command_log import CommandLog
from harness.observe.tracing.tracefs_source import TracefsSource
from harness.observe.tracing.tracer import Tracer, TraceSource
from harness.run.context import RunContext
from harness.run.kept_tracer import is_whole
from harness.run.result_builder import ResultBuilder
from harness.run.tenant import tenants_of
from harness.store.result import Issue, Severity
from harness.store.rundir import RunWriter
from harness.store.spec import Device, Reason, RunSpec, TracingMode


@contextmanager
def traced(
    context: RunContext,
    spec: RunSpec,
    devices: Sequence[Device],
    *,
    zoned: Sequence[Device],
    record: ResultBuilder,
    writer: RunWriter,
) -> Iterator[Tracer | None]:
    """Trace a run inside the block; null if that is impossible (the record has the reason).

    ``zoned`` are its zoned namespaces. The block of a plain run begins before the level comes up,
    and ends after the level went down.
    """
    if not spec.tenants:
        devices = [device for device in devices if is_whole(context.host, device)]
        zoned = [device for device in devices if device in zoned]
    metadata_zones = {
        tenant.device.name: context.levels[tenant.level].metadata_zones
        for tenant in tenants_of(spec)
        if tenant.zones is None
    }
    with _source(context, spec, devices, record=record, writer=writer) as source:
        if source is None:
            yield None
            return
        found = Tracer(
            source,
            reports={device.name: partial(context.host.zones, device.path) for device in zoned},
            metadata_zones=metadata_zones,
            began=record.began,
            plain=not spec.tenants,
        )
        with cleaned(lambda: found.end(writer.path / "raw", writer.write), uses_device=False):
            yield found


@contextmanager
def _source(
    context: RunContext,
    spec: RunSpec,
    devices: Sequence[Device],
    *,
    record: ResultBuilder,
    writer: RunWriter,
) -> Iterator[TraceSource | None]:
    """Start bpftrace, or the trace buffer where bpftrace is unavailable."""
    if spec.tracing is TracingMode.OFF:
        context.tracer.stop()  # its probes would slow down the commands
        yield None
        return
    host = context.host
    own = host.trace_source(devices)
    if own is not None:
        own.begin()
        record.tracing["tracing"] = {"source": own.name, "without_bpftrace": ""}
        yield own
        return
    watched = [tracer.watched(host.sysfs, device) for device in devices]
    with ExitStack() as stack:
        source: TraceSource | None = None
        try:
            started = context.tracer.start(watched, spec)
            started.begin()
            source = started
        except ZonelabError as error:
            record.untraced = Reason.of(error)
        if source is None:
            try:
                tracefs_buffer.require(host.tracing)
                buffer = TracefsSource(watched, host.tracing)
                stack.enter_context(cleaned(buffer.stop, uses_device=False))
                source = buffer
            except ZonelabError as error:
                record.untraced = record.untraced or Reason.of(error)
        record.tracing["tracing"] = {
            "source": source.name if source else "none",
            "without_bpftrace": record.untraced.message if record.untraced else "",
        }
        if source is not None:
            record.untraced = None
        if spec.tracing is TracingMode.ALL:
            stack.enter_context(_every_command(watched, host.tracing, record, writer))
        yield source


@contextmanager
def _every_command(
    devices: Sequence[WatchedDevice], tracing: Path, record: ResultBuilder, writer: RunWriter
) -> Iterator[None]:
    """Store every command in ``raw/commands.txt.xz``; a gap makes the run invalid."""
    full = CommandLog(devices, tracing, writer.path / "raw" / "commands.txt")

    def stop() -> None:
        lost = full.stop()
        if lost:
            text = f"{lost} events are missing in raw/commands.txt"
            record.findings += (Issue("commands-lost", Severity.ERROR, text, actual=lost),)

    with cleaned(stop, uses_device=False):
        yield
