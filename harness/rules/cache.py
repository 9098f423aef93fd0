"""A rule about caches: reads that no device saw are no reads of the level."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.phases import issue
from harness.store.result import Issue, Severity
from harness.workloads import rocksdb

# From here on the phase says more about memory than about the device.
_MOST = 0.5


def reads_reached_the_device(run: RunFacts) -> Iterator[Issue]:
    """Of phases that only read; in others, what compactions read hides what users did."""
    for phase in run.phases:
        served = _served(phase)
        if served is not None and served > _MOST:
            yield issue(
                "cache-served",
                Severity.WARNING,
                f"caches served {served:.0%} of what {phase.spec.name} read",
                phase,
                expected=_MOST,
                actual=round(served, 6),
            )


def _served(phase: PhaseFacts) -> float | None:
    if not phase.measured or phase.spec.user_bytes_per_operation > 0:
        return None
    found = rocksdb.metrics(phase.spec, phase.parsed, phase.lsm, phase.below)
    return found.get("cache_served_share")
