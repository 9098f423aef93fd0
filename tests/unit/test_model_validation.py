"""Errors of a model against points, and the output of zonemodel."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.model import fit, validation
from analysis.model.validation import Compared, CurveError
from analysis.read import points
from analysis.read.points import MeasuredPoint
from analysis.show import model_figure
from harness.cli.main import main
from harness.errors import ExitCode, ToolFailed
from harness.plan import model_verdicts
from harness.plan.curve_models import Grade, job_name
from harness.plan.drive_files import load_curves, load_model
from harness.plan.drive_models import DriveModel
from harness.plan.model_verdicts import ModelVerdict
from harness.tools import zonemodel

_NOTHING = zonemodel.Played("none", "zn540-1tb", {}, {}, {})
CAPTURE = Path(__file__).parents[1] / "fixtures" / "zonemodel" / "read-under-write.json"


def point(
    x: float, y: float, tolerance: float | None = 0.05, statistic: str = "mean"
) -> MeasuredPoint:
    return MeasuredPoint("read_under_write_qd1", x, statistic, y, "us", tolerance, "test")


def curve(grade: Grade, *errors: float | None, tolerance: float | None = 0.05) -> CurveError:
    """Return a curve whose points have these errors; a synthetic one."""
    compared = tuple(
        Compared(point(x, 100, tolerance), grade, None if error is None else 100 * (1 + error))
        for x, error in enumerate(errors)
    )
    return CurveError("read_under_write_qd1", "mean", grade, compared)


@pytest.mark.parametrize(
    ("errors", "passed"),
    [
        ((0.04, -0.05), True),
        ((0.06, -0.06), False),  # the mean of absolute errors counts
        ((0.0, 0.0, 0.099), True),
        ((0.0, 0.0, -0.101), False),  # beyond twice the tolerance
        ((0.0, None), False),  # too few samples
    ],
)
def test_a_core_curve_needs_its_mean_and_every_point(
    errors: tuple[float | None, ...], passed: bool
) -> None:
    found = curve("core", *errors)
    assert found.passed is passed
    assert validation.core_failed([found]) == ([] if passed else ["read_under_write_qd1 mean"])


def test_a_wide_tolerance_does_not_widen_the_mean() -> None:
    assert curve("core", 0.08, tolerance=0.15).passed is False
    assert curve("core", 0.049, tolerance=0.15).passed is True


def test_a_known_miss_is_named_and_stays_within_bounds() -> None:
    missed = replace(curve("core", 0.08, tolerance=0.15), why="two modes")
    assert (missed.passed, missed.missed) == (False, True)
    assert validation.core_failed([missed]) == []
    assert validation.core_missed([missed]) == ["read_under_write_qd1 mean"]
    beyond = replace(curve("core", 0.31, tolerance=0.15), why="two modes")
    assert validation.core_failed([beyond]) == ["read_under_write_qd1 mean"]
    assert validation.core_missed([beyond]) == []
    assert not replace(curve("core", 0.01), why="two modes").missed


@pytest.mark.parametrize(
    ("errors", "passed"),
    [((0, 0, 0, 0, 9.0), True), ((0, 0, 0, 0.06, 9.0), False), ((None, 0, 0, 0, 0), True)],
)
def test_four_of_five_points_of_a_tail_are_within_tolerance(
    errors: tuple[float | None, ...], passed: bool
) -> None:
    assert curve("tail", *errors).passed is passed


def test_points_without_tolerance_are_shown_and_not_judged() -> None:
    info = curve("core", 3.0, tolerance=None)
    assert (info.passed, info.mean) == (None, pytest.approx(3.0))
    assert validation.core_failed([info]) == []
    assert validation.core_mean([info]) == 0
    mixed = CurveError("c", "mean", "core", (*info.points, *curve("core", 0.01).points))
    assert mixed.passed is True
    assert mixed.mean == pytest.approx(0.01)


def test_the_worst_point_is_the_largest_error_of_either_sign() -> None:
    assert curve("core", 0.01, -0.09, 0.05).worst.point.x == 1
    assert curve("core", 0.01, None, 0.05).worst.point.x == 1


def test_sums_are_over_points() -> None:
    errors = [curve("core", 0.02, 0.04), curve("core", 0.06), curve("tail", 0.0, 0.9)]
    assert validation.core_mean(errors) == pytest.approx(0.04)
    assert validation.tails_within(errors) == 0.5


def test_output_of_the_program_is_compared_with_points() -> None:
    (played,) = zonemodel.parse(CAPTURE.read_text())
    reader = json.loads(CAPTURE.read_text())["results"][0]["clients"][0]["commands"]["read"]
    curves = load_curves("zn540")
    measured = (point(500, 128.5), point(500, 261.0, statistic="p95"))
    name = job_name("read_under_write_qd1", 500)
    mean, p95 = validation.compare(curves, measured, {name: played})
    assert mean.points[0].modelled == pytest.approx(reader["mean_ns"] / 1000)
    assert p95.points[0].modelled == pytest.approx(reader["p95_ns"] / 1000)
    assert (mean.grade, p95.grade) == ("core", "tail")


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"schema_version": 2, "results": []}', '{"schema_version": 1, "results": [{}]}'],
)
def test_foreign_output_is_refused(text: str) -> None:
    with pytest.raises(ToolFailed, match="zonemodel printed"):
        zonemodel.parse(text)


def test_the_hint_for_a_missing_program_names_its_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.tools.native._BUILT", tmp_path / "none")
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path))
    assert main(["model", "run", "zn540-1tb", "--job", "randread-4k"]) == ExitCode.USAGE
    assert "make build/native-release" in capsys.readouterr().err


def test_nothing_is_written_when_points_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "mine.csv"
    wrong.write_text(points.FOLDER.joinpath("zn540.csv").read_text().replace("randread4k", "reads"))
    out = tmp_path / "mine.yml"
    command = ["model", "fit", "zn540-1tb", "--points", str(wrong), "--output", str(out)]
    assert main(command) == ExitCode.USAGE
    assert "unknown curve 'reads'" in capsys.readouterr().err
    assert not out.exists()
    out.write_text("mine")
    assert main(["model", "fit", "zn540-1tb", "--output", str(out)]) == ExitCode.USAGE
    assert out.read_text() == "mine"


def test_refused_commands_alone_have_no_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {"count": 0, "bytes": 0, "errors": {"0x01bf": 4}}  # as the program prints it
    played = zonemodel.Played("closes", "zn540-1tb", {"host": {"close": refused}}, {}, {})
    monkeypatch.setattr(zonemodel, "run", lambda *_: [played])
    command = ["model", "run", "zn540-1tb", "--job", "randread-4k", "--format", "csv"]
    assert main(command) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[1].startswith("closes,zn540-1tb,host,close,0,")


@pytest.mark.parametrize(("tolerance", "failed"), [("5%", 30), ("info", 31)])
def test_a_saved_core_curve_that_no_point_judges_fails(
    tolerance: str,
    failed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = tmp_path / "mine.csv"
    row = f"read_under_write_qd1,rate,500,mean,118.5,us,{tolerance},test"
    mine.write_text(f"{','.join(points.COLUMNS)}\n{row}\n")
    (played,) = zonemodel.parse(CAPTURE.read_text())
    job = job_name("read_under_write_qd1", 500)
    monkeypatch.setattr(zonemodel, "run", lambda *_: [replace(played, job=job)])
    saved: list[ModelVerdict] = []

    def save(_: DriveModel, verdict: ModelVerdict) -> Path:
        saved.append(verdict)
        return tmp_path

    monkeypatch.setattr(model_verdicts, "save", save)
    command = ["model", "validate", "zn540-1tb", "--points", str(mine)]
    assert main(command) == ExitCode.OK
    assert main([*command, "--save"]) == ExitCode.RUNS_FAILED
    assert "not judged: " in capsys.readouterr().err
    (verdict,) = saved
    assert len(verdict.core_failed) == failed
    assert ("read_under_write_qd1 mean" in verdict.core_failed) is (tolerance == "info")


def test_the_published_points_judge_every_core_curve() -> None:
    curves = load_curves("zn540")
    measured = points.load(points.FOLDER / f"{curves.points}.csv", curves.curves)
    played = dict.fromkeys((job_name(one.curve, one.x) for one in measured), _NOTHING)
    errors = validation.compare(curves, measured, played)
    assert validation.core_unjudged(errors, curves) == []


def test_a_fit_needs_a_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["model", "fit", "zn540-1tb", "--output", str(tmp_path / "mine.yml"), "--rounds", "0"]
    assert main(command) == ExitCode.USAGE
    assert "--rounds 0 is less than 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (11_360, "11.36us"),
        (60_000, "60us"),
        (300, "0.3us"),
        (0, "0us"),
        (906_300_123, "906300.123us"),
        (999_999_600, "999999.6us"),
        (2e9, "2000000000ns"),
    ],
)
def test_a_fitted_time_has_whole_nanoseconds(nanoseconds: float, text: str) -> None:
    assert fit._text(nanoseconds, bandwidth=False) == text


def test_only_numbers_marked_fitted_are_parameters() -> None:
    names = fit.parameters(load_model("zn540-1tb"))
    assert "flash.read_4k" in names
    assert "zones.open" not in names  # measured
    assert "zones.reset_spread_pct" not in names  # a share


def test_the_search_stays_in_the_order_that_the_program_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, curves = load_model("zn540-1tb"), load_curves("zn540")
    seen: list[tuple[float, float]] = []

    def validate(tried: DriveModel, *_: object) -> list[CurveError]:
        flash = tried.flash
        seen.append((float(flash.read_4k.value[:-2]), float(flash.read_page.value[:-2])))
        return [curve("core", seen[-1][0] / 66 - 1)]

    monkeypatch.setattr(validation, "validate", validate)
    for names in (["flash.read_4k"], ["flash.read_4k", "flash.read_page"]):
        seen.clear()
        found = fit.fit(
            model, curves, [point(500, 128.5)], names=names, source="test", threads=1, rounds=10
        )
        assert all(low <= high for low, high in seen)
        assert len(seen) > 2
    assert float(found.after["flash.read_4k"][:-2]) == pytest.approx(66, rel=0.03)  # was 60


def test_the_figure_draws_the_curves_that_are_there() -> None:
    svg = model_figure.draw("zn540-1tb", [curve("core", 0.02, 0.04)])
    assert "Reads of 4 KiB under writes" in svg
    assert 'aria-label="zn540-1tb: model over points"' in svg
