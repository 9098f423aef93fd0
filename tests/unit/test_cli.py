"""The front door: help, unknown commands, and how errors become lines and exit codes."""

import errno
import json

import pytest

from harness.cli import main as cli
from harness.cli.output import print_records
from harness.errors import ExitCode


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert all(f"    {name} " in out for name in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"zonelab {command}" in capsys.readouterr().out.split("\n\n", 1)[1]


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
def test_what_the_system_refuses_never_shows_a_traceback(
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
