"""Write amplification over utilisation, on synthetic campaigns."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from analysis.judge.compare import compare
from analysis.read.load import load
from analysis.show import drawing
from analysis.show.drawing import Plot
from analysis.show.groups import groups_of
from analysis.show.report import write_report
from analysis.show.utilisation_figure import means, over_utilisation
from harness.store.result import Result
from harness.store.spec import Scalar
from tests.fixtures.campaigns import Change, with_metric, write_campaign

_TARGETS: tuple[dict[str, Scalar], ...] = ({"target_utilisation": 0.4}, {"target_utilisation": 0.8})


def _at_target(result: Result) -> Result:
    """Return a result with the utilisation of its cell, and more writes where it is full."""
    target = float(result.factors["target_utilisation"])
    assert result.utilisation is not None
    reached = dataclasses.replace(result.utilisation, u_ns=target + 0.005)
    found = dataclasses.replace(result, utilisation=reached)
    found = with_metric(found, "overwrite.wa_total", 2 * target, "1")
    return with_metric(found, "overwrite.write_amplification", target, "1")


def _plot(
    folder: Path,
    change: Change = _at_target,
    factors: tuple[dict[str, Scalar], ...] = _TARGETS,
) -> Plot:
    write_campaign(folder, factors=factors, levels=("f2fs", "btrfs"), repetitions=2, change=change)
    comparison = compare(load(folder))
    with drawing.style():
        return over_utilisation(comparison, groups_of(comparison))


def test_media_bytes_are_drawn_where_every_run_has_them(tmp_path: Path) -> None:
    plot = _plot(tmp_path / "c")
    assert plot.title == "overwrite: write amplification over utilisation"
    assert "Media bytes per user byte in overwrite (wa_total)" in plot.sentence
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg or "")
    assert {"f2fs", "btrfs"} <= set(texts)


def test_device_bytes_are_drawn_where_one_run_lacks_media_bytes(tmp_path: Path) -> None:
    def without(result: Result) -> Result:
        found = _at_target(result)
        return with_metric(found, "overwrite.wa_total", None) if result.level == "f2fs" else found

    plot = _plot(tmp_path / "c", without)
    assert "Device bytes per user byte in overwrite (write_amplification)" in plot.sentence


def test_the_report_has_the_figure_only_if_the_study_varies_the_utilisation(
    tmp_path: Path,
) -> None:
    _plot(tmp_path / "c")
    write_report(compare(load(tmp_path / "c")), tmp_path / "out")
    assert (tmp_path / "out/figures/amplification-over-utilisation.svg").is_file()
    write_campaign(tmp_path / "d", repetitions=1)
    write_report(compare(load(tmp_path / "d")), tmp_path / "other")
    assert not (tmp_path / "other/figures/amplification-over-utilisation.svg").is_file()


def test_each_level_and_value_of_another_factor_has_its_own_line(tmp_path: Path) -> None:
    """Both lines of a level have two points; one over all runs would mix the sizes."""
    factors = tuple({**target, "size": size} for size in ("4KiB", "64KiB") for target in _TARGETS)
    plot = _plot(tmp_path / "c", factors=factors)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.svg or "")
    assert {f"{level}, {size}" for level in ("f2fs", "btrfs") for size in ("4KiB", "64KiB")} <= {
        *texts
    }
    assert not {"f2fs", "btrfs"} & {*texts}


def test_a_line_joins_the_targets_at_the_utilisation_that_runs_achieved(tmp_path: Path) -> None:
    _plot(tmp_path / "c")
    runs = [run for run in load(tmp_path / "c").runs if run.spec.level == "f2fs"]
    (low, less), (high, more) = means(runs, "overwrite.wa_total")
    assert (low, high) == pytest.approx((40.5, 80.5))
    assert (less, more) == pytest.approx((0.8, 1.6))
