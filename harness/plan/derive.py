"""Sizes of the database, its files and the cold data, as functions of the zone *capacity*.

All sizes are derived and checked while planning, before anything on the device is overwritten.
docs/studies.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import ConfigError
from harness.plan.operation_counts import most_keys
from harness.plan.workload_models import Workload
from harness.quantities import format_size
from harness.store.spec import Device
from harness.workloads.planning import DerivedNumbers, flag_number

MIB = 2**20

# Granularity of file sizes: O_DIRECT and every level accept 4 KiB.
PAGE = 4096

# Upstream's defaults for flags that a workload does not set (db_bench --help).
_L0_STOP_DEFAULT = 36
_MEMTABLES_DEFAULT = 2

# The share of the capacity that can be used: f2fs is full at 96 % of 384 small zones and btrfs at
# 98 %, and garbage collection needs a few free zones.
USABLE_SHARE = 0.95
DOES_NOT_FIT = "does-not-fit"


@dataclass(frozen=True, slots=True)
class Derived:
    """Numbers that follow from the device. ``formulas`` explains each of them to the user."""

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

    @property
    def numbers(self) -> DerivedNumbers:
        """Each number with its formula."""
        return {name: (getattr(self, name), why) for name, why in self.formulas.items()}


def file_size(workload: Workload, device: Device) -> int:
    """Return ``target_file_size_base`` in bytes, the same on every level of a device.

    Without zones, ``largest_file`` takes the place of the zone capacity.
    """
    usable = (device.zone_capacity or workload.largest_file) * workload.zone_fill
    parts = max(workload.files_per_zone, math.ceil(usable / workload.largest_file))
    return max(PAGE, int(usable / parts) // PAGE * PAGE)


def entry_size(workload: Workload) -> int:
    """Return the stored bytes of one key and its value, after compression."""
    ratio = 1.0
    if workload.flags.get("compression_type", "snappy") != "none":  # upstream's default: snappy
        ratio = flag_number(workload.flags, "compression_ratio", 0.5)
    return workload.key_size + max(1, round(workload.value_size * ratio))


def derive(workload: Workload, device: Device, target: float, *, cold: bool) -> Derived:
    """Size the database, its files and the cold data, and check that they fit the device.

    ``target`` is the wanted utilisation as a share of the capacity.

    Raises:
        ConfigError: the data does not fit; the message has the arithmetic.
    """
    derived = measure(workload, device, target, cold=cold)
    check_fits(workload, device, derived)
    return derived


def measure(workload: Workload, device: Device, target: float, *, cold: bool) -> Derived:
    """Size the data as ``derive`` does, without checking the room for overwrites.

    Raises:
        ConfigError: no key fits, a file is larger than a zone, or the target is too low.
    """
    capacity = device.capacity
    share = workload.database_share if cold else target
    entry = entry_size(workload)
    keys = int(share * capacity / (entry * workload.fill_share))
    if keys < 1:
        raise ConfigError(
            f"no key of {entry} B fits into {share:.1%} of {format_size(capacity)}",
            hint="raise database_share or lower value_size",
            code="no-keys",
        )
    sst = _flag_or(workload, "target_file_size_base", file_size(workload, device))
    buffer = _flag_or(workload, "write_buffer_size", int(sst * workload.write_buffers_per_file))
    base = _flag_or(
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
            "target_file_size_base": f"zone capacity x {workload.zone_fill:g} in "
            f"{workload.files_per_zone} or more equal parts of at most "
            f"{format_size(workload.largest_file)}",
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


def _peak(workload: Workload, all_keys: int, buffer: int, base: int) -> int:
    """Return the largest size of the database while it is overwritten.

    ``peak_share`` covers all keys and their old versions in the sorted levels. Beside them
    there are the WAL of the memtables and the level-0 files until writes stop. One compaction of
    level 0 writes its output while its inputs still exist.
    """
    level0 = int(flag_number(workload.flags, "level0_stop_writes_trigger", _L0_STOP_DEFAULT))
    memtables = int(flag_number(workload.flags, "max_write_buffer_number", _MEMTABLES_DEFAULT))
    return int(all_keys * workload.peak_share) + (memtables + level0) * buffer + base


def _check(device: Device, derived: Derived, target: float) -> None:
    capacity = device.capacity
    if derived.cold_bytes < 0:
        raise ConfigError(
            f"the target of {target:.0%} of {format_size(capacity)} is less than the database: "
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
        ConfigError: cold data and the database at its peak exceed the usable capacity; the message
            has the arithmetic.
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
            code="does-not-fit",
        )


def _flag_or(workload: Workload, name: str, derived: int) -> int:
    """Return a size that the workload or a factor sets, otherwise the derived one."""
    return int(flag_number(workload.flags, name, derived, least=1))
