"""RocksDB's own counters: tickers, table of levels, LOG (tests/fixtures/db_bench)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ToolFailed
from harness.metrics.catalogue import CATALOGUE
from harness.store import rundir
from harness.store.spec import PhaseRole, PhaseSpec
from harness.tools import rocksdb_log, rocksdb_stats
from harness.tools.rocksdb_log import Log
from harness.workloads import rocksdb
from harness.workloads.db_bench import DbBench
from harness.workloads.load_program import Parsed
from harness.workloads.rocksdb import Below

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "db_bench"
VERSIONS = ("7.8", "9.10")
# Without a WAL: what closing the database flushes is in no ticker.
NO_WAL = FIXTURES / "7.8" / "statistics-overwrite.LOG"


def phase(benchmark: str, **flags: str | int | float | bool) -> PhaseSpec:
    size = 0 if benchmark.startswith("read") else 416
    return PhaseSpec("p", benchmark, PhaseRole.MEASURED, flags, 20_000, size, False, 60)


def captured(version: str, name: str) -> tuple[str, str]:
    folder = FIXTURES / version
    return (folder / f"{name}.out").read_text(), (folder / f"{name}.err").read_text()


def parsed(version: str, name: str) -> tuple[PhaseSpec, Parsed]:
    spec = phase(name.rpartition("-")[2], statistics=True)
    return spec, DbBench().parse(spec, *captured(version, name))


def log(path: Path) -> Log:
    with path.open(newline="\n") as lines:
        found = rocksdb_log.parse(lines)
    assert found is not None
    return found


def tree(version: str) -> Path:
    return FIXTURES / version / "tree-overwrite.LOG"


def values(version: str, name: str) -> dict[str, rocksdb.MetricValue]:
    spec, got = parsed(version, name)
    path = FIXTURES / version / f"{name}.LOG"
    found = rocksdb.metrics(
        spec, got, log(path) if path.exists() else None, Below(50_000_000, 5_000_000)
    )
    assert set(found) <= set(CATALOGUE)
    return found


def printed(text: str, pattern: str) -> str:
    found = re.findall(pattern, text, re.MULTILINE)
    assert found, pattern
    return str(found[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_of_an_overwrite(version: str) -> None:
    found = values(version, "tree-overwrite")
    tables = log(tree(version)).tables
    created = re.findall(r'"file_size": (\d+), "file_checksum"', tree(version).read_text())
    assert len(created) > 10
    # The close cut a compaction short: its last file was never completed, and yet written.
    unfinished = tables.flush + tables.compaction - sum(map(int, created))
    assert tree(version).read_text().count("Shutdown in progress") == 1
    totals = re.findall(r'"total_output_size": (\d+)', tree(version).read_text())
    assert tables.compaction == sum(map(int, totals))
    assert 0 < unfinished <= int(totals[-1])
    assert found["wal_bytes"] == 8_640_000  # 20,000 records of 432 B
    above = 8_640_000 + tables.flush + tables.compaction
    assert found["rocksdb_written"] == above
    assert found["wa_lsm"] == above / (20_000 * 416)
    assert found["level_write_amplification"] == 50_000_000 / above
    assert found["rocksdb_sum"] == (tables.flush + tables.compaction) / tables.flush
    # RocksDB's own "W-Amp" of the sum, to a tenth: a compaction was under way, and not in it yet.
    _, got = parsed(version, "tree-overwrite")
    assert got.levels is not None
    assert found["rocksdb_sum"] == pytest.approx(got.levels[-1].write_amplification, abs=0.3)


@pytest.mark.parametrize("version", VERSIONS)
def test_stall_share_is_the_tickers_and_agrees_with_the_cumulative_stall(version: str) -> None:
    found = values(version, "tree-overwrite")
    out, _ = captured(version, "tree-overwrite")
    micros = int(printed(out, r"^rocksdb\.stall\.micros COUNT : (\d+)$"))
    seconds = float(printed(out, r"ops/sec (\d+\.\d+) seconds"))
    assert micros > 100_000
    assert found["stall_share"] == micros / 1e6 / seconds
    logged = float(printed(out, r"^Cumulative stall: 00:00:(\d+\.\d+) H:M:S"))
    assert micros / 1e6 == pytest.approx(logged, abs=0.001)


def test_stalls_in_the_log_equal_rocksdbs_count() -> None:
    out, _ = captured("9.10", "tree-overwrite")
    logged = {
        name: int(count)
        for name, count in re.findall(
            r"([\w-]+-(?:delays|stops)): (\d+)", printed(out, r"^(Write Stall \(count\): cf-.*)$")
        )
    }
    stalls = log(tree("9.10")).stalls
    assert (
        stalls["level0"]
        == logged["l0-file-count-limit-delays"] + logged["l0-file-count-limit-stops"]
    )
    assert stalls["level0"] > 0
    assert sum(stalls.values()) == logged["total-delays"] + logged["total-stops"]
    old, _ = captured("7.8", "tree-overwrite")
    slow = int(printed(old, r"^Stalls\(count\): (\d+) level0_slowdown"))
    stop = int(printed(old, r", (\d+) level0_numfiles,"))
    assert log(tree("7.8")).stalls == {"memtable": 0, "level0": slow + stop, "pending": 0}
    assert log(NO_WAL).stalls == {"memtable": 3, "level0": 0, "pending": 0}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_of_levels(version: str) -> None:
    _, got = parsed(version, "tree-overwrite")
    assert got.levels is not None
    assert [row.level for row in got.levels] == ["L0", "L1", "L2", "Sum"]
    *own, total = got.levels
    assert sum(row.files for row in own) == total.files == 11
    assert sum(row.size for row in own) == pytest.approx(total.size, rel=0.01)
    assert sum(row.jobs for row in own) == total.jobs == 11
    assert total.size == round(11.15 * 2**20)
    assert values(version, "tree-overwrite")["lsm_bytes"] == total.size
    assert DbBench().parse(phase("overwrite"), *captured(version, "overwrite")).levels is None


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_that_open_tables_again_and_again(version: str) -> None:
    found = values(version, "tree-readrandom")
    out, _ = captured(version, "tree-readrandom")
    opening = int(printed(out, r"^rocksdb\.table\.open\.io\.micros .* SUM : (\d+)$"))
    seconds = float(printed(out, r"ops/sec (\d+\.\d+) seconds"))
    hit, miss = (
        int(printed(out, rf"^rocksdb\.block\.cache\.{what} COUNT : (\d+)$"))
        for what in ("hit", "miss")
    )
    assert opening > 10_000
    assert found["table_open_share"] == pytest.approx(opening / 1e6 / seconds)
    assert found["cache_hit_share"] == hit / (hit + miss)
    assert 0.1 < hit / (hit + miss) < 0.9
    # Of two threads' time it is half.
    spec, got = parsed(version, "tree-readrandom")
    two = replace(spec, flags={"statistics": True, "threads": 2})
    halved = rocksdb.metrics(two, got, None, Below())["table_open_share"]
    assert halved == pytest.approx(opening / 1e6 / seconds / 2)
    assert (found["wa_lsm"], found["flush_bytes"]) == (None, None)


def test_no_lookup_is_no_hit_share() -> None:
    spec, got = parsed("7.8", "statistics-fillrandom")
    assert got.statistics is not None
    none = replace(
        got.statistics, tickers={"rocksdb.block.cache.hit": 0, "rocksdb.block.cache.miss": 0}
    )
    found = rocksdb.metrics(spec, replace(got, statistics=none), None, Below())
    assert found["cache_hit_share"] is None


def test_the_tree_over_time() -> None:
    text = tree("9.10").read_text()
    points = log(tree("9.10")).points
    logged = re.findall(r"max score [\d.]+, estimated pending compaction bytes (\d+)", text)
    assert [point.pending for point in points] == [int(value) for value in logged]
    assert len(points) > 5
    assert values("9.10", "tree-overwrite")["pending_compaction_bytes"] == int(logged[-1])
    times = [point.micros for point in points]
    assert times == sorted(times)
    first = int(printed(text, r'"time_micros": (\d+)'))
    assert first <= times[0] < times[-1] < first + 60_000_000
    assert points[-1].files[0] == int(printed(text, r"(?s).*files\[(\d+) [\d ]+\] max score"))


def test_the_older_rocksdb_does_not_report_pending_bytes() -> None:
    points = log(tree("7.8")).points
    assert len(points) > 5
    assert {point.pending for point in points} == {None}
    assert values("7.8", "tree-overwrite")["pending_compaction_bytes"] is None


def test_the_share_of_reads_that_no_device_was_asked_for() -> None:
    """Direct reads of a recorded overwrite on f2fs, and the same with a warm page cache."""
    run = ROOT / "tests/fixtures/ledger/f2fs_disable_wal-0--r01"
    stored = rundir.load_result(run)
    spec = next(one for one in rundir.load_spec(run).phases if one.name == "overwrite")
    out, err = ((run / "raw" / f"overwrite.{kind}").read_text() for kind in ("stdout", "stderr"))
    got = DbBench().parse(spec, out, err)
    device = stored.metrics["overwrite.device_read"].value
    moved = stored.metrics["overwrite.gc_bytes"].value
    assert device is not None
    assert moved is not None

    def share(read: float | None) -> rocksdb.MetricValue:
        return rocksdb.metrics(spec, got, None, Below(1, read))["cache_served_share"]

    asked = 1_467_401_669
    assert rocksdb.metrics(spec, got, None, Below())["reads_asked"] == asked
    assert share(device - moved) == 1 - (1_568_550_912 - 113_897_472) / asked
    assert share(device - moved) == pytest.approx(0.0087, abs=1e-4)
    assert share(device) == 0.0  # never below: devices read whole blocks
    assert share(asked / 4) == 0.75
    assert share(None) is None


def test_without_statistics_their_metrics_are_absent() -> None:
    spec = phase("fillrandom")
    got = DbBench().parse(spec, *captured("7.8", "fillrandom"))
    found = rocksdb.metrics(spec, got, log(NO_WAL), Below(1))
    assert {"flush_bytes", "rocksdb_sum", "stalls_level0"} <= set(found)
    assert not {"wal_bytes", "wa_lsm", "stall_share", "cache_hit_share"} & set(found)


@pytest.mark.parametrize(
    ("cut", "missing"),
    [
        ("STATISTICS:", r"rocksdb\.wal\.bytes"),
        ("rocksdb.wal.bytes", r"rocksdb\.wal\.bytes"),
        ("rocksdb.table.open.io.micros", r"rocksdb\.table\.open\.io\.micros"),
    ],
)
def test_a_missing_count_is_an_error_and_never_zero(cut: str, missing: str) -> None:
    spec, (out, err) = phase("overwrite", statistics=True), captured("7.8", "statistics-overwrite")
    with pytest.raises(ToolFailed, match=f"no {missing}"):
        DbBench().parse(spec, out.partition(cut)[0], err)


def test_bytes_written_by_an_unfinished_phase_are_unknown() -> None:
    spec, (out, err) = phase("overwrite", statistics=True), captured("7.8", "statistics-overwrite")
    got = DbBench().parse(spec, out.partition("overwrite ")[0], err)
    assert got.summaries == 0
    found = rocksdb.metrics(spec, got, log(NO_WAL), Below(1))
    assert (found["wal_bytes"], found["wa_lsm"], found["stall_share"]) == (None, None, None)
    assert found["flush_bytes"]


def test_tables_written_at_close_are_counted() -> None:
    tables = log(NO_WAL).tables
    out, _ = captured("7.8", "statistics-overwrite")
    flushed = int(printed(out, r"^rocksdb.flush.write.bytes COUNT : (\d+)$"))
    compacted = int(printed(out, r"^rocksdb.compact.write.bytes COUNT : (\d+)$"))
    assert tables.flush > flushed
    assert abs(tables.compaction - compacted) < 2 * 1024 * 1024


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("RocksDB version:", "version:"),
        ('"event": "table_file_creation", ', '"event": "table_file_creation" '),
        ('"file_size": ', '"file_length": '),
        ("Stopping writes because we have", "Pausing writes because we have"),
        ("files[", "files{"),
    ],
)
def test_a_damaged_log_is_an_error(was: str, becomes: str) -> None:
    text = NO_WAL.read_text()
    assert was in text
    lines = text.replace(was, becomes).splitlines(keepends=True)
    with pytest.raises(ToolFailed, match="RocksDB's LOG") as caught:
        rocksdb_log.parse(lines)
    assert "version" in was or re.match(r"line \d+ of", caught.value.message)


def test_a_line_that_was_cut_short_by_the_end_does_not_count() -> None:
    whole = NO_WAL.read_text()
    end = whole.rindex('"event": "table_file_creation"')
    before, cut = log(NO_WAL), rocksdb_log.parse(whole[: end + 40].splitlines(keepends=True))
    assert cut is not None
    assert sum((cut.tables.flush, cut.tables.compaction)) < before.tables.flush + (
        before.tables.compaction
    )


def test_an_event_of_more_files_than_a_line_holds_is_still_a_compaction() -> None:
    text = tree("9.10").read_text()
    whole = rocksdb_log.parse(text.splitlines(keepends=True))
    at = text.index('"event": "compaction_started"')
    end = text.index("\n", at)
    cut = text[: (at + end) // 2] + text[end:]
    assert whole == rocksdb_log.parse(cut.splitlines(keepends=True))


def test_an_empty_log_gives_no_metrics() -> None:
    assert rocksdb_log.parse([]) is None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cut", [" Sum ", "  L1 ", "Level    Files   Size     Score"])
def test_a_table_of_levels_that_is_cut_is_refused(version: str, cut: str) -> None:
    out, err = captured(version, "tree-overwrite")
    end = out.index(cut)
    short = out[: end + len(cut) + 20]
    assert DbBench().parse(phase("overwrite"), out, err).levels
    with pytest.raises(ToolFailed, match="table of levels"):
        DbBench().parse(phase("overwrite"), short, err)


def test_a_row_of_another_shape_is_named_by_its_line() -> None:
    out, _ = captured("9.10", "tree-overwrite")
    lines = out.splitlines()
    number = next(i for i, line in enumerate(lines) if line.startswith("  L1 "))
    lines[number] = lines[number].replace("MB", "XB")
    with pytest.raises(ToolFailed, match=f"^line {number + 1} of db_bench"):
        rocksdb_stats.levels(lines)


TEXTS = {path: path.read_text() for path in (tree("7.8"), tree("9.10"), NO_WAL)}
OUTPUTS = [captured(version, "tree-overwrite")[0] for version in VERSIONS]


def refusal(call: Callable[[], object]) -> str:
    """Return why the text was refused, '' if it was parsed; other exceptions are not caught."""
    try:
        call()
    except ToolFailed as failure:
        return failure.message
    return ""


@pytest.mark.slow
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_foreign_text_in_a_log_is_read_or_refused(path: Path, data: st.DataObject) -> None:
    text = TEXTS[path]
    at = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(at, min(at + 400, len(text))))
    foreign = data.draw(st.text(max_size=40))
    damaged = text[:at] + foreign + text[end:]
    message = refusal(lambda: rocksdb_log.parse(damaged.splitlines(keepends=True)))
    assert re.match(r"$|line \d+ of RocksDB's LOG is damaged|RocksDB's LOG does not", message)


@pytest.mark.slow
@given(st.sampled_from(OUTPUTS), st.data())
def test_foreign_text_on_stdout_is_read_or_refused(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(at, min(at + 400, len(text))))
    damaged = text[:at] + data.draw(st.text(max_size=40)) + text[end:]
    spec = phase("overwrite", statistics=True)
    message = refusal(
        lambda: rocksdb.metrics(spec, DbBench().parse(spec, damaged, ""), None, Below(1))
    )
    assert re.match(r"$|phase p: db_bench's output is damaged: ", message)


MEASURE = """
import resource, sys
from pathlib import Path
from harness.tools import rocksdb_log
from harness.workloads import rocksdb
from harness.workloads.db_bench import DbBench
from harness.store.spec import PhaseRole, PhaseSpec
flags = {"statistics": True}
spec = PhaseSpec("p", "overwrite", PhaseRole.MEASURED, flags, 20_000, 416, False, 60)
out, err = (Path(sys.argv[2] + end).read_text() for end in (".out", ".err"))
got = DbBench().parse(spec, out, err)
before = resource.getrusage(resource.RUSAGE_SELF)
with open(sys.argv[1], encoding="utf-8", errors="replace", newline="\\n") as lines:
    found = rocksdb.metrics(spec, got, rocksdb_log.parse(lines), rocksdb.Below(1))
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
print(cpu, peak, found["flush_bytes"])
"""


@pytest.mark.slow
def test_fifty_megabytes_of_log_take_two_seconds_and_200_mib_at_most(tmp_path: Path) -> None:
    """Generated: the events of a captured LOG over and over, as hours of overwriting leave them."""
    text = tree("9.10").read_text()
    begin = text.index("EVENT_LOG_v1")
    head, body = text[: text.rindex("\n", 0, begin) + 1], text[text.rindex("\n", 0, begin) + 1 :]
    copies = 50_000_000 // len(body) + 1
    big = tmp_path / "LOG"
    with big.open("w") as file:
        file.write(head)
        for _ in range(copies):
            file.write(body)
    assert big.stat().st_size >= 50_000_000
    # CPU time, and in a process of its own: others on this machine are not what is asked for.
    argv = [sys.executable, "-c", MEASURE, str(big), str(tree("9.10").with_suffix(""))]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=True)
    seconds, kib, flushed = done.stdout.split()
    one = log(tree("9.10")).tables
    assert int(flushed) == one.flush * copies
    assert float(seconds) <= 2
    assert int(kib) * 1024 <= 200 * 1024 * 1024
