"""From a workload and a device to concrete phases: pure functions of zone *capacity*.

Every number a run is given, and every refusal, is made here before anything is destroyed. The
formulas are written out in docs/studies.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.plan.models import FRESH, WRITES, Flag, Mix, Phase, Workload
from harness.plan.units import LARGEST, format_size
from harness.store.spec import Bytes, ColdSpec, Device, PhaseRole, PhaseSpec
from harness.tools import kvmix as tool
from harness.workloads import db_bench, kvmix

MIB = 2**20

# fillrandom draws N keys out of N with replacement: 1 - 1/e of them are hit at least once.
DISTINCT_AFTER_FILLRANDOM = 1 - 1 / math.e

# Files are cut and placed in pages; O_DIRECT and every level here are happy with 4 KiB.
PAGE = 4096

# Upstream's defaults, used where a workload does not set the flag (db_bench --help).
_L0_STOP_DEFAULT = 36
_MEMTABLES_DEFAULT = 2

# A larger share of the capacity than this cannot be used: f2fs is full at 96 % of 384 small
# zones and btrfs at 98 % (docs/studies.md), and garbage collection needs a few free zones.
USABLE_SHARE = 0.95
DOES_NOT_FIT = "does-not-fit"


@dataclass(frozen=True, slots=True)
class Derived:
    """Numbers that follow from the device. ``formulas`` says how, for people to read."""

    keys: int
    entry_bytes: int
    target_file_size_base: int
    write_buffer_size: int
    max_bytes_for_level_base: int
    compaction_debt_bytes: int
    database_bytes: int
    peak_bytes: int
    cold_bytes: int
    free_bytes: int
    formulas: Mapping[str, str]


def file_size(workload: Workload, device: Device) -> int:
    """Return ``target_file_size_base`` in bytes, the same on every level of a device.

    On a conventional device without zones, ``largest_file`` alone decides.
    """
    usable = (device.zone_capacity or workload.largest_file) * workload.zone_fill
    parts = max(1, math.ceil(usable / workload.largest_file))
    return max(PAGE, int(usable / parts) // PAGE * PAGE)


def entry_size(workload: Workload) -> int:
    """Return the stored bytes of one key and its value, compressed if the workload compresses."""
    ratio = 1.0
    if workload.flags.get("compression_type", "snappy") != "none":  # upstream's default: snappy
        ratio = _number(workload.flags, "compression_ratio", 0.5)
    return workload.key_size + max(1, round(workload.value_size * ratio))


def derive(workload: Workload, device: Device, target: float, *, cold: bool) -> Derived:
    """Size the database, its files and the cold data for a device that can hold them.

    ``target`` is the wanted utilisation, a share of the capacity.

    Raises:
        ConfigError: the result cannot fit, with the arithmetic in the message.
    """
    derived = measure(workload, device, target, cold=cold)
    check_fits(workload, device, derived)
    return derived


def measure(workload: Workload, device: Device, target: float, *, cold: bool) -> Derived:
    """Return the same without asking whether the database has room while it is overwritten.

    Raises:
        ConfigError: not one key fits, or a file or the target cannot be.
    """
    capacity = device.capacity
    share = workload.database_share if cold else target
    entry = entry_size(workload)
    keys = int(share * capacity / (entry * workload.fill_share))
    if keys < 1:
        raise ConfigError(
            f"not one key of {entry} B fits {share:.1%} of {format_size(capacity)}",
            hint="raise database_share or lower value_size",
            code="no-keys",
        )
    sst = _flag(workload, "target_file_size_base", file_size(workload, device))
    buffer = _flag(workload, "write_buffer_size", int(sst * workload.write_buffers_per_file))
    base = _flag(
        workload, "max_bytes_for_level_base", int(buffer * workload.level_base_in_write_buffers)
    )
    database = int(keys * entry * workload.fill_share)
    cold_bytes = int(target * capacity) // MIB * MIB - -(-database // MIB) * MIB if cold else 0
    free = capacity - cold_bytes - database
    most = most_keys(workload, keys, free)
    derived = Derived(
        keys=keys,
        entry_bytes=entry,
        target_file_size_base=sst,
        write_buffer_size=buffer,
        max_bytes_for_level_base=base,
        compaction_debt_bytes=max(MIB, int(workload.compaction_debt * capacity)),
        database_bytes=database,
        peak_bytes=_peak(workload, most * entry, buffer, base),
        cold_bytes=cold_bytes,
        free_bytes=free,
        formulas={
            "keys": f"{share:.3g} x capacity / (entry x fill_share {workload.fill_share:g})",
            "entry_bytes": "key_size + value_size after compression",
            "target_file_size_base": f"zone capacity x {workload.zone_fill:g} in equal parts of at "
            f"most {format_size(workload.largest_file)}",
            "write_buffer_size": f"target_file_size_base x {workload.write_buffers_per_file:g}",
            "max_bytes_for_level_base": "write_buffer_size x "
            f"{workload.level_base_in_write_buffers:g}",
            "compaction_debt_bytes": f"capacity x {workload.compaction_debt:g}",
            "database_bytes": "keys x entry x fill_share, after the first fill",
            "peak_bytes": "most keys x entry x peak_share + (memtables + level-0 files) x write "
            "buffer + one level-0 compaction",
            "cold_bytes": f"{target:g} x capacity - database" if cold else "none: no cold data",
            "free_bytes": "capacity - cold - database",
        },
    )
    _check(device, derived, target)
    return derived


def most_keys(workload: Workload, keys: int, free_bytes: int) -> int:
    """Return the largest number of keys that mixes make of it; of db_bench ``keys``.

    Their growth on average: it varies by about the root of the number of operations.
    """
    most = there = keys
    for phase in workload.phases:
        if phase.mix is None or phase.role == "fill":
            continue
        count = _count(phase, keys, free_bytes, workload) or 0
        there += round(phase.mix.growth * count)
        most = max(most, there)
    return most


def _peak(workload: Workload, all_keys: int, buffer: int, base: int) -> int:
    """Return the largest size of the database while it is overwritten.

    ``peak_share`` covers all keys and their old versions in the sorted levels; on top come the
    memtables' WAL, level-0 files until writes stop, and one rewrite of level 0 into level 1 while
    its inputs still exist.
    """
    level0 = int(_number(workload.flags, "level0_stop_writes_trigger", _L0_STOP_DEFAULT))
    memtables = int(_number(workload.flags, "max_write_buffer_number", _MEMTABLES_DEFAULT))
    return int(all_keys * workload.peak_share) + (memtables + level0) * buffer + base


def _check(device: Device, derived: Derived, target: float) -> None:
    capacity = device.capacity
    if derived.cold_bytes < 0:
        raise ConfigError(
            f"utilisation {target:.0%} of {format_size(capacity)} is less than the database alone: "
            f"{format_size(derived.database_bytes)}",
            hint="raise target_utilisation or lower database_share",
            code="utilisation-impossible",
        )
    limit = device.zone_capacity
    if limit is not None and derived.target_file_size_base > limit:
        raise ConfigError(
            f"target_file_size_base {format_size(derived.target_file_size_base)} is larger than a "
            f"zone's capacity of {format_size(limit)}",
            hint="lower largest_file, or leave target_file_size_base to the planner",
            code="sst-too-large",
        )


def check_fits(workload: Workload, device: Device, derived: Derived) -> None:
    """Refuse data that the capacity cannot hold.

    Raises:
        ConfigError: cold data and the largest database need more than is usable, with the
            arithmetic in the message.
    """
    capacity = device.capacity
    usable = int(capacity * USABLE_SHARE)
    left = usable - derived.cold_bytes
    if derived.peak_bytes > left:
        raise ConfigError(
            f"the database of {workload.name} needs up to {format_size(derived.peak_bytes)} "
            f"(peak), but {USABLE_SHARE:.0%} of {format_size(capacity)} capacity minus "
            f"{format_size(derived.cold_bytes)} of cold data leaves {format_size(left)}",
            hint="lower database_share or target_utilisation, or use a larger device",
            code=DOES_NOT_FIT,
        )


def cold_spec(derived: Derived, target: float, tolerance: float) -> ColdSpec:
    """Return what the runner is told about utilisation (0 bytes: measure it, fill nothing)."""
    return ColdSpec(target, tolerance, Bytes(derived.cold_bytes))


def phase_spec(workload: Workload, phase: Phase, derived: Derived) -> PhaseSpec:
    """Return one phase with its operations counted; its timeout is still the floor.

    Raises:
        ConfigError: readseq asks for more entries than the database surely holds, or a flag is
            out of range or zonelab's own.
    """
    _check_flags(workload, phase)
    if phase.mix is not None:
        return _mix_spec(workload, phase, phase.mix, derived)
    threads = int(_number(workload.flags | phase.flags, "threads", 1, least=1))
    payload = workload.key_size + workload.value_size if phase.benchmark in WRITES else 0
    total = _operations(phase, derived, workload)
    per_thread = None if total is None else max(1, math.ceil(total / threads))
    flags: dict[str, Flag] = {
        **_sizes(workload, derived),
        "num": derived.keys,
        **workload.flags,
        **phase.flags,
    }
    if per_thread is None:
        flags["duration"] = phase.operations.duration or 0
    else:
        # --num is the key space for every phase; --writes and --reads count per thread.
        flags["writes" if payload else "reads"] = per_thread
    return PhaseSpec(
        name=phase.name,
        benchmark=phase.benchmark or "",
        role=PhaseRole(phase.role),
        flags=flags,
        operations=None if per_thread is None else per_thread * threads,
        user_bytes_per_operation=payload,
        expects_gc=phase.expects_gc,
        timeout_seconds=phase.timeout,
        stall_seconds=phase.stall_timeout,
    )


def _sizes(workload: Workload, derived: Derived) -> dict[str, Flag]:
    """Return the sizes that follow from the device, as flags of either program."""
    return {
        "key_size": workload.key_size,
        "value_size": workload.value_size,
        "write_buffer_size": derived.write_buffer_size,
        "target_file_size_base": derived.target_file_size_base,
        "max_bytes_for_level_base": derived.max_bytes_for_level_base,
        "soft_pending_compaction_bytes_limit": derived.compaction_debt_bytes // 2,
        "hard_pending_compaction_bytes_limit": derived.compaction_debt_bytes,
    }


def _check_flags(workload: Workload, phase: Phase) -> None:
    given = (workload.flags | phase.flags).keys()
    taken = sorted((kvmix.RESERVED if phase.mix else db_bench.RESERVED) & given)
    if taken:
        raise ConfigError(
            f"phase {phase.name} sets --{taken[0]}, which zonelab sets itself",
            hint="remove it from the workload's flags", code="reserved-flag",
        )  # fmt: skip
    unknown = sorted(given - tool.DATABASE_FLAGS - tool.MIX_FLAGS) if phase.mix else ()
    if unknown:
        raise ConfigError(
            f"phase {phase.name} sets --{unknown[0]}, which kvmix does not know",
            hint="kvmix run --help lists its flags", code="unknown-flag",
        )  # fmt: skip


def _mix_spec(workload: Workload, phase: Phase, mix: Mix, derived: Derived) -> PhaseSpec:
    """Return a phase of kvmix. All phases of a run must agree on ``key_space`` and ``threads``."""
    if "threads" in phase.flags:
        raise ConfigError(
            f"phase {phase.name} sets threads: each has a part of the keys, the same in all phases",
            hint="set threads in the workload's flags", code="flag-of-workload",
        )  # fmt: skip
    counts = [_operations(one, derived, workload) or 0 for one in workload.phases]
    inserts = [
        count if one.mix and one.mix.insert else 0
        for one, count in zip(workload.phases, counts, strict=True)
    ]
    before = workload.phases.index(phase)
    count = _operations(phase, derived, workload)
    chosen: dict[str, Flag] = mix.model_dump(exclude_none=True, exclude_defaults=True)
    flags: dict[str, Flag] = {
        **_sizes(workload, derived),
        **workload.flags,
        **phase.flags,
        **chosen,
        "existing": sum(inserts[:before]),
        "key_space": sum(inserts),
    }
    if count is None:
        flags["duration"] = phase.operations.duration or 0
    else:
        flags["operations"] = count
    return PhaseSpec(
        name=phase.name,
        benchmark="mix",
        role=PhaseRole(phase.role),
        flags=flags,
        operations=count,
        user_bytes_per_operation=round(mix.payload(workload.key_size, workload.value_size)),
        expects_gc=phase.expects_gc,
        timeout_seconds=phase.timeout,
        stall_seconds=phase.stall_timeout,
        program=tool.PROGRAM,
    )


def _operations(phase: Phase, derived: Derived, workload: Workload) -> int | None:
    count = _count(phase, derived.keys, derived.free_bytes, workload)
    if phase.benchmark == "readseq" and count is not None:
        _check_readseq(phase, count, derived, workload)
    return count


def _count(phase: Phase, keys: int, free_bytes: int, workload: Workload) -> int | None:
    """Return the number of operations of a phase; None: its time is limited."""
    rule = phase.operations
    if rule.duration is not None:
        return None
    if rule.keys is not None:
        count = math.ceil(rule.keys * keys)
    elif rule.free_space is not None:
        whole = float(workload.key_size + workload.value_size)
        payload = phase.mix.payload(workload.key_size, workload.value_size) if phase.mix else whole
        if payload <= 0:
            raise ConfigError(
                f"phase {phase.name} writes nothing: free_space gives no number of operations",
                hint="use keys, count or duration", code="no-payload",
            )  # fmt: skip
        count = math.ceil(rule.free_space * free_bytes / payload)
    else:
        count = rule.count or 0
    return count if rule.at_most is None else min(count, rule.at_most)


def _check_readseq(phase: Phase, count: int, derived: Derived, workload: Workload) -> None:
    """Refuse too long a readseq: it ends at the last entry."""
    fills = [p.benchmark for p in workload.phases if p.benchmark in FRESH]
    share = DISTINCT_AFTER_FILLRANDOM if fills[-1:] == ["fillrandom"] else 1.0
    # 1 % below: the number of distinct random keys varies by far less for any N that is used.
    sure = int(derived.keys * share * (0.99 if share < 1 else 1.0))
    if count > sure:
        raise ConfigError(
            f"phase {phase.name} reads {count} entries, the database surely holds {sure}",
            hint=f"set its operations to keys: {math.floor(share * 99) / 100}",
            code="too-many-reads",
        )


def _number(flags: Mapping[str, Flag], name: str, default: float, *, least: int = 0) -> float:
    value = flags.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(
            f"flag {name} must be a number, got {value!r}",
            hint="sizes are plain bytes in flags", code="flag-type",
        )  # fmt: skip
    if not least <= value < LARGEST:
        raise ConfigError(
            f"flag {name} is out of range: {str(value)[:40]}", hint=f"{least} or more, below 2**63",
            code="flag-range",
        )  # fmt: skip
    return float(value)


def _flag(workload: Workload, name: str, derived: int) -> int:
    """Return a size that the workload (or a factor) sets itself, else the derived one."""
    return int(_number(workload.flags, name, derived, least=1))
