"""The catalogue of metrics: each entry is complete, and its sources are files of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.judge.compare import compare
from analysis.read.load import load
from analysis.show import compare_columns, latex, links, pull_request, render
from analysis.show.report import write_report
from harness.metrics import catalogue as metrics
from harness.metrics.catalogue import (
    CATALOGUE,
    RESULT,
    Better,
    MetricInfo,
    MetricKind,
    source_patterns,
)
from harness.store import packed
from tests.fixtures.campaigns import with_metric, write_campaign
from tests.fixtures.example import unpacked

EXAMPLE = unpacked()


@pytest.mark.parametrize("info", CATALOGUE.values(), ids=lambda info: info.name)
def test_every_entry_is_complete(info: MetricInfo) -> None:
    assert info.unit
    assert info.formula
    assert info.sources
    for source in info.sources:
        top = source.partition("/")[0]
        assert top in {"raw", "series", "histograms", "ledger.json", RESULT}


def test_sources_are_files_of_a_recorded_run() -> None:
    """Each metric of a phase of the example names a file that its runs have."""
    run = next(run for run in load(EXAMPLE).runs if run.name == "f2fs--r01")
    keys = [key for key in run.result.metrics if key.startswith("overwrite.")]
    assert len(keys) > 40
    for key in keys:
        if run.value(key) is not None:
            assert run.path / RESULT not in links.files(run, key), key
    main = source_patterns("overwrite.throughput")[0]
    assert packed.find(run.path / main) == links.files(run, "overwrite.throughput")[0]


def test_names_in_patterns() -> None:
    assert source_patterns("probe.reset-100.reset_latency_p50") == ("raw/probe.stdout",)
    assert source_patterns("overwrite.latency_p99") == ("histograms/overwrite.*.json",)
    assert source_patterns("overwrite.no_such_metric") == ()


@pytest.mark.slow
def test_a_metric_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy metric gets a row, a formula and links from its catalogue entry alone."""
    sources = ("series/{phase}.csv",)
    toy = MetricInfo("toy", Better.LOWER, "the toy's formula", sources, "B", kind=MetricKind.BYTES)
    monkeypatch.setitem(metrics.CATALOGUE, "toy", toy)
    size = {"conventional-ext4": 100, "f2fs": 300, "btrfs": 200}
    folder = write_campaign(
        tmp_path / "c",
        change=lambda result: with_metric(result, "overwrite.toy", size.get(result.level, 100)),
    )
    comparison = compare(load(folder), metrics=["toy"])
    row = next(row for row in comparison.rows if row.level == "f2fs")
    assert (row.info, row.verdict.value) == (toy, "higher")
    page = write_report(comparison, tmp_path / "out")[0].read_text()
    assert ">the toy&#39;s formula</td>" in page
    assert "series/overwrite.csv</a>" in page


@pytest.mark.slow
def test_a_column_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy column is in every form of a comparison."""
    toy = compare_columns.Column(
        "toy_value", lambda row: len(row.level), lambda row: f"toy {row.level}", "toy title"
    )
    monkeypatch.setattr(compare_columns, "COLUMNS", (*compare_columns.COLUMNS, toy))
    comparison = compare(load(write_campaign(tmp_path / "c", series=False)))
    for form in ("table", "md"):
        text = render.render(comparison, form)
        assert "toy title" in text
        assert "toy f2fs" in text
    for form in ("csv", "json"):
        assert "toy_value" in render.render(comparison, form)
    page = write_report(comparison, tmp_path / "out")[0].read_text()
    for text in (latex.document(comparison), pull_request.markdown(comparison), page):
        assert "toy title" in text
        assert "toy f2fs" in text
