"""zonelab adopt on captured files of fio, and on SYNTHETIC ones in the sweeps of the study."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.judge import block_level
from analysis.judge.compare import compare
from analysis.read.block import BlockPoint, points_of
from analysis.read.load import CampaignData, load
from analysis.show.render import render
from harness.adopt import fio_files
from harness.cli.main import main
from harness.run import imported
from harness.store import checksums, packed
from harness.store.spec import DeviceKind
from tests.fixtures.block_files import write_study

CAPTURED = Path(__file__).parents[1] / "fixtures" / "fio_others"
DECLARED = (
    *("--scheduler", "*_none_*=none", "--scheduler", "*_mq-deadline_*=mq-deadline"),
    *("--overwrites", "*_overwrite_*"),
)
DEVICE = ("--device", "ZN540 3.8T", "--campaign", "theirs")
DEPTH_4 = "depth/first/disk_none_randread_4Ki_iodepth-4.json"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def adopted(folder: Path, *words: str) -> CampaignData:
    assert main(["adopt", "fio", str(folder), *DEVICE, *words]) == 0
    return load(Path("results/theirs"))


def direction(path: str, way: str = "read") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CAPTURED / path).read_text())["jobs"][0][way]
    return found


def changed(folder: Path, path: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return a copy of the captured files, in which one job is changed."""
    copy = Path(shutil.copytree(CAPTURED, folder))
    document = json.loads((copy / path).read_text())
    change(document["jobs"][0])
    (copy / path).write_text(json.dumps(document))
    return copy


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the message of a command that wrote nothing."""
    assert main(["adopt", "fio", *words]) == 2
    out, err = capsys.readouterr()
    message, hint = err.splitlines()
    assert out == ""
    assert hint.startswith("hint: ")
    assert not Path("results").exists()
    return message.removeprefix("zonelab: ")


def test_numbers_are_those_of_the_files() -> None:
    found = adopted(CAPTURED, *DECLARED)
    assert found.kinds == {DeviceKind.IMPORTED}
    run = next(run for run in found.runs if run.name.endswith("scheduler-none--r01"))
    fio = direction(DEPTH_4)
    assert run.value("randread-4k-qd4.throughput") == fio["iops"]
    assert run.value("randread-4k-qd4.operations") == fio["total_ios"] == 3000
    median = fio["clat_ns"]["percentile"]["50.000000"]
    assert run.value("randread-4k-qd4.latency_p50") == median / 1000
    assert run.value("randread-4k-qd4.latency_p99") is None  # the file has no such percentile
    # The file and its name are kept.
    files = run.result.manifest["imported"]["files"]
    assert files["randread-4k-qd4"] == DEPTH_4
    stored = packed.text(run.path / imported.stored("randread-4k-qd4"))
    assert stored == (CAPTURED / DEPTH_4).read_text()
    assert {run.result.device.model for run in found.runs} == {"ZN540 3.8T"}


def test_equal_settings_are_repetitions_and_schedulers_are_cells() -> None:
    found = adopted(CAPTURED, *DECLARED)
    assert sorted(run.name for run in found.runs) == [
        "raw-conventional_scheduler-mq-deadline--r01",
        "raw-conventional_scheduler-mq-deadline--r02",
        "raw-conventional_scheduler-none--r01",
        "raw-conventional_scheduler-none--r02",
        "raw-conventional_scheduler-not-recorded--r01",
    ]
    values = [
        run.value("randread-4k-qd4.throughput")
        for run in found.runs
        if "scheduler-none" in run.name
    ]
    paths = [DEPTH_4, DEPTH_4.replace("first", "second")]
    assert sorted(values) == sorted(direction(path)["iops"] for path in paths)  # type: ignore[type-var]


def test_the_points_have_the_declared_and_recorded_conditions() -> None:
    points = points_of(adopted(CAPTURED, *DECLARED).runs)
    shown = {(one.operation, one.bs, one.in_flight, one.scheduler) for one in points}
    assert ("randread", 4096, 4, "mq-deadline") in shown
    assert ("overwrite", 16384, 4, "not recorded") in shown
    assert not any(one.zoned for one in points)
    undeclared: list[BlockPoint] = []
    shutil.rmtree("results")
    undeclared = points_of(adopted(CAPTURED).runs)
    assert {one.scheduler for one in undeclared} == {""}
    assert not any(one.overwrites for one in undeclared)


def test_phases_that_prepare_are_no_points_and_decide_which_writes_overwrite() -> None:
    """As in our own runs: each write is behind the step that prepares it, and behind its ramp."""
    run = next(run for run in adopted(CAPTURED).runs if len(run.spec.phases) > 3)
    (write,) = (one for one in run.spec.phases if one.name == "write-4k-qd4")

    def points(*benchmarks: str) -> list[BlockPoint]:
        phases = tuple(dataclasses.replace(write, benchmark=name) for name in benchmarks)
        spec = dataclasses.replace(run.spec, phases=phases)
        return points_of([dataclasses.replace(run, spec=spec)])

    assert [one.overwrites for one in points("discard", "ramp", "write")] == [False]
    assert [one.overwrites for one in points("fill", "ramp", "write")] == [True]
    assert [one.overwrites for one in points("fill", "write", "discard", "write")] == [True, False]
    assert points("reset", "fill", "ramp") == []


def test_options_that_differ_and_early_ends_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = adopted(CAPTURED, *DECLARED)
    err = capsys.readouterr().err
    assert "options differ: sizes, disk: max_open_zones is not set in 5, 14 in 1 files" in err
    assert "iodepth is" not in err  # an axis of a sweep
    issues = {
        (issue.code, issue.phase): issue.message
        for run in found.runs
        for issue in run.result.issues
        if issue.code != "fio-options-differ"
    }
    ramp = issues["fio-ended-in-ramp", "read-128k-qd4"]
    assert ramp.startswith("sizes/disk_read_128k.json: it ended inside its ramp")
    run = next(run for run in found.runs if "read-128k-qd4.seconds" in run.result.metrics)
    assert run.value("read-128k-qd4.throughput") is None
    assert run.value("read-128k-qd4.operations") == 256  # bytes were moved, not timed
    codes = {issue.code for one in found.runs for issue in one.result.issues}
    assert "fio-options-differ" in codes
    assert "fio-clat" in codes


@pytest.mark.parametrize("options", [("gtod_reduce",), ("disable_lat", "disable_clat")])
@pytest.mark.parametrize("release", ["fio-3.33", "fio-3.1"])
def test_files_without_latencies_keep_their_rate(
    tmp_path: Path, options: tuple[str, ...], release: str
) -> None:
    """Old releases report latencies of 0 without a number of samples."""

    def turn_off(job: dict[str, Any]) -> None:
        job["job options"] |= dict.fromkeys(options, "1")
        nothing = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0}
        counted = {"N": 0} if release == "fio-3.33" else {"percentile": {"50.000000": 0}}
        job["read"] |= dict.fromkeys(("slat_ns", "clat_ns", "lat_ns"), nothing | counted)

    found = adopted(changed(tmp_path / "off", DEPTH_4, turn_off), *DECLARED)
    issues = [issue for run in found.runs for issue in run.result.issues]
    (off,) = [issue for issue in issues if issue.code == "fio-latencies-off"]
    assert off.message == f"{DEPTH_4}: its options turn latencies off, so it has a rate only"
    assert [issue.phase for issue in issues if issue.code == "fio-ended-in-ramp"] == [
        "read-128k-qd4"
    ]
    (run,) = [
        run for run in found.runs if DEPTH_4 in run.result.manifest["imported"]["files"].values()
    ]
    assert off.phase is not None
    assert run.value(f"{off.phase}.throughput") == direction(DEPTH_4)["iops"]
    assert run.value(f"{off.phase}.seconds") is not None
    for name in ("latency_p50", "latency_p95", "latency_max"):
        assert run.value(f"{off.phase}.{name}") is None


def test_without_completion_latencies_the_whole_one_counts(tmp_path: Path) -> None:
    def turn_off(job: dict[str, Any]) -> None:
        job["job options"]["disable_clat"] = "1"
        job["read"]["clat_ns"] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}

    found = adopted(changed(tmp_path / "off", DEPTH_4, turn_off), *DECLARED)
    maxima = [
        value
        for run in found.runs
        for phase in run.spec.phases
        if (value := run.value(f"{phase.name}.latency_max")) is not None
    ]
    assert direction(DEPTH_4)["lat_ns"]["max"] / 1000 in maxima


def test_a_run_shorter_than_its_runtime_is_named(tmp_path: Path) -> None:
    def shorten(job: dict[str, Any]) -> None:
        job["job options"]["runtime"] = "30s"

    found = adopted(changed(tmp_path / "short", DEPTH_4, shorten), *DECLARED)
    issues = [issue for run in found.runs for issue in run.result.issues]
    (early,) = [issue for issue in issues if issue.code == "fio-ended-early"]
    assert early.expected == 30
    assert early.phase is not None


def test_options_that_differ_at_one_point_make_two_phases(tmp_path: Path) -> None:
    """Two files of one size and depth with other limits of zones are no repetitions."""

    def limit(job: dict[str, Any]) -> None:
        job["job options"]["max_open_zones"] = "14"

    found = adopted(changed(tmp_path / "limit", DEPTH_4, limit), *DECLARED)
    none = [run for run in found.runs if "scheduler-none" in run.name]
    names = [phase.name for run in none for phase in run.spec.phases]
    assert names.count("randread-4k-qd4") == 1
    assert names.count("randread-4k-qd4-max-open-zones-14") == 1
    assert names.count("randread-4k-qd1") == 2


def test_block_sizes_have_the_units_of_the_file(tmp_path: Path) -> None:
    def rename(job: dict[str, Any]) -> None:
        job["job options"] |= {"bs": "4KiB", "kb_base": "1000"}

    found = adopted(changed(tmp_path / "units", DEPTH_4, rename), *DECLARED)
    flags = [phase.flags for run in found.runs for phase in run.spec.phases]
    assert [one["bs"] for one in flags if "kb_base" in one] == [4096]


def test_engines_that_wait_have_depth_1(tmp_path: Path) -> None:
    def wait(job: dict[str, Any]) -> None:
        job["job options"]["ioengine"] = "psync"

    found = adopted(changed(tmp_path / "wait", DEPTH_4, wait), *DECLARED)
    none = [point for point in points_of(found.runs) if point.scheduler == "none"]
    assert sorted(point.in_flight for point in none) == [1, 1, 1, 4]


def test_percentiles_of_several_jobs_are_never_averaged() -> None:
    two = imported.read((CAPTURED.parent / "fio" / "two.json").read_text())
    found = imported.metrics(two)
    whole = imported.histograms(two)
    assert set(whole) == {"read", "write"}  # json+ has buckets, so they can be merged
    assert found["latency_p50"].value is not None
    document = json.loads((CAPTURED / DEPTH_4).read_text())
    document["jobs"].append(json.loads(json.dumps(document["jobs"][0])))
    merged = imported.metrics(imported.read(json.dumps(document)))
    assert merged["latency_p50"].value is None
    assert merged["throughput"].value == pytest.approx(2 * direction(DEPTH_4)["iops"])


def test_percentiles_of_plain_files_need_samples_above_them() -> None:
    """3000 commands have 150 above the 95th percentile, 30 above the 99th."""
    document = json.loads((CAPTURED / DEPTH_4).read_text())
    found = document["jobs"][0]["read"]["clat_ns"]["percentile"]
    found |= {"99.000000": 2_000_000, "99.900000": 3_000_000}
    metrics = imported.metrics(imported.read(json.dumps(document)))
    assert metrics["latency_p95"].value == found["95.000000"] / 1000
    assert metrics["latency_p99"].value is None
    assert metrics["latency_p99_9"].value is None


def test_verify_computes_numbers_again(capsys: pytest.CaptureFixture[str]) -> None:
    found = adopted(CAPTURED, *DECLARED)
    assert main(["verify", "theirs"]) == 0
    assert "theirs: whole" in capsys.readouterr().out
    folder = next(run.path for run in found.runs if run.name.endswith("none--r01"))
    result = json.loads((folder / "result.json").read_text())
    result["metrics"]["randread-4k-qd4.throughput"]["value"] += 1
    result["metrics"]["randread-4k-qd9.throughput"] = {"value": 1.0, "unit": "ops/s"}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / checksums.NAME).unlink()
    checksums.write(folder)
    assert main(["verify", "theirs"]) == 4
    out = capsys.readouterr().out
    assert "randread-4k-qd4.throughput: result.json has" in out
    assert "randread-4k-qd9.throughput: result.json has 1.0, raw/ gives no such metric" in out


def test_compare_lists_values_without_a_verdict() -> None:
    found = adopted(CAPTURED, *DECLARED)
    text = render(compare(found, metrics=["randread-4k-qd4.throughput"]), "table", None)
    assert "imported: others measured it" in text
    assert "randread-4k-qd4.throughput" in text
    rows = compare(found, metrics=["randread-4k-qd4.throughput"]).rows
    assert not any(row.verdict.is_judged for row in rows)


@pytest.mark.slow
def test_the_report_has_curves_and_every_guideline(tmp_path: Path) -> None:
    study = write_study(tmp_path / "data")
    assert main(["adopt", "fio", str(study), *DEVICE, *DECLARED[:4]]) == 0
    assert main(["report", "theirs"]) == 0
    report = Path("results/theirs/report")
    table = (report / "tables/guidelines.csv").read_text()
    judged = block_level.judge(load(Path("results/theirs")))
    assert len(table.splitlines()) == 1 + len(judged)
    found = {one.guideline.id: one.outcome.agreement.value for one in judged}
    assert found["read-over-write"] == found["write-size"] == "agrees"
    assert found["depth-sequential"] == found["depth-random"] == "agrees"
    assert found["none-for-reads-median"] == found["one-zone-median"] == "agrees"
    assert found["other-drives"] == "not asked"
    drawn = {path.name for path in (report / "figures").iterdir()}
    assert {
        "block-iops-raw-device-none.svg",
        "block-bandwidth-raw-conventional-not-recorded.svg",
        "block-latency-raw-device-read.svg",
    } <= drawn
    assert all(name.startswith("block-") for name in drawn)  # no figure for each phase
    page = (report / "index.html").read_text()
    # No database writes here, so bytes per user byte are no answer.
    assert page.index('id="block"') < page.index('id="verdicts"')
    assert 'id="amplification"' not in page
    assert "imported: measured by others" in page
    svg = (report / "figures/block-latency-raw-device-read.svg").read_text()
    assert ">mq-deadline<" in svg
    assert ">commands in flight<" in svg


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere", *DEVICE), "nowhere is not a folder"),
        ((".", *DEVICE), ". has no *.json"),
        ((str(CAPTURED), *DEVICE, "--skip", "*"), "that is not skipped"),
        ((str(CAPTURED), "--device", " ", "--campaign", "theirs"), "--device is empty"),
        ((str(CAPTURED), "--device", "x", "--campaign", "a/b"), "cannot name a campaign"),
        ((str(CAPTURED), *DEVICE, "--scheduler", "none"), "--scheduler none is not PATTERN=NAME"),
        ((str(CAPTURED), *DEVICE, "--scheduler", "x=none"), "--scheduler: no file matches 'x'"),
        ((str(CAPTURED), *DEVICE, "--overwrites", "x"), "--overwrites: no file matches 'x'"),
        ((str(CAPTURED), *DEVICE, "--overwrites", "*_read_4k*"), "it does read"),
        (
            (str(CAPTURED), *DEVICE, "--scheduler", "*=none", "--scheduler", "*=bfq"),
            "matches bfq and none",
        ),
        (("--device", "x"), "required"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert message in refusal(capsys, *words)


def _fail(job: dict[str, Any]) -> None:
    job["error"] = 28


def _range(job: dict[str, Any]) -> None:
    job["job options"]["bs"] = "4k-8k"


def _sizes(option: str, value: str) -> Callable[[dict[str, Any]], None]:
    def change(job: dict[str, Any]) -> None:
        del job["job options"]["bs"]
        job["job options"][option] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_fail, "ended with error 28"),
        (_range, "bs is '4k-8k', not one number"),
        (_sizes("bsrange", "4k-64k"), "bsrange is '4k-64k', not one number"),
        (_sizes("blocksize_range", "4k-64k"), "bsrange is '4k-64k', not one number"),
        (_sizes("bssplit", "4k/90:64k/10"), "bssplit is '4k/90:64k/10', not one number"),
    ],
)
def test_a_file_that_cannot_be_adopted_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], None],
    message: str,
) -> None:
    folder = changed(tmp_path / "bad", DEPTH_4, change)
    found = refusal(capsys, str(folder), *DEVICE)
    assert found.startswith(f"{DEPTH_4}: ")
    assert message in found
    # The hint's option leaves it out.
    assert len(fio_files.read(folder, skip=[DEPTH_4])) == 13


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not JSON output of fio"),
        ("{}", "fio's output is damaged"),
        ("[1]", "it is not JSON output of fio"),
        ((CAPTURED / DEPTH_4).read_text()[:3000], "incomplete"),
    ],
)
def test_other_json_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    folder = Path(shutil.copytree(CAPTURED, tmp_path / "other"))
    (folder / "package.json").write_text(text)
    found = refusal(capsys, str(folder), *DEVICE)
    assert found.startswith("package.json: ")
    assert message in found


def test_different_jobs_in_one_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(CAPTURED.parent / "fio" / "two.json", tmp_path / "two.json")
    assert "its jobs differ in rw" in refusal(capsys, str(tmp_path), *DEVICE)


@pytest.mark.parametrize(
    ("options", "groupid", "message"),
    [
        ({"stonewall": "1"}, 1, "its jobs are several groups"),
        ({"numjobs": "2"}, 1, "its jobs differ in numjobs"),
        ({"filename": "/tmp/other"}, 0, "its jobs differ in filename"),
    ],
)
def test_jobs_that_cannot_be_added_up_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, str],
    groupid: int,
    message: str,
) -> None:
    """Jobs with stonewall run one after another: their rates have no sum."""
    document = json.loads((CAPTURED / DEPTH_4).read_text())
    (first,) = document["jobs"]
    own = first["job options"] | {"group_reporting": "1"} | options
    document["jobs"].append(first | {"groupid": groupid, "job options": own})
    (tmp_path / "jobs.json").write_text(json.dumps(document))
    assert message in refusal(capsys, str(tmp_path), *DEVICE)


def test_clones_of_one_group_are_added_up(tmp_path: Path) -> None:
    """Without group_reporting each clone has its numbers, and the options of its section."""
    document = json.loads((CAPTURED / DEPTH_4).read_text())
    (first,) = document["jobs"]
    first["job options"]["numjobs"] = "2"
    document["jobs"].append(first)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "clones.json").write_text(json.dumps(document))
    (run,) = adopted(tmp_path / "data").runs
    assert [phase.flags["numjobs"] for phase in run.spec.phases] == [2]
    rate = run.value("randread-4k-qd4-j2.throughput")
    assert rate == pytest.approx(2 * direction(DEPTH_4)["iops"])


def test_a_campaign_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    adopted(CAPTURED, *DECLARED)
    before = checksums.digest(Path("results/theirs/plan.json"))
    assert main(["adopt", "fio", str(CAPTURED), *DEVICE]) == 2
    assert "exists already" in capsys.readouterr().err
    assert checksums.digest(Path("results/theirs/plan.json")) == before


def test_a_full_disk_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.store.checksums.write", full)
    assert main(["adopt", "fio", str(CAPTURED), *DEVICE]) == 2
    assert [*Path("results").iterdir()] == []
