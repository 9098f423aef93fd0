"""Are the hosts of a campaign alike? Blocks are dealt to them, so differences are declared."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import ConfigError
from harness.plan.facts import host_facts
from harness.store.spec import Inspection

# Which drive it is differs between any two hosts; what kind of drive it is does not.
_IDENTITY = ".identity"
_NAMED = 3  # differences in a message; the plan has all


def differences(hosts: Sequence[tuple[str, Inspection]]) -> tuple[str, ...]:
    """Return one phrase per fact in which a host differs from the first one; () when alike."""
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
    """Refuse hosts that differ: their runs would be averaged as if they were of one machine.

    Raises:
        ConfigError: some fact differs; the first ones are named.
    """
    found = differences(hosts)
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise ConfigError(
            f"the hosts are not alike: {'; '.join(found[:_NAMED])}{more}",
            hint="a campaign for each, or declare it: -e different_hosts=true (--different-hosts)",
            code="different-hosts",
        )
