"""Digest of a source tree, independent of its location, owner and times."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.store import checksums


def digest(tree: Path, leave_out: Callable[[tuple[str, ...]], bool] = lambda _: False) -> str:
    """Return the SHA-256 over relative names, executable bits and contents of a source tree.

    Skipped are hidden files and folders, Python's compiled files, and paths with a part for which
    ``leave_out`` returns True. A missing tree has the digest of an empty one.
    """
    total = hashlib.sha256()
    for path in sorted(_files(tree)):
        parts = path.relative_to(tree).parts
        if leave_out(parts):
            continue
        executable = "x" if path.stat().st_mode & 0o100 else "-"
        content = checksums.digest(path)
        total.update(f"{'/'.join(parts)}\0{executable}\0{content}\n".encode())
    return total.hexdigest()


def _files(tree: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        paths = (Path(folder) / name for name in names if not name.startswith("."))
        yield from (path for path in paths if path.is_file())
