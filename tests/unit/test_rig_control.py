"""Start, stop and use of a rig, in one process: QEMU is a program that sleeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HostError, TimedOut, ToolFailed, UsageError
from harness.rig import control, guest, image, model, prerequisites, process, qemu, state
from harness.rig.qmp import DriveStats
from harness.rig.recipe import Image
from harness.rig.state import GuestDevice, RigState
from harness.rig.talk import Talk
from harness.tools import proc

QUIET = Talk(quiet=True)
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
QEMU = ["sh", "-c", f"echo $$ > {qemu.PID_FILE}; exec sleep 60"]
DRIVE = GuestDevice(2, "5254005a4c000002", "/dev/x", "/dev/nvme0n2", "d2", True, 1 << 20)
OTHER = replace(DRIVE, eui64="5254005a4c000001", drive="d1")
MODELLED = replace(DRIVE, uuid="u")
STATS = DriveStats(1, 2, 3, 4, 5)
RIG = model.load("nvme")


class Calls(list[str]):
    """What was called, in order."""

    def of(self, name: str, answer: Any = None) -> Any:
        """Return a function that is noted, and returns or raises the answer."""

        def call(*_: object, **__: object) -> Any:
            self.append(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A host that can start every rig, without images, guests and ssh."""
    calls = Calls()
    monkeypatch.setattr(state, "BUILD", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for rig in ("nvme", "timed"):
        (tmp_path / rig).mkdir()
    built = Image(tmp_path / "image")
    monkeypatch.setattr(image, "ensure", calls.of("build", (built, False)))
    monkeypatch.setattr(prerequisites, "check_run", calls.of("check"))
    monkeypatch.setattr(prerequisites, "available_memory", lambda *_: 1 << 40)
    monkeypatch.setattr(prerequisites, "accelerator", calls.of("accelerator", "kvm"))
    monkeypatch.setattr(proc, "run", lambda argv, **_: argv[-1].write_text("a key"))
    monkeypatch.setattr(qemu, "argv", calls.of("argv", QEMU))
    monkeypatch.setattr(state, "write_access", calls.of("access"))
    monkeypatch.setattr(state, "write_inventory", calls.of("inventory"))
    monkeypatch.setattr(guest, "wait", calls.of("wait"))
    monkeypatch.setattr(guest, "devices", calls.of("devices", (DRIVE,)))
    monkeypatch.setattr(guest, "served", calls.of("served", (MODELLED,)))
    monkeypatch.setattr(guest, "close_connections", calls.of("close"))
    return calls


def running(*devices: GuestDevice) -> RigState:
    me = process.identify(os.getpid())
    assert me is not None
    return RigState("nvme", me.pid, me.began, 2022, "tcg", "/i", "t", 12.0, 60, devices)


def qemu_of(root: Path, rig: str = "nvme") -> process.Process:
    found = process.identify(int((root / rig / qemu.PID_FILE).read_text()))
    assert found is not None
    return found


# --- up and down ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lease", [None, 30])
def test_a_start_and_a_stop(tmp_path: Path, calls: Calls, lease: int | None) -> None:
    old = tmp_path / "nvme" / qemu.backing_file(0, RIG.nvme[0].namespaces[0])
    old.write_bytes(b"old")
    found, booted = control.up(RIG, QUIET, lease=lease)
    machine = qemu_of(tmp_path)
    try:
        assert (booted, found.process, found.lease_seconds) == (True, machine, lease)
        assert (found.devices, found.accelerator) == ((DRIVE,), "kvm")
        assert calls.index("check") < calls.index("argv") < calls.index("wait")
        assert "served" not in calls
        sizes = {path.name: path.stat().st_size for path in (tmp_path / "nvme").glob("*.img")}
        assert sizes == {
            qemu.backing_file(number, space): space.length
            for number, one in enumerate(RIG.nvme)
            for space in one.namespaces
        }
        with old.open("rb") as file:
            assert file.read(3) == bytes(3)
        del calls[:]
        assert control.up(RIG, QUIET) == (found, False)
        assert calls == []
    finally:
        assert control.down("nvme", QUIET)
    assert not process.alive(machine)
    left = {path.name for path in (tmp_path / "nvme").iterdir()}
    assert left >= {"key", "qemu.log"}
    assert not [name for name in left if name.endswith((".img", ".json", ".pid"))]
    assert not control.down("nvme", QUIET)


def test_a_rig_with_modelled_drives_serves_them_in_the_guest(calls: Calls) -> None:
    found, _ = control.up(model.load("timed"), QUIET, lease=30)
    control.down("timed", QUIET)
    assert (found.devices, found.accelerator) == ((MODELLED,), "tcg")
    assert "devices" not in calls
    assert "accelerator" not in calls  # only emulation counts instructions


def test_a_qemu_without_a_state_is_ended_before_a_start(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prerequisites, "check_run", calls.of("check", HostError("no memory")))
    with subprocess.Popen(SLEEP, cwd=tmp_path / "nvme") as child:
        (tmp_path / "nvme" / qemu.PID_FILE).write_text(f"{child.pid}\n")
        with pytest.raises(HostError, match="no memory"):
            control.up(RIG, QUIET)
        assert process.identify(child.pid) is None
    assert calls == ["build", "check"]


@pytest.mark.parametrize("part", ["wait", "devices", "write_inventory"])
def test_a_start_that_fails_leaves_no_qemu(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    machines: list[process.Process] = []

    def fail(*_: object, **__: object) -> None:
        machines.append(qemu_of(tmp_path))
        raise TimedOut("too late")

    monkeypatch.setattr(state if part == "write_inventory" else guest, part, fail)
    with pytest.raises(TimedOut, match="too late"):
        control.up(RIG, QUIET, lease=30)
    assert not process.alive(machines[0])
    assert not list((tmp_path / "nvme").glob("*.img"))
    assert state.read("nvme") is None
    assert not {signal.SIGINT, signal.SIGTERM} & signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.needs("ssh-keygen")
def test_half_a_key_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("-----BEGIN OPENSSH")
    control._prepare(RIG, tmp_path)
    public = proc.run(["ssh-keygen", "-y", "-f", tmp_path / "key"]).stdout
    assert public == (tmp_path / "key.pub").read_text()


def test_a_stop_holds_signals_off(calls: Calls) -> None:
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    with control._undisturbed():
        assert held <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert not held & signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(HostError), control._undisturbed():
        raise HostError("x")
    assert not held & signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize(
    ("text", "message"), [("", "no message"), ("first\nqemu: bad luck\n", "qemu: bad luck")]
)
def test_a_qemu_that_does_not_start_is_quoted(
    tmp_path: Path, calls: Calls, text: str, message: str
) -> None:
    here = tmp_path / "nvme"
    (here / "qemu.log").write_text(text)
    child = subprocess.Popen(["false"])
    child.wait()
    with pytest.raises(ToolFailed, match=f"QEMU did not start: {message}$"):
        control._started(child, here)


def test_a_qemu_without_a_pid_file_is_given_up(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvme/qemu.log").touch()
    ticks = iter([0.0, 29.0, 31.0])
    monkeypatch.setattr(control.time, "monotonic", lambda: next(ticks))
    with subprocess.Popen(SLEEP) as child:
        with pytest.raises(ToolFailed, match="no message"):
            control._started(child, tmp_path / "nvme")
        child.kill()


@pytest.mark.parametrize("ends", ["by itself", "at SIGTERM", "at SIGKILL"])
def test_a_program_is_given_time_to_end(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    sent: list[int] = []

    class Child:
        def send_signal(self, number: int) -> None:
            sent.append(number)

        def wait(self, timeout: float) -> int:
            if len(sent) < ("by itself", "at SIGTERM", "at SIGKILL").index(ends):
                raise subprocess.TimeoutExpired("x", timeout)
            return 0

    control._end_child(Child())  # type: ignore[arg-type]
    assert sent == [signal.SIGTERM, signal.SIGKILL][: len(sent)]
    assert len(sent) == ("by itself", "at SIGTERM", "at SIGKILL").index(ends)


# --- use ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "stats", "found"),
    [
        ((DRIVE, OTHER), {"d1": STATS, "d2": STATS}, {DRIVE.eui64: STATS, OTHER.eui64: STATS}),
        ((DRIVE, OTHER), {"d2": STATS}, "QEMU has no counters for d1"),
        ((MODELLED,), {}, {}),
        ((DRIVE, MODELLED), {}, {}),
    ],
)
def test_counters_of_every_drive(
    monkeypatch: pytest.MonkeyPatch,
    devices: tuple[GuestDevice, ...],
    stats: dict[str, DriveStats],
    found: Any,
) -> None:
    class Qmp:
        def __init__(self, _: Path) -> None: ...

        def __enter__(self) -> Qmp:
            return self

        def __exit__(self, *_: object) -> None: ...

        def blockstats(self) -> dict[str, DriveStats]:
            return stats

    monkeypatch.setattr(state, "require", lambda _: running(*devices))
    monkeypatch.setattr(control, "Qmp", Qmp)
    if isinstance(found, str):
        with pytest.raises(ToolFailed, match=found):
            control.counters("nvme")
    else:
        assert control.counters("nvme") == found


@pytest.mark.parametrize("devices", [(MODELLED,), (DRIVE, MODELLED)])
def test_modelled_drives_would_lose_their_data_at_a_reset(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, devices: tuple[GuestDevice, ...]
) -> None:
    monkeypatch.setattr(state, "require", lambda _: running(*devices))
    with pytest.raises(UsageError, match="cannot be reset"):
        control.reset("nvme", QUIET)
    assert calls == []


def test_a_wait_closes_the_old_connection_first(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "require", lambda _: running(DRIVE))
    control.wait("nvme", QUIET, 5)
    assert calls == ["close", "wait"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 143),
    ],
)
def test_a_command_has_its_code_and_the_rig_is_stopped(
    tmp_path: Path, calls: Calls, command: list[str], code: int
) -> None:
    assert control.execute(RIG, command, QUIET) == code
    assert state.read("nvme") is None


def test_a_command_sees_the_inventories_of_all_machines(
    tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = RIG.model_copy(update={"hosts": 2})
    out = tmp_path / "out"
    script = f"echo $ZONELAB_RIG $ANSIBLE_INVENTORY > {out}"
    assert control.execute(two, ["sh", "-c", script], QUIET) == 0
    folders = ",".join(f"{tmp_path}/nvme-{number}/inventory.yml" for number in (1, 2))
    assert out.read_text() == f"nvme-1 {folders}\n"
    assert [state.read(f"nvme-{number}") for number in (1, 2)] == [None, None]


def test_the_memory_of_all_machines_is_checked_before_the_first_starts(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = RIG.model_copy(update={"hosts": 2})
    monkeypatch.setattr(prerequisites, "available_memory", lambda *_: 8 << 30)
    assert control.execute(RIG, ["true"], QUIET) == 0
    del calls[:]
    with pytest.raises(HostError, match=r"rig nvme needs 9.0 GiB of memory, 8.0 GiB are available"):
        control.execute(two, ["true"], QUIET)
    assert calls == []


def test_a_command_that_cannot_be_started_is_named(calls: Calls) -> None:
    with pytest.raises(HostError, match="cannot start no-such-program: No such file"):
        control.execute(RIG, ["no-such-program"], QUIET)
    assert state.read("nvme") is None


def test_a_rig_of_somebody_else_is_neither_used_nor_stopped(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "read", lambda _: running(DRIVE))
    monkeypatch.setattr(control, "down", calls.of("down"))
    with pytest.raises(HostError, match="rig nvme is up already"), control.held(RIG, QUIET):
        pass
    assert calls == []


def test_an_error_of_the_user_of_a_rig_stops_it(calls: Calls) -> None:
    machines: list[process.Process] = []

    def use() -> None:
        with control.held(RIG, QUIET) as found:
            machines.append(found.process)
            assert process.alive(found.process)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        use()
    assert not process.alive(machines[0])


def test_a_later_machine_of_the_same_name_is_not_stopped(calls: Calls) -> None:
    with control.held(RIG, QUIET) as first:
        assert control.down("nvme", QUIET)
        later, _ = control.up(RIG, QUIET, lease=30)
    assert not process.alive(first.process)
    assert process.alive(later.process)
    assert control.down("nvme", QUIET)


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("stray", [True, False])
def test_a_stop_reports_whether_there_was_a_machine(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, *, up: bool, stray: bool
) -> None:
    monkeypatch.setattr(state, "read", lambda _: running(DRIVE) if up else None)
    monkeypatch.setattr(control, "_end_stray", calls.of("end", stray))
    assert control.down("nvme", QUIET) is (up or stray)
    assert calls == ["close", "end"]


def test_a_reset_closes_the_old_connection_first(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Qmp:
        def __init__(self, socket: Path) -> None:
            calls.append(socket.name)

        def __enter__(self) -> Qmp:
            return self

        def __exit__(self, *_: object) -> None: ...

        execute = calls.of("press")

    monkeypatch.setattr(state, "require", lambda _: running(DRIVE))
    monkeypatch.setattr(control, "Qmp", Qmp)
    monkeypatch.setattr(guest, "wait_for_devices", calls.of("drives"))
    control.reset("nvme", QUIET)
    assert calls == ["close", qemu.QMP_SOCKET, "press", "wait", "drives"]


def test_a_closed_terminal_is_an_interrupt() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    try:
        control.end_on_hangup()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_does_not_end_a_command_of_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        control.end_on_hangup()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
