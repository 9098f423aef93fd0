"""Archives for the kernel's initial file system, the same bytes for the same files."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath

# cpio(5), "New ASCII Format"; Documentation/driver-api/early-userspace/buffer-format.rst.
_MAGIC = "070701"
_TRAILER = "TRAILER!!!"
_ALIGN = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a regular file that root owns."""

    content: bytes
    executable: bool = False


def archive(files: Mapping[str, Entry]) -> bytes:
    """Return an archive of files by relative path, with their folders, sorted and without times."""
    names = {name for path in files for name in _parts(path)}
    pieces = []
    for number, name in enumerate(sorted(names), start=1):
        entry = files.get(name)
        if entry is None:
            pieces.append(_member(number, name, stat.S_IFDIR | 0o755, b""))
        else:
            mode = stat.S_IFREG | (0o755 if entry.executable else 0o644)
            pieces.append(_member(number, name, mode, entry.content))
    return b"".join([*pieces, _member(0, _TRAILER, 0, b"")])


def _parts(path: str) -> list[str]:
    """Return a path and the folders above it."""
    return list(accumulate(PurePosixPath(path).parts, lambda above, name: f"{above}/{name}"))


def _member(number: int, name: str, mode: int, content: bytes) -> bytes:
    # inode, mode, uid, gid, links, mtime, size, four device numbers, length of the name, checksum
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = (_MAGIC + "".join(f"{field:08X}" for field in fields) + name + "\0").encode()
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGN)
