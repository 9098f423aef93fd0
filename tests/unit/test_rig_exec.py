"""``zonelab rig`` leaves no QEMU behind, however it ends. QEMU is a fake that only sleeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.rig import process
from tests.fixtures.waiting import until

pytestmark = pytest.mark.slow

PATIENCE = 300.0  # seconds, for a machine under load; less than the sleeps
# The real command with the slow parts replaced: no image, no guest, a QEMU that writes its pid.
# These tests may run under nohup, which ignores SIGHUP.
DRIVER = """
import signal
import sys
from pathlib import Path
from harness.cli import main
from harness.rig import control, guest, model, prerequisites, qemu, state
from harness.rig.recipe import Image

signal.signal(signal.SIGHUP, signal.SIG_DFL)
here = Path(sys.argv[1])
state.BUILD = here
image = Image(here / "image")
control.build = lambda *_: (image, False)
prerequisites.check_run = lambda *_: None
guest.wait = lambda *_: None
guest.devices = lambda *_: ()
qemu.argv = lambda *_, **__: ["sh", "-c", "echo $$ > qemu.pid; exec sleep 600"]
sys.exit(main.main(["rig", "--quiet", *sys.argv[2:]]))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "host_key.pub").write_text("ssh-ed25519 AAAA x\n")
    return tmp_path


def start(here: Path, *words: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", DRIVER, str(here), *words]
    env = {**os.environ, "XDG_CACHE_HOME": str(here / "cache")}
    return subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        # A shell's background job, as a test session may be, hands down SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads
    )


def wait_for(path: Path) -> None:
    until(path.exists, str(path), seconds=PATIENCE)


def qemu_of(here: Path) -> process.Process:
    pid = here / "nvme" / "qemu.pid"
    wait_for(pid)
    found = process.identify(int(pid.read_text()))
    assert found is not None
    return found


def test_the_commands_exit_code_and_environment_come_through(here: Path) -> None:
    script = "echo $ZONELAB_RIG; test -f $ANSIBLE_INVENTORY && exit 7"
    done = start(here, "exec", "nvme", "--", "sh", "-c", script)
    out, err = done.communicate(timeout=PATIENCE)
    assert (done.returncode, out) == (7, "nvme\n"), err
    assert not (here / "nvme" / "state.json").exists()
    assert not list((here / "nvme").glob("*.img"))


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_a_signal_stops_the_command_and_the_rig(here: Path, number: signal.Signals) -> None:
    flag = here / "started"
    running = start(here, "exec", "nvme", "--", "sh", "-c", f"touch {flag}; exec sleep 600")
    wait_for(flag)
    machine = qemu_of(here)
    running.send_signal(number)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert err == "zonelab: interrupted\n"
    assert not process.alive(machine)
    assert not (here / "nvme" / "state.json").exists()


def test_qemu_dies_with_a_killed_supervisor(here: Path) -> None:
    flag = here / "started"
    running = start(here, "exec", "nvme", "--", "sh", "-c", f"touch {flag}; sleep 2")
    wait_for(flag)
    machine = qemu_of(here)
    running.kill()
    assert process.wait_gone(machine, PATIENCE)
    running.communicate(timeout=PATIENCE)


def test_a_command_that_does_not_exist_is_one_line(here: Path) -> None:
    done = start(here, "exec", "nvme", "--", "no-such-program")
    _, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 2
    assert err == "zonelab: cannot start no-such-program: No such file or directory\n"
    assert not (here / "nvme" / "state.json").exists()


def test_up_stays_up_until_down_or_the_end_of_its_lease(here: Path) -> None:
    done = start(here, "up", "nvme", "--lease", "60")
    out, err = done.communicate(timeout=PATIENCE)
    assert done.returncode == 0, err
    assert f"{here}/nvme/inventory.yml" in out
    machine = qemu_of(here)
    assert process.alive(machine)
    again = start(here, "exec", "nvme", "--", "true")
    assert "is up already" in again.communicate(timeout=PATIENCE)[1]
    assert again.returncode == 2
    assert process.alive(machine), "a refused exec must not stop somebody's rig"
    assert start(here, "down", "nvme").wait(PATIENCE) == 0
    assert not process.alive(machine)


def test_a_lease_that_ends_stops_qemu(here: Path) -> None:
    done = start(here, "up", "nvme", "--lease", "2")
    done.communicate(timeout=PATIENCE)
    assert process.wait_gone(qemu_of(here), 10)
