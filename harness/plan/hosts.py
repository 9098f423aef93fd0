"""Comparison of the hosts of a campaign, among which its blocks are distributed."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import ConfigError
from harness.plan.host_changes import host_facts
from harness.store.spec import Inspection

# Identities differ between any two hosts. All other facts must be equal.
_IDENTITY = ".identity"
_NAMED = 3  # differences in a message; the plan lists all


def differences(hosts: Sequence[tuple[str, Inspection]]) -> tuple[str, ...]:
    """Return one phrase per fact in which a host differs from the first host."""
    if not hosts:
        return ()
    (first, inspection), *others = hosts
    base = host_facts(inspection)
    return tuple(
        f"{fact}: {first} {base.get(fact)}, {name} {facts.get(fact)}"
        for name, facts in ((name, host_facts(found)) for name, found in others)
        for fact in sorted(base.keys() | facts.keys())
        if not fact.endswith(_IDENTITY) and base.get(fact) != facts.get(fact)
    )


def require_alike(hosts: Sequence[tuple[str, Inspection]]) -> None:
    """Refuse hosts that differ, because runs of a cell are averaged over hosts.

    Raises:
        ConfigError: a fact differs; the message names the first ones.
    """
    found = differences(hosts)
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise ConfigError(
            f"the hosts differ: {'; '.join(found[:_NAMED])}{more}",
            hint="plan one campaign each, or allow it: -e different_hosts=true (--different-hosts)",
            code="different-hosts",
        )
