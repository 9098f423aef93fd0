"""zonelab replay on captured output of zlfs-replay: metrics, grid, campaign, refusals."""

from __future__ import annotations

import csv
import errno
import io
import json
import lzma
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.judge.compare import compare
from analysis.read.load import load, load_pool
from analysis.show.render import render
from harness.cli.main import main
from harness.errors import HostError, ToolFailed, UsageError
from harness.replay import grid, sources
from harness.run import replayed
from harness.store import checksums, rundir
from harness.store.campaign import CampaignPaths
from harness.store.result import Status
from harness.store.rundir import RunWriter
from harness.store.spec import DeviceKind
from harness.tools import zlfs_replay
from harness.verify import recompute
from tests.fixtures.example import unpacked

FIXTURES = Path(__file__).parents[1] / "fixtures" / "zlfs_replay"
TRACE = FIXTURES / "trace"

# Answers with captured outputs of zlfs-replay; other settings fail.
FAKE = f"""#!/usr/bin/env python3
import json, sys
from pathlib import Path
named = {{
    ("--info",): "info", (): "recorded", ("--own-rules",): "own",
    ("--zone-capacity=524288", "--finish-occupancy-pct=0"): "threshold-0",
    ("--zone-capacity=2097152", "--finish-occupancy-pct=70"): "few",
    ("--zone-capacity=2097152", "--finish-occupancy-pct=0"): "few",
    ("--zone-capacity=524288", "--finish-occupancy-pct=70"): "recorded",
    ("--zones=16", "--finish-occupancy-pct=0"): "full",
    ("--finish-remaining-pct=30",): "recorded", ("--finish-remaining-pct=100",): "threshold-0",
    ("--max-active=8",): "recorded",
    ("--finish-occupancy-pct=70", "--gc=on"): "recorded",
    ("--finish-occupancy-pct=70", "--gc=off"): "threshold-0",
}}
folder = Path({str(FIXTURES)!r})
if Path(sys.argv[1]).read_bytes() != (folder / "trace").read_bytes():
    sys.stderr.write((folder / "refused.err").read_text())
    sys.exit(3)
options = tuple(one for one in sys.argv[2:] if not one.startswith(("--model=", "--dilation=")))
name = named[options]
for model in (one.removeprefix("--model=") for one in sys.argv if one.startswith("--model=")):
    assert json.loads(Path(model).read_text())["flash"]["channels"]
    name = "modelled"
Path(__file__).with_name("arguments").write_text(" ".join(sys.argv))
print((folder / (name + ".json")).read_text(), end="")
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "native"
    folder.mkdir()
    fake = folder / "zlfs-replay"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    monkeypatch.setenv("ZONELAB_NATIVE", str(folder))
    monkeypatch.chdir(tmp_path)


def captured(name: str) -> zlfs_replay.Replayed:
    return zlfs_replay.parse((FIXTURES / f"{name}.json").read_text())


def test_metrics_equal_the_recorded_ledgers() -> None:
    ledger = json.loads((FIXTURES / "info.json").read_text())["mounts"][0]["recorded"]
    found = {key: metric.value for key, metric in replayed.metrics(captured("recorded")).items()}
    assert found["run.pad_threshold"] == ledger["finishes"]["threshold"]["given_up"] > 0
    assert found["run.finishes_threshold"] == ledger["finishes"]["threshold"]["count"] > 0
    assert found["run.zone_resets"] == sum(ledger["resets"].values())
    device = sum(part["payload"] + part["pad"] for part in ledger["written"].values())
    assert found["run.device_written"] == device
    assert found["run.wa_pad"] == (device + found["run.pad_bytes"]) / device
    space = ledger["space"]
    assert found["run.sa_host"] == (device + space["garbage"]) / device
    assert found["run.live_bytes"] == space["live"]
    assert 70 <= (found["run.finish_occupancy_p10"] or 0) <= 100  # none below the threshold
    assert "run.finish_seconds" not in found  # nothing was timed


def test_times_are_those_of_the_modelled_drive() -> None:
    one = captured("modelled")
    times = one.modelled or {}
    found = {key: metric.value for key, metric in replayed.metrics(one).items()}
    assert found["run.modelled_seconds"] == times["modelled_ns"] / 1e9
    finish = times["commands"]["finish"]
    assert found["run.modelled_finish_device_seconds"] == finish["total_ns"] / 1e9 > 0
    assert finish["count"] == found["run.zone_finishes"]
    wal = times["appends"]["wal"]
    assert found["run.modelled_append_wal_p99_9"] == wal["p99_9_ns"] / 1e3
    assert found["run.modelled_append_wal_mean"] == wal["total_ns"] / wal["count"] / 1e3
    assert found["run.modelled_append_flush_p99"] is None  # too few appends
    # Bytes are those of the replay, and collection is no bandwidth.
    part = one.mounts[0]["written"]["wal"]
    assert wal["bytes"] == part["payload"] + part["pad"]
    faster = json.loads(one.document)
    faster["modelled"]["appends"]["gc"] = {**wal, "bytes": 10**12}
    more = replayed.metrics(zlfs_replay.parse(json.dumps(faster)))
    assert more["run.modelled_bandwidth"].value == found["run.modelled_bandwidth"]
    # The others have none.
    assert not any("append" in key for key in replayed.metrics(captured("recorded")))


def test_cold_mounts_count_in_sa_host_and_wear_alone() -> None:
    one = captured("recorded")
    cold = json.loads(json.dumps(one.mounts[0]))
    for cause, part in cold["written"].items():
        if cause != "metadata":
            part.update(payload=0, pad=0)
    cold["written"]["import"]["payload"] = 10**9
    both = replayed.metrics(
        zlfs_replay.Replayed(
            one.setting, one.counterfactual, one.rules, (cold, *one.mounts), one.wear, None, ""
        )
    )
    alone = replayed.metrics(one)
    assert both["run.device_written"] == alone["run.device_written"]
    assert (both["run.sa_host"].value or 0) < (alone["run.sa_host"].value or 0)


def test_an_infeasible_setting_has_arithmetic_and_no_metrics() -> None:
    one = captured("full")
    assert replayed.metrics(one) == {}
    why = grid.why_infeasible(one)
    space = (one.infeasible or {})["space"]
    kinds = ("live", "pad", "garbage", "given_up", "free")
    assert sum(space[kind] for kind in kinds) == space["capacity"]
    assert f"{space['capacity'] / 2**20:.0f} MiB = {space['live'] / 2**20:.1f} live" in why
    assert grid.why_infeasible(captured("few")) == "12 zones of 2 MiB; zlfs needs 16"


def test_differences_from_the_ledger_are_named() -> None:
    document = json.loads((FIXTURES / "recorded.json").read_text())
    assert zlfs_replay.parse(json.dumps(document)).differences == ()
    document["mounts"][0]["differences"] = ["/resets/data"]
    assert zlfs_replay.parse(json.dumps(document)).differences == ("mount 1: /resets/data",)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1}'])
def test_other_output_is_refused(text: str) -> None:
    with pytest.raises(ToolFailed, match="zlfs-replay printed"):
        zlfs_replay.parse(text)


def recorded_run(parent: Path, name: str = "zlfs--r01", **device: Any) -> Path:
    """Return a run directory with the trace, recorded on a device with these fields."""
    folder = shutil.copytree(next(unpacked().glob("hosts/*/runs/zlfs*")), parent / name)
    (folder / f"{sources.TRACE}.xz").unlink(missing_ok=True)
    shutil.copyfile(TRACE, folder / sources.TRACE)
    spec = json.loads((folder / "run.json").read_text())
    spec["device"] |= device
    (folder / "run.json").write_text(json.dumps(spec))
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["replay", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_recorded_setting_is_played_without_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, str(TRACE), "--format", "json")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["label"], row["status"], row["finish_occupancy_pct"]) == ("recorded", "ok", 70)
    assert "1/1 settings" in err


def test_own_rules_are_not_called_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, str(TRACE), "--own-rules", "--format", "json")
    assert (code, json.loads(out)[0]["label"]) == (0, "own-rules")


def test_a_model_adds_times_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, str(TRACE), "--model", "zn540-1tb")
    assert code == 0
    assert "modelled MiB/s" in out
    assert "times are modelled: zn540-1tb, core passes, known misses: 1" in err
    code, out, _ = run(capsys, str(TRACE), "--model", "zn540-1tb", "--format", "json")
    assert json.loads(out)[0]["modelled_seconds"] > 0
    code, out, err = run(capsys, str(TRACE), "--model", "zn541")
    assert (code, out) == (2, "")


def test_recorded_times_are_divided_by_the_dilation(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    timed = recorded_run(tmp_path, kind="modelled", model="zoneblk zones-4m x256")
    for words, dilation in (
        ((str(timed),), "--dilation=256"),
        ((str(TRACE), "--dilation", "128"), "--dilation=128"),
        ((str(TRACE),), "--model="),
    ):
        assert run(capsys, *words, "--model", "zn540-1tb")[0] == 0
        *_, last = (tmp_path / "native" / "arguments").read_text().split()
        assert last.startswith(dilation)
    assert run(capsys, str(TRACE), "--dilation", "0")[0] == 2


@pytest.mark.slow
def test_a_replayed_campaign_names_the_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = (str(TRACE), "--model", "zn540-1tb", "--campaign", "timed")
    assert run(capsys, *command)[0] == 0
    paths = CampaignPaths(tmp_path / "results" / "timed")
    assert recompute.problems(paths) == []
    (one,) = load(paths.root).runs
    stored = one.result.manifest["replay"]["model"]
    assert (stored["name"], stored["core"]) == ("zn540-1tb", "passes, known misses: 1")
    assert stored["drive"]["flash"]["channels"]["value"] == 8
    assert any("times are modelled: zn540-1tb" in issue.message for issue in one.result.issues)
    assert main(["report", "timed"]) == 0
    page = (paths.root / "report/index.html").read_text()
    assert "Times on a modelled drive (zn540-1tb)" in page
    assert "modelled: zn540-1tb" in page  # over the figures
    assert "bandwidth of appends against finish threshold" in page
    # A time that the replay does not bear out is found.
    result = json.loads((one.path / "result.json").read_text())
    result["metrics"]["run.modelled_bandwidth"]["value"] *= 2
    (one.path / "result.json").write_text(json.dumps(result))
    assert any("run.modelled_bandwidth" in line for line in recompute.problems(paths))


GRID = ("--finish-occupancy-pct", "0,70", "--zone-capacity", "512KiB,2MiB", "--jobs", "2")


@pytest.mark.slow
def test_a_grid_in_order_infeasible_settings_included(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, str(TRACE), *GRID, "--format", "csv")
    assert code == 0
    rows: list[dict[str, Any]] = [*csv.DictReader(io.StringIO(out))]
    assert [row["status"] for row in rows] == ["ok", "ok", "infeasible", "infeasible"]
    assert rows[0]["label"] == "counterfactual"
    assert int(rows[0]["pad_bytes"]) > int(rows[1]["pad_bytes"])
    assert rows[2]["pad_bytes"] == ""
    assert rows[2]["why"] == "12 zones of 2 MiB; zlfs needs 16"
    code, out, _ = run(capsys, str(TRACE), *GRID)
    assert code == 0
    assert "0.5 MiB" in out


@pytest.mark.slow
def test_a_campaign_is_labelled_and_verified(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = run(capsys, str(TRACE), *GRID, "--campaign", "mine")
    assert code == 0
    assert "results/mine" in err
    found = load(tmp_path / "results" / "mine")
    assert found.replayed
    assert found.not_hardware  # no time is a result
    assert {run.result.device.kind for run in found.runs} == {DeviceKind.REPLAYED}
    ended = {run.name: run.result.status for run in found.runs}
    assert [*ended.values()].count(Status.SKIPPED) == 2
    assert found.missing == ()
    paths = CampaignPaths(tmp_path / "results" / "mine")
    assert recompute.problems(paths) == []
    text = render(compare(found), "table", None)
    assert "replayed from a recorded trace" in text
    assert main(["report", "mine"]) == 0
    page = (tmp_path / "results/mine/report/index.html").read_text()
    assert "replayed, not run" in page
    costs = paths.root / "report/tables/finish_costs.csv"
    counts = {
        (run.value("run.zone_finishes"), run.value("run.zone_resets"))
        for run in found.runs
        if run.ok
    }
    rows = csv.DictReader(costs.read_text().splitlines())
    assert {(float(row["finishes"]), float(row["resets"])) for row in rows} == counts
    assert all(all(count) for count in counts)
    # A number that the replay does not bear out is found.
    folder = next(run.path for run in found.runs if run.ok)
    result = json.loads((folder / "result.json").read_text())
    result["metrics"]["run.pad_bytes"]["value"] += 1
    (folder / "result.json").write_text(json.dumps(result))
    assert any("run.pad_bytes" in line for line in recompute.problems(paths))
    # Nothing is overwritten.
    code, _, err = run(capsys, str(TRACE), "--campaign", "mine")
    assert (code, "exists already" in err) == (2, True)


def test_a_campaign_is_stored_completely_or_not_at_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (str(TRACE), "--finish-remaining-pct", "30,100", "--campaign", "mine")
    disk = [False, True]  # whether it is full at the next run

    def commit(self: RunWriter) -> Path:
        if disk.pop(0):
            raise HostError("no space left", code="disk-full")
        return kept(self)

    kept = RunWriter.commit
    with monkeypatch.context() as full:
        full.setattr(RunWriter, "commit", commit)
        code, out, err = run(capsys, *words)
    assert "no space left" in err
    assert code != 0
    assert "counterfactual" in out  # the table is not lost
    assert [*(tmp_path / "results").iterdir()] == []
    assert run(capsys, *words)[0] == 0
    assert len(load(tmp_path / "results" / "mine").runs) == 2
    assert recompute.problems(CampaignPaths(tmp_path / "results" / "mine")) == []


def test_a_changed_limit_is_no_recorded_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recorded = recorded_run(tmp_path)
    spec = json.loads((recorded / "run.json").read_text())
    spec["level_options"] = {"max_active": 14, "gc": "off"}
    (recorded / "run.json").write_text(json.dumps(spec))
    assert run(capsys, str(recorded), "--max-active", "8", "--campaign", "mine")[0] == 0
    (one,) = load(tmp_path / "results" / "mine").runs
    assert one.spec.factors["max_active"] == 8
    assert one.spec.level_options == {"gc": "off", "finish_occupancy_pct": 70}


def test_both_names_of_a_threshold_are_one_factor(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    grid = ("--finish-remaining-pct", "30,100", "--campaign", "mine")
    assert run(capsys, str(TRACE), *grid)[0] == 0
    found = load(tmp_path / "results" / "mine")
    assert [run.spec.factors for run in found.runs] == [
        {"finish_occupancy_pct": 70},
        {"finish_occupancy_pct": 0},
    ]
    assert compare(found).rows


@pytest.mark.slow
def test_other_settings_are_no_repetitions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    both = ("--finish-occupancy-pct", "70", "--gc", "on,off")
    assert run(capsys, str(TRACE), *both, "--campaign", "mine")[0] == 0
    assert main(["report", "mine"]) == 0
    table = (tmp_path / "results/mine/report/tables/finish_costs.csv").read_text()
    rows = [*csv.DictReader(table.splitlines())]
    assert [row["level"] for row in rows] == ["zlfs, gc on", "zlfs, gc off"]
    assert rows[0]["finishes"] != rows[1]["finishes"]


@pytest.mark.slow
def test_replays_and_runs_are_never_mixed_unseen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, str(TRACE), *GRID, "--campaign", "a")[0] == 0
    assert run(capsys, str(TRACE), *GRID, "--campaign", "b")[0] == 0
    # As if the second had been run.
    for name in ("run.json", "result.json"):
        for path in (tmp_path / "results/b").rglob(name):
            path.write_text(path.read_text().replace('"replayed"', '"emulated"'))
    for folder in rundir.completed(tmp_path / "results/b/hosts/replayed/runs"):
        sums = folder / "SHA256SUMS"
        sums.unlink()
        checksums.write(folder)
    pool = load_pool([tmp_path / "results/a", tmp_path / "results/b"])
    text = render(compare(pool), "table", None)
    assert "replayed from a recorded trace" in text
    assert "device kind" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "neither a trace nor a run directory"),
        ((str(TRACE), "--finish-occupancy-pct", "a"), "--finish-occupancy-pct: 'a'"),
        ((str(TRACE), "--finish-occupancy-pct", "1,1"), "repeats a value"),
        ((str(TRACE), "--zone-capacity", "5 parsecs"), "--zone-capacity"),
        ((str(TRACE), "--jobs", "0"), "--jobs 0"),
        ((str(TRACE), "--campaign", "a/b"), "cannot name a campaign"),
        (
            (str(TRACE), "--finish-occupancy-pct", "1", "--finish-remaining-pct", "2"),
            "the same threshold",
        ),
    ],
)
def test_bad_input_is_one_line_and_a_hint(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("zonelab: ")
    assert message in err.splitlines()[0]
    assert err.splitlines()[1].startswith("hint: ")


def test_a_damaged_trace_is_refused_in_its_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    half = tmp_path / "half"
    half.write_bytes(TRACE.read_bytes()[:1000])
    code, _, err = run(capsys, str(half))
    assert code == 2
    assert "zonelab: zlfs-replay: unfinished" in err


def test_a_run_without_a_trace_is_refused(tmp_path: Path) -> None:
    recorded = next(unpacked().glob("hosts/*/runs/zlfs*"))
    folder = shutil.copytree(recorded, tmp_path / recorded.name)
    (folder / f"{sources.TRACE}.xz").unlink(missing_ok=True)
    with (
        pytest.raises(UsageError, match=r"has no raw/allocations\.trace"),
        sources.opened([folder]),
    ):
        pass


def test_packed_traces_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "trace.xz"
    path.write_bytes(lzma.compress(TRACE.read_bytes()))
    with sources.opened([path]) as (found,):
        assert found.trace.read_bytes() == TRACE.read_bytes()
        assert found.setting["finish_occupancy_pct"] == 70
    assert not found.trace.exists()
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(UsageError, match="cannot be read"), sources.opened([path]):
        pass


def test_a_full_disk_is_no_damaged_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("harness.replay.sources.shutil.copyfileobj", full)
    with pytest.raises(HostError, match="no space left on the disk"), sources.opened([TRACE]):
        pass


def test_only_repetitions_of_a_cell_are_replayed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [recorded_run(tmp_path, f"zlfs--r0{number}") for number in (1, 2)]
    info = json.loads((FIXTURES / "info.json").read_text())
    counts = iter((10, 20))  # only one run has a cold fill

    def printed(_: object) -> str:
        info["mounts"][0]["events"] = next(counts)
        return json.dumps(info)

    with monkeypatch.context() as changed:
        changed.setattr(zlfs_replay, "_run", printed)
        with sources.opened(runs) as (first, second):
            assert first.setting == second.setting
    spec = json.loads((runs[1] / "run.json").read_text())
    for change in ({"cell": "zlfs-twin"}, {"level_options": {"gc": "off"}}):
        (runs[1] / "run.json").write_text(json.dumps(spec | change))
        for paths in (runs, [TRACE, *runs], [runs[0], TRACE, runs[1]]):
            with pytest.raises(UsageError, match="other settings"), sources.opened(paths):
                pass


def test_where_the_program_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert zlfs_replay.program() == tmp_path / "native" / "zlfs-replay"
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    built = tmp_path / "replay" / "zlfs-replay"
    monkeypatch.setattr("harness.tools.native._BUILT", tmp_path)
    with pytest.raises(HostError) as refused:
        zlfs_replay.program()
    assert "make build/native-release" in refused.value.hint
    built.parent.mkdir()
    built.touch()
    assert zlfs_replay.program() == built


def test_the_bar() -> None:
    assert grid.bar(11, 33, 2.0) == "[########................] 11/33 settings, 2.0 s, 4 s to go"
