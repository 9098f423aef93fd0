"""The machine's own numbers at 1 Hz: page cache, pressure, and what db_bench's cgroup takes."""

from __future__ import annotations

from pathlib import Path

from harness.observe.gauges import Gauge, devices_io, fields, pressure

# meminfo tells KiB.
_MEMORY = {"MemAvailable": "available", "Cached": "cached", "Dirty": "dirty",
           "Writeback": "writeback"}  # fmt: skip
_CPU = {"user_usec": "load_user_us", "system_usec": "load_system_us"}
_LOAD_MEMORY = {"anon": "load_anon", "file": "load_cached", "file_dirty": "load_dirty"}


def gauges(proc: Path, load: Path | None) -> list[Gauge]:
    """Return what to read each second; bytes, microseconds, all cumulative but memory.

    Args:
        proc: where /proc is.
        load: db_bench's cgroup, null where cgroups cannot be made. Its memory and I/O are null
            where these controllers are not ours to use.
    """
    found = [fields(proc / "meminfo", _MEMORY, scale=1024)]
    found += [pressure(proc / "pressure" / what, what) for what in ("cpu", "io", "memory")]
    if load is not None:
        found.append(fields(load / "cpu.stat", _CPU))
        found.append(fields(load / "memory.stat", _LOAD_MEMORY))
        found.append(devices_io(load / "io.stat", ("load_read_bytes", "load_written_bytes")))
    return found
