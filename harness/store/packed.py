"""Files of a run that are packed: their name is what it was, and ``.xz`` behind it.

Text of programs and series pack to a fifth, and a campaign has hundreds: what is larger than
:data:`LARGE` is packed when a run is complete. Whoever reads names the file without the suffix.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.errors import ConfigError

# Bytes. Below, a file is one block of most file systems, packed or not.
LARGE = 4096
UNREADABLE = (OSError, EOFError, lzma.LZMAError)

# As fast as gzip on RocksDB's LOG, and two thirds of its size.
_XZ_PRESET = 1
# gzip was what the first releases packed with.
_PACKED: dict[str, Callable[..., IO[Any]]] = {".xz": lzma.open, ".gz": gzip.open}
_OPEN = {"": open} | _PACKED


def find(path: Path) -> Path | None:
    """Return the file as it is stored, packed or not; None when it was not kept."""
    for suffix in _OPEN:
        if os.path.isfile(f"{path}{suffix}"):  # noqa: PTH113 - most are asked for in vain
            return path.with_name(path.name + suffix)
    return None


def opened(path: Path) -> IO[str] | None:
    """Open a file as UTF-8 text, packed or not; None when it was not kept.

    Reading it raises ConfigError where it is damaged.
    """
    file = _bytes(path)
    if file is None:
        return None
    return io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")


def text(path: Path, limit: int = -1) -> str:
    """Return what is in a file, packed or not; nothing when it was not kept.

    Args:
        path: its name without a suffix of packing.
        limit: bytes to read at most; -1 for all.

    Raises:
        ConfigError: it is damaged.
    """
    file = _bytes(path)
    if file is None:
        return ""
    with file:
        return file.read(limit).decode("utf-8", errors="replace")


def unpack(suffix: str, content: bytes) -> bytes:
    """Return a content that was packed as its suffix says; any other as it is.

    Raises:
        OSError, EOFError, lzma.LZMAError: it is damaged (:data:`UNREADABLE`).
    """
    return {".xz": lzma.decompress, ".gz": gzip.decompress}.get(suffix, bytes)(content)


def pack(suffix: str, content: bytes) -> bytes:
    """Return a content packed as the suffix of its name says; the same bytes each time."""
    if suffix == ".xz":
        return lzma.compress(content, preset=_XZ_PRESET)
    return gzip.compress(content, mtime=0) if suffix == ".gz" else content


def copy(source: Path, packed: Path) -> None:
    """Write a packed copy of a file.

    Raises:
        OSError: the source cannot be read, or the copy not be written.
    """
    with source.open("rb") as file, lzma.open(packed, "wb", preset=_XZ_PRESET) as out:
        shutil.copyfileobj(file, out)


def large(folder: Path) -> None:
    """Pack the large files of a folder in place.

    Raises:
        OSError: a copy cannot be written; the file it is of is still there.
    """
    for path in sorted(folder.iterdir()):
        if path.suffix not in _PACKED and path.stat().st_size > LARGE:
            copy(path, path.with_name(path.name + ".xz"))
            path.unlink()


def opened_bytes(stored: Path) -> IO[bytes]:
    """Open a file under the name it is stored by, and unpack what its suffix says.

    Raises:
        OSError: it cannot be opened.
    """
    file: IO[bytes] = _OPEN.get(stored.suffix, open)(stored, "rb")
    return file


def _bytes(path: Path) -> IO[bytes] | None:
    stored = find(path)
    if stored is None:
        return None
    return io.BufferedReader(_Named(stored))


class _Named(io.RawIOBase):
    """A stored file, unpacked; what goes wrong while it is read is said with its name."""

    def __init__(self, stored: Path) -> None:
        self._stored = stored
        try:
            self._file = opened_bytes(stored)
        except OSError as error:
            raise self._damaged(error) from None

    def readable(self) -> bool:
        return True

    def readinto(self, view: memoryview) -> int:  # type: ignore[override]  # all it gets
        try:
            content = self._file.read(len(view))
        except UNREADABLE as error:
            raise self._damaged(error) from None
        view[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()

    def _damaged(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"{self._stored} cannot be read: {error}",
            hint="restore it from a copy, or move its run away: it is then run again",
            code="packed-damaged",
        )
