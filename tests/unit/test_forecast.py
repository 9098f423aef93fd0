"""The power of a planned study, from the spread of an earlier campaign's runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from analysis.judge import forecast, stats
from analysis.judge.compare import compare
from analysis.read.load import load_pool
from analysis.show import render
from harness.store.files import read_json
from harness.store.result import Result
from harness.store.spec import Claim, DeviceKind
from tests.fixtures.campaigns import with_metric, write_campaign
from tests.fixtures.example import RESULTS, unpacked
from tests.fixtures.planner import Planner
from tests.fixtures.twins import twins

WRITTEN = "overwrite.write_amplification"
EXT4 = "conventional-ext4"


def _earlier(folder: Path, sd: float) -> Path:
    """Write a campaign of five blocks whose log ratios have the standard deviation ``sd``."""
    scores = np.array([-1.2, -0.6, 0.0, 0.6, 1.2])
    scores *= sd / scores.std(ddof=1)

    def change(result: Result) -> Result:
        ratio = 1.3 * math.exp(scores[result.repetition - 1]) if result.level == "zlfs" else 1.0
        return with_metric(result, WRITTEN, 2.0 * (1 + 0.1 * result.block) * ratio, "1")

    return write_campaign(
        folder,
        levels=(EXT4, "zlfs"),
        repetitions=5,
        kind=DeviceKind.HARDWARE,
        series=False,
        change=change,
        claims=(Claim("C1", WRITTEN, "zlfs", EXT4, "different"),),
    )


def test_the_effect_that_is_found_is_found_in_four_of_five_campaigns(tmp_path: Path) -> None:
    """Simulated with the same spread, the planned repetitions show that effect in 80 %."""
    pool = load_pool([_earlier(tmp_path / "c", 0.03)])
    (one,) = forecast.spreads_of(pool, [WRITTEN], ["zlfs"])
    finds = one.finds(4)
    assert finds is not None
    rng = np.random.default_rng(1)
    logs = rng.normal(math.log1p(finds), 0.03, size=(20_000, 4))
    found = stats.paired_t(logs)
    p = stats.minimum_effect(found.center, found.error, found.df, math.log1p(one.floor))
    assert float(np.mean(p < 0.05)) == pytest.approx(0.8, abs=0.02)


def test_more_repetitions_find_less_and_fewer_are_needed_for_more(tmp_path: Path) -> None:
    pool = load_pool([_earlier(tmp_path / "c", 0.03)])
    (spread,) = forecast.spreads_of(pool, [WRITTEN], ["zlfs"])
    few, many = spread.finds(3), spread.finds(12)
    assert few is not None
    assert many is not None
    assert many < few
    small, large = spread.needed(0.05), spread.needed(0.5)
    assert small is not None
    assert large is not None
    assert large < small


def test_the_plan_prints_the_power_from_a_folder(planner: Planner, tmp_path: Path) -> None:
    folder = _earlier(tmp_path / "first", 0.03)
    metrics = (f"metrics=[{WRITTEN}]", "claims=[]")
    settings = [word for setting in metrics for word in ("--set", setting)]
    words = ("integration-levels", "--earlier", str(folder), *settings)
    assert planner(*words, "--check") == 0
    assert "by the spread of 5 runs a side in first:" in planner.out
    line = planner.out.splitlines()[-1]
    assert line.startswith(f"  {WRITTEN}, zlfs: ")
    assert "5 % needs " in line
    assert "more, about " in line
    assert planner(*words, "--check", "--effect", "0.5") == 0
    assert "0.5 % is within the noise floor" in planner.out
    assert planner(*words, "--check", "--effect", "0") == 2


def test_the_shipped_example_is_used_for_its_own_question_only(planner: Planner) -> None:
    """The example is a smaller study than the one of its name."""
    settings = ("--set", "metrics=[overwrite.write_amplification]", "--set", "claims=[]")
    question = read_json(unpacked("example", RESULTS) / "plan.json")["question"]
    same = ("--set", f"question={question}")
    assert planner("integration-levels", *settings, *same, "--check") == 0
    assert "runs a side in example:" in planner.out
    assert planner("integration-levels", *settings, "--check") == 0
    assert "runs a side in example:" not in planner.out


def test_the_default_study_has_a_forecast_from_the_readmes_campaign(planner: Planner) -> None:
    assert planner("integration-levels", "--check") == 0
    head, *rows = planner.out[planner.out.index("what 4 repetitions can find") :].splitlines()
    assert head.endswith("by the spread of 4 runs a side in docs/figures/first-study.csv:")
    assert [row.split(":")[0] for row in rows] == [
        f"  overwrite.wa_total, {level}"
        for level in (
            "conventional-ext4-discard",
            "conventional-ext4-discard-twin",
            "conventional-ext4-twin",
            "conventional-xfs",
            "f2fs",
            "zlfs",
            "zlfs-twin",
        )
    ]
    assert planner("integration-levels", "--check", "--set", "question=Another one?") == 0
    assert "can find" not in planner.out


def test_the_table_of_a_comparison_has_all_that_a_forecast_needs(tmp_path: Path) -> None:
    """A forecast from the CSV is the one from the runs, also where identical cells differ."""
    twins(tmp_path / "twins", apart=0.05)
    cases = (
        (_earlier(tmp_path / "c", 0.03), WRITTEN, "zlfs"),
        (unpacked("example", RESULTS), "overwrite.wa_total", "zlfs"),
        (tmp_path / "twins" / "c", "overwrite.device_written", "zenfs"),
    )
    for folder, metric, level in cases:
        pool = load_pool([folder])
        file = tmp_path / "table.csv"
        file.write_text(render.to_csv(compare(pool, metrics=[metric], different_code=True)))
        (found,) = forecast.spreads_in(file, pool.first.plan.question, [metric], [level])
        assert [found] == forecast.spreads_of(pool, [metric], [level])
        assert forecast.spreads_in(file, "another question", [metric], [level]) == []
    assert found.estimate.between_cells > 0


def test_a_campaign_without_the_metric_is_named(planner: Planner, tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "other", levels=("f2fs", "other"), series=False)
    assert planner("integration-levels", "--check", "--earlier", str(folder)) == 0
    assert "the power is unknown" in planner.out


def test_as_many_repetitions_as_a_difference_needs(planner: Planner, tmp_path: Path) -> None:
    folder = _earlier(tmp_path / "first", 0.03)
    claim = (
        f"claims=[{{id: a, metric: {WRITTEN}, level: zlfs, baseline: {EXT4}, expect: different}}]"
    )
    words = ("integration-levels", "--earlier", str(folder), "--set", claim)
    (spread,) = forecast.spreads_of(load_pool([folder]), [WRITTEN], ["zlfs"])
    needed = {share: spread.needed(share) for share in (0.04, 0.2)}
    assert needed[0.04] is not None
    assert needed[0.04] > 4
    # It never takes repetitions away, and it plans none for what no number shows.
    assert needed[0.2] is not None
    assert needed[0.2] < 4
    for share in ("20%", "0.5%"):
        assert planner(*words, "--repetitions", f"find:{share}", "--check") == 0
        assert "what 4 repetitions can find" in planner.out
    assert planner(*words, "--repetitions", "find:4%") == 0
    planned = {run.repetition for host in planner.plan().hosts for run in host.runs}
    assert planned == {*range(1, needed[0.04] + 1)}
    assert f"4 % needs {needed[0.04]}\n" in planner.out


@pytest.mark.parametrize("text", ["find:", "find:0%", "find:many", "2%", "x2", "3find:2%"])
def test_repetitions_are_a_number_or_a_difference(planner: Planner, text: str) -> None:
    assert "is neither a number nor find:PCT" in planner.refused(
        "integration-levels", f"--repetitions={text}"
    )


def test_a_difference_needs_an_earlier_campaign(planner: Planner, tmp_path: Path) -> None:
    other = write_campaign(tmp_path / "other", levels=("f2fs", "other"), series=False)
    words = ("integration-levels", "--repetitions", "find:2%")
    assert "cannot estimate the spread of this study's claims" in planner.refused(
        *words, "--earlier", str(other)
    )
    assert "from a shipped campaign" in planner.refused(*words, "--set", "question=Another one?")


def test_sides_of_different_size_find_what_they_need() -> None:
    """``find`` and ``needs`` of one forecast agree, also where one side has more runs."""
    found = stats.Estimate(
        is_ratio=True, center=1.1, low=1.0, high=1.2, p_value=0.01, n_base=20, n_level=3,
        method=stats.Method.WELCH, base_mean=1.0, mean=1.1, error=0.02, df=5.0,
    )  # fmt: skip
    spread = forecast.EarlierSpread(WRITTEN, "zlfs", "zlfs", found, 0.01)
    for repetitions in (5, 10, 40):
        finds = spread.finds(repetitions)
        assert finds is not None
        assert spread.needed(finds * 1.0001) == repetitions
