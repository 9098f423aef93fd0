"""zoneblk, the native program that serves a model of a drive as a block device (docs/model.md)."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, GuardRefused, HostError, TimedOut, ToolFailed, ZonelabError
from harness.tools import native, proc
from harness.tools.virtual_clock import patience

PROGRAM = "zoneblk"
_BAD_INPUT, _REFUSED = 2, 3
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.02


def start(model: Mapping[str, Any], options: Sequence[str], launcher: Sequence[str] = ()) -> str:
    """Start a server, which outlives this process; return the name of its device.

    ``launcher`` is a command that executes the program after it, such as ``systemd-run --scope``.

    Raises:
        HostError: the program is not installed, or this machine cannot serve the device.
        ConfigError: the program refuses the model or an option.
        ToolFailed: the program failed.
        TimedOut: the device did not appear.
    """
    executable = native.program_or_built(PROGRAM)
    with tempfile.TemporaryDirectory(prefix="zonelab-zoneblk-") as folder:
        file, out, err = (Path(folder, name) for name in ("model.json", "stdout", "stderr"))
        file.write_text(json.dumps(model), encoding="utf-8")
        argv = (*launcher, str(executable), "serve", "--model", str(file), *options)
        with out.open("wb") as stdout, err.open("wb") as stderr:
            child = proc.spawn(argv, stdout=stdout, stderr=stderr)
        try:
            _wait(child, out)
        except BaseException:
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_STOP_SECONDS * patience())
            raise
        if child.returncode is None:
            device: str = json.loads(out.read_text())["device"]
            return device
        raise _error(proc.completed(argv, child.returncode, "", err.read_text()))


def stop(device: str, process: int) -> None:
    """Stop a server and wait for its end; the device and its contents are then gone.

    Raises:
        GuardRefused: the device is in use.
        HostError: this user may not stop the server.
        TimedOut: the server does not end.
    """
    try:
        os.close(os.open(f"/dev/{device}", os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise GuardRefused(
                f"{device} is in use", hint=f"lsblk /dev/{device}; unmount it", code="in-use"
            ) from None
    try:
        server = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(server, signal.SIGTERM)
        waiter = select.poll()
        waiter.register(server, select.POLLIN)
        if not waiter.poll(_STOP_SECONDS * patience() * 1000):
            raise TimedOut(f"{PROGRAM} (pid {process}) does not end", hint="see dmesg")
    except ProcessLookupError:
        return
    except PermissionError:
        raise HostError(
            f"this user may not stop {PROGRAM} of {device}", hint="run as root", code="not-root"
        ) from None
    finally:
        os.close(server)


def _wait(child: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until the server prints its device or ends."""
    longest = _START_SECONDS * patience()
    deadline = time.monotonic() + longest
    while child.poll() is None and not out.read_bytes().endswith(b"\n"):
        if time.monotonic() > deadline:
            raise TimedOut(f"{PROGRAM} has no device after {longest:g} s", hint="see dmesg")
        time.sleep(_POLL_SECONDS)


def _error(done: proc.Completed) -> ZonelabError:
    message, hint = native.complaint(PROGRAM, done)
    if done.exit_code == _BAD_INPUT:
        return ConfigError(message, hint=hint or "see docs/model.md", code="model")
    if done.exit_code == _REFUSED:
        code, _, text = message.partition(": ")
        return HostError(text, hint=hint, code=code)
    return ToolFailed(f"{PROGRAM}: {message}", hint=hint)
