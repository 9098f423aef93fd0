"""Sampled series against barriers, requests, times and each other, at their edges."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import ConfigError
from harness.store.result import Status
from harness.verify import derived, gauged, sampled
from harness.verify.sampled import PhaseWindow, SeriesTable

DISK = "nvme0n2"
OK, FAILED = Status.OK, Status.FAILED


def table(times: list[float], **columns: list[Any]) -> SeriesTable:
    names = list(columns)
    rows = [
        dict(zip(names, map(str, row), strict=True)) for row in zip(*columns.values(), strict=True)
    ]
    return SeriesTable(tuple(times), tuple(rows))


def barrier(count: int = 0, **raw: int) -> Any:
    counters = SimpleNamespace(
        written={DISK: count}, read={DISK: 0}, zoned=DISK, conventional="", media=None
    )
    return SimpleNamespace(counters=counters, usage=SimpleNamespace(raw=raw), name=count)


def phase(begin: float, end: float, before: Any, after: Any, **more: Any) -> PhaseWindow:
    return PhaseWindow("p", begin, end, more.get("load"), before, more.get("ready", before), after)


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,a\n1,2", "ends within a line"),
        ("t,a\n1,2,3\n", "ValueError"),
        ("t,a\n1\n", "ValueError"),
        ("t,a\nx,2\n", "ValueError"),
        ("u,a\n1,2\n", "KeyError"),
        ("t,a\nnan,2\n", "a time is no number"),
        ("t,a\n1,2\ninf,2\n", "a time is no number"),
    ],
)
def test_a_damaged_series_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(ConfigError, match=rf"s\.csv: is damaged: .*{message}"):
        sampled.read(tmp_path, "s.csv")


def test_samples_of_the_devices_that_are_damaged_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "series").mkdir()
    (tmp_path / sampled.DISKSTATS).write_text("t,a\n1,2")
    result: Any = SimpleNamespace()
    (line,) = sampled.differences(tmp_path, result, [], 2.0)
    assert line == "series/diskstats.csv: is damaged: it ends within a line"


def test_a_series_and_its_known_samples(tmp_path: Path) -> None:
    assert sampled.read(tmp_path, "s.csv") is None
    (tmp_path / "s.csv").write_text("t,a,b\n1,2,\n2,,4\n3,5,6\n")
    found = sampled.read(tmp_path, "s.csv")
    assert found is not None
    assert found.times == (1, 2, 3)
    assert found.known(["a"]).numbers("a") == [2, 5]
    assert found.known(["a", "b"]).times == (3,)


# --- between barriers -----------------------------------------------------------------------------

UP, COLD, READY, FILLED, DONE = (barrier(number) for number in (0, 1, 15, 2, 3))
PHASES = [phase(10, 20, COLD, FILLED), phase(30, 40, FILLED, DONE, ready=READY)]


@pytest.mark.parametrize(
    ("t", "low", "high"),
    [
        (5, UP, COLD),
        (9.94, UP, COLD),
        (10, UP, FILLED),  # the very edge belongs to either side
        (10.06, COLD, FILLED),
        (19.94, COLD, FILLED),
        (20, COLD, DONE),
        (20.06, COLD, READY),
        (29.9, COLD, READY),
        (30, COLD, DONE),
        (30.06, FILLED, DONE),
        (40, FILLED, DONE),
        (45, FILLED, DONE),
    ],
)
def test_the_barriers_around_a_time(t: float, low: Any, high: Any) -> None:
    found = sampled.between(t, PHASES, UP, DONE)
    assert [one.name for one in found] == [low.name, high.name]


@pytest.mark.parametrize(
    ("values", "stopped", "line"),
    [
        ([512, 1024, 1536], False, ""),
        ([0, 1024, 2048], False, "has 0 at 5.000 s, the barriers give 512 to 1024"),
        ([512, 512, 2048], False, "has 512 at 15.000 s, the barriers give 1024 to 1536"),
        ([512, 2048, 2048], False, "has 2048 at 15.000 s, the barriers give 1024 to 1536"),
        ([512, 1024, 2560], False, "has 2560 at 25.000 s, the barriers give 1024 to 2048"),
        ([512, 1024, 2560], True, ""),  # no barrier follows the last writes
        ([512, 2048, 2560], True, "has 2048 at 15.000 s"),
        ([1024, 512, 1536], False, "falls; a counter only grows"),
        ([512, 1025, 1536], False, "has 1025, which is no multiple of 512 B"),
    ],
)
def test_bytes_written_lie_between_the_barriers(
    values: list[int], stopped: bool, line: str
) -> None:
    series = table(
        [5, 15, 25],
        **{f"{DISK}.read_bytes": [0] * 3, f"{DISK}.write_bytes": values},
        **{f"{DISK}.{name}": [0] * 3 for name in ("reads", "writes", "in_flight")},
    )
    up, cold, filled, last = (barrier(512 * number) for number in (1, 2, 3, 4))
    stored: Any = SimpleNamespace(snapshots=(up, last))
    lines = list(
        sampled._device(
            series, DISK, [phase(10, 20, cold, filled)], stored, (512, 0), stopped=stopped
        )
    )
    lines = [one for one in lines if line and line in one] or lines
    assert (lines == []) is (line == "")
    assert line in "".join(lines)
    assert all(one.startswith(f"{DISK}.write_bytes: ") for one in lines)


@pytest.mark.parametrize(
    ("sizes", "counts", "flying", "largest", "line"),
    [
        ([0, 400], [0, 4], [0, 0], 100, ""),
        ([0, 401], [0, 4], [0, 0], 100, "grows by 401 B up to 2.000 s, 4 requests carry at most"),
        ([0, 401], [0, 4], [1, 0], 100, ""),
        ([0, 401], [0, 4], [0, 1], 100, ""),
        ([0, 401], [0, 4], [0, 0], 0, ""),  # the limit is unknown
        ([0, 0], [4, 3], [0, 0], 0, "writes: falls; a counter only grows"),
    ],
)
def test_bytes_need_requests(
    sizes: list[int], counts: list[int], flying: list[int], *, largest: int, line: str
) -> None:
    series = table(
        [1, 2],
        **{
            f"{DISK}.write_bytes": sizes,
            f"{DISK}.writes": counts,
            f"{DISK}.in_flight": flying,
        },
    )
    found = list(sampled._requests(series, DISK, "write_bytes", largest))
    assert len(found) == bool(line)
    assert line in "".join(found)


QUEUE = {"max_sectors_kb": 128, "max_hw_sectors_kb": 512}


@pytest.mark.parametrize(
    ("queue", "found"),
    [
        ({DISK: QUEUE}, (4096, 512 * 1024)),
        ({DISK: {"max_sectors_kb": "64"}}, (4096, 64 * 1024)),
        ({DISK: {}}, (4096, 0)),
        ({"nvme0n1": QUEUE}, (512, 0)),
        (None, (512, 0)),
    ],
)
def test_limits_of_a_device_are_in_the_manifest(queue: Any, found: tuple[int, int]) -> None:
    host = {"devices": [{"queue": queue, "logical_block_size": 4096}]}
    result: Any = SimpleNamespace(manifest={"host": host})
    assert sampled._limits(result, DISK) == found
    for other in (None, [], {}):
        result = SimpleNamespace(manifest={"host": other})
        assert sampled._limits(result, DISK) == (512, 0)


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "seconds", "line"),
    [
        ([1, 9, 12, 18], 30, ""),
        ([-1, 9, 12, 18], 30, "has times outside the run, which took 30 s"),
        ([0, 9, 12, 18, 30], 30, ""),
        ([0, 9, 12, 18, 31], 30, "has times outside the run"),
        ([0, 9, 9, 18], 30, "its times do not grow"),
        ([0, 9, 12, 11, 18], 30, "its times do not grow"),
        ([1, 20, 30], 30, ""),  # 10 s
        ([1, 21, 30], 30, "has no sample from 10.0 s to 21.0 s, in phase p"),
        ([1, 14, 30], 30, "has no sample from 14.0 s to 25.0 s, in phase p"),
        ([1, 2, 30], 30, "has no sample from 10.0 s to 25.0 s, in phase p"),
    ],
)
def test_samples_are_taken_all_along_a_phase(times: list[float], seconds: float, line: str) -> None:
    result: Any = SimpleNamespace(seconds=seconds)
    found = list(sampled._complete(table(times), [phase(10, 25, UP, DONE)], result))
    assert len(found) == bool(line)
    assert line in "".join(found)


DISKS = table([1, 2, 3, 4, 5, 6], a=[0] * 6)


@pytest.mark.parametrize(
    ("times", "gap", "line"),
    [
        ([1, 2, 3, 4, 5, 6], 2.0, ""),
        ([1, 3, 5, 6], 2.0, ""),
        ([1, 2, 5, 6], 2.0, ""),
        ([1, 2, 6], 2.0, "has no sample from 2.0 s to 5.0 s, they are 2 s apart"),
        ([1, 2, 3], 2.0, "has no sample from 3.0 s to 6.0 s"),
        ([1, 2, 3, 4], 2.0, ""),
        ([1, 2, 3, 4, 5], 2.0, ""),
        ([1], 9.0, ""),
        ([2, 3, 4, 5, 6], 9.0, "does not begin with series/diskstats.csv"),
        ([1, 2.5, 4], 9.0, "has a sample at 2.500 s, series/diskstats.csv has none"),
        ([1, 3, 2], 9.0, "its times do not grow"),
        ([1, 3, 3], 2.0, "its times do not grow"),
        ([], 9.0, "has no samples"),
    ],
)
def test_other_series_are_sampled_with_the_first(
    tmp_path: Path, times: list[float], gap: float, line: str
) -> None:
    assert list(sampled._together(tmp_path, DISKS, "s.csv", gap)) == []
    (tmp_path / "s.csv").write_text("".join(["t,a\n", *(f"{t},1\n" for t in times)]))
    found = list(sampled._together(tmp_path, DISKS, "s.csv", gap))
    assert len(found) == bool(line)
    assert line in "".join(found)


def test_a_damaged_series_of_a_phase_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived, "operations", lambda *_: [(1.0, "5")])
    (tmp_path / "series").mkdir()
    (tmp_path / "series/p.csv.xz").write_bytes(b"no xz")
    (tmp_path / "series/p.lsm.csv").write_text("t,l0_files,files\n1,2,3\n")
    log = SimpleNamespace(points=[])
    facts: Any = SimpleNamespace(spec=SimpleNamespace(name="p"), parsed=None, lsm=log)
    damage, other = derived.differences(tmp_path, facts)
    assert "series/p.csv.xz cannot be read" in damage
    assert other == "series/p.lsm.csv: has other values than raw/ gives"


# --- gauges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "status", "line"),
    [
        (["1", "5", "8"], OK, ""),
        (["1", "", "8"], OK, ""),
        (["0", "5", "8"], OK, "moved: has 0 at 5.000 s, the barriers give 1 to 2"),
        (["1", "7", "8"], OK, "moved: has 7 at 15.000 s, the barriers give 2 to 6"),
        (["1", "5", "10"], OK, "moved: has 10 at 25.000 s, the barriers give 2 to 9"),
        (["1", "5", "10"], FAILED, ""),
        (["1", "7", "10"], FAILED, "moved: has 7 at 15.000 s"),
    ],
)
def test_a_levels_counter_lies_between_the_barriers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    values: list[str],
    status: Status,
    line: str,
) -> None:
    up, cold, filled, last = (barrier(moved=count) for count in (1, 2, 6, 9))
    monkeypatch.setattr(gauged, "windows", lambda *_: [phase(10, 20, cold, filled)])
    level: Any = SimpleNamespace(counters=("moved", "absent"))
    tenant: Any = SimpleNamespace(snapshots=(up, last))
    series = table([5, 15, 25], moved=values)
    result: Any = SimpleNamespace(status=status)
    found = list(gauged._counters(tmp_path, level, series, tenant, result))
    assert len(found) == bool(line)
    assert line in "".join(found)


@pytest.mark.parametrize(
    ("first", "last"), [({}, {"moved": 9}), ({"moved": 1}, {}), ({"moved": 9}, {"moved": 1})]
)
def test_a_counter_that_was_set_to_zero_or_is_unknown_bounds_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: dict[str, int],
    last: dict[str, int],
) -> None:
    monkeypatch.setattr(gauged, "windows", lambda *_: [])
    tenant: Any = SimpleNamespace(snapshots=(barrier(**first), barrier(**last)))
    level: Any = SimpleNamespace(counters=("moved",))
    result: Any = SimpleNamespace(status=OK)
    series = table([5], moved=[100])
    assert list(gauged._counters(tmp_path, level, series, tenant, result)) == []


@pytest.mark.parametrize(
    ("user", "load", "line"),
    [
        ([0, 1_000_000, 2_000_000], 2.0, ""),
        ([0, 1_000_000, 2_049_999], 2.0, ""),
        ([0, 1_000_000, 2_050_001], 2.0, "grows by 2050001 µs in phase p, its process.json has 2"),
        ([0, 1_000_000, 9_000_000], None, ""),
        ([5, 4, 9], 2.0, "falls in phase p; CPU time only grows"),
    ],
)
def test_cpu_time_of_a_phase(user: list[int], load: float | None, line: str) -> None:
    series = table(
        [1, 11, 15, 19, 29],
        load_user_us=[10**9, *user, 0],
        load_system_us=[0] * 5,
    )
    found = list(gauged._load(series, [phase(10, 20, UP, DONE, load=load)]))
    assert len(found) == bool(line)
    assert line in "".join(found)
    assert list(gauged._load(table([1], other=[1]), [phase(0, 9, UP, DONE, load=0.0)])) == []
    assert list(gauged._load(table([]), [phase(0, 9, UP, DONE, load=0.0)])) == []


SAMPLES = [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([(1, 1), (3, 3)], ""),
        ([(1, 1), (1, 1), (3, 3)], ""),  # it is written once a second, too
        ([("", ""), (2, 2)], ""),
        ([(2, 2), (1, 1)], "has values at 1.000 s that no line of raw/own gives in this order"),
        ([(1, 2)], "has values at 0.000 s"),
    ],
)
def test_gauges_of_a_levels_own_ledger_are_its_lines(
    tmp_path: Path, rows: list[tuple[Any, Any]], line: str
) -> None:
    level: Any = SimpleNamespace(own_ledger="own", own_samples=lambda _: iter(SAMPLES))
    tenant: Any = SimpleNamespace(spec=SimpleNamespace(name=""))
    times = [float(number) for number in range(len(rows))]
    a, b = zip(*rows, strict=True)
    series = table(times, t=times, a=list(a), b=list(b))
    assert list(gauged._ledger(tmp_path, level, series, tenant)) == []  # nothing to compare with
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/own").touch()
    found = list(gauged._ledger(tmp_path, level, series, tenant))
    assert len(found) == bool(line)
    assert line in "".join(found)
    level.own_ledger = ""
    assert list(gauged._ledger(tmp_path, level, series, tenant)) == []
