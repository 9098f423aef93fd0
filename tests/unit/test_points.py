"""Measured points: the published file, the runner's numbers from it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.model import runner_constants
from analysis.read import points
from harness import zn540
from harness.errors import ConfigError, ExitCode

HEADER = "curve,x_name,x,y_name,y,unit,tolerance,source"
ROW = "finish,occupancy_pct,50,mean,456.8,ms,2%,made up"


def test_all_published_points_are_there() -> None:
    found = points.load(runner_constants.FILE)
    assert len(found) == 222
    assert len({(point.curve, point.statistic) for point in found}) == 46
    (half,) = [point for point in found if (point.curve, point.x) == ("finish", 50)]
    assert (half.value, half.tolerance) == (456_759, 0.02)
    assert all("MIT" in point.source or "closed form" in point.source for point in found)


def test_the_runner_has_the_numbers_of_the_points() -> None:
    stored = Path(zn540.__file__).read_text()
    assert stored == runner_constants.text(points.load(runner_constants.FILE)), "run: make docs"


def test_a_changed_point_changes_the_runner() -> None:
    text = runner_constants.FILE.read_text()
    changed = text.replace(",50,mean,11.608,ms", ",50,mean,12.608,ms")
    assert changed != text
    made = runner_constants.text(tuple(points.parse(changed.splitlines(), "x")))
    assert "(50.0, 12.61)" in made


def test_latencies_are_in_microseconds_and_tolerances_are_shares() -> None:
    rows = [HEADER, ROW, "r,qd,1,kiops,13.7,KIOPS,info,s", "d,o,2,dlwa,2,-,exact,s"]
    first, second, third = points.parse(rows, "x")
    assert (first.value, first.tolerance) == (456_800, 0.02)
    assert (second.value, second.tolerance) == (13.7, None)
    assert third.tolerance == pytest.approx(0.0005)


@pytest.mark.parametrize(
    ("rows", "message", "hint"),
    [
        ([HEADER.replace(",unit", "")], "no column 'unit'", "its columns: curve"),
        ([HEADER + ",weight"], "unknown column 'weight'", "newer zonelab"),
        ([HEADER], "no points", "at least one row"),
        ([HEADER, ROW, ROW], "line 3: finish 50.0 mean is repeated", "keep one"),
        ([HEADER, ROW.replace("finish", "finsh")], "unknown curve 'finsh'", "mean finish"),
        ([HEADER, ROW.replace(",ms,", ",sec,")], "unknown unit 'sec'", "known: ms, us"),
        ([HEADER, ROW.replace(",ms,", ",KIOPS,")], "unknown unit 'KIOPS'", "known: ms, us"),
        (
            [HEADER, ROW.replace("mean", "median")],
            "unknown statistic 'median'",
            "did you mean mean",
        ),
        ([HEADER, ROW.replace("456.8", "-1")], "y is -1", "above 0"),
        ([HEADER, ROW.replace("456.8", "nan")], "y is 'nan'", "a number"),
        ([HEADER, ROW.replace(",50,", ",half,")], "x is 'half'", "a number"),
        ([HEADER, ROW.replace("2%", "2")], "tolerance is '2'", "5%, exact, info or stretch"),
        ([HEADER, ROW.replace("2%", "0%")], "tolerance is '0%'", "5%"),
        ([HEADER, ROW + ",more"], "line 2 has not 8 cells", "quotes"),
        ([HEADER, "finish,occupancy_pct"], "line 2 has not 8 cells", "quotes"),
    ],
)
def test_a_bad_file_is_one_line_with_a_hint(rows: list[str], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tuple(points.parse(rows, "mine.csv", {"finish"}))
    assert "mine.csv" in caught.value.message
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        points.load(tmp_path / "none.csv")
    (tmp_path / "image.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        points.load(tmp_path / "image.csv")
