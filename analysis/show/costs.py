"""The costs of each phase: CPU time, reads served by caches, use of the device."""

from __future__ import annotations

from analysis import numbers
from analysis.read.load import CampaignData, RunRecord
from harness.store.spec import DeviceKind
from harness.tables import Table


def table(campaign: CampaignData) -> Table:
    """Return one row per measured phase of the ok runs."""
    rows = [_row(run, phase.name) for run in campaign.latest if run.ok for phase in run.measured]
    return Table(_COLUMNS, rows)


def _row(run: RunRecord, phase: str) -> tuple[str, ...]:
    per_operation, seconds, served, busy = (run.value(f"{phase}.{name}") for name in _METRICS)
    return (
        run.name,
        phase,
        numbers.human(per_operation, "us"),
        numbers.human(seconds, "s"),
        numbers.formatted(served, ".1%"),
        numbers.formatted(busy, ".1%"),
        _bandwidth(run, phase),
    )


def _bandwidth(run: RunRecord, phase: str) -> str:
    """Return the share of the device's bandwidth, or why there is none."""
    share = run.value(f"{phase}.bandwidth_share")
    kind = run.result.device.kind
    if share is None and kind is not DeviceKind.HARDWARE:
        return f"null: the bandwidth limit of a device that is {kind.value} is unknown"
    return "null: the drive's bandwidth limit is unknown" if share is None else f"{share:.1%}"


_METRICS = ("cpu_per_operation", "cpu_seconds", "cache_served_share", "device_busy_share")
_COLUMNS = (
    *("run", "phase", "CPU per operation", "CPU time"),
    *("reads served by caches", "device busy", "bandwidth used"),
)
