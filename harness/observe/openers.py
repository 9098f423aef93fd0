"""Programs that have a device open, exclusively or not: /proc/<pid>/fd and /proc/<pid>/maps.

Nodes are compared by number, so a bind mount or a node that mknod made elsewhere counts too. The
kernel does not show files registered in an io_uring, nor descriptors in transit in a socket.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Documentation/filesystems/proc.rst: the PID namespace of the first process has this inode.
_FIRST_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True, slots=True)
class Node:
    """A device number, of a block device or of a character device."""

    block: bool
    number: int


@dataclass(frozen=True, slots=True)
class Opener:
    """A process with an open device. ``path`` is the name under which it was opened."""

    pid: int
    command: str
    path: str


@dataclass(frozen=True, slots=True)
class Openers:
    """The openers, and the number of processes that could not be examined."""

    seen: tuple[Opener, ...]
    unreadable: int


def node_of(path: Path) -> Node | None:
    """Return the device number of a node or of an open file below /proc; null for other files.

    Raises:
        PermissionError: the caller may not read it.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - links below /proc have no path
    except PermissionError:
        raise
    except OSError:
        return None
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        return Node(stat.S_ISBLK(status.st_mode), status.st_rdev)
    return None


def find(
    proc: Path, watched: Mapping[Node, bool], node: Callable[[Path], Node | None] = node_of
) -> Openers:
    """Return the other processes that have a watched device open.

    ``watched`` is true for a device when read-only openers count as well; ``node`` returns the
    device of a path.
    """
    seen: list[Opener] = []
    unreadable = 0
    for folder in proc.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            paths = [*_descriptors(folder, watched, node), *_mappings(folder, watched, node)]
            if paths:
                command = (folder / "comm").read_text(errors="replace").strip()
                seen.append(Opener(int(folder.name), command, paths[0]))
        except PermissionError:
            unreadable += 1
        except OSError:
            continue  # it has ended
    return Openers(tuple(sorted(seen, key=lambda opener: opener.pid)), unreadable)


def sees_all(proc: Path) -> bool:
    """Whether procfs shows every process of the machine: false inside most containers."""
    try:
        return str((proc / "self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False


def _descriptors(
    folder: Path, watched: Mapping[Node, bool], node: Callable[[Path], Node | None]
) -> Iterator[str]:
    for link in (folder / "fd").iterdir():
        device = node(link)
        if device is None or device not in watched:
            continue
        try:
            if watched[device] or _may_write(folder / "fdinfo" / link.name):
                yield str(link.readlink())
        except FileNotFoundError:
            continue  # it was closed; the process can have the device open once more


def _may_write(fdinfo: Path) -> bool:
    """Whether a descriptor was opened for writing (proc(5): ``flags``, octal)."""
    for line in fdinfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return True


def _mappings(
    folder: Path, watched: Mapping[Node, bool], node: Callable[[Path], Node | None]
) -> Iterator[str]:
    """Yield devices with a shared mapping, which writes to the device, or can be changed to."""
    for line in (folder / "maps").read_text(errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or fields[1][3] != "s" or not fields[5].startswith("/"):  # noqa: PLR2004
            continue
        first, _, end = fields[0].partition("-")
        name = f"{int(first, 16):x}-{int(end, 16):x}"  # map_files has no leading zeros
        device = node(folder / "map_files" / name)
        if device is not None and device in watched:
            yield fields[5]
