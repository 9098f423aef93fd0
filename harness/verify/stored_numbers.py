"""Compares stored numbers with those that raw files give, for ``zonelab verify``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.levels import LEVELS
from harness.run import ledger
from harness.run.tenant import prefixed
from harness.store import packed
from harness.store.ledger import Ledger
from harness.store.result import CUT_SHORT, Metric, Result, Utilisation
from harness.verify.stored import StoredTenant

# These metrics of a tenant need the timeline, which is not stored if tracing fails at the end.
OF_TENANT = frozenset({"zone_resets", "zone_finishes"})
# Fields that follow from the barriers.
_UTILISATION = (
    *("live_bytes", "cold_bytes", "database_bytes", "allocated_bytes", "capacity_bytes"),
    *("u_ns", "max_utilisation"),
)
# The runner's peak memory, which is in no raw file.
_UNCHECKED = frozenset({"run.harness_memory_peak"})


def ledgers(name: str, stored: Ledger, again: Ledger) -> Iterator[str]:
    """Return one line per number of a ledger that differs."""
    names = [entry.name for entry in again.entries]
    if [entry.name for entry in stored.entries] != names:
        yield f"{name}: its entries are not {', '.join(names)}"
        return
    for entry, other in zip(stored.entries, again.entries, strict=True):
        for field in entry.__slots__:
            value, wanted = getattr(entry, field), getattr(other, field)
            if value != wanted:
                yield f"{name}: {entry.name}.{field}: has {value}, raw/ gives {wanted}"


def metrics(stored: Mapping[str, Metric], again: Mapping[str, Metric]) -> Iterator[str]:
    """Return one line per metric that differs from the recomputed one."""
    for key in sorted(again):
        if key not in stored:
            if again[key].value is not None:
                yield f"{key}: is not in result.json"
        elif stored[key] != again[key]:
            yield f"{key}: result.json has {stored[key].value}, raw/ gives {again[key].value}"


def utilisation(used: Utilisation, stored: StoredTenant, capacity: int) -> Iterator[str]:
    """Compare V and A, which are measured at the barrier after the last fill phase."""
    database = stored.filled.counters.database_bytes
    largest = stored.snapshots[0].largest_utilisation(capacity)
    again = ledger.utilisation(stored.spec.cold, stored.filled, database, capacity, largest)
    for name in _UTILISATION:
        value, wanted = getattr(used, name), getattr(again, name)
        if value != wanted:
            yield f"utilisation.{name}: result.json has {value}, raw/ gives {wanted}"


def own_counts(raw: Path, tenant: StoredTenant, result: Result) -> Iterator[str]:
    """Compare a level's own counts at the last barrier with its own ledger.

    If a run ends in a phase, for example because its drive goes away, the level counts on after
    this barrier.
    """
    usage, spec = tenant.snapshots[-1].usage, tenant.spec
    stored = usage.own
    if stored is None:
        return
    level = LEVELS.get(spec.level)
    if level is None:
        yield f"level {spec.level} is unknown: its own counts cannot be computed again"
        return
    name = prefixed(spec.name, level.own_ledger)
    opened = packed.opened(raw / name)
    if opened is None:
        yield f"raw/{name}.xz: is missing"
        return
    device = spec.device if spec.name else result.device
    with opened as lines:
        totals, collected = level.own_totals(lines, device)
    cut = result.status in CUT_SHORT
    for part in ("payload", "filling", "given_up", "finishes", "resets"):
        value, wanted = getattr(stored, part), getattr(totals, part)
        if value != wanted and not (cut and _is_part(value, wanted)):
            yield f"the last usage.json has {part} {value}, raw/{name} gives {wanted}"
    if usage.gc_seconds != collected and not (cut and _is_part(usage.gc_seconds, collected)):
        yield (
            f"the last usage.json has gc_seconds {usage.gc_seconds}, raw/{name} gives {collected}"
        )


def _is_part(value: Any, whole: Any) -> bool:
    """Return whether counts, by cause or not, are at most the later ones."""
    if isinstance(value, Mapping):
        return all(count <= whole.get(cause, 0) for cause, count in value.items())
    return value is not None and whole is not None and bool(value <= whole)


def invented(stored: Mapping[str, Metric], again: Mapping[str, Metric]) -> Iterator[str]:
    """Return one line per metric that raw files do not give."""
    for key in sorted(stored.keys() - again.keys() - _UNCHECKED):
        unknown = key.rpartition(".")[2] in OF_TENANT
        if stored[key].value is not None and not unknown:
            yield f"{key}: result.json has {stored[key].value}, raw/ gives no such metric"
