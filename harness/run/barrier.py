"""A barrier: the level is synced, its devices are quiet, and every counter is read and stored."""

from __future__ import annotations

import time
from collections.abc import Mapping

from harness.errors import ToolFailed
from harness.observe import zone_reports
from harness.observe.diskstats import DiskCounters
from harness.run.closures import KERNEL
from harness.run.context import RunContext, RunningLevel
from harness.run.ledger import BarrierSnapshot
from harness.store.files import dumps
from harness.store.ledger import CONTENTS, Requests, Snapshot

# Times the dilation of a modelled drive: a reset takes milliseconds of the drive's clock.
_SETTLE_TRIES = 20
_SETTLE_SECONDS = 0.1
_BARRIER_TRIES = 5


def take(context: RunContext, running: RunningLevel, name: str, cold: int) -> BarrierSnapshot:
    """Sync the level, wait until the devices are quiet, and read every counter.

    Reading takes a while, and a level may write at any time: f2fs collects garbage when it is
    idle. If a device was written to meanwhile, everything is read again.

    The level's tools read from the device, after the counters of the ended phase were read. Their
    reads are recorded, so that they are not counted for the next phase either.

    The files are ``raw/<name>.*``; ``cold`` is the size of the cold data in bytes.
    """
    running.level.sync(running.up)
    for _ in range(_BARRIER_TRIES):
        disks, settled = _settle(context, running)
        if running.recording is not None:
            running.recording.mark(name, context.host.monotonic())
        barrier, after = _read(context, running, name, disks, settled=settled, cold=cold)
        if not settled or _writes(after) == _writes(disks):
            return barrier
    return _read(context, running, name, disks, settled=False, cold=cold)[0]


def _writes(disks: Mapping[str, DiskCounters]) -> dict[str, int]:
    """Return the writes of each device. Reads do not count: the barrier's tools read."""
    return {name: disk.writes for name, disk in disks.items()}


def _settle(context: RunContext, running: RunningLevel) -> tuple[dict[str, DiskCounters], bool]:
    """Wait until the counters stay the same; return them, and whether they did."""
    disks = context.host.disk_counters(running.names)
    for _ in range(_SETTLE_TRIES * running.up.dilation):
        time.sleep(_SETTLE_SECONDS)
        later = context.host.disk_counters(running.names)
        quiet = later == disks and not any(disk.in_flight for disk in later.values())
        disks = later
        if quiet:
            return disks, True
    return disks, False


def _read(
    context: RunContext,
    running: RunningLevel,
    name: str,
    disks: dict[str, DiskCounters],
    *,
    settled: bool,
    cold: int,
) -> tuple[BarrierSnapshot, dict[str, DiskCounters]]:
    """Return the barrier, and the devices' counters after all tools have run."""
    counters = _counters(context, running, disks, settled=settled, cold=cold)
    running.writer.write(f"raw/{name}.counters.json", counters)
    usage = running.level.usage(running.up)
    running.writer.write(f"raw/{name}.usage.json", dumps(usage))
    counts, allocated = None, None
    if running.level.uses_zoned:
        report = context.host.zones(running.device.path)
        running.writer.write(f"raw/{name}.zones.csv", zone_reports.as_csv(report))
        counts = zone_reports.count(report, skip=running.level.metadata_zones)
        allocated = tuple(zone.allocated for zone in report)
    smart = {disk: context.host.smart(disk) for disk in running.names}
    running.writer.write(f"raw/{name}.smart.json", dumps(smart))
    after = context.host.disk_counters(running.names)
    if any(disk.in_flight for disk in after.values()):
        after, _ = _settle(context, running)  # read-ahead can go on after a tool ended
    running.tools.add(disks, after)
    return BarrierSnapshot(counters, usage, allocated, counts), after


def _counters(
    context: RunContext,
    running: RunningLevel,
    disks: Mapping[str, DiskCounters],
    *,
    settled: bool,
    cold: int,
) -> Snapshot:
    trace = running.trace() if running.trace and settled else None
    witness, note = None, ""
    try:
        witness = context.host.witness(running.names)
    except ToolFailed as failure:
        note = failure.message
    media = context.host.media(running.names)
    groups = [group for count in (witness, media) if count for group in count.covers.values()]
    covered = {name for group in groups for name in group}
    every = {**context.host.disk_counters(sorted(covered - set(disks))), **disks}
    return Snapshot(
        settled=settled,
        zoned=running.zoned_name or "",
        conventional=running.conventional_name or "",
        written={name: disk.write_bytes for name, disk in every.items()},
        read={name: disk.read_bytes for name, disk in every.items()},
        busy_ms={name: disk.busy_ms for name, disk in every.items()},
        zeroing=tuple(name for name in sorted(every) if context.host.zeroes(name)),
        witness=witness,
        witness_note=note,
        cold_bytes=cold,
        database_bytes=running.level.database_bytes(running.up),
        trace=trace,
        media=media,
        tools_read={name: running.tools.of(name).read_bytes for name in disks},
        tools_busy_ms={name: running.tools.of(name).busy_ms for name in disks},
        series=running.marks(),
        completions=context.host.completions(running.names),
        requests={name: _requests(running, name, disk) for name, disk in disks.items()},
        counted_by=CONTENTS if running.device.native else KERNEL,
    )


def _requests(running: RunningLevel, name: str, disk: DiskCounters) -> Requests:
    own = disk - running.tools.of(name)
    return Requests(own.reads, own.reads_merged, own.writes, own.writes_merged)
