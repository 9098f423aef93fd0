"""The command line: help, unknown commands, error messages and exit codes."""

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.cli import commands
from harness.cli import main as cli
from harness.cli.output import print_records
from harness.errors import ConfigError, ExitCode

PACKAGE = Path(harness.__file__).parent


COMMANDS = commands.discover()
TOY = '''"""A sub-command in one file."""

SUMMARY = "greet a drive"
GROUP = "users"
SHIPPED = True
HELP = "Greet.\\n\\n  zonelab toy nvme0n2"


def add_arguments(parser):
    parser.add_argument("device")


def execute(arguments):
    print(f"hello {arguments.device}")
    return 0
'''


def test_help_lists_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    users, playbooks = out.split("commands that the playbooks use:")
    for command in COMMANDS.values():
        part = playbooks if command.group == "playbooks" else users
        assert f"  {command.name:<10} {command.summary}\n" in part
    assert {name for name, c in COMMANDS.items() if c.group == "playbooks"} == {
        "age",
        "collect",
        "layout",
        "rocksdb",
        "running",
    }


def test_help_imports_no_library() -> None:
    program = (
        "import sys; from harness.cli.main import main\n"
        "try: main(['--help'])\n"
        "finally: print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "harness" in loaded
    assert loaded.isdisjoint({"pydantic", "yaml", "scipy", "numpy", "matplotlib", "analysis"})


def test_a_command_is_one_file(tmp_path: Path) -> None:
    package = tmp_path / "harness"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("native", "__pycache__"))
    (package / "cli/toy.py").write_text(TOY)
    run = [sys.executable, "-m", "harness"]
    shown = subprocess.run(
        [*run, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "  toy        greet a drive\n" in shown.stdout, shown.stderr
    subprocess.run([sys.executable, "-m", "harness.pack", "toy.pyz"], cwd=tmp_path, check=True)
    shipped = subprocess.run(
        [sys.executable, "-I", "toy.pyz", "toy", "nvme0n2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shipped.stdout == "hello nvme0n2\n", shipped.stderr


@pytest.mark.parametrize("constant", ["GROUP", "SHIPPED"])
def test_a_command_without_a_constant_is_refused(constant: str) -> None:
    source = "\n".join(line for line in TOY.splitlines() if not line.startswith(constant))
    with pytest.raises(ConfigError, match=f"toy.py: .*{constant} is None"):
        commands.parse("toy", source)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"\n  zonelab {command}" in capsys.readouterr().out.split("\n\n", 1)[1]


@pytest.mark.parametrize("words", ["inspect", "age", "layout", "rocksdb fetch"])
def test_arguments_without_an_option_have_capitals(
    capsys: pytest.CaptureFixture[str], words: str
) -> None:
    with pytest.raises(SystemExit):
        cli.main([*words.split(), "--help"])
    positional = capsys.readouterr().out.partition("positional arguments:\n")[2].split()[0]
    assert positional in ("DEVICE", "FOLDER")


@pytest.mark.parametrize("name", ["main", "output", "commands", "../main", "no.module"])
def test_a_helper_module_is_not_a_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name]) == ExitCode.USAGE
    assert f"there is no command {name!r}" in capsys.readouterr().err


def test_an_unknown_command_is_one_line_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspekt"]) == ExitCode.USAGE
    assert capsys.readouterr().err.splitlines()[0] == "zonelab: there is no command 'inspekt'"


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x.csv"), 2, "no space left"),
        (PermissionError(errno.EACCES, "Permission denied", "/dev/x"), 2, "Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_of_the_system_show_no_traceback(
    raised: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def explode(_args: list[str]) -> int:
        raise raised

    monkeypatch.setattr(cli, "_dispatch", explode)
    assert cli.main(["status"]) == code
    err = capsys.readouterr().err
    assert text in err
    assert "Traceback" not in err


def test_tables_are_data(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"a": 1, "b": "x,y"}, {"a": 22, "b": "z"}]
    for form in ("table", "json", "csv", "md"):
        print_records(rows, form)
    out = capsys.readouterr().out
    assert "a   b\n1   x,y\n22  z\n" in out
    assert json.dumps(rows, indent=1) in out
    assert 'a,b\n1,"x,y"\n22,z\n' in out
    assert "| a | b |\n| --- | --- |\n| 1 | x,y |\n| 22 | z |\n" in out
