"""Steady state: labels of synthetic series with known answers, and of the example's real series."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.judge.compare import compare
from analysis.read import steady
from analysis.read.load import load
from analysis.read.steady import Curve, Label, Progress, judge
from analysis.show.render import render
from analysis.show.report import write_report
from harness.store import packed
from tests.fixtures.campaigns import write_campaign
from tests.fixtures.example import unpacked

EXAMPLE = unpacked()
MIB = 2**20
CAPACITY = 1000 * MIB
PAYLOAD = 1000
RATE = 10_000.0  # operations per second
SECONDS = 100


def curve(values: list[float]) -> Curve:
    return Curve(tuple(float(t) for t in range(len(values))), tuple(values))


def load_of(
    rates: list[float], *, wa: float = 3.0, pending: Curve | None = None, before: float = 1.0
) -> Progress:
    """Seconds with these rates; ``before``: share of the capacity written before the phase."""
    done = [0.0]
    for rate in rates:
        done.append(done[-1] + rate)
    written = tuple(before * CAPACITY + wa * PAYLOAD * ops for ops in done)
    times = tuple(float(t) for t in range(len(done)))
    return Progress(
        Curve(times, tuple(done)),
        Curve((-1.0, *times), (0.0, *written)),
        pending or curve([5e6] * len(done)),
        PAYLOAD,
        CAPACITY,
    )


def test_a_flat_phase_is_steady_and_shows_its_window() -> None:
    found = judge(load_of([RATE] * SECONDS))
    assert (found.label, found.rounds) == (Label.STEADY, 5)
    # 100 MiB a round at 30 MB/s take 3.5 s: a round is never shorter than 5 s.
    assert (found.begin, found.end) == (75.0, 100.0)
    assert "throughput range 0%, slope 0%" in found.why
    assert steady.window(found).startswith("5 rounds from 75.0 to 100.0 s: throughput range 0%")


def test_rounds_are_a_tenth_of_the_capacity() -> None:
    found = judge(load_of([RATE] * SECONDS, wa=1.0))
    assert found.label is Label.STEADY
    assert found.begin == pytest.approx(100 - 5 * 0.1 * CAPACITY / (RATE * PAYLOAD))


@pytest.mark.parametrize(
    ("last", "label"),
    [
        ((1.0, 1.0, 1.0, 1.0, 1.0), Label.STEADY),
        ((0.92, 1.08, 0.92, 1.08, 0.92), Label.STEADY),
        ((0.85, 1.1, 0.85, 1.1, 0.85), Label.NOT_STEADY),  # range
        ((1.06, 1.03, 1.0, 0.97, 0.94), Label.NOT_STEADY),  # slope: 12 % within a range of 12 %
        ((1.04, 1.02, 1.0, 0.98, 0.96), Label.STEADY),  # slope: 8 %
    ],
)
def test_range_and_slope_of_the_throughput(last: tuple[float, ...], label: Label) -> None:
    rates = [RATE] * 75 + [RATE * factor for factor in last for _ in range(5)]
    assert judge(load_of(rates)).label is label


def test_only_the_last_rounds_count() -> None:
    assert judge(load_of([3 * RATE] * 50 + [RATE] * 50)).label is Label.STEADY
    assert judge(load_of([RATE] * 85 + [3 * RATE] * 15)).label is Label.NOT_STEADY


def test_write_amplification_that_grows_is_not_steady() -> None:
    flat = load_of([RATE] * SECONDS)
    values = list(flat.written.values)
    for second in range(81, 102):
        values[second] = values[second - 1] + 2 * (
            flat.written.values[51] - flat.written.values[50]
        )
    found = judge(replace(flat, written=Curve(flat.written.t, tuple(values))))
    assert found.label is Label.NOT_STEADY
    assert "throughput range 0%" in found.why


def test_a_growing_backlog_is_not_steady_and_a_swinging_backlog_is() -> None:
    # 10 MB/s of user bytes, so 2 MB/s more to compact is a fifth of them.
    grows = curve([2e6 * t for t in range(SECONDS + 1)])
    assert judge(load_of([RATE] * SECONDS, pending=grows)).label is Label.NOT_STEADY
    swings = curve([40e6 * (t % 2) for t in range(SECONDS + 1)])
    assert judge(load_of([RATE] * SECONDS, pending=swings)).label is Label.STEADY


def test_unrecorded_series_are_not_called_steady() -> None:
    found = judge(replace(load_of([RATE] * SECONDS), pending=None))
    assert found.label is Label.NOT_STEADY
    assert "pending compaction bytes are not recorded" in found.why


def test_a_phase_of_four_rounds_is_too_short() -> None:
    found = judge(load_of([RATE] * 24))
    assert (found.label, found.rounds, found.why) == (Label.TOO_SHORT, 4, "4 of 5 rounds")


def test_a_device_that_was_not_written_once_is_too_fresh() -> None:
    found = judge(load_of([RATE] * 30, before=0.0))
    assert found.label is Label.TOO_SHORT
    assert "of the capacity written since the run began" in found.why
    assert judge(load_of([RATE] * 30, before=1.0)).label is Label.STEADY


def test_a_phase_that_stood_still_is_not_steady() -> None:
    load_ = load_of([RATE] * 70 + [0.0] * 30)
    written = Curve(load_.written.t, tuple(1e8 * (t + 20) for t in load_.written.t))
    found = judge(replace(load_, written=written))
    assert found.label is Label.NOT_STEADY
    assert "nothing happened" in found.why


def test_reads_have_rounds_of_time() -> None:
    reads = replace(load_of([RATE] * SECONDS), payload=0, pending=None)
    found = judge(reads)
    assert (found.label, found.begin, found.end) == (Label.STEADY, 50.0, 100.0)
    assert found.why == "throughput range 0%, slope 0%"
    falls = load_of([RATE * (2 - t / SECONDS) for t in range(SECONDS)])
    assert judge(replace(falls, payload=0)).label is Label.NOT_STEADY


rates = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


@given(rates, st.floats(0.1, 10), st.booleans())
def test_any_series_has_a_label(found: list[float], wa: float, known: bool) -> None:
    load_ = load_of(found, wa=wa)
    result = judge(load_ if known else replace(load_, pending=None))
    assert result.label in Label
    assert result.why
    assert (result.begin is None) == (result.rounds == 0)
    if result.label is Label.STEADY:
        assert known
        assert result.rounds == 5


@given(rates)
def test_the_inverse_of_a_curve_that_rises(values: list[float]) -> None:
    rising = load_of(values).operations
    middle = rising.values[-1] / 2
    found = rising.last_at_most(middle)
    assert found is not None
    assume(rising.values[-1] > 0)
    assert rising.at(found) == pytest.approx(middle, rel=1e-6, abs=1e-6)


def test_the_mean_of_a_value_that_holds() -> None:
    held = Curve((0.0, 10.0, 20.0), (1.0, 3.0, 5.0))
    assert held.mean(0, 20) == 2
    assert held.mean(5, 15) == 2
    assert held.mean(-5, 5) == 1
    assert held.mean(21, 22) == 5


@pytest.mark.slow
def test_the_label_is_in_every_form_and_in_the_report(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c")), metrics=["overwrite.*"])
    assert all(row.steady == ("too short x3", "too short x3") for row in comparison.rows)
    for form in ("table", "md", "json", "csv"):
        text = render(comparison, form)
        assert "f2fs: too short x3" in text, form
    assert all("; 3 of 5 rounds" not in line for line in render(comparison, "csv").splitlines())
    steady_runs = json.loads(render(comparison, "json"))["steady"]
    assert len(steady_runs) == 9 * 2  # overwrite and readrandom; the fill is not measured
    page = write_report(comparison, tmp_path / "out", 0.01)[0]
    assert '<h3 id="steady">Steady state</h3>' in page.read_text()
    rows = (page.parent / "tables" / "steady.csv").read_text().splitlines()
    assert len(rows) == 1 + 18


def test_without_series_the_label_is_there_too(tmp_path: Path) -> None:
    comparison = compare(load(write_campaign(tmp_path / "c", series=False)))
    assert comparison.steady
    assert {one.steady.why for one in comparison.steady} == {"no series was recorded"}
    assert {one.steady.label for one in comparison.steady} == {Label.TOO_SHORT}


def test_real_series_of_the_example() -> None:
    """Series of an emulated device (results/example): not a result, but real fluctuations."""
    campaign = load(EXAMPLE)
    wanted = [run for run in campaign.runs if run.name == "f2fs--r01"]
    labels = {one.phase: one.steady for one in steady.label_phases(wanted)}
    assert set(labels) == {"overwrite", "readrandom"}
    overwrite = labels["overwrite"]
    assert (overwrite.label, overwrite.rounds) == (Label.NOT_STEADY, 5)
    series = packed.text(wanted[0].path / "series/overwrite.csv")
    assert overwrite.end == float(series.splitlines()[-1].partition(",")[0])
    assert "throughput range 70%" in overwrite.why
    assert labels["readrandom"].label is Label.TOO_SHORT
