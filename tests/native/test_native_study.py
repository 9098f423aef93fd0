"""A whole study on a modelled drive in files: db_bench on zlfs, without a device, and verified."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import native_study
from harness.cli.main import main
from harness.cli.native_study import NativeCampaign
from harness.machine.lock import exclusive
from harness.plan import native_drives
from harness.plan.load import load_study
from harness.store import packed
from harness.store.campaign import CampaignPaths
from harness.store.files import load_record
from harness.store.ledger import RUN, ClosureState, Ledger
from harness.store.result import Severity, Status
from harness.store.rundir import load_result
from harness.store.spec import DeviceKind
from harness.verify import recompute
from tests.fixtures.native_build import BUILD, build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STUDY = ("smoke",)
# Closures without RocksDB, from the level to the model.
BELOW = (
    ("zlfs", "contents"),
    ("contents zones-4m", "model zones-4m"),
    ("contents zones-4m", "device zones-4m"),
    ("zlfs finishes", "model finishes"),
    ("zlfs resets", "model resets"),
    ("zlfs pad", "model pad"),
    ("zlfs space", "zone report"),
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build what runs of zlfs need; return a folder with it, as it is installed."""
    build("zlfs", "zlfs_tool")
    folder = tmp_path_factory.mktemp("installed")
    for file in ("tool/zlfs", "libzlfs.so"):
        built = BUILD / "zlfs" / file
        (folder / built.name).symlink_to(built)
    return folder


@pytest.fixture
def campaign(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NativeCampaign]:
    monkeypatch.setenv("ZONELAB_NATIVE", str(programs))
    monkeypatch.chdir(tmp_path)
    drives = native_drives.parse("model:zones-4m?dilation=2", load_study("smoke")[0])
    contents = native_study.contents_folder(drives).with_name(f"zonelab-test-{os.getpid()}")
    results = tmp_path / "results"
    yield NativeCampaign("c", drives, tmp_path / "state", contents, results)
    left = sorted(path.name for path in contents.glob("*")) if contents.is_dir() else []
    assert not {"zones-4m", "zones-4m.counts"} & set(left), "a run removes its drive"
    subprocess.run(["rm", "-r", "--", str(contents)], check=False, stderr=subprocess.DEVNULL)


def test_a_study(campaign: NativeCampaign, capsys: pytest.CaptureFixture[str]) -> None:
    assert native_study.play(campaign, STUDY) == 0
    shown = capsys.readouterr().out
    assert "modelled: zones-4m, mean error" in shown
    assert "dilation 2" in shown
    folder = CampaignPaths(campaign.results / "c")
    runs = folder.runs(native_study.HOST)
    for level in ("f2fs", "conventional-ext4"):
        skipped = load_result(runs / f"{level}--r01")
        assert skipped.status is Status.SKIPPED
        assert skipped.reason is not None
        assert skipped.reason.code == "needs-kernel-device"

    run = runs / "zlfs--r01"
    result = load_result(run)
    assert result.status is Status.OK
    assert [one for one in result.issues if one.severity is Severity.ERROR] == []
    assert result.device.kind is DeviceKind.MODELLED
    assert result.device.identity.key.startswith("model.")
    assert result.device.dilation == 2
    for phase in ("fillrandom", "overwrite", "readrandom"):
        for name in ("late_share", "on_time_share"):
            assert result.metrics[f"{phase}.{name}"].value is not None
    assert (result.metrics["run.reset_seconds"].value or 0) > 0

    ledger = load_record(Ledger, run / "ledger.json")
    for entry in ledger.entries:
        found = {(one.upper, one.lower): one for one in entry.closures}
        for pair in BELOW:
            assert found[pair].state is ClosureState.EXACT, (entry.name, pair)
    whole = ledger.entry(RUN)
    assert whole is not None
    assert sum(whole.submitted.values()) > 10 << 20
    assert whole.media == whole.submitted  # nothing was finished

    assert main(["verify", str(folder.root)]) == 0
    assert "whole" in capsys.readouterr().out
    forged(run, campaign.state / "forged")
    # Started again, it has nothing to do, and changes nothing.
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    assert native_study.play(campaign, STUDY) == 0
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def forged(run: Path, copy: Path) -> None:
    """Hold verify to it: a timeline that the drive did not note is found."""
    shutil.copytree(run, copy)
    assert recompute.of_run(copy) == []
    timeline = copy / "series/zone_commands.csv"
    text = packed.text(timeline)
    for file in copy.glob("series/zone_commands.csv*"):
        file.unlink()
    zone = text.splitlines()[1].split(",")[2]
    timeline.write_text(text.replace(f",{zone},first-write", f",{int(zone) + 1},first-write", 1))
    found = recompute.of_run(copy)
    assert [line for line in found if line.startswith("series/zone_commands.csv: ")], found


def test_two_users_of_one_folder(
    campaign: NativeCampaign, capsys: pytest.CaptureFixture[str]
) -> None:
    with exclusive(campaign.contents / "lock", "another campaign"):
        assert native_study.play(campaign, STUDY) == 2
    assert "another run is under way: another campaign" in capsys.readouterr().err


def test_a_file_of_others_stays(
    campaign: NativeCampaign, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign.contents.mkdir(mode=0o700, parents=True)
    place = campaign.contents / "zones-4m"
    place.write_text("not a drive")
    assert native_study.play(campaign, STUDY) == 3
    assert "is not a modelled drive; nothing was written" in capsys.readouterr().err
    assert place.read_text() == "not a drive"
    place.unlink()
