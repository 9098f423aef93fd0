"""The runs of a mix: one in which all tenants share, and one for each tenant alone, per block.

The factor ``mix`` of a run is ``shared`` or ``solo-<tenant>``; ``raw/tenants.json`` says who was
there, when all measured together, and which zones belong to whom.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.load import RunRecord, corrupt
from harness.store import packed
from harness.store.codec import SCHEMA_VERSION

FACTOR, SHARED, SOLO = "mix", "shared", "solo-"
NAME = "raw/tenants.json"


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of several workloads that run at once.

    ``zones`` is its part of ``device`` as (first zone, number of zones), null where it has all of
    it. ``start_offset`` is in seconds after the barrier.
    """

    name: str
    level: str
    phase: str
    weight: float
    device: str
    zones: tuple[int, int] | None
    start_offset: float
    unit: str

    def owns(self, device: str, zone: int | None) -> bool:
        """Whether a zone is this tenant's; ``zone`` is null where a whole device is meant."""
        if device != self.device:
            return False
        if self.zones is None or zone is None:
            return True
        first, count = self.zones
        return first <= zone < first + count

    def key(self, metric: str) -> str:
        """Return the key of one of its metrics in ``result.json``."""
        return f"{self.name}.{self.phase}.{metric}"


@dataclass(frozen=True, slots=True)
class Together:
    """``raw/tenants.json``: who measured from ``began`` to ``ended``, seconds of the run."""

    began: float
    ended: float
    tenants: tuple[Tenant, ...]

    @property
    def seconds(self) -> float:
        """How long all measured."""
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Mix:
    """The ok runs of a mix; ``label`` names the other factors' values, empty where none varies."""

    label: str
    tenants: tuple[Tenant, ...]
    shared: tuple[RunRecord, ...]
    solo: dict[str, tuple[RunRecord, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The tenants, in their order."""
        return tuple(tenant.name for tenant in self.tenants)

    def values(self, tenant: Tenant, metric: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return block → value of a tenant's metric, alone and shared."""
        key = tenant.key(metric)
        return by_block(self.solo.get(tenant.name, ()), key), by_block(self.shared, key)


def read(run: RunRecord) -> Together | None:
    """Return who ran together; None where the run has no tenants.

    Raises:
        RunFailed: the file is damaged, or from another schema.
    """
    text = packed.text(run.path / NAME)
    if not text:
        return None
    try:
        told = json.loads(text)
        if told["schema_version"] != SCHEMA_VERSION:
            raise ValueError("another schema")
        tenants = tuple(_tenant(one) for one in told["tenants"])
        return Together(float(told["began"]), float(told["ended"]), tenants)
    except (KeyError, ValueError, TypeError):
        raise corrupt(f"{run.name}/{NAME} does not say who ran together") from None


def mixes(runs: Iterable[RunRecord]) -> list[Mix]:
    """Return the mixes of which a shared run is ok, one per combination of the other factors."""
    members = [run for run in runs if run.ok and FACTOR in run.result.factors]
    names = sorted({name for run in members for name in run.result.factors} - {FACTOR})
    varying = [
        name for name in names if len({str(run.result.factors.get(name)) for run in members}) > 1
    ]
    groups: dict[str, list[RunRecord]] = {}
    for run in members:
        label = ", ".join(f"{name} {run.result.factors.get(name)}" for name in varying)
        groups.setdefault(label, []).append(run)
    found = (_mix(label, group) for label, group in sorted(groups.items()))
    return [mix for mix in found if mix is not None]


def by_block(runs: Iterable[RunRecord], key: str) -> dict[str, float]:
    """Return block → value of the runs that measured it."""
    return {run.block_key(FACTOR): value for run in runs if (value := run.value(key)) is not None}


def _mix(label: str, runs: Sequence[RunRecord]) -> Mix | None:
    value = {id(run): str(run.result.factors[FACTOR]) for run in runs}
    shared = tuple(run for run in runs if value[id(run)] == SHARED)
    together = next((found for run in shared if (found := read(run)) is not None), None)
    if together is None:
        return None
    solo = {
        tenant.name: tuple(run for run in runs if value[id(run)] == SOLO + tenant.name)
        for tenant in together.tenants
    }
    return Mix(label, together.tenants, shared, solo)


def _tenant(told: dict[str, Any]) -> Tenant:
    zones = told["zones"]
    return Tenant(
        name=str(told["name"]),
        level=str(told["level"]),
        phase=str(told["phase"]),
        weight=_positive(told["weight"]),
        device=Path(str(told["device"])).name,
        zones=None if zones is None else (int(zones[0]), int(zones[1])),
        start_offset=float(told["start_offset"] or 0.0),
        unit=str(told["unit"]),
    )


def _positive(value: object) -> float:
    number = float(value) if isinstance(value, int | float) else 0.0
    if not number > 0:
        raise ValueError("no weight")
    return number
