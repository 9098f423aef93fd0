"""The numbers of the 1 Hz series, on captures of a rig's guest (fixtures/trace/README.md)."""

from __future__ import annotations

import base64
import itertools
import json
import time
from pathlib import Path

import pytest

from harness.observe import host_gauges, sampler, zone_reports, zone_states
from harness.observe.gauges import Gauge, Reader, devices_io, number
from harness.observe.sampler import SampledSeries, Sampler
from harness.observe.zone_states import COLUMNS
from harness.tools import zlfs

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trace"
FILES: dict[str, str] = json.loads((FIXTURES / "files.json").read_text())
GROUP = "/sys/fs/cgroup/system.slice"


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def captured(name: str, word: str, position: int = 1) -> int:
    line = next(line for line in FILES[name].splitlines() if line.startswith(word))
    return int(line.split()[position].rpartition("=")[2])


def test_the_machine(guest: Path) -> None:
    reader = Reader(host_gauges.gauges(guest / "proc", guest / GROUP.lstrip("/")))
    row = dict(zip(reader.columns, reader.read(), strict=True))
    reader.close()
    assert row["cached"] == captured("/proc/meminfo", "Cached:") * 1024
    assert row["dirty"] == captured("/proc/meminfo", "Dirty:") * 1024
    assert row["io_some_us"] == captured("/proc/pressure/io", "some", 4)
    assert row["io_full_us"] == captured("/proc/pressure/io", "full", 4)
    assert row["load_user_us"] == captured(f"{GROUP}/cpu.stat", "user_usec")
    assert row["load_cached"] == captured(f"{GROUP}/memory.stat", "file ")
    # This group has no io controller: not measured is null, never 0.
    assert row["load_read_bytes"] is None


def test_io_of_a_cgroup_is_summed_over_devices(tmp_path: Path) -> None:
    """Synthetic, in the form of Documentation/admin-guide/cgroup-v2.rst."""
    (tmp_path / "io.stat").write_text(
        "259:1 rbytes=10 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n259:2 rbytes=5 wbytes=7\n"
    )
    assert Reader([devices_io(tmp_path / "io.stat", ("r", "w"))]).read() == [15, 207]


def test_a_file_that_comes_later_is_found_then(tmp_path: Path) -> None:
    reader = Reader([number(tmp_path / "moved_blocks", "moved")])
    assert reader.read() == [None]
    (tmp_path / "moved_blocks").write_text("42\n")
    assert reader.read() == [42]
    (tmp_path / "moved_blocks").write_text("(none)\n")
    assert reader.read() == [None]
    reader.close()


@pytest.mark.parametrize("rest", ["", '{"n'], ids=["whole", "being-written"])
@pytest.mark.parametrize("before", [0, 3])
def test_a_line_of_any_length_is_read_whole(tmp_path: Path, before: int, rest: str) -> None:
    """A line of zlfs's ledger lists the zones that were retired since the line before."""
    line = json.dumps({"n": 7, "retired": ["x" * 90_000]}) + "\n"
    (tmp_path / "ledger").write_text('{"n": 1}\n' * before + line + rest)

    def parse(data: bytes) -> list[int | None]:
        return [json.loads(data[: data.rindex(b"\n")].rpartition(b"\n")[2])["n"]]

    reader = Reader([Gauge(tmp_path / "ledger", ("n",), parse, tail=True)])
    assert reader.read() == [7]
    reader.close()


@pytest.mark.parametrize("text", ["", "1 2 3\n", "1 2 3 4 5 6 7 8 x\n"])
def test_a_stat_that_is_cut_is_null_and_stops_no_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    series = sampler.disks(["nvme0n2"], lambda _: tmp_path)
    assert series.read() == [None] * len(series.columns)
    (tmp_path / "stat").write_text("1 0 16 0 2 0 32 0 4 0 0\n")
    assert series.read() == [8192, 16384, 1, 2, 4]
    series.close()


def test_zone_states_cover_the_whole_report() -> None:
    """The fast way and the slow one, on a report of 384 zones."""
    report = bytearray(base64.b64decode((FIXTURES / "report.b64").read_text()))
    found = zone_states.of_report(report)
    zones = zone_reports.parse_report(bytes(report))
    active = [(z.allocated, z.capacity) for z in zones if z.condition in zone_reports.ACTIVE]
    assert found == zone_states.row(bytes(zone.condition for zone in zones), active)
    row = dict(zip(COLUMNS, found, strict=True))
    # One zone with 8 KiB of 4 MiB, written by an append; all others empty.
    assert (row["empty"], row["open"], row["active"], row["occupied_0"]) == (383, 1, 1, 1)
    assert sum(row[name] for name in COLUMNS[:7]) == 384


def test_occupancy_is_by_tenths_of_the_capacity() -> None:
    active = [(0, 10), (5, 10), (9, 10), (10, 10)]
    found = zone_states.row(b"\x02\x04\x04\x05\x0e", active)
    row = dict(zip(COLUMNS, found, strict=True))
    assert [row[f"occupied_{10 * index}"] for index in range(10)] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    assert (row["full"], row["open"], row["active"]) == (1, 1, 4)


def test_a_series_that_costs_much_is_read_less_often(tmp_path: Path) -> None:
    def expensive() -> list[int]:
        return [sum(itertools.repeat(1, 5_000_000))]

    cheap = SampledSeries("cheap", ["n"], lambda: [1])
    clock = itertools.count(100.0)
    sampler = Sampler(
        tmp_path,
        [cheap, SampledSeries("costly", ["n"], expensive)],
        clock=lambda: next(clock),
        began=0,
    )
    for _ in range(4):
        sampler.tick()
    sampler.close()
    lines = {
        name: (tmp_path / f"{name}.csv").read_text().splitlines() for name in ("cheap", "costly")
    }
    assert len(lines["cheap"]) == 5
    assert 2 <= len(lines["costly"]) < 4


def test_no_sample_is_later_than_the_longest_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = itertools.count(0, 3600)
    monkeypatch.setattr(time, "thread_time", lambda: next(cost))
    clock = itertools.count(100.0)
    tables = [
        SampledSeries("cheap", ["n"], lambda: [1]),
        SampledSeries("costly", ["n"], lambda: [1]),
    ]
    sampler = Sampler(tmp_path, tables, clock=lambda: next(clock), began=100)
    for _ in range(65):
        sampler.tick()
    sampler.close()
    rows = (tmp_path / "costly.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["0.000", "30.000", "60.000"]


def test_the_last_line_of_a_ledger() -> None:
    data = (FIXTURES / "ledger.jsonl").read_bytes()
    row = dict(zip(zlfs.LEDGER_COLUMNS, zlfs.parse_ledger(data), strict=True))
    last = json.loads(data.splitlines()[-1])
    assert (
        row["written_flush"]
        == last["written"]["flush"]["payload"] + last["written"]["flush"]["pad"]
    )
    assert row["resets"] == sum(last["resets"].values()) > 0
    assert row["empty_zones"] == last["space"]["empty_zones"]
    with pytest.raises(ValueError, match="no line of a ledger"):
        zlfs.parse_ledger(b'{"event": "close"}\n')
    # The plug-in may be in the middle of a line.
    assert zlfs.parse_ledger(data + b'{"t":') == zlfs.parse_ledger(data)
