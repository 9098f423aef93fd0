"""The power of a planned study, from the spread of an earlier campaign's runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from analysis.judge import forecast, stats
from analysis.read.load import load_pool
from harness.store.files import read_json
from harness.store.result import Result
from harness.store.spec import Claim, DeviceKind
from tests.fixtures.campaigns import with_metric, write_campaign
from tests.fixtures.example import RESULTS, unpacked
from tests.fixtures.planner import Planner

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
    (one,) = forecast.forecast(pool, [WRITTEN], ["zlfs"], 4, 0.05)
    assert one.finds is not None
    rng = np.random.default_rng(1)
    logs = rng.normal(math.log1p(one.finds), 0.03, size=(20_000, 4))
    found = stats.paired_t(logs)
    p = stats.minimum_effect(found.center, found.error, found.df, math.log1p(one.row.floor))
    assert float(np.mean(p < 0.05)) == pytest.approx(0.8, abs=0.02)


def test_more_repetitions_find_less_and_fewer_are_needed_for_more(tmp_path: Path) -> None:
    pool = load_pool([_earlier(tmp_path / "c", 0.03)])
    few, many = (forecast.forecast(pool, [WRITTEN], ["zlfs"], n, 0.05)[0] for n in (3, 12))
    assert few.finds is not None
    assert many.finds is not None
    assert many.finds < few.finds
    assert few.needed == many.needed
    (large,) = forecast.forecast(pool, [WRITTEN], ["zlfs"], 3, 0.5)
    assert few.needed is not None
    assert large.needed is not None
    assert large.needed < few.needed


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


def test_a_campaign_without_the_metric_is_named(planner: Planner, tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "other", levels=("f2fs", "other"), series=False)
    assert planner("integration-levels", "--check", "--earlier", str(folder)) == 0
    assert "the power is unknown" in planner.out
