"""Each closure at its edges: bounds, deltas between barriers, and counts that are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.rules.facts import PhaseFacts
from harness.run import closures
from harness.store.ledger import (
    ClosureState,
    Commands,
    OwnCounts,
    Requests,
    Snapshot,
    Trace,
    Witness,
)
from harness.store.spec import PhaseRole, PhaseSpec
from harness.tools.db_bench import BenchmarkSummary
from harness.tools.rocksdb_log import CAUSES, Log, TableBytes
from harness.tools.rocksdb_stats import Statistics
from harness.workloads.load_program import BareCounts, Parsed
from tests.fixtures.barriers import OTHER, ZONED, counters
from tests.fixtures.run_facts import phase_facts

EXACT, BROKEN, UNKNOWN = ClosureState.EXACT, ClosureState.BROKEN, ClosureState.UNKNOWN


def output(
    *, operations: int | None = 2, wal: int | None = 1000, tables: bool = True, **flags: Any
) -> PhaseFacts:
    """Return a phase of 416 B an operation, by default with keys of 16 B."""
    spec = PhaseSpec("p", "overwrite", PhaseRole.MEASURED, flags, operations, 416, False, 60)
    summary = None
    if operations is not None:
        summary = BenchmarkSummary("overwrite", 1.0, 1, 1.0, operations, None)
    tickers = {} if wal is None else {"rocksdb.wal.bytes": wal, "rocksdb.write.wal": 2}
    parsed = Parsed(summary, 1, statistics=Statistics(tickers, {}), user_bytes=832)
    log = Log(TableBytes(300, 500), dict.fromkeys(CAUSES, 0), ()) if tables else None
    return phase_facts(spec, parsed, log)


# --- above the level ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "low", "high"),
    [
        # A key of 16 B has a length of 1 B, a value of 400 B one of 2 B.
        (output(), 864, 864),
        (output(key_size=300), 864, 864),  # 2 B and 1 B
        (output(key_size=200), 866, 866),  # 2 B and 2 B
        (output(threads=2), 852, 864),  # two batches in one
        (output(operations=1, threads=2), 848, 848),
    ],
)
def test_the_bytes_of_batches_in_the_wal(phase: PhaseFacts, low: int, high: int) -> None:
    found = closures.user_to_wal(phase)
    assert (found.low, found.high, found.above, found.below) == (low, high, 832, 1000)


@pytest.mark.parametrize(
    "phase",
    [
        output(wal=None),
        output(wal=0),
        output(operations=None),
        output(value_size_distribution_type="normal"),
        output(user_timestamp_size=8),
        phase_facts(output().spec, None, None),
    ],
)
def test_batches_of_unknown_size_or_number_are_not_compared(phase: PhaseFacts) -> None:
    assert closures.user_to_wal(phase).state is UNKNOWN


def test_a_ticker_of_a_phase_that_did_not_finish_is_no_count() -> None:
    assert output().ticker("rocksdb.wal.bytes") == 1000
    assert output(operations=None).ticker("rocksdb.wal.bytes") is None


def test_rocksdb_writes_the_wal_and_the_tables() -> None:
    assert output().written == 1000 + 300 + 500
    assert output(wal=None).written is None
    assert output(tables=False).written is None


def test_the_length_of_a_value_depends_on_the_key() -> None:
    """Without the flag a key has 16 B, so a value of 128 B has a length of 2 B."""
    spec = replace(output().spec, user_bytes_per_operation=144)
    found = closures.user_to_wal(replace(output(), spec=spec))
    assert found.high == 832 + 2 * (12 + 1 + 3)


def test_a_phase_without_tickers_has_no_bytes_of_the_wal() -> None:
    phase = output()
    assert phase.parsed is not None
    silent = replace(phase, parsed=replace(phase.parsed, statistics=None))
    assert (silent.operations, silent.wal) == (2, None)
    bytes_only = Statistics({"rocksdb.wal.bytes": 1000}, {})
    old = replace(phase, parsed=replace(phase.parsed, statistics=bytes_only))
    wal, *_ = closures.rocksdb_to_level(old, "zlfs", PAYLOAD)
    assert (wal.state, wal.above, wal.below) == (UNKNOWN, 1000, 1014)


PAYLOAD = {"wal": 1014, "flush": 300, "compaction": 500}


@pytest.mark.parametrize(
    ("phase", "changes", "states"),
    [
        (output(), {}, [EXACT, EXACT, EXACT]),
        (output(), {"flush": 301}, [EXACT, BROKEN, EXACT]),
        (output(), {"compaction": 499}, [EXACT, EXACT, BROKEN]),
        (output(), {"flush": None}, [EXACT, UNKNOWN, EXACT]),
        (output(), {"compaction": None}, [EXACT, EXACT, UNKNOWN]),
        (output(tables=False), {}, [EXACT, UNKNOWN, UNKNOWN]),
        # A record of the WAL has a header of 7 B.
        (output(), {"wal": 1013}, [BROKEN, EXACT, EXACT]),
        (output(), {"wal": 1015}, [BROKEN, EXACT, EXACT]),
        (output(threads=2), {"wal": 1000}, [EXACT, EXACT, EXACT]),
        (output(threads=2), {"wal": 999}, [BROKEN, EXACT, EXACT]),
        (output(threads=2), {"wal": 1015}, [BROKEN, EXACT, EXACT]),
        (output(), {"wal": None}, [UNKNOWN, EXACT, EXACT]),
        (output(wal=None), {}, [UNKNOWN, EXACT, EXACT]),
        (output(recycle_log_file_num=1), {}, [UNKNOWN, EXACT, EXACT]),
        # Each further block of 32 KiB has up to 13 B more.
        (output(wal=32768), {"wal": 32768 + 14 + 13}, [EXACT, EXACT, EXACT]),
        (output(wal=32768), {"wal": 32768 + 14 + 14}, [BROKEN, EXACT, EXACT]),
        (output(wal=32700), {"wal": 32767}, [BROKEN, EXACT, EXACT]),
    ],
)
def test_rocksdb_to_level(
    phase: PhaseFacts, changes: dict[str, int | None], states: list[ClosureState]
) -> None:
    payload = {name: count for name, count in (PAYLOAD | changes).items() if count is not None}
    found = closures.rocksdb_to_level(phase, "zlfs", payload)
    assert [one.upper for one in found] == [f"RocksDB {w}" for w in ("WAL", "flush", "compaction")]
    assert [one.state for one in found] == states


@pytest.mark.parametrize(
    ("above", "gc", "state", "left"),
    [
        (990, None, ClosureState.EXPLAINED, 10),  # 1 % of what is below
        (989, None, ClosureState.UNEXPLAINED, 11),
        (1010, None, ClosureState.EXPLAINED, -10),
        (1011, None, ClosureState.UNEXPLAINED, -11),
        (700, 290, ClosureState.EXPLAINED, 10),
        (700, 0, ClosureState.UNEXPLAINED, 300),
        (1000, None, ClosureState.EXPLAINED, 0),
        (None, 5, UNKNOWN, None),
    ],
)
def test_a_layer_that_hides_its_work(
    above: int | None, gc: int | None, state: ClosureState, left: int | None
) -> None:
    found = closures.hidden("RocksDB", "kernel", above, 1000, gc=gc)
    assert (found.state, found.unexplained) == (state, left)
    assert found.explained == ({} if gc is None or above is None else {"gc": gc})
    assert bool(found.note) is (left is not None and left < 0)


# --- between barriers -----------------------------------------------------------------------------


def witness(accepted: int, read: int | None = None, covers: tuple[str, ...] = (ZONED,)) -> Witness:
    return Witness("QEMU", 0, {"q": accepted}, {"q": covers}, {} if read is None else {"q": read})


def trace(
    *, problems: tuple[str, ...] = (), device: str = ZONED, pad: int = 0, **done: int
) -> Trace:
    """Return a record of the tracer: numbers of commands, of which each write has 10 B."""
    commands = tuple(
        Commands(device, name.replace("_", "-"), 0, count, 10 * count if name == "write" else 0)
        for name, count in done.items()
    )
    return Trace((device,), commands, 0, {"unknown": pad}, 0, problems, None, 1)


def snapshot(
    written: int | dict[str, int] = 0, read: int | dict[str, int] = 0, **changes: Any
) -> Snapshot:
    """Return a barrier; a number is of the zoned device."""
    return counters(
        written={OTHER: 7, ZONED: written} if isinstance(written, int) else written,
        read={OTHER: 3, ZONED: read} if isinstance(read, int) else read,
        **changes,
    )


@pytest.mark.parametrize(
    ("first", "last", "gained"),
    [
        (witness(100), witness(130), {"q": 30}),
        (None, witness(130), {}),
        (witness(100), None, {}),
        (witness(100), witness(130, covers=(ZONED, OTHER)), {}),
    ],
)
def test_bytes_are_gained_between_two_counts_of_the_same(
    first: Witness | None, last: Witness | None, gained: dict[str, int]
) -> None:
    assert closures.accepted(snapshot(witness=first), snapshot(witness=last)) == gained
    assert closures.media(snapshot(media=first), snapshot(media=last)) == gained


def test_one_write_to_another_namespace_makes_media_bytes_unknown() -> None:
    every = ("a", "b", ZONED)
    first, last = (
        snapshot(written={"a": 1, "b": b, ZONED: 9}, media=witness(5, covers=every)) for b in (1, 2)
    )
    assert closures.media(first, last) == {}
    assert closures.media(first, first) == {"q": 0}


def test_a_barrier_without_a_count_can_lack_other_namespaces() -> None:
    every = (OTHER, ZONED)
    first = snapshot({ZONED: 1}, {ZONED: 1}, witness=witness(1, 1))
    last = snapshot({OTHER: 5, ZONED: 9}, {OTHER: 5, ZONED: 9}, media=witness(5, covers=every))
    assert closures.media(first, last) == {}
    last = snapshot({OTHER: 5, ZONED: 9}, {OTHER: 5, ZONED: 9}, witness=witness(5, 5, every))
    assert closures.reads_to_device(first, last) == []
    assert [one.state for one in closures.kernel_to_device(first, last)] == [UNKNOWN]


OWN = OwnCounts({}, {}, {"threshold": 30}, 2, 7, {}, 0)


@pytest.mark.parametrize(
    ("own", "last", "found"),
    [
        (OWN, trace(finish=3, reset=5, reset_all=3, pad=31), [EXACT, EXACT, EXACT]),
        (OWN, trace(finish=4, reset=8, pad=31), [BROKEN, EXACT, EXACT]),
        (OWN, trace(finish=3, reset=9, pad=31), [EXACT, BROKEN, EXACT]),
        (OWN, trace(finish=3, reset=8, pad=30), [EXACT, EXACT, BROKEN]),
        (None, trace(finish=3, reset=8, pad=31), []),
        (OWN, None, []),
        (OWN, trace(finish=3, reset=8, pad=31, problems=("lost",)), []),
        (OWN, trace(device=OTHER), []),
    ],
)
def test_level_to_driver(
    own: OwnCounts | None, last: Trace | None, found: list[ClosureState]
) -> None:
    first = snapshot(trace=trace(finish=1, reset=1, pad=1))
    lines = closures.level_to_driver("zlfs", own, first, snapshot(trace=last))
    assert [one.state for one in lines] == found
    assert [one.unit for one in lines] == ["1", "1", "B"][: len(found)]


def requests(reads: int, reads_merged: int, writes: int, writes_merged: int) -> dict[str, Requests]:
    return {ZONED: Requests(reads, reads_merged, writes, writes_merged)}


COUNTS = BareCounts(written=100, writes=9, read=40, reads=4, resets=1)


@pytest.mark.parametrize(
    ("changes", "states"),
    [
        ({}, [EXACT] * 4),
        ({"written": 151}, [BROKEN, EXACT, EXACT, EXACT]),
        ({"read": 61}, [EXACT, BROKEN, EXACT, EXACT]),
        ({"tools_read": {ZONED: 9}}, [EXACT, BROKEN, EXACT, EXACT]),
        ({"requests": requests(105, 50, 1010, 60)}, [EXACT, EXACT, EXACT, BROKEN]),
        ({"requests": requests(104, 51, 1010, 60)}, [EXACT, EXACT, EXACT, BROKEN]),
        ({"requests": requests(102, 52, 1007, 63)}, [EXACT] * 4),  # the kernel merged some
        ({"requests": requests(104, 50, 1011, 60)}, [EXACT, EXACT, BROKEN, EXACT]),
    ],
)
def test_program_to_kernel(changes: dict[str, Any], states: list[ClosureState]) -> None:
    first = snapshot(50, 20, requests=requests(100, 50, 1000, 60), tools_read={ZONED: 5})
    last: dict[str, Any] = {"written": 150, "read": 60, "tools_read": {ZONED: 5}} | changes
    last = {"requests": requests(104, 50, 1010, 60)} | last
    found = closures.program_to_kernel("fio", COUNTS, first, snapshot(**last))
    assert [one.state for one in found] == states
    assert [one.unit for one in found] == ["B", "B", "1", "1"]


def test_merged_commands_explain_the_difference() -> None:
    first, last = snapshot(requests=requests(0, 0, 0, 0)), snapshot(requests=requests(4, 0, 8, 2))
    *_, write, read = closures.program_to_kernel("fio", COUNTS, first, last)
    assert (write.above, write.below, write.low, write.high) == (10, 8, 8, 8)
    assert (write.explained, read.explained) == ({"merged": -2}, {})


@pytest.mark.parametrize(
    ("last", "states"),
    [
        (trace(write=9, reset=2), [EXACT, EXACT]),
        (trace(write=8, reset=2), [BROKEN, EXACT]),
        (trace(write=8, reset=3), [EXACT, BROKEN]),
        (trace(write=9, reset=2, problems=("lost",)), []),
        (None, []),
    ],
)
def test_commands_to_driver(last: Trace | None, states: list[ClosureState]) -> None:
    first = snapshot(trace=trace(write=0, reset=1), requests=requests(0, 0, 10, 0))
    after = snapshot(trace=last, requests=requests(0, 0, 20, 0))
    found = closures.commands_to_driver("fio", COUNTS, first, after)
    assert [one.state for one in found] == states
    assert {one.unit for one in found} <= {"1"}


@pytest.mark.parametrize(
    ("first", "last", "states"),
    [
        ({}, {}, [EXACT]),
        ({}, {"read": 61}, [BROKEN]),
        ({}, {"settled": False}, []),
        ({"settled": False}, {}, []),
        ({}, {"witness": None}, []),
        ({"witness": None}, {}, []),
        ({"witness": witness(0)}, {}, []),  # it did not count reads then
        # The tools of barriers count on both sides.
        ({"tools_read": {ZONED: 1}}, {"tools_read": {ZONED: 9}}, [EXACT]),
    ],
)
def test_reads_to_device(
    first: dict[str, Any], last: dict[str, Any], states: list[ClosureState]
) -> None:
    first = {"read": 20, "witness": witness(0, 1020)} | first
    last = {"read": 60, "witness": witness(0, 1060)} | last
    before, after = snapshot(**first), snapshot(**last)
    assert [one.state for one in closures.reads_to_device(before, after)] == states


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        ("", "", "nobody counts behind the kernel"),
        ("was busy", "", "was busy"),
        ("", "is gone", "is gone"),
        ("was busy", "is gone", "is gone"),
    ],
)
def test_a_missing_count_of_the_device_has_a_reason(before: str, after: str, note: str) -> None:
    first, last = snapshot(witness_note=before), snapshot(witness_note=after)
    (found,) = closures.kernel_to_device(first, last)
    assert (found.state, found.note) == (UNKNOWN, note)


@pytest.mark.parametrize(("other", "state", "carried"), [(0, EXACT, 70), (5, BROKEN, 105)])
def test_zeroes_explain_a_drive_of_which_every_written_disk_is_traced(
    other: int, state: ClosureState, carried: int
) -> None:
    """Another disk of the drive may have got zeroes that nobody counted."""
    zeroes = Commands(ZONED, "write-zeroes", 0, 1, 30)
    traces = [Trace((ZONED,), done, 0, {}, 0, (), None, 1) for done in ((), (zeroes,))]
    both = (ZONED, OTHER)
    first = snapshot({ZONED: 0, OTHER: 0}, witness=witness(0, covers=both), trace=traces[0])
    last = snapshot({ZONED: 100, OTHER: other}, witness=witness(70, covers=both), trace=traces[1])
    (found,) = closures.kernel_to_device(first, last)
    assert (found.state, found.above) == (state, 100 + other)
    room = int((100 + other) * 0.01)
    assert (found.low, found.high) == (carried - room, carried + room)


def test_zeroes_of_both_devices_of_a_drive_are_added() -> None:
    kinds = [Commands(name, "write-zeroes", 0, 1, 30) for name in (ZONED, OTHER)]
    both = (ZONED, OTHER)
    first, last = (
        snapshot(
            {ZONED: written, OTHER: written},
            conventional=OTHER,
            witness=witness(2 * written - zeroes, covers=both),
            trace=Trace(both, done, 0, {}, 0, (), None, 1),
        )
        for written, zeroes, done in ((0, 0, ()), (100, 60, tuple(kinds)))
    )
    (found,) = closures.kernel_to_device(first, last)
    assert (found.state, found.explained) == (EXACT, {"Write Zeroes": -60})


def test_requests_of_both_devices_are_added() -> None:
    both = {ZONED: Requests(1, 2, 3, 4), OTHER: Requests(10, 20, 30, 40)}
    first = snapshot(conventional=OTHER, requests=dict.fromkeys(both, Requests(1, 1, 1, 1)))
    last = snapshot(conventional=OTHER, requests=both)
    found = closures.program_to_kernel("fio", COUNTS, first, last)
    assert [one.below for one in found[2:]] == [31, 9]
