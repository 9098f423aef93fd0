"""db_bench: argument lists and the strict reading of captured outputs (tests/fixtures/db_bench)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import ConfigError, ToolFailed
from harness.levels.level import LevelUp
from harness.metrics.catalogue import CATALOGUE
from harness.store import packed
from harness.store.spec import DeviceKind, PhaseRole, PhaseSpec, Scalar
from harness.tools import db_bench, histogram
from harness.tools.db_bench import BenchmarkSummary
from harness.workloads import db_bench_contradictions, load_program
from harness.workloads.db_bench import DbBench
from harness.workloads.load_program import Invocation, ProgramReport
from tests.fixtures.level_host import ZONED

FIXTURES = Path(__file__).parents[1] / "fixtures" / "db_bench"
VERSIONS = ("7.8", "9.10")
PROGRAM = Path("/usr/bin/db_bench")
CSV = Path("/run/x/intervals.csv")
STDERR = Path("/run/x/p.stderr")
SLOWED = replace(ZONED, kind=DeviceKind.MODELLED, model="zoneblk zones-4m-01234567 x128")


def phase(benchmark: str, **flags: str | int | float | bool) -> PhaseSpec:
    return PhaseSpec("p", benchmark, PhaseRole.MEASURED, flags, 20_000, 416, False, 60)


def captured(version: str, name: str) -> tuple[str, str]:
    folder = FIXTURES / version
    return (folder / f"{name}.out").read_text(), (folder / f"{name}.err").read_text()


def parsed(version: str, name: str, benchmark: str = "") -> load_program.Parsed:
    return DbBench().parse(phase(benchmark or name), *captured(version, name))


def level(db: str | None = "/m/db", fs_uri: str | None = None) -> LevelUp:
    return LevelUp(Path(db) if db else None, fs_uri, None, ())


def report(up: LevelUp | None = None) -> ProgramReport:
    return DbBench().report(up or level(), CSV, STDERR)


def test_argv_of_a_first_phase() -> None:
    spec = phase("fillrandom", num=1000, key_size=16, use_direct_reads=True, rate=1.5)
    argv = DbBench().argv(
        Invocation(spec, level(), 42, first=True, program=PROGRAM, report=report())
    )
    assert argv == [
        "/usr/bin/db_bench",
        "--benchmarks=fillrandom,stats",
        "--db=/m/db",
        "--use_existing_db=false",
        "--seed=42",
        "--histogram=true",
        "--report_interval_seconds=1",
        "--report_file=/run/x/intervals.csv",
        "--num=1000",
        "--key_size=16",
        "--use_direct_reads=true",
        "--rate=1.5",
    ]


def test_argv_of_a_later_phase_keeps_the_database() -> None:
    argv = DbBench().argv(
        Invocation(phase("overwrite"), level(), 1, first=False, program=PROGRAM, report=report())
    )
    assert "--use_existing_db=true" in argv


def test_argv_of_a_level_with_a_uri() -> None:
    up = level(None, "zlfs://dev:nvme0n2")
    argv = DbBench().argv(
        Invocation(phase("overwrite"), up, 1, first=False, program=PROGRAM, report=report(up))
    )
    assert "--fs_uri=zlfs://dev:nvme0n2" in argv
    assert "--db=db" in argv
    # db_bench would write its report file through the file system that is measured.
    assert "--stats_interval_seconds=1" in argv
    assert not any(word.startswith("--report") for word in argv)
    assert report(up).path == STDERR


def test_a_slowed_drive_reports_after_a_few_operations() -> None:
    """db_bench looks at the clock every 1,000 operations: as many as take 13 s at k = 128."""
    up = replace(level(None, "zlfs://dev:ublkb0"), devices=(SLOWED,))
    assert report(up).flags == {"stats_interval": 16}
    assert report(replace(up, devices=(ZONED,))).flags == {"stats_interval_seconds": 1}


def test_rates_follow_the_clock_of_a_slowed_drive() -> None:
    def rates(up: LevelUp, **flags: Scalar) -> dict[str, str]:
        spec = phase("overwrite", **flags)
        call = Invocation(spec, up, 1, first=False, program=PROGRAM, report=report(up))
        words = [word.removeprefix("--").partition("=") for word in DbBench().argv(call)]
        return {name: value for name, _, value in words if "rate" in name}

    slow = replace(level(), devices=(ZONED, SLOWED))
    assert rates(slow) == {"delayed_write_rate": str(8 * 2**20 // 128)}  # db_bench's own rate
    assert rates(slow, delayed_write_rate=2**30, benchmark_write_rate_limit=0) == {
        "delayed_write_rate": str(2**30 // 128),
        "benchmark_write_rate_limit": "0",
    }
    assert rates(slow, benchmark_write_rate_limit=1)["benchmark_write_rate_limit"] == "1"
    usual = replace(slow, devices=(ZONED,))
    limits = ("rate_limiter_bytes_per_sec", "benchmark_write_rate_limit")
    for name in (*limits, "benchmark_read_rate_limit"):
        assert rates(slow, **{name: 1280})[name] == "10"
        assert rates(usual, **{name: 1280}) == {name: "1280"}
    assert rates(usual) == rates(level()) == {}


@pytest.mark.parametrize("name", sorted(DbBench.reserved))
def test_a_workload_must_not_set_the_runners_flags(name: str) -> None:
    with pytest.raises(ConfigError, match=f"--{name}"):
        DbBench().argv(
            Invocation(
                phase("overwrite", **{name: 1}),
                level(),
                1,
                first=False,
                program=PROGRAM,
                report=report(),
            )
        )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "case",
    [
        ("fillrandom", "", 20_000, True, {"write"}),
        ("overwrite", "", 20_000, True, {"write"}),
        ("readrandom", "", 5_000, True, {"read"}),
        ("readseq", "", 12_636, True, {"read"}),
        ("seekrandom", "", 2_000, False, {"seek"}),
        ("updaterandom", "", 20_000, True, {"update"}),
        ("readwhilewriting", "", None, True, {"read"}),
        ("mixed", "readrandomwriterandom", None, False, {"read", "write"}),
    ],
)
def test_captured_summaries(
    version: str, case: tuple[str, str, int | None, bool, set[str]]
) -> None:
    name, benchmark, operations, has_mb, histograms = case
    got = parsed(version, name, benchmark)
    assert got.summaries == 1
    assert got.summary is not None
    assert got.summary.benchmark == (benchmark or name)
    assert operations is None or got.summary.operations == operations
    assert (got.summary.mb_per_second is not None) == has_mb
    assert set(got.histograms) == histograms
    assert sum(h["count"] for h in got.histograms.values()) == got.summary.operations
    assert got.assertions
    assert not got.skipped


def test_summary_fields() -> None:
    assert parsed("9.10", "fillrandom").summary == BenchmarkSummary(
        "fillrandom", 138.041, 7243, 2.761, 20_000, 2.9
    )


def test_metrics_of_a_capture() -> None:
    metrics = load_program.metrics(phase("fillrandom"), parsed("9.10", "fillrandom"))
    assert set(metrics) <= set(CATALOGUE)
    value = {name: metric.value for name, metric in metrics.items()}
    assert value["operations"] == 20_000
    assert value["user_bytes"] == 20_000 * 416
    assert value["throughput"] == pytest.approx(20_000 / 2.761)
    assert value["latency_mean"] == pytest.approx(137.9385)
    assert value["latency_max"] == 259_775
    # db_bench prints P50: 68.72, P99: 1472.50 for the same buckets.
    assert value["latency_p50"] == pytest.approx(68.72, abs=0.005)
    assert value["latency_p99"] == pytest.approx(1472.50, abs=0.005)
    # 20,000 samples leave 20 above p99.9: not enough to tell.
    assert value["latency_p99_9"] is None
    assert value["latency_p99_99"] is None


@pytest.mark.parametrize("version", VERSIONS)
def test_percentiles_equal_db_benchs(version: str) -> None:
    stdout, _ = captured(version, "mixed")
    read = parsed(version, "mixed", "readrandomwriterandom").histograms["read"]
    line = next(x for x in stdout.splitlines() if x.startswith("Percentiles:"))
    printed = float(line.split("P50: ")[1].split()[0])
    assert histogram.quantile(read, 5_000) == pytest.approx(printed, abs=0.006)


def test_two_summaries_are_counted_and_neither_is_used() -> None:
    got = parsed("9.10", "double", "overwrite")
    assert got.summaries == 2
    assert got.summary is None
    assert load_program.metrics(phase("overwrite"), got)["throughput"].value is None


def test_doubled_output_is_counted_twice() -> None:
    stdout, stderr = captured("9.10", "overwrite")
    got = DbBench().parse(phase("overwrite"), stdout + stdout, stderr)
    assert (got.summaries, got.summary) == (2, None)


def test_summary_of_another_benchmark_is_not_taken() -> None:
    got = parsed("9.10", "overwrite", "fillrandom")
    assert (got.summaries, got.summary) == (1, None)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["skipped", "unknown"])
def test_aborted_runs_have_no_numbers(version: str, name: str) -> None:
    got = parsed(version, name, "fillseq")
    assert (got.summaries, got.summary, got.histograms) == (0, None, {})
    metrics = load_program.metrics(phase("fillseq"), got)
    assert {metric.value for metric in metrics.values()} == {None}


def test_skipped_line_of_a_release_build() -> None:
    stdout = (FIXTURES / "synthetic/skipped.out").read_text()
    got = DbBench().parse(phase("fillseq"), stdout, "")
    assert got.skipped
    assert got.summaries == 0


def test_crash_before_the_summary_raises_nothing() -> None:
    stdout, stderr = captured("9.10", "fillrandom")
    got = DbBench().parse(phase("fillrandom"), stdout.split("fillrandom ")[0], stderr)
    assert (got.summaries, got.summary) == (0, None)
    assert got.assertions


@pytest.mark.parametrize(
    "marker", ["Count: ", "Min: ", "Percentiles: ", "(      76,", "(  250000,"]
)
def test_output_cut_inside_the_histogram_is_refused(marker: str) -> None:
    stdout, stderr = captured("9.10", "fillrandom")
    with pytest.raises(ToolFailed, match="histogram of write"):
        DbBench().parse(phase("fillrandom"), stdout[: stdout.index(marker)], stderr)


def test_summary_cut_in_the_middle_is_no_summary() -> None:
    stdout, stderr = captured("9.10", "fillrandom")
    cut = stdout[: stdout.index(" ops/sec")]
    got = DbBench().parse(phase("fillrandom"), cut, stderr)
    assert (got.summaries, got.summary) == (0, None)


def test_damaged_summary_beside_a_good_one_is_refused() -> None:
    stdout, stderr = captured("9.10", "overwrite")
    bad = "overwrite    :     nan micros/op -1 ops/sec"
    with pytest.raises(ToolFailed, match="summary line"):
        DbBench().parse(phase("overwrite"), f"{bad}\n{stdout}", stderr)


def test_a_finished_benchmark_without_histogram_is_refused() -> None:
    with pytest.raises(ToolFailed, match="no histogram"):
        parsed("9.10", "nohist", "overwrite")


def test_changed_bucket_count_is_refused() -> None:
    stdout, stderr = captured("9.10", "fillrandom")
    assert "    11862  " in stdout
    with pytest.raises(ToolFailed, match="histogram of write"):
        DbBench().parse(phase("fillrandom"), stdout.replace("    11862  ", "    11863  "), stderr)


def test_garbage_has_no_numbers() -> None:
    got = DbBench().parse(phase("overwrite"), "\0\x1b[31mPermission denied\n" * 3, "::: ops/sec\n")
    assert (got.summaries, got.summary, got.histograms, got.warnings) == (0, None, {}, ())


def test_merge_adds_bucket_by_bucket() -> None:
    one = histogram.make(300, 600.0, 1, 4, [[0, 2, 200], [2, 4, 100]])
    two = histogram.make(100, 500.0, 3, 9, [[2, 4, 50], [6, 9, 50]])
    merged = histogram.merge([one, two])
    assert merged is not None
    assert merged["buckets"] == [[0, 2, 200], [2, 4, 150], [6, 9, 50]]
    assert (merged["count"], merged["sum"], merged["min"], merged["max"]) == (400, 1100.0, 1, 9)
    assert histogram.quantile(merged, 5_000) == pytest.approx(2.0)
    assert histogram.merge([]) is None


@pytest.mark.parametrize(("count", "enough"), [(199, False), (200, True)])
def test_a_median_needs_a_hundred_samples_above_it(count: int, enough: bool) -> None:
    one = histogram.make(count, 1.0, 1, 2, [[1, 2, count]])
    assert (histogram.quantile(one, 5_000) is not None) == enough


@pytest.mark.parametrize(("count", "enough"), [(999_999, False), (1_000_000, True)])
def test_p99_99_needs_a_million_samples(count: int, enough: bool) -> None:
    one = histogram.make(count, 1.0, 1, 2, [[1, 2, count]])
    assert (histogram.quantile(one, 9_999) is not None) == enough


def test_quantiles_stay_within_the_samples() -> None:
    one = histogram.make(1_000, 1.0, 55, 60, [[51, 76, 1_000]])
    assert histogram.quantile(one, 5_000) == 60


def test_user_bytes_follow_the_phase() -> None:
    reads = replace(phase("readrandom"), user_bytes_per_operation=0)
    metrics = load_program.metrics(reads, parsed("9.10", "readrandom"))
    assert metrics["user_bytes"].value == 0


def test_intervals_of_a_capture() -> None:
    text = (FIXTURES / "9.10/fillrandom.csv").read_text()
    assert db_bench.intervals(text) == [(1, 3992), (2, 9263)]
    assert sum(map(DbBench().operations_in, text.splitlines())) == 3992 + 9263


def test_intervals_on_stderr_of_a_capture() -> None:
    text = (FIXTURES / "7.8/stats.err").read_text()
    points = db_bench.stats_intervals(text.splitlines())
    # Two threads of 100,000 operations; what comes after their last lines is in none.
    assert points == [(1, 58_000), (2, 76_000), (3, 58_000)]
    assert sum(map(DbBench().operations_in, text.splitlines())) == 94_000 + 98_000


def test_a_cut_line_on_stderr_is_left_out() -> None:
    text = (FIXTURES / "7.8/stats.err").read_text()
    cut = text[: text.index(" seconds\n")]
    assert db_bench.stats_intervals(cut.splitlines()) == []


@pytest.mark.parametrize("compressed", [False, True])
def test_a_report_on_stderr_is_longer_than_the_limit_of_output(
    tmp_path: Path, compressed: bool
) -> None:
    """On a slowed drive it has a line for 16 operations: 70 MB for 10 million."""
    row = "2026/11/21-10:02:30 ... thread 0: (16,{0}) ops and (1,1) ops/second in (1,{0}.0) seconds"
    lines = [row.format(second) for second in range(50_000)]
    (tmp_path / "p.stderr").write_text("\n".join(["RocksDB", *lines, "No space left"]) + "\n")
    if compressed:
        packed.compress_large(tmp_path)
    points = DbBench().kept_rows(tmp_path, "p")
    assert points == [(float(second), "16") for second in range(50_000)]
    errors = load_program.messages(tmp_path / "p.stderr")
    assert errors.startswith("RocksDB\n")
    assert errors.endswith("\nNo space left\n")
    assert 4 << 20 < len(errors) < 5 << 20


def test_a_report_of_seconds_is_longer_than_the_limit_of_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_program, "_OUTPUT_LIMIT", 40)
    file = tmp_path / "p.report.csv"
    file.write_text("secs_elapsed,interval_qps\n" + "".join(f"{t},9\n" for t in range(99)))
    assert len(DbBench().kept_rows(tmp_path, "p")) == 99


def test_an_unfinished_last_interval_is_left_out() -> None:
    assert db_bench.intervals("secs_elapsed,interval_qps\n1,39\n2,4") == [(1, 39)]


@pytest.mark.parametrize("text", ["", "1,2\n", "secs_elapsed,interval_qps\n1,x\n"])
def test_a_strange_interval_file_is_refused(text: str) -> None:
    with pytest.raises(ToolFailed):
        db_bench.intervals(text)


@pytest.mark.parametrize(
    ("seconds", "contradicts"),
    [
        (16.159, False),
        (16.514, False),  # the main thread woke up 0.36 s late
        (17.1, False),
        (17.5, True),
        (15.9, True),  # operations cannot take longer than all of them together
    ],
)
def test_the_seconds_of_a_summary_can_be_longer_than_its_operations(
    seconds: float, contradicts: bool
) -> None:
    rate = f"{int(4672 / seconds)} ops/sec {seconds} seconds 4672 operations;"
    line = f"overwrite    :    3458.615 micros/op {rate}\n"
    ended = SimpleNamespace(
        spec=replace(phase("overwrite"), operations=4672), parsed=None, output=line, seconds=18.0
    )
    found = list(db_bench_contradictions.of_output(ended, 1))
    assert bool(found) is contradicts, found
