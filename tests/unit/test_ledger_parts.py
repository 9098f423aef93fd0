"""The parts of a ledger that depend on what was counted: programs, levels, tracers and drives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.levels.level import LevelUsage
from harness.rules.facts import PhaseFacts
from harness.run import ledger
from harness.run.ledger import BarrierSnapshot
from harness.store.ledger import (
    ClosureState,
    Commands,
    LedgerEntry,
    OwnCounts,
    Requests,
    Trace,
    Witness,
)
from harness.store.media_record import ModelledMedia
from harness.store.spec import PhaseRole, PhaseSpec
from harness.workloads.load_program import BareCounts, Parsed
from tests.fixtures.barriers import OTHER, ZONED, counters
from tests.fixtures.run_facts import phase_facts


def usage(own: OwnCounts | None = None, gc: int | None = None) -> LevelUsage:
    return LevelUsage(None, None, gc, "", own=own)


def own(**changes: Any) -> OwnCounts:
    plain = OwnCounts(
        payload={"wal": 5, "gc": 3, "other": 2, "metadata": 4},
        filling={"wal": 1},
        given_up={"threshold": 7, "active_limit": 2, "metadata": 1, "import": 6},
        finishes=4,
        resets=9,
        space={"live": 70, "garbage": 20},
        metadata_zones=1,
    )
    return replace(plain, **changes)


def barrier(
    written: int = 0,
    other: int = 0,
    *,
    usage: LevelUsage = usage(),  # noqa: B008 - it is frozen
    allocated: tuple[int, ...] | None = None,
    **changes: Any,
) -> BarrierSnapshot:
    values: dict[str, Any] = {
        "written": {OTHER: other, ZONED: written},
        "read": {OTHER: 0, ZONED: 0},
    }
    return BarrierSnapshot(counters(**(values | changes)), usage, allocated)


def phase(program: str = "db_bench", **counted: Any) -> PhaseFacts:
    spec = PhaseSpec("p", "overwrite", PhaseRole.MEASURED, {}, 2, 416, False, 60, program=program)
    return phase_facts(spec, Parsed(None, 0, **counted) if counted else None, None)


def entry(
    first: BarrierSnapshot, last: BarrierSnapshot, output: PhaseFacts | None = None
) -> LedgerEntry:
    """Return the entry of the only phase."""
    found = ledger.build("zlfs", [first, first, last], [output or phase()])
    assert [one.name for one in found.entries] == ["cold", "p", "run"]
    return found.entries[1]


def names(found: LedgerEntry) -> list[tuple[str, str]]:
    return [(one.upper, one.lower) for one in found.closures]


# --- programs that count their own commands -------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "resets", "counted"),
    [
        ((5, 5, 0), (0, 0, 0), 3, 2),  # two zones held data
        ((5, 5, 5), (0, 0, 1), 3, 2),  # one still does
        ((5, 5, 5), (0, 0, 0), 1, 1),  # others were reset by somebody else
        ((0, 0, 0), (0, 0, 0), 3, 0),
        (None, (0, 0, 0), 3, 3),
        ((5, 5, 0), None, 3, 3),
        ((5, 5, 0), (0, 0, 0), 0, 0),
    ],
)
def test_a_reset_of_an_empty_zone_sends_no_command(
    before: tuple[int, ...] | None, after: tuple[int, ...] | None, resets: int, counted: int
) -> None:
    counts = BareCounts(10, 1, 0, 0, resets)
    found = ledger._program_counts(
        phase("fio", counts=counts), barrier(allocated=before), barrier(allocated=after)
    )
    assert found == replace(counts, resets=counted)
    assert ledger._program_counts(phase("fio"), barrier(), barrier()) is None


def test_counts_of_all_phases_are_added_if_every_program_counts() -> None:
    one, two = BareCounts(1, 2, 3, 4, 5), BareCounts(10, 20, 30, 40, 50)
    assert ledger._all_counts([one, two]) == BareCounts(11, 22, 33, 44, 55)
    assert ledger._all_counts([one, None]) is None
    assert ledger._all_counts([None, None]) is None


def test_a_bare_program_is_compared_with_kernel_and_driver() -> None:
    counts = BareCounts(written=10, writes=1, read=0, reads=0, resets=0)
    requests = {ZONED: Requests(0, 0, 1, 0)}
    traces = [
        Trace((ZONED,), (Commands(ZONED, "write", 0, n, 10 * n),), 0, {}, 0, (), None, 1)
        for n in (0, 1)
    ]
    first = barrier(trace=traces[0], requests={ZONED: Requests(0, 0, 0, 0)})
    last = barrier(10, trace=traces[1], requests=requests)
    found = ledger.build("raw-device", [first, first, last], [phase("fio", counts=counts)])
    for one in found.entries[1:]:
        assert [name for name in names(one) if name[0].startswith(("fio", "kernel w"))] == [
            ("fio", "kernel"),
            ("fio reads", "kernel reads"),
            ("fio write commands", "kernel write requests"),
            ("fio read commands", "kernel read requests"),
            ("kernel write requests", "driver write commands"),
            ("fio resets", "driver resets"),
        ]
    assert ("fio", "kernel") not in names(found.entries[0])


@pytest.mark.parametrize(
    ("program", "counted", "above"),
    [
        ("db_bench", own(), ["user", "RocksDB WAL", "RocksDB flush", "RocksDB compaction"]),
        ("db_bench", None, ["user"]),
        ("zoneprobe", own(), []),
        ("zoneprobe", None, []),
    ],
)
def test_only_databases_are_compared_above_the_level(
    program: str, counted: OwnCounts | None, above: list[str]
) -> None:
    found = entry(barrier(usage=usage(counted)), barrier(usage=usage(counted)), phase(program))
    upper = [name for name, lower in names(found) if lower != "kernel" and "space" not in name]
    assert upper[: len(above)] == above
    assert ("RocksDB WAL" in upper) is (program == "db_bench" and counted is not None)
    assert ("user" in upper) is (program == "db_bench")


# --- levels ---------------------------------------------------------------------------------------


def test_a_levels_own_counts_are_deltas_by_cause() -> None:
    later = own(
        payload={"wal": 50, "gc": 33, "other": 12, "metadata": 24},
        filling={"wal": 11, "flush": 5},
        given_up={"threshold": 17, "active_limit": 2, "metadata": 3, "import": 6},
        finishes=6,
        finishes_by={"active_limit": 1, "threshold": 1},
        resets=19,
    )
    found = entry(barrier(usage=usage(own())), barrier(134, usage=usage(later)))
    assert (found.gc, found.other, found.overhead) == (30, 10, 20 + 10 + 5)
    assert found.pad == {"threshold": 10, "active-limit": 0, "metadata-roll": 2, "explicit": 0}
    assert found.finishes == {"active-limit": 1, "threshold": 1}
    assert found.space == {"live": 70, "garbage": 20}
    assert found.media == {ZONED: 134 + 12}
    assert found.media_source == "modelled: H + P"
    (kernel,) = (one for one in found.closures if one.upper == "zlfs")
    assert (kernel.above, kernel.state) == (45 + 30 + 10 + 20 + 10 + 5, ClosureState.BROKEN)


def test_a_level_that_had_not_counted_begins_at_zero() -> None:
    found = entry(barrier(), barrier(15, usage=usage(own())))
    assert (found.gc, found.other, found.overhead) == (3, 2, 5)
    assert found.finishes is None  # no causes were counted
    assert ledger._counted(barrier(), barrier(usage=usage(own()))) == own()
    gone = entry(barrier(usage=usage(own())), barrier(15))
    assert (gone.gc, gone.other, gone.overhead, gone.pad) == (None, None, None, None)


@pytest.mark.parametrize(
    ("counted", "allocated", "state"),
    [
        (own(), (4, 50, 40), ClosureState.EXACT),  # without the metadata zone
        (own(), (0, 50, 41), ClosureState.BROKEN),
        (own(), None, None),
        (None, (4, 50, 40), None),
    ],
)
def test_the_zones_hold_the_bytes_that_the_level_counts(
    counted: OwnCounts | None, allocated: tuple[int, ...] | None, state: ClosureState | None
) -> None:
    last = barrier(usage=usage(counted), allocated=allocated)
    found = [one for one in entry(barrier(), last).closures if one.lower == "zone report"]
    assert [one.state for one in found] == ([state] if state else [])


@pytest.mark.parametrize(("before", "after", "gc"), [(3, 10, 7), (None, 10, None), (3, None, None)])
def test_gc_of_a_level_that_counts_only_that(
    before: int | None, after: int | None, gc: int | None
) -> None:
    found = entry(barrier(usage=usage(gc=before)), barrier(9, usage=usage(gc=after)))
    assert found.gc == gc


# --- tracer and drives ----------------------------------------------------------------------------


def traced(pad: int, held: int = 0, problems: tuple[str, ...] = (), device: str = ZONED) -> Trace:
    return Trace((device,), (), 0, {"unknown": pad}, held, problems, None, 1)


@pytest.mark.parametrize(
    ("counted", "trace", "pad", "source"),
    [
        (None, traced(50), {"unknown": 40}, "modelled: H + P, P by the tracer"),
        (None, traced(50, problems=("lost",)), None, ""),
        (None, traced(50, device=OTHER), None, ""),  # no traced zoned device
        (None, None, None, ""),
        (own(given_up={"threshold": 7}), traced(50), {"threshold": 7}, "modelled: H + P"),
    ],
)
def test_the_source_of_pad(
    counted: OwnCounts | None, trace: Trace | None, pad: dict[str, int] | None, source: str
) -> None:
    found = entry(barrier(trace=traced(10)), barrier(100, usage=usage(counted), trace=trace))
    assert (found.pad, found.media_source) == (pad, source)
    assert found.media == {ZONED: None if pad is None else 100 + sum(pad.values())}


@pytest.mark.parametrize(
    ("allocated", "trace", "live", "space"),
    [
        ((70, 30), traced(50, 15), 60, {"live": 60, "garbage": 25, "pad": 15}),
        ((70, 30), traced(50, 15), 85, {"live": 85, "garbage": 0, "pad": 15}),
        ((70, 30), traced(50, 15), 86, {"pad": 15}),  # some live bytes are elsewhere
        (None, traced(50, 15), 60, {}),
        ((70, 30), None, 60, {}),
        ((70, 30), traced(50, 15, ("lost",)), 60, {}),
    ],
)
def test_what_zones_hold_on_a_level_that_does_not_count(
    allocated: tuple[int, ...] | None, trace: Trace | None, live: int, space: dict[str, int]
) -> None:
    last = barrier(allocated=allocated, trace=trace, cold_bytes=20, database_bytes=live - 20)
    found = entry(barrier(trace=traced(0)), last)
    assert (found.space, found.live) == (space, live)


@pytest.mark.parametrize(
    ("source", "shown"),
    [("OCP", "measured: OCP"), ("modelled: zn540", "modelled: zn540")],
)
def test_media_that_drives_count(source: str, shown: str) -> None:
    first, last = (
        barrier(written, media=Witness(source, 0, {"d": count}, {"d": (ZONED,)}))
        for written, count in ((0, 5), (100, 155))
    )
    found = entry(first, last)
    assert (found.media, found.media_source) == ({"d": 150}, shown)


def test_bytes_since_the_level_came_up_and_of_all_devices() -> None:
    up, cold, first, last = (
        barrier(written, other, conventional=OTHER)
        for written, other in ((5, 1), (15, 2), (115, 4), (1115, 8))
    )
    found = ledger.build("f2fs", [up, cold, first, last], [phase(), phase()])
    assert [one.submitted for one in found.entries] == [
        {ZONED: 10, OTHER: 1},
        {ZONED: 100, OTHER: 2},
        {ZONED: 1000, OTHER: 4},
        {ZONED: 1100, OTHER: 6},
    ]
    assert [one.since_up for one in found.entries] == [11, 113, 1117, 1117]
    assert [one.upper for one in found.entries[0].closures if one.lower == "kernel"] == [
        "cold data"
    ]
    assert [one.upper for one in found.entries[1].closures if one.lower == "kernel"] == ["RocksDB"]
    assert [one.name for one in ledger.build("f2fs", [up, cold], []).entries] == ["cold"]


def test_reads_of_barrier_tools_are_no_reads_of_a_phase() -> None:
    first = barrier(read={OTHER: 0, ZONED: 100}, tools_read={ZONED: 30})
    last = barrier(read={OTHER: 0, ZONED: 500}, tools_read={ZONED: 90})
    assert entry(first, last).read == {ZONED: 340}


MODELLED = ModelledMedia("zn540", "", 0, 0, 0)


@pytest.mark.parametrize(
    ("zoned", "trace", "programmed", "media", "source"),
    [
        (ZONED, traced(50), 700, {ZONED: 140, OTHER: 700}, "{} + zn540"),
        (ZONED, None, 700, {ZONED: None, OTHER: 700}, ""),
        ("", None, 700, {OTHER: 700}, "modelled: zn540"),
        ("", None, None, {OTHER: None}, "lost"),
        (ZONED, traced(50), None, {ZONED: 140, OTHER: None}, "lost"),
    ],
)
def test_media_of_a_modelled_conventional_drive(
    zoned: str,
    trace: Trace | None,
    programmed: int | None,
    media: dict[str, int | None],
    source: str,
) -> None:
    def at(written: int, other: int, last: ModelledMedia, trace: Trace | None) -> BarrierSnapshot:
        one = barrier(written, other, zoned=zoned, conventional=OTHER, trace=trace)
        return replace(one, modelled=last)

    done = replace(MODELLED, recorded=9, programmed=programmed, problem="lost")
    found = entry(at(0, 0, MODELLED, traced(10)), at(100, 9, done, trace))
    assert found.media == media
    assert found.media_source == source.format("modelled: H + P, P by the tracer")


def test_media_that_a_drive_counts_are_not_modelled_again() -> None:
    first, last = (
        replace(
            barrier(
                written,
                media=Witness("OCP", 0, {"d": count}, {"d": (ZONED,)}),
                conventional=OTHER,
            ),
            modelled=replace(MODELLED, programmed=count, recorded=0),
        )
        for written, count in ((0, 5), (100, 155))
    )
    found = entry(first, last)
    assert (found.media, found.media_source) == ({"d": 150}, "measured: OCP")


@pytest.mark.parametrize(
    ("witness", "note", "shown"),
    [(Witness("QEMU", 0, {}, {}), "", "QEMU"), (None, "no answer", "no answer")],
)
def test_the_witness_or_why_there_is_none(witness: Witness | None, note: str, shown: str) -> None:
    found = entry(barrier(), barrier(witness=witness, witness_note=note))
    assert (found.witness, found.witness_failed) == (shown, bool(note))
