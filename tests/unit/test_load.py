"""Reading a campaign: attempts, partial and corrupt directories, other schemas."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import pytest

from analysis.read.load import CampaignData, load
from analysis.show.tables import metrics_csv
from harness.errors import ConfigError, ExitCode, RunFailed, UsageError
from harness.store import checksums
from harness.store.campaign import find_archive, find_campaign
from harness.store.result import Status
from harness.store.spec import Reason
from tests.fixtures.campaigns import (
    make_result,
    with_metric,
    with_status,
    write_campaign,
    write_run,
)


def metric_rows(data: CampaignData) -> list[dict[str, str]]:
    return list(csv.DictReader(metrics_csv(data).splitlines()))


def test_one_row_per_run_and_metric(tmp_path: Path) -> None:
    data = load(write_campaign(tmp_path / "c", repetitions=2))
    rows = metric_rows(data)
    assert len(rows) == sum(len(run.result.metrics) for run in data.runs)
    tails = [row["value"] for row in rows if row["metric"] == "overwrite.latency_p99_99"]
    assert tails == [""] * 6
    assert not data.missing


def test_a_partial_directory_is_no_result_and_its_run_is_missing(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c")
    runs = folder / "hosts" / "rig" / "runs"
    (runs / "f2fs--r01").rename(runs / ".f2fs--r01.partial")
    data = load(folder)
    assert len(data.runs) == 8
    assert [planned.spec.run for planned in data.missing] == ["f2fs--r01"]


def test_latest_attempt_counts_and_all_are_kept(tmp_path: Path) -> None:
    folder = write_campaign(
        tmp_path / "c",
        change=lambda r: with_status(r, Status.FAILED) if r.run == "f2fs--r01" else r,
    )
    data = load(folder)
    spec = next(run.spec for run in data.runs if run.name == "f2fs--r01")
    second = dataclasses.replace(make_result(spec), attempt=10)
    write_run(folder, "rig", spec, second)
    write_run(
        folder, "rig", spec, with_status(dataclasses.replace(second, attempt=9), Status.FAILED)
    )
    data = load(folder)
    assert len(data.runs) == 11
    latest = {run.name: run for run in data.latest}
    assert len(latest) == 9
    assert latest["f2fs--r01.a10"].ok
    assert {row["run"] for row in metric_rows(data) if row["latest"] == "false"} == {
        "f2fs--r01",
        "f2fs--r01.a9",
    }


def test_not_finite_is_null(tmp_path: Path) -> None:
    data = load(write_campaign(tmp_path / "c", repetitions=1, levels=("f2fs",)))
    run = data.runs[0]
    odd = with_metric(run.result, "overwrite.gc_bytes", math.nan)
    assert dataclasses.replace(run, result=odd).value("overwrite.gc_bytes") is None
    assert run.value("overwrite.no_such_metric") is None


def test_skipped_levels_carry_their_reason(tmp_path: Path) -> None:
    reason = Reason("kernel-too-old", "the kernel has no zoned xfs")
    data = load(write_campaign(tmp_path / "c", skipped={"xfs": reason}))
    assert data.skipped() == {"xfs": reason}


def test_unknown_campaign_lists_those_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_campaign(tmp_path / "results" / "mine", repetitions=1, series=False)
    assert find_campaign("mine").root == Path("results/mine")
    assert find_campaign("results/mine").root == Path("results/mine")
    with pytest.raises(UsageError, match="no campaign 'yours'") as caught:
        find_campaign("yours")
    assert caught.value.hint.endswith("mine")
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_name_means_a_folder_first_and_then_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packed = Path("results/mine.tar.xz")
    packed.parent.mkdir()
    assert find_archive("mine") is None
    packed.touch()
    assert find_archive("mine") == packed
    assert find_archive(str(packed)) == packed
    with pytest.raises(UsageError) as caught:
        find_campaign("yours")
    assert caught.value.hint == "campaigns under results: mine"
    write_campaign(tmp_path / "results" / "mine", repetitions=1, series=False)
    assert find_archive("mine") is None
    assert find_archive("results/mine") is None
    assert find_archive(str(packed)) == packed


@pytest.mark.parametrize("name", ["plan.json", "hosts/rig/runs/f2fs--r01/result.json"])
def test_other_schema_is_named(tmp_path: Path, name: str) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=1)
    document = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(document | {"schema_version": 99}))
    if "runs" in name:
        checksums.write((folder / name).parent)
    with pytest.raises(ConfigError, match="schema_version 99") as caught:
        load(folder)
    assert caught.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": 1, "status": "ok"}'])
@pytest.mark.parametrize("resigned", [True, False])
def test_corrupt_run_directory_is_one_clear_line(
    tmp_path: Path, content: str, resigned: bool
) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=1)
    run = folder / "hosts" / "rig" / "runs" / "f2fs--r01"
    (run / "result.json").write_text(content)
    if resigned:
        checksums.write(run)
    with pytest.raises((RunFailed, ConfigError)) as caught:
        load(folder)
    assert "f2fs--r01" in caught.value.message
    assert "\n" not in caught.value.message


def test_changed_series_is_noticed(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "c", repetitions=1)
    series = folder / "hosts" / "rig" / "runs" / "f2fs--r01" / "series" / "diskstats.csv"
    series.write_text(series.read_text() + "61.000,1,2\n")
    with pytest.raises(RunFailed, match=r"f2fs--r01: series/diskstats.csv: checksum differs"):
        load(folder)
