"""Counters of the garbage collector of a zoned xfs, in ``/sys/fs/xfs/<device>/stats/stats``."""

from __future__ import annotations

from harness.errors import ToolFailed

# Linux 7.0, fs/xfs/xfs_stats.c: "zoned <reads> <writes> <zone resets>" and "gc xpc <bytes>".
_CALLS = "zoned "
_BYTES = "gc xpc "
# Totals since the mount: pieces read and written, zones reset, bytes written.
COLUMNS = ("gc_read_calls", "gc_write_calls", "gc_zone_reset_calls", "gc_bytes")


def parse(text: str) -> dict[str, int] | None:
    """Return the collector's counters by column, or None if the kernel has none.

    Raises:
        ToolFailed: only one of the two lines is there, or a line is malformed.
    """
    calls = [line.removeprefix(_CALLS) for line in text.splitlines() if line.startswith(_CALLS)]
    sizes = [line.removeprefix(_BYTES) for line in text.splitlines() if line.startswith(_BYTES)]
    if not calls and not sizes:
        return None
    try:
        (call,), (size,) = calls, sizes
        return dict(zip(COLUMNS, map(int, [*call.split(), size]), strict=True))
    except ValueError:
        raise ToolFailed(
            f"xfs' statistics have {(calls + sizes)[0]!r}", code="output-malformed"
        ) from None
