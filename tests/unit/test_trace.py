"""What was traced on a rig, both ways at once, and what must come out of it.

The captures (fixtures/trace/README.md) are of one sequence of commands to a namespace of zones of
8 MiB that hold 4; zone 7 held 64 KiB before. Two snapshots: behind the sequence, and behind a reset
of all zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HostError, ToolFailed
from harness.observe import bpf_trace, tracefs_trace
from harness.observe.bpf_trace import Maps
from harness.observe.trace_program import Watched, program
from harness.observe.tracer import Snapshot, Tracer
from harness.observe.zone_trace import Totals, Traced
from harness.observe.zones import Zone, ZoneCondition, ZoneType
from harness.tools import bpftrace
from harness.tools.bpftrace import Map, Printed

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trace"
KIB, MIB = 1 << 10, 1 << 20
NAME = "nvme0n3"
DEVICE = Watched(NAME, (NAME,), 3, 4096, 8 * MIB, 4 * MIB)
# (device, command, status): what the sequence in the README sends.
SENT = {"write": 34, "finish": 3, "reset": 1, "open": 1, "close": 1, "flush": 3}
REFUSED = 6  # writes to a fifteenth zone and on
WRITTEN = 10 * 128 * KIB + 4 * MIB + 16 * KIB + 12 * 4 * KIB


def zone(number: int, written: int) -> Zone:
    condition = ZoneCondition.CLOSED if written else ZoneCondition.EMPTY
    start = number * 8 * MIB
    return Zone(start, 8 * MIB, 4 * MIB, start + written, condition, ZoneType.SEQUENTIAL_REQUIRED)


SEED = [zone(number, 64 * KIB if number == 7 else 0) for number in range(384)]


class Replay:
    """A source that answers what was captured."""

    name = "replay"

    def __init__(self, answers: Sequence[Totals]) -> None:
        self._answers = iter(answers)

    def wait(self) -> None:
        pass

    def tick(self) -> None:
        pass

    def snapshot(self) -> Totals:
        return next(self._answers)

    def stop(self) -> None:
        pass


def from_bpftrace() -> list[Totals]:
    """The captured answers of bpftrace: the first is that of an idle device."""
    found, maps = [], Maps()
    for record in bpftrace.parse((FIXTURES / "trace.jsonl").read_text().splitlines()):
        if isinstance(record, Map):
            maps[record.name] = record.values
        elif record == Printed("snapshot"):
            maps = Maps()
        elif record == Printed("end"):
            new = tuple(bpf_trace.transitions(maps, [NAME]))
            found.append(replace(bpf_trace.totals(maps, [NAME]), transitions=new))
    return found[:3]


@pytest.fixture
def tracefs(tmp_path: Path) -> Path:
    """A synthetic tracefs, whose pipe can be filled."""
    instance = tmp_path / "instances" / "zonelab"
    for event in ("nvme_setup_cmd", "nvme_complete_rq"):
        (instance / "events" / "nvme" / event).mkdir(parents=True)
    (instance / "trace_pipe").touch()
    (instance / "per_cpu" / "cpu0").mkdir(parents=True)
    (instance / "per_cpu/cpu0/stats").write_text("entries: 0\noverrun: 0\ndropped events: 0\n")
    return tmp_path


def from_tracefs(tracing: Path) -> list[Totals]:
    source = tracefs_trace.TracefsTrace([DEVICE], tracing)
    found = [source.snapshot()]
    lines = (FIXTURES / "trace_pipe.txt").read_text().splitlines(keepends=True)
    # The reset of all zones came behind the second snapshot, an append behind the third.
    last = next(i for i, line in enumerate(lines) if "all=1" in line)
    for part in (lines[:last], lines[last : last + 1]):
        for line in part:
            source.take(line)
        found.append(source.snapshot())
    return found


def snapshots(answers: Sequence[Totals]) -> tuple[Tracer, list[Snapshot]]:
    tracer = Tracer(
        Replay(answers), zoned=NAME, conventional=None, report=lambda: SEED, metadata_zones=0,
        began=0.0,
    )  # fmt: skip
    return tracer, [tracer.snapshot() for _ in answers[:3]]


def check(traced: Traced) -> None:
    for command, count in SENT.items():
        assert traced.done(NAME, command) == count, command
    assert traced.written(NAME) == WRITTEN
    assert traced.submitted(NAME) == WRITTEN + REFUSED * 4 * KIB
    assert traced.attempted(NAME) == 34 + REFUSED + 3 + 1 + 1 + 1
    # Zone 0 gave up all but 1280 KiB, once, and zone 7 all but 68 KiB.
    assert traced.finishes == 2
    assert traced.unwritten == (4 * MIB - 1280 * KIB) + (4 * MIB - 68 * KIB)
    assert traced.problems == ()


def test_what_bpftrace_counted() -> None:
    tracer, (idle, behind, reset) = snapshots(from_bpftrace())
    check(tracer.between(idle, behind))
    later = tracer.between(behind, reset)
    assert later.done(NAME, "reset-all") == 1
    assert later.written(NAME) == later.unwritten == 0


def test_what_the_trace_buffer_showed(tracefs: Path) -> None:
    tracer, (idle, behind, reset) = snapshots(from_tracefs(tracefs))
    check(tracer.between(idle, behind))
    assert tracer.between(behind, reset).done(NAME, "reset-all") == 1


def test_both_ways_tell_the_same_of_each_zone(tracefs: Path) -> None:
    one, other = from_bpftrace()[-1], from_tracefs(tracefs)[-1]
    assert one.zones == other.zones
    tables: list[dict[str, str]] = []
    for answers in (from_bpftrace(), from_tracefs(tracefs)):
        tracer, _ = snapshots([*answers, replace(answers[-1], transitions=())])
        tables.append({})
        tracer.stop(tables[-1].__setitem__)
    assert tables[0]["raw/zones_traced.csv"] == tables[1]["raw/zones_traced.csv"]
    rows = [table["series/zone_commands.csv"].splitlines() for table in tables]
    # Times differ, as one saw completions and the other submissions; latencies are bpftrace's.
    kept = [[row.split(",")[2:4] + row.split(",")[5:] for row in half] for half in rows]
    assert kept[0] == kept[1]
    finish = next(row for row in rows[0] if ",finish," in row).split(",")
    assert float(finish[4]) > 0


def test_an_append_is_counted() -> None:
    """By pass-through, so that the kernel's own statistics have nothing of it."""
    records = bpftrace.parse((FIXTURES / "trace.jsonl").read_text().splitlines())
    written = [r.values for r in records if isinstance(r, Map) and r.name == "@bytes"][-1]
    assert written[1, 0x7D, 0] == 2 * 4096


def test_a_loss_in_the_trace_buffer_is_a_problem(tracefs: Path) -> None:
    source = tracefs_trace.TracefsTrace([DEVICE], tracefs)
    assert source.snapshot().problems == ()
    source.take("CPU:1 [LOST 12 EVENTS]")
    (tracefs / "instances/zonelab/per_cpu/cpu0/stats").write_text("overrun: 3\n")
    assert source.snapshot().problems == ("the trace buffer lost 15 events",)


def test_a_line_that_cannot_be_read_is_a_problem(tracefs: Path) -> None:
    source = tracefs_trace.TracefsTrace([DEVICE], tracefs)
    source.take("something else")
    (problem,) = source.snapshot().problems
    assert "something else" in problem


def test_other_drivers_need_bpftrace(tracefs: Path) -> None:
    with pytest.raises(HostError, match="only NVMe"):
        tracefs_trace.TracefsTrace([replace(DEVICE, nsid=0)], tracefs)


def test_a_zone_full_before_tracing_has_no_known_bytes() -> None:
    idle, behind, _ = from_bpftrace()
    full = [replace(one, condition=ZoneCondition.FULL) for one in SEED]
    tracer = Tracer(
        Replay([idle, behind]), zoned=NAME, conventional=None, report=lambda: full,
        metadata_zones=0, began=0.0,
    )  # fmt: skip
    first, second = tracer.snapshot(), tracer.snapshot()
    # Only zone 0 was reset, and it was not finished after that.
    assert tracer.between(first, second).unwritten == 0


def test_metadata_zones_are_no_finishes() -> None:
    answers = from_bpftrace()
    tracer = Tracer(
        Replay(answers), zoned=NAME, conventional=None, report=lambda: SEED, metadata_zones=3,
        began=0.0,
    )  # fmt: skip
    first, second = tracer.snapshot(), tracer.snapshot()
    traced = tracer.between(first, second)
    assert (traced.finishes, traced.unwritten) == (1, 4 * MIB - 68 * KIB)
    assert traced.done(NAME, "finish") == 3


def test_output_that_is_not_bpftraces() -> None:
    assert bpftrace.parse(['{"type": "lost_events", "data": {"events": 4}}']) == [bpftrace.Lost(4)]
    for line in ("Attaching 4 probes...", '{"type": "map", "data": {"@a": {"x": 1}}}'):
        with pytest.raises(ToolFailed, match="bpftrace printed"):
            bpftrace.parse([line])
    with pytest.raises(ToolFailed, match="@changes"):
        bpf_trace.transitions({"@changes": {(1, 2, 3): [1]}}, [NAME])


def test_the_program_names_each_device_once_per_copy() -> None:
    other = Watched("nullb0", ("nullb0",), 0, 512, 8 * MIB, 4 * MIB)
    path = Watched("nvme1n1", ("nvme1c1n1", "nvme1c2n1"), 1, 512, 0, 0)
    text = program([DEVICE, other, path])
    assert text.count('== "nvme0n3") { $device = (uint64)1; $shift = (uint64)11;') == 2
    assert text.count('== "nullb0") { $device = (uint64)2; $shift = (uint64)14;') == 2
    assert text.count('== "nvme1c1n1"') == text.count('== "nvme1c2n1"') == 2
    for probe in ("nvme_setup_cmd", "block_rq_issue", "block_rq_complete"):
        assert text.count(f"rawtracepoint:{probe}\n") == 2
    assert "block_rq_issue" not in program([DEVICE])
    assert "nvme_setup_cmd" not in program([other])
