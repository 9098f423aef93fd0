"""Ratios of a workload to its drive. They carry over to a drive of another size; bytes do not."""

from __future__ import annotations

from collections.abc import Callable

from analysis import numbers
from analysis.read.load import CampaignData, RunRecord
from harness.tables import Table, tabulate


def table(campaign: CampaignData) -> Table:
    """Return one row per cell, of its first ok run that measured its utilisation."""
    first: dict[str, RunRecord] = {}
    for run in campaign.latest:
        if run.ok and run.result.utilisation is not None:
            first.setdefault(run.cell, run)
    return tabulate(_COLUMNS, first.values())


def _capacity(run: RunRecord) -> int | None:
    used = run.result.utilisation
    return used.capacity_bytes if used else None


def _database(run: RunRecord) -> int | None:
    used = run.result.utilisation
    return used.database_bytes if used else None


def _flag(run: RunRecord, name: str) -> float | None:
    """Return a number of the load program, the same in all phases of a run."""
    values = (phase.flags.get(name) for phase in run.spec.phases)
    return next((float(value) for value in values if isinstance(value, int)), None)


def _ratio(value: float | None, to: float | None) -> str:
    return numbers.ratio(value / to if value is not None and to else None)


_COLUMNS: dict[str, Callable[[RunRecord], str]] = {
    "cell": lambda run: run.cell,
    "capacity": lambda run: numbers.human(_capacity(run), "B"),
    "zones": lambda run: str(run.spec.device.zones or numbers.DASH),
    "files per zone": lambda run: _ratio(
        run.spec.device.zone_capacity, _flag(run, "target_file_size_base")
    ),
    "database / capacity": lambda run: _ratio(_database(run), _capacity(run)),
    "database / memtable": lambda run: _ratio(_database(run), _flag(run, "write_buffer_size")),
    "device writes / capacity": lambda run: _ratio(run.value("run.device_written"), _capacity(run)),
}
