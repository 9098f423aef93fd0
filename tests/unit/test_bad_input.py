"""Bad input, from the command line down: one clear line, a hint, the exit code, nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import harness.cli.inspect as inspect_command
import harness.cli.run as run_command
from harness.cli import main as cli
from tests.runner.conftest import Machine
from tests.runner.fakes import FakeHost, FakeLevel, put_btrfs
from tests.unit.conftest import READERS, RIG, ROOT, Refused

PROGRAM = ROOT / "tests/runner/fake_db_bench.py"


# --- the command line --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no command given"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
        (("compare",), "arguments are required: CAMPAIGN"),
        (("compare", "c", "--form", "md"), "unrecognized arguments: --form md"),
        (("compare", "c", "--format", "yaml"), "invalid choice: 'yaml'"),
        (("compare", "c", "--threshold", "x"), "invalid float value: 'x'"),
        (("compare", "c", "--threshold", "nan"), "not a percentage"),
        (("status", "c", "--retry", "everything"), "no such status"),
        (("plan", "smoke", "--repetitions", "abc"), "neither a number nor find:PCT"),
        (("rig", "list", "--format", "xml"), "invalid choice: 'xml'"),
        (("rig", "up", "../x"), "unknown rig '../x'"),
        (("collect", "--from", "nowhere", "--into", "x"), "nowhere does not exist"),
        (("run", "--plan", "nowhere.json", "--host", "h"), "nowhere.json does not exist"),
    ],
)
def test_wrong_arguments(refused: Refused, words: tuple[str, ...], message: str) -> None:
    assert message in refused(2, *words)


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("name", ["nowhere", "../..", "two\nlines", "", "x" * 5000, "\udcff"])
def test_no_such_campaign(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(2, command, name)


def test_a_fault_of_our_own_is_no_regression(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(_words: list[str]) -> int:
        raise ValueError("two\nlines")

    monkeypatch.setattr(cli, "_dispatch", explode)
    assert refused(4, "status") == "zonelab: internal error: ValueError: two lines"
    monkeypatch.setenv("ZONELAB_TRACEBACK", "1")
    with pytest.raises(ValueError, match="two"):
        cli.main(["status"])


@pytest.mark.slow
@pytest.mark.parametrize(("sink", "code"), [("pipe", 0), ("/dev/full", 2), ("closed", 0)])
def test_a_closed_stdout_is_handled(sink: str, code: int) -> None:
    argv = [sys.executable, "-m", "harness", "plan", "--list"]
    if sink == "closed":
        argv = ["sh", "-c", '"$@" >&-', "sh", *argv]
    out = None
    if sink == "pipe":
        reader, out = os.pipe()
        os.close(reader)
    elif sink == "/dev/full":
        out = os.open(sink, os.O_WRONLY)
    done = subprocess.run(
        argv, stdout=out, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
    )
    if out is not None:
        os.close(out)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert ("no space left" in done.stderr) is (sink == "/dev/full")


# --- studies: what they say and whether they fit (more in test_plan.py) -------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nosuch",), "there is no study 'nosuch'"),
        (("../studies/smoke",), "there is no study"),
        (("smoke", "--levels", ""), "has no level ''"),
        (("smoke", "--levels", "f2fs,ext9"), "has no level 'ext9'"),
        (("smoke", "--repetitions", "0"), "repetitions: Input should be greater"),
        (("smoke", "--repetitions", "-1"), "repetitions: Input should be greater"),
        (("smoke", "--repetitions", "9" * 30), "repetitions: Input should be less"),
        (("smoke", "--campaign", "../up"), "'../up' cannot name a campaign"),
        (("smoke", "--campaign", ".hidden"), "cannot name a campaign"),
        (("smoke", "--campaign", "höhe"), "cannot name a campaign"),
        (("smoke", "--campaign", "x" * 300), "cannot name a campaign"),
        (("smoke", "--set", "="), "'=' is not FIELD=VALUE"),
        (("smoke", "--set", "sead=1"), "unknown field 'sead'"),
        (("smoke", "--set", "seed=[1"), "the value of --set seed"),
        (("smoke", "--set", "seed=" + "[" * 5000), "the value of --set seed"),
        (("smoke", "--set", "seed=!!python/name:os.system"), "is not YAML"),
        (("smoke", "--set", "factors={threads: [1], threads: [2]}"), "'threads' is repeated"),
        (("smoke", "--set", "target_utilisation=.nan"), "target_utilisation"),
        (("smoke", "--set", "factors={target_utilisation: [30%, 2]}"), "is not a share"),
        (("smoke", "--set", "workload.value_size=6XB"), "unknown unit 'XB'"),
        (("smoke", "--set", "workload.value_size=٤KiB"), "is not a size"),
        (("smoke", "--set", f"workload.value_size={'9' * 400}TiB"), "is too large"),
        (("smoke", "--set", f"workload.key_size={'9' * 400}"), "key_size"),
        (("smoke", "--set", "workload.flags={threads: 0}"), "flag threads is out of range: 0"),
        (("smoke", "--set", "workload.flags={threads: .inf}"), "flags.threads: must be text"),
        (("smoke", "--set", f"workload.flags={{threads: {'9' * 400}}}"), "threads is out of range"),
        (("smoke", "--set", "workload.flags={write_buffer_size: -4}"), "is out of range: -4"),
        (("smoke", "--set", "workload.flags={db: /etc}"), "sets --db, which zonelab sets itself"),
        (
            ("smoke", "--set", "levels=[{name: f2fs, options: {x: 1}}]", "--set", "baseline=f2fs"),
            "level f2fs has no option 'x'",
        ),
        (("smoke", "--set", "workload.database_share=60%"), "less than the database"),
        (("smoke", "--set", "target_utilisation=98%"), "leaves"),
        (("smoke", "--configs", "/dev/null"), "/dev/null has no studies"),
        (("smoke", f"--inspection=../up={RIG}"), "'../up' cannot name a host"),
        (("smoke", "--inspection=a="), "is not HOST=FILE.json"),
        (("smoke", "--inspection=a=/"), "/ cannot be read: Is a directory"),
        (("smoke", "--inspection=a=/dev/null"), "/dev/null is not JSON"),
    ],
)
def test_bad_studies(
    refused: Refused, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    given = any(word.startswith("--inspection") for word in words)
    inspection = [] if given else [f"--inspection=rig={RIG}"]
    line = refused(2, "plan", *words, *inspection, "--results", tmp_path / "results")
    assert message in line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no fields"),
        (b"[1, 2]", "has no fields"),
        (b"name: smoke\nname: smoke\n", "line 2 is not YAML: 'name' is repeated"),
        (b"name: [\n", "is not YAML"),
        (b"name: *x\n", "is not YAML"),
        (b"name: \xff\n", "is not UTF-8 text"),
        (b"name: smoke\n", "Field required"),
    ],
)
def test_bad_study_files(refused: Refused, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "configs" / "studies" / "smoke.yml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    line = refused(2, "plan", "smoke", f"--configs={tmp_path / 'configs'}")
    assert message in line
    assert "smoke.yml" in line


# --- devices (every refusal of the guard is in test_guard.py) ------------------------------------


def make_missing(machine: Machine) -> None:
    (machine.root / "sys/class/block/nvme0n2/eui").write_text("52 54 00 00 00 00 00 99")


def make_conventional(machine: Machine) -> None:
    (machine.root / "sys/class/block/nvme0n2/queue/zoned").write_text("none")


def make_mounted(machine: Machine) -> None:
    (machine.root / "proc/self/mountinfo").write_text("9 1 259:2 / /mnt rw - f2fs /dev/x rw\n")


def make_foreign(machine: Machine) -> None:
    put_btrfs(machine.root / "dev" / "nvme0n2", "precious")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (make_missing, "no device has the identity eui.5254000000000002"),
        (make_conventional, "is not a zoned block device"),
        (make_mounted, "is mounted on /mnt"),
        (make_foreign, "carries btrfs labelled 'precious' that zonelab did not write"),
    ],
)
def test_devices_that_must_not_be_used(
    machine: Machine,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Machine], None],
    message: str,
) -> None:
    spoil(machine)
    fakes = {"Host": lambda: FakeHost(machine.root), "LEVELS": {"fake": FakeLevel(machine.root)}}
    for command in (run_command, inspect_command):
        for name, fake in fakes.items():
            monkeypatch.setattr(command, name, fake)
    state = ["--state-dir", machine.root / "state", "--runtime-dir", machine.root / "run"]
    plan = ["--plan", machine.root / "plan.json", "--host", "h", "--program-path", PROGRAM]
    assert message in refused(3, "run", *plan, *state, keeps=machine.root / "dev")
    assert list(machine.runs.iterdir()) == []
    if spoil is not make_missing:
        assert message in refused(3, "inspect", "nvme0n2", "--require-allowed", *state[:2])
    assert "no block device nvme7n1" in refused(3, "inspect", "nvme7n1", *state[:2])


# A fake machine with a plan, as in tests/runner.
@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")
