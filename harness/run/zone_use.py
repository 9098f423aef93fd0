"""A tenant's use of its zones in its measured phase, for the runner and ``zonelab verify``."""

from __future__ import annotations

from collections.abc import Sequence

from harness.nulls import ratio, total
from harness.observe.tracing.tenant_tracer import Activity
from harness.observe.tracing.zone_history import Traced
from harness.rules.facts import PhaseFacts
from harness.run.run_metrics import cpu_spent
from harness.store.result import Metric, Utilisation, catalogued
from harness.tools.kernel import version_of

# blk_types.h: BLK_STS_ZONE_OPEN_RESOURCE and BLK_STS_ZONE_ACTIVE_RESOURCE. Linux 6.10 removed a
# status before them, so both are one less since.
_DENIED, _DENIED_BEFORE, _DENIED_CHANGED = (14, 15), (15, 16), (6, 10)


def denied_opens(release: str, device: str, seen: Traced) -> int:
    """Return how many commands failed at a zone limit; ``release`` is as uname prints it."""
    denied = _DENIED if version_of(release) >= _DENIED_CHANGED else _DENIED_BEFORE
    return sum(
        commands
        for (name, _, status), commands in seen.commands.items()
        if name == device and status in denied
    )


def metrics(
    phase: str,
    activity: Activity | None,
    denied: int | None,
    utilisation: Utilisation | None,
    max_utilisation: float | None,
) -> dict[str, Metric]:
    """Return how a tenant used its zones in its measured phase."""
    values: dict[str, int | float | None] = {
        "active_zone_seconds": round(activity.active_seconds, 6) if activity else None,
        "denied_opens": denied,
        "utilisation": utilisation.u_ns if utilisation else None,
        "max_utilisation": max_utilisation,
    }
    if activity is not None:
        values |= {"zone_resets": activity.resets, "zone_finishes": activity.finishes}
    return catalogued(values, phase)


def cpu_share(own: float | None, tenants: Sequence[Sequence[PhaseFacts]]) -> Metric:
    """Return the harness's share of the CPU time in the common window; ``own`` is in seconds."""
    spent = [facts[-1].load_seconds for facts in tenants if facts]
    load = total(spent) if spent else None
    return Metric(ratio(own, cpu_spent(own, load)), "1")
