"""``zonelab study`` and the report role: output, order of steps, exit codes."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.cli import confirm, study
from harness.cli import main as cli
from harness.errors import TimedOut
from harness.rig import control, model, prerequisites
from harness.store import overview
from tests.fixtures.campaigns import write_four_runs

ROOT = Path(__file__).parents[2]


def run(argv: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        argv,
        cwd=folder,
        env=env | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


class Study:
    """``zonelab study`` with a fake rig, whose plays return the given codes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.plays: list[tuple[str, dict[str, str]]] = []
        self.codes: dict[str, int] = {}
        self.refused: set[str] = set()
        self.runs: list[str] = []  # statuses of the campaign's runs
        self.asked = False
        self.shown: list[list[str]] = []  # reports and comparisons
        self.unchecked = True  # whether times need runs at twice the dilation
        self.main = cli.main
        self.words: list[Path] = []
        monkeypatch.chdir(folder)
        monkeypatch.setattr(model, "PROJECT", folder)
        monkeypatch.setattr(study, "_set_up", lambda _rig: 0)
        monkeypatch.setattr(control, "execute", self._execute)
        monkeypatch.setattr(overview, "states", self._states)
        monkeypatch.setattr(cli, "main", self._show)
        monkeypatch.setattr(study, "times_unchecked", self._unchecked)
        monkeypatch.setattr(prerequisites, "accelerator", lambda _cpuinfo: "tcg")

    def _execute(self, rig: model.Rig, command: Sequence[str], _talk: object) -> int:
        given = json.loads(command[-1])
        assert list(command[1:-1]) == ["ansible/site.yml", "-e"]
        word = Path(given.pop("report_word"))
        self.words.append(word)
        assert word.parent.is_dir()
        self.plays.append((rig.name, given))
        if rig.name in self.refused:
            return 2  # before there is a plan
        (self.folder / "results/c").mkdir(parents=True, exist_ok=True)
        code = self.codes.get(rig.name, 0)
        if code == -2:
            raise KeyboardInterrupt
        if code == 124:
            raise TimedOut(f"rig {rig.name} did not answer")
        if code in (0, 2):
            word.touch()
        return code

    def _show(self, words: list[str]) -> int:
        self.shown.append(words)
        return 0

    def _unchecked(self, campaign: Path) -> bool:
        assert campaign == Path("results/c")
        return self.unchecked

    def _states(self, _campaign: object) -> list[overview.RunState]:
        self.asked = True
        return [overview.RunState("rig", f"r{i}", "f2fs", s, "") for i, s in enumerate(self.runs)]

    def __call__(self, name: str = "smoke", *more: str) -> int:
        return self.main(["study", name, "--yes", "--campaign", "c", *more])

    @property
    def rigs(self) -> list[tuple[str, str]]:
        """(rig, part) of each play, in order."""
        return [(rig, given["study_rig"]) for rig, given in self.plays]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    return Study(tmp_path, monkeypatch)


PARTS = ["nvme", "dm-zoned", "xfs"]  # the rigs that levels-all names


@pytest.mark.parametrize(
    ("play", "status", "code"),
    [(0, "ok", 0), (2, "failed", 4), (2, "skipped", 2), (130, "failed", 130), (124, "ok", 124)],
    ids=["good", "runs failed", "the play failed", "interrupted", "the rig did not boot"],
)
def test_the_folder_comes_last_however_it_ends(
    command: Study, capsys: pytest.CaptureFixture[str], play: int, status: str, code: int
) -> None:
    command.codes["nvme"] = play
    command.runs = ["ok", status]
    assert command() == code
    reported = play in (0, 2)
    report = ["report: results/c/report/index.html"] if reported else []
    assert capsys.readouterr().out.splitlines() == [*report, "results/c"]
    assert command.asked == (play == 2)
    assert command.plays[0][1]["campaign"] == "c"
    assert command.rigs == [("nvme", "")]


def test_a_study_on_one_rig_of_its_own_is_planned_as_a_whole(command: Study) -> None:
    """Then its hosts can be several."""
    command.runs = ["ok"]
    assert command("integration-levels", "--bytes-only") == 0
    assert command.rigs == [("timed", "")]
    assert command.shown == []


def test_times_of_modelled_drives_are_checked_at_twice_the_dilation(command: Study) -> None:
    """Of identical cells, only one runs again."""
    assert command("integration-levels", "--set", "seed=7", "--retry", "failed") == 0
    assert command.rigs == [("timed", ""), ("timed-slow", "")]
    first, second = (given for _, given in command.plays)
    levels = set(second.pop("levels").split(","))
    assert {"conventional-ext4", "conventional-ext4-discard", "f2fs", "zlfs"} <= levels
    assert not any(level.endswith("twin") for level in levels)
    assert second == {**second, "campaign": "c-slow", "repetitions": "2", "settings": "seed=7"}
    assert (first["campaign"], first["repetitions"], first["levels"]) == ("c", "", "")
    both = ["results/c", "--slower", "results/c-slow"]
    assert command.shown == [["compare", *both], ["report", *both]]


def test_times_with_verdicts_are_not_checked(command: Study) -> None:
    command.unchecked = False
    assert command("integration-levels") == 0
    assert (command.rigs, command.shown) == ([("timed", "")], [])


def test_only_levels_of_the_campaign_are_checked(command: Study) -> None:
    assert command("integration-levels", "--levels", "zlfs, zlfs-twin", "--repetitions", "1") == 0
    assert command.plays[1][1]["levels"] == "zlfs"
    assert command.plays[1][1]["repetitions"] == "1"
    command("levels-all", "--rig", "timed", "--levels", "zlfs")
    assert command.rigs[2:] == [("timed", ""), ("timed-slow", "")]
    command("integration-levels", "--rig", "timed-slow")
    assert command.rigs[4:] == [("timed-slow", "")]


def test_a_planned_twin_is_not_checked(command: Study) -> None:
    assert command("block-jobs", "--rig", "timed", "--set", "seed=7") == 0
    assert [given["settings"] for _, given in command.plays] == ["seed=7", "seed=7 twin=false"]


@pytest.mark.parametrize(("rig", "plays"), [("timed", 1), ("timed-slow", 2)])
def test_failed_runs_check_no_times(command: Study, rig: str, plays: int) -> None:
    command.codes, command.runs = {rig: 2}, ["failed"]
    assert command("integration-levels") == 4
    assert (len(command.plays), command.shown) == (plays, [])


def test_a_refusal_before_there_is_a_campaign_prints_no_folder(
    command: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    command.refused = {"nvme"}
    assert command() == 2
    assert capsys.readouterr().out == ""


def test_a_refused_plan_is_no_reason_to_show_the_old_report(
    command: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Failed runs of an earlier call do not cause exit code 4 either."""
    old = tmp_path / "results/c/report/index.html"
    old.parent.mkdir(parents=True)
    old.touch()
    command.refused, command.runs = {"nvme"}, ["failed"]
    assert command() == 2
    assert capsys.readouterr().out.splitlines() == ["results/c"]
    assert not command.asked


def test_a_part_that_is_refused_hides_no_report_of_another(
    command: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    command.refused, command.runs = {"nvme"}, ["failed"]
    command.codes = {"dm-zoned": 2, "xfs": 2}
    assert command("levels-all") == 2  # the set-up is what to mend first
    assert [rig for rig, _ in command.rigs] == PARTS
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["report: results/c/report/index.html", "results/c"]


def test_the_temporary_folder_is_removed(command: Study) -> None:
    command()
    assert not command.words[0].parent.exists()


def test_a_study_runs_on_its_rigs_in_order(
    command: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("levels-all", "--levels", "f2fs, xfs") == 0
    assert command.rigs == [("nvme", "nvme"), ("xfs", "xfs")]
    assert all(given["levels"] == "f2fs, xfs" for _, given in command.plays)
    assert capsys.readouterr().out.splitlines()[-1] == "results/c"


def test_without_kvm_a_smaller_study_runs(
    command: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    command("finish-thresholds")
    assert [given["study"] for _, given in command.plays] == ["finish-thresholds-small"]
    assert "no usable KVM" in capsys.readouterr().err


def test_on_rigs_a_study_for_drives_is_smaller(
    command: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    command("block-level")
    command("block-level", "--rig", "nvme")
    assert {given["study"] for _, given in command.plays} == {"block-level-timed"}
    assert command.rigs[0][0].startswith("timed")
    assert command.rigs[-1] == ("nvme", "")
    assert "block-level is for drives" in capsys.readouterr().err


def test_a_rig_that_is_named_gets_the_study_unchanged(command: Study) -> None:
    command("finish-thresholds", "--rig", "xfs")
    assert [given["study"] for _, given in command.plays] == ["finish-thresholds"]
    command("levels-all", "--rig", "xfs")
    assert command.rigs == [("xfs", ""), ("xfs", "")]


@pytest.mark.parametrize("code", [2, 4])
def test_a_rig_whose_runs_failed_does_not_stop_the_next_one(command: Study, code: int) -> None:
    command.codes, command.runs = dict.fromkeys(PARTS, code), ["invalid"]
    assert command("levels-all") == 4
    assert [rig for rig, _ in command.rigs] == PARTS


@pytest.mark.parametrize("code", [130, -2, 124])
def test_an_interrupt_stops_them_all(
    command: Study, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    command.codes["nvme"] = code
    assert command("levels-all") == (130 if code == -2 else code)
    assert command.rigs == [("nvme", "nvme")]
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["results/c"]
    assert "to continue: make study STUDY=levels-all CAMPAIGN=c" in shown.err


def test_the_command_to_continue_has_every_option(
    command: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without one, the plan is another, and the campaign refuses it."""
    command.codes["xfs"] = 130
    words = ["--levels", "f2fs, xfs", "--repetitions", "2", "--bytes-only", "--retry", "failed"]
    settings = ["--set", "title=it's mine", "--set", "seed=7"]
    assert command("levels-all", "--rig", "xfs", *words, *settings) == 130
    shown = re.search("to continue: (.*) \\(RETRY=failed", capsys.readouterr().err)
    assert shown
    make = [*shlex.split(shown[1]), "-f", str(ROOT / "Makefile"), "--dry-run"]
    lines = run(make, ROOT).stdout.splitlines()
    line = next(line for line in lines if line.startswith("zonelab study"))
    again = study_arguments(shlex.split(line))
    words += ["--campaign", "c", "--set", "title=it's mine seed=7"]
    assert again == study_arguments(
        ["zonelab", "study", "levels-all", "--yes", "--rig", "xfs", *words]
    )


def study_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    study.add_arguments(parser)
    return parser.parse_args(words[2:])


def test_options_are_handed_on_as_text(command: Study) -> None:
    words = ["--set", "mix=four-tenants seed=7", "--set", "metrics=[run.utilisation]"]
    command("tenants", *words, "--repetitions", "1", "--retry", "failed,invalid")
    _, given = command.plays[0]
    assert given["settings"] == "mix=four-tenants seed=7 metrics=[run.utilisation]"
    assert (given["repetitions"], given["retry"], given["levels"]) == ("1", "failed,invalid", "")


def test_a_campaign_is_named_by_study_and_time(command: Study) -> None:
    command.main(["study", "smoke", "--yes"])
    assert re.fullmatch(r"smoke-\d{8}-\d{6}", command.plays[0][1]["campaign"])


def test_an_unknown_study_or_rig_boots_nothing(
    command: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("smok") == 2
    assert command("smoke", "--rig", "nowhere") == 2
    assert "unknown rig 'nowhere'" in capsys.readouterr().err
    assert command.plays == []


@pytest.mark.parametrize(("answer", "goes_on"), [("y", True), ("Yes", True), ("", False)])
def test_it_asks_on_a_terminal(
    command: Study,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    goes_on: bool,
) -> None:
    monkeypatch.delenv("YES", raising=False)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _question: answer)
    assert command.main(["study", "smoke"]) == (0 if goes_on else 130)
    assert bool(command.plays) == goes_on
    shown = capsys.readouterr()
    assert shown.out.startswith(
        "This will run the study smoke on its rigs, which are virtual machines"
    )
    for word in ("installs", "downloads", "touches   no drive of this machine"):
        assert f"  {word}" in shown.out
    assert ("nothing was done" in shown.err) == (not goes_on)


@pytest.mark.parametrize(
    ("study", "takes"), [("block-level", "20 to 30 minutes"), ("mine", "the time left is shown")]
)
def test_the_announced_time_is_of_the_study(
    study: str, takes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    confirm.announce_study(study, "")
    assert takes in capsys.readouterr().out


def test_it_does_not_ask_without_a_terminal(command: Study) -> None:
    assert command.main(["study", "smoke"]) == 0
    assert command.plays


def test_make_announces_sets_up_and_runs_the_command() -> None:
    """The Makefile's part of ``make study``."""
    make = ["make", "-f", str(ROOT / "Makefile"), "--dry-run", "study", "STUDY=s"]
    shown = run([*make, "LEVELS=x,y", "RIG=xfs", "SET=a=it's two words b=2"], ROOT).stdout
    assert "-m harness.cli.confirm study s xfs" in shown
    line = next(line for line in shown.splitlines() if line.startswith("zonelab study"))
    assert "zonelab study s --yes --rig 'xfs' --campaign '' --levels 'x,y'" in line
    words = shlex.split(line)
    assert words[words.index("--set") + 1] == "a=it's two words b=2"
    line = run(make, ROOT).stdout
    assert "--rig ''" in line


@pytest.mark.parametrize(("bad", "code"), [("", 0), ("failed", 4), ("invalid", 4), ("missing", 4)])
def test_status_checks_that_all_runs_are_there_and_good(
    tmp_path: Path, bad: str, code: int
) -> None:
    write_four_runs(tmp_path / "c", bad)
    assert cli.main(["status", str(tmp_path / "c")]) == 0
    assert cli.main(["status", str(tmp_path / "c"), "--check"]) == code


def test_a_machine_of_the_plan_can_have_no_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One repetition on a rig of two machines: the second has nothing to do."""
    write_four_runs(tmp_path / "c", "")
    plan = tmp_path / "c" / "plan.json"
    data = json.loads(plan.read_text())
    data["hosts"].append(data["hosts"][0] | {"host": "second", "runs": []})
    plan.write_text(json.dumps(data))
    words = ["status", str(tmp_path / "c"), "--format", "json", "--host"]
    assert cli.main([*words, "second"]) == 0
    assert json.loads(capsys.readouterr().out)["pending"] == 0
    assert cli.main([*words, "third"]) == 2
