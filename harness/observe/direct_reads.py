"""Reads of devices that bypass the page cache, which can be older than the device.

A write through another node of the same device, or by a command of the driver, leaves cached pages
as they were. Regular files, which tests use, may refuse such reads and are then read as usual.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager

from harness.store.files import descriptor

_ALIGNMENT = 4096  # a multiple of every logical block size in use
_PIECE = 1 << 20
_ZEROS = bytes(_PIECE)
_READERS = 8  # a flash drive needs several commands at a time
_LOOK_SECONDS = 1.0

Range = tuple[int, int]  # offset, length
ReadCallback = Callable[[int], None]  # receives the bytes read so far


def read(path: str, offset: int, length: int) -> bytes:
    """Return bytes of a device; fewer at its end.

    Raises:
        OSError: the device cannot be opened or read.
    """
    return b"".join(each(path, [(offset, length)]))


def each(path: str, ranges: Iterable[Range]) -> Iterator[bytes]:
    """Yield the bytes of each range; fewer at the end of the device.

    Raises:
        OSError: the device cannot be opened or read.
    """
    with _opened(path) as fd, ExitStack() as stack:
        buffer = stack.enter_context(mmap.mmap(-1, _ALIGNMENT))
        for offset, length in ranges:
            begin = offset // _ALIGNMENT * _ALIGNMENT
            size = _aligned(offset + length) - begin
            if size > len(buffer):
                buffer = stack.enter_context(mmap.mmap(-1, size))
            filled = _fill(fd, buffer, begin, size)
            yield buffer[offset - begin : min(filled, offset - begin + length)]


def first_data(path: str, ranges: Sequence[Range], progress: ReadCallback) -> int | None:
    """Return the offset of a piece that is not all zeros; null if every byte is zero.

    Each of the ``ranges`` is read as a whole; ``progress`` is called about once a second.

    Raises:
        OSError: a part cannot be read, or the device is shorter than its size.
    """
    found: list[int] = []

    def look(offset: int, data: bytes) -> bool:
        if data != _ZEROS[: len(data)]:
            found.append(offset)
        return bool(found)

    _Reading(path, ranges, look).run(progress)
    return found[0] if found else None


def digest(path: str, ranges: Sequence[Range], progress: ReadCallback) -> str:
    """Return a SHA-256 that covers every byte of the ranges; arguments and errors as first_data.

    It covers the digests of the pieces, except pieces of zeros, which are the most frequent ones.
    """
    pieces: dict[int, bytes] = {}

    def look(offset: int, data: bytes) -> bool:
        if data != _ZEROS[: len(data)]:
            pieces[offset] = hashlib.sha256(data).digest()
        return False

    _Reading(path, ranges, look).run(progress)
    hasher = hashlib.sha256(repr(sorted(ranges)).encode())
    for offset in sorted(pieces):
        hasher.update(offset.to_bytes(8, "little") + pieces[offset])
    return hasher.hexdigest()


class _Reading:
    """Reads pieces with several threads. ``look`` gets each piece; True ends the reading."""

    def __init__(
        self, path: str, ranges: Sequence[Range], look: Callable[[int, bytes], bool]
    ) -> None:
        self._path = path
        self._look = look
        self._pieces = _pieces(ranges)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._done = 0

    def run(self, progress: ReadCallback) -> None:
        with ThreadPoolExecutor(_READERS) as pool:
            readers = [pool.submit(self._work) for _ in range(_READERS)]
            try:
                while wait(readers, timeout=_LOOK_SECONDS).not_done:
                    progress(self._done)
            finally:
                self._stop.set()
        for reader in readers:
            reader.result()

    def _work(self) -> None:
        try:
            with _opened(self._path) as fd, mmap.mmap(-1, _PIECE) as buffer:
                while (piece := self._next()) is not None:
                    offset, length = piece
                    if _fill(fd, buffer, offset, length) < length:
                        raise OSError(errno.EIO, "the device ends early", self._path)
                    if self._look(offset, buffer[:length]):
                        self._stop.set()
        except BaseException:
            self._stop.set()  # the other threads end too
            raise

    def _next(self) -> Range | None:
        with self._lock:
            piece = None if self._stop.is_set() else next(self._pieces, None)
            self._done += piece[1] if piece else 0
            return piece


def _aligned(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _pieces(ranges: Sequence[Range]) -> Iterator[Range]:
    for start, length in ranges:
        for offset in range(start, start + length, _PIECE):
            yield offset, min(_PIECE, start + length - offset)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    with ExitStack() as stack:
        try:
            fd = stack.enter_context(descriptor(path, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            fd = stack.enter_context(descriptor(path, os.O_RDONLY))
        yield fd


def _fill(fd: int, buffer: mmap.mmap, offset: int, length: int) -> int:
    """Read at least ``length`` bytes into the buffer; return their number, less at the end."""
    filled, wanted = 0, _aligned(length)
    with memoryview(buffer) as view:
        while filled < wanted:
            count = os.preadv(fd, [view[filled:wanted]], offset + filled)
            if count == 0:
                break
            filled += count
            if count % _ALIGNMENT:  # the end of a regular file
                break
    return filled
