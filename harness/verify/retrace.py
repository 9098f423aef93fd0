"""Compares stored traces with bpftrace's own output, for ``zonelab verify``.

The trace buffer, which replaces a missing bpftrace, leaves only counts. These cannot be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from harness.observe import zone_reports
from harness.observe.tracing import tracer
from harness.observe.tracing.bpf_answers import Answers, grouped
from harness.observe.tracing.bpf_source import OUTPUT
from harness.observe.tracing.zone_history import History, record
from harness.store import packed
from harness.store.ledger import Snapshot, Trace
from harness.tools import bpftrace
from harness.verify import derived

# Fields that come from answers; the others describe the tracing process.
_NUMBERS = ("commands", "finishes", "pad", "pad_held")


def differences(folder: Path, snapshots: Sequence[Snapshot], metadata_zones: int) -> Iterator[str]:
    """Return one line per number that differs from the answers.

    ``snapshots`` are in the order of the barriers; ``metadata_zones`` as in ``Level``.

    Raises:
        ToolFailed: an answer is damaged.
    """
    kept = [one.trace for one in snapshots if one.trace is not None and one.trace.answers]
    if not kept or kept[-1].problems:
        return
    opened = packed.opened(folder / "raw" / OUTPUT)
    if opened is None:
        yield f"raw/{OUTPUT}: is missing"
        return
    zoned, devices = snapshots[-1].zoned, kept[0].devices
    seed = packed.text(folder / tracer.SEED)
    history = History(
        zoned if zoned in devices else "",
        zone_reports.from_csv(seed) if seed else (),  # a level without a zoned device has none
        metadata_zones,
    )
    answers = Answers(devices)
    with opened as lines:
        groups = grouped(bpftrace.parse(lines))
        for stored in kept:
            for maps in islice(groups, stored.answers - answers.taken):
                answers.take(maps)
            yield from _counts(stored, _record(devices, answers, history))
        for maps in groups:
            answers.take(maps)
    _record(devices, answers, history)
    yield from _tables(folder, history, history.table(answers.totals()))


def _record(devices: Sequence[str], answers: Answers, history: History) -> Trace:
    totals = answers.totals()
    history.extend(totals, began=0.0)
    return record(devices, totals, history)


def _counts(stored: Trace, again: Trace) -> Iterator[str]:
    for name in _NUMBERS:
        value, wanted = getattr(stored, name), getattr(again, name)
        if value != wanted:
            yield f"trace: a barrier has {name} {value}, raw/{OUTPUT} gives {wanted}"


def _tables(folder: Path, history: History, table: str) -> Iterator[str]:
    if not packed.find(folder / tracer.TABLE):
        return  # tracing failed after the last barrier, so no table was stored
    if packed.text(folder / tracer.TABLE) != table:
        yield f"{tracer.TABLE}: differs from raw/{OUTPUT}"
    rows = [line.partition(",")[::2] for line in history.timeline().splitlines()[1:]]
    wanted = [(float(t), rest) for t, rest in rows]
    yield from derived.series(folder, tracer.TIMELINE, wanted)
