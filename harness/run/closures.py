"""Closures compare two adjacent layers, one function per pair (docs/methods.md, "Closures")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from harness.observe.tracing.zone_history import Traced, traced
from harness.rules.facts import PhaseFacts
from harness.store.ledger import (
    CONTENTS,
    Closure,
    ClosureState,
    OwnCounts,
    Requests,
    Snapshot,
    Witness,
)
from harness.workloads.load_program import BareCounts

# Names of the counters between the level and the device, and of the device's commands.
KERNEL = "kernel"
_DRIVER = {KERNEL: "driver", CONTENTS: "model"}

# F = H holds within 1 % and one quantum of the counter.
_TOLERANCE = 0.01
# If a layer hides its work, its counters must explain all but this share of the bytes.
_OPEN = 0.01

# Benchmarks of db_bench in which each operation writes one key as its own batch.
_ONE_KEY_EACH = frozenset({"fillseq", "fillrandom", "filluniquerandom", "fillsync", "overwrite"})
# Flags that change the size of batches or values.
_ODD_FLAGS = ("batch_size", "value_size_distribution_type", "user_timestamp_size")
# WriteBatch: sequence number and count, 12 B; and per record a tag (db/write_batch.cc).
_BATCH_HEADER, _TAG = 12, 1
# db/log_format.h: a record has a header of 7 B, and another one in each further block of 32 KiB.
# Up to 6 B stay empty at the end of a block, where no header fits.
_LOG_BLOCK, _LOG_HEADER = 32768, 7
_LOG_CROSSING = _LOG_HEADER + _LOG_HEADER - 1


# File systems on conventional devices zero ranges (ext4: its inode tables, after the mount), and
# dm-zoned zeroes the gaps that it leaves in a sequential zone.
_ZEROES = "the kernel counts Write Zeroes as bytes written, for which a device gets no bytes"
_ZEROED = "Write Zeroes"


def exact(upper: str, lower: str, above: int, below: int) -> Closure:
    """Compare two counts of the same bytes."""
    return _between((upper, lower), above, below, (above, above))


def user_to_wal(phase: PhaseFacts) -> Closure:
    """Check that every operation is in the write-ahead log once, as a batch with one record.

    A group of threads is logged as one batch, with one header.
    """
    upper, lower = "user", "RocksDB WAL"
    spec, user, count = phase.spec, phase.user, phase.operations
    known = spec.benchmark in _ONE_KEY_EACH and not any(name in spec.flags for name in _ODD_FLAGS)
    if not known or not phase.wal or user is None or count is None:
        return Closure(upper, lower, ClosureState.UNKNOWN, above=user, below=phase.wal)
    key = int(spec.flags.get("key_size", 16))
    lengths = _varint(key) + _varint(spec.user_bytes_per_operation - key)
    high = user + count * (_BATCH_HEADER + _TAG + lengths)
    low = high - (_BATCH_HEADER * (count - 1) if _threads(phase) > 1 else 0)
    return _between((upper, lower), user, phase.wal, (low, high))


def rocksdb_to_level(phase: PhaseFacts, level: str, payload: Mapping[str, int]) -> list[Closure]:
    """Compare the bytes that RocksDB wrote with the input of the level, by cause.

    Lengths of table files agree to the byte. The WAL's ticker counts records without their headers
    and padding. The log format limits these, except that the beginnings of files are unknown.
    """
    tables = phase.lsm.tables if phase.lsm else None
    by_cause = {"flush": tables.flush, "compaction": tables.compaction} if tables else {}
    found = []
    for cause in ("flush", "compaction"):
        names = (f"RocksDB {cause}", f"{level} {cause}")
        above, below = by_cause.get(cause), payload.get(cause)
        if above is None or below is None:
            found.append(Closure(*names, ClosureState.UNKNOWN, above=above, below=below))
        else:
            found.append(exact(*names, above, below))
    return [_wal(phase, level, payload.get("wal")), *found]


def hidden(upper: str, lower: str, above: int | None, below: int, *, gc: int | None) -> Closure:
    """Compare the counts above and below a layer that does not count all of its work.

    A difference is explained or unexplained. It is negative if files were deleted before the page
    cache wrote them back.
    """
    if above is None:
        return Closure(upper, lower, ClosureState.UNKNOWN, below=below)
    explained = {"gc": gc} if gc is not None else {}
    left = below - above - sum(explained.values())
    state = ClosureState.EXPLAINED if abs(left) <= _OPEN * below else ClosureState.UNEXPLAINED
    note = "the page cache dropped files before it wrote them back" if left < 0 else ""
    return Closure(
        upper,
        lower,
        state,
        above=above,
        below=below,
        explained=explained,
        unexplained=left,
        note=note,
    )


def accepted(before: Snapshot, after: Snapshot) -> dict[str, int]:
    """Return the bytes that devices accepted; {} without a witness at both ends."""
    return _gained(before.witness, after.witness)


def media(before: Snapshot, after: Snapshot) -> dict[str, int]:
    """Return the bytes that drives wrote to their media; {} if unknown.

    A drive counts for all its namespaces, so a write to another namespace makes them unknown.
    """
    found, last = _gained(before.media, after.media), after.media
    if not found or last is None:
        return {}  # without a count, writes to other namespaces are unknown too
    others = {disk for group in last.covers.values() for disk in group} - set(after.used)
    return {} if any(after.written[disk] != before.written[disk] for disk in others) else found


def _gained(first: Witness | None, last: Witness | None) -> dict[str, int]:
    if first is None or last is None or first.covers != last.covers:
        return {}
    return {name: last.accepted[name] - first.accepted[name] for name in last.accepted}


def kernel_to_driver(before: Snapshot, after: Snapshot) -> list[Closure]:
    """Compare the kernel's count with the bytes in commands to the driver."""
    seen = traced(before, after)
    if seen is None or not seen.complete:
        return []  # a rule reports a missing tracer
    return [
        exact(
            f"{after.counted_by} {name}",
            f"{_DRIVER[after.counted_by]} {name}",
            after.written[name] - before.written[name],
            seen.submitted(name),
        )
        for name in (seen.zoned, seen.conventional)
        if name is not None
    ]


def level_to_driver(
    level: str, own: OwnCounts | None, before: Snapshot, after: Snapshot
) -> list[Closure]:
    """Compare the level's count of finishes and resets with the commands to the driver."""
    seen = traced(before, after)
    if own is None or seen is None or seen.zoned is None or not seen.complete:
        return []
    finishes, resets = seen.done(seen.zoned, "finish"), seen.done(seen.zoned, "reset", "reset-all")
    driver = _DRIVER[after.counted_by]
    return [
        replace(exact(f"{level} finishes", f"{driver} finishes", own.finishes, finishes), unit="1"),
        replace(exact(f"{level} resets", f"{driver} resets", own.resets, resets), unit="1"),
        exact(f"{level} pad", f"{driver} pad", sum(own.given_up.values()), sum(seen.pad.values())),
    ]


def program_to_kernel(
    name: str, counts: BareCounts, before: Snapshot, after: Snapshot
) -> list[Closure]:
    """Compare the count of a program without a database with the kernel's: bytes and commands.

    The kernel can merge a command into another one. It counts the merge, but one completion only.
    """
    read = sum(after.read_for_run(disk) - before.read_for_run(disk) for disk in after.used)
    written = sum(after.written[disk] - before.written[disk] for disk in after.used)
    asked = _requests_between(before, after)
    return [
        exact(name, KERNEL, counts.written, written),
        exact(f"{name} reads", f"{KERNEL} reads", counts.read, read),
        *(
            _merged((f"{name} {way} commands", f"{KERNEL} {way} requests"), *numbers)
            for way, *numbers in (
                ("write", counts.writes + counts.resets, asked.writes, asked.writes_merged),
                ("read", counts.reads, asked.reads, asked.reads_merged),
            )
        ),
    ]


def _merged(names: tuple[str, str], above: int, below: int, merged: int) -> Closure:
    """Compare commands with completed requests plus the commands that the kernel merged."""
    one = _between(names, above, below, (above - merged, above - merged))
    return replace(one, unit="1", explained={"merged": -merged} if merged else {})


def commands_to_driver(
    name: str, counts: BareCounts, before: Snapshot, after: Snapshot
) -> list[Closure]:
    """Compare requests of the kernel, and resets of a program, with the commands to the driver."""
    seen, asked = traced(before, after), _requests_between(before, after)
    if seen is None or not seen.complete:
        return []  # a rule reports a missing tracer
    sent = sum(map(seen.attempted, after.used))
    found = [exact(f"{KERNEL} write requests", "driver write commands", asked.writes, sent)]
    if seen.zoned is not None:
        resets = seen.done(seen.zoned, "reset", "reset-all")
        found.append(exact(f"{name} resets", "driver resets", counts.resets, resets))
    return [replace(one, unit="1") for one in found]


def reads_to_device(before: Snapshot, after: Snapshot) -> list[Closure]:
    """Compare the bytes that the kernel read with those that devices returned, to the byte.

    Both counts include the reads of the barriers' tools.
    """
    first, last = before.witness, after.witness
    if first is None or last is None or not (before.settled and after.settled):
        return []
    return [
        exact(
            f"{after.counted_by} reads {name}",
            f"device reads {name}",
            sum(after.read[disk] - before.read[disk] for disk in last.covers[name]),
            last.read[name] - first.read[name],
        )
        for name in last.read
        if name in first.read and first.covers[name] == last.covers[name]
    ]


def _requests_between(before: Snapshot, after: Snapshot) -> Requests:
    """Return the requests to the devices of a level between two barriers."""
    pairs = [(before.requests[disk], after.requests[disk]) for disk in after.used]
    names = [field.name for field in fields(Requests)]
    grown = [[getattr(last, n) - getattr(first, n) for first, last in pairs] for n in names]
    return Requests(*map(sum, grown))


def kernel_to_device(before: Snapshot, after: Snapshot) -> list[Closure]:
    """Compare the submitted bytes with the bytes that devices accepted: F = H."""
    counts, witness = accepted(before, after), after.witness
    if not counts or witness is None:
        why = after.witness_note or before.witness_note or "nobody counts behind the kernel"
        return [Closure(KERNEL, "device", ClosureState.UNKNOWN, note=why)]
    return [_to_device(name, witness, below, before, after) for name, below in counts.items()]


def _to_device(
    name: str, witness: Witness, below: int, before: Snapshot, after: Snapshot
) -> Closure:
    covered = witness.covers[name]
    moved = {disk: after.written[disk] - before.written[disk] for disk in covered}
    above = sum(moved.values())
    names = (f"{after.counted_by} {name}", f"device {name}")
    if not (before.settled and after.settled):
        note = "counters never settled"
        return Closure(*names, ClosureState.UNKNOWN, above=above, below=below, note=note)
    zeroes = _zeroes(traced(before, after), [disk for disk, count in moved.items() if count])
    room, carried = int(above * _TOLERANCE) + witness.quantum, above - zeroes
    one = _between(names, carried, below, (carried - room, carried + room), close=True)
    if zeroes:
        return replace(one, above=above, explained={_ZEROED: -zeroes}, note=_ZEROES)
    if one.state is ClosureState.BROKEN and below < above and set(covered) & set(after.zeroing):
        state, left = ClosureState.UNEXPLAINED, below - above
        return replace(one, state=state, unexplained=left, note=_ZEROES)
    return one


def _zeroes(seen: Traced | None, disks: Sequence[str]) -> int:
    """Return the bytes of Write Zeroes to these disks; 0 unless all commands are known."""
    if seen is None or not seen.complete or not set(disks) <= {seen.zoned, seen.conventional}:
        return 0
    return sum(map(seen.zeroed, disks))


def _wal(phase: PhaseFacts, level: str, below: int | None) -> Closure:
    names = ("RocksDB WAL", f"{level} wal")
    above, records = phase.wal, phase.ticker("rocksdb.write.wal")
    recycled = bool(phase.spec.flags.get("recycle_log_file_num"))  # longer headers
    if above is None or records is None or below is None or recycled:
        return Closure(*names, ClosureState.UNKNOWN, above=above, below=below)
    framing = records * _LOG_HEADER
    # Threads that are logged as a group share a record.
    low = above + (framing if _threads(phase) == 1 else 0)
    high = above + framing + below // _LOG_BLOCK * _LOG_CROSSING
    return _between(names, above, below, (low, high))


def _threads(phase: PhaseFacts) -> int:
    """Return the number of writing threads of db_bench."""
    return int(phase.spec.flags.get("threads", 1))


def _between(
    names: tuple[str, str], above: int, below: int, bounds: tuple[int, int], *, close: bool = False
) -> Closure:
    """Compare two counts. ``close``: within the bounds they are close, not exact."""
    low, high = bounds
    if not low <= below <= high:
        state = ClosureState.BROKEN
    elif close and above != below:
        state = ClosureState.CLOSED
    else:
        state = ClosureState.EXACT
    return Closure(*names, state, above=above, below=below, low=low, high=high)


def _varint(value: int) -> int:
    """Return the length of a number in bytes of seven bits each (util/coding.h)."""
    return max(1, -(-value.bit_length() // 7))
