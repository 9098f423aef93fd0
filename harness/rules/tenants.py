"""Rules about runs of several tenants."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.phases import issue
from harness.store.result import Issue, Severity

# Programs that open their database after they were released measure a little later than others.
_SPREAD_SECONDS = 1.0


def all_lived(run: RunFacts) -> Iterator[Issue]:
    """Who died does not disturb the others any more: what they did is of another mix."""
    if run.tenants is not None and run.tenants.died:
        yield issue("tenant-died", Severity.ERROR, f"{run.tenants.died}; the others were stopped")


def own_units(run: RunFacts) -> Iterator[Issue]:
    """Without a unit of its own a tenant's processor time and memory are nobody's."""
    if run.tenants is not None and not run.tenants.units:
        yield issue(
            "tenants-without-units",
            Severity.WARNING,
            "tenants had no units of their own: systemd does not run this machine",
        )


def together(run: RunFacts) -> Iterator[Issue]:
    """Tenants that last to the end have to end at about the same time."""
    if run.tenants is not None and run.tenants.spread > _SPREAD_SECONDS:
        yield issue(
            "tenants-apart",
            Severity.WARNING,
            f"the tenants ended {run.tenants.spread:.1f} s apart: for that long not all were there",
            expected=_SPREAD_SECONDS,
            actual=round(run.tenants.spread, 3),
        )
