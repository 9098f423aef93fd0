"""``make study`` and the report role: what is shown, what comes last, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli import main as cli
from harness.store.result import Result, Status
from tests.fixtures.campaigns import with_status, write_campaign

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def run(argv: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        argv, cwd=folder, env=env | environment, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


def study(
    folder: Path,
    play: int,
    check: int,
    *words: str,
    rigs: str = "",
    refused: str = "-",
    smaller: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run the target with a ``zonelab`` whose rig and status end with these codes.

    ``rigs`` are those that the study names, ``smaller`` what it becomes here; the play on
    rig ``refused`` gets no plan. Plays that end with 0 or 2 have reported.
    """
    program = folder / ".venv/bin/zonelab"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'case "$1 $3" in\n'
        f'"status --check") echo "$2" >asked; echo a table; exit {check};;\n'
        '"plan --for-rig") echo "${SMALLER:-$2}";;\n'
        f'"plan --rigs") echo "$@" >named; printf "{rigs}";;\n'
        '*) echo "$@" >>played;'
        f' case "$3" in {refused}) exit 2;; esac;'
        " mkdir -p results/c;"
        ' for word in "$@"; do case "$PLAYED $word" in'
        ' "yes report_word="*) touch "${word#report_word=}"; echo "$word" >word;; esac; done;'
        f" exit {play};;\n"
        "esac\n"
    )
    program.chmod(0o755)
    done = ["confirm-study", "setup", "rig-image"]
    argv = ["make", "-f", str(ROOT / "Makefile"), *(f"--old-file={name}" for name in done)]
    reported = "yes" if play in (0, 2) else "no"
    made = [*argv, "study", "CAMPAIGN=c", *words]
    return run(made, folder, PLAYED=reported, SMALLER=smaller)


@pytest.mark.parametrize(
    ("play", "check", "code"),
    [(0, 0, 0), (2, 4, 4), (2, 0, 2), (130, 4, 130)],
    ids=["good", "runs failed", "the play failed", "interrupted"],
)
def test_the_folder_comes_last_however_it_ends(
    tmp_path: Path, play: int, check: int, code: int
) -> None:
    done = study(tmp_path, play, check)
    shown = [line for line in done.stdout.splitlines() if "results/c" in line]
    report = ["report: results/c/report/index.html"] if play in (0, 2) else []
    assert shown == [*report, "results/c"]
    assert done.stdout.splitlines()[-1] == "results/c"
    assert (f"Error {code}" in done.stderr) == (code != 0), done.stderr
    assert (done.returncode == 0) == (code == 0)
    assert (tmp_path / "asked").exists() == (play == 2)
    assert "-e campaign=c" in (tmp_path / "played").read_text()
    assert rigs_played(tmp_path) == [("default", "")]


def test_a_refusal_before_there_is_a_campaign_prints_no_folder(tmp_path: Path) -> None:
    done = study(tmp_path, 0, 0, refused="default")
    assert "Error 2" in done.stderr
    assert "results/c" not in done.stdout


def test_a_refused_plan_is_no_reason_to_show_the_old_report(tmp_path: Path) -> None:
    """Nor to say that runs failed, where some of an earlier call did."""
    old = tmp_path / "results/c/report/index.html"
    old.parent.mkdir(parents=True)
    old.touch()
    done = study(tmp_path, 0, 4, refused="default")
    assert "Error 2" in done.stderr
    assert "report:" not in done.stdout
    assert done.stdout.splitlines()[-1] == "results/c"
    assert not (tmp_path / "asked").exists()


def test_a_part_that_is_refused_hides_no_report_of_another(tmp_path: Path) -> None:
    done = study(tmp_path, 2, 4, rigs="default\\nxfs\\n", refused="default")
    assert [rig for rig, _ in rigs_played(tmp_path)] == ["default", "xfs"]
    assert "Error 2" in done.stderr  # the set-up is what to mend first
    assert done.stdout.splitlines()[-2:] == ["report: results/c/report/index.html", "results/c"]


def test_nothing_is_left_of_the_word(tmp_path: Path) -> None:
    study(tmp_path, 0, 0)
    assert not Path((tmp_path / "word").read_text().strip().partition("=")[2]).exists()


def rigs_played(folder: Path) -> list[tuple[str, str]]:
    """Return (rig, part) of each play, in order."""
    plays = [line.split() for line in (folder / "played").read_text().splitlines()]
    return [
        (words[2], next(w for w in words if w.startswith("study_rig="))[10:]) for words in plays
    ]


def test_a_study_takes_the_rigs_that_it_names_one_after_the_other(tmp_path: Path) -> None:
    done = study(tmp_path, 0, 0, "LEVELS=f2fs,xfs", rigs="default\\nxfs\\n")
    assert (tmp_path / "named").read_text().split()[2:] == ["--rigs", "--levels", "f2fs,xfs"]
    assert rigs_played(tmp_path) == [("default", "default"), ("xfs", "xfs")]
    assert done.stdout.splitlines()[-1] == "results/c"


def test_a_study_may_become_a_smaller_one(tmp_path: Path) -> None:
    study(tmp_path, 0, 0, "STUDY=large", rigs="tiny\\n", smaller="small")
    assert (tmp_path / "named").read_text().split() == ["plan", "small", "--rigs"]
    assert "-e study=small " in (tmp_path / "played").read_text()


def test_a_rig_that_is_named_gets_the_study_as_it_is(tmp_path: Path) -> None:
    study(tmp_path, 0, 0, "STUDY=large", "RIG=xfs", smaller="small")
    assert "-e study=large " in (tmp_path / "played").read_text()


def test_a_rig_whose_runs_failed_does_not_stop_the_next_one(tmp_path: Path) -> None:
    done = study(tmp_path, 2, 4, rigs="default\\nxfs\\n")
    assert [rig for rig, _ in rigs_played(tmp_path)] == ["default", "xfs"]
    assert "Error 4" in done.stderr


def test_fields_of_the_study_are_handed_on(tmp_path: Path) -> None:
    study(tmp_path, 0, 0, "SET=mix=four-tenants seed=7")
    assert "-e settings='mix=four-tenants seed=7' " in (tmp_path / "played").read_text()


@pytest.mark.parametrize(
    ("settings", "flags"),
    [("", []), ("mix=four-tenants seed=7", ["--set=mix=four-tenants", "--set=seed=7"])],
)
def test_the_plan_role_sets_them(tmp_path: Path, settings: str, flags: list[str]) -> None:
    program = tmp_path / "zonelab"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$1" in plan) echo "$@" >{tmp_path}/planned;; *) echo \'{{"pending": 0}}\';; esac\n'
    )
    program.chmod(0o755)
    asked = dict.fromkeys(
        (
            "study_rig", "different_hosts", "levels", "repetitions", "retry",
            "rated_endurance", "endurance_limit",
        ), "",
    )  # fmt: skip
    same = {"changed": False}
    done = role(
        "plan", tmp_path, **asked, study="tenants", settings=settings,
        zonelab_command=str(program), zonelab_build=str(tmp_path / "build"),
        preflight_inspected={"stdout": "{}"}, packages_installed=same, native_built=same,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    planned = (tmp_path / "planned").read_text().split()
    assert planned[:2] == ["plan", "tenants"]
    assert [word for word in planned if word.startswith("--set")] == flags


def test_an_interrupt_stops_them_all(tmp_path: Path) -> None:
    done = study(tmp_path, 130, 0, rigs="default\\nxfs\\n")
    assert [rig for rig, _ in rigs_played(tmp_path)] == ["default"]
    assert "Error 130" in done.stderr


def test_a_rig_that_is_named_has_the_whole_study(tmp_path: Path) -> None:
    study(tmp_path, 0, 0, "RIG=xfs", rigs="default\\nxfs\\n")
    assert rigs_played(tmp_path) == [("xfs", "")]
    assert not (tmp_path / "named").exists()


def role(name: str, folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Play a role alone, on this machine, with this checkout's ``zonelab``."""
    play = {"name": name, "hosts": "localhost", "connection": "local", "gather_facts": False}
    variables = {
        "campaign": "c", "zonelab_results": str(folder), "zonelab_root": str(ROOT),
        "zonelab_command": str(BIN / "zonelab"), "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    variables |= more
    (folder / "play.yml").write_text(yaml.safe_dump([play | {"vars": variables, "roles": [name]}]))
    argv = [str(BIN / "ansible-playbook"), "-i", "localhost,", str(folder / "play.yml")]
    home = {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_LOCAL_TEMP": str(folder / "tmp")}
    return run(argv, ROOT, PYTHONPATH=str(ROOT), **home)


def report(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Play the role ``report`` on the campaigns in a folder."""
    return role("report", folder, **more)


def campaign(folder: Path, bad: str = "") -> Path:
    """Write four runs, of which f2fs--r01 is as ``bad`` says."""

    def change(result: Result) -> Result:
        broken = result.run == "f2fs--r01" and bad in ("failed", "invalid")
        return with_status(result, Status(bad)) if broken else result

    return write_campaign(
        folder, levels=("conventional-ext4", "f2fs"), repetitions=2, series=False,
        change=change, drop=lambda spec: bad == "missing" and spec.run == "f2fs--r01",
    )  # fmt: skip


@pytest.mark.parametrize("bad", ["", "failed"])
def test_the_report_role_shows_the_table_once_and_fails_behind_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: str
) -> None:
    campaign(tmp_path / "c", bad)
    assert cli.main(["compare", str(tmp_path / "c")]) == 0
    table = capsys.readouterr().out.rstrip()
    assert "overwrite.throughput" in table
    word = tmp_path / "word"
    done = report(tmp_path, report_word=str(word))
    assert word.exists()
    assert done.stdout.count(table) == 1, done.stdout
    assert (tmp_path / "c/report/index.html").exists()
    assert done.returncode == (2 if bad else 0), done.stdout
    if bad:
        expected = f"4 runs: 3 ok, 1 failed; 0 to run; see {tmp_path}/c/report/index.html"
        assert expected in done.stdout


@pytest.mark.parametrize(("bad", "code"), [("", 0), ("failed", 4), ("invalid", 4), ("missing", 4)])
def test_status_checks_that_all_runs_are_there_and_good(
    tmp_path: Path, bad: str, code: int
) -> None:
    campaign(tmp_path / "c", bad)
    assert cli.main(["status", str(tmp_path / "c")]) == 0
    assert cli.main(["status", str(tmp_path / "c"), "--check"]) == code
