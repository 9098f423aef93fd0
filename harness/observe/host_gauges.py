"""Gauges of the machine: page cache, pressure, and the load of db_bench's cgroup."""

from __future__ import annotations

from pathlib import Path

from harness.observe.gauges import Gauge, devices_io, fields, pressure

# /proc/meminfo, in KiB.
_MEMORY = {
    "MemAvailable": "available",
    "Cached": "cached",
    "Dirty": "dirty",
    "Writeback": "writeback",
}
_CPU = {"user_usec": "load_user_us", "system_usec": "load_system_us"}
_LOAD_MEMORY = {"anon": "load_anon", "file": "load_cached", "file_dirty": "load_dirty"}


def gauges(proc: Path, load: Path | None) -> list[Gauge]:
    """Return the gauges of a host, in bytes and microseconds; all but memory are cumulative.

    Args:
        proc: where /proc is mounted.
        load: cgroup of the load program; None if cgroups cannot be made. Its memory and I/O are
            null where these controllers are not available.
    """
    host = [fields(proc / "meminfo", _MEMORY, scale=1024)]
    host += [pressure(proc / "pressure" / what, what) for what in ("cpu", "io", "memory")]
    if load is not None:
        host.append(fields(load / "cpu.stat", _CPU))
        host.append(fields(load / "memory.stat", _LOAD_MEMORY))
        host.append(devices_io(load / "io.stat", ("load_read_bytes", "load_written_bytes")))
    return host
