"""Is a full device the answer to the study's question? Then it is told with its arithmetic."""

from __future__ import annotations

from harness.rules.facts import PhaseFacts
from harness.run.ledger import Point
from harness.store.spec import TRADES_ROOM, Reason, RunSpec

# As RocksDB and the C library say it.
_FULL = ("No space left", "NoSpace", "ENOSPC")
_MIB = 2**20


def full(spec: RunSpec, facts: PhaseFacts, after: Point) -> Reason | None:
    """Return why this setting cannot hold the data; None where that is not what went wrong.

    Args:
        spec: the run's.
        facts: of the phase that did not end well.
        after: the barrier behind it.
    """
    told = facts.output + facts.database_log
    if not TRADES_ROOM & spec.factors.keys() or not any(word in told for word in _FULL):
        return None
    own = after.usage.own
    capacity = spec.device.capacity
    if own is None:
        spent = f"{(sum(after.allocated or ())) / _MIB:.0f} MiB are allocated"
    else:
        kinds = {"live": "live", "given up by finishing": "pad", "garbage": "garbage"}
        known = {words: own.space.get(kind, 0) for words, kind in kinds.items()}
        known["empty, kept back, being filled or metadata"] = capacity - sum(known.values())
        spent = " + ".join(f"{size / _MIB:.0f} MiB {words}" for words, size in known.items())
    return Reason(
        "infeasible",
        f"{spec.level} has no room left in phase {facts.spec.name}: {spent} of "
        f"{capacity / _MIB:.0f} MiB",
        "a higher finish_occupancy_pct gives up less; or lower target_utilisation",
    )
