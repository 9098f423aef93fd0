"""Read and write files of a run that may be compressed with xz.

A completed run stores every file of ``raw/`` and ``series/`` larger than :data:`LARGE` as
``<name>.xz``. Callers always name the file without the suffix.
"""

from __future__ import annotations

import io
import lzma
import os
import shutil
from pathlib import Path
from typing import IO

from harness.errors import ConfigError

# Bytes. A smaller file takes one block of most file systems, compressed or not.
LARGE = 4096
SUFFIX = ".xz"
UNREADABLE = (OSError, EOFError, lzma.LZMAError)

# Preset 1 is as fast as gzip on RocksDB's LOG, and the result is a third smaller.
_PRESET = 1


def find(path: Path) -> Path | None:
    """Return the stored file, compressed or not, or None when it was not kept."""
    for suffix in ("", SUFFIX):
        if os.path.isfile(f"{path}{suffix}"):  # noqa: PTH113 - most of these files do not exist
            return path.with_name(path.name + suffix)
    return None


def opened(path: Path) -> IO[str] | None:
    """Open a stored file as UTF-8 text, or return None when it was not kept.

    Reading from it raises ConfigError if it is damaged.
    """
    file = _bytes(path)
    if file is None:
        return None
    return io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")


def text(path: Path, limit: int = -1, tail: int = 0) -> str:
    """Return the text of a stored file, or '' when it was not kept.

    ``path`` lacks ``.xz``; ``limit`` is the most bytes to read, -1 for all. The text of a longer
    file also has its last ``tail`` bytes, on a new line if bytes before them are left out.

    Raises:
        ConfigError: the file is damaged.
    """
    file = _bytes(path)
    if file is None:
        return ""
    with file:
        content, end, gap = file.read(limit), b"", b""
        while tail and (more := file.read(tail)):
            if len(end) + len(more) > tail:
                gap = b"\n"
            end = (end + more)[-tail:]
    return (content + gap + end).decode("utf-8", errors="replace")


def unpack(suffix: str, content: bytes) -> bytes:
    """Decompress the content of a file with suffix ``.xz``; return any other unchanged.

    Raises:
        OSError, EOFError, lzma.LZMAError: the content is damaged (:data:`UNREADABLE`).
    """
    return lzma.decompress(content) if suffix == SUFFIX else content


def pack(suffix: str, content: bytes) -> bytes:
    """Compress content for a file with suffix ``.xz``; equal content gives equal bytes."""
    return lzma.compress(content, preset=_PRESET) if suffix == SUFFIX else content


def copy(source: Path, target: Path) -> None:
    """Write a compressed copy of a file.

    Raises:
        OSError: the source cannot be read, or the copy cannot be written.
    """
    with source.open("rb") as file, lzma.open(target, "wb", preset=_PRESET) as out:
        shutil.copyfileobj(file, out)


def compress_large(folder: Path) -> None:
    """Compress the large files of a folder in place.

    Raises:
        OSError: a copy cannot be written; its original is still there.
    """
    for path in sorted(folder.iterdir()):
        if path.suffix != SUFFIX and path.stat().st_size > LARGE:
            copy(path, path.with_name(path.name + SUFFIX))
            path.unlink()


def opened_bytes(stored: Path) -> IO[bytes]:
    """Open a file by its stored name and decompress it if it ends in ``.xz``.

    Raises:
        OSError: the file cannot be opened.
    """
    return lzma.open(stored) if stored.suffix == SUFFIX else stored.open("rb")


def _bytes(path: Path) -> IO[bytes] | None:
    stored = find(path)
    return None if stored is None else io.BufferedReader(_StoredFile(stored))


class _StoredFile(io.RawIOBase):
    """A decompressed stored file whose read errors name the file."""

    def __init__(self, stored: Path) -> None:
        self._stored = stored
        try:
            self._file = opened_bytes(stored)
        except OSError as error:
            raise self._damaged(error) from None

    def readable(self) -> bool:
        return True

    def readinto(self, view: memoryview) -> int:  # type: ignore[override]  # no other type comes
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
            hint="restore it from a copy, or move its run directory away to repeat the run",
            code="packed-damaged",
        )
