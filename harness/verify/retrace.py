"""Compares stored traces with bpftrace's own output, for ``zonelab verify``.

The trace buffer, which replaces a missing bpftrace, leaves only counts. These cannot be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.observe import zone_reports
from harness.observe.native_drive import parse_notes
from harness.observe.tracing import native_source, tracer
from harness.observe.tracing.bpf_answers import Answers, grouped
from harness.observe.tracing.bpf_source import OUTPUT
from harness.observe.tracing.zone_history import History, TraceTotals, record
from harness.store import packed
from harness.store.ledger import Trace
from harness.tools import bpftrace
from harness.verify import derived

# Fields that come from bpftrace's answers; the others describe the tracing process.
_NUMBERS = ("commands", "finishes", "pad", "pad_held")


@dataclass(frozen=True, slots=True)
class TracedDevice:
    """A zoned namespace in the trace. ``prefix`` begins the names of its files in raw/."""

    name: str
    metadata_zones: int
    prefix: str = ""

    def file(self, path: str) -> str:
        """Return the path of one of its files; ``path`` as in a plain run."""
        folder, _, name = path.rpartition("/")
        return f"{folder}/{self.prefix}{name}"


def differences(
    folder: Path, traces: Sequence[tuple[Trace | None, str]], zoned: Sequence[TracedDevice]
) -> Iterator[str]:
    """Return one line per number that differs from the answers.

    ``traces`` are those of all barriers, each with the zoned namespace whose finishes it counts; ''
    is none.

    Raises:
        ToolFailed: an answer is damaged.
    """
    kept = sorted(
        [(trace, name) for trace, name in traces if trace is not None and trace.answers],
        key=lambda item: item[0].answers,
    )
    if not kept:
        yield from _noted(folder, [trace for trace, _ in traces if trace is not None], zoned)
    if not kept or kept[-1][0].problems:
        return
    opened = packed.opened(folder / "raw" / OUTPUT)
    if opened is None:
        yield f"raw/{OUTPUT}: is missing"
        return
    devices = kept[0][0].devices
    histories = {
        device.name: History(
            device.name if device.name in devices else "",
            _seed(folder, device),
            device.metadata_zones,
        )
        for device in zoned
    }
    answers = Answers(devices)
    with opened as lines:
        groups = grouped(bpftrace.parse(lines))
        for stored, name in kept:
            for maps in islice(groups, stored.answers - answers.taken):
                answers.take(maps)
            totals = _taken(answers, histories)
            own = histories.get(name) or History("", ())
            yield from _counts(stored, record(devices, totals, own))
        for maps in groups:
            answers.take(maps)
    totals = _taken(answers, histories)
    yield from _tables(folder, zoned, histories, totals)


def _noted(folder: Path, traces: Sequence[Trace], zoned: Sequence[TracedDevice]) -> Iterator[str]:
    """Compare the timeline with the notes of a modelled drive in files."""
    text = packed.text(folder / "raw" / native_source.NOTES)
    if not traces or traces[-1].problems or not text:
        return
    (device,) = zoned
    noted = native_source.NotedZones(device.name)
    transitions = noted.take(parse_notes(text))
    history = History(device.name, _seed(folder, device), device.metadata_zones)
    history.extend(noted.totals(transitions), began=0.0)
    yield from derived.series(folder, tracer.TIMELINE, _rows(history))


def _rows(history: History) -> list[tuple[float, str]]:
    """Return the timeline as times, and the other columns."""
    rows = [line.partition(",")[::2] for line in history.timeline().splitlines()[1:]]
    return [(float(t), rest) for t, rest in rows]


def _seed(folder: Path, device: TracedDevice) -> Sequence[zone_reports.Zone]:
    csv = packed.text(folder / device.file(tracer.SEED))
    return zone_reports.from_csv(csv) if csv else ()


def _taken(answers: Answers, histories: Mapping[str, History]) -> TraceTotals:
    """Add the transitions of new answers to the histories of the namespaces."""
    totals = answers.totals()
    for history in histories.values():
        history.extend(totals, began=0.0)
    return totals


def _counts(stored: Trace, again: Trace) -> Iterator[str]:
    for name in _NUMBERS:
        value, wanted = getattr(stored, name), getattr(again, name)
        if value != wanted:
            yield f"trace: a barrier has {name} {value}, raw/{OUTPUT} gives {wanted}"


def _tables(
    folder: Path,
    zoned: Sequence[TracedDevice],
    histories: Mapping[str, History],
    totals: TraceTotals,
) -> Iterator[str]:
    files = {device.name: device.file(tracer.TABLE) for device in zoned}
    if not any(packed.find(folder / file) for file in files.values()):
        return  # tracing failed after the last barrier, so no table was stored
    wanted: list[tuple[float, str]] = []
    for name, file in files.items():
        history = histories[name]
        if packed.text(folder / file) != history.table(totals):
            yield f"{file}: differs from raw/{OUTPUT}"
        wanted += _rows(history)
    # Commands of two namespaces in the same microsecond have no order.
    yield from derived.series(folder, tracer.TIMELINE, sorted(wanted, key=_device), key=_device)


def _device(row: tuple[object, str]) -> str:
    return row[1].partition(",")[0]
