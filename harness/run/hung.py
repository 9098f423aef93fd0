"""Records a process that hangs when the runner ends, and looks for it at the next start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import HostError, Hung
from harness.machine.host import Host
from harness.machine.paths import Paths
from harness.store.codec import SCHEMA_VERSION
from harness.store.files import dumps, load_record, write_atomic
from harness.tools import kernel_stack


@dataclass(frozen=True, slots=True)
class HungProcess:
    """``hung.json`` in the runtime folder. Boot id, pid and ``start`` identify the process."""

    boot_id: str
    pid: int
    start: int
    schema_version: int = field(default=SCHEMA_VERSION)


def note(host: Host, paths: Paths, error: Hung) -> None:
    """Record a hung process."""
    paths.runtime.mkdir(parents=True, exist_ok=True)
    write_atomic(_file(paths), dumps(HungProcess(host.boot_id(), error.pid, error.start)))


def require_gone(host: Host, paths: Paths) -> None:
    """Refuse to start while the process of an earlier run hangs: its device would block this one.

    Raises:
        HostError: it is still there.
    """
    if not _file(paths).exists():
        return
    known = load_record(HungProcess, _file(paths))
    started = kernel_stack.start(known.pid, host.proc)
    stacks = kernel_stack.stacks(known.pid, host.proc)
    same = known.boot_id == host.boot_id() and started == known.start
    if same and kernel_stack.alive(stacks):
        waits = kernel_stack.waits(stacks)
        raise HostError(
            f"{kernel_stack.name(known.pid, host.proc)} (pid {known.pid}) of an earlier run still "
            f"hangs in the kernel ({waits or 'unknown function'})",
            hint="repair the drive or reboot this machine, and repeat the command",
            code="hung",
        )
    _file(paths).unlink()


def _file(paths: Paths) -> Path:
    return paths.runtime / "hung.json"
