"""``zonelab model up | devices | down``, with a stand-in that prints what zoneblk printed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import ExitCode
from harness.machine import scopes
from harness.observe import zoneblk as observed
from harness.observe.sysfs import Sysfs
from harness.tools import zoneblk
from tests.fixtures.unix_server import server

CAPTURES = Path(__file__).parents[1] / "fixtures" / "zoneblk"
READY = """echo $$ > pid; echo '{"device": "ublkb0"}'; exec sleep 60"""
MISSING = f"cat {CAPTURES}/missing.txt >&2; exit 3"  # of a host without the module


class StandIn:
    """A program in place of zoneblk, and the folder of its sockets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sockets = folder / "run"
        self.sockets.mkdir()

    def does(self, script: str) -> None:
        program = self.folder / "zoneblk"
        keep = 'echo "$@" > argv; cp "$3" model'
        program.write_text(f"#!/bin/sh\ncd {self.folder}\n{keep}\n{script}\n")
        program.chmod(0o755)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def status(self) -> bytes:
        captured = json.loads((CAPTURES / "status.json").read_text())
        return json.dumps(captured | {"process": self.process()}).encode()

    def process(self) -> int:
        return int(self.text("pid"))

    @property
    def ended(self) -> bool:
        """Whether the process has ended; it is a child of this one."""
        return os.waitid(os.P_PID, self.process(), os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("ZONELAB_NATIVE", str(tmp_path))
    found = StandIn(tmp_path)
    monkeypatch.setattr(observed, "FOLDER", found.sockets)
    yield found
    if (tmp_path / "pid").exists():
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(found.process(), 9)
            os.waitpid(found.process(), 0)


def test_a_server_has_its_own_unit(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's servers run outside the session, which systemd may end with all its processes."""
    launcher = stand_in.folder / "systemd-run"
    launcher.write_text(
        f'#!/bin/sh\necho "$@" > {stand_in.folder}/unit\n'
        'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n'
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.folder}:{os.environ['PATH']}")
    monkeypatch.setattr(scopes, "booted", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    stand_in.does(READY)
    assert main(["model", "up", "zn540-1tb"]) == ExitCode.OK
    unit = f"--unit=zonelab-model-{os.getpid()}.scope"
    assert stand_in.text("unit").startswith(f"--scope --quiet --collect {unit} -- ")
    assert not stand_in.ended


def test_up_devices_and_down(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in.does(READY)
    up = ["model", "up", "zn540-1tb", "--capacity", "8GiB", "--dilation", "8"]
    assert main(up) == ExitCode.OK
    assert stand_in.text("argv").endswith(" --dilation=8\n")
    model = json.loads(stand_in.text("model"))
    assert model["name"] == "zn540-1tb"
    numbers = {name: model["zones"][name]["value"] for name in ("count", "max_open", "max_active")}
    assert numbers == {"count": 7, "max_open": 7, "max_active": 7}
    assert not stand_in.ended
    with server(stand_in.sockets / "ublkb0", stand_in.status()):
        capsys.readouterr()
        assert main(["model", "devices", "--format", "json"]) == ExitCode.OK
        (shown,) = json.loads(capsys.readouterr().out)
        assert (shown["device"], shown["process"]) == ("ublkb0", stand_in.process())
        assert 0 <= shown["on_time"] <= 1
        assert main(["model", "down", "/dev/ublkb0"]) == ExitCode.OK
    assert stand_in.ended


def test_an_exported_device_stays(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.does(READY)
    assert main(["model", "up", "zn540-1tb"]) == ExitCode.OK
    monkeypatch.setattr(Sysfs, "nvme_targets", lambda _: ["/dev/ublkb0"])
    with server(stand_in.sockets / "ublkb0", stand_in.status()):
        assert main(["model", "down", "ublkb0"]) == ExitCode.REFUSED
    assert not stand_in.ended


def test_a_conventional_model_is_scaled(stand_in: StandIn) -> None:
    stand_in.does(READY)
    up = ["model", "up", "conventional-7op", "--capacity", "1GiB"]  # validated as zn540-1tb
    assert main(up) == ExitCode.OK
    assert "--conventional" in stand_in.text("argv")
    assert json.loads(stand_in.text("model"))["ftl"]["capacity"]["value"] == f"{1 << 30}B"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["conventional-7op", "--set", "flash.program=1ms"], "core not validated"),
        (["zn540-1tb", "--set", "flash.program=1ms"], "core not validated"),
        (["zn540-1tb", "--capacity", "1GiB"], "less than a zone"),
        (["zn540-1tb", "--capacity", "8"], "is not a size"),
    ],
)
def test_wrong_input_starts_nothing(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    stand_in.does(READY)
    assert main(["model", "up", *arguments]) == ExitCode.USAGE
    assert message in capsys.readouterr().err
    assert not (stand_in.folder / "argv").exists()


def test_a_model_is_exported_with_other_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "zones.json"
    smaller = ["--capacity", "64MiB", "--set", "zones.capacity=2MiB"]
    assert main(["model", "export", "zones-4m", *smaller, "--output", str(file)]) == ExitCode.OK
    zones = json.loads(file.read_text())["zones"]
    assert zones["capacity"] == {"value": "2MiB", "origin": "assumed", "source": "set by hand"}
    assert (zones["count"]["value"], zones["size"]["value"]) == (32, "4MiB")
    for wrong in ("zones.sizes=8MiB", "zones", "name=x", "zones.size=wide", "zones.size=["):
        capsys.readouterr()
        assert main(["model", "export", "zones-4m", "--set", wrong]) == ExitCode.USAGE
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("map_unit=64KiB", "ftl.map_unit 64KiB does not divide flash.page 16KiB"),
        ("map_unit=0B", "ftl.map_unit 0B does not divide"),
        ("capacity=0B", "ftl.capacity 0B is not a whole number of map units"),
        ("block_units=0", "ftl.block_units is 0"),
    ],
)
def test_a_conventional_drive_with_impossible_numbers_is_not_exported(
    number: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["model", "export", "conventional-7op", "--set", f"ftl.{number}"]
    assert main([*command, "--capacity", "8GiB"]) == ExitCode.USAGE
    assert message in capsys.readouterr().err


def test_a_host_without_ublk(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in.does(MISSING)
    assert main(["model", "up", "zn540-1tb", "--capacity", "8GiB"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith("zonelab: /dev/ublk-control: No such file or directory\nhint: run as")


def test_an_interrupted_start_leaves_no_server(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_child: object, _out: object) -> None:
        while not ((stand_in.folder / "pid").exists() and stand_in.text("pid")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    stand_in.does("echo $$ > pid; exec sleep 60")
    monkeypatch.setattr(zoneblk, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        zoneblk.start({}, [])
    with pytest.raises(ProcessLookupError):
        os.kill(stand_in.process(), 0)


def test_down_of_a_device_that_zoneblk_does_not_serve(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "down", "ublkb0"]) == ExitCode.USAGE
    assert "no zoneblk serves" in capsys.readouterr().err
    assert main(["model", "devices", "--format", "json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == []
