"""Metrics of a whole run and of each tenant; the runner and ``zonelab verify`` compute them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.nulls import ratio, total
from harness.rules import bandwidth
from harness.rules.facts import PhaseFacts
from harness.run import phase_metrics
from harness.run.tenant import prefixed
from harness.store.ledger import COLD, RUN, Ledger, LedgerEntry
from harness.store.result import Metric, Utilisation, catalogued
from harness.store.spec import RunSpec
from harness.workloads.rocksdb import MetricValue

# Pad and finishes by cause; null if the causes are unknown.
CAUSES = {
    f"{what}_{cause.replace('-', '_')}": (what, cause)
    for what in ("pad", "finishes")
    for cause in ("threshold", "active-limit", "metadata-roll", "explicit")
}


def of_tenant(
    tenant: str, facts: Sequence[PhaseFacts], ledger: Ledger | None, *, alone: bool
) -> dict[str, Metric]:
    """Return the metrics of a tenant's phases and of its ledger.

    Args:
        tenant: its name, empty in a plain run.
        facts: the facts of its phases.
        ledger: null if others share its devices, or nothing was measured.
        alone: no other tenant uses its file system.
    """
    metrics: dict[str, Metric] = {}
    for one in facts:
        metrics |= (
            phase_metrics.metrics(one) if alone else phase_metrics.metrics_without_devices(one)
        )
    for key, metric in (of_ledger(ledger) if ledger else {}).items():
        metrics[prefixed(tenant, key) if key.startswith(f"{RUN}.") else key] = metric
    return metrics


def cpu_spent(own: float | None, load: float | None) -> float | None:
    """Return the CPU seconds of the harness and the load together, None without a load."""
    return total((own, load)) if load else None


def of_plain_run(
    spec: RunSpec, facts: Sequence[PhaseFacts], utilisation: Utilisation | None
) -> dict[str, Metric]:
    """Return utilisation, CPU shares and bandwidth shares of a run without tenants."""
    measured = [one for one in facts if one.measured]
    own = total([one.harness_seconds for one in measured])
    load = total([one.load_seconds for one in measured])
    spent = cpu_spent(own, load)
    kernel = total([one.traced.kernel_seconds if one.traced else None for one in measured])
    used, largest = (utilisation.u_ns, utilisation.max_utilisation) if utilisation else (None, None)
    return {
        "run.utilisation": Metric(used, "1"),
        "run.max_utilisation": Metric(largest, "1"),
        "run.harness_cpu_share": Metric(ratio(own, spent), "1"),
        "run.tracer_cpu_share": Metric(ratio(kernel, spent), "1"),
    } | {
        f"{one.spec.name}.bandwidth_share": Metric(bandwidth.share(spec, one), "1") for one in facts
    }


def of_ledger(ledger: Ledger) -> dict[str, Metric]:
    """Return ``<phase>.<metric>`` and ``run.<metric>`` of every entry except the cold fill."""
    found: dict[str, Metric] = {}
    for entry in ledger.entries:
        if entry.name != COLD:
            totals = _ledger_totals(entry) if entry.name == RUN else {}
            found |= catalogued({**totals, **_ledger_values(entry)}, entry.name)
    return found


def _ledger_totals(entry: LedgerEntry) -> dict[str, MetricValue]:
    """Return the metrics of the whole run that phase_metrics.py computes for single phases."""
    written = total((entry.wal, entry.flush, entry.compaction))
    device = sum(entry.submitted.values())
    return {
        "user_bytes": entry.user,
        "device_written": device,
        "device_read": sum(entry.read.values()),
        "write_amplification": ratio(device, entry.user),
        "rocksdb_written": written,
        "wa_lsm": ratio(written, entry.user),
        "level_write_amplification": ratio(device, written),
        "gc_bytes": entry.gc,
    }


def _ledger_values(entry: LedgerEntry) -> dict[str, MetricValue]:
    """Return the metrics that only the ledger has."""
    device = sum(entry.submitted.values())
    pad = sum(entry.pad.values()) if entry.pad is not None else None
    media = total(entry.media.values()) if entry.media else None
    garbage, live = entry.space.get("garbage"), entry.live
    dead = entry.allocated - live if entry.allocated is not None else None
    reached = entry.since_up
    return {
        "small_files_bytes": entry.other,
        "level_overhead": entry.overhead,
        "pad_bytes": pad,
        "media_bytes": media,
        "wa_pad": ratio(device + pad if pad is not None else None, device),
        "wa_dev": ratio(media, device),
        "wa_total": ratio(media, entry.user),
        "allocated_bytes": entry.allocated,
        "live_bytes": live,
        "dead_bytes": dead,
        "garbage_bytes": garbage,
        "space_amplification": ratio(entry.allocated, live),
        "sa_host": ratio(reached + garbage if garbage is not None else None, reached),
        **{
            name: ((entry.pad if what == "pad" else entry.finishes) or {}).get(cause)
            for name, (what, cause) in CAUSES.items()
        },
    }
