"""Runs of a mix: per block, one with all tenants and one with each tenant alone.

The factor ``mix`` of a run is ``shared`` or ``solo-<tenant>``. ``raw/tenants.json`` lists the
tenants, the time in which all measured, and each tenant's zones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.judge.select import by_block, strata
from analysis.read.grouping import grouped
from analysis.read.load import RunRecord, corrupt
from harness.store import packed
from harness.store.codec import SCHEMA_VERSION

FACTOR, SHARED, SOLO = "mix", "shared", "solo-"
NAME = "raw/tenants.json"


@dataclass(frozen=True, slots=True)
class TenantRun:
    """One of several workloads that run at once.

    ``zones`` are the numbers of its zones of ``device``, null for the whole device.
    """

    name: str
    phase: str
    weight: float
    device: str
    zones: range | None

    def owns(self, device: str, zone: int | None) -> bool:
        """Whether a zone is this tenant's; a null ``zone`` stands for the whole device."""
        if device != self.device:
            return False
        return self.zones is None or zone is None or zone in self.zones

    def key(self, metric: str) -> str:
        """Return the key of one of its metrics in ``result.json``."""
        return f"{self.name}.{self.phase}.{metric}"


@dataclass(frozen=True, slots=True)
class SharedSpan:
    """``raw/tenants.json``: all measured from ``began`` to ``ended``, in seconds of the run."""

    began: float
    ended: float
    tenants: tuple[TenantRun, ...]


@dataclass(frozen=True, slots=True)
class Mix:
    """Ok runs of a mix; ``label`` has the values of the other factors, '' when none varies."""

    label: str
    tenants: tuple[TenantRun, ...]
    shared: tuple[RunRecord, ...]
    solo: dict[str, tuple[RunRecord, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tenants, in order."""
        return tuple(tenant.name for tenant in self.tenants)

    def values(self, tenant: TenantRun, metric: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return block → value of a tenant's metric: alone, and shared."""
        key = tenant.key(metric)
        alone = by_block(self.solo.get(tenant.name, ()), key, FACTOR)
        return alone, by_block(self.shared, key, FACTOR)


def read(run: RunRecord) -> SharedSpan | None:
    """Return the tenants of a run, None for a run without tenants.

    Raises:
        RunFailed: the file is damaged or has another schema.
    """
    text = packed.text(run.path / NAME)
    if not text:
        return None
    try:
        record = json.loads(text)
        if record["schema_version"] != SCHEMA_VERSION:
            raise ValueError("another schema")
        tenants = tuple(_tenant(one) for one in record["tenants"])
        return SharedSpan(float(record["began"]), float(record["ended"]), tenants)
    except (KeyError, ValueError, TypeError):
        raise corrupt(f"{run.name}/{NAME} does not list the tenants of the run") from None


def mixes(runs: Iterable[RunRecord]) -> list[Mix]:
    """Return the mixes with an ok shared run, one per combination of the other factors."""
    members = [run for run in runs if run.ok and FACTOR in run.result.factors]
    groups = strata(members, FACTOR)
    return [mix for label, own in groups.items() if (mix := _mix(label, own)) is not None]


def _mix(label: str, runs: Sequence[RunRecord]) -> Mix | None:
    by_value = grouped(runs, lambda run: str(run.result.factors[FACTOR]))
    shared = tuple(by_value.get(SHARED, ()))
    together = next((tenants for run in shared if (tenants := read(run)) is not None), None)
    if together is None:
        return None
    solo = {one.name: tuple(by_value.get(SOLO + one.name, ())) for one in together.tenants}
    return Mix(label, together.tenants, shared, solo)


def _tenant(record: dict[str, Any]) -> TenantRun:
    zones = record["zones"]
    return TenantRun(
        name=str(record["name"]),
        phase=str(record["phase"]),
        weight=_positive(record["weight"]),
        device=Path(str(record["device"])).name,
        zones=None if zones is None else range(int(zones[0]), int(zones[0]) + int(zones[1])),
    )


def _positive(value: object) -> float:
    number = float(value) if isinstance(value, int | float) else 0.0
    if not number > 0:
        raise ValueError("no weight")
    return number
