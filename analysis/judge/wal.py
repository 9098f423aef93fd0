"""Checks that similar shares of the write-ahead log's bytes reached the devices on both sides.

A log that is not synced can stay in a file system's page cache until it is deleted. The level then
writes less, and would lose more in a crash. zlfs and zenfs write all of it.
"""

from __future__ import annotations

from analysis.judge.side import Side
from analysis.read.load import RunRecord
from harness.metrics.catalogue import MetricInfo, MetricKind

# The largest accepted difference between the shares of the log that reached the devices.
MARGIN = 0.10


def unlike(key: str, info: MetricInfo, base: Side, level: Side) -> str | None:
    """Return why a metric cannot be compared; None if it can, or if the bytes were not counted."""
    if not _contains(info):
        return None
    for name in _phases(key, base, level):
        left, right = (side.mean(reached, name) for side in (base, level))
        if left is not None and right is not None and abs(left - right) > MARGIN:
            shares = f"{left:.0%} of {base.name}'s WAL", f"{right:.0%} of {level.name}'s"
            return " reached the devices, ".join(shares)
    return None


def uncounted(key: str, info: MetricInfo, base: Side, level: Side) -> str | None:
    """Return a warning if levels differ and an unsynced log was not counted."""
    sides = (base, level)
    if not _contains(info) or len({name for side in sides for name in side.levels}) == 1:
        return None
    if not any(
        any(side.once(_any_logs, phase) for side in sides)
        and any(side.mean(reached, phase) is None for side in sides)
        for phase in _phases(key, base, level)
    ):
        return None
    return "WAL not synced, its bytes not counted: one side may have kept it in its page cache"


def reached(run: RunRecord, phase: str) -> float | None:
    """Return an upper bound of the WAL's share that reached the devices, 0 to 1.

    (H - gc - Lf - Lc) / Lw, clamped because H includes the level's metadata. None without a WAL, or
    if a term was not counted. A level without garbage collection has no gc.
    """
    device, wal, flush, compaction, gc = (
        run.value(f"{phase}.{name}")
        for name in ("device_written", "wal_bytes", "flush_bytes", "compaction_bytes", "gc_bytes")
    )
    if device is None or not wal or flush is None or compaction is None:
        return None
    return min(1.0, max(0.0, (device - (gc or 0) - flush - compaction) / wal))


def _contains(info: MetricInfo) -> bool:
    return info.kind is MetricKind.TIME or info.includes_wal


def _logs(run: RunRecord, phase: str) -> bool:
    """Return whether a phase writes a log without syncing it."""
    for spec in run.spec.phases:
        flags = spec.flags
        if spec.name == phase and spec.user_bytes_per_operation and "disable_wal" in flags:
            return not flags["disable_wal"] and not flags.get("sync", False)
    return False


def _any_logs(side: Side, phase: str) -> bool:
    return any(_logs(run, phase) for run in side.ok)


def _phases(key: str, base: Side, level: Side) -> list[str]:
    """Return the phase of a metric; if it is of the whole run, all phases that write."""
    phase = key.rpartition(".")[0]
    if phase != "run":
        return [phase]
    return list(dict.fromkeys([*base.once(_writing), *level.once(_writing)]))


def _writing(side: Side) -> list[str]:
    """Return the names of the phases that write user data, of those that any run began."""
    begun = (spec for run in side.runs for spec in run.result.begun(run.spec.phases))
    return [spec.name for spec in begun if spec.user_bytes_per_operation]
