"""The report's table of block-level points (points are synthetic)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from analysis.judge.compare import compare
from analysis.read.block import BlockPoint
from analysis.read.load import load
from analysis.show.groups import groups_of
from analysis.show.parts import ReportData
from analysis.show.sections import block
from tests.fixtures.block_points import conventional, point
from tests.fixtures.campaigns import write_campaign


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    folder: Path = tmp_path_factory.mktemp("block") / "c"
    comparison = compare(load(write_campaign(folder, series=False)))
    return ReportData(comparison, tuple(groups_of(comparison)), {})


def rows(
    data: ReportData, monkeypatch: pytest.MonkeyPatch, points: list[BlockPoint]
) -> list[dict[str, str]]:
    """Return the rows of the table of points by the names of its columns."""
    monkeypatch.setattr(block, "points_of", lambda _: points)
    monkeypatch.setattr(block, "clients_of", lambda _: [])
    monkeypatch.setattr(block.block_level, "judge", lambda *_: [])
    section = block.section(data)
    assert section is not None
    (grid,) = [one for one in section.grids if one.name == "block_points"]
    return [dict(zip(grid.header, row, strict=True)) for row in grid.rows]


def test_instructions_and_merged_writes_are_means_over_runs(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        point(rw="write", block=block, instructions=instructions, merged=merged)
        for block, instructions, merged in (("1", 4000.0, 0.5), ("2", 9000.0, 0.0))
    ]
    (row,) = rows(data, monkeypatch, points)
    assert row["runs"] == "2"
    assert row["instructions / command"] == "6,000"  # sqrt(4000 * 9000)
    assert row["merged writes (mean share)"] == "0.250"  # 0 counts, so no geometric mean


def test_what_was_not_counted_is_a_dash(data: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = point(rw="write", instructions=5000.0, merged=0.0)
    other = dataclasses.replace(conventional(), instructions=None, merged=None)
    found = {row["device"]: row for row in rows(data, monkeypatch, [counted, other])}
    columns = ("instructions / command", "merged writes (mean share)")
    assert [found["raw-device"][name] for name in columns] == ["5,000", "0"]
    assert [found["raw-conventional"][name] for name in columns] == ["-", "-"]


@pytest.mark.parametrize(("zoned", "spread"), [(True, "over zones"), (False, "by jobs")])
def test_only_zoned_devices_are_swept_over_zones(
    data: ReportData, monkeypatch: pytest.MonkeyPatch, zoned: bool, spread: str
) -> None:
    monkeypatch.setattr(
        block, "points_of", lambda _: [point(jobs=jobs, zoned=zoned) for jobs in (2, 4)]
    )
    monkeypatch.setattr(block, "clients_of", lambda _: [])
    monkeypatch.setattr(block.block_level, "judge", lambda *_: [])
    section = block.section(data)
    assert section is not None
    (title,) = [plot.title for plot in section.plots if "latency" in plot.name]
    assert title == f"raw-device, read, {spread}: latency by scheduler"


def test_guidelines_are_judged_with_the_slower_campaigns_of_the_comparison(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = data.comparison.campaign
    judge = dataclasses.replace(data.comparison.judge, slower=(campaign,))
    comparison = dataclasses.replace(data.comparison, judge=judge)
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(block, "points_of", lambda _: [point()])
    monkeypatch.setattr(block, "clients_of", lambda _: [])
    monkeypatch.setattr(block.block_level, "judge", lambda *given: calls.append(given) or [])
    assert block.section(dataclasses.replace(data, comparison=comparison)) is not None
    assert calls == [(campaign, (campaign,))]
