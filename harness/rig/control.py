"""Start, reset and stop a rig. No function leaves a QEMU behind when it fails."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import ConfigError, HostError, TimedOut, ToolFailed, UsageError, ZonelabError
from harness.rig import guest, image, prerequisites, process, qemu, state
from harness.rig.model import Rig, hosts_of
from harness.rig.qmp import DriveStats, Qmp
from harness.rig.recipe import Image, recipe_of
from harness.rig.state import RigState
from harness.rig.talk import Talk
from harness.tools import proc, starting

DEFAULT_LEASE = 6 * 3600  # longer than any shipped study; then a forgotten rig stops
BOOT_TIMEOUT = 300.0  # usual: 45 s on two cores without KVM; a busy host is several times slower
RESET_TIMEOUT = 150.0  # usual: 15 to 30 s
RESET_PRESSES = 3


def build(rig: Rig, talk: Talk) -> tuple[Image, bool]:
    """Return a rig's image and whether it had to be built."""
    return image.ensure(recipe_of(rig), talk)


def up(
    rig: Rig, talk: Talk, *, lease: int | None = DEFAULT_LEASE, timeout: float = BOOT_TIMEOUT
) -> tuple[RigState, bool]:
    """Boot a rig and wait until it answers on ssh.

    ``lease`` is the number of seconds after which QEMU is stopped. With None QEMU ends together
    with this process, even on SIGKILL.

    Returns:
        The state, and whether the rig was booted (False: it was up).

    Raises:
        HostError: this machine lacks a program, space or memory.
        TimedOut: the guest did not answer; the last lines of its console are printed before.
    """
    here = state.folder(rig.name)
    with process.locked(here / "lock", talk, f"another start of rig {rig.name}"):
        running = state.read(rig.name)
        if running is not None:
            return running, False
        _end_stray(here)
        built, _ = build(rig, talk)
        prerequisites.check_run(rig, here)
        _prepare(rig, here)
        return _boot(rig, built, here, talk, lease=lease, timeout=timeout), True


def down(name: str, talk: Talk, machine: process.Process | None = None) -> bool:
    """Stop a rig and remove its files; return whether it was up.

    With ``machine``, do nothing if another QEMU has the rig's name by now.
    """
    here = state.folder(name)
    if not here.is_dir():
        return False
    with process.locked(here / "lock", talk, f"a start of rig {name}"):
        if machine is not None and _recorded(here) not in (machine, None):
            return False
        try:
            was_up = state.read(name) is not None
        except ConfigError:  # damaged, or of another release: the pid file names QEMU too
            was_up = False
        guest.close_connections(name)
        stopped = _end_stray(here)
        _clear(here)
    return was_up or stopped


def reset(name: str, talk: Talk, timeout: float = RESET_TIMEOUT) -> None:
    """Reset a rig and wait for ssh and drives: the kernel restarts, zones keep their state.

    A machine that hangs is reset again (docs/rigs.md).

    Raises:
        UsageError: the rig has modelled drives, which would lose their data.
        TimedOut: the guest did not answer on ssh within ``timeout`` seconds of any reset, or does
            not see its drives.
    """
    running = state.require(name)
    if any(device.uuid for device in running.devices):
        raise UsageError(
            f"rig {name} cannot be reset: its drives are in the guest's memory",
            hint=f"zonelab rig down {name}; zonelab rig up {name}",
        )
    guest.close_connections(name)
    for left in reversed(range(RESET_PRESSES)):
        with Qmp(state.folder(name) / qemu.QMP_SOCKET) as qmp:
            qmp.execute("system_reset")
        talk.say(f"rig {name}: reset, waiting for ssh")
        try:
            guest.wait(name, running.port, running.process, talk, timeout)
            guest.wait_for_devices(running)
        except TimedOut:
            if not left:
                raise
            talk.say(f"rig {name} hangs after its reset; resetting it again")
        else:
            return


def wait(name: str, talk: Talk, timeout: float) -> None:
    """Wait until a rig that is up answers on ssh.

    Raises:
        HostError: the rig is down.
        ToolFailed: its QEMU ended.
        TimedOut: it did not answer within ``timeout`` seconds.
    """
    running = state.require(name)
    guest.close_connections(name)
    guest.wait(name, running.port, running.process, talk, timeout)


def end_on_hangup() -> None:
    """Handle a closed terminal (SIGHUP) like ^C, so that no rig stays behind.

    nohup(1) ignores SIGHUP, so that a study survives the terminal.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(ValueError):  # only the main thread can set a handler
        signal.signal(signal.SIGHUP, interrupt)


def counters(name: str) -> dict[str, DriveStats]:
    """Return QEMU's counters by EUI-64; {} for modelled drives, which count themselves."""
    running = state.require(name)
    if any(device.uuid for device in running.devices):
        return {}
    with Qmp(state.folder(name) / qemu.QMP_SOCKET) as qmp:
        stats = qmp.blockstats()
    missing = [device.drive for device in running.devices if device.drive not in stats]
    if missing:
        raise ToolFailed(f"QEMU has no counters for {', '.join(missing)}")
    return {device.eui64: stats[device.drive] for device in running.devices}


def execute(rig: Rig, command: Sequence[str], talk: Talk) -> int:
    """Boot a rig, run a command on this host with the rig's inventory, always stop the rig.

    A rig with several hosts is that many machines, with an inventory of all.

    Returns:
        The command's exit code, 128 + n when signal n ended it.

    Raises:
        HostError: this host has too little memory for all machines, or cannot start the command.
    """
    hosts = hosts_of(rig)
    if len(hosts) > 1:  # the start of a machine checks its own
        prerequisites.check_machines(hosts, rig.name)
    with contextlib.ExitStack() as machines:
        booted = [machines.enter_context(held(one, talk)) for one in hosts]
        inventories = [str(state.folder(one.rig) / "inventory.yml") for one in booted]
        env = {
            **os.environ,
            "ANSIBLE_INVENTORY": ",".join(inventories),
            "ZONELAB_RIG": booted[0].rig,
        }
        try:
            child = starting.start(list(command), env=env)
        except OSError as error:
            raise HostError(f"cannot start {command[0]}: {error.strerror}") from None
        try:
            code = child.wait()
        except BaseException:
            _end_child(child)
            raise
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def held(rig: Rig, talk: Talk) -> Iterator[RigState]:
    """Boot a rig for a ``with`` statement; stop it however the statement ends."""
    running, booted = up(rig, talk, lease=None)
    if not booted:
        raise HostError(
            f"rig {rig.name} is up already", hint=f"zonelab rig down {rig.name}", code="rig-up"
        )
    try:
        yield running
    finally:
        with _undisturbed():
            down(rig.name, talk, running.process)


def _accelerator(rig: Rig) -> str:
    """Return ``kvm`` or ``tcg``: only emulation (tcg) can count instructions."""
    if rig.icount is not None:
        return "tcg"
    return prerequisites.accelerator(Path("/proc/cpuinfo").read_text())


def _boot(
    rig: Rig, built: Image, here: Path, talk: Talk, *, lease: int | None, timeout: float
) -> RigState:
    begin = time.monotonic()
    port = _free_port()
    accelerator = _accelerator(rig)
    talk.say(f"booting rig {rig.name} ({accelerator}, ssh on 127.0.0.1:{port})")
    command = qemu.argv(rig, built, port=port, accelerator=accelerator)
    if lease is None:
        prefix = ["setpriv", "--pdeathsig", "KILL", "--"]
    else:
        prefix = ["timeout", "--signal=TERM", "--kill-after=10", str(lease)]
    one_processor = rig.icount is not None
    child = process.start(
        [*prefix, *command], cwd=here, log=here / "qemu.log", one_processor=one_processor
    )
    try:
        qemu_process = _started(child, here)
        state.write_access(rig, built, port)
        guest.wait(rig.name, port, qemu_process, talk, timeout)
        running = RigState(
            rig=rig.name,
            pid=qemu_process.pid,
            began=qemu_process.began,
            port=port,
            accelerator=accelerator,
            image=str(built.folder),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            boot_seconds=round(time.monotonic() - begin, 1),
            lease_seconds=lease,
            devices=guest.served(rig, talk) if rig.zoneblk else guest.devices(rig),
        )
        state.write_inventory(running)
        state.write(running)
    except BaseException:
        with _undisturbed():
            _end_stray(here)
            _end_child(child)
            _clear(here)
        raise
    talk.say(f"rig {rig.name} answers on ssh after {running.boot_seconds:.0f} s")
    return running


def _started(child: subprocess.Popen[bytes], here: Path) -> process.Process:
    """Wait until QEMU has written its pid file, which it does when the machine is complete."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and child.poll() is None:
        found = _recorded(here)
        if found is not None:
            return found
        time.sleep(0.05)
    text = (here / "qemu.log").read_text(errors="replace").strip()
    raise ToolFailed(f"QEMU did not start: {text.splitlines()[-1] if text else 'no message'}")


def _recorded(here: Path) -> process.Process | None:
    try:
        found = process.identify(int((here / qemu.PID_FILE).read_text()))
    except (OSError, ValueError):
        return None
    # The pid file may be old and its pid recycled: only a process that runs in our folder is QEMU.
    with contextlib.suppress(OSError):
        if found and Path(f"/proc/{found.pid}/cwd").resolve() == here.resolve():
            return found
    return None


def _end_stray(here: Path) -> bool:
    """Stop the QEMU that runs in this folder; return whether there was one."""
    found = _recorded(here)
    if found is None:
        return False
    with contextlib.suppress(ZonelabError):
        with Qmp(here / qemu.QMP_SOCKET, timeout=5) as qmp:
            qmp.execute("quit")
        process.wait_gone(found, 10)
    process.stop(found)
    with contextlib.suppress(ChildProcessError):  # our child when supervised: leave no zombie
        os.waitpid(found.pid, os.WNOHANG)
    return True


def _end_child(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child, which ^C reaches too; then terminate it, then kill it."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            child.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=10 if number else 3)
            return


def _prepare(rig: Rig, here: Path) -> None:
    _clear(here)
    for name in ("key", "key.pub"):  # an ssh-keygen that was killed can leave half of one
        (here / name).unlink(missing_ok=True)
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "zonelab", "-f"]
    proc.run([*argv, here / "key"], timeout=60)
    for number, controller in enumerate(rig.nvme):
        for namespace in controller.namespaces:
            # New each time: QEMU loses the zones' states, so old contents would be wrong.
            with (here / qemu.backing_file(number, namespace)).open("wb") as file:
                os.ftruncate(file.fileno(), namespace.length)


def _clear(here: Path) -> None:
    """Remove the files of one boot; keep the key and the logs."""
    for pattern in ("*.img", "*.partial", "state.json", qemu.PID_FILE, qemu.QMP_SOCKET):
        for path in here.glob(pattern):
            path.unlink(missing_ok=True)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Block signals while a rig is stopped: a second ^C must not leave it running."""
    held_off = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held_off)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
