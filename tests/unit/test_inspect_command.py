"""``zonelab inspect``: for each level, whether it can run, and otherwise the reason and a hint."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from harness.cli import inspect as command
from harness.cli.main import main
from harness.errors import ExitCode
from harness.levels import LEVELS
from harness.levels.filesystem import FileSystemLevel
from harness.levels.zenfs import ZenFs
from harness.plan.load import load_inspection
from harness.store.codec import decode
from harness.store.spec import Inspection
from harness.tools import proc
from harness.tools.kernel import Kernel
from tests.runner.conftest import Machine
from tests.runner.fakes import FakeHost, FakeLevel, namespace, put_btrfs

Asked = list[str]


# Levels without a program of their own.
NEED_NOTHING = {name for name, level in LEVELS.items() if not level.programs}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The real levels on a fake machine that has no program at all, and one level that runs."""
    machine = Machine(tmp_path / "machine")
    kernel = Kernel(machine.root)
    levels = {
        name: type(level)(kernel) if isinstance(level, FileSystemLevel | ZenFs) else level
        for name, level in LEVELS.items()
    }
    monkeypatch.setattr(proc, "which", lambda _: None)
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path))
    monkeypatch.setenv("ZONELAB_ZENFS", str(tmp_path))
    monkeypatch.setattr(command, "Host", lambda: FakeHost(machine.root))
    monkeypatch.setattr(command, "LEVELS", levels | {"fake": FakeLevel(machine.root)})
    return ["inspect", "nvme0n2", "--state-dir", str(tmp_path / "state")]


def test_the_json_record_has_every_level_and_reason(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--format", "json"]) == 0
    found = decode(Inspection, json.loads(capsys.readouterr().out))
    assert [probe.level for probe in found.levels] == [*LEVELS, "fake"]
    for probe in found.levels[:-1]:
        assert probe.available == (probe.level in NEED_NOTHING)
        if probe.available:
            continue
        assert probe.reason is not None
        assert (probe.reason.code, bool(probe.reason.hint)) == ("program-missing", True)
    assert found.levels[-1].available


@pytest.mark.parametrize("format_", ["table", "md"])
def test_people_see_code_reason_and_remedy(
    asked: Asked, capsys: pytest.CaptureFixture[str], format_: str
) -> None:
    assert main([*asked, "--format", format_]) == 0
    lines = capsys.readouterr().out.splitlines()
    header = next(line for line in lines if "can run" in line)
    assert "what would help" in header
    (zoned,) = [line for line in lines if line.lstrip("| ").startswith("dm-zoned")]
    for part in (
        "program-missing",
        "dm-zoned needs dmzadm, which is not installed",
        "apt-get install dm-zoned-tools",
    ):
        assert part in zoned
    (fake,) = [line for line in lines if line.lstrip("| ").startswith("fake")]
    assert "missing" not in fake


def test_tables_for_programs_have_the_codes(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--format", "csv"]) == 0
    rows = dict(csv.reader(io.StringIO(capsys.readouterr().out)))
    codes = {name.removeprefix("level "): code for name, code in rows.items() if "level" in name}
    able = dict.fromkeys({*NEED_NOTHING, "fake"}, "ok")
    assert codes == dict.fromkeys(LEVELS, "program-missing") | able


def test_nothing_is_written(asked: Asked, tmp_path: Path) -> None:
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main(asked) == 0
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_campaign_does_not_store_what_others_left_on_the_devices(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_btrfs(tmp_path / "machine/dev/nvme0n2", "home-of-alice")
    assert main([*asked, "--format", "json", "--erase", "eui.0@00000000"]) == 0
    text = capsys.readouterr().out
    found = decode(Inspection, json.loads(text))
    assert found.contents[0].signatures == ("btrfs labelled 'home-of-alice'",)
    assert found.contents[0].consent in found.refusals[0].hint
    assert "names no device" in found.notices[0]
    (tmp_path / "h.json").write_text(text)
    _, stored = load_inspection(f"h={tmp_path / 'h.json'}")
    assert (stored.contents, stored.notices) == ((), ())


def test_people_see_what_is_destroyed(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_btrfs(tmp_path / "machine/dev/nvme0n2", "home")
    assert main([*asked, "--conventional", "nvme0n1"]) == 0
    _, shown, companion = capsys.readouterr().out.split("destroyed on ")
    lines = dict(line.split("  ", 1) for line in shown.splitlines() if "  " in line)
    assert lines["signatures"].strip() == "btrfs labelled 'home'"
    assert re.search(r"-e erase=eui\.[0-9a-f]{16}@[0-9a-f]{8}\n", shown)
    assert "none needed" in companion


def second_conventional(root: Path) -> None:
    """Add nvme0n4, a conventional namespace of 16 MiB."""
    namespace(root, 4, {"queue/zoned": "none", "size": str((16 << 20) // 512)})


def test_conventional_devices_are_inspected_side_by_side(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second_conventional(tmp_path / "machine")
    put_btrfs(tmp_path / "machine/dev/nvme0n4", "home")
    assert main([*asked, "--conventional", "nvme0n1,nvme0n4", "--format", "json"]) == 0
    found = decode(Inspection, json.loads(capsys.readouterr().out))
    assert found.conventional is not None
    assert found.conventional.path.endswith("nvme0n1")
    (other,) = found.more_conventional
    assert other.device.path.endswith("nvme0n4")
    assert [reason.code for reason in other.refusals] == ["foreign-signature"]
    assert {probe.level for probe in other.levels if probe.available} == {
        *NEED_NOTHING,
        "fake",
    }
    destroyed = {Path(seen.path).name: seen.consent for seen in found.contents}
    assert set(destroyed) == {"nvme0n1", "nvme0n2", "nvme0n4"}
    assert destroyed["nvme0n4"]  # the text to type


@pytest.mark.parametrize(
    ("named", "words"),
    [("nvme0n1,nvme0n2", "nvme0n2 is zoned"), ("nvme0n1,nvme0n1", "nvme0n1 is named twice")],
)
def test_a_further_conventional_device_is_another_one_without_zones(
    asked: Asked, capsys: pytest.CaptureFixture[str], named: str, words: str
) -> None:
    assert main([*asked, "--conventional", named]) == ExitCode.REFUSED
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ([], "nvme0n2"),
        (["--conventional", "nvme0n1"], "nvme0n1"),
        (["--conventional", "nvme0n1,nvme0n4"], "nvme0n4"),
    ],
)
def test_a_remainder_is_none_of_the_measured_devices(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], named: str
) -> None:
    """It is filled or purged before the runs. Its name can be a link."""
    second_conventional(tmp_path / "machine")
    (tmp_path / "by-id").symlink_to(tmp_path / "machine/dev" / named)
    assert main([*asked, *more, "--remainder", str(tmp_path / "by-id")]) == ExitCode.REFUSED
    assert f"{named} is named twice" in capsys.readouterr().err


def test_a_remainder_is_examined_and_shown(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second_conventional(tmp_path / "machine")
    put_btrfs(tmp_path / "machine/dev/nvme0n4", "home")
    assert main([*asked, "--remainder", "nvme0n4", "--format", "json"]) == 0
    found = decode(Inspection, json.loads(capsys.readouterr().out))
    assert found.remainder is not None
    assert found.remainder.path.endswith("nvme0n4")
    assert [reason.code for reason in found.refusals] == ["foreign-signature"]
    assert [Path(seen.path).name for seen in found.contents] == ["nvme0n2", "nvme0n4", "nvme0n1"]


@pytest.mark.parametrize("second", [False, True])
def test_a_remainder_is_not_chosen_as_the_conventional_device(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str], second: bool
) -> None:
    """A run would wipe it, and with it the data that fills the drive."""
    if second:
        second_conventional(tmp_path / "machine")
    assert main([*asked, "--remainder", "nvme0n1", "--format", "json"]) == 0
    found = decode(Inspection, json.loads(capsys.readouterr().out))
    assert found.remainder is not None
    assert found.remainder.path.endswith("nvme0n1")
    if second:
        assert found.conventional is not None
        assert found.conventional.path.endswith("nvme0n4")
        return
    assert found.conventional is None
    assert found.conventional_reason is not None
    assert found.conventional_reason.code == "conventional-remainder"
    assert "-e conventional_device=" in found.conventional_reason.hint


def test_without_a_remainder_there_is_none(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*asked, "--format", "json"]) == 0
    found = decode(Inspection, json.loads(capsys.readouterr().out))
    assert (found.remainder, found.refusals, found.others) == (None, (), ())
    assert [Path(seen.path).name for seen in found.contents] == ["nvme0n2", "nvme0n1"]
