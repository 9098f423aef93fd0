"""Events below the workload: when a level collected garbage (SYNTHETIC series)."""

from pathlib import Path

import pytest

from analysis.read.events import collection_times
from harness.errors import RunFailed
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


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        ("1,,0\n2,,5\n3,,5\n4,,6\n", (2, 4)),  # the kernel lacks the first counter
        ("1,0,\n2,3,\n", (2,)),
        ("1,,\n2,,\n", ()),
        ("1,0,0\n2,,\n3,2,0\n", (3,)),  # a sample that could not be read
        ("1,,0\n2,9,0\n3,9,1\n", (3,)),  # the first value of a counter is no rise
        ("1,5,5\n2,0,0\n3,0,1\n", (3,)),  # a mount sets both to zero
        ("1,5,5\n2,4,7\n3,4,6\n", (2,)),
        ("1,0,0\n2,1,1\n3,2", (2,)),  # cut within a line
    ],
)
def test_a_counter_that_the_kernel_lacks_hides_no_other(
    tmp_path: Path, rows: str, times: tuple[float, ...]
) -> None:
    series = tmp_path / "level.csv"
    series.write_text("t,moved_blocks_foreground,moved_blocks_background\n" + rows)
    assert collection_times(series) == times


def test_a_damaged_counter_is_an_error(tmp_path: Path) -> None:
    series = tmp_path / "level.csv"
    series.write_text("t,moved_blocks_background\n1,x\n")
    with pytest.raises(RunFailed, match="is not numeric"):
        collection_times(series)
