"""CPU accounting: the runner in ``harness``, db_bench in ``load``, both below our own cgroup.

Without permission, or without cgroup v2, nothing is measured and the metrics stay null.
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
    """The two groups; ``None`` paths when the host does not let us make them."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self._instructions = perf.instructions(self.load)

    @property
    def available(self) -> bool:
        """Whether the groups exist."""
        return self._base is not None

    @property
    def load(self) -> Path | None:
        """The group of db_bench."""
        return None if self._base is None else self._base / "load"

    def close(self) -> None:
        """Stop counting."""
        if self._instructions is not None:
            self._instructions.close()

    def enter_load(self, pid: int) -> None:
        """Move a new process into ``load``; one that is gone already is left alone."""
        if self._base is not None:
            _join(self._base / "load", pid)

    def limit_memory(self, limit: int | None) -> None:
        """Let db_bench and the page cache that it fills take so many bytes; None: all there is.

        Raises:
            HostError: there is a limit, and it cannot be set.
        """
        try:
            if self._base is None:
                raise FileNotFoundError("no cgroup v2")
            load = self._base / "load"
            _set(load / "memory.max", "max" if limit is None else str(limit))
            # What does not fit shall be dropped or fail, not be written to some other drive.
            if (load / "memory.swap.max").exists():
                _set(load / "memory.swap.max", "max" if limit is None else "0")
        except OSError as error:
            if limit is not None:
                raise HostError(
                    f"memory_limit cannot be set: {error.strerror or error}",
                    hint="the runner needs cgroup v2 and its memory controller (systemd's way)",
                    code="memory-limit",
                ) from None

    def load_seconds(self) -> float | None:
        """Return CPU seconds used in ``load`` so far."""
        return None if self._base is None else _cpu_seconds(self._base / "load")

    def load_instructions(self) -> int | None:
        """Return instructions retired in ``load`` so far; null without a PMU that counts them."""
        return None if self._instructions is None else self._instructions.read()

    def harness_seconds(self) -> float | None:
        """Return CPU seconds used in ``harness`` so far."""
        return None if self._base is None else _cpu_seconds(self._base / "harness")


@contextmanager
def cgroups(root: Path, membership: str) -> Iterator[Cgroups]:
    """Make the groups, move this process into ``harness``, and undo both at the end.

    Args:
        root: where cgroup v2 is mounted.
        membership: the text of /proc/self/cgroup.
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
        _control(base, "-")  # a group that controls others may hold no process itself
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
    """Have memory and I/O counted per group, or no longer; where that is not ours to do, not."""
    for controller in ("memory", "io"):
        try:
            (base / "cgroup.subtree_control").write_text(f"{sign}{controller}")
        except OSError:
            continue


def _set(path: Path, value: str) -> None:
    with path.open("r+") as file:  # a controller that is off has no such file: do not make one
        file.write(value)


def _join(group: Path, pid: int) -> None:
    try:
        (group / "cgroup.procs").write_text(str(pid))
    except OSError:
        return  # the process ended between its start and this line


def _remove(group: Path) -> None:
    try:
        group.rmdir()
    except OSError:
        return  # someone is still in it; an empty group costs nothing


def _cpu_seconds(group: Path) -> float | None:
    try:
        text = (group / "cpu.stat").read_text()
    except OSError:
        return None
    match = re.search(r"^usage_usec (\d+)$", text, re.MULTILINE)
    return int(match[1]) / 1e6 if match else None
