"""The runner as a transient systemd unit, which survives a lost ssh connection."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import harness
from harness.errors import ConfigError, HostError
from harness.machine import lock
from harness.machine.host import Host
from harness.machine.paths import Paths
from harness.run import progress
from harness.run.pulse import Pulse
from harness.tools import proc
from harness.tools.virtual_clock import patience

UNIT = "zonelab-run"
# A runner takes the lock a second after its start, and exits a second after releasing it.
_OTHER_START_SECONDS = 30.0
_POLL_SECONDS = 0.5
_INHERITED = ("PATH", "ZONELAB_DB_BENCH", "ZONELAB_NATIVE", "ZONELAB_ZENFS")


def detach(arguments: Sequence[str], paths: Paths, campaign: str) -> str:
    """Start ``zonelab <arguments>`` without ``--detach`` as a unit; return one line about it.

    If this campaign is running already, nothing is started and its state is returned.

    Raises:
        HostError: another campaign is running, or systemd is missing or refused.
    """
    if lock.is_held(paths.lock):
        return _at_work(paths, campaign)
    folder = paths.campaign(campaign)
    folder.mkdir(parents=True, exist_ok=True)

    pulse = Pulse(paths.progress(campaign), Host())

    def announce(state: str, message: str) -> None:
        pulse.publish(progress.announcement(pulse.path, campaign, state, message))
        pulse.path.chmod(0o644)  # roles/run reads it without root, and the umask can forbid that

    proc.run(["systemctl", "reset-failed", UNIT], timeout=60, check=False)
    settle = [*self_command(), "status", "--settle", str(folder)]
    command = [
        "systemd-run",
        f"--unit={UNIT}",
        "--collect",
        "--no-block",
        "--property=Delegate=yes",
        "--property=TimeoutStopSec=300",
        # The runner ends its programs itself; systemd kills any that remain.
        "--property=KillMode=mixed",
        # A runner killed by SIGKILL cannot report it.
        f"--property=ExecStopPost={_quoted(settle)}",
        f"--working-directory={Path.cwd()}",
        *(f"--setenv={name}={value}" for name, value in _environment().items()),
        "--",
        *self_command(),
        *(argument for argument in arguments if argument != "--detach"),
    ]
    try:
        if not _started(command, paths.lock, lambda: announce("running", "starting")):
            return _at_work(paths, campaign)
    except HostError as error:
        announce("failed", error.message)
        raise
    return f"started {UNIT}.service; zonelab status {folder} shows its progress"


def _started(command: Sequence[str], runner_lock: Path, announce: Callable[[], None]) -> bool:
    """Start the unit; False if another process started it first.

    ``announce`` is called before each attempt. Otherwise the progress file could still show the end
    of an earlier start, which an exiting unit writes late.

    Raises:
        HostError: systemd is missing or refused.
    """
    deadline = time.monotonic() + _OTHER_START_SECONDS * patience()
    there = True
    while True:
        announce()
        done = proc.run(command, timeout=60, check=False)
        if done.ok:
            return True
        # If no unit exists after two attempts, systemd refused. After one, it may just have exited.
        there, before = _unit_exists(), there
        if not (there or before) or time.monotonic() > deadline:
            raise HostError(
                f"systemd did not start {UNIT}: {done.stderr.strip() or 'no reason given'}",
                hint="run without --detach, inside tmux or nohup",
                code="systemd",
            )
        # A unit of this name is about to take the lock, or has just released it.
        time.sleep(_POLL_SECONDS)
        if lock.is_held(runner_lock):
            return False


def _at_work(paths: Paths, campaign: str) -> str:
    """Return the state of the running campaign; HostError if it is another one."""
    holder = lock.holder(paths.lock)
    if not holder.startswith(f"campaign {campaign} "):
        raise HostError(
            f"another run is under way: {holder or 'unknown'}",
            hint="wait for its end: zonelab status shows it",
            code="locked",
        )
    return f"already running: {holder}; {_line(paths, campaign)}".rstrip("; ")


def _unit_exists() -> bool:
    states = ("active", "activating", "deactivating")
    done = proc.run(["systemctl", "is-active", UNIT], timeout=60, check=False)
    return done.stdout.strip() in states


def self_command() -> list[str]:
    """Return the command of this zonelab: the zipapp, or the module of a checkout."""
    root = Path(harness.__file__).parent.parent
    return [sys.executable, str(root)] if root.is_file() else [sys.executable, "-m", "harness"]


def _environment() -> dict[str, str]:
    """Return the environment of the unit, which inherits nothing from this process."""
    root = Path(harness.__file__).parent.parent
    wanted = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return wanted | ({} if root.is_file() else {"PYTHONPATH": str(root)})


def _quoted(argv: Sequence[str]) -> str:
    """Return a command line in the syntax of systemd.service(5)."""
    return " ".join('"' + arg.replace("\\", "\\\\").replace('"', '\\"') + '"' for arg in argv)


def _line(paths: Paths, campaign: str) -> str:
    try:
        return progress.load(paths.progress(campaign)).line
    except ConfigError:
        return ""
