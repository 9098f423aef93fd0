"""Rules about runs of several tenants."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import RunFacts
from harness.rules.rule import error, issue, rule, warning
from harness.store.result import Issue

# A program that opens its database after the start signal ends a little later than the others.
_SPREAD_SECONDS = 1.0


@rule(
    error(
        "tenant-died",
        "a tenant's program failed or ended early, and the runner stopped the others",
        "from then on the others had the drive to themselves",
    )
)
def all_lived(run: RunFacts) -> Iterator[Issue]:
    """Every tenant runs to its end; if one is missing, the others measure another mix."""
    if run.tenants is not None and run.tenants.died:
        yield issue("tenant-died", f"{run.tenants.died}; the others were stopped")


@rule(
    warning(
        "tenants-without-units",
        "systemd does not run the machine",
        "each tenant's processors and memory are neither limited nor accounted",
    )
)
def own_units(run: RunFacts) -> Iterator[Issue]:
    """Each tenant has a systemd unit, which limits and counts its processor time and memory."""
    if run.tenants is not None and not run.tenants.units:
        yield issue(
            "tenants-without-units",
            "tenants have no systemd units: systemd does not run this machine",
        )


@rule(
    warning(
        "tenants-apart",
        "tenants that last to the end ended more than a second apart",
        "some tenants were missing for that time",
    )
)
def together(run: RunFacts) -> Iterator[Issue]:
    """Tenants that last to the end finish at about the same time."""
    if run.tenants is not None and run.tenants.spread > _SPREAD_SECONDS:
        yield issue(
            "tenants-apart",
            f"the tenants ended {run.tenants.spread:.1f} s apart",
            expected=_SPREAD_SECONDS,
            actual=round(run.tenants.spread, 3),
        )
