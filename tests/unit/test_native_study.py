"""``zonelab study --device model:NAME``: its drives, and what it refuses before it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import native_study
from harness.cli.main import main
from harness.errors import ConfigError, HostError, UsageError, ZonelabError
from harness.machine.lock import exclusive
from harness.plan import drive_files, model_verdicts, native_drives
from harness.plan.drive_models import DriveModel
from harness.plan.load import CONFIGS, load_study, narrow
from harness.plan.model_verdicts import ModelVerdict
from harness.rig import model, prerequisites
from harness.run import progress
from harness.run.progress import ProgressRecord
from tests.unit.conftest import Refused

MIB = 1 << 20


def parse(text: str, study: str = "smoke") -> list[native_drives.PlannedDrive]:
    return native_drives.parse(text, load_study(study)[0])


def test_a_study_of_zone_sizes_takes_the_drives_that_extend_the_named_one() -> None:
    drives = parse("model:zn540-1tb?dilation=16", "finish-thresholds")
    assert [drive.model.name for drive in drives] == ["p16-s128", "p8-s64", "p4-s32"]
    assert {drive.capacity for drive in drives} == {4096 * MIB}
    assert {drive.dilation for drive in drives} == {16}
    small = parse("model:zn540-1tb", "finish-thresholds-small")
    assert [drive.model.name for drive in small] == ["p16-s8", "p8-s4", "p4-s2"]
    assert {drive.capacity for drive in small} == {256 * MIB}


def test_drives_can_be_named_one_by_one() -> None:
    drives = parse("model:p8-s64, model:p4-s32?dilation=2")
    assert [drive.model.name for drive in drives] == ["p8-s64", "p4-s32"]
    assert [drive.dilation for drive in drives] == [native_drives.DILATION, 2]
    assert drives[1].slower().dilation == 4


def test_a_capacity(tmp_path: Path) -> None:
    (drive,) = parse("model:zn540-1tb?capacity=20GiB")
    device = drive.device(tmp_path)
    assert device.zones == 20 * 1024 // 1077
    assert device.capacity == drive.capacity == 19 * 1077 * MIB
    assert device.model == f"zlfs {drive_files.served_name(drive.model)} x8"


@pytest.mark.parametrize(
    ("text", "study", "code"),
    [
        ("nvme0n2", "smoke", "device"),
        ("model:", "smoke", "unknown-model"),
        ("model:zn541", "smoke", "unknown-model"),
        ("model:conventional-4m", "smoke", "model"),
        ("model:zones-4m?dilation=0", "smoke", "device"),
        ("model:zones-4m?dilation=501", "smoke", "device"),
        ("model:zones-4m?dilation=1.5", "smoke", "device"),
        ("model:zones-4m?contents=/tmp", "smoke", "device"),
        ("model:zones-4m?dilation=1&dilation=2", "smoke", "device"),
        ("model:zones-4m?capacity=much", "smoke", "device"),
        ("model:zones-4m?capacity=1MiB", "smoke", "model"),
        ("model:zones-4m,model:zones-4m", "smoke", "named-twice"),
        ("model:zones-4m", "tenants", "needs-kernel-device"),
        ("model:zones-4m", "block-smoke", "needs-kernel-device"),
    ],
)
def test_refused(text: str, study: str, code: str) -> None:
    with pytest.raises(ZonelabError) as refused:
        parse(text, study)
    assert isinstance(refused.value, (ConfigError, UsageError))
    assert refused.value.code == code
    assert refused.value.hint


def test_a_study_without_a_level_that_can_run() -> None:
    study = narrow(load_study("smoke")[0], ["f2fs"])
    with pytest.raises(ConfigError, match="no level of study smoke") as refused:
        native_drives.parse("model:zones-4m", study)
    assert "zlfs" in refused.value.hint


def test_a_model_that_no_points_support(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("zones-4m", "zn540-64k", "zn540-1tb"):
        text = (CONFIGS / "models" / f"{name}.yml").read_text()
        (models / f"{name}.yml").write_text(text)
    with pytest.raises(ConfigError, match="not validated"):
        native_drives.parse("model:zones-4m", load_study("smoke")[0], tmp_path)


def fail_core(monkeypatch: pytest.MonkeyPatch, *failing: str) -> None:
    """Let the core of some models fail its validation."""
    real = model_verdicts.of_drive

    def of_drive(served: str, configs: Path) -> tuple[DriveModel, ModelVerdict] | None:
        found = real(served, configs)
        if found is None or served not in failing:
            return found
        return found[0], replace(found[1], core_failed=("write",))

    monkeypatch.setattr(model_verdicts, "of_drive", of_drive)


def test_a_model_whose_core_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    parse("model:zones-4m")
    served = drive_files.served_name(drive_files.load_model("zones-4m"))
    fail_core(monkeypatch, served)
    with pytest.raises(ConfigError, match="core of model zones-4m fails") as refused:
        parse("model:zones-4m")
    assert refused.value.code == "model"


def test_a_drive_of_a_wanted_size_whose_core_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    served = drive_files.served_name(drive_files.load_model("p8-s64"))
    fail_core(monkeypatch, served)
    parse("model:zn540-1tb")
    with pytest.raises(ConfigError, match="core of model p8-s64 fails"):
        parse("model:zn540-1tb", "finish-thresholds")


class TestCommand:
    """``zonelab study``, in a folder that stands for the checkout."""

    @pytest.fixture(autouse=True)
    def _checkout(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(model, "PROJECT", tmp_path)
        monkeypatch.chdir(tmp_path)
        self.folder = tmp_path

    def _is_empty(self) -> bool:
        return not any(self.folder.iterdir())

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("smoke", "--device", "model:none"), "there is no model 'none'"),
            (("smoke", "--device", "model:zones-4m", "--rig", "nvme"), "exclude each other"),
            (
                ("smoke", "--device", "model:zones-4m", "--levels", "f2fs"),
                "no level of study smoke",
            ),
            (("nothing", "--device", "model:zones-4m"), "there is no study 'nothing'"),
            (("smoke", "--device", "model:zones-4m", "--retry", "bad"), "no such status"),
        ],
    )
    def test_bad_input(self, refused: Refused, words: tuple[str, ...], message: str) -> None:
        assert message in refused(2, "study", *words)
        assert self._is_empty()

    def test_missing_programs(self, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZONELAB_NATIVE", str(self.folder / "none"))
        monkeypatch.setenv("PATH", str(self.folder))
        program = self.folder.parent / "db_bench"
        program.write_text("")
        program.chmod(0o755)
        monkeypatch.setenv("ZONELAB_DB_BENCH", str(program))
        error = refused(2, "study", "smoke", "--device", "model:zones-4m")
        assert "zlfs is not installed" in error
        assert self._is_empty()


def test_a_drive_that_fits_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_study, "free_bytes", lambda _folder: 700 * MIB)
    monkeypatch.setattr(prerequisites, "available_memory", lambda: 1 << 40)
    drives = parse("model:zones-4m")
    with pytest.raises(HostError, match="fits neither") as refused:
        native_study.contents_folder(drives)
    assert refused.value.code == "no-room"
    monkeypatch.setattr(native_study, "free_bytes", lambda _folder: 768 * MIB)
    assert native_study.contents_folder(drives).parent == Path("/dev/shm")
    monkeypatch.setattr(prerequisites, "available_memory", lambda: 2 << 30)  # spare memory only
    assert native_study.contents_folder(drives) == Path.cwd() / "build/native/drives"


def test_two_studies_do_not_share_the_folder_of_the_runner(tmp_path: Path) -> None:
    state = tmp_path / "state"
    second = native_study.NativeCampaign("second", [], state, tmp_path / "other", tmp_path)
    with exclusive(state / "lock" / "study", "first"), pytest.raises(HostError) as caught:
        native_study.run_missing(second, frozenset())
    assert (caught.value.code, "first" in caught.value.message) == ("locked", True)
    assert not (tmp_path / "other").exists()


def test_status_of_a_campaign_that_runs_and_of_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A study without a device holds the lock of its own folder, not the machine's."""
    monkeypatch.chdir(tmp_path)
    folder = Path("state/campaigns/first")
    folder.mkdir(parents=True)
    record = ProgressRecord("first", "running", 4, 1, "r", "p", 0.5, 9.0, {}, "t", "half way")
    progress.write(folder / "progress.json", record)

    def shown(*more: str) -> str:
        assert main(["status", str(folder), *more]) == 0
        return capsys.readouterr().out.strip()

    with exclusive(Path("state/lock/study"), "campaign first"):
        assert shown("--settle") == "half way"
        assert progress.load(folder / "progress.json") == record
    assert shown() == "first: the runner is gone after 1 of 4 runs; run again to resume"


@pytest.mark.parametrize(
    ("unchecked", "more", "names"),
    [
        (True, [], ["c", "c-slow"]),
        (False, [], ["c"]),
        (True, ["--bytes-only"], ["c"]),
    ],
)
def test_times_are_checked_at_twice_the_dilation_if_they_need_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    unchecked: bool,
    more: list[str],
    names: list[str],
) -> None:
    played: list[tuple[str, set[int]]] = []
    shown: list[tuple[Path, Path]] = []

    def play(campaign: native_study.NativeCampaign, words: list[str], _retry: object) -> int:
        played.append((campaign.name, {drive.dilation for drive in campaign.drives}))
        assert ("--repetitions" in words) == (campaign.name == "c-slow")
        return 0

    def show(folder: Path, slower: Path) -> int:
        shown.append((folder, slower))
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model, "PROJECT", tmp_path)
    monkeypatch.setattr(native_study, "play", play)
    monkeypatch.setattr(native_study, "show", show)
    monkeypatch.setattr(native_study, "times_unchecked", lambda _campaign: unchecked)
    words = ["study", "smoke", "--device", "model:zones-4m?dilation=4", "--campaign", "c", *more]
    assert main(words) == 0
    assert played == list(zip(names, ({4}, {8}), strict=False))
    assert shown == [(Path("results/c"), Path("results/c-slow"))] * (len(names) - 1)
