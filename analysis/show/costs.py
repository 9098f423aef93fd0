"""The costs of each phase: CPU time, reads served by caches, use of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from analysis import numbers
from analysis.read.load import CampaignData, RunRecord
from harness.store.spec import DeviceKind
from harness.tables import Table, tabulate


class _Phase(NamedTuple):
    run: RunRecord
    name: str

    def value(self, metric: str) -> float | None:
        return self.run.value(f"{self.name}.{metric}")


def table(campaign: CampaignData) -> Table:
    """Return one row per measured phase of the ok runs."""
    phases = (
        _Phase(run, phase.name) for run in campaign.latest if run.ok for phase in run.measured
    )
    return tabulate(_COLUMNS, phases)


def _bandwidth(phase: _Phase) -> str:
    """Return the share of the device's bandwidth, or why there is none."""
    share = phase.value("bandwidth_share")
    kind = phase.run.result.device.kind
    if share is None and kind is not DeviceKind.HARDWARE:
        return f"null: the bandwidth limit of a device that is {kind.value} is unknown"
    return "null: the drive's bandwidth limit is unknown" if share is None else f"{share:.1%}"


def _percent(metric: str) -> Callable[[_Phase], str]:
    return lambda phase: numbers.formatted(phase.value(metric), ".1%")


_COLUMNS: dict[str, Callable[[_Phase], str]] = {
    "run": lambda phase: phase.run.name,
    "phase": lambda phase: phase.name,
    "CPU per operation": lambda phase: numbers.human(phase.value("cpu_per_operation"), "us"),
    "CPU time": lambda phase: numbers.human(phase.value("cpu_seconds"), "s"),
    "reads served by caches": _percent("cache_served_share"),
    "device busy": _percent("device_busy_share"),
    "bandwidth used": _bandwidth,
}
