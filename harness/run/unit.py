"""The runner as a transient systemd unit: a lost ssh connection does not matter to it."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import harness
from harness.errors import ConfigError, HostError
from harness.run import lock, progress
from harness.run.bench import Paths
from harness.tools import proc

UNIT = "zonelab-run"


def detach(arguments: Sequence[str], paths: Paths, campaign: str) -> str:
    """Start ``zonelab <arguments>`` without ``--detach`` as a unit; return one line about it.

    When a runner is at work already, nothing is started and its state is returned.

    Raises:
        HostError: systemd is not there or refused.
    """
    if lock.is_held(paths.lock):
        return f"already running: {lock.holder(paths.lock)}; {_line(paths, campaign)}".rstrip("; ")
    folder = paths.campaign(campaign)
    folder.mkdir(parents=True, exist_ok=True)
    # Whoever polls must not read the end of an earlier start.
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    progress.announce(paths.progress(campaign), campaign, "running", "starting", now)
    proc.run(["systemctl", "reset-failed", UNIT], timeout=60, check=False)
    settle = [*self_command(), "status", "--settle", str(folder)]
    done = proc.run(
        [
            "systemd-run",
            f"--unit={UNIT}",
            "--collect",
            "--no-block",
            "--property=Delegate=yes",
            "--property=TimeoutStopSec=300",
            # The runner ends db_bench itself; systemd only sweeps up what is left after it.
            "--property=KillMode=mixed",
            # A runner killed by SIGKILL cannot say so itself.
            f"--property=ExecStopPost={_quoted(settle)}",
            f"--working-directory={Path.cwd()}",
            *(f"--setenv={name}={value}" for name, value in _environment().items()),
            "--",
            *self_command(),
            *(argument for argument in arguments if argument != "--detach"),
        ],
        timeout=60,
        check=False,
    )
    if not done.ok:
        progress.announce(paths.progress(campaign), campaign, "failed", "systemd refused", now)
        raise HostError(
            f"systemd did not start {UNIT}: {(done.stderr.strip() or 'no reason given')}",
            hint="run without --detach, inside tmux or nohup",
            code="systemd",
        )
    return f"started {UNIT}.service; zonelab status {folder} shows how far it is"


def self_command() -> list[str]:
    """Return how to start this zonelab: the zipapp, or the module from a checkout."""
    root = Path(harness.__file__).parent.parent
    return [sys.executable, str(root)] if root.is_file() else [sys.executable, "-m", "harness"]


def _environment() -> dict[str, str]:
    """Return what the unit has to inherit; systemd gives it nothing else of ours."""
    root = Path(harness.__file__).parent.parent
    wanted = {name: os.environ[name] for name in ("PATH", "ZONELAB_DB_BENCH") if name in os.environ}
    return wanted | ({} if root.is_file() else {"PYTHONPATH": str(root)})


def _quoted(argv: Sequence[str]) -> str:
    """Return a command line as systemd.service(5) reads it."""
    return " ".join('"' + arg.replace("\\", "\\\\").replace('"', '\\"') + '"' for arg in argv)


def _line(paths: Paths, campaign: str) -> str:
    try:
        return progress.load(paths.progress(campaign)).line
    except ConfigError:
        return ""
