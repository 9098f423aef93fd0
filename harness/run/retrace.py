"""Is what was traced what bpftrace's own output says? For ``zonelab verify``.

Of the trace buffer, which serves where bpftrace is missing, nothing is kept but the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from harness.observe import tracer, zones
from harness.observe.bpf_answers import Answers, grouped
from harness.observe.bpf_trace import OUTPUT
from harness.observe.zone_trace import History, record
from harness.run import derived
from harness.store import packed
from harness.store.ledger import Snapshot, Trace
from harness.tools import bpftrace

# What answers give; the rest of a record is of the process that gave them.
_NUMBERS = ("commands", "finishes", "pad", "pad_held")


def differences(folder: Path, snapshots: Sequence[Snapshot], metadata_zones: int) -> Iterator[str]:
    """Return one line per number that the answers do not bear out.

    Args:
        folder: the run's.
        snapshots: of its barriers, in their order.
        metadata_zones: as in ``Level``.

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
        zones.from_csv(seed) if seed else (),  # a level without a zoned device has none
        metadata_zones,
    )
    answers = Answers(devices)
    with opened as lines:
        told = grouped(bpftrace.parse(lines))
        for stored in kept:
            for maps in islice(told, stored.answers - answers.taken):
                answers.take(maps)
            yield from _counts(stored, _record(devices, answers, history))
        for maps in told:
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
        return  # something went wrong behind the last barrier: nothing was made of it
    if packed.text(folder / tracer.TABLE) != table:
        yield f"{tracer.TABLE}: is not what raw/{OUTPUT} gives"
    rows = [line.partition(",")[::2] for line in history.timeline().splitlines()[1:]]
    wanted = [(float(t), rest) for t, rest in rows]
    yield from derived.series(folder, tracer.TIMELINE, wanted)
