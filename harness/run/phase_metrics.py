"""Metrics of one phase, computed from its facts."""

from __future__ import annotations

from harness.nulls import ratio
from harness.observe import threads
from harness.rules.facts import PhaseFacts
from harness.store.result import Metric, catalogued
from harness.store.spec import PhaseSpec
from harness.tools.rocksdb_log import Log
from harness.workloads import load_program, rocksdb
from harness.workloads.load_program import Parsed
from harness.workloads.rocksdb import Below, MetricValue

_ZONES = ("zone_resets", "reset_rate", "zone_finishes", "zone_opens", "zone_closes", "appended")
# The metrics of a phase that need neither its program nor device counters.
_WITHOUT_DEVICES = ("cpu_seconds", "cpu_per_operation")


def metrics(facts: PhaseFacts) -> dict[str, Metric]:
    """Return ``<phase>.<metric>`` for everything known about a phase; unknown values are null."""
    disks = [disk for disk in (facts.zoned, facts.conventional) if disk]
    zoned = facts.zoned.write_bytes if facts.zoned else None
    total = facts.below.written
    values = program_metrics(facts.spec, facts.parsed, facts.lsm, facts.below)
    user, operations = (
        values[name].value if name in values else None for name in ("user_bytes", "operations")
    )
    spent = facts.load_seconds
    more: dict[str, MetricValue] = {
        "zoned_written": zoned,
        "conventional_written": facts.conventional.write_bytes if facts.conventional else None,
        "device_written": total,
        "device_read": sum(disk.read_bytes for disk in disks) if disks else None,
        "write_amplification": ratio(total, user),
        "zoned_share": ratio(zoned, total),
        "gc_bytes": facts.gc_bytes,
        "gc_seconds": facts.gc_seconds,
        "gc_events": facts.gc_events,
        "on_time_share": facts.completed.on_time_share if facts.completed else None,
        "late_share": facts.completed.late_share if facts.completed else None,
        "zones_full": facts.zones.full if facts.zones else None,
        "zones_active": facts.zones.active if facts.zones else None,
        "device_busy_share": (
            max(disk.busy_ms for disk in disks) / (1000 * facts.seconds)
            if disks and facts.seconds
            else None
        ),
        "merged_share": ratio(
            sum(disk.writes_merged for disk in disks),
            sum(disk.writes + disk.writes_merged for disk in disks),
        ),
        "cpu_seconds": spent,
        "busy_cpus": ratio(facts.busy_seconds, facts.seconds),
        "flush_cpu_share": _cpu_share(facts, threads.FLUSH),
        "compaction_cpu_share": _cpu_share(facts, threads.COMPACTION),
        "cpu_per_operation": 1e6 * spent / operations if operations and spent is not None else None,
        "instructions": facts.load_instructions,
        "instructions_per_operation": ratio(facts.load_instructions, operations),
        **_zone_commands(facts),
    }
    values |= catalogued(more)
    return {f"{facts.spec.name}.{name}": value for name, value in values.items()}


def metrics_without_devices(facts: PhaseFacts) -> dict[str, Metric]:
    """Return the metrics that stay valid when other tenants use the same devices."""
    name = facts.spec.name
    program = program_metrics(facts.spec, facts.parsed, facts.lsm, Below())
    every = metrics(facts)
    return {f"{name}.{key}": metric for key, metric in program.items()} | {
        f"{name}.{key}": every[f"{name}.{key}"] for key in _WITHOUT_DEVICES
    }


def program_metrics(
    spec: PhaseSpec, parsed: Parsed | None, lsm: Log | None, below: Below
) -> dict[str, Metric]:
    """Return the metrics of a phase's program and of RocksDB, by catalogue name."""
    database = rocksdb.metrics(spec, parsed, lsm, below)
    values = load_program.metrics(spec, parsed) if parsed else {}
    return values | catalogued(database)


def _cpu_share(facts: PhaseFacts, name: str) -> float | None:
    use = facts.threads.get(name)
    return use.share(facts.seconds) if use else None


def _zone_commands(facts: PhaseFacts) -> dict[str, MetricValue]:
    """Return counts of zone commands; null unless all commands were traced."""
    seen = facts.traced
    if seen is None or seen.zoned is None or not seen.complete:
        return dict.fromkeys(_ZONES)
    device = seen.zoned
    resets = seen.done(device, "reset", "reset-all")
    return {
        "zone_resets": resets,
        "reset_rate": ratio(resets, facts.seconds),
        "zone_finishes": seen.finishes,
        "zone_opens": seen.done(device, "open"),
        "zone_closes": seen.done(device, "close"),
        "appended": seen.appended(device),
    }
