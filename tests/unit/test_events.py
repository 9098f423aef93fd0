"""Events below the workload: when a level collected garbage (SYNTHETIC series)."""

from pathlib import Path

import pytest

from analysis.read.events import collection_times
from harness.levels import LEVELS

COLLECTORS = [name for name, level in LEVELS.items() if level.gc_columns]


def test_levels_with_a_collector_in_the_background_are_among_them() -> None:
    assert {"f2fs", "btrfs", "xfs", "zlfs"} <= set(COLLECTORS)


@pytest.mark.parametrize("name", COLLECTORS)
def test_every_level_that_counts_collections_shows_them(tmp_path: Path, name: str) -> None:
    for column in LEVELS[name].gc_columns:
        series = tmp_path / "level.csv"
        series.write_text(f"t,{column},other\n1,0,1\n2,7,2\n3,7,3\n4,8,4\n")
        assert collection_times(series) == (2, 4), column


def test_a_counter_of_something_else_is_no_collection(tmp_path: Path) -> None:
    series = tmp_path / "level.csv"
    series.write_text("t,gc_read_calls,other\n1,0,1\n2,7,2\n")
    assert collection_times(series) == ()
    assert collection_times(tmp_path / "none.csv") == ()
