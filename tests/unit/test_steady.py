"""Steady state: labels of synthetic series with known answers, and of the example's real series."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.judge.compare import compare
from analysis.read import steady
from analysis.read.load import RunRecord, load
from analysis.read.series import read_throughput
from analysis.read.steady import PhaseSeries, Steady, SteadyLabel, TimeSeries
from analysis.show.footer import footer
from analysis.show.headline import answers
from analysis.show.render import render
from analysis.show.report import write_report
from harness.store import packed
from harness.store.spec import DeviceKind
from tests.bench import steady_simulation as simulation
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.example import unpacked

EXAMPLE = unpacked()
MIB = 2**20
CAPACITY = 1000 * MIB
PAYLOAD = 1000
RATE = 10_000.0  # operations per second
SECONDS = 100


def curve(values: list[float]) -> TimeSeries:
    return TimeSeries(tuple(float(t) for t in range(len(values))), tuple(values))


def load_of(
    rates: list[float], *, wa: float = 3.0, pending: TimeSeries | None = None, filled: float = 0.0
) -> PhaseSeries:
    """Seconds with these rates. ``filled``: capacities written before the fill ended."""
    done = [0.0]
    for rate in rates:
        done.append(done[-1] + rate)
    written = tuple(CAPACITY + wa * PAYLOAD * ops for ops in done)
    times = tuple(float(t) for t in range(len(done)))
    return PhaseSeries(
        TimeSeries(times, tuple(done)),
        TimeSeries((-1.0, *times), (0.0, *written)),
        pending or curve([5e6] * len(done)),
        PAYLOAD,
        CAPACITY,
        filled * CAPACITY,
    )


def judge(*phases: PhaseSeries) -> Steady:
    """Label the runs of one phase."""
    return steady.judge([steady.rounds_of(phase) for phase in phases])


def by_cell(run: RunRecord) -> tuple[str, str]:
    return run.cell, ""


def doubling(load_: PhaseSeries) -> PhaseSeries:
    """The same operations, while the write amplification rises to twice its begin."""
    total = [CAPACITY * 1.0]
    done = load_.operations.values
    for a, b in pairwise(done):
        total.append(total[-1] + 3 * PAYLOAD * (b - a) * (1 + b / done[-1]))
    return replace(load_, written=TimeSeries(load_.operations.t, tuple(total)))


def test_a_flat_phase_is_steady_and_shows_its_blocks() -> None:
    found = judge(load_of([RATE] * SECONDS))
    assert (found.label, found.rounds) == (SteadyLabel.STEADY, 20)
    assert (found.begin, found.end) == pytest.approx((100 / 22, 2100 / 22))
    # 100 s at 30 MB/s, and the capacity before
    assert found.why.startswith("386% of the capacity written after the fill; throughput +0%")
    assert steady.window(found).startswith("20 rounds from 4.545 to 95.45 s: 386%")


@pytest.mark.parametrize(
    ("rates", "label"),
    [
        ([RATE * (1 + t / 2 / SECONDS) for t in range(SECONDS)], SteadyLabel.NOT_STEADY),
        ([RATE * (1 + 0.08 * t / SECONDS) for t in range(SECONDS)], SteadyLabel.STEADY),
        ([RATE * (0.5 + t % 2) for t in range(SECONDS)], SteadyLabel.STEADY),  # noise, no drift
        # A line describes a step badly: its error is large, so nothing is known.
        ([RATE] * 50 + [RATE / 2] * 50, SteadyLabel.TOO_SHORT),
    ],
)
def test_a_drift_of_the_throughput(rates: list[float], label: SteadyLabel) -> None:
    assert judge(load_of(rates)).label is label


def test_a_doubling_that_the_last_rounds_do_not_show_is_not_steady() -> None:
    found = judge(doubling(load_of([RATE] * 600)))
    assert found.label is SteadyLabel.NOT_STEADY
    assert "throughput -0%" in found.why or "throughput +0%" in found.why


def test_noise_that_could_hide_a_doubling_is_too_short() -> None:
    rng = np.random.default_rng(3)
    noisy = [float(RATE * rng.lognormal(0, 1.5)) for _ in range(SECONDS)]
    found = judge(replace(load_of(noisy), payload=0, pending=None))
    assert found.label is SteadyLabel.TOO_SHORT


def test_a_single_noisy_quantity_is_enough_to_be_too_short() -> None:
    backlog = np.random.default_rng(5).lognormal(22, 1, SECONDS + 1)
    found = judge(load_of([RATE] * SECONDS, pending=curve([float(v) for v in backlog])))
    assert "throughput +0% (up to 0%)" in found.why
    assert found.label is SteadyLabel.TOO_SHORT


def swinging(low: float, high: float, growth: float = 1.0) -> PhaseSeries:
    """Reads whose rate changes every ten seconds, and ``growth`` times over the phase."""
    steps = np.linspace(1, growth, 220)
    rates = [RATE * step * (high if t // 10 % 2 else low) for t, step in enumerate(steps)]
    return replace(load_of(rates), payload=0, pending=None)


def test_runs_of_a_cell_are_judged_together() -> None:
    """Alone, each run is too noisy. Together they are even."""
    for growth, label in ((1.0, SteadyLabel.STEADY), (2.0, SteadyLabel.NOT_STEADY)):
        runs = swinging(0.2, 1.8, growth), swinging(1.8, 0.2, growth)
        assert {judge(run).label for run in runs} == {SteadyLabel.TOO_SHORT}
        assert judge(*runs).label is label


def test_the_run_with_least_decides_what_is_enough() -> None:
    long, early = load_of([RATE] * SECONDS), load_of([RATE] * 30, filled=1.5)
    assert judge(long, early).label is SteadyLabel.TOO_SHORT  # its device writes
    few = judge(long, load_of([RATE] * 13))
    assert (few.label, few.rounds) == (SteadyLabel.TOO_SHORT, 4)
    some = judge(long, load_of([RATE] * 30))
    assert (some.label, some.rounds) == (SteadyLabel.STEADY, 13)


def test_other_numbers_of_rounds_have_the_same_mean() -> None:
    values = [1.0, 2.0, 6.0, 7.0]
    assert list(steady._rebinned(values, 4)) == values
    assert list(steady._rebinned(values, 2)) == [1.5, 6.5]
    assert steady._rebinned(values, 3).mean() == pytest.approx(4.0)
    assert list(steady._rebinned(values, 3)) == pytest.approx([1.25, 4.0, 6.75])


def test_the_ends_of_a_phase_are_left_out() -> None:
    """It begins faster, as nothing waits for compaction, and ends while writers are stalled."""
    bursts = [RATE * (t % 5 == 0) for t in range(200)]
    phase = load_of([4 * RATE] * 10 + bursts + [0.0] * 10)
    compacting = TimeSeries(phase.written.t, tuple(1e8 * (t + 20) for t in phase.written.t))
    found = judge(replace(phase, written=compacting))
    assert found.label is SteadyLabel.STEADY
    assert "throughput +0% (up to 0%)" in found.why or "throughput -0% (up to 0%)" in found.why
    assert (found.begin, found.end) == pytest.approx((10.0, 210.0))


def test_a_growing_backlog_is_not_steady_and_a_swinging_backlog_is() -> None:
    # 10 MB/s of user bytes, so 2 MB/s more to compact is a fifth of them.
    grows = curve([2e6 * t for t in range(SECONDS + 1)])
    assert judge(load_of([RATE] * SECONDS, pending=grows)).label is SteadyLabel.NOT_STEADY
    swings = curve([40e6 * (t % 2) for t in range(SECONDS + 1)])
    assert judge(load_of([RATE] * SECONDS, pending=swings)).label is SteadyLabel.STEADY


def test_a_backlog_far_below_the_user_bytes_does_not_count() -> None:
    """It grows from nothing to 100 B, and 10 MB/s are written."""
    grows = curve([float(t) for t in range(SECONDS + 1)])
    found = judge(load_of([RATE] * SECONDS, pending=grows))
    assert found.label is SteadyLabel.STEADY
    assert found.why.endswith("pending compaction of user bytes +0% (up to 0%)")


def test_pending_bytes_that_no_log_has_are_not_judged() -> None:
    known, unknown = load_of([RATE] * SECONDS), replace(load_of([RATE] * SECONDS), pending=None)
    for runs in ((unknown,), (known, unknown), (unknown, known)):
        found = judge(*runs)
        assert found.label is SteadyLabel.STEADY
        assert "pending" not in found.why


def test_a_phase_of_four_blocks_is_too_short() -> None:
    found = judge(load_of([RATE] * 13))
    assert (found.label, found.rounds, found.why) == (
        SteadyLabel.TOO_SHORT,
        4,
        "4 of 5 rounds of 2 s",
    )


def test_a_phase_of_five_blocks_is_judged() -> None:
    found = judge(load_of([RATE] * 14))
    assert (found.label, found.rounds) == (SteadyLabel.STEADY, 5)


def test_less_than_the_capacity_after_the_fill_is_too_short() -> None:
    assert judge(load_of([RATE] * 30, filled=1.5)).label is SteadyLabel.TOO_SHORT
    assert judge(load_of([RATE] * 30, filled=0.5)).label is SteadyLabel.STEADY


def test_a_phase_that_stood_still_is_not_steady() -> None:
    load_ = load_of([RATE] * 70 + [0.0] * 30)
    written = TimeSeries(load_.written.t, tuple(1e8 * (t + 20) for t in load_.written.t))
    found = judge(replace(load_, written=written))
    assert found.label is SteadyLabel.NOT_STEADY
    assert found.why == "a round without an operation"


def test_reads_have_blocks_of_time() -> None:
    reads = replace(load_of([RATE] * SECONDS), payload=0, pending=None)
    found = judge(reads)
    assert found.label is SteadyLabel.STEADY
    assert (found.begin, found.end) == pytest.approx((100 / 22, 2100 / 22))
    assert found.why.startswith("throughput ")
    assert "capacity" not in found.why
    falls = load_of([RATE * (2 - t / SECONDS) for t in range(SECONDS)])
    assert judge(replace(falls, payload=0)).label is SteadyLabel.NOT_STEADY


def test_a_phase_whose_bytes_stay_in_memory_has_blocks_of_time() -> None:
    rounds = steady.rounds_of(load_of([RATE] * SECONDS, wa=0.0))
    assert rounds.window == pytest.approx((100 / 22, 2100 / 22))
    assert rounds.throughputs == pytest.approx([RATE] * 20)


def test_device_writes_at_one_moment_make_no_rounds() -> None:
    burst = TimeSeries((0.0, 50.0, 50.0, 100.0), (0.0, 0.0, 1e9, 1e9))
    rounds = steady.rounds_of(replace(load_of([RATE] * SECONDS), written=burst))
    assert (rounds.window, rounds.throughputs) == (None, ())


# Stationary series with a coefficient of variation of 1, and lines that double over the phase.
@pytest.mark.parametrize(
    ("seconds", "runs", "memory"), [(600, 1, 0.0), (1800, 1, 0.5), (300, 4, 0.0)]
)
def test_noise_is_steady_and_a_doubling_is_not(seconds: int, runs: int, memory: float) -> None:
    def words(shape: str) -> tuple[float, float]:
        return simulation.words(simulation.series(shape, seconds, memory, 1000 * runs), runs)

    stationary, _ = words("stationary")
    assert stationary >= 0.90
    for shape in ("doubles", "halves", "steps to twice"):
        called, seen = words(shape)
        assert called <= 0.05
        assert seen >= 0.90


def test_short_series_with_memory_are_rarely_called_wrong() -> None:
    flat, drifts = simulation.words(simulation.series("stationary", 300, 0.8, 2000))
    assert drifts <= 0.06
    assert flat <= 0.05  # too short to know
    called, _ = simulation.words(simulation.series("doubles", 300, 0.8, 2000))
    assert called <= 0.05


def test_stalls_show_as_a_low_rate(tmp_path: Path) -> None:
    """db_bench on zlfs prints a line per 1000 operations: a stall is a long interval."""
    run = next(run for run in load(write_campaign(tmp_path / "c")).runs if run.ok)
    rows = "t,operations\n1.0,1000\n2.0,1000\n12.0,1000\n13.0,1000\n"
    (run.path / "series/overwrite.csv").write_text(rows)
    (line,) = [line for line in read_throughput(run) if line.name == "overwrite"]
    assert (line.t, line.values) == ((2.0, 12.0, 13.0), (1000.0, 100.0, 1000.0))


rates = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


@given(rates, st.floats(0.1, 10), st.booleans())
def test_any_series_has_a_label(found: list[float], wa: float, known: bool) -> None:
    load_ = load_of(found, wa=wa)
    result = judge(load_ if known else replace(load_, pending=None))
    assert result.label in SteadyLabel
    assert result.why
    assert (result.begin is None) == (result.rounds == 0)
    if result.label is SteadyLabel.STEADY:
        assert 5 <= result.rounds <= 20


@given(rates)
def test_the_inverse_of_a_curve_that_rises(values: list[float]) -> None:
    rising = load_of(values).operations
    middle = rising.values[-1] / 2
    found = rising.last_at_most(middle)
    assume(rising.values[-1] > 0)
    assert rising.at(found) == pytest.approx(middle, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("t", "value"), [(-5, 1), (0, 1), (5, 2), (10, 3), (20, 3)])
def test_a_curve_is_linear_between_points_and_constant_outside(t: float, value: float) -> None:
    assert TimeSeries((0.0, 10.0), (1.0, 3.0)).at(t) == value


def test_the_mean_of_a_value_that_holds() -> None:
    held = TimeSeries((0.0, 10.0, 20.0), (1.0, 3.0, 5.0))
    assert held.mean(0, 20) == 2
    assert held.mean(5, 15) == 2
    assert held.mean(-5, 5) == 1
    assert held.mean(21, 22) == 5


@pytest.mark.slow
def test_the_label_is_in_every_form_and_in_the_report(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c")), metrics=["overwrite.*"])
    assert all(row.steady == ("too short", "too short") for row in comparison.rows)
    for form in ("table", "md", "json", "csv"):
        text = render(comparison, form)
        assert "f2fs: too short" in text, form
    assert all("; 8 blocks" not in line for line in render(comparison, "csv").splitlines())
    phases = json.loads(render(comparison, "json"))["steady"]
    assert len(phases) == 3 * 2  # overwrite and readrandom; the fill is not measured
    assert {phase["runs"] for phase in phases} == {3}
    page = write_report(comparison, tmp_path / "out")[0]
    assert '<h3 id="steady">Steady state</h3>' in page.read_text()
    rows = (page.parent / "tables" / "steady.csv").read_text().splitlines()
    assert len(rows) == 1 + 6


def test_without_series_the_label_is_there_too(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c", series=False)))
    assert comparison.steady
    assert {one.steady.why for one in comparison.steady} == {"no series was recorded"}
    assert {one.steady.label for one in comparison.steady} == {SteadyLabel.TOO_SHORT}
    assert not any(one.recorded for one in comparison.steady)
    lines = [line for line in footer(comparison) if line.startswith("steady state: ")]
    assert lines == ["steady state: not known in 6 phases without a series"]
    assert "not steady" not in answers(comparison)[-1].text


def test_on_a_modelled_drive_times_are_of_the_model(tmp_path: Path) -> None:
    """The same series gives the same label on a drive without dilation."""
    run = load(write_campaign(tmp_path / "c")).runs[0]
    device = replace(run.result.device, kind=DeviceKind.MODELLED, model="zoneblk m-00000000 x8")
    slow = replace(run, result=replace(run.result, device=device))
    (found, *_), (modelled, *_) = (steady.label_phases([one], by_cell) for one in (run, slow))
    assert found.steady.begin is not None
    assert found.steady.end is not None
    begin, end = found.steady.begin / 8, found.steady.end / 8
    assert modelled.steady == replace(found.steady, begin=begin, end=end)
    ((rates,), (faster,)) = found.throughputs, modelled.throughputs
    assert faster == tuple(8 * rate for rate in rates)
    assert modelled.recorded


@pytest.mark.parametrize(
    ("name", "rows", "why"),
    [
        ("overwrite", "t,operations\n1.0,1000\n2.0,1000\n", "0 of 5 rounds of 2 s"),
        ("overwrite", "t,operations\n", "no series was recorded"),
        ("diskstats", "t,nvme0n2.write_bytes\n", "no series was recorded"),
    ],
)
def test_a_phase_without_rounds_has_no_window_on_a_modelled_drive_either(
    tmp_path: Path, name: str, rows: str, why: str
) -> None:
    run = load(write_campaign(tmp_path / "c")).runs[0]
    device = replace(run.result.device, kind=DeviceKind.MODELLED, model="zoneblk m-00000000 x8")
    (run.path / f"series/{name}.csv").write_text(rows)
    slow = replace(run, result=replace(run.result, device=device))
    found = {one.phase: one.steady for one in steady.label_phases([slow], by_cell)}["overwrite"]
    assert (found.begin, found.end, found.why) == (None, None, why)


def test_real_series_of_the_example() -> None:
    """Series of an emulated device: not a result, but real fluctuations."""
    campaign = load(EXAMPLE)
    wanted = [run for run in campaign.runs if run.name == "f2fs--r01"]
    labels = {one.phase: one.steady for one in steady.label_phases(wanted, by_cell)}
    assert set(labels) == {"overwrite", "readrandom"}
    overwrite = labels["overwrite"]
    assert (overwrite.label, overwrite.rounds) == (SteadyLabel.TOO_SHORT, 19)
    series = packed.text(wanted[0].path / "series/overwrite.csv").splitlines()
    times = [float(line.partition(",")[0]) for line in (series[1], series[-1])]
    assert times[0] < (overwrite.begin or 0) < (overwrite.end or 0) < times[1]
    assert "of the capacity written after the fill" in overwrite.why
    assert labels["readrandom"].label is SteadyLabel.TOO_SHORT


def test_a_phase_of_one_second_has_no_rate(tmp_path: Path) -> None:
    run = next(run for run in load(write_campaign(tmp_path / "c")).runs if run.ok)
    (run.path / "series/overwrite.csv").write_text("t,operations\n1.0,1000\n")
    assert "overwrite" not in {line.name for line in read_throughput(run)}
