"""Processes, locks, state files, the guest's devices, and the command's small parsers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.cli import main
from harness.cli import rig as cli
from harness.errors import ConfigError, HostError, TimedOut, ToolFailed, UsageError
from harness.rig import control, guest, model, prerequisites, process, qemu, state
from harness.rig.recipe import Image
from harness.rig.state import GuestDevice, RigState
from harness.rig.talk import Talk
from harness.tools import proc
from harness.tools.proc import Completed

FIXTURES = Path(__file__).parents[1] / "fixtures" / "rig"
QUIET = Talk(quiet=True)
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(60)",
]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state, "BUILD", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "nvme").mkdir()
    return tmp_path


def a_state(found: process.Process) -> RigState:
    device = GuestDevice(2, "5254005a4c000002", "/dev/x", "/dev/nvme0n2", "nvme0n2", True, 1 << 20)
    return RigState("nvme", found.pid, found.began, 2022, "tcg", "/i", "t", 12.0, 60, (device,))


def test_a_recycled_pid_is_another_process() -> None:
    found = process.identify(os.getpid())
    assert found is not None
    assert process.alive(found)
    assert not process.alive(process.Process(found.pid, found.began + 1))


def test_names_with_blanks_and_brackets_do_not_confuse(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    fields = ["S", *map(str, range(4, 22)), "4711", "23"]  # synthetic, fields 3 to 23
    (tmp_path / "7" / "stat").write_text(f"7 (a) b (c) {' '.join(fields)}\n")
    assert process.identify(7, tmp_path) == process.Process(7, 4711)
    (tmp_path / "7" / "stat").write_text(f"7 (a) Z {' '.join(fields[1:])}\n")
    assert process.identify(7, tmp_path) is None


@pytest.mark.parametrize("argv", [SLEEP, STUBBORN])
def test_stop_insists(argv: list[str]) -> None:
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        if argv is STUBBORN:
            assert child.stdout is not None
            child.stdout.readline()
        found = process.identify(child.pid)
        assert found is not None
        process.stop(found, grace=0.5)
        assert child.wait(5) != 0


def test_a_process_that_survives_both_signals_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(process, "alive", lambda _: True)
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    with pytest.raises(HostError, match="process 4711 does not end"):
        process.stop(process.Process(4711, 1), grace=0)
    assert sent == [(4711, signal.SIGTERM), (4711, signal.SIGKILL)]


def test_stop_leaves_a_recycled_pid_alone() -> None:
    with subprocess.Popen(SLEEP) as child:
        found = process.identify(child.pid)
        assert found is not None
        process.stop(process.Process(found.pid, found.began + 1))
        with pytest.raises(subprocess.TimeoutExpired):  # a signal takes a moment
            child.wait(0.5)
        child.kill()


def test_a_stop_ends_the_process_in_the_folder_of_the_rig(build: Path) -> None:
    here = build / "nvme"
    for name in ("nvme0.img", "key", "console.log"):
        (here / name).touch()
    with subprocess.Popen(SLEEP, cwd=here) as child:
        (here / qemu.PID_FILE).write_text(f"{child.pid}\n")
        assert control.down("nvme", QUIET)
        assert not process.identify(child.pid)
    left = {path.name for path in here.iterdir()}
    assert left >= {"key", "console.log"}
    assert not left & {"nvme0.img", qemu.PID_FILE}
    assert not control.down("nvme", QUIET)
    assert not control.down("timed", QUIET)


@pytest.mark.parametrize("text", ["{", '{"schema_version": 99}'])
def test_a_stop_needs_no_readable_state(build: Path, text: str) -> None:
    """It can be of another release."""
    here = build / "nvme"
    (here / "state.json").write_text(text)
    with subprocess.Popen(SLEEP, cwd=here) as child:
        (here / qemu.PID_FILE).write_text(f"{child.pid}\n")
        assert control.down("nvme", QUIET)
        assert not process.identify(child.pid)
    assert not (here / "state.json").exists()


def test_a_stop_leaves_a_process_elsewhere_alone(build: Path) -> None:
    """The pid file is older than the machine's last boot, and another program has the pid."""
    with subprocess.Popen(SLEEP, cwd=build) as child:
        (build / "nvme" / qemu.PID_FILE).write_text(f"{child.pid}\n")
        assert not control.down("nvme", QUIET)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        child.kill()


def test_make_removes_no_files_of_a_rig_that_is_up(tmp_path: Path) -> None:
    """Without them, nobody could stop its QEMU."""
    here = tmp_path / "build" / "rigs" / "timed-1"
    here.mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    env |= {"PYTHONPATH": str(model.PROJECT), "PYTHON": sys.executable}
    argv = ["make", "-f", str(model.PROJECT / "Makefile"), "clean"]
    with subprocess.Popen(SLEEP, cwd=here) as child:
        (here / qemu.PID_FILE).write_text(f"{child.pid}\n")
        refused = subprocess.run(
            argv, cwd=tmp_path, env=env, check=False, capture_output=True, text=True
        )
        child.kill()
    assert refused.returncode == 2
    assert "rig timed-1 is up" in refused.stderr
    assert "zonelab rig down timed-1" in refused.stderr
    assert here.is_dir()
    subprocess.run(argv, cwd=tmp_path, env=env, check=True)
    assert not (tmp_path / "build").exists()


def test_the_second_waits_for_the_lock(tmp_path: Path) -> None:
    order: list[str] = []
    waits = threading.Event()

    class Waiting(Talk):
        def say(self, text: str) -> None:
            waits.set()

    def second() -> None:
        with process.locked(tmp_path / "lock", Waiting(), "x"):
            order.append("second")

    with process.locked(tmp_path / "lock", QUIET, "x"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(60)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(ToolFailed, match="killed by SIGTERM"):
        process.stream(SLEEP, tmp_path / "log", QUIET, timeout=0.3)
    assert time.monotonic() - begin < 10


def test_a_program_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no-such-program is not installed"):
        process.stream(["no-such-program"], tmp_path / "log", QUIET, timeout=5)


def test_steps_are_printed_and_all_output_is_logged(tmp_path: Path) -> None:
    class Logged(Talk):
        def say(self, text: str) -> None:
            steps.append(text)

    steps: list[str] = []
    log = tmp_path / "log"
    log.write_text("before\n")
    lines = "I: chroot...\nI: reading /etc/x...\nI: done\nW: odd...\nlast\n"
    script = ["sh", "-c", f"printf '{lines}' >&2; exit 3"]
    with pytest.raises(ToolFailed, match="last") as caught:
        process.stream(script, log, Logged(quiet=False), timeout=60)
    assert steps == ["chroot..."]
    assert log.read_text() == "before\n" + lines
    assert caught.value.hint == f"read {log}"


def test_a_program_may_work_on_behind_its_last_output(tmp_path: Path) -> None:
    script = f"exec >&- 2>&-; sleep 0.3; touch {tmp_path}/done"
    process.stream(["sh", "-c", script], tmp_path / "log", QUIET, timeout=60)
    assert (tmp_path / "done").exists()


def test_a_program_that_prints_data_logs_its_errors(tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as data:
        script = ["sh", "-c", "echo data; echo odd >&2"]
        process.stream(script, tmp_path / "log", QUIET, timeout=60, stdout=data.fileno())
    assert (tmp_path / "data").read_text() == "data\n"
    assert (tmp_path / "log").read_text() == "odd\n"


def test_an_interrupted_program_ends_with_its_children_after_its_clean_up(tmp_path: Path) -> None:
    """It prints more than a pipe holds while it cleans up."""

    class Interrupted(Talk):
        def say(self, text: str) -> None:
            raise KeyboardInterrupt

    clean = f"head -c 200000 /dev/zero >&2; touch {tmp_path}/cleaned; exit"
    child = "trap - TERM; echo 'I: step...' >&2; sleep 30"
    script = f"trap '{clean}' TERM; ({child}) & wait"
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        process.stream(["sh", "-c", script], tmp_path / "log", Interrupted(), timeout=60)
    assert (tmp_path / "cleaned").exists()
    assert time.monotonic() - begin < 20


def test_state_is_read_back_and_forgotten_when_qemu_is_gone(build: Path) -> None:
    with subprocess.Popen(SLEEP) as child:
        found = process.identify(child.pid)
        assert found is not None
        state.write(a_state(found))
        assert state.read("nvme") == a_state(found)
        child.kill()
        child.wait()
    assert state.read("nvme") is None


def test_a_rig_that_is_down_has_a_hint_to_start_it(build: Path) -> None:
    with pytest.raises(HostError, match="rig nvme is down") as caught:
        control.counters("nvme")
    assert caught.value.hint == "zonelab rig up nvme"


def test_the_list_has_each_machine_that_is_up(
    build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    me = process.identify(os.getpid())
    assert me is not None
    up = {"nvme", "timed-2", "timed-fine-slow", "timed-fine-slow-1", "timed-nvme-slow"}
    for name in up:
        (build / name).mkdir(exist_ok=True)
        state.write(replace(a_state(me), rig=name))
    assert main.main(["rig", "list", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["rig"] for row in rows if row["state"] == "up"} == up
    assert {row["rig"] for row in rows} == up | set(model.names())
    assert len(rows) == len(model.names()) + 4


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is damaged"), ('{"schema_version": 99}', "schema_version 99")],
)
def test_a_damaged_state_is_named(build: Path, text: str, message: str) -> None:
    (build / "nvme" / "state.json").write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        state.read("nvme")
    assert message != "is damaged" or raised.value.hint.endswith("state.json, and end its QEMU")


@pytest.mark.needs("ssh")
@pytest.mark.parametrize("longer", [0, 1])
def test_a_path_that_is_too_long_for_a_socket_has_no_shared_connection(
    build: Path, monkeypatch: pytest.MonkeyPatch, longer: int
) -> None:
    image = Image(build / "image")
    image.folder.mkdir()
    image.host_key.write_text("ssh-ed25519 AAAA root@x\n")
    sockets = build / "ssh"
    monkeypatch.setattr(state, "_LONGEST_SOCKET", len(f"{sockets}/{'c' * 40}.{'x' * 16}") - longer)
    monkeypatch.setattr(state, "cache", lambda: build / "images")
    state.write_access(model.load("nvme"), image, 4022)
    argv = ["ssh", "-G", "-F", str(build / "nvme" / "ssh_config"), "rig"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    settings = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert ("controlpath" in settings) == (not longer)
    assert settings["controlmaster"] == ("false" if longer else "auto")
    assert settings["serveraliveinterval"] == "5"


@pytest.mark.needs("ssh")
def test_access_files_pin_the_host_key(build: Path) -> None:
    image = Image(build / "image")
    image.folder.mkdir()
    image.host_key.write_text("ssh-ed25519 AAAA root@x\n")
    state.write_access(model.load("nvme"), image, 4022)
    here = build / "nvme"
    assert (here / "known_hosts").read_text() == "zonelab-rig ssh-ed25519 AAAA\n"
    done = subprocess.run(
        ["ssh", "-G", "-F", here / "ssh_config", "rig"], capture_output=True, text=True, check=True
    )
    settings = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert settings["hostname"] == "127.0.0.1"
    assert settings["port"] == "4022"
    assert settings["stricthostkeychecking"] == "true"
    assert settings["hostkeyalias"] == "zonelab-rig"


def test_the_inventory_names_the_zoned_device(build: Path) -> None:
    state.write_inventory(a_state(process.Process(1, 1)))
    inventory = yaml.safe_load((build / "nvme" / "inventory.yml").read_text())
    found = inventory["all"]["hosts"]["rig"]
    assert (found["device"], found["zonelab_rig"], found["ansible_user"]) == (
        "/dev/x",
        True,
        "root",
    )
    config = str(build / "nvme" / "ssh_config")
    assert config in found["ansible_ssh_common_args"]
    assert found["ansible_port"] > 0
    assert found["run_unreachable_seconds"] == 180  # emulation is slow
    assert found["run_rig"] == str(build / "nvme")


def test_the_static_inventory_fits_the_nvme_rig() -> None:
    file = model.PROJECT / "ansible" / "inventory" / "rig.yml"
    found = yaml.safe_load(file.read_text())["all"]["hosts"]["rig"]
    zoned = next(ns for ns in model.load("nvme").namespaces if ns.zoned)
    assert found["device"] == f"/dev/disk/by-id/nvme-uuid.{zoned.uuid}"
    assert found["ansible_host"] == state.host_name("nvme")


@pytest.mark.parametrize(
    ("fixture", "start"),
    [
        ("devices-nvme.txt", "/dev/disk/by-id/nvme-uuid."),
        ("devices-debian12.txt", "/dev/disk/by-path/"),
    ],
)
def test_devices_are_found_by_serial_and_nsid(fixture: str, start: str) -> None:
    found = guest.parse_devices((FIXTURES / fixture).read_text())
    assert sorted(nsid for _, nsid in found) == [1, 2, 3]
    for node, path in found.values():
        assert node.startswith("/dev/nvme0n")
        assert path.startswith(start)


def test_a_namespace_that_does_not_appear_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = model.load("timed-nvme")
    outputs = iter(["ublkb0\n", ""])
    monkeypatch.setattr(
        guest, "run", lambda *_, **__: Completed(("ssh",), 0, None, next(outputs), "")
    )
    with pytest.raises(ToolFailed, match=f"sees no NVMe namespace of drive {rig.zoneblk[0].uuid}"):
        guest.serve(rig, rig.zoneblk[0], "zoneblk-0")


def test_the_console_is_shown_without_escapes(tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_bytes(b"\x1b[6none\r\n\x1b[!p\x1b]104\x07\x1b[?7h\r\n\xfftwo\n")
    assert guest.console_lines(console, 5) == ["one", "\ufffdtwo"]
    assert guest.console_lines(tmp_path / "none", 3) == []


def test_a_guest_that_never_answers_times_out(build: Path) -> None:
    me = process.identify(os.getpid())
    assert me is not None
    (build / "nvme" / qemu.CONSOLE).write_text("Kernel panic - not syncing\n")
    with pytest.raises(TimedOut, match="did not answer on ssh within 0 s") as caught:
        guest.wait("nvme", 1, me, QUIET, 0.3)
    assert "console" in caught.value.hint


def test_one_slow_answer_does_not_end_a_boot(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = process.identify(os.getpid())
    assert me is not None
    calls: list[object] = []

    def slow_once(*_: object, **__: object) -> Completed:
        calls.append(None)
        if len(calls) == 1:
            raise TimedOut("ssh did not end within 60 s")
        return Completed(("ssh",), 0, None, "", "")

    monkeypatch.setattr(proc, "run", slow_once)
    monkeypatch.setattr(guest, "has_banner", lambda _port: True)
    guest.wait("nvme", 1, me, QUIET, 60)
    assert len(calls) == 2


@pytest.mark.parametrize("error", [TimedOut("too late"), HostError("ssh is not installed")])
def test_a_stuck_connection_does_not_keep_qemu_running(
    build: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(proc, "run", fail)
    here = build / "nvme"
    (here / "ssh_config").touch()
    with subprocess.Popen(SLEEP, cwd=here) as child:
        (here / qemu.PID_FILE).write_text(f"{child.pid}\n")
        assert control.down("nvme", QUIET)
        assert not process.identify(child.pid)


def test_a_refusal_of_ssh_is_in_the_message(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = process.identify(os.getpid())
    assert me is not None
    failed = Completed(("ssh",), 255, None, "", "first\npath too long for Unix domain socket\n")
    monkeypatch.setattr(proc, "run", lambda *_, **__: failed)
    monkeypatch.setattr(guest, "has_banner", lambda _port: True)
    with pytest.raises(TimedOut, match=r"within 0 s: path too long for Unix domain socket$"):
        guest.wait("nvme", 1, me, QUIET, 0)


def test_a_qemu_that_ends_while_booting_is_named(build: Path) -> None:
    gone = process.Process(os.getpid(), 1)
    with pytest.raises(ToolFailed, match="QEMU of rig nvme ended"):
        guest.wait("nvme", 1, gone, QUIET, 30)


@pytest.fixture
def button(build: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A rig that is up; returns the commands sent to its QEMU."""
    commands: list[str] = []

    class Button:
        def __init__(self, _socket: Path) -> None:
            pass

        def __enter__(self) -> Button:
            return self

        def __exit__(self, *_exc: object) -> None:
            pass

        def execute(self, command: str) -> None:
            commands.append(command)

    me = process.identify(os.getpid())
    assert me is not None
    monkeypatch.setattr(state, "require", lambda _name: a_state(me))
    monkeypatch.setattr(control, "Qmp", Button)
    return commands


def test_a_machine_that_hangs_after_its_reset_is_reset_again(
    button: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers_the_second_time(*_args: object) -> None:
        if len(button) < 2:
            raise TimedOut("did not answer")

    monkeypatch.setattr(guest, "wait", answers_the_second_time)
    monkeypatch.setattr(guest, "wait_for_devices", lambda _running: None)
    control.reset("nvme", QUIET)
    assert button == ["system_reset"] * 2


def test_a_machine_without_its_drives_is_reset_again(
    button: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def sees_them_the_second_time(_name: str, command: str, **_kwargs: object) -> Completed:
        asked.append(command)
        late = len(button) < 2
        message = "Timed out for waiting devices being initialized.\n" if late else ""
        return Completed(("ssh",), 1 if late else 0, None, "", message)

    monkeypatch.setattr(guest, "wait", lambda *_args: None)
    monkeypatch.setattr(guest, "run", sees_them_the_second_time)
    control.reset("nvme", QUIET)
    assert button == ["system_reset"] * 2
    assert asked == ["udevadm wait --settle --timeout=60 /dev/x"] * 2


def test_a_machine_that_never_comes_back_is_given_up(
    button: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_args: object) -> None:
        raise TimedOut("did not answer")

    monkeypatch.setattr(guest, "wait", never)
    with pytest.raises(TimedOut, match="did not answer"):
        control.reset("nvme", QUIET)
    assert button == ["system_reset"] * control.RESET_PRESSES


@pytest.mark.needs("ssh-keygen")
def test_a_qemu_that_cannot_start_leaves_nothing_behind(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "build", lambda *_a: (Image(build / "image"), False))
    monkeypatch.setattr(prerequisites, "check_run", lambda *_a: None)
    monkeypatch.setattr(qemu, "argv", lambda *_a, **_k: ["sh", "-c", "echo qemu: bad luck; exit 1"])
    with pytest.raises(ToolFailed, match="QEMU did not start: qemu: bad luck"):
        control.up(model.load("nvme"), QUIET)
    here = build / "nvme"
    assert not list(here.glob("*.img"))
    assert not (here / "state.json").exists()


@pytest.mark.needs("ssh-keygen")
@pytest.mark.parametrize(("rig", "expected"), [("nvme", "kvm"), ("timed", "tcg")])
def test_a_rig_on_the_instruction_clock_is_emulated_whatever_the_host_has(
    build: Path, monkeypatch: pytest.MonkeyPatch, rig: str, expected: str
) -> None:
    found: list[str] = []

    def argv(*_args: object, accelerator: str, **_more: object) -> list[str]:
        found.append(accelerator)
        return ["false"]

    monkeypatch.setattr(control, "build", lambda *_a: (Image(build / "image"), False))
    monkeypatch.setattr(prerequisites, "check_run", lambda *_a: None)
    monkeypatch.setattr(prerequisites, "accelerator", lambda *_a: "kvm")
    monkeypatch.setattr(qemu, "argv", argv)
    with pytest.raises(ToolFailed):
        control.up(model.load(rig), QUIET)
    assert found == [expected]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("6h", 21600), ("2d", 172800)]
)
def test_durations(text: str, seconds: int) -> None:
    assert cli.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0h", "-1", "1.5h", "6 h", "soon", "1w"])
def test_no_durations(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        cli.parse_duration(text)
