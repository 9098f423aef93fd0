"""CPU accounting in two cgroups: ``harness`` for the runner, ``load`` for its programs.

Both are below the runner's own cgroup. Without permission or cgroup v2 the metrics are null.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HostError
from harness.observe import perf


class Cgroups:
    """The two groups; null paths if the host does not permit them."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self._instructions = perf.instructions(self.load)

    @property
    def load(self) -> Path | None:
        """The group of the programs."""
        return None if self._base is None else self._base / "load"

    def close(self) -> None:
        """Stop counting."""
        if self._instructions is not None:
            self._instructions.close()

    def enter_load(self, pid: int) -> None:
        """Move a new process into ``load``; nothing happens if it has already ended."""
        if self._base is not None:
            _join(self._base / "load", pid)

    def limit_memory(self, limit: int | None) -> None:
        """Limit the memory of the programs and their page cache in bytes; null: no limit.

        Raises:
            HostError: the limit cannot be set.
        """
        try:
            if self._base is None:
                raise FileNotFoundError("no cgroup v2")
            load = self._base / "load"
            _set(load / "memory.max", "max" if limit is None else str(limit))
            # Beyond the limit, pages must be dropped or the program fail; no swap to another drive.
            if (load / "memory.swap.max").exists():
                _set(load / "memory.swap.max", "max" if limit is None else "0")
        except OSError as error:
            if limit is not None:
                raise HostError(
                    f"memory_limit cannot be set: {error.strerror or error}",
                    hint="use a host with systemd, cgroup v2 and its memory controller",
                    code="memory-limit",
                ) from None

    def load_seconds(self) -> float | None:
        """Return CPU seconds used in ``load`` so far."""
        return None if self._base is None else _cpu_seconds(self._base / "load")

    def load_instructions(self) -> int | None:
        """Return the instructions of ``load`` so far; null without a performance counter."""
        return None if self._instructions is None else self._instructions.read()

    def harness_seconds(self) -> float | None:
        """Return CPU seconds used in ``harness`` so far."""
        return None if self._base is None else _cpu_seconds(self._base / "harness")


@contextmanager
def cgroups(root: Path, membership: str) -> Iterator[Cgroups]:
    """Create the groups, move this process into ``harness``, and undo both at the end.

    cgroup v2 is mounted at ``root``; ``membership`` is the text of /proc/self/cgroup.
    """
    match = re.search(r"^0::(/.*)$", membership, re.MULTILINE)
    base = root / match[1].lstrip("/") if match else None
    if base is None or not _make(base):
        yield Cgroups(None)
        return
    try:
        _control(base, "+")
        groups = Cgroups(base)
        try:
            yield groups
        finally:
            groups.close()
    finally:
        _control(base, "-")  # a group with controllers for its children must not hold a process
        _join(base, os.getpid())
        for name in ("load", "harness"):
            _remove(base / name)


def _make(base: Path) -> bool:
    try:
        for name in ("harness", "load"):
            (base / name).mkdir(exist_ok=True)
        (base / "harness" / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        for name in ("load", "harness"):
            _remove(base / name)
        return False
    return True


def _control(base: Path, sign: str) -> None:
    """Switch the memory and I/O controllers on or off, as far as permitted."""
    for controller in ("memory", "io"):
        try:
            (base / "cgroup.subtree_control").write_text(f"{sign}{controller}")
        except OSError:
            continue


def _set(path: Path, value: str) -> None:
    with path.open("r+") as file:  # a controller that is off has no such file; do not create one
        file.write(value)


def _join(group: Path, pid: int) -> None:
    try:
        (group / "cgroup.procs").write_text(str(pid))
    except OSError:
        return  # the process has just ended


def _remove(group: Path) -> None:
    try:
        group.rmdir()
    except OSError:
        return  # a process is still in it; a leftover group costs nothing


def _cpu_seconds(group: Path) -> float | None:
    try:
        text = (group / "cpu.stat").read_text()
    except OSError:
        return None
    match = re.search(r"^usage_usec (\d+)$", text, re.MULTILINE)
    return int(match[1]) / 1e6 if match else None
