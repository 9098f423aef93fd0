"""Noise floor of identical cells, drift, rounds within runs, percentiles of merged histograms."""

import dataclasses
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from analysis.judge import drift, noise, rounds, stats
from analysis.judge.compare import compare
from analysis.judge.verdicts import Verdict
from analysis.read import percentiles
from analysis.read.arrays import FloatArray
from analysis.read.load import RunRecord, load
from analysis.show import tables
from analysis.show.render import render
from harness.errors import RunFailed
from harness.store import checksums
from harness.store.result import Result, Status
from harness.store.spec import DeviceKind
from tests.fixtures.campaigns import with_metric, with_status, write_on_demand
from tests.fixtures.twins import WRITTEN, as_variants, twins

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_identical_cells_raise_the_threshold_of_a_verdict(tmp_path: Path) -> None:
    comparison = twins(tmp_path, apart=0.05)
    assert comparison.floors[WRITTEN].floor == pytest.approx(0.05, rel=0.01)
    words = {row.level: row.verdict for row in comparison.rows}
    assert words["zenfs"] is Verdict.NO_DIFFERENCE  # 3 % is less than what twins are apart
    assert words["zlfs-again"] is Verdict.HIGHER  # and the footer reports the difference
    assert "identical cells: overwrite.device_written: zlfs and zlfs-again" in " ".join(
        render(comparison, "table").split()
    )


@pytest.mark.parametrize("apart", [1.0, -0.5])
def test_the_floor_does_not_depend_on_the_names_of_twins(tmp_path: Path, apart: float) -> None:
    """One twin writes twice as much as the other: a floor of 100 %, not of 50 %."""
    floor = twins(tmp_path, apart=apart).floors[WRITTEN]
    assert floor.floor == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("silent", ["zlfs", "zlfs-again"])
def test_a_twin_of_zeros_hides_all_differences(tmp_path: Path, silent: str) -> None:
    comparison = twins(tmp_path, apart=0.05, silent=silent)
    assert math.isinf(comparison.floors[WRITTEN].floor)
    assert {row.level: row.verdict for row in comparison.rows}["zenfs"] is Verdict.NO_DIFFERENCE
    document = json.loads(render(comparison, "json"))
    assert document["noise_floors"][0]["floor"] is None
    assert {row["level"]: row["noise_floor"] for row in document["rows"]}["zenfs"] is None


def test_a_level_whose_twin_has_no_ok_run_has_the_floor_of_all() -> None:
    groups = (
        noise.IdenticalCells("a", {"a and a-twin": 0.02}, []),
        noise.IdenticalCells("b", {}, []),
        noise.IdenticalCells("c", {"c and c-twin": 0.3}, []),
    )
    floor = noise.Floor(WRITTEN, 0.01, groups)
    assert floor.between({"a"}, {"a"}).floor == 0.02
    assert floor.between({"a"}, {"b"}).floor == 0.3


def test_two_drives_side_by_side_are_no_twins(tmp_path: Path) -> None:
    """The planner makes a variant of raw-conventional for each further drive."""
    twins(tmp_path, apart=0.05)
    runs = [run for run in load(tmp_path / "c").latest if run.spec.level == "zlfs"]
    assert [sorted(cells) for cells in noise.identical_cells(runs)] == [["zlfs", "zlfs-again"]]

    def on(drive: Callable[[str], str], level: str) -> list[RunRecord]:
        return [
            dataclasses.replace(
                run,
                spec=dataclasses.replace(
                    run.spec,
                    level=level,
                    conventional=dataclasses.replace(
                        run.spec.device,
                        identity=dataclasses.replace(
                            run.spec.device.identity, eui64=drive(run.result.level)
                        ),
                    ),
                ),
            )
            for run in runs
        ]

    def own(level: str) -> str:
        return "0000000000000002" if level == "zlfs-again" else "0000000000000001"

    assert noise.identical_cells(on(own, "raw-conventional")) == []
    assert len(noise.identical_cells(on(lambda _: own(""), "raw-conventional"))) == 1
    assert len(noise.identical_cells(on(own, "conventional-ext4"))) == 1  # twins on two machines


def _cells(folder: Path, *cells: str) -> list[RunRecord]:
    """Return runs of cells ``variant size``; ``- 4`` has no variant."""
    (run,) = load(
        write_on_demand(folder / "c", levels=("zlfs",), repetitions=1, series=False)
    ).latest
    found = []
    for cell in cells:
        variant, size = cell.replace("-", "").split(" ")
        factors: dict[str, Any] = {"size": int(size)}
        spec = dataclasses.replace(run.spec, cell=cell, variant=variant, factors=factors)
        result = dataclasses.replace(run.result, cell=cell, factors=factors)
        found.append(dataclasses.replace(run, spec=spec, result=result))
    return found


@pytest.mark.parametrize(
    ("cells", "apart"),
    [
        (("- 4", "twin 4", "- 8"), {"twin 4"}),
        (("- 4", "again 4", "- 8"), set()),  # a variant of the study, not the planner's
        (("twin 4", "- 8"), set()),  # it repeats nothing that ran
        (("- 4", "twin 4", "- 8", "twin 8"), set()),  # it has other values, too
        (("- 4", "- 8", "twin 8"), set()),  # not of the baseline
    ],
)
def test_a_twin_of_the_baseline_alone_is_kept_out_of_a_comparison(
    tmp_path: Path, cells: tuple[str, ...], apart: set[str]
) -> None:
    runs = _cells(tmp_path, *cells)
    assert noise.floor_cells(runs, "size", "4") == apart
    assert noise.floor_cells(runs, "level", "zlfs-twin") == frozenset()
    assert noise.floor_cells(runs, "cell", "twin 4") == frozenset()


def test_of_identical_cells_one_is_the_first(tmp_path: Path) -> None:
    runs = _cells(tmp_path, "- 4", "again 4", "twin 4", "- 8")
    assert noise.repeated_cells(runs, "cell", "again 4") == {"- 4", "twin 4"}
    assert noise.repeated_cells(runs, "cell", "- 8") == {"again 4", "twin 4"}
    assert noise.repeated_cells(runs, "size", "4") == {"again 4", "twin 4"}
    (group,) = noise.identical_cells(runs)
    assert sorted(group) == ["- 4", "again 4", "twin 4"]


def test_a_cell_is_no_twin_of_itself_or_of_nothing(tmp_path: Path) -> None:
    one, twin, other = _cells(tmp_path, "- 4", "twin 4", "- 8")
    assert noise.are_twins([one], [twin])
    assert not noise.are_twins([one], [other])
    assert not noise.are_twins([one], [one, twin])
    assert not noise.are_twins([], [one, twin])
    assert not noise.are_twins([one, twin], [])


def test_a_level_that_this_version_does_not_know_can_have_a_twin(tmp_path: Path) -> None:
    runs = [
        dataclasses.replace(run, spec=dataclasses.replace(run.spec, level="retired"))
        for run in _cells(tmp_path, "- 4", "twin 4")
    ]
    assert len(noise.identical_cells(runs)) == 1


def test_a_floor_comes_from_the_compared_levels_if_both_have_twins(tmp_path: Path) -> None:
    """The cells of zlfs are 20 % apart, those of zenfs and f2fs 1.5 %; ext4 has no twin."""
    apart = {"zlfs-twin": 1.2, "zenfs-twin": 1.015, "f2fs-twin": 1.1165, "f2fs": 1.1, "ext4": 1.5}

    def change(result: Result) -> Result:
        wobble = 1 + 1e-4 * (result.repetition * len(result.level) % 5)
        value = 400e6 * apart.get(result.level, 1.0) * wobble
        return with_metric(result, WRITTEN, value)

    levels = ("zenfs", "zenfs-twin", "zlfs", "zlfs-twin", "f2fs", "f2fs-twin", "ext4")
    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        levels=levels,
        change=change,
        metrics=(WRITTEN,),
        kind=DeviceKind.HARDWARE,
    )
    as_variants(folder)
    comparison = compare(load(folder), baseline="zenfs", different_code=True)
    rows = {row.level: row for row in comparison.rows}
    assert rows["f2fs"].floor == pytest.approx(0.015, rel=0.02)
    assert rows["zlfs"].floor == pytest.approx(0.2, rel=0.01)
    assert rows["ext4"].floor == pytest.approx(0.2, rel=0.01), "without a twin: of all cells"
    assert rows["zenfs-twin"].floor == stats.NOISE_FLOOR
    assert 0 < rows["f2fs"].estimate.between_cells < rows["zlfs"].estimate.between_cells / 10
    assert rows["f2fs"].verdict is Verdict.HIGHER
    whole = comparison.floors[WRITTEN]
    assert whole.floor == pytest.approx(0.2, rel=0.01)
    own = {run.configured for run in comparison.runs if run.spec.level == "zenfs"}
    assert whole.between(own, own).floor == pytest.approx(0.015, rel=0.02), "of one level twice"


@pytest.mark.parametrize("good", [1, 2])
@pytest.mark.parametrize("reason", ["failed", "few"])
def test_twins_need_two_good_runs_to_set_a_floor(tmp_path: Path, reason: str, good: int) -> None:
    twins(tmp_path, apart=0.05)
    runs = list(load(tmp_path / "c").latest)
    again = [run for run in runs if run.result.level == "zlfs-again"]
    assert len(again) == 3
    for run in again[good:]:
        if reason == "failed":
            failed = dataclasses.replace(run.result, status=Status.INVALID)
            runs[runs.index(run)] = dataclasses.replace(run, result=failed)
        else:
            runs.remove(run)
    found = noise.floors(runs, [WRITTEN], 0.02)[WRITTEN]
    assert found.floor == pytest.approx(0.05 if good == 2 else 0.02, rel=0.01)
    assert len(found.twins) == (good == 2)


def test_quiet_twins_leave_the_default(tmp_path: Path) -> None:
    comparison = twins(tmp_path, apart=0.001)
    assert comparison.floors[WRITTEN].floor == stats.NOISE_FLOOR
    words = {row.level: row.verdict for row in comparison.rows}
    assert words == {"zenfs": Verdict.HIGHER, "zlfs-again": Verdict.NO_DIFFERENCE}


def drifting(rate: float) -> Callable[[Result], Result]:
    """Let a metric grow with the run's place in the campaign, beside a noise of 1 %.

    The order of levels differs between blocks.
    """

    def change(result: Result) -> Result:
        place = (result.block - 1) * 3 + (result.position + result.block) % 3
        noise = np.random.default_rng([result.block, result.position]).normal(0, 0.01)
        value = {"zlfs": 5e8, "zenfs": 6e8}.get(result.level, 4e8)
        began = (START + timedelta(minutes=place)).isoformat()
        result = with_metric(result, WRITTEN, value * math.exp(rate * place / 14 + noise))
        return dataclasses.replace(result, started=began)

    return change


def test_a_drift_is_found_whatever_the_level(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, repetitions=5, change=drifting(0.3), metrics=(WRITTEN,)
    )
    (found,) = compare(load(folder)).drifts
    assert found.shown
    assert found.runs == 15
    assert found.low < math.expm1(0.3) < found.high
    table = " ".join(render(compare(load(folder)), "table").split())
    assert "drift: overwrite.device_written moved by" in table


def test_absence_of_drift_is_reported(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, repetitions=5, change=drifting(0.0), metrics=(WRITTEN,)
    )
    comparison = compare(load(folder))
    assert not comparison.drifts[0].shown
    assert "drift over the campaign: none shown in 1 metrics" in render(comparison, "table")


def test_blocks_add_no_columns_to_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign of 10,000 runs has 2,500 blocks; a column for each took minutes and gigabytes."""
    shapes: list[tuple[int, ...]] = []
    solve = np.linalg.lstsq

    def lstsq(design: FloatArray, values: FloatArray, rcond: None) -> Any:
        shapes.append(design.shape)
        return solve(design, values, rcond=rcond)

    monkeypatch.setattr(np.linalg, "lstsq", lstsq)
    x = np.arange(400.0)
    blocks = [str(run // 2) for run in range(400)]
    assert drift.slope(["a", "b", "b", "a"] * 100, blocks, x, x + x % 3) is not None
    assert shapes == [(400, 2)]


def test_slope_equals_a_fit_with_dummy_variables() -> None:
    rng = np.random.default_rng(5)
    cells, blocks = ["a", "b", "c"] * 4, [f"b{i // 3}" for i in range(12)]
    x, y = rng.random(12), rng.normal(size=12)
    design = np.array(
        [
            [cell == name for name in "abc"] + [block == f"b{i}" for i in range(1, 4)] + [v]
            for cell, block, v in zip(cells, blocks, x, strict=True)
        ]
    )
    design = design.astype(float)
    beta, residual, *_ = np.linalg.lstsq(design, y, rcond=None)
    error = math.sqrt(residual[0] / 5 * np.linalg.inv(design.T @ design)[6, 6])
    found = drift.slope(cells, blocks, x, y)
    assert found is not None
    assert (float(found.center), float(found.error), float(found.df)) == pytest.approx(
        (beta[6], error, 5)
    )


def test_three_runs_have_one_degree_of_freedom() -> None:
    """Residuals of the line 1.5 x are 1/6, -1/3 and 1/6; the squares of x - 1 sum up to 2."""
    found = drift.slope(["a"] * 3, ["1"] * 3, np.arange(3.0), np.array([0.0, 1.0, 3.0]))
    assert found is not None
    assert (float(found.center), float(found.df)) == pytest.approx((1.5, 1))
    assert float(found.error) == pytest.approx(math.sqrt(1 / 6 / 2))


def in_random_order(rng: np.random.Generator) -> tuple[list[str], list[str], FloatArray]:
    """Return cells, blocks and places of five blocks of four runs."""
    cells = [name for _ in range(5) for name in rng.permutation(["a", "b", "c", "d"])]
    return cells, [str(i // 4) for i in range(20)], np.arange(20.0)


@pytest.mark.parametrize("block_sd", [0.0, 0.3])
def test_drift_is_called_falsely_in_5_percent(block_sd: float) -> None:
    rng = np.random.default_rng(6)
    shown = []
    for _ in range(2000):
        cells, blocks, x = in_random_order(rng)
        y = np.repeat(rng.normal(0, block_sd, size=5), 4) + rng.normal(0, 0.02, size=20)
        found = drift.slope(cells, blocks, x, y)
        assert found is not None
        shown.append(float(found.p) < 0.05)
    assert 0.035 < np.mean(shown) < 0.065


def test_a_drift_within_the_noise_floor_is_not_shown(tmp_path: Path) -> None:
    folder = write_on_demand(
        tmp_path / "c", series=False, repetitions=5, change=drifting(0.3), metrics=(WRITTEN,)
    )
    assert not compare(load(folder), noise_floor=0.36).drifts[0].shown


def test_no_view_changes_the_tests_of_drift(tmp_path: Path) -> None:
    """A view with fewer metrics had a smaller family, so the same data drifted there alone."""

    def change(result: Result) -> Result:
        return with_metric(drifting(0.3)(result), "overwrite.wa_lsm", 2.0 + result.position, "")

    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        repetitions=5,
        change=change,
        metrics=(WRITTEN, "overwrite.wa_lsm"),
    )
    whole = compare(load(folder)).drifts
    assert [(one.metric, one.runs) for one in whole] == [(WRITTEN, 15), ("overwrite.wa_lsm", 15)]
    assert whole[0].p_holm == pytest.approx(2 * whole[0].p_value)
    views: list[dict[str, Any]] = [
        {"metrics": [WRITTEN]},
        {"metrics": ["*"]},
        {"where": {"level": "zlfs"}},
        {"against": ["zenfs"]},
        {"contrast": "cell"},
    ]
    assert all(compare(load(folder), **view).drifts == whole for view in views)


def test_of_proportional_metrics_one_is_tested_for_drift(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        drifted = drifting(0.3)(result)
        value = drifted.metrics[WRITTEN].value
        assert value is not None
        by_level = {"zlfs": 2.0, "zenfs": 3.0}.get(result.level, 5.0)
        return with_metric(drifted, "overwrite.write_amplification", value / by_level)

    folder = write_on_demand(
        tmp_path / "c",
        series=False,
        repetitions=5,
        change=change,
        metrics=(WRITTEN, "overwrite.write_amplification"),
    )
    (found,) = compare(load(folder)).drifts
    assert found.p_holm == found.p_value


@pytest.mark.parametrize("value", [0.0, 5e8])
def test_values_that_do_not_vary_are_not_tested_for_drift(tmp_path: Path, value: float) -> None:
    def change(result: Result) -> Result:
        return with_metric(drifting(0.3)(result), WRITTEN, value)

    folder = write_on_demand(
        tmp_path / "c", series=False, repetitions=5, change=change, metrics=(WRITTEN,)
    )
    assert compare(load(folder)).drifts == ()


def test_zeros_are_left_out_of_a_drift(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        result = drifting(0.3)(result)
        return with_metric(result, WRITTEN, 0.0) if result.level == "zlfs" else result

    folder = write_on_demand(
        tmp_path / "c", series=False, repetitions=5, change=change, metrics=(WRITTEN,)
    )
    (found,) = compare(load(folder)).drifts
    assert found.runs == 10
    assert found.low < math.expm1(0.3) < found.high


def test_invalid_runs_are_left_out_of_a_drift(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        result = drifting(0.3)(result)
        if (result.level, result.repetition) != ("zlfs", 3):
            return result
        return with_status(with_metric(result, WRITTEN, 1.0), Status.INVALID)

    folder = write_on_demand(
        tmp_path / "c", series=False, repetitions=5, change=change, metrics=(WRITTEN,)
    )
    (found,) = compare(load(folder)).drifts
    assert found.runs == 14
    assert found.low < math.expm1(0.3) < found.high


def test_a_start_is_relative_to_its_host_in_its_campaign() -> None:
    """Virtual clocks of two hosts can differ by hours."""
    places = [
        *(("a", "one", 10.0), ("a", "one", 20.0), ("a", "one", 30.0)),
        *(("a", "two", 9000.0), ("a", "two", 9005.0)),
        *(("b", "one", 100.0), ("b", "one", 104.0), ("c", "one", 5.0)),
    ]
    began = datetime(2026, 1, 1, tzinfo=UTC)
    runs = [
        Mock(
            campaign=campaign,
            host=host,
            result=Mock(started=(began + timedelta(seconds=at)).isoformat()),
        )
        for campaign, host, at in places
    ]
    found = drift._relative_starts(runs)
    assert [found[run] for run in runs] == [0.0, 0.5, 1.0, 0.0, 0.25, 0.0, 1.0, 0.0]


def test_order_without_room_for_a_test() -> None:
    two = np.array([0.0, 1.0])
    assert drift.slope(["a", "b"], ["1", "1"], two, two) is None
    assert drift.slope(["a", "a"], ["1", "1"], two, two) is None
    assert drift.slope(["a"] * 4, ["1"] * 4, np.zeros(4), np.arange(4.0)) is None
    always_the_same_order = np.arange(6.0)
    assert drift.slope(["a", "b"] * 3, list("112233"), always_the_same_order, np.ones(6)) is None


def test_components_equal_a_worked_example() -> None:
    """Means 2, 5, 8 of three rounds each with within variance 1: MSB 27, between (27 - 1) / 3."""
    found = rounds.components([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert found is not None
    assert (found.runs, found.rounds, found.within) == (3, 9, 1)
    assert found.between == pytest.approx(26 / 3)
    assert found.share_between == pytest.approx(26 / 29)
    assert float(found.interval.center) == 5
    assert rounds.components([[1, 2, 3]]) is None
    assert rounds.components([[1], [2]]) is None
    same = rounds.components([[1, 2], [1, 2]])
    assert same is not None
    assert same.between == 0


def test_a_phase_without_operations_has_no_relative_spread() -> None:
    nothing = rounds.components([[0, 0], [0, 0]])
    assert nothing is not None
    assert tables._spread(nothing, nothing.between) == "-"


@pytest.mark.slow
def test_rounds_are_no_repetitions() -> None:
    """Intervals that count rounds of three runs as repetitions cover far less than 95 %."""
    rng = np.random.default_rng(7)
    right, wrong = [], []
    for _ in range(1000):
        runs = rng.normal(0, 1, (3, 1)) + rng.normal(0, 0.5, (3, 5))
        found = rounds.components([list(run) for run in runs])
        assert found is not None
        right.append(float(found.interval.low) <= 0 <= float(found.interval.high))
        pooled = stats.paired_t(runs.ravel())
        wrong.append(float(pooled.low) <= 0 <= float(pooled.high))
    assert np.mean(right) >= 0.93
    assert np.mean(wrong) < 0.80


def histogram(count: int, low: int, high: int) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "unit": "us",
        "count": count,
        "sum": count * high,
        "min": low,
        "max": high,
        "buckets": [[low, high, count]],
    }


def with_histograms(folder: Path, level: str, *parts: dict[str, Any] | None) -> None:
    runs = sorted(folder.glob(f"hosts/*/runs/{level}--*"))
    for path, part in zip(runs, parts, strict=True):
        if part is not None:
            (path / "histograms").mkdir()
            (path / "histograms/overwrite.write.json").write_text(json.dumps(part))
        checksums.write(path)


def test_percentiles_of_a_cell_are_of_all_its_operations(tmp_path: Path) -> None:
    """98 % of all operations take up to 10 us: the runs' own p99, averaged, would say 340."""
    folder = write_on_demand(tmp_path / "c", series=False)
    with_histograms(
        folder,
        "zlfs",
        histogram(49_000, 9, 10),
        histogram(49_000, 9, 10),
        histogram(2_000, 900, 1000),
    )
    comparison = compare(load(folder), metrics=["overwrite.latency_p50"])
    row = next(row for row in comparison.rows if row.level == "zlfs")
    assert row.values[1] == pytest.approx(9.51, abs=0.02)
    assert row.values[0] is None  # the baseline has no histograms: no average instead
    zlfs = [run for run in load(folder).runs if run.result.level == "zlfs"]
    p99 = percentiles.percentile(percentiles.together(zlfs, "overwrite"), "latency_p99")
    assert p99 == pytest.approx(950, abs=1)


def test_a_percentile_needs_every_runs_histogram_and_samples_above(tmp_path: Path) -> None:
    folder = write_on_demand(tmp_path / "c", series=False)
    with_histograms(folder, "zlfs", histogram(500, 9, 10), histogram(500, 9, 10), None)
    with_histograms(folder, "zenfs", *[histogram(500, 9, 10)] * 3)
    runs = load(folder).runs
    zlfs, zenfs = (
        percentiles.together([r for r in runs if r.result.level == name], "overwrite")
        for name in ("zlfs", "zenfs")
    )
    assert percentiles.percentile(zlfs, "latency_p50") is None
    assert percentiles.percentile(zenfs, "latency_p50") is not None
    assert percentiles.percentile(zenfs, "latency_p99_9") is None  # 1.5 samples above it


def test_a_damaged_histogram_is_no_percentile(tmp_path: Path) -> None:
    folder = write_on_demand(tmp_path / "c", series=False)
    with_histograms(folder, "zlfs", *[histogram(500, 9, 10)] * 3)
    broken = next(folder.glob("hosts/*/runs/zlfs--*"))
    (broken / "histograms/overwrite.write.json").write_text("{")
    checksums.write(broken)
    with pytest.raises(RunFailed, match="a histogram of overwrite is not JSON"):
        compare(load(folder), metrics=["overwrite.latency_p50"])


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("latency_p50", 5000),
        ("latency_p99_9", 9990),
        ("latency_p99_99", 9999),
        ("latency_max", None),
        ("throughput", None),
    ],
)
def test_names_of_percentiles(name: str, share: int | None) -> None:
    assert percentiles.per_myriad(name) == share


def test_of_identical_cells_the_baseline_or_the_first_is_no_repetition(tmp_path: Path) -> None:
    runs = twins(tmp_path, 0.0).runs
    assert noise.repeated_cells(runs, "level", "zlfs") == {"zlfs-again"}
    assert noise.repeated_cells(runs, "level", "zlfs-again") == {"zlfs"}
    assert noise.repeated_cells(runs, "level", "zenfs") == {"zlfs-again"}
    others = [run for run in runs if run.cell != "zlfs"]
    assert noise.repeated_cells(others, "level", "zlfs") == set()
