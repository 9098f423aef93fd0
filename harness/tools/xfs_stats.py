"""``/sys/fs/xfs/<device>/stats/stats``: what the garbage collector of a zoned xfs counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import ToolFailed

# Linux 7.0, fs/xfs/xfs_stats.c: "zoned <reads> <writes> <zone resets>" and "gc xpc <bytes>".
_CALLS = "zoned "
_BYTES = "gc xpc "


@dataclass(frozen=True, slots=True)
class Collected:
    """Totals since the mount: pieces read and written, zones reset, bytes written."""

    reads: int
    writes: int
    resets: int
    bytes: int

    @property
    def facts(self) -> Mapping[str, int]:
        """All of them by name."""
        return {
            "gc_read_calls": self.reads,
            "gc_write_calls": self.writes,
            "gc_zone_reset_calls": self.resets,
            "gc_bytes": self.bytes,
        }


def parse(text: str) -> Collected | None:
    """Return the collector's counters, None where the kernel has none of them.

    Raises:
        ToolFailed: one line is there and the other is not, or a line is of another form.
    """
    calls = [line.removeprefix(_CALLS) for line in text.splitlines() if line.startswith(_CALLS)]
    sizes = [line.removeprefix(_BYTES) for line in text.splitlines() if line.startswith(_BYTES)]
    if not calls and not sizes:
        return None
    try:
        (call,), (size,) = calls, sizes
        reads, writes, resets = map(int, call.split())
        return Collected(reads, writes, resets, int(size))
    except ValueError:
        raise ToolFailed(
            f"xfs' statistics have {(calls + sizes)[0]!r}", code="output-malformed"
        ) from None
