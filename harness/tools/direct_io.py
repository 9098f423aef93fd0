"""Test whether O_DIRECT bypasses the page cache: write and read a small file, watch the cache.

A successful open with O_DIRECT proves nothing: f2fs and btrfs silently fall back to buffered I/O
for some files and kernels. Two counters show what really happens:

- writes: ``nr_dirtied`` of /proc/vmstat counts dirtied pages. Direct writes dirty none and leave
  none cached. The cache alone proves nothing, because btrfs drops pages after a buffered write.
- reads: mincore(2) shows the cached pages of the file. Direct reads leave none.

The alignments that the file system claims (STATX_DIOALIGN, Linux 6.1) are recorded as well.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import HostError
from harness.store.spec import Scalar
from harness.tools.kernel import Kernel

NAME = "direct-io-probe"
_PAGE = mmap.PAGESIZE
# Other programs dirty pages too. So the try with the fewest dirtied pages counts. I/O is direct if
# these are less than half of the pages written. If they are twice the pages written, the programs
# dirtied most of them, and the count proves nothing.
_TRIES = 10
_PAUSE = 0.05  # seconds between tries, so that a burst of another program ends
_PAGES = 64

_STATX_DIOALIGN = 0x2000  # linux/stat.h
_AT_EMPTY_PATH = 0x1000
_STATX_SIZE = 256
_MASK_OFFSET, _ALIGN_OFFSET = 0, 0x98  # stx_mask; stx_dio_mem_align, stx_dio_offset_align


@dataclass(frozen=True, slots=True)
class DirectIo:
    """Whether O_DIRECT bypasses the page cache; null: unknown. ``source`` is the evidence."""

    reads: bool | None
    writes: bool | None
    source: str
    facts: Mapping[str, Scalar] = field(default_factory=dict)


def probe(folder: Path, kernel: Kernel) -> DirectIo:
    """Write, read and remove a file of up to 2.5 MiB in ``folder``.

    Raises:
        HostError: the file cannot be written.
    """
    path = folder / NAME
    try:
        return _probe(path, kernel)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}", code="direct-io-probe") from None
    finally:
        path.unlink(missing_ok=True)


def _probe(path: Path, kernel: Kernel) -> DirectIo:
    flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC
    try:
        handle = os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError as error:
        refused = f"open with O_DIRECT: {error.strerror}"
        return DirectIo(False, False, refused)
    try:
        facts: dict[str, Scalar] = dict(_claims(handle))
        try:
            dirtied = _write(handle, kernel)
            kept = _cached(path)
            cached = _read(handle, path)
        except OSError as error:  # open succeeded, but the I/O is refused
            return DirectIo(False, False, f"O_DIRECT: {error.strerror}", facts)
    finally:
        os.close(handle)
    if dirtied is not None:
        facts["dirtied_pages"] = dirtied
    if cached is not None:
        facts["cached_pages"] = cached
    facts |= {"pages": _PAGES, "cached_pages_after_write": kept}
    return DirectIo(
        reads=None if cached is None else cached < _PAGES // 2,
        writes=_writes(dirtied, kept),
        source="a probe file: nr_dirtied of /proc/vmstat (writes), mincore (reads)",
        facts=facts,
    )


def _writes(dirtied: int | None, kept: int) -> bool | None:
    """Return whether writes are direct, from the pages that were dirtied and stayed cached."""
    if kept >= _PAGES // 2:
        return False
    if dirtied is None or dirtied >= 2 * _PAGES:
        return None
    return dirtied < _PAGES // 2


def _write(handle: int, kernel: Kernel) -> int | None:
    """Write a part of the file per try; return the fewest pages that a try dirtied.

    Once a try dirtied few pages, the answer is known.
    """
    fewest: int | None = None
    with mmap.mmap(-1, _PAGES * _PAGE) as buffer:  # anonymous memory is aligned to pages
        buffer.write(os.urandom(_PAGES * _PAGE))
        for number in range(_TRIES):
            before = _dirtied(kernel)
            if os.pwrite(handle, buffer, number * _PAGES * _PAGE) != len(buffer):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            after = _dirtied(kernel)
            os.fsync(handle)
            if before is not None and after is not None:
                fewest = after - before if fewest is None else min(fewest, after - before)
            if fewest is None or fewest < _PAGES // 2:
                break
            time.sleep(_PAUSE)
    return fewest


def _read(handle: int, path: Path) -> int | None:
    """Read the pages of the first try; return how many of them are cached afterwards."""
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    if _cached(path):
        return None  # pages of the write are still cached, so a read proves nothing
    with mmap.mmap(-1, _PAGES * _PAGE) as buffer:
        os.preadv(handle, [buffer], 0)
    return _cached(path)


def _dirtied(kernel: Kernel) -> int | None:
    """Return the pages dirtied since boot, after folding in the kernel's per-CPU counts."""
    try:
        (kernel.root / "proc/sys/vm/stat_refresh").read_bytes()
        text = (kernel.root / "proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return None
    fields = dict(line.split() for line in text.splitlines())
    return int(fields["nr_dirtied"]) if "nr_dirtied" in fields else None


def _cached(path: Path) -> int:
    """Return how many of the file's first pages are in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), _PAGES * _PAGE) as view:
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        present = (ctypes.c_ubyte * _PAGES)()
        code = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(_PAGES * _PAGE), present)
    if code != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(byte & 1 for byte in present)


def _claims(handle: int) -> dict[str, int]:
    """Return the alignments that the file system requires, or {} if it reports none."""
    statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if statx is None:
        return {}
    record = ctypes.create_string_buffer(_STATX_SIZE)
    if statx(handle, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, record) != 0:
        return {}
    (mask,) = struct.unpack_from("=I", record.raw, _MASK_OFFSET)
    if not mask & _STATX_DIOALIGN:
        return {}
    memory, offset = struct.unpack_from("=II", record.raw, _ALIGN_OFFSET)
    return {"dio_mem_align": memory, "dio_offset_align": offset}
