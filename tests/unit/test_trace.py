"""What was traced on a rig, both ways at once, and what must come out of it.

The captures (fixtures/trace/README.md) are of one sequence of commands to a namespace of zones of
8 MiB that hold 4; zone 7 held 64 KiB before. Two snapshots: behind the sequence, and behind a reset
of all zones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HostError, ToolFailed
from harness.observe.tracing import tracefs_source
from harness.observe.tracing.bpf_answers import Answers, Maps, grouped
from harness.observe.tracing.bpf_program import WatchedDevice, program
from harness.observe.tracing.tracer import Tracer
from harness.observe.tracing.zone_history import Traced, TraceTotals, traced
from harness.observe.zone_reports import Zone, ZoneCondition, ZoneType
from harness.store.ledger import Snapshot, Trace
from harness.tools import bpftrace
from tests.fixtures.barriers import counters

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trace"
KIB, MIB = 1 << 10, 1 << 20
NAME = "nvme0n3"
DEVICE = WatchedDevice(NAME, (NAME,), 3, 4096, 8 * MIB, 4 * MIB)
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
    """A source that returns the captured answers."""

    name = "replay"
    names = (NAME,)

    def __init__(self, answers: Sequence[TraceTotals]) -> None:
        self._answers = iter(answers)

    def begin(self) -> None:
        pass

    def tick(self) -> None:
        pass

    def snapshot(self) -> TraceTotals:
        return next(self._answers)

    def end(self, raw: Path) -> None:
        pass


def captured() -> list[Maps]:
    """The captured answers: of an idle device, behind the sequence, the reset, the append.

    The program of that day did not clear ``@zones``: what is new is the difference.
    """
    lines = (FIXTURES / "trace.jsonl").read_text().splitlines()
    answers = list(grouped(bpftrace.parse(lines)))[:4]
    zones = [maps.get("@zones", {}) for maps in answers]
    for maps, earlier, later in zip(answers[1:], zones, zones[1:], strict=False):
        maps["@zones"] = {
            key: count - earlier.get(key, 0)
            for key, count in later.items()
            if count != earlier.get(key, 0)
        }
    return answers


def from_bpftrace() -> list[TraceTotals]:
    """The totals of the captured answers, without the append of the last answer."""
    answers, found = Answers([NAME]), []
    for maps in captured()[:3]:
        answers.take(maps)
        found.append(answers.totals())
    return found


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


def from_tracefs(tracing: Path) -> list[TraceTotals]:
    source = tracefs_source.TracefsSource([DEVICE], tracing)
    found = [source.snapshot()]
    lines = (FIXTURES / "trace_pipe.txt").read_text().splitlines(keepends=True)
    # The reset of all zones came behind the second snapshot, an append behind the third.
    last = next(i for i, line in enumerate(lines) if "all=1" in line)
    for part in (lines[:last], lines[last : last + 1]):
        for line in part:
            source.take(line)
        found.append(source.snapshot())
    return found


def trace(
    answers: Sequence[TraceTotals], seed: Sequence[Zone] = SEED, metadata_zones: int = 0
) -> Tracer:
    return Tracer(
        Replay(answers),
        reports={NAME: lambda: seed},
        metadata_zones={NAME: metadata_zones},
        began=0.0,
        plain=True,
    )


def snapshots(answers: Sequence[TraceTotals]) -> tuple[Tracer, list[Trace]]:
    tracer = trace(answers)
    snapshot = tracer.of(NAME)
    return tracer, [snapshot() for _ in answers[:3]]


def barrier(trace: Trace) -> Snapshot:
    return counters(zoned=NAME, trace=trace)


def between(earlier: Trace, later: Trace) -> Traced:
    found = traced(barrier(earlier), barrier(later))
    assert found is not None
    return found


def check(seen: Traced) -> None:
    for command, count in SENT.items():
        assert seen.done(NAME, command) == count, command
    assert seen.submitted(NAME) == WRITTEN + REFUSED * 4 * KIB
    assert seen.attempted(NAME) == 34 + REFUSED + 3 + 1 + 1 + 1
    # Zone 0 gave up all but 1280 KiB, once, and zone 7 all but 68 KiB.
    assert seen.finishes == 2
    assert seen.pad == {"unknown": (4 * MIB - 1280 * KIB) + (4 * MIB - 68 * KIB)}
    assert seen.problems == ()


def test_bpftraces_counts_are_read() -> None:
    _, (idle, behind, reset) = snapshots(from_bpftrace())
    check(between(idle, behind))
    later = between(behind, reset)
    assert later.done(NAME, "reset-all") == 1
    assert (later.submitted(NAME), later.pad) == (0, {})
    # Zone 0 was reset behind its finish, zone 7 by the reset of all.
    assert (behind.pad_held, reset.pad_held) == (4 * MIB - 68 * KIB, 0)


def test_the_trace_buffer_is_read(tracefs: Path) -> None:
    _, (idle, behind, reset) = snapshots(from_tracefs(tracefs))
    check(between(idle, behind))
    assert between(behind, reset).done(NAME, "reset-all") == 1


def test_both_sources_agree_on_each_zone(tracefs: Path, tmp_path: Path) -> None:
    one, other = from_bpftrace()[-1], from_tracefs(tracefs)[-1]
    assert one.zones == other.zones
    tables: list[dict[str, str]] = []
    for answers in (from_bpftrace(), from_tracefs(tracefs)):
        tracer, _ = snapshots([*answers, replace(answers[-1], transitions=())])
        tables.append({})
        tracer.end(tmp_path, tables[-1].__setitem__)
    assert tables[0]["raw/zones_traced.csv"] == tables[1]["raw/zones_traced.csv"]
    rows = [table["series/zone_commands.csv"].splitlines() for table in tables]
    # Times differ, as one saw completions and the other submissions; latencies are bpftrace's.
    kept = [[row.split(",")[2:4] + row.split(",")[5:] for row in half] for half in rows]
    assert kept[0] == kept[1]
    finish = next(row for row in rows[0] if ",finish," in row).split(",")
    assert float(finish[4]) > 0


def test_an_append_is_counted() -> None:
    """The append uses pass-through, so the kernel's own statistics do not count it."""
    answers = Answers([NAME])
    for maps in captured():
        answers.take(maps)
    found = answers.totals()
    assert found.bytes[NAME, "append", 0] == 2 * 4096
    assert (found.problems, found.answers) == ((), 4)


def test_appends_begin_and_fill_a_zone_in_the_trace_buffer(tracefs: Path) -> None:
    source = tracefs_source.TracefsSource([DEVICE], tracefs)
    lines = (FIXTURES / "trace_pipe.txt").read_text().splitlines(keepends=True)
    append = next(line for line in lines if "nvme_cmd_zone_append" in line)
    half = append.replace("slba=0, len=1,", "slba=4096, len=511,")
    refused = next(line for line in lines if "nvme_complete_rq" in line)
    refused = re.sub("cmdid=\\d+", re.findall("cmdid=\\d+", append)[0], refused)
    for line in (half, refused, half, append, half):
        source.take(line)
    found = source.snapshot().transitions
    assert [(item.zone, item.action) for item in found] == [
        (2, "first-write"),
        (0, "first-write"),
        (2, "last-write"),
    ]


def test_an_append_lies_where_its_result_says() -> None:
    """Its command has only the start of the zone: a zone would never begin or be full."""
    text = program([DEVICE])
    first, last = (text.index(f"$at = *(uint64*)({place}") for place in ("$nvme + 40", "arg0 + "))
    assert text[first:].count("if ($what == 125) { $at = ") == 2
    assert first < last
    for place in ("$offset == 0", "$offset + $length == $capacity"):
        assert text.count(f"if ($opcode != 8 && {place}) {{") == 2


def test_counts_from_before_a_run_are_subtracted() -> None:
    """bpftrace runs on between runs: here the second run begins after the sequence."""
    answers = Answers([NAME])
    for maps in captured()[1:]:
        answers.take(maps)
    found = answers.totals()
    assert found.bytes == {(NAME, "append", 0): 2 * 4096}
    assert [item.action for item in found.transitions] == ["reset-all"]
    assert found.problems == ()


def test_a_full_map_is_a_problem() -> None:
    answers, maps = Answers([NAME]), captured()[:2]
    maps[1]["@zones"].popitem()
    maps[1]["@changes"] = {
        key: value for key, value in maps[1]["@changes"].items() if value[4] == 0
    }
    for one in maps:
        answers.take(one)
    less, missing = answers.totals().problems
    assert "have no zone" in less
    assert "missing from the timeline" in missing


def test_a_loss_in_the_trace_buffer_is_a_problem(tracefs: Path) -> None:
    source = tracefs_source.TracefsSource([DEVICE], tracefs)
    assert source.snapshot().problems == ()
    source.take("CPU:1 [LOST 12 EVENTS]")
    (tracefs / "instances/zonelab/per_cpu/cpu0/stats").write_text("overrun: 3\n")
    assert source.snapshot().problems == ("the trace buffer lost 15 events",)


def test_a_buffer_that_is_never_empty_does_not_stop_the_runner(
    tracefs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is counted later."""
    source = tracefs_source.TracefsSource([DEVICE], tracefs)
    lines = (FIXTURES / "trace_pipe.txt").read_text().splitlines(keepends=True)
    write = next(line for line in lines if "nvme_cmd_write " in line)
    left = [write.encode()] * 50
    now = iter(float(second) for second in range(100))
    monkeypatch.setattr(tracefs_source.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(tracefs_source.os, "read", lambda *_: left.pop() if left else b"")
    source.tick()
    assert 40 < len(left) < 50
    assert source.snapshot().commands[NAME, "write", 0] == 50
    assert left == []


def test_a_line_that_cannot_be_read_is_a_problem(tracefs: Path) -> None:
    source = tracefs_source.TracefsSource([DEVICE], tracefs)
    source.take("something else")
    (problem,) = source.snapshot().problems
    assert "something else" in problem


def test_other_drivers_need_bpftrace(tracefs: Path) -> None:
    with pytest.raises(HostError, match="only NVMe"):
        tracefs_source.TracefsSource([replace(DEVICE, nsid=0)], tracefs)


def test_a_zone_full_before_tracing_has_no_known_bytes() -> None:
    idle, behind, _ = from_bpftrace()
    full = [replace(one, condition=ZoneCondition.FULL) for one in SEED]
    snapshot = trace([idle, behind], full).of(NAME)
    first, second = snapshot(), snapshot()
    # Only zone 0 was reset, and it was not finished after that.
    assert between(first, second).pad == {}


def test_metadata_zones_are_no_finishes_but_pad() -> None:
    snapshot = trace(from_bpftrace(), metadata_zones=3).of(NAME)
    first, second = snapshot(), snapshot()
    seen = between(first, second)
    assert seen.finishes == 1
    assert seen.pad == {"unknown": 4 * MIB - 68 * KIB, "metadata-roll": 4 * MIB - 1280 * KIB}
    assert seen.done(NAME, "finish") == 3


def test_output_that_is_not_bpftraces() -> None:
    assert bpftrace.parse(['{"type": "lost_events", "data": {"events": 4}}']) == [bpftrace.Lost(4)]
    for line in ("Attaching 4 probes...", '{"type": "map", "data": {"@a": {"x": 1}}}'):
        with pytest.raises(ToolFailed, match="bpftrace printed"):
            bpftrace.parse([line])
    answers = Answers([NAME])
    answers.take({})
    with pytest.raises(ToolFailed, match="@changes"):
        answers.take({"@changes": {(1, 2, 3): [1]}})


def test_the_program_names_each_device_once_per_copy() -> None:
    other = WatchedDevice("nullb0", ("nullb0",), 0, 512, 8 * MIB, 4 * MIB)
    path = WatchedDevice("nvme1n1", ("nvme1c1n1", "nvme1c2n1"), 1, 512, 0, 0)
    text = program([DEVICE, other, path])
    assert text.count('== "nvme0n3") { $device = (uint64)1; $shift = (uint64)11;') == 2
    assert text.count('== "nullb0") { $device = (uint64)2; $shift = (uint64)14;') == 2
    assert text.count('== "nvme1c1n1"') == text.count('== "nvme1c2n1"') == 2
    for probe in ("nvme_setup_cmd", "block_rq_issue", "block_rq_complete"):
        assert text.count(f"rawtracepoint:{probe}\n") == 2
    assert "block_rq_issue" not in program([DEVICE])
    assert "nvme_setup_cmd" not in program([other])
