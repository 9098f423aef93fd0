"""Tracing around a run: started before its level comes up, ended after it went down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.errors import ZonelabError
from harness.observe import tracer
from harness.observe.full_trace import FullTrace
from harness.observe.trace_program import Watched
from harness.observe.tracer import Source, Tracer
from harness.run.bench import Bench
from harness.run.record import Record
from harness.store.result import Issue, Severity
from harness.store.rundir import RunWriter
from harness.store.spec import Device, Reason, RunSpec, Tracing

_OUTPUT = "trace.jsonl"

_TRANSITIONS_OF_A_ZONE = 4  # first write, last write, finish or close, reset
_LEAST_KEYS = 16384


@contextmanager
def traced(
    bench: Bench,
    spec: RunSpec,
    devices: Sequence[Device],
    *,
    record: Record,
    writer: RunWriter,
    meanwhile: Callable[[], None],
) -> Iterator[Tracer | None]:
    """Trace the commands to these devices; None where that cannot be done, and why in the record.

    ``meanwhile`` is done while the tracer starts.
    """
    if spec.tracing is Tracing.OFF:
        meanwhile()
        yield None
        return
    # A partition's commands cannot be told from those to the rest of its disk.
    sysfs = bench.host.sysfs
    whole = [device for device in devices if sysfs.parent(Path(device.path).name) is None]
    names = {device.zoned: Path(device.path).name for device in whole}
    with _source(bench, spec, whole, record=record, writer=writer, meanwhile=meanwhile) as source:
        if source is None:
            yield None
            return
        found = Tracer(
            source,
            zoned=names.get(True),
            conventional=names.get(False),
            report=lambda: bench.host.zones(spec.device.path),
            metadata_zones=bench.levels[spec.level].metadata_zones,
            began=record.began,
        )
        try:
            yield found
        finally:
            found.stop(writer.write)


@contextmanager
def _source(
    bench: Bench,
    spec: RunSpec,
    devices: Sequence[Device],
    *,
    record: Record,
    writer: RunWriter,
    meanwhile: Callable[[], None],
) -> Iterator[Source | None]:
    """Start bpftrace, or the trace buffer where it cannot be had; stop it again."""
    raw, host = writer.path / "raw", bench.host
    watched = [tracer.watched(host.sysfs, device) for device in devices]
    with ExitStack() as stack:
        stack.callback(_pack, writer, raw / _OUTPUT)
        source: Source | None = None
        try:
            source = tracer.start_bpf(
                watched, _keys(spec), folder=raw, tracing=host.tracing, proc_root=host.proc
            )
            stack.callback(source.stop)
        except ZonelabError as error:
            record.untraced = _reason(error)
        meanwhile()
        try:
            if source is not None:
                source.wait()
        except ZonelabError as error:
            source, record.untraced = None, _reason(error)
        if source is None:
            try:
                source = tracer.start_tracefs(watched, host.tracing)
                stack.callback(source.stop)
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
        _pack(writer, output)
        if lost:
            text = f"{lost} events are missing in raw/commands.txt"
            record.found += (Issue("commands-lost", Severity.ERROR, text, actual=lost),)


def _keys(spec: RunSpec) -> int:
    """Return how many zone transitions to have room for: four times those that are predicted."""
    zones = spec.predicted.bytes_written // (spec.device.zone_capacity or spec.device.size)
    return max(_TRANSITIONS_OF_A_ZONE * 4 * zones, _LEAST_KEYS)


def _pack(writer: RunWriter, output: Path) -> None:
    if output.exists():
        writer.pack(output, f"raw/{output.name}.xz")
        output.unlink()


def _reason(error: ZonelabError) -> Reason:
    return Reason(error.code, error.message, error.hint)
