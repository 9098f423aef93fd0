"""Cells differ for reasons that are not the level; identical cells measure how much."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from analysis.judge import between_cells, power, stats
from analysis.judge.stats import Method
from analysis.judge.verdicts import Verdict
from harness.cli.main import main
from harness.metrics.catalogue import Better
from tests.fixtures.campaigns import write_on_demand
from tests.fixtures.twins import WRITTEN, twins

CAMPAIGNS = 1000
BLOCKS = 5


def cell(
    rng: np.random.Generator, blocks: np.ndarray, *, cells: float, runs: float
) -> Mapping[str, float]:
    """Return block → value of a cell with its own shift."""
    logs = blocks + rng.normal(0, cells) + rng.normal(0, runs, len(blocks))
    return {str(block): float(np.exp(value)) for block, value in enumerate(logs)}


def shown(*, cells: float, runs: float, effect: float = 0.0, twin: bool = True) -> float:
    """Return the share of simulated campaigns in which a level differs from the baseline."""
    rng = np.random.default_rng(22)
    count = 0
    for _ in range(CAMPAIGNS):
        blocks = rng.normal(0, 0.3, BLOCKS)
        base, again, level = (cell(rng, blocks, cells=cells, runs=runs) for _ in range(3))
        level = {block: value * (1 + effect) for block, value in level.items()}
        found = stats.estimate(base, level, exact_allowed=False)
        spread = between_cells.measure([[base, again]]) if twin else None
        wide = between_cells.widened(found, spread)
        count += stats.verdict(wide, Better.LOWER) in (Verdict.BETTER, Verdict.WORSE)
    return count / CAMPAIGNS


def test_cells_that_differ_give_few_false_verdicts() -> None:
    assert shown(cells=0.02, runs=0.003, twin=False) > 0.4  # without the component
    assert shown(cells=0.02, runs=0.003) <= 0.05


def test_cells_that_do_not_differ_cost_little_power() -> None:
    assert shown(cells=0.0, runs=0.003, effect=0.05) >= 0.6
    assert shown(cells=0.0, runs=0.003) <= 0.05


def test_exact_counts_of_cells_that_differ_are_not_exact() -> None:
    """Runs do not vary, but identical cells differ by 1 %."""
    base, again, level = ({str(b): value for b in range(3)} for value in (100.0, 101.0, 103.0))
    found = stats.estimate(base, level, exact_allowed=True)
    assert found.method is Method.EXACT
    wide = between_cells.widened(found, between_cells.measure([[base, again]]))
    assert wide.method is Method.CELLS
    assert stats.verdict(wide, Better.LOWER) is Verdict.NO_DIFFERENCE
    assert wide.df == pytest.approx(1)
    assert wide.error == pytest.approx(np.log(1.01))


def test_a_small_part_between_cells_keeps_the_degrees_of_freedom_of_the_smaller_sample() -> None:
    """By Satterthwaite alone, 0.0001 as the difference of 0.0010 and 0.0009 has less than one."""
    base, level = ({str(b): v + b % 2 for b in range(4)} for v in (100.0, 110.0))
    found = stats.estimate(base, level, exact_allowed=False)
    assert found.df == 3
    small = between_cells.CellSpread(variance=0.0010, df=2, runs=0.0009, runs_df=6)
    assert between_cells.widened(found, small).df == 2
    more = between_cells.CellSpread(variance=0.0010, df=5, runs=0.0009, runs_df=15)
    assert between_cells.widened(found, more).df == 3
    large = between_cells.CellSpread(variance=0.0010, df=2, runs=0.0, runs_df=6)
    assert between_cells.widened(found, large).df == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize("cells", [0.0, 0.01, 0.02, 0.04])
def test_an_interval_holds_the_true_ratio_in_most_campaigns(cells: float) -> None:
    """Three pairs of identical cells, as in the first study, and a level without a twin."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(CAMPAIGNS):
        blocks = rng.normal(0, 0.3, 4)
        *twins, level = (cell(rng, blocks, cells=cells, runs=0.02) for _ in range(7))
        spread = between_cells.measure([twins[0:2], twins[2:4], twins[4:6]])
        found = stats.estimate(twins[0], level, exact_allowed=False)
        wide = between_cells.widened(found, spread)
        assert wide.low is not None
        assert wide.high is not None
        hits += wide.low <= 1 <= wide.high
    assert hits / CAMPAIGNS >= 0.93


@pytest.mark.parametrize("pair", [(0, 1), (1, 2)])
def test_twins_of_the_compared_levels_suffice_where_levels_differ_in_their_noise(
    pair: tuple[int, int],
) -> None:
    """A noisy level and two quiet ones, each with a twin. The noisy one must not hide 4 %."""
    rng = np.random.default_rng(3)
    held = shown_by_own = shown_by_all = 0
    for _ in range(CAMPAIGNS):
        blocks = rng.normal(0, 0.3, 4)
        noise = ((0.03, 0.04), (0.005, 0.01), (0.005, 0.01))
        pairs = [[cell(rng, blocks, cells=c, runs=r) for _ in range(2)] for c, r in noise]
        (base, _), (level, _) = chosen = [pairs[index] for index in pair]
        level = {block: value * 1.04 for block, value in level.items()}
        found = stats.estimate(base, level, exact_allowed=False)
        own, all_ = (
            between_cells.widened(found, between_cells.measure(g)) for g in (chosen, pairs)
        )
        assert own.low is not None
        assert own.high is not None
        assert all_.low is not None
        held += own.low <= 1.04 <= own.high
        shown_by_own += own.low > 1
        shown_by_all += all_.low > 1
    assert held / CAMPAIGNS >= 0.93
    if pair == (1, 2):
        assert shown_by_own > 1.3 * shown_by_all


def test_the_spread_of_cells_matches_the_worked_example() -> None:
    """Means of logs: 0.1 and 0.2. Without the means of cells and blocks, ±0.05 is left."""
    a, b = (
        {str(block): math.exp(log) for block, log in enumerate(logs)}
        for logs in ((0.0, 0.1, 0.2), (0.1, 0.1, 0.4))
    )
    one, two = between_cells.measure([[a, b]]), between_cells.measure([[a, b], [a, b]])
    assert one == pytest.approx((0.01, 1, 0.02 / 3 / 2, 2))
    assert two == pytest.approx((0.01, 2, 0.02 / 3 / 2, 4))  # pooled, not added
    assert between_cells.measure([[a, {**b, "0": 0.0}]]) is None  # no log


def test_a_cell_with_one_run_leaves_the_others_their_spread() -> None:
    a, b = ({str(block): value + block for block in range(3)} for value in (100.0, 101.0))
    alone = between_cells.measure([[a, b]])
    assert alone is not None
    assert between_cells.measure([[a, b, {"1": 100.0}]]) == alone
    assert between_cells.measure([[a, b, {}]]) == alone


def test_repetitions_do_not_reduce_the_part_between_cells() -> None:
    rng = np.random.default_rng(1)
    blocks = np.zeros(BLOCKS)
    base, again, level = (cell(rng, blocks, cells=0.05, runs=0.001) for _ in range(3))
    found = stats.estimate(base, level, exact_allowed=False)
    assert power.repetitions(found, 0.02) is not None
    wide = between_cells.widened(found, between_cells.measure([[base, again]]))
    assert power.repetitions(wide, 0.02) is None


def test_the_component_enters_every_interval_but_that_of_the_twins(tmp_path: Path) -> None:
    comparison = twins(tmp_path, apart=0.05)
    rows = {row.level: row for row in comparison.rows if row.metric == WRITTEN}
    assert rows["zenfs"].estimate.between_cells > 0
    sd = math.sqrt(rows["zenfs"].estimate.between_cells / 2)
    note = f"equal cells (twins) differ by a standard deviation of {sd:.2%}"
    assert f"{note}; the interval includes this" in rows["zenfs"].notes
    assert rows["zlfs-again"].estimate.between_cells == 0


def test_aa_prints_the_floor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = twins(tmp_path, apart=0.05).campaign.path
    assert main(["aa", str(folder), "--metric", WRITTEN, "--format", "csv"]) == 0
    header, line = capsys.readouterr().out.splitlines()[:2]
    assert header == "metric,identical cells,cell_sd,floor"
    assert line.startswith(f"{WRITTEN},zlfs and zlfs-again: ")
    assert float(line.split(",")[-1].rstrip("%")) == pytest.approx(5, rel=0.02)
    alone = write_on_demand(tmp_path / "alone", series=False)
    assert main(["aa", str(alone)]) == 2
    assert "no identical cells" in capsys.readouterr().err
