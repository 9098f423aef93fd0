"""What each phase cost in CPU time, who served its reads, and how much of the drive it used."""

from __future__ import annotations

from analysis import units
from analysis.load import CampaignData, RunRecord
from harness.store.spec import DeviceKind

HEADER = (
    "run", "phase", "CPU per operation", "CPU time", "reads served by caches", "device busy",
    "bandwidth used",
)  # fmt: skip


def rows(campaign: CampaignData) -> list[tuple[str, ...]]:
    """Return one row per measured phase of the ok runs."""
    return [
        (
            run.name, phase.name,
            units.human(run.value(f"{phase.name}.cpu_per_operation"), "us"),
            units.human(run.value(f"{phase.name}.cpu_seconds"), "s"),
            _percent(run.value(f"{phase.name}.cache_served_share")),
            _percent(run.value(f"{phase.name}.device_busy_share")),
            _bandwidth(run, phase.name),
        )
        for run in campaign.latest if run.ok
        for phase in run.measured
    ]  # fmt: skip


def _bandwidth(run: RunRecord, phase: str) -> str:
    """Return the share, or why there is none."""
    share = run.value(f"{phase}.bandwidth_share")
    if share is None and run.result.device.kind is not DeviceKind.HARDWARE:
        return "null: an emulated device has no cap"
    return "null: the drive's cap is not known" if share is None else _percent(share)


def _percent(share: float | None) -> str:
    return units.DASH if share is None else f"{share:.1%}"
