"""A rule about caches: reads from memory do not measure the device."""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.facts import PhaseFacts, RunFacts
from harness.rules.rule import issue, rule, warning
from harness.store.result import Issue
from harness.workloads import rocksdb

# Above half, the phase measures memory rather than the device.
_MOST = 0.5


@rule(
    warning(
        "cache-served",
        "caches below RocksDB served more than half of the reads of a phase that only reads",
        "reads from the page cache have been published as reads of the device",
    )
)
def reads_reached_the_device(run: RunFacts) -> Iterator[Issue]:
    """Reads reach the device. Phases that write are left out: their compactions read, too."""
    for phase in run.phases:
        served = _served(phase)
        if served is not None and served > _MOST:
            yield issue(
                "cache-served",
                f"caches served {served:.0%} of the reads of {phase.spec.name}",
                phase,
                expected=_MOST,
                actual=round(served, 6),
            )


def _served(phase: PhaseFacts) -> float | None:
    if not phase.measured or phase.spec.user_bytes_per_operation > 0:
        return None
    metrics = rocksdb.metrics(phase.spec, phase.parsed, phase.lsm, phase.below)
    return metrics.get("cache_served_share")
